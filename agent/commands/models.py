"""`ts models`: what the services that are set up have to offer."""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import structs

from agent.app import App
from agent.commands.front import as_json, opened, output, print_json, say, say_error
from agent.errors import ModelError, UsageError, near
from agent.providers import prices, services
from agent.providers.offered import SECONDS, Offer, offered
from agent.providers.services import SERVICES, Service
from agent.views.figures import counted, money, tokens
from agent.views.plain import cells, safe

WIDEST = 60  # columns of a name, beyond which what follows is not below each other


def models(typed: argparse.Namespace) -> int:
    """`ts models [PROVIDER]`: of one service, or of all that are set up.

    Raises UsageError for what is no service, ModelError where none of them tells.
    """
    with opened(typed) as app:
        rows = [chosen(typed.words[0])] if typed.words else ready(app)
        for row in rows:
            app.near(f"{row.name}/")
        with ThreadPoolExecutor(len(rows)) as pool:
            answers = [*pool.map(lambda row: told(app, row), rows)]
        faults = [answer for answer in answers if isinstance(answer, ModelError)]
        if len(faults) == len(rows):
            raise faults[0]
        found = [each for answer in answers if isinstance(answer, tuple) for each in answer]
        show([known(app, offer) for offer in found], as_json=as_json(typed))
        for fault in faults:
            say_error(fault)
        return 0


def chosen(name: str) -> Service:
    """The service of a name. Raises UsageError."""
    if name in {"local", "script"}:
        raise UsageError(
            f"{name} is a file, not a service", hint="--model local/smollm2, script/FILE"
        )
    if name not in SERVICES:
        raise UsageError(
            f"there is no service {name!r}{near(name, SERVICES)}",
            hint=f"services: {', '.join(SERVICES)}",
        )
    return SERVICES[name]


def ready(app: App) -> list[Service]:
    """Those that can be asked: a key or a URL is set, or they run here. Raises SetupError."""
    running, urls, keys = services.running(), app.urls, app.loaded.keys
    found = [
        row
        for row in SERVICES.values()
        if (row.key in keys and (row.url or row.name in urls))
        or (row.keyless and row.name in urls)
        or (row.port and row.url in running)
    ]
    if app.settings.private:
        found = [row for row in found if services.here(f"{row.name}/", urls)]
    if not found:
        services.choose({}, lambda url: None)  # says how to get one
    return found


def told(app: App, row: Service) -> tuple[Offer, ...] | ModelError:
    try:
        endpoint = services.reached(
            row.name, row, app.loaded.keys, app.urls, idle=SECONDS, silence=SECONDS
        )
        return offered(row, endpoint)
    except ModelError as error:
        return error


def known(app: App, offer: Offer) -> Offer:
    """With what is known of it here where its service does not say, or the user says otherwise."""
    own = prices.own(offer.name, app.settings.prices)
    price = own or (prices.listed(offer.name) if offer.input is None else None)
    if price:
        offer = structs.replace(offer, input=price.input, output=price.output)
    elif offer.input is None and offer.name.partition("/")[0] in prices.FREE:
        offer = structs.replace(offer, input=0.0, output=0.0)
    size = app.size(offer.name) or offer.context or prices.context(offer.name)
    return structs.replace(offer, context=size)


def show(offers: Sequence[Offer], *, as_json: bool) -> None:
    if as_json:
        for offer in offers:
            print_json(structs.asdict(offer))
        return
    out = output(sys.stdout)
    width = min(max((cells(safe(offer.name)) for offer in offers), default=0), WIDEST)
    for offer in offers:
        name = safe(offer.name)
        space = " " * max(width - cells(name), 0)
        size = tokens(offer.context) if offer.context else ""
        out.line(f"{name}{space}  {size:>8}  {price(offer)}".rstrip())
    if not out.tty:
        return
    say(f"{counted(len(offers), 'model')}; --model SERVICE/NAME asks one")


def price(offer: Offer) -> str:
    """What a million tokens cost.

    >>> price(Offer(name="a/b", input=0.25, output=2.0)), price(Offer(name="a/b"))
    ('$0.25/M in, $2.00/M out', '')
    """
    if offer.input is None:
        return ""
    if not offer.input and not offer.output:
        return "free"
    out = "" if offer.output is None else f", {money(offer.output)}/M out"
    return f"{money(offer.input)}/M in{out}"
