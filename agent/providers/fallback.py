"""Provider → Provider: another model is asked where a service fails for the moment."""

from collections.abc import Callable

from agent.errors import ServiceError
from agent.message import Reply, Request, Say
from agent.seams import Provider


def falling(
    provider: Provider,
    other: Provider,
    name: str,
    fallen: set[str],
    tell: Callable[[str], None],
) -> Provider:
    """`provider`, and `other` once that has raised ServiceError; both are patient already.

    `fallen` holds the names of those that are not asked any more, and outlives this: a
    conversation does not change from one model to another and back. `tell` is told why, once.
    Any other error, and those of `other`, are raised as they are.
    """

    def either(request: Request, say: Say) -> Reply:
        if name not in fallen:
            try:
                return provider(request, say)
            except ServiceError as error:
                fallen.add(name)
                tell(str(error))
        return other(request, say)

    return either
