"""What git's commands do, as far as their arguments tell: from its manual."""

import re

from msgspec import Struct

from agent.shell.word import ANY, SOME

_VALUED = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env",
           "--super-prefix", "--attr-source"}  # fmt: skip
_PLAIN = {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects",
          "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"}  # fmt: skip

# Options of commands that look, by which they run something or write.
_RISKY = re.compile(
    r"--(?:ext-diff|textconv|output|open-files-in-pager|upload-pack|receive-pack|exec|filters"
    r"|no-index|config-env|exec-path)(?:=.*)?|-O.*"
)
_SHORTENED = ("--ext-diff", "--textconv", "--output", "--open-files-in-pager", "--upload-pack",
              "--receive-pack", "--filters", "--no-index")  # fmt: skip

# Commands that look; the expression is for the words behind, with a blank before each.
_LOOKS: dict[str, re.Pattern[str]] = {
    name: re.compile(words)
    for names, words in (
        ("status log diff show blame annotate ls-files ls-tree rev-parse rev-list describe shortlog"
         " cat-file merge-base name-rev for-each-ref show-ref check-ignore check-attr count-objects"
         " diff-tree diff-index diff-files whatchanged range-diff cherry version var grep"
         " show-branch verify-commit verify-tag patch-id check-mailmap get-tar-commit-id"
         " --version --help", r"[\s\S]*"),
        ("branch", r"(?: (?:-[arvi]+|-l|--list|--all|--remotes|--show-current|--verbose|--no-color"
         r"|--color(?:=\w+)?|--column|--(?:no-)?(?:contains|merged)(?:[ =]\S+)?|--points-at[ =]\S+"
         r"|--sort=\S+|--format=.*))*|(?: -l| --list)(?: [^-]\S*)*"),
        ("tag", r"|(?: (?:-l|--list|-n\d*|--sort=\S+|--(?:no-)?(?:contains|merged)(?:[ =]\S+)?"
         r"|--points-at[ =]\S+|--format=.*|--column))+|(?: -l| --list)(?: [^-]\S*)*"),
        ("remote", r"|(?: -v| --verbose)|(?: -v)? get-url(?: --all| --push)* [^-]\S*"),
        ("config", r"(?: --(?:global|local|system|worktree|show-origin|show-scope|name-only|null"
         r"|type=\w+))* (?:--list|-l|(?:--get|--get-all|--get-regexp|get) \S+)(?: --show-origin)?"),
        ("stash", r" list(?: \S+)*| show(?: \S+)*"),
        ("reflog", r"|(?: show)?(?: (?!expire|delete|drop|write)\S+)*"),
        ("worktree", r" list(?: \S+)*"),
        ("submodule", r"| status(?: \S+)*| summary(?: \S+)*"),
        ("notes", r"| list(?: \S+)*| show(?: \S+)*"),
        ("symbolic-ref", r"(?: --short| -q)* HEAD"),
        ("bisect", r" log| visualize --oneline"),
    )
    for name in names.split()
}  # fmt: skip

_DESTROYS = (
    (r"push(?: |$)", "publishes commits"),
    (r"reset(?: .*)? --(?:h|m(?!ixed)|k)\S*", "throws changes away"),
    (r"clean(?: |$)", "removes files"),
    (r"checkout(?: .*)? (?:-\w*f\w*|--force|--|-B|--ours|--theirs|-p|--patch|\."
     r"|--pathspec\S*)(?: |$)",
     "throws changes away"),
    (r"checkout (?:[^-]\S*) (?:[^-]\S*)", "throws changes away"),
    (rf"checkout (?:.* )?\S*[.*{SOME}/]\S*\.\w+$", "throws changes away"),
    (r"restore(?! --staged(?! .*--worktree))(?: |$)", "throws changes away"),
    (r"switch(?: .*)? (?:-\w*[fC]\w*|--force\S*|--discard\S*)(?: |$)", "throws changes away"),
    (r"branch(?: .*)? (?:-\w*[dDfMC]\w*|--delete|--force|--move|--copy|--edit-description)(?: |$)",
     "removes or replaces a branch"),
    (r"tag(?: .*)? (?:-\w*[df]\w*|--delete|--force)(?: |$)", "removes or replaces a tag"),
    (r"stash (?:drop|clear|push .*--(?:all|inc)\S*)", "throws changes away"),
    (r"(?:rebase|filter-branch|filter-repo|fast-import|replace|commit-tree|update-ref|prune|repack"
     r"|reflog (?:expire|delete|drop)|symbolic-ref|gc|maintenance|pack-refs|read-tree|rm"
     r"|update-index|checkout-index|sparse-checkout)(?: |$)",
     "rewrites or removes what is kept"),
    (r"commit(?: .*)? --(?:am|no-v)\S*", "rewrites a commit or passes over its checks"),
    (r"commit(?: .*)? -\w*n\w*(?: |$)", "passes over the checks of a commit"),
    (r"worktree (?:remove|prune|move)", "removes a working tree"),
    (r"remote (?:add|rm|remove|set-url|rename|set-head|prune|set-branches)", "changes where "
     "is pushed"),
    (r"config(?: |$)", "changes git's settings, which may run programs"),
    (r"(?:submodule|subtree|lfs|svn|p4|cvsexportcommit|send-email|imap-send|request-pull|daemon"
     r"|instaweb|http-push|send-pack|receive-pack|upload-pack|upload-archive|shell|bundle)(?: |$)",
     "reaches other repositories"),
    (r"(?:credential\S*|hook|fsmonitor--daemon)(?: |$)", "deals with keys or hooks"),
)  # fmt: skip
DESTROYS = tuple((re.compile(words, re.DOTALL), why) for words, why in _DESTROYS)

_RUNS = re.compile(
    r"(?:bisect run|rebase(?: .*)? (?:-x|--exec)|filter-branch|difftool|mergetool|am"
    r"|submodule foreach"
    r"|for-each-repo|web--browse|gui|citool)(?: |$)|clone(?: .*)? (?:-u|-c|--upload-pack|--config"
    r"|--template)|(?:fetch|pull|ls-remote|archive)(?: .*)? --(?:upload-pack|exec)|init "
    r".*--template"
)
KNOWN = {
    "add", "am", "annotate", "apply", "archive", "bisect", "blame", "branch", "bundle",
    "cat-file", "check-attr", "check-ignore", "checkout", "checkout-index", "cherry",
    "cherry-pick", "clean", "clone", "commit", "commit-tree", "config", "count-objects",
    "credential", "daemon", "describe", "diff", "diff-files", "diff-index", "diff-tree",
    "difftool", "fast-export", "fast-import", "fetch", "filter-branch", "format-patch",
    "fsck", "gc", "grep", "gui", "hash-object", "help", "hook", "init", "instaweb",
    "interpret-trailers", "log", "ls-files", "ls-remote", "ls-tree", "maintenance", "merge",
    "merge-base", "merge-file", "merge-tree", "mergetool", "mktree", "mv", "name-rev",
    "notes", "pack-refs", "prune", "pull", "push", "range-diff", "read-tree", "rebase",
    "reflog", "remote", "repack", "replace", "request-pull", "rerere", "reset", "restore",
    "rev-list", "rev-parse", "revert", "rm", "send-email", "shortlog", "show", "show-branch",
    "show-ref", "sparse-checkout", "stash", "status", "submodule", "switch", "symbolic-ref",
    "tag", "update-index", "update-ref", "var", "verify-commit", "verify-tag", "version",
    "whatchanged", "worktree", "write-tree", "--version", "--help",
}  # fmt: skip


class Git(Struct, frozen=True, kw_only=True):
    """One git command: what it is without git's own options, and what those amount to."""

    words: tuple[str, ...]  # from the subcommand on
    steered: bool = False  # an option before it says what git runs
    elsewhere: tuple[str, ...] = ()  # directories named by -C

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def looks(self) -> bool:
        """Whether it only looks."""
        if self.steered or not self.words or any(ANY in word for word in self.words):
            return False
        name, *rest = self.words
        expression = _LOOKS.get(name)
        if expression is None:
            return False
        behind = rest[: rest.index("--")] if "--" in rest else rest
        if any(_risky(word) or word.startswith(SOME) for word in behind):
            return False
        return expression.fullmatch("".join(f" {word}" for word in rest)) is not None

    @property
    def destroys(self) -> tuple[str, str] | None:
        """Why it is always asked about, and the words that make it so; None where it is not."""
        for expression, why in DESTROYS:
            if found := expression.match(self.text):
                return why, f"git {found[0].rstrip()}"
        return None

    @property
    def runs(self) -> bool:
        """Whether it runs what its arguments or an alias say."""
        return (
            self.steered
            or not self.words
            or self.words[0] not in KNOWN
            or _RUNS.match(self.text) is not None
            or any(_risky(word) for word in self.words[1:])
        )


def _risky(word: str) -> bool:
    if _RISKY.fullmatch(word):
        return True
    name = word.partition("=")[0]
    return len(name) > 4 and any(long.startswith(name) for long in _SHORTENED)


def of(words: tuple[str, ...]) -> Git:
    """What stands behind `git`.

    >>> of(("-C", "x", "--no-pager", "log", "-p")).text
    'log -p'
    """
    at, steered = 0, False
    elsewhere: list[str] = []
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word in {"--version", "--help"}:
            break
        if word in _VALUED and at + 1 < len(words):
            if word == "-C":
                elsewhere.append(words[at + 1])
            else:
                steered = True
            at += 1
        elif word not in _PLAIN:
            steered = True
        at += 1
    return Git(words=words[at:], steered=steered, elsewhere=tuple(elsewhere))
