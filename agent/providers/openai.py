"""Chat completions, as OpenAI and every server like it speak them.

Servers differ in what they take; a `Dialect` says how, and a refusal that names a field which can
be done without is answered by asking once more without it.
"""

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, convert, structs, to_builtins

from agent.errors import ModelError
from agent.message import Call, Image, Message, Reply, Request, Say, Usage
from agent.providers import failure
from agent.providers.choices import Assembly
from agent.providers.lessons import lesson
from agent.providers.told import apart, told
from agent.providers.turns import identifier, output, settled, title, turns
from agent.providers.wire import (
    AGENT,
    CUT,
    Answered,
    Dialect,
    Endpoint,
    Memory,
    Pulse,
    arguments,
    base,
    body,
    clean,
    client,
    events,
    opened,
    strict,
)

if TYPE_CHECKING:
    import httpx2


def site(url: str, root: str = "/v1") -> str:
    """The base URL: what /chat/completions is added to. One without a path gets `root`."""
    return base(url, endings=("/chat/completions", "/completions", "/responses"), root=root)


class OpenAI:
    """A provider; see agent.seams. Threads may share it."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect | None = None,
        *,
        keyless: bool = False,
        root: str = "/v1",
    ) -> None:
        self._endpoint = structs.replace(endpoint, url=site(endpoint.url, root))
        self._start = dialect or Dialect()
        self._known: Dialect | None = None  # what it is asked in, once that is decided
        self._memory: Memory | None = None
        self._keyless = keyless  # whether it may be asked without a key
        self._url = self._endpoint.url + "/chat/completions"
        self._lock = threading.Lock()
        self._http: httpx2.Client | None = None

    def warm(self) -> None:
        """Load what is needed for a request before it is needed."""
        self._client()

    def _client(self) -> "httpx2.Client":
        with self._lock:
            if self._http is None:
                key = self._endpoint.key
                headers = {"user-agent": AGENT, "content-type": "application/json"}
                if key:
                    headers["authorization"] = f"Bearer {key}"
                self._http = client(self._endpoint, headers, self)
            return self._http

    def remember(self, memory: Memory) -> None:
        """Go by what has been learned of the server before, and note what will be."""
        self._memory, self._known = memory, None

    @property
    def _server(self) -> str:
        return f"{self._endpoint.name} {self._endpoint.url}"

    @property
    def _dialect(self) -> Dialect:
        if self._known is None:
            before = self._memory.recall(self._server) if self._memory else {}
            try:
                self._known = convert({**to_builtins(self._start), **before}, Dialect)
            except ValidationError:  # another version has written it
                self._known = self._start
        return self._known

    def __call__(self, request: Request, say: Say) -> Reply:
        if self._endpoint.key or not self._keyless:
            failure.check_key(self._endpoint)
        spent = Usage()  # on replies that are not taken
        for _ in range(8):
            dialect = self._dialect
            sent: dict[str, Any] = {}
            try:
                if dialect.forces == "schema" and request.must and request.schema is None:
                    asked = by_schema(request)
                    sent = self._sent(asked)
                    reply = self._arguments(sent, asked, say)
                    return structs.replace(reply, usage=spent + reply.usage)
                sent = self._sent(request)
                if request.tools and (dialect.reads or not dialect.tools):
                    reply = self._read_from_text(sent, request, say)
                    if not self._unforced(request, reply):
                        return reply
                    spent += reply.usage
                    continue
                return self._ask(sent, request, say)
            except Answered as answer:
                if not self._learns(answer, sent):
                    raise failure.of_answer(answer, self._endpoint) from None
        raise ModelError(f"{self._endpoint.name}: no manner of asking was taken")

    def _unforced(self, request: Request, reply: Reply) -> bool:
        """Whether a tool that had to be called was not, since the server does not see to that
        (llama.cpp, where a template knows no tools); from then on it is forced by its schema."""
        dialect = self._dialect
        forced = request.must and request.schema is None and dialect.schemas
        if not forced or reply.message.calls or reply.stop != "end" or dialect.forces == "schema":
            return False
        self._note(structs.replace(dialect, forces="schema"))
        return True

    def _arguments(self, sent: dict[str, Any], request: Request, say: Say) -> Reply:
        """A reply that can be nothing but the arguments of the tool that has to be called."""
        reply = self._ask(sent, request, lambda piece: say(""))
        read, fault = arguments(reply.message.text)
        if reply.stop == "length":
            fault = CUT
        call = Call(id="", name=request.must, input=clean(read), fault=fault)
        message = structs.replace(reply.message, text="", calls=settled([call], request))
        stop = reply.stop if reply.stop in {"length", "refused"} else "calls"
        return structs.replace(reply, message=message, stop=stop)

    def _read_from_text(self, sent: dict[str, Any], request: Request, say: Say) -> Reply:
        """One request, in whose reply calls may stand in the text."""
        from agent.providers.written import Reader, heard, shown  # where it is needed alone

        reader = Reader(request.tools, shown(request))
        reply = self._ask(sent, request, heard(reader, say))
        if rest := reader.end():
            say(rest)
        return reader.read(reply, request)

    def _ask(self, sent: dict[str, Any], request: Request, say: Say) -> Reply:
        """One request. Raises Answered for what is no reply, ModelError for what breaks it."""
        import httpx2

        assembly = Assembly(self._endpoint, say)
        text = json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            http = self._client()
            say("")  # ends the call here where nobody waits for it any more
            # The hook that raises Answered closes the answer; `read` closes what is a reply.
            response = http.send(http.build_request("POST", self._url, content=text), stream=True)
            self._read(response, assembly)
        except (httpx2.RequestError, httpx2.StreamError, httpx2.InvalidURL, OSError) as error:
            raise failure.of_network(error, self._endpoint) from error
        return assembly.reply(request)

    def _read(self, response: "httpx2.Response", assembly: Assembly) -> None:
        """Read a reply, streamed or whole. Raises ModelError where it breaks."""
        endpoint, pulse = self._endpoint, Pulse(self._endpoint)
        with opened(response, pulse) as (kind, chunks):
            if kind == "json":
                try:
                    completion = strict(body(chunks))
                except ValueError as error:
                    raise failure.broken(endpoint, str(error)) from error
                return assembly.take(completion)
            if kind != "stream":
                raise failure.unlike(endpoint, self._url, kind, next(chunks, b""))
            for event in events(chunks):
                if event.data.strip() == b"[DONE]":
                    assembly.marked = True
                    break
                try:
                    chunk = strict(event.data)
                except ValueError as error:
                    if not event.ended:
                        break
                    raise failure.broken(endpoint, str(error)) from error
                if assembly.add(chunk):
                    pulse.beat()
        if not assembly.begun:
            raise failure.unlike(endpoint, self._url, "", b"")
        return None

    def _learns(self, answer: Answered, sent: dict[str, Any]) -> bool:
        """Whether a refusal names what can be done without and has not yet been."""
        words = failure.said(answer.body)[1]
        easier = lesson(self._dialect, answer.status, words, sent)
        if easier is None:
            return False
        self._note(easier)
        return True

    def _note(self, dialect: Dialect) -> None:
        """Ask so from now on, and remember it."""
        self._known = dialect
        if self._memory:
            usual = to_builtins(self._start)
            takes = to_builtins(dialect).items()
            self._memory.keep(
                self._server, {name: each for name, each in takes if each != usual[name]}
            )

    def _sent(self, request: Request) -> dict[str, Any]:
        """The request's body. Equal requests give equal bytes."""
        dialect = self._dialect
        if dialect.schemas and request.schema is not None:
            request = structs.replace(request, tools=(), must="")
        request = request if dialect.tools else told(request)
        tools, must = request.tools, request.must
        if must and dialect.forces != "function":
            tools = tuple(spec for spec in tools if spec["name"] == must)
        sent: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": self._messages(request),
            "stream": dialect.streams,
            dialect.limit: self._endpoint.max_output_tokens,
        }
        if self._endpoint.effort and dialect.effort:
            sent["reasoning_effort"] = self._endpoint.effort
        if dialect.streams and dialect.counts:
            sent["stream_options"] = {"include_usage": True}
        if dialect.schemas and request.schema is not None:
            sent["response_format"] = shape(request.schema)
        if tools:
            sent["tools"] = [offer(clean(spec)) for spec in tools]
        if tools and must and dialect.forces == "function":
            sent["tool_choice"] = {"type": "function", "function": {"name": must}}
        elif tools and must and dialect.forces:
            sent["tool_choice"] = dialect.forces
        return sent

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        system: str = clean(request.system)
        made = list[dict[str, Any]]()
        if system.strip() and self._dialect.system:
            made.append({"role": "system", "content": system})
        taken = turns(request.messages)  # which end with a user's
        if not self._dialect.parallel:
            taken = [*apart(taken)]
        if request.must and not (self._dialect.forces and self._dialect.tools):
            said = f"(Reply by calling the tool {request.must}, and with nothing else.)"
            text = "\n\n".join(part for part in (taken[-1].text, said) if part.strip())
            taken[-1] = structs.replace(taken[-1], text=text)
        for turn in taken:
            made += [self._assistant(turn)] if turn.role == "assistant" else user(turn)
        if system.strip() and not self._dialect.system:
            first = made[0]  # turns begin with a user, and the first has nothing to answer
            if isinstance(first["content"], str):
                first["content"] = f"{system}\n\n{first['content']}"
            else:
                first["content"].insert(0, {"type": "text", "text": system})
        return made

    def _assistant(self, turn: Message) -> dict[str, Any]:
        made: dict[str, Any] = {"role": "assistant", "content": clean(turn.text) or None}
        field = self._dialect.reasoning
        thoughts = [each.text for each in turn.thoughts if not (each.signature or each.redacted)]
        if field and thoughts:
            made[field] = clean("".join(thoughts))
        if turn.calls:
            made["tool_calls"] = [called(call) for call in turn.calls]
        return made


def by_schema(request: Request) -> Request:
    """The request for the arguments alone of the tool that has to be called."""
    spec = next(each for each in request.tools if each["name"] == request.must)
    words = f"{request.system}\n\n{spec['name']}: {spec.get('description', '')}".strip()
    return structs.replace(request, system=words, schema=spec["input_schema"])


def shape(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The demand that a reply be JSON of this schema, word for word where that can be kept."""
    named = {"name": "answer", "schema": clean(dict(schema)), "strict": closed(schema)}
    return {"type": "json_schema", "json_schema": named}


def closed(schema: Any) -> bool:
    """Whether every object of a schema has its properties and no others, as OpenAI's `strict`
    wants it, and nothing in it is out of the ordinary."""
    if not isinstance(schema, Mapping) or not PLAIN.issuperset(schema):
        return False
    properties = schema.get("properties", {})
    inner = [*properties.values(), *([schema["items"]] if "items" in schema else [])]
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or {*properties} != {*schema.get("required", ())}
    ):
        return False
    return all(closed(each) for each in inner)


PLAIN = {"type", "description", "enum", "const", "properties", "required", "items"}
PLAIN |= {"additionalProperties"}


def offer(spec: dict[str, Any]) -> dict[str, Any]:
    """A tool as it is offered."""
    function = {
        "name": spec["name"],
        "description": spec.get("description", ""),
        "parameters": spec.get("input_schema") or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def called(call: Call) -> dict[str, Any]:
    """A call as it goes back, with what the server wants to see again."""
    arguments = json.dumps(clean(call.input), ensure_ascii=False)
    function = {"name": title(call.name), "arguments": arguments}
    made = {"id": identifier(call.id, 40), "type": "function", "function": function}
    if "extra_content" in call.extra:
        made["extra_content"] = call.extra["extra_content"]
    return made


def user(turn: Message) -> list[dict[str, Any]]:
    """A user's turn: a message for each result, then one for the rest.

    Images of results stand in the latter, since a result can only be text.
    """
    made: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": identifier(result.call, 40), "content": output(result)}
        for result in turn.results
    ]
    images = [image for result in turn.results for image in result.images]
    text: str = clean(turn.text)
    if images and not text.strip():
        text = "(the images that the tools gave)"
    if images or turn.images:
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
        parts += [picture(image) for image in (*images, *turn.images)]
        made.append({"role": "user", "content": parts})
    elif text.strip():
        made.append({"role": "user", "content": text})
    return made


def picture(image: Image) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}
