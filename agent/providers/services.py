"""The services that models are asked of: one row each."""

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from agent.errors import SetupError, UsageError
from agent.providers.wire import Dialect, Endpoint, Memory
from agent.seams import Provider
from agent.settings import Given

PROBE = 0.2  # seconds in which a local server has to answer, and all of them together


class Service(Struct, frozen=True, kw_only=True):
    name: str
    wire: Literal["anthropic", "openai"]
    url: str  # "": the user has to give one
    key: str  # the environment's variable that holds its key
    url_variable: str = ""  # … and its base URL
    keyless: bool = False  # can be asked without a key
    root: str = "/v1"  # the path of its URL where that has none
    port: int = 0  # where it listens on this machine; 0: elsewhere
    model: str = ""  # asked when the user names none
    small: str = ""  # … for `small`
    silence: float = 0.0  # seconds until the first sign of a reply: thinking unseen, a long prompt;
    # where it is more than a standstill within a reply may last
    dialect: Dialect = Dialect()
    help: str = ""  # how to get it


LOCAL = Dialect(
    forces="required", reads=True, schemas=True
)  # object-valued `tool_choice` is refused by some

SERVICES = {
    row.name: row
    for row in (
        Service(
            name="anthropic",
            wire="anthropic",
            url="https://api.anthropic.com",
            key="ANTHROPIC_API_KEY",
            url_variable="ANTHROPIC_BASE_URL",
            model="claude-sonnet-5-5",
            small="claude-haiku-5-5",
            help="a key from https://platform.claude.com",
        ),
        Service(
            name="openai",
            wire="openai",
            url="https://api.openai.com/v1",
            key="OPENAI_API_KEY",
            url_variable="OPENAI_BASE_URL",
            model="gpt-6.1-sol",
            small="gpt-6-luna",
            silence=300.0,
            dialect=Dialect(limit="max_completion_tokens", schemas=True),
            help="a key from https://platform.openai.com",
        ),
        Service(
            name="gemini",
            wire="openai",
            url="https://generativelanguage.googleapis.com/v1beta/openai",
            key="GEMINI_API_KEY",
            url_variable="GEMINI_BASE_URL",
            silence=300.0,
            dialect=Dialect(reasoning=""),
            help="a key from https://aistudio.google.com/apikey",
        ),
        Service(
            name="openrouter",
            wire="openai",
            url="https://openrouter.ai/api/v1",
            key="OPENROUTER_API_KEY",
            url_variable="OPENROUTER_BASE_URL",
            silence=300.0,
            dialect=Dialect(reasoning="reasoning"),
            help="a key from https://openrouter.ai/keys",
        ),
        Service(
            name="groq",
            wire="openai",
            url="https://api.groq.com/openai/v1",
            key="GROQ_API_KEY",
            url_variable="GROQ_BASE_URL",
            silence=300.0,
            dialect=Dialect(limit="max_completion_tokens", reasoning="reasoning"),
            help="a key from https://console.groq.com/keys",
        ),
        Service(
            name="deepseek",
            wire="openai",
            url="https://api.deepseek.com/v1",
            key="DEEPSEEK_API_KEY",
            url_variable="DEEPSEEK_BASE_URL",
            silence=300.0,
            help="a key from https://platform.deepseek.com",
        ),
        Service(
            name="mistral",
            wire="openai",
            url="https://api.mistral.ai/v1",
            key="MISTRAL_API_KEY",
            url_variable="MISTRAL_BASE_URL",
            silence=300.0,
            dialect=Dialect(counts=False, forces="required", reasoning=""),
            help="a key from https://console.mistral.ai",
        ),
        Service(
            name="xai",
            wire="openai",
            url="https://api.x.ai/v1",
            key="XAI_API_KEY",
            url_variable="XAI_BASE_URL",
            silence=300.0,
            help="a key from https://console.x.ai",
        ),
        Service(
            name="together",
            wire="openai",
            url="https://api.together.xyz/v1",
            key="TOGETHER_API_KEY",
            url_variable="TOGETHER_BASE_URL",
            silence=300.0,
            dialect=Dialect(reasoning="reasoning"),
            help="a key from https://api.together.ai",
        ),
        Service(
            name="fireworks",
            wire="openai",
            url="https://api.fireworks.ai/inference/v1",
            key="FIREWORKS_API_KEY",
            url_variable="FIREWORKS_BASE_URL",
            silence=300.0,
            help="a key from https://fireworks.ai",
        ),
        Service(
            name="cerebras",
            wire="openai",
            url="https://api.cerebras.ai/v1",
            key="CEREBRAS_API_KEY",
            url_variable="CEREBRAS_BASE_URL",
            silence=300.0,
            dialect=Dialect(limit="max_completion_tokens", reasoning="reasoning"),
            help="a key from https://cloud.cerebras.ai",
        ),
        Service(
            name="perplexity",
            wire="openai",
            url="https://api.perplexity.ai",
            key="PERPLEXITY_API_KEY",
            url_variable="PERPLEXITY_BASE_URL",
            root="",
            silence=300.0,
            dialect=Dialect(tools=False, counts=False, reasoning=""),
            help="a key from https://www.perplexity.ai/settings/api",
        ),
        Service(
            name="kimi",
            wire="openai",
            url="https://api.moonshot.ai/v1",
            key="MOONSHOT_API_KEY",
            url_variable="MOONSHOT_BASE_URL",
            silence=300.0,
            help="a key from https://platform.moonshot.ai",
        ),
        Service(
            name="ollama",
            wire="openai",
            url="http://127.0.0.1:11434/v1",
            key="OLLAMA_API_KEY",
            url_variable="OLLAMA_BASE_URL",
            keyless=True,
            port=11434,
            silence=600.0,
            dialect=LOCAL,
            help="https://ollama.com, then `ollama pull MODEL`",
        ),
        Service(
            name="lmstudio",
            wire="openai",
            url="http://127.0.0.1:1234/v1",
            key="LMSTUDIO_API_KEY",
            url_variable="LMSTUDIO_BASE_URL",
            keyless=True,
            port=1234,
            silence=600.0,
            dialect=LOCAL,
            help="https://lmstudio.ai, with its server started",
        ),
        Service(
            name="llamacpp",
            wire="openai",
            url="http://127.0.0.1:8080/v1",
            key="LLAMACPP_API_KEY",
            url_variable="LLAMACPP_BASE_URL",
            keyless=True,
            port=8080,
            silence=600.0,
            dialect=LOCAL,
            help="`llama-server --jinja -m MODEL.gguf`",
        ),
        Service(
            name="vllm",
            wire="openai",
            url="http://127.0.0.1:8000/v1",
            key="VLLM_API_KEY",
            url_variable="VLLM_BASE_URL",
            keyless=True,
            port=8000,
            silence=600.0,
            dialect=LOCAL,
            help="`vllm serve MODEL --enable-auto-tool-choice`",
        ),
        Service(
            name="compat",
            wire="openai",
            url="",
            key="COMPAT_API_KEY",
            url_variable="COMPAT_BASE_URL",
            keyless=True,
            silence=300.0,
            dialect=Dialect(reads=True, schemas=True),
            help="the base URL of any server that speaks chat completions",
        ),
    )
}


def named(name: str) -> tuple[Service, str]:
    """The service and the model that SERVICE/NAME means. Raises UsageError for anything else."""
    service, slash, model = name.partition("/")
    if service in SERVICES and model.strip():
        return SERVICES[service], model.strip()
    known = [*SERVICES, "local", "script"]
    if service in SERVICES:
        example = SERVICES[service].model or "NAME"
        raise UsageError(f"{name!r} names no model of {service}", hint=f"as in {service}/{example}")
    if not slash:
        likely = {"claude": "anthropic", "gpt": "openai", "o3": "openai", "o4": "openai"}
        whose = [row for start, row in likely.items() if name.startswith(start)]
        raise UsageError(
            f"{name!r} is no model's name: one is written SERVICE/NAME",
            hint=f"did you mean {whose[0]}/{name}?" if whose else f"services: {', '.join(known)}",
        )
    near = get_close_matches(service, known, n=1)
    raise UsageError(
        f"{name!r}: there is no service {service!r}",
        hint=f"did you mean {near[0]}/{model}?" if near else f"services: {', '.join(known)}",
    )


def build(
    name: str,
    keys: Mapping[str, Given],
    *,
    urls: Mapping[str, Given] | None = None,
    max_output_tokens: int = 16_384,
    idle: float = 60.0,
    cwd: Path | None = None,
    **more: Any,
) -> Provider:
    """The provider of SERVICE/NAME, or of script/FILE (from `cwd`).

    `keys` are by variable, `urls` by service; whether a key may be sent to a URL is decided by
    whoever gives them. `more` are further fields of Endpoint. Raises UsageError for a name or file
    that is none, SetupError where a key or a URL is missing. Asks nothing yet, and loads nothing
    heavy.
    """
    if name.startswith("script/"):
        from agent.providers.script import load

        return load((cwd or Path()) / name.removeprefix("script/"))
    if name.startswith("local/"):
        from agent.providers import local

        return local.load(name, cwd or Path(), max_output_tokens=max_output_tokens)
    service, model = named(name)
    endpoint = reached(
        name,
        service,
        keys,
        urls or {},
        model=model,
        max_output_tokens=max_output_tokens,
        idle=idle,
        silence=silence(name, idle),
        **more,
    )
    if service.wire == "anthropic":
        from agent.providers.anthropic import Anthropic

        return Anthropic(endpoint)
    from agent.providers.openai import OpenAI

    return OpenAI(endpoint, service.dialect, keyless=service.keyless, root=service.root)


def reached(
    name: str,
    service: Service,
    keys: Mapping[str, Given],
    urls: Mapping[str, Given],
    *,
    model: str = "",
    **bounds: Any,
) -> Endpoint:
    """How a service is reached, as `name` in what users are told; `bounds` are fields of Endpoint.

    Raises SetupError where a key or a URL is missing.
    """
    url, key = urls.get(service.name), keys.get(service.key)
    if url is None and not service.url:
        raise SetupError(
            f"{name}: no base URL is set",
            hint=f"set {service.url_variable}, or base_urls.{service.name} in the settings",
        )
    if key is None and not service.keyless:
        raise SetupError(f"{name}: {service.key} is not set", hint=service.help)
    return Endpoint(
        name=name,
        model=model,
        url=url.value if url else service.url,
        key=key.value if key else "",
        origin=f"{service.key} ({key.origin})" if key else "",
        **bounds,
    )


def here(name: str, urls: Mapping[str, Given]) -> bool:
    """Whether SERVICE/NAME is asked on this machine: a script, or a server at a loopback address
    written as one. `localhost` is taken for one too (RFC 6761)."""
    service = SERVICES.get(name.partition("/")[0])
    if service is None:
        return name.partition("/")[0] in {"script", "local"}
    given = urls.get(service.name)
    try:
        host = urlsplit(given.value if given else service.url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def choose(
    keys: Mapping[str, Given], probe: Callable[[str], tuple[str, ...] | None] | None = None
) -> str:
    """The model to ask when none is named: of the first service whose key is set, else of the
    first local server that answers. `probe` gives the models of the server at a base URL, None
    where there is none. Raises SetupError, which says how to get one.
    """
    for row in SERVICES.values():
        if row.model and (given := keys.get(row.key)) and given.value.strip():
            return f"{row.name}/{row.model}"
    models_of = probe or running().get
    for row in SERVICES.values():
        if row.port:
            models = models_of(row.url) or ()
            talking = [model for model in models if not any(word in model for word in MUTE)]
            if talking:
                return f"{row.name}/{talking[0]}"
    for row in SERVICES.values():
        if not row.keyless and (given := keys.get(row.key)) and given.value.strip():
            raise SetupError(
                f"{row.key} is set, and no model of {row.name} is named",
                hint=f"name one, as in --model {row.name}/NAME, or in TS_MODEL",
            )
    keyed = [f"set {row.key} ({row.help})" for row in SERVICES.values() if row.model]
    local = [f"start {row.name} ({row.help})" for row in SERVICES.values() if row.port]
    raise SetupError(
        "no model is set up",
        hint="\n    ".join(["do one of these, or try `ts demo`:", *keyed, *local]),
    )


MUTE = ("embed", "rerank", "whisper", "bge-")  # parts of the names of models that don't talk


def running() -> dict[str, tuple[str, ...]]:
    """The models of the servers that answer on their usual ports, by base URL; asked at once."""
    found: dict[str, tuple[str, ...]] = {}

    def ask(url: str) -> None:
        if (models := models_at(url)) is not None:
            found[url] = models

    urls = [row.url for row in SERVICES.values() if row.port]
    threads = [Thread(target=ask, args=(url,), daemon=True) for url in urls]
    end = monotonic() + PROBE
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end - monotonic(), 0.0))
    return dict(found)


def models_at(url: str) -> tuple[str, ...] | None:
    """The models that a server on this machine offers; None where none answers at once."""
    import http.client

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PROBE)
    try:
        connection.request("GET", f"{parts.path}/models")
        answer = connection.getresponse()
        read = json.loads(answer.read(2**20))
        return tuple(str(row["id"]) for row in read["data"] if row.get("id"))
    except (OSError, http.client.HTTPException, RecursionError):
        return None
    except (ValueError, LookupError, TypeError, AttributeError):  # it is no such server
        return None
    finally:
        connection.close()


def silence(name: str, idle: float) -> float:
    """Seconds until the first sign of a reply of SERVICE/NAME; at least `idle`."""
    row = SERVICES.get(name.partition("/")[0])
    return max(row.silence, idle) if row else idle


def most_output(name: str, limit: int, thinking: int) -> int:
    """The most tokens of one reply of SERVICE/NAME, its thinking included, at these settings."""
    row = SERVICES.get(name.partition("/")[0])
    if row is None or row.wire != "anthropic":
        return limit
    from agent.providers.anthropic import ROOM, Manner

    return limit + (max(ROOM, thinking) if Manner.of(name).thinks else thinking)


def small(name: str) -> str:
    """The small model of the same service as `name`; `name` itself where none is known."""
    row = SERVICES.get(name.partition("/")[0])
    return f"{row.name}/{row.small}" if row and row.small else name


def caveat(name: str) -> str:
    """What has to be said of a model before it is asked; "" for most."""
    if name == "local/smollm2":
        from agent.providers.local import CAVEAT

        return CAVEAT
    return ""


def remember(provider: Provider, memory: Memory) -> Provider:
    """The provider, which goes by what its server has refused before, and notes what it does."""
    take = getattr(provider, "remember", None)
    if take is not None:
        take(memory)
    return provider


def warm(provider: Provider) -> None:
    """Load what a provider needs before it is asked, where that takes a while."""
    load = getattr(provider, "warm", None)
    if load is not None:
        load()
