"""Settings of checks: the editor's, else the environment's, else the project's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from nki_lab.query import STEPS, Configuration, configuration_of

SECTION: Final = "nki-lab"
TARGET_VARIABLE: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints beside the code that are wanted: `shapes` of tensors with dtype and memory, their `bytes` of a partition,
    the predicted `cost` of lines, the `trips` of loops.
    """

    shapes: bool = True
    bytes: bool = False
    cost: bool = False
    trips: bool = False


def hints_of(table: Mapping[str, object]) -> Hints:
    """Return the hints that settings ask for: `{"hints": {"bytes": true}}` or `{"hints.bytes": true}`."""
    given = table.get("hints")
    inner = given if isinstance(given, dict) else {}
    names = [field.name for field in fields(Hints)]
    values = {name: inner.get(name, table.get(f"hints.{name}", table.get(f"{SECTION}.hints.{name}"))) for name in names}
    return Hints(**{name: value for name, value in values.items() if isinstance(value, bool)})


class Settings:
    """The settings in force. `complain` reports each mistake in them once."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self.target: str | None = None  # as the editor's settings have it
        self.python = ""  # the interpreter or environment whose installed kernels are read
        self.steps = STEPS  # for the kernels of one file
        self.hints = Hints()
        self._reported: set[str] = set()

    def take(self, values: object) -> None:
        """Settings of the editor: `{"target": "trn2", "steps": 5_000_000, "python": ".venv"}`, or that under a name."""
        table: dict[str, object] = values if isinstance(values, dict) else {}
        inner = table.get(SECTION)
        table = inner if isinstance(inner, dict) else table
        names = ("target", "steps", "python")
        target, steps, python = (table.get(name, table.get(f"{SECTION}.{name}")) for name in names)
        self.python = python if isinstance(python, str) else ""
        self.target = target if isinstance(target, str) and target.strip() else None
        if isinstance(steps, int) and steps > 0:
            self.steps = steps
        self.hints = hints_of(table)

    def arch(self, path: str) -> Arch:
        """Return the target for a file."""
        variable = os.environ.get(TARGET_VARIABLE)
        for value, origin in ((self.target, f"the setting {SECTION}.target"), (variable, TARGET_VARIABLE)):
            if value and value.strip():
                try:
                    return arch_of(value)
                except NkiError as error:
                    self._complain_once(f"{origin} is passed over: {error.diagnostics[0].message}")
        return arch_of(self.project(path).target or DEFAULT_TARGET)

    def project(self, path: str) -> Configuration:
        """Return the settings of a file's project; empty for a text that is in none."""
        try:
            return project_of(path)
        except NkiError as error:
            for item in error.diagnostics:
                self._complain_once(f"{item.file}:{item.line}: {item.message}")
            return Configuration()

    def _complain_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._complain(text)


def project_of(path: str) -> Configuration:
    """Return the project of a file, NKI024 where it cannot be understood; of what is no file, none."""
    return configuration_of(Path(path)) if Path(path).is_absolute() else Configuration()
