"""What can go wrong, told to the one who can act on it.

    AgentError             told to the user: message, hint, exit code
      UsageError        2  the command line, a plan, a skill or a setting is wrong
        PlanError       2  … a plan, with every fault in it
      ModelError        1  a model gave no reply to this request, and would not to another try
        SetupError      3  … no model is set up, or it refused the key
        ServiceError   75  … its service failed for the moment
        CutError        1  … its replies came cut or empty each time
        TooLongError    1  … the conversation does not fit its context
      BudgetError       4  money, tokens or turns ran out
      ConsentError      5  a permission was needed and nobody could be asked
      StoppedError         the work was stopped: 124 time, 129, 130, 143 signals
      FaultError       70  a bug of ours, told in a line that says where the details are
    ToolError              told to the model, which may try again; no user ever sees one

Whatever else is raised is a bug of ours: the outermost wall makes a FaultError of it.
"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import ClassVar


class AgentError(Exception):
    """The base of all that a user may be told."""

    code: ClassVar[str] = "failed"
    exit_code: int = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(AgentError):
    code = "usage"
    exit_code = 2


class PlanError(UsageError):
    """A plan that cannot run; `faults` has every reason, not only the first."""

    code = "bad-plan"

    def __init__(self, faults: Sequence[str], *, where: str = "") -> None:
        lines = [f"{where}: {fault}" if where else fault for fault in faults]
        super().__init__("\n    ".join(lines), hint="nothing has been run")
        self.faults = tuple(faults)


class ModelError(AgentError):
    """A model gave no reply. `retry_after`: seconds until another try may help; None: it won't."""

    code = "model-refused"

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class SetupError(ModelError):
    code = "no-model"
    exit_code = 3


class ServiceError(ModelError):
    code = "service-failed"
    exit_code = 75


class CutError(ModelError):
    code = "reply-cut"


class TooLongError(ModelError):
    """`most` and `size`: the tokens that the model takes, and those it was sent, where it says."""

    code = "too-long"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        most: int | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.most, self.size = most, size


class BudgetError(AgentError):
    """`what` names the budget that ran out."""

    code = "over-budget"
    exit_code = 4

    def __init__(self, message: str, *, what: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.what = what  # "turns", "money", "tokens"


class ConsentError(AgentError):
    code = "not-allowed"
    exit_code = 5


class StoppedError(AgentError):
    """The work was stopped from outside; `exit_code` says by what (see agent.stop)."""

    code = "stopped"

    def __init__(self, message: str, exit_code: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.exit_code = exit_code


class FaultError(AgentError):
    code = "fault"
    exit_code = 70


class ToolError(Exception):
    """A tool's "no", in words that help the model do better."""


def near(name: str, names: Collection[str]) -> str:
    """`; did you mean 'X'?` for the nearest of `names`, or nothing."""
    if len(names) > 500:  # a comparison takes 10 µs and more
        names = [other for other in names if abs(len(other) - len(name)) <= 1][:500]
    found = get_close_matches(name, names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
