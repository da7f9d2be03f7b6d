"""A real browser without a window, spoken to by its debugging protocol over a pipe: no driver and
no library are needed. None where there is no Chromium."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One tab."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._number = write, read, 0
        self._rest, self._session = b"", ""
        self.events: list[dict[str, Any]] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        """Do something; what comes of it."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while (told := self._next()).get("id") != self._number:
            self.events.append(told)
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        return told

    def show(self, path: Path, width: int = 1200, height: int = 900, *, dark: bool = False) -> None:
        """Open a file, and wait until it has loaded."""
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, script: str) -> Any:
        """What an expression is worth on the page."""
        found = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, name: str, code: int) -> None:
        """Press a key and let it go."""
        text = {"text": "\r"} if name == "Enter" else {}
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            self(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=code,
                **text,
            )

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))

    @property
    def requested(self) -> list[str]:
        """The addresses that the page has asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in `folder`; it has ended at the end."""
    assert PROGRAM
    to_it, we_write = os.pipe()
    we_read, from_it = os.pipe()
    shell = f'exec "$@" 3<&{to_it} 4>&{from_it}'
    with subprocess.Popen(
        ["bash", "-c", shell, "bash", PROGRAM, *FLAGS, f"--user-data-dir={folder}"],
        pass_fds=(to_it, from_it),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(to_it)
        os.close(from_it)
        try:
            yield Browser(we_write, we_read)
        finally:
            process.kill()
            os.close(we_write)
            os.close(we_read)
