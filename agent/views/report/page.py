"""The page: how the run ended, its graph, its time, its steps, its plan."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from agent.event import (
    OVER,
    ModelCalled,
    Notice,
    PermissionDecided,
    PlanCreated,
    PlanRevised,
    RevisionFailed,
    Text,
    UserSaid,
)
from agent.message import Usage
from agent.plan import Step
from agent.views import figures
from agent.views.lines import WORDS
from agent.views.plain import one_line
from agent.views.plan_text import does
from agent.views.report.account import Account, Item, Made, Try, taken
from agent.views.report.drawing import GLYPHS, drawn, longest, style
from agent.views.report.markup import Html, joined, tag
from agent.views.report.timeline import chain, timeline

MOST = 20_000  # characters of one text …
MOST_PAGE = 12_000_000  # … until the page has so many; then
LEAST = 400
FEW = 20  # lines of a block that are seen whole …
NARROW = 30  # … on a phone, where so many characters make one
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'"
MARK = "<!doctype html>\n<!-- a report of ts -->\n"


class Page:
    """Puts the page together; `said` counts what stands in it."""

    def __init__(
        self, account: Account, patches: Mapping[str, str], notice: str, *, live: bool
    ) -> None:
        self.account, self.state = account, account.state
        self.patches, self.notice, self.live = patches, notice, live
        listed = account.state.listed
        self.plan_of = {step.id for step in listed}
        gone = [step for id, step in account.known.items() if id not in account.state.steps]
        self.steps = [*listed, *gone]  # those that a revision has replaced are told as well
        self.places = {step.id: f"s{n}" for n, step in enumerate(self.steps, 1)}
        self.links = {id: f"#{place}" for id, place in self.places.items()}
        self.seconds = taken(account.tries)
        self.path = longest(self.state, self.seconds) if self.steps else ()
        self.said = 0

    # -- texts ----------------------------------------------------------------------------------

    def cut(self, words: str) -> str:
        """A text that is not too long, with how much of it is left out."""
        most = MOST if self.said < MOST_PAGE else LEAST
        left = len(words) - most
        shown = f"{words[:most]}\n… {left:,} characters left out …" if left > 0 else words
        self.said += len(shown)
        return shown

    def block(self, words: str, look: str = "") -> Html:
        shown = self.cut(words.rstrip())
        rows = sum(len(line) // NARROW + 1 for line in shown.split("\n"))
        reach = "0" if rows > FEW else None  # it scrolls: the keyboard has to reach it
        return tag("pre", shown, class_=look or None, tabindex=reach)

    def prose(self, words: str) -> Html:
        return tag("div", self.cut(words.strip()), class_="prose")

    # -- the head -------------------------------------------------------------------------------

    def head(self) -> Html:
        state, title = self.state, one_line(self.state.goal, 160) or "A run without a goal"
        about = [
            f"run {state.run or '?'}", _clock(state.began), _model(state.model),
            f"ts {self.account.version}" if self.account.version else "",
        ]  # fmt: skip
        rows = [
            tag("p", self.badge(self.status), class_="status"),
            tag("h1", title),
            tag("p", " · ".join(filter(None, about)), class_="about"),
        ]
        if state.goal.strip() != title and len(state.goal) > len(title):
            whole = tag("summary", "The whole task")
            rows.insert(2, tag("details", whole, self.prose(state.goal)))
        rows += [tag("p", words, class_="notice") for words in self.notices()]
        return tag("header", *rows, self.totals())

    @property
    def status(self) -> str:
        end = self.state.finished
        return end.status if end else "running" if self.live else "unfinished"

    def notices(self) -> Iterator[str]:
        end = self.state.finished
        if self.notice:
            yield self.notice
        if self.live:
            yield "The run was under way when this was written."
        elif not end or end.status not in OVER:
            yield f"It has not come to its end: `ts resume {self.state.run}` goes on with it."

    def badge(self, standing: str) -> Html:
        look = {
            "partial": "failed", "interrupted": "cancelled", "over-budget": "cancelled",
            "unfinished": "cancelled",
        }.get(standing, standing)  # fmt: skip
        sign = GLYPHS.get(look, "·")
        words = WORDS.get(standing, standing)
        return tag(
            "span", tag("span", sign, aria_hidden="true"), f" {words}", class_=f"badge {look}"
        )

    def totals(self) -> Html:
        state, account = self.state, self.account
        done, count = state.count
        tries = sum(len(account.tries.get(step.id, ())) for step in self.steps if not step.group)
        facts = [
            ("Steps", f"{done} of {count}"),
            ("Time", figures.took(account.length)),
            ("Cost", figures.money(state.cost_usd).replace("cost unknown", "not known")),
            ("Tokens", figures.tokens(state.usage.total).removesuffix(" tok")),
            ("Model calls", f"{account.calls['model']:,}"),
            ("Tool calls", f"{account.calls['tool']:,}"),
            ("Attempts", f"{tries:,}"),
            ("Revisions", str(state.revisions)),
        ]
        rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
        return tag("dl", *rows, class_="totals")

    # -- the whole ------------------------------------------------------------------------------

    def sections(self) -> Iterator[Html]:
        state = self.state
        if self.steps:
            graph = tag(
                "div", drawn(state, self.path, self.links),
                class_="scroll", tabindex="0", role="region", aria_label="The plan as a graph",
            )  # fmt: skip
            yield _section("plan", "Plan", graph, self.legend())
        if self.account.tries:
            rows = [timeline(self.account, self.path, self.links)]
            if len(self.path) > 1:
                rows.insert(0, chain(self.path, self.seconds, self.links))
            yield _section("time", "Time", *rows)
        if answer := (state.finished.answer if state.finished else state.answer).strip():
            yield _section("answer", "Answer", self.answer(answer))
        if self.steps:
            told = [self.step(step) for step in self.steps]
            yield _section("steps", "Steps", *told)
        if self.account.plans:
            plans = [self.plan(n, event) for n, event in enumerate(self.account.plans)]
            yield _section("revisions", "The plan and its revisions", *plans)
        if outside := self.account.outside:
            rows = [self.item(item) for item in outside]
            yield _section("besides", "Besides the steps", *rows)

    def answer(self, answer: str) -> Html:
        return tag(
            "div",
            self.prose(answer),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label="The answer of the run",
        )

    def legend(self) -> Html:
        there = dict.fromkeys(self.standing(step.id) for step in self.state.listed)
        marks = [self.badge(standing) for standing in there]
        if self.path:
            marks.append(tag("span", "critical path", class_="badge critical"))
        return tag("p", joined(marks, " "), class_="legend")

    # -- steps ----------------------------------------------------------------------------------

    def step(self, step: Step) -> Html:
        state, id = self.state, step.id
        tries = self.account.tries.get(id, [])
        standing = self.standing(id)
        facts = [figures.took(self.seconds[id])] if self.seconds.get(id) else []
        if (spent := state.spent.get(id, Usage())).total:
            facts.append(figures.tokens(spent.total))
        if cost := state.costs.get(id, 0.0):
            facts.append(figures.money(cost))
        if len(tries) > 1:
            facts.append(f"{len(tries)} attempts")
        if id in self.path:
            facts.append("◆")
        if id not in self.plan_of:
            facts.append("replaced")
        summary = tag(
            "summary",
            self.badge("reused" if id in state.reused else standing),
            tag("strong", one_line(id, 80)),
            tag("span", does(step, 120), class_="does"),
            tag("span", " · ".join(facts), class_="facts"),
        )
        body = tag("div", *self.body(step, tries), class_="body", id=self.places[id])
        return tag("details", summary, body, class_="step")

    def standing(self, id: str) -> str:
        """How a step stands; of one that is in the plan no more, how its last attempt ended."""
        tries = self.account.tries.get(id)
        if tries and id not in self.plan_of:
            return tries[-1].status or "cancelled"
        standing = self.state.standing(id)
        return "cancelled" if standing == "running" and not self.live else standing

    def body(self, step: Step, tries: Sequence[Try]) -> Iterator[Html]:
        state, id = self.state, step.id
        yield tag("h3", "Instruction")
        yield (
            self.block(step.run)
            if step.run is not None
            else self.prose(step.do if step.do is not None else f"/{step.skill or ''}")
        )
        yield self.terms(step)
        for each in tries:
            if each.items:
                yield self.attempt(each, alone=len(tries) == 1)
        failed = self.standing(id) in {"failed", "skipped", "cancelled"}
        if words := (state.failure(id) if failed else state.text.get(id, "")).strip():
            yield tag("h3", "Why" if failed else "Result")
            yield self.block(words) if failed or step.run is not None else self.prose(words)
        if patch := self.patches.get(id, ""):
            yield tag("h3", "Changes")
            yield self.patch(patch)
        if outputs := state.outputs.get(id):
            yield tag("h3", "Files left in the workspace")
            yield tag("ul", *(tag("li", tag("code", path)) for path in outputs))

    def terms(self, step: Step) -> Html:
        """What else was laid down about a step."""
        facts: list[tuple[str, str]] = [
            ("needs", ", ".join(step.needs)),
            ("check", step.verify or ""),
            ("writes", "nothing" if step.writes == () else ", ".join(step.writes or ())),
            ("reads", ", ".join(step.reads or ())),
            ("only if", step.when or ""),
            ("for each of", step.foreach or ""),
            ("part of", step.part_of),
            ("may fail", "yes" if step.allow_failure else ""),
            ("model", step.model or ""),
        ]
        spent = self.state.spent.get(step.id, Usage())
        if spent.total:
            words = f"{spent.input_tokens:,} in, {spent.output_tokens:,} out"
            if cached := spent.cache_read_input_tokens:
                words += f", {cached:,} from a cache"
            facts.append(("tokens", words))
        rows = [
            tag("div", tag("dt", name), tag("dd", self.cut(value)))
            for name, value in facts
            if value
        ]
        return tag("dl", *rows, class_="terms") if rows else Html("")

    def attempt(self, each: Try, *, alone: bool) -> Html:
        title = "What happened" if alone else f"Attempt {each.number}"
        took = figures.took(each.ended - each.began)
        head = tag("h3", title, tag("small", f" {each.status or 'cut off'} · {took}"))
        return tag("div", head, *(self.item(item) for item in each.items), class_="attempt")

    def item(self, item: Item) -> Html:
        match item:
            case Made():
                return self.made(item)
            case Text(text=words):
                return self.prose(words)
            case ModelCalled():
                name = "model" if item.model == self.state.model else _model(item.model)
                facts = [name, figures.took(item.seconds)]
                if item.usage.total:
                    facts.append(figures.tokens(item.usage.total))
                if item.cost_usd:
                    facts.append(figures.money(item.cost_usd))
                return tag("p", "↳ ", " · ".join(facts), class_="line")
            case PermissionDecided():
                words = f"{item.tool}: {'allowed' if item.decision == 'allow' else 'denied'}"
                rows = [f"{words} by {item.by}"]
                if item.rule:
                    rows.append(item.rule)
                asked = [self.block(_json(item.input))] if item.input else []
                line = tag("p", "⚖ ", " · ".join(rows), class_="line")
                return tag("div", line, *asked, class_=f"decision {item.decision}")
            case UserSaid():
                words = f"The user: {item.wish}" + (f": {item.words}" if item.words else "")
                return tag("p", self.cut(words), class_="user")
            case RevisionFailed(because=because):
                return tag("p", self.cut(f"No revision: {because}"), class_="notice")
            case Notice(text=words):
                return tag("p", self.cut(words), class_="notice")

    def made(self, made: Made) -> Html:
        standing = {True: "done", False: "failed", None: "cancelled"}[made.ok]
        command = made.input.get("command")
        short = command if isinstance(command, str) else _gist(made.input)
        summary = tag(
            "summary",
            tag(
                "span", GLYPHS[standing], class_=f"sign {standing}", aria_label=standing, role="img"
            ),
            tag("b", "check" if made.check else one_line(made.name, 60)),
            tag("code", one_line(short, 160)),
            tag("small", figures.took(made.seconds) if made.seconds >= 0.05 else ""),
        )
        given = command if isinstance(command, str) and len(made.input) == 1 else _json(made.input)
        rows = [self.block(given, "given")] if given else []
        if made.output.strip():
            rows.append(self.block(made.output))
        elif made.ok is None:
            rows.append(tag("p", "It was cut off.", class_="line"))
        return tag("details", summary, *rows, class_="check" if made.check else "call")

    def patch(self, patch: str) -> Html:
        kinds = {"+": "plus", "-": "minus", "@": "at"}
        rows = list[Html]()
        for line in self.cut(patch.rstrip("\n")).split("\n"):
            head = line.startswith(("+++", "---", "diff "))
            look = "file" if head else kinds.get(line[:1], "")
            if not line.startswith(("index ", "new file", "deleted file", "--- ", "+++ ")):
                rows.append(tag("span", f"{line}\n", class_=look or None))
        return tag("pre", *rows, class_="diff")

    # -- the plan -------------------------------------------------------------------------------

    def plan(self, number: int, event: PlanCreated | PlanRevised) -> Html:
        if isinstance(event, PlanCreated):
            sources = {"model": "by the model", "skill": "from a skill", "file": "from a file"}
            title = f"The plan, {sources[event.source]}"
        else:
            who = "the user" if event.by == "user" else "the model"
            step = f" {one_line(event.step, 60)}" if isinstance(event.step, str) else ""
            title = f"Revision {number}: {event.action}{step}, by {who}"
        rows = [tag("summary", tag("strong", title))]
        if isinstance(event, PlanRevised) and event.because:
            rows.append(self.prose(event.because))
        if event.plan:
            steps = [
                tag("li", tag("code", one_line(step.id, 80)), f" {does(step, 300)}")
                for step in event.plan.steps
            ]
            rows.append(tag("ol", *steps))
        return tag("details", *rows, class_="step", open=isinstance(event, PlanRevised))


def page(
    account: Account, patches: Mapping[str, str], *, notice: str = "", live: bool = False
) -> str:
    """The page as text. `patches`: what steps have changed; `notice`: of damage in the log;
    `live`: the run is under way."""
    made = Page(account, patches, notice, live=live)
    sheet = style("graph.css") + style("page.css")
    seal = b64encode(sha256(sheet.encode()).digest()).decode()
    sections = list(made.sections())
    jumps = [
        tag("a", name, href=f"#{place}")
        for place, name in {"plan": "Plan", "time": "Time", "steps": "Steps"}.items()
        if any(section.startswith(f'<section id="{place}"') for section in sections)
    ]
    title = f"{one_line(account.state.goal, 80) or 'A run'} · ts report"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"{POLICY}; style-src 'sha256-{seal}'",
        ),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(sheet)),
    )
    body = tag(
        "body",
        tag(
            "a",
            "Skip to the steps",
            href="#steps" if account.state.listed else "#main",
            class_="skip",
        ),
        made.head(),
        tag("nav", *jumps, aria_label="Sections") if jumps else Html(""),
        tag("main", *sections, id="main", tabindex="-1"),
        tag(
            "footer",
            "Written by Tianshu (ts) from the run's log. It loads nothing and runs no script.",
        ),
    )
    return MARK + tag("html", head, body, lang="en") + "\n"


def _section(place: str, title: str, *rows: Html) -> Html:
    return tag(
        "section",
        tag("h2", title, id=f"{place}-title"),
        *rows,
        id=place,
        aria_labelledby=f"{place}-title",
    )


def _json(value: Mapping[str, Any]) -> str:
    """A call's input, its texts with the line ends that they have."""
    if not value:
        return ""
    if all(isinstance(each, str | int | float | bool | None) for each in value.values()):
        return "\n".join(
            f"{key}:{chr(10) if isinstance(each, str) and chr(10) in each else ' '}{each}"
            for key, each in value.items()
        )
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _gist(value: Mapping[str, Any]) -> str:
    """What a call is about, in a line."""
    return next((each for each in value.values() if isinstance(each, str)), "")


def _model(name: str) -> str:
    """A model's name; of one that is a file of the user's, no folder."""
    head, _, rest = name.partition("/")
    return f"{head}/{rest.rpartition('/')[2]}" if head == "script" else name


def _clock(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC" if time.endswith("Z") else time
