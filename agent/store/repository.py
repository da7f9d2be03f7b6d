"""The user's git repository around a directory, as files: nothing is run and nothing is written.

What its files say is nobody's word: a path that leads somewhere odd is read from at most.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from agent.errors import UsageError
from agent.store import git
from agent.store.disk import contents

MOST = 1_000_000  # bytes of a file of settings or of names to ignore
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*\"?sha256", re.IGNORECASE | re.MULTILINE)
_EXCLUDES = re.compile(
    rb'^\s*excludesfile\s*=\s*"?([^"\r\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE
)


class Repository(Struct, frozen=True, kw_only=True):
    """Where a repository keeps what we read of it."""

    top: Path  # of the working tree
    index: Path  # need not be there
    objects: Path
    common: Path  # what its worktrees share
    sha256: bool  # its ids are not those that we make

    @classmethod
    def of(cls, cwd: Path) -> Self | None:
        """The repository that `cwd` is in; None where there is none, or none we understand."""
        top = git.root(cwd)
        if top is None:
            return None
        place = top / ".git"
        if not place.is_dir():  # of a worktree or a submodule: a file that says where
            word = _read(place).strip()
            if not word.startswith(b"gitdir: "):
                return None
            place = top / os.fsdecode(word.removeprefix(b"gitdir: "))
        common = place
        if word := _read(place / "commondir").strip():
            common = place / os.fsdecode(word)
        if not (common / "objects").is_dir():
            return None
        return cls(
            top=top,
            index=place / "index",
            objects=Path(os.path.realpath(common / "objects")),
            common=common,
            sha256=_SHA256.search(_read(common / "config")) is not None,
        )

    def ignored(self, env: Mapping[str, str]) -> bytes:
        """What the user has git ignore besides the tree's own .gitignore files, as patterns."""
        return b"\n".join([*_of_user(self, env), _read(self.common / "info/exclude")])


def _of_user(repository: Repository, env: Mapping[str, str]) -> Iterator[bytes]:
    """The patterns of the user's own file: that of the repository, of the user, the usual one."""
    home = Path(env.get("HOME") or os.devnull)
    settings = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    for config in (repository.common / "config", home / ".gitconfig", settings / "config"):
        if found := _EXCLUDES.findall(_read(config)):
            name = os.fsdecode(found[-1])
            path = home / name[2:] if name.startswith("~/") else repository.top / name
            yield _read(path)
            return
    yield _read(settings / "ignore")


def _read(path: Path) -> bytes:
    """What a small file holds; nothing where it can't be read."""
    try:
        return contents(path, MOST)
    except UsageError:
        return b""
