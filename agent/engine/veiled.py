"""Tool → Tool: the user's own secrets don't come back from it.

A model has no use for a key: where the value would stand it reads the name of the variable. What
it would write with such a name in it would put that in the value's place, and is refused.
"""

from typing import Any

from msgspec import structs

from agent.errors import ToolError
from agent.rule import EDITS
from agent.secret import Veil
from agent.tool import Context, Outcome, Tool


def veiled(tool: Tool, veil: Veil) -> Tool:
    """The same tool, with `[redacted: NAME]` for each secret in what it gives back."""
    if not veil.own:
        return tool

    def function(context: Context, /, **input: Any) -> Outcome:
        if tool.name in EDITS and (name := veil.stands_in(repr(input))):
            raise ToolError(
                f"[redacted: {name}] stands for the user's own {name}, which you are not shown: it "
                "would be written in the value's place. Change only what stands around it"
            )
        try:
            done = tool.function(context, **input)
        except ToolError as error:
            if (said := veil.spoken(str(error))) == str(error):
                raise
            raise ToolError(said) from None  # the cause would say it
        outcome = done if isinstance(done, Outcome) else Outcome(text=done)
        return structs.replace(outcome, text=veil.spoken(outcome.text))

    return structs.replace(tool, function=function)
