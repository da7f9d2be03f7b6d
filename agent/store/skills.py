"""Skills: named plans, found in a few places, of which a later one wins.

Two forms: YAML (a plan with a name), and the folders of agentskills.io with a SKILL.md: front
matter with `name` and `description`, then instructions, which become a plan of one agent step.
What an untrusted directory holds never takes another skill's name, never starts by a phrase, and
is marked, so that its commands are asked about. A bad file is named and the others still load.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agent.errors import PlanError, UsageError, near
from agent.matching import Offer, sure
from agent.plan import NAME, Plan, Step, split, with_arguments
from agent.store import planfile, yamlfile
from agent.store.disk import contents
from agent.store.yamlfile import Pairs, Scalar

Source: TypeAlias = Literal["builtin", "user", "project"]

MOST_FILES = 500  # of one place


class Skill(Struct, frozen=True, kw_only=True):
    plan: Plan
    path: Path
    source: Source
    trusted: bool = True  # false: its `run` steps ask, and no phrase starts it
    instructions: str = ""  # what a SKILL.md says below its front matter
    offered: bool = True  # whether a model is told of it

    @property
    def name(self) -> str:
        return self.plan.name


class Skills(Struct, frozen=True, kw_only=True):
    """The skills there are, in the order of their names, and what was wrong with others."""

    all: tuple[Skill, ...] = ()
    faults: tuple[str, ...] = ()  # files that can't be used: FILE:LINE: why
    notices: tuple[str, ...] = ()  # files that could, but are passed over

    def find(self, name: str) -> Skill:
        """The skill of that name; `_` is read as `-`. Raises UsageError, with the nearest."""
        wanted = name.replace("_", "-")
        for skill in self.all:
            if skill.name == wanted:
                return skill
        names = [skill.name for skill in self.all]
        raise UsageError(
            f"there is no skill {name!r}{near(wanted, names)}", hint="`ts skills` lists them"
        )


def builtin() -> Path:
    """Where the skills that come with the product are: in the wheel, or beside `agent/`."""
    here = Path(__file__).parents[1]
    return here / "skills" if (here / "skills").is_dir() else here.parent / "skills"


class Place(Struct, frozen=True):
    directory: Path
    source: Source
    yaml: bool = True  # whether *.yaml files count there, besides folders with a SKILL.md


def places(builtin: Path, home: Path, cwd: Path) -> tuple[Place, ...]:
    """Where skills are looked up; a later place wins."""
    return (
        Place(builtin, "builtin"),
        Place(home / ".config/tianshu/skills", "user"),
        Place(home / ".agents/skills", "user"),
        Place(cwd / ".claude/skills", "project", yaml=False),
        Place(cwd / ".agents/skills", "project", yaml=False),
        Place(cwd / ".agent/skills", "project"),
    )


def own_places(builtin: Path, home: Path) -> tuple[Path, ...]:
    """The directories of skills that come from no project."""
    found = places(builtin, home, home)
    return tuple(place.directory for place in found if place.source != "project")


def load(builtin: Path, home: Path, cwd: Path, *, trusted: bool) -> Skills:
    """All skills that can be used in `cwd`; `trusted`: whether its own files may be.

    Raises nothing for a bad file: it is named in `faults`.
    """
    found: dict[str, Skill] = {}
    faults, notices = list[str](), list[str]()
    user = {place.directory.resolve() for place in places(builtin, home, cwd)[:3]}
    for place in places(builtin, home, cwd):
        own = place.source != "project"
        if not own and place.directory.resolve() in user:
            continue  # the home directory is the working directory
        here = dict[str, Path]()
        for path in files(place, faults):
            try:
                skill = load_file(path, place.source, trusted=own or trusted)
            except UsageError as error:
                faults += error.faults if isinstance(error, PlanError) else [str(error)]
                continue
            if other := here.get(skill.name):
                notices.append(f"{path}: the name {skill.name!r} is taken by {other}")
            elif skill.name in found and not skill.trusted:
                notices.append(
                    f"{path}: passed over: the directory is not trusted, and there is another "
                    f"skill {skill.name!r}"
                )
            else:
                here[skill.name] = path
                found[skill.name] = skill
    return Skills(
        all=tuple(found[name] for name in sorted(found)),
        faults=tuple(faults),
        notices=tuple(notices),
    )


def load_file(path: Path, source: Source = "project", *, trusted: bool = True) -> Skill:
    """One skill: a YAML file, a SKILL.md, or the folder of one.

    Raises UsageError with file and line, PlanError with every fault of a plan.
    """
    path = path / "SKILL.md" if path.is_dir() else path
    data = contents(path, yamlfile.MOST_BYTES)
    if path.name == "SKILL.md":
        skill = _instructed(yamlfile.text(data, str(path)), path)
        return structs.replace(skill, source=source, trusted=trusted)
    plan = planfile.parsed(data, str(path))
    name = plan.name or path.stem.replace("_", "-")
    if not NAME.fullmatch(name):
        raise UsageError(f"{path}:1: the name {name!r} is not made of a-z, 0-9 and `-`")
    return Skill(
        plan=structs.replace(plan, name=name),
        path=path,
        source=source,
        trusted=trusted,
    )


def files(place: Place, faults: list[str]) -> Iterator[Path]:
    """The files of a place in the order of their names."""
    try:
        entries = sorted(place.directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        faults.append(f"{place.directory}: {error.strerror}")
        return
    if len(entries) > MOST_FILES:
        faults.append(f"{place.directory}: only the first {MOST_FILES} entries are looked at")
    for entry in entries[:MOST_FILES]:
        if place.yaml and entry.suffix in {".yaml", ".yml"} and not entry.name.startswith("."):
            yield entry
        elif (entry / "SKILL.md").exists():
            yield entry / "SKILL.md"


def _instructed(text: str, path: Path) -> Skill:
    """The skill of a SKILL.md. Raises UsageError."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    dashes = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not dashes or dashes[0] != first:
        raise UsageError(
            f"{path}:1: this has no front matter: lines `---`, `name: …`, `description: …`, `---`"
        )
    if len(dashes) < 2:
        raise UsageError(f"{path}:{first + 1}: the front matter has no end, a line `---`")
    front = _front(lines[first + 1 : dashes[1]], path, first + 1)
    if not isinstance(front, Pairs):
        raise UsageError(f"{path}:{first + 2}: the front matter has no `name` and `description`")
    name = _word(front, "name").replace("_", "-") or path.parent.resolve().name.replace("_", "-")
    description = " ".join(_word(front, "description").split())
    if not NAME.fullmatch(name):
        where = yamlfile.line(front, "$", "name")
        raise UsageError(f"{path}:{where}: the name {name!r} is not made of a-z, 0-9 and `-`")
    if not description:
        raise UsageError(f"{path}:{front.line}: the front matter has no `description`")
    body = "\n".join(lines[dashes[1] + 1 :]).strip()
    plan = Plan(name=name, description=description, steps=(_step(name, body, path),))
    return Skill(
        plan=plan,
        path=path,
        source="project",
        instructions=body,
        offered=_word(front, "disable-model-invocation").lower() != "true",
    )


def _front(lines: list[str], path: Path, above: int) -> yamlfile.Node | None:
    """The front matter; a value with `: ` in it may stand without quotes, as many write it."""
    try:
        return yamlfile.composed("\n".join(lines), str(path), above)
    except UsageError as error:
        quoted = [
            re.sub(r"^([\w-]+): +([^\s\"'\[{|>&*!].*)$", _quoted_value, line) for line in lines
        ]
        try:
            return yamlfile.composed("\n".join(quoted), str(path), above)
        except UsageError:
            raise error from None


def _quoted_value(found: re.Match[str]) -> str:
    return f"{found[1]}: {json.dumps(found[2].rstrip(), ensure_ascii=False)}"


def _word(front: Pairs, key: str) -> str:
    pair = front.of(key)
    return pair[1].text.strip() if pair and isinstance(pair[1], Scalar) else ""


def _step(name: str, body: str, path: Path) -> Step:
    text = (
        f"Follow the instructions of the skill {name}. "
        f"The files that they name are in {path.parent.absolute()}.\n\n{body}"
    )
    if "$ARGUMENTS" not in body and "${ARGUMENTS}" not in body:
        text += "\n\n<arguments>\n$ARGUMENTS\n</arguments>"
    return Step(id=name, do=text)


def asked(skill: Skill, line: str = "") -> Plan:
    """The plan that a skill is with the words of `line`, which stay as they were typed.

    In a SKILL.md only `$ARGUMENTS` stands for something: `$1` may be a price or a script's.
    """
    if skill.path.name != "SKILL.md":
        return with_arguments(skill.plan, split(line), line)
    line = line.strip()
    steps = (structs.replace(step, given={"ARGUMENTS": line}) for step in skill.plan.steps)
    return structs.replace(skill.plan, goal=f"{skill.name} {line}".strip(), steps=tuple(steps))


def slashed(text: str) -> tuple[str, str] | None:
    """Name and words of `/NAME words`, or `/skill:NAME words`; None for any other text.

    >>> slashed("/skill:x a b"), slashed("/?"), slashed("/usr/bin")
    (('skill:x', 'a b'), ('?', ''), None)
    """
    found = re.fullmatch(r"/((?:skill:)?[A-Za-z0-9_?-]+)(?:\s+(.*))?", text.strip(), re.DOTALL)
    return (found[1], found[2] or "") if found else None


def offers(skills: Iterable[Skill]) -> list[Offer]:
    """What those of them are known by that a phrase may start."""
    return [
        Offer(skill.name, skill.plan.description, skill.plan.match)
        for skill in skills
        if skill.trusted
    ]


class Called(Struct, frozen=True):
    """A skill that a message starts."""

    skill: Skill
    words: str = ""  # its arguments, as typed
    phrase: str = ""  # of the skill, which the message says; "": it was called by its name


def match(text: str, skills: Iterable[Skill]) -> Called | None:
    """What a message starts; None where there is any doubt. `/NAME words` names one; else the
    whole message has to say what one says that is trusted."""
    named = {skill.name: skill for skill in skills}
    if slash := slashed(text):
        name, words = slash
        skill = named.get(name.removeprefix("skill:").replace("_", "-"))
        return Called(skill, words) if skill else None
    found = sure(text, offers(named.values()))
    return Called(named[found.name], phrase=found.because) if found else None
