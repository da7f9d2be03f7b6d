"""Files that others wrote, no part of the project: TS_CORPORA names their folder."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct


def corpora() -> Path | None:
    """The folder of corpora that TS_CORPORA names; None where it names none."""
    named = os.environ.get("TS_CORPORA")  # noqa: TID251 - of the tests, not a setting of ours
    return Path(named) if named else None


class Recorded(Struct, frozen=True):
    """One exchange: where it was asked, and what came."""

    name: str
    url: str
    asked: dict[str, Any]
    status: int
    kind: str  # content type
    body: bytes
    parsed: Any  # of a JSON answer

    @property
    def wire(self) -> str:
        if self.url.endswith("/v1/messages"):
            return "anthropic"
        return "openai" if self.url.endswith("/chat/completions") else ""


def exchanges(folder: Path) -> Iterator[Recorded]:
    for file in sorted(folder.rglob("*.yaml")):
        read = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for number, each in enumerate(read["interactions"], 1):
            request, response = each["request"], each["response"]
            headers = {name.lower(): value for name, value in response["headers"].items()}
            yield Recorded(
                name=f"{file.parent.name}/{file.stem}#{number}",
                url=request["uri"].partition("#")[0].partition("?")[0],
                asked=request.get("parsed_body") or {},
                status=response["status"]["code"],
                kind=str(headers.get("content-type", [""])[0]),
                body=content(response),
                parsed=parsed(response),
            )


def content(response: dict[str, Any]) -> bytes:
    if "parsed_body" in response:
        return json.dumps(response["parsed_body"]).encode()
    text = response["body"]["string"]
    raw = bytes(text) if isinstance(text, bytes) else str(text).encode()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def parsed(response: dict[str, Any]) -> Any:
    if "parsed_body" in response:
        return response["parsed_body"]
    try:
        return json.loads(content(response))
    except ValueError:
        return None
