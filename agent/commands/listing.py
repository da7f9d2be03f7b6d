"""The files of the working directory, to be found by a few of their letters as they are typed."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate, islice
from threading import Lock, Thread
from time import monotonic

FRESH = 10.0  # seconds after which they are listed anew, once somebody asks
LOOKED_AT = 5000  # hits that are compared, at most
OFFERED = 50
LONG = 60  # letters that count


class Listing:
    """Files, and the directories they are in (`src/`). `listed` gives the paths of the files; it is
    called in a thread, and what it found before is offered until it has come back."""

    def __init__(self, listed: Callable[[], Iterable[str]]) -> None:
        self._listed, self._lock = listed, Lock()
        self._paths, self._lower, self._starts = list[str](), "", list[int]()
        self._at = 0.0  # when they were listed last; 0: never
        self._thread: Thread | None = None

    def refresh(self) -> None:
        """List them in the background, unless that is under way or was done just now."""
        with self._lock:
            busy = self._thread is not None and self._thread.is_alive()
            if busy or (self._at and monotonic() - self._at < FRESH):
                return
            self._thread = Thread(target=self._read, name="listing", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until they are listed for the first time."""
        if not self._at and self._thread is not None:
            self._thread.join(seconds)

    def _read(self) -> None:
        files = list(self._listed())
        folders = {f"{path[: place.start()]}/" for path in files for place in _SLASH.finditer(path)}
        paths = sorted([*files, *folders], key=lambda path: (path.count("/", 0, -1), path))
        lower = [path.lower() for path in paths]
        starts = [0, *accumulate(len(path) + 1 for path in lower)]
        with self._lock:
            self._paths, self._lower, self._starts = paths, "\n".join(lower), starts
            self._at = monotonic()

    def fitting(self, typed: str) -> list[str]:
        """The paths that hold what is typed, else its letters in this order; best first."""
        self.refresh()
        self.wait(1.0)
        with self._lock:
            paths, lower, starts = self._paths, self._lower, self._starts
        key = typed.lower()[:LONG].removeprefix("./")
        if not key:
            return paths[:OFFERED]
        found = dict[str, int]()  # path → how far its letters lie apart
        for pattern in (re.escape(key), _letters(key)):
            for hit in islice(re.finditer(pattern, lower), LOOKED_AT):
                path = paths[bisect_right(starts, hit.start()) - 1]
                span = hit.end() - hit.start()
                found[path] = min(span, found.get(path, span))
            if len(found) >= OFFERED:
                break
        return sorted(found, key=lambda path: _rank(path, key, found[path]))[:OFFERED]


_SLASH = re.compile("/")


def _letters(key: str) -> str:
    """Letter by letter, each the next one of its kind: no way back has to be tried.

    >>> _letters("ab")
    'a[^b\\\\n]*b'
    """
    first, *more = map(re.escape, key)
    return first + "".join(f"[^{each}\\n]*{each}" for each in more)


def _rank(path: str, key: str, span: int) -> tuple[bool, bool, int, int, str]:
    lower = path.lower()
    name = lower.rstrip("/").rpartition("/")[2]
    return (
        not (name.startswith(key) or lower.startswith(key)),
        key not in name,
        span,
        len(path),
        path,
    )
