"""A run as it stands: the fold of its events, and what it asks for next."""

from typing import Any, TypeAlias

Job: TypeAlias = Any
