"""Whether a step has been done before: from the same, with the same, and nothing changed since.

The key of a step is a hash of all that it is made from: what it is told, what it reads, the
results and outputs of the steps it needs, the model, what agents are told besides, the skill. A
file that a step reads and writes counts as it left it, as a target of `make` does.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from agent.errors import StoppedError
from agent.event import StepFinished
from agent.job import Attempt, Told
from agent.plan import Step

FORM = 1  # of keys: raised when what they are made of changes


class Content(Protocol):
    """What files hold."""

    def read(self, step: Step, /) -> str | None:
        """SHA-256 of what a step reads, but for what it writes itself; None: not known."""
        ...

    def written(self, step: Step, /) -> dict[str, str] | None:
        """The files that its `writes` mean, by path; None: not known."""
        ...

    def outputs(self, paths: Sequence[str], /) -> dict[str, str]:
        """Those files of a workspace that are there, by path."""
        ...


class Earlier(Protocol):
    """What earlier runs have done."""

    def found(self, key: str, id: str, /) -> list[tuple[Path, StepFinished]]:
        """Workspaces and ends of the steps of that key: those called `id` first, then new."""
        ...

    def fetched(self, home: Path, end: StepFinished, /) -> tuple[str, ...] | None:
        """Bring a step's outputs into this run's workspace; None if they are not as they were."""
        ...

    def dropped(self, paths: tuple[str, ...], /) -> None:
        """Take them away again."""
        ...


class Made(Struct, frozen=True, kw_only=True):
    """What an attempt is made from."""

    key: str
    read: str  # SHA-256 of the files that it reads


class Reuse(Struct, frozen=True, kw_only=True):
    """Knows what steps are made from and have left, for this run and for those to come."""

    content: Content
    earlier: Earlier
    every: bool  # whether any step may be reused; else only commands that ask for it
    told: str  # SHA-256 of what agents are told besides their step, and commands are given
    named: Callable[[str], str]  # the whole name of a model
    skills: Mapping[str, str]  # their versions, by name; "": of the plan itself
    workspace: Path

    def wanted(self, job: Attempt) -> bool:
        """Whether what an earlier run did may stand for the attempt."""
        step = job.step
        asks = step.cache and step.run is not None
        return (self.every or asks) and not job.again and not job.cut_off and not job.failure

    def made(self, job: Attempt) -> Made | None:
        """What the attempt is made from; None: not known for sure, or nobody will ask."""
        step = job.step
        if step.run is not None and step.reads is None and not (self.every or step.cache):
            return None  # whole trees are not read for commands that take less than that
        read = self.content.read(step)
        needs = [self._need(told) for told in job.results]
        skills = list(self._skills(job))
        if read is None or None in needs or None in skills:
            return None
        whole: dict[str, Any] = {
            "form": FORM,
            "step": [step.do, step.run, step.verify, step.result, step.foreach],
            "files": [step.reads, step.writes, step.outputs, read],
            "limits": [step.tools, step.permissions, step.within],
            "given": step.given,
            "needs": needs,
            "skills": skills,
            "told": self.told,
        }
        if step.do is not None:
            whole |= {"goal": job.goal, "model": self.named(step.model or "main")}
        data = self._anywhere(msgspec.json.encode(whole, order="sorted"))
        return Made(key=hashlib.sha256(data).hexdigest(), read=read)

    def _need(self, told: Told) -> list[Any] | None:
        """A result that a step is given; None where one of its files is gone."""
        hashes = self.content.outputs(told.outputs)
        if len(hashes) < len(set(told.outputs)):
            return None
        return [told.id, told.status, told.text, told.words, hashes]

    def _skills(self, job: Attempt) -> Iterator[str | None]:
        """The versions of the skills that the step is from; None for one that is not known."""
        by_id = {step.id: step for step in job.steps}
        step: Step | None = job.step
        while step:
            if step.skill is not None:
                yield self.skills.get(skill_of(step.skill))
            step = by_id.get(step.part_of)
        yield self.skills.get("")

    def _anywhere(self, data: bytes) -> bytes:
        """The same whatever the run's workspace is called."""
        own = msgspec.json.encode(str(self.workspace))[1:-1]
        return data.replace(own, b"$TS_WORKSPACE")

    def found(self, job: Attempt, made: Made) -> Iterator[StepFinished]:
        """How earlier runs did the step, with what they left brought here, one at a time."""
        for home, end in self.earlier.found(made.key, job.step.id):
            now = self.content.written(job.step)
            written = {path: each for path, each in end.hashes.items() if path not in end.outputs}
            if now is None or now != written:
                continue
            if (brought := self.earlier.fetched(home, end)) is None:
                continue
            text = end.summary.replace(str(home), str(self.workspace))
            yield StepFinished(status="done", summary=text, outputs=brought, reused=True)

    def sealed(self, job: Attempt, made: Made | None, done: StepFinished) -> StepFinished:
        """The end of a step that is done, with the hashes of what it left, and with its key where
        what it was made from is known and stayed the same."""
        try:
            outputs = self.content.outputs(done.outputs)
            written = self.content.written(job.step)
            same = made and written is not None and self.content.read(job.step) == made.read
        except StoppedError:
            return done  # it is done all the same
        done = structs.replace(done, hashes=(written or {}) | outputs)
        if not (made and same) or len(outputs) < len(set(done.outputs)):
            return done
        return structs.replace(done, key=made.key)


def skill_of(words: str) -> str:
    """The name of the skill that a step names, with words for it or without."""
    return next(iter(words.split(None, 1)), "").replace("_", "-")
