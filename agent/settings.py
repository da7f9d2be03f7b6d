"""What is set: one frozen value, each field with a default and a unit, and where it came from."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from agent.errors import UsageError

Mode: TypeAlias = Literal["default", "accept-edits", "plan", "auto"]
SandboxMode: TypeAlias = Literal["auto", "required", "off"]
Effort: TypeAlias = Literal["", "low", "medium", "high"]

MODES: dict[str, Mode] = {
    "default": "default",
    "accept-edits": "accept-edits",
    "acceptEdits": "accept-edits",
    "plan": "plan",
    "auto": "auto",
    "bypassPermissions": "auto",
}  # the contract's names and those that fingers know


Count: TypeAlias = Annotated[int, Meta(ge=1)]
Amount: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)]


class Rules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Permission rules, `tool(pattern)`; deny beats ask beats allow."""

    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def __add__(self, other: "Rules") -> "Rules":
        return Rules(
            deny=self.deny + other.deny,
            ask=self.ask + other.ask,
            allow=self.allow + other.allow,
        )


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set in a settings file; flags and the environment set the same."""

    model: str = ""  # PROVIDER/NAME; "": the first whose key is set
    small_model: str = ""  # for `model: small`; "": the main one
    fallback_model: str = ""  # asked where the service of another fails; "": none
    oracle_model: str = ""  # for ask_oracle; "": the main one
    max_output_tokens: Count = 16_384  # of one reply
    thinking_tokens: Annotated[int, Meta(ge=0)] = 0  # of one reply; 0: no extended thinking
    effort: Effort = ""  # of a model that thinks; "": as its service has it
    max_workers: Count = 4  # steps at once
    max_turns: Count = 200  # model calls of one conversation
    max_budget_usd: Amount | None = None  # of a run or a chat
    max_tokens_total: Count | None = None  # of a run or a chat, all kinds of tokens
    timeout: Amount | None = None  # seconds, of the whole command
    stream_idle: Amount = 60.0  # seconds without a sign of life before a reply is given up
    permission_mode: Mode = "default"
    permissions: Rules = Rules()
    sandbox: SandboxMode = "auto"  # of commands; required: without one nothing is begun
    private: bool = False  # nothing leaves the machine
    reuse: bool = False  # whether what earlier runs have done may stand for the same again
    skills: bool = True  # whether a phrase may start a skill
    plan: Literal["auto", "always", "never"] = "auto"
    append_system_prompt: str = ""
    theme: Literal["ansi", "dark", "light", "contrast", "amber"] = "ansi"
    notify: Literal["bell", "desktop", "off"] = "bell"  # after 30 seconds: it has ended, or asks
    add_dirs: tuple[str, ...] = ()
    base_urls: dict[str, str] = {}  # service → URL
    prices: dict[
        str, dict[str, Annotated[float, Meta(ge=0)]]
    ] = {}  # model → USD per million tokens, by kind
    context: dict[str, Annotated[int, Meta(ge=512)]] = {}  # model → tokens that it takes


class Given(Struct, frozen=True, kw_only=True):
    """A key or a base URL, and where it was set, in words for the user. Its value is never shown:
    it may be a secret."""

    value: str
    origin: str

    def __repr__(self) -> str:
        return f"Given(origin={self.origin!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("origin", self.origin)]


class Layered(Struct, frozen=True, kw_only=True):
    """Settings and, for each field that is not its default, where it was set."""

    settings: Settings
    origins: dict[str, str]


def merged(*layers: tuple[str, dict[str, Any]]) -> Layered:
    """Lay (origin, values) over each other, later ones on top; permission rules add up.

    Raises UsageError, naming the origin, for an unknown name or a value that does not fit.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    rules = Rules()
    for origin, layer in layers:
        try:
            read = msgspec.convert(layer, Settings, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(_misfit(origin, str(error))) from error
        rules += read.permissions
        for name in layer:
            values[name] = getattr(read, name)
            origins[name] = origin
    return Layered(settings=Settings(**{**values, "permissions": rules}), origins=origins)


def _misfit(origin: str, words: str) -> str:
    """What is wrong with a value, by the flag or the name that it was given under."""
    why, _, place = words.partition(" - at `$.")
    key = place.removesuffix("`")
    if origin != "flags" or not key:
        return f"{origin}: {words}"
    return f"--{key.replace('_', '-')}: {why[:1].lower()}{why[1:]}"
