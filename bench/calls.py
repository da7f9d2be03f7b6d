"""What the model is asked, and how much of it anew: `python bench/calls.py [--quick]`.

A server on this machine counts the requests of a whole task and their bytes, as they arrived; a
token is taken as four bytes. What stands at the beginning of a request just as it did in an
earlier one (tools, system prompt, messages so far, in the order in which services read them) can
come from a prompt cache; the rest is new.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rig

if TYPE_CHECKING:
    from agent.app import App
    from tests.servers import Answer, Ask

TOKEN = 4  # bytes
PARTS = 3  # files that each step of the task reads
SIZE = 6_000  # bytes of each
AIM_FIRST = 9 * 1024  # bytes of system prompt and tools in an empty folder
SKILL = """\
name: tidy
description: Put the folder in order.
match: [put this folder in order]
steps:
  - id: look
    run: "true"
"""
STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("begin", ()),
    ("left", ("begin",)),
    ("right", ("begin",)),
    ("end", ("left", "right")),
)


class Task:
    """One task done by `ts` in a folder, and the requests that came of it."""

    def __init__(
        self, cwd: Path, answers: "Sequence[Answer]", do: "Callable[[App], object]", **flags: Any
    ) -> None:
        from agent.app import App
        from agent.stop import Stop
        from agent.store import settingsfile
        from tests.servers import OpenAIServer

        with OpenAIServer(answers) as server:
            os.environ["COMPAT_BASE_URL"] = f"{server.url}/v1"
            flags = {
                "model": "compat/fake-model",
                "permission_mode": "auto",
                "max_workers": 1,  # so that the answers are taken in the order of the steps
            } | flags
            loaded = settingsfile.load(cwd, flags=flags, trusted=True)
            app = App(cwd, loaded, stop=Stop(), trusted=True)
            try:
                do(app)
            finally:
                app.close()
        self.asks: list[Ask] = server.requests
        said = answers[: len(self.asks)]
        self.said = sum(
            len(answer.text) + sum(len(raw) for _, _, raw in answer.calls) for answer in said
        )

    @property
    def sent(self) -> int:
        """Bytes of all requests."""
        return sum(int(ask.headers["content-length"]) for ask in self.asks)

    @property
    def kept(self) -> int:
        """Bytes that an earlier request had in the same place, from its beginning on."""
        seen, kept = list[bytes](), 0
        for ask in self.asks:
            text = rendered(ask.json)
            kept += max((common(text, each) for each in seen), default=0)
            seen.append(text)
        return kept


def rendered(body: dict[str, Any]) -> bytes:
    """A request in the order in which a prompt cache compares it."""
    return b"".join(map(compact, [*body.get("tools", ()), *body["messages"]]))


def compact(part: Any) -> bytes:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()


def common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    if one.startswith(other):
        return len(other)
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def row(report: rig.Report, name: str, task: Task, rival: Task | None = None) -> None:
    sent, kept = task.sent, task.kept
    report.row(
        name,
        str(len(task.asks)),
        f"{sent / 1024:.1f}",
        f"{(sent - kept) / 1024:.1f}",
        f"{kept / sent:.0%}" if sent else "-",
        f"{sent // TOKEN:,}",
        f"{task.said // TOKEN:,}",
        f"{sent / rival.sent:.2f}" if rival else "",
    )


def says(*words: str) -> "Callable[[App], None]":
    """A chat in which the user says these, one after another."""

    def do(app: "App") -> None:
        from agent.chat import Chat

        chat = Chat(app, None)
        for each in words:
            if called := app.called(each):
                chat.skill(called.skill, called.words, said=each)
            else:
                chat.turn(each)
        chat.close()

    return do


def reading(step: str) -> "Iterable[Answer]":
    """What the model says in a step: it reads its files one by one, and then it is done."""
    from tests.servers import Answer

    for part in range(PARTS):
        path = json.dumps({"path": f"{step}_{part}.md"})
        yield Answer(calls=((f"{step}_{part}", "read_file", path),))


def planned() -> "list[Answer]":
    from tests.servers import Answer

    steps = [
        {"id": id, "do": f"Read the files {id}_*.md.", "needs": needs, "writes": []}
        for id, needs in STEPS
    ]
    plan = json.dumps({"goal": "Read all files and sum them up.", "steps": steps})
    done = [Answer(text="This is what they say, in a sentence or two.")]
    return [
        Answer(calls=(("plan", "submit_plan", plan),)),
        *(answer for id, _ in STEPS for answer in [*reading(id), *done]),
    ]


def unplanned() -> "list[Answer]":
    from tests.servers import Answer

    words = "This is what they say, in a sentence or two. " * len(STEPS)
    return [*(each for id, _ in STEPS for each in reading(id)), Answer(text=words)]


def steps_shown(report: rig.Report, task: Task) -> None:
    """Of the requests of the steps of a plan, what each has in common with an earlier one."""
    steps = [ask.json for ask in task.asks if "report" in names(ask.json)]
    first = [body for body in steps if len(body["messages"]) == 2]
    later = [body for body in steps if len(body["messages"]) > 2]
    texts = [rendered(body) for body in first]
    shares = [
        max(common(text, each) for each in texts[:at]) / len(text)
        for at, text in enumerate(texts)
        if at
    ]
    grown = [body for body in later if any(begins(body, each) for each in steps)]
    report.table("the requests of the steps", "requests", "same head")
    report.row("a step's first one, another step's", str(len(first)), f"{min(shares):.0%}")
    whole = f"{len(grown) / len(later):.0%}"
    report.row("later ones that hold all before", str(len(later)), whole)


def names(body: dict[str, Any]) -> set[str]:
    return {each["function"]["name"] for each in body.get("tools", ())}


def begins(body: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Whether a request begins with all of an earlier one, to the byte, and goes on."""
    return body is not earlier and rendered(body).startswith(rendered(earlier))


def tasks(report: rig.Report, empty: Path, project: Path) -> None:
    from tests.servers import Answer

    hello = [Answer(text="Hello! What can I do for you?")]
    turns = [f"What is {each} and {each}?" for each in range(3 if report.quick else 8)]
    sum_up = says("Read all files and sum them up.")
    call = Answer(calls=(("c", "run_skill", json.dumps({"name": "tidy", "arguments": ""})),))
    one = Task(empty, hello, says("say hi"))
    many = Task(empty, hello * len(turns), says(*turns))
    graph = Task(project, planned(), sum_up)
    alone = Task(project, unplanned(), sum_up, plan="never")
    matched = Task(project, hello, says("put this folder in order"))
    found = Task(project, [call], says("the folder is a mess, tidy up"))

    heads = ("calls", "KiB sent", "KiB new", "cachable", "tokens in", "out", "× sent")
    report.table("tasks; × sent: of the rival below", *heads)
    row(report, "say hi, in an empty folder", one)
    row(report, f"{len(turns)} short turns of a chat", many)
    row(report, "a diamond of 4 steps, planned", graph, alone)
    row(report, "  one agent, no plan", alone)
    row(report, "a skill, matched by a phrase", matched, found)
    row(report, "  found by the model", found)

    report.table("skills", "calls")
    met = not matched.asks
    report.row("to find one by a phrase", str(len(matched.asks)), aim="none", met=met)
    first_request(report, one)
    steps_shown(report, graph)
    report.table("a turn of the chat", "bytes")
    report.row("sent again", f"{many.kept // (len(turns) - 1):,}")
    report.row("new", f"{(many.sent - many.kept - one.sent) // (len(turns) - 1):,}")


def first_request(report: rig.Report, task: Task) -> None:
    """What the request of a plain message is made of."""
    body = task.asks[0].json
    tools, system = len(compact(body["tools"])), len(compact(body["messages"][0]))
    report.table("the first request", "bytes")
    report.row(f"{len(body['tools'])} tools", f"{tools:,}")
    report.row("system prompt", f"{system:,}")
    met = tools + system <= AIM_FIRST
    report.row("both", f"{tools + system:,}", aim="≤ 9 KiB", met=met)
    report.row("all of it", f"{task.sent:,}")


def main() -> int:
    report = rig.Report(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        os.environ.clear()
        os.environ.update(rig.environment(home) | {"PATH": os.defpath})
        empty, project = home / "empty", home / "project"
        for each in (empty, project / ".agent/skills"):
            each.mkdir(parents=True)
        (project / ".agent/skills/tidy.yaml").write_text(SKILL, encoding="utf-8")
        for id, _ in STEPS:
            for part in range(PARTS):
                line = f"What the file {part} of {id} says, in words of no importance.\n"
                text = line * (SIZE // len(line))
                (project / f"{id}_{part}.md").write_text(text, encoding="utf-8")
        tasks(report, empty, project)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
