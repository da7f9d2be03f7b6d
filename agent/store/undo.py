"""Taking back what work has changed: which files, back to what, and what is left alone.

What work has changed is, path by path, the difference from its first tree before to its last
tree after, and nothing else. A file that somebody else has changed since, or in between, is not
touched unless the user says so; nor is one that changed while a run was at work although none of
its steps had said that it would write it.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agent.errors import AgentError
from agent.order import overlap
from agent.store import workspace
from agent.store.census import MARK
from agent.store.lines import Lines
from agent.store.putback import ChangedError, clear, put_back
from agent.store.snapshots import Entry, Snapshots
from agent.store.tree import FAULTS
from agent.store.worked import Began, Ended, Part, Work, decode, encode

Why: TypeAlias = Literal["", "since", "between", "unsure", "large", "lost"]
"""Why a file is not just put back: it was changed since; or by somebody else in between; or while
the work went on, and none of it had said that it would; its content was too large to be kept; or
is lost."""


class Change(Struct, frozen=True, kw_only=True):
    """A file that can be put back."""

    path: str  # relative to the working directory
    old: Entry | None  # what it was before the work; None: no file
    new: Entry | None  # what the work has made of it
    now: Entry | None
    why: Why = ""
    lines: tuple[int, int] | None = None  # that it gains and loses so; None: it is no text

    @property
    def what(self) -> str:
        """What happens to it, in a word or two."""
        if self.old is None:
            return "removed"
        return "changed back" if self.now else "restored"

    @property
    def possible(self) -> bool:
        """Whether it is known what it was."""
        return self.why != "lost" and (self.old is None or self.old.mode != MARK)


class Preview(Struct, frozen=True, kw_only=True):
    """What can be taken back, as the directory stands."""

    works: tuple[Work, ...]  # oldest first
    now: str  # the tree
    changes: tuple[Change, ...]  # by path

    @property
    def sure(self) -> tuple[Change, ...]:
        """What needs no further question."""
        return tuple(change for change in self.changes if not change.why)

    @property
    def asked(self) -> tuple[Change, ...]:
        """What is left alone unless the user says otherwise."""
        return tuple(change for change in self.changes if change.why)

    def chosen(self, also: Collection[str] = ()) -> tuple[Change, ...]:
        """What is sure, and what can be done of the paths `also`."""
        return tuple(
            change
            for change in self.changes
            if not change.why or (change.path in also and change.possible)
        )


class Done(Struct, frozen=True, kw_only=True):
    """What has become of it."""

    id: str = ""  # of the undo, by which it can be taken back; "": there was nothing to do
    changed: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()  # left alone
    failed: tuple[tuple[str, str], ...] = ()  # paths, and why they could not be put back


def preview(store: Snapshots, works: Sequence[Work]) -> Preview:
    """What taking back all of `works` would change. Raises AgentError."""
    ordered = tuple(sorted(works, key=lambda work: work.time))
    _check(store, ordered)
    now = store.keep()
    sure: dict[str, _Chain] = {}
    loose: dict[str, _Chain] = {}  # what differs, but need not be of their making
    for part in (part for work in ordered for part in work.parts):
        for path, (old, new) in store.changed(part.before, part.after or now).items():
            if _of_another(part, path):
                continue
            chains = sure if part.sure and _said(part, path) else loose
            chains[path] = chains[path].then(old, new) if path in chains else _Chain(old, new)
    for path in loose.keys() & sure.keys():
        del loose[path]
    standing = store.entries(now, {*sure, *loose})
    olds = {chain.old for chain in (*sure.values(), *loose.values())}
    lost = store.lacking({old.id for old in olds if old and old.mode != MARK})
    changes = [
        Change(path=path, old=chain.old, new=chain.new, now=standing.get(path), why=why)
        for chains, usual in ((sure, ""), (loose, "unsure"))
        for path, chain in chains.items()
        if (why := _why(chain, standing.get(path), usual, lost)) is not None
    ]
    changes.sort(key=lambda change: change.path)
    return Preview(works=ordered, now=now, changes=_counted(store, now, changes))


def _check(store: Snapshots, works: Iterable[Work]) -> None:
    """Raise AgentError where a tree of theirs is lost."""
    for work in works:
        trees = {id for part in work.parts for id in (part.before, part.after) if id}
        if store.lacking(trees):
            raise AgentError(
                f"what the files were before {work.id} is not kept any more",
                hint="it was in .agent/undo",
            )


def patch(store: Snapshots, preview: Preview, also: Collection[str] = ()) -> str:
    """The difference that it would make, as `git diff` tells it. Raises AgentError."""
    chosen = {change.path: change.old for change in preview.chosen(also)}
    return store.patch(preview.now, store.edited(preview.now, chosen)) if chosen else ""


def standing(store: Snapshots, preview: Preview) -> str:
    """What has become of the files since the works began, where they have changed them, as
    `git diff` tells it. Raises AgentError."""
    old = {change.path: change.old for change in preview.changes if change.possible}
    return store.patch(store.edited(preview.now, old), preview.now) if old else ""


def made(store: Snapshots, part: Part) -> str:
    """The difference that a part of work has made, as `git diff` tells it; what another step that
    was at work beside it had named is left to that one. Raises AgentError."""
    if not part.after or part.after == part.before:
        return ""
    pairs = store.changed(part.before, part.after)
    own = {path: new for path, (_, new) in pairs.items() if not _of_another(part, path)}
    if not own:
        return ""
    whole = len(own) == len(pairs)
    after = part.after if whole else store.edited(part.before, own)
    return store.patch(part.before, after)


def undo(store: Snapshots, preview: Preview, also: Collection[str] = ()) -> Done:
    """Do it, with those of the asked-about paths that are in `also`; keep a way back.

    What has changed since the preview is left alone. Raises AgentError where nothing can be done.
    """
    chosen = preview.chosen(also)
    kept = tuple(change for change in preview.changes if change not in chosen)
    if not chosen:
        return Done(kept=kept)
    with Lines(workspace.prepared(store.cwd, "undo") / "undone.jsonl", _whole) as file:
        before = store.keep()
        id = f"undo-{workspace.fresh()}"
        words = "; ".join(work.words for work in preview.works)
        of = tuple(work.id for work in preview.works)
        file.add(encode(Began(id=id, of=of, words=words, before=before)), sync=True)
        done = _put_back(store, chosen, preview)
        file.add(encode(Ended(id=id, after=store.keep())), sync=True)
    return structs.replace(done, id=id, kept=kept)


class _Chain(Struct, frozen=True):
    """What a path was first and became last, and whether nobody else was at it between."""

    old: Entry | None
    new: Entry | None
    whole: bool = True

    def then(self, old: Entry | None, new: Entry | None) -> "_Chain":
        return _Chain(self.old, new, self.whole and self.new == old)


def _said(part: Part, path: str) -> bool:
    """Whether a part has said that it may write a path."""
    return part.writes is None or any(overlap(glob, path) for glob in part.writes)


def _of_another(part: Part, path: str) -> bool:
    """Whether a path is left to a step that was at work beside it, and alone had named it."""
    named = part.writes is not None and _said(part, path)
    return not named and any(overlap(glob, path) for glob in part.theirs)


def _why(chain: _Chain, now: Entry | None, usual: str, lost: Collection[str]) -> Why | None:
    """Why a path has to be asked about; None where it is as it was."""
    old = chain.old
    if now == old:
        return None
    if old and old.id in lost:
        return "lost"
    if MARK in {entry.mode for entry in (old, chain.new, now) if entry}:
        return "large"
    if usual:
        return "unsure"
    if now != chain.new:
        return "since"
    return "" if chain.whole else "between"


def _counted(store: Snapshots, now: str, changes: Iterable[Change]) -> tuple[Change, ...]:
    """The same, with the lines that each gains and loses."""
    changes = tuple(changes)
    wanted = {change.path: change.old for change in changes if change.possible}
    if not wanted:
        return changes
    counts = store.counts(now, store.edited(now, wanted))
    return tuple(structs.replace(each, lines=counts.get(each.path)) for each in changes)


def _put_back(store: Snapshots, chosen: Sequence[Change], preview: Preview) -> Done:
    """Those that go first, the innermost before what holds them; then those that come back."""
    held = _folders(store.entries(preview.works[0].parts[0].before))
    done, failures = list[Change](), list[tuple[str, str]]()

    def put(change: Change, data: bytes | None) -> None:
        try:
            if data is None:
                raise ChangedError("its content is lost")
            put_back(store.cwd, change.path, change.now, change.old, data)
            done.append(change)
        except ChangedError as error:
            failures.append((change.path, str(error)))
        except OSError as error:
            failures.append((change.path, error.strerror or str(error)))

    for change in reversed(chosen):
        if change.old is None:
            put(change, b"")
            clear(store.cwd, change.path, held)
    back: dict[str, list[Change]] = {}
    for change in chosen:
        if change.old:
            back.setdefault(change.old.id, []).append(change)
    for id, data in store.blobs(back):
        for change in back[id]:
            put(change, data)
    return Done(changed=tuple(sorted(done, key=_path)), failed=tuple(failures))


def _folders(paths: Iterable[str]) -> set[str]:
    """Every directory that has one of these in it."""
    found = set[str]()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found


def _path(change: Change) -> str:
    return change.path


def _whole(line: bytes) -> bool:
    try:
        decode(line)
    except FAULTS:
        return False
    return True
