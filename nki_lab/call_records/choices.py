"""Switches of the entry points: whether calls are recorded, and where they come from. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Choices:
    """With `always`, calls are recorded and written although no project says so; with `session`, in memory only.

    `origin` names the run that calls come from: a test, a script, a notebook.
    """

    always: bool = False
    session: bool = False
    origin: str = ""


choices: Final = Choices()
