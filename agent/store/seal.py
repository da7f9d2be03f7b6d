"""Words that this user's ts has written, told from those that came with a directory.

A log lies where anybody may have put it. What must be the user's own word there bears a seal:
HMAC-SHA256 with a key that lies outside of every project (0600) and leaves this machine never.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent.errors import AgentError, UsageError
from agent.store.disk import contents, private

KEY = ".local/state/tianshu/key"  # in the home directory
BYTES = 32


def sealed(home: Path, words: Iterable[str]) -> str:
    """The seal of these words; "" where there can be no key."""
    key = _key(home / KEY, make=True)
    return _seal(key, words) if key else ""


def sound(home: Path, seal: str, words: Iterable[str]) -> bool:
    """Whether this user's ts has sealed these very words."""
    key = _key(home / KEY, make=False)
    return bool(key and seal) and hmac.compare_digest(_seal(key, words).encode(), seal.encode())


def _seal(key: bytes, words: Iterable[str]) -> str:
    data = msgspec.json.encode([word.encode("utf-8", "surrogateescape") for word in words])
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _key(path: Path, *, make: bool) -> bytes:
    """The user's key; b"" for none. Of processes that make one at once the first one wins."""
    if make and not path.exists():
        fresh = path.with_name(f"key.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            private(path.parent)
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(file, secrets.token_bytes(BYTES))
                os.fsync(file)
            finally:
                os.close(file)
            os.link(fresh, path)
        except FileExistsError:
            pass
        except (OSError, AgentError):
            return b""
        finally:
            fresh.unlink(missing_ok=True)
    try:
        key = contents(path, BYTES, follow=False)
    except UsageError:
        return b""
    return key if len(key) == BYTES else b""
