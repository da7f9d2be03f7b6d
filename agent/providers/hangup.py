"""Connections that end as soon as nobody waits for the call on them.

A call runs in a thread of its own (watch.py), and that thread waits in the kernel for what the
service says next: only it can leave that wait, and no library has a way to tell it so. So it waits
in short turns here, and looks whether it is still waited for. The error that it raises then makes
the library close the connection: a service that sees this stops working, and counting.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpcore2
    import httpx2

TURN = 0.1  # seconds of one wait


class Call(threading.Thread):
    """The thread of a call; `gone` is set once nobody waits for it any more."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="model", daemon=True)
        self.gone = threading.Event()


def watched(client: "httpx2.Client") -> "httpx2.Client":
    """The same client, whose connections end with the call.

    It takes no other way than this to give a pool a network of its own: both attributes are the
    library's private ones (httpx2 2.12 to 2.16), so a version without them is left as it is.
    """
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if pool is not None and hasattr(pool, "_network_backend"):
            pool._network_backend = _Network(pool._network_backend)
    return client


class _Network:
    """An httpcore2.NetworkBackend."""

    def __init__(self, inner: "httpcore2.NetworkBackend") -> None:
        self._inner = inner

    def connect_tcp(self, *words: Any, **options: Any) -> "_Stream":
        return _Stream(self._inner.connect_tcp(*words, **options))

    def connect_unix_socket(self, *words: Any, **options: Any) -> "_Stream":
        return _Stream(self._inner.connect_unix_socket(*words, **options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream:
    """An httpcore2.NetworkStream."""

    def __init__(self, inner: "httpcore2.NetworkStream") -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        import httpcore2

        call = threading.current_thread()
        end = None if timeout is None else time.monotonic() + timeout
        while isinstance(call, Call):
            if call.gone.is_set():
                raise httpcore2.ReadError("nobody waits for the reply any more")
            left = TURN if end is None else end - time.monotonic()
            try:
                return self._inner.read(max_bytes, max(min(left, TURN), 0.001))
            except httpcore2.ReadTimeout:
                if left <= TURN and end is not None:
                    raise
        return self._inner.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *words: Any, **options: Any) -> "_Stream":
        return _Stream(self._inner.start_tls(*words, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
