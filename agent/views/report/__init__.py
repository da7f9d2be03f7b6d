"""A run as one HTML file that needs nothing else: no script, no network, no font of its own.

All of it is read from the run's events and the patches of its steps; it decides nothing. Whoever
writes it takes keys out of both before.
"""

from agent.views.report.account import Account, taken
from agent.views.report.drawing import alone
from agent.views.report.page import page

__all__ = ["Account", "alone", "page", "taken"]
