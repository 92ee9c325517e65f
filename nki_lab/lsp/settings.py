"""Settings of checks: the editor's, by folder; else the environment's, else the project's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import TARGETS, Arch, arch_of
from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET
from nki_lab.query import STEPS, Configuration, configuration_of

SECTION: Final = "nki-lab"
TARGET_VARIABLE: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints beside the code that are wanted."""

    shapes: bool = field(default=True, metadata={"text": "Show shape, dtype and memory of tensors beside the code."})
    bytes: bool = field(default=False, metadata={"text": "Show the bytes of a partition that tensors take."})
    cost: bool = field(default=False, metadata={"text": "Show the predicted cost of lines."})
    trips: bool = field(default=False, metadata={"text": "Show how often loops run."})


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A setting of the editor's: its values are of a JSON `kind`, and of `choices` where there are some.

    The default stands for a setting that is missing, and for one that is wrong. `least` is the smallest number.
    """

    name: str
    kind: str
    default: str | int | bool
    text: str
    choices: tuple[str, ...] = ()
    least: int | None = None

    @property
    def schema(self) -> dict[str, object]:
        """Return the JSON schema of its values."""
        found: dict[str, object] = {"type": self.kind, "default": self.default, "description": self.text}
        if self.choices:
            found["enum"] = ["", *self.choices]
        if self.least is not None:
            found["minimum"] = self.least
        return found

    def fits(self, value: object) -> bool:
        """Return whether a value is one of the kind; spellings of choices are judged where they are used."""
        if isinstance(value, bool) or self.kind == "boolean":
            return isinstance(value, bool) and self.kind == "boolean"
        if self.kind == "integer":
            return isinstance(value, int) and value >= (self.least or 0)
        return isinstance(value, str)


OPTIONS: Final = (
    Option(
        name="target",
        kind="string",
        default="",
        choices=tuple(dict.fromkeys(arch.target for arch in TARGETS.values())),
        text="The target that kernels are checked for. Empty: that of the environment variable "
        f"{TARGET_VARIABLE}, else of the project's pyproject.toml, else {DEFAULT_TARGET}.",
    ),
    Option(
        name="steps",
        kind="integer",
        default=STEPS,
        least=1,
        text="Steps of evaluation that the kernels of one file may take. More of them find faults in longer loops.",
    ),
    Option(
        name="python",
        kind="string",
        default="",
        text="An interpreter, or the folder of its environment, whose installed kernels are read; it is never started.",
    ),
    *(
        Option(name=f"hints.{item.name}", kind="boolean", default=bool(item.default), text=item.metadata["text"])
        for item in fields(Hints)
    ),
)
"""All settings, each with its declaration: the schema and the documentation are made of it."""


def schema() -> dict[str, object]:
    """Return the JSON schema of the settings, under their section."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of the language server for NKI kernels",
        "type": "object",
        "properties": {f"{SECTION}.{option.name}": option.schema for option in OPTIONS},
    }


class Settings:
    """The settings in force. `complain` reports each mistake in them once."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._first: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._folders: dict[Path, dict[str, Any]] = {}
        self._reported: set[str] = set()

    def begin(self, values: object) -> None:
        """Take the settings that the editor starts with; they count where later ones have nothing."""
        self._first = self._read(values)

    def take(self, values: object, folder: str = "") -> None:
        """Take settings of the editor, of the files below a folder where one is given.

        They read `{"target": "trn2", "steps": 5_000_000, "python": ".venv"}`, or that under the section's name.
        """
        found = self._read(values)
        if folder:
            self._folders[Path(folder)] = found
        else:
            self._values = found

    def forget_folders(self) -> None:
        """Forget the settings of all folders."""
        self._folders.clear()

    def _read(self, values: object) -> dict[str, Any]:
        table: Mapping[str, object] = values if isinstance(values, dict) else {}
        inner = table.get(SECTION)
        table = inner if isinstance(inner, dict) else table
        found: dict[str, Any] = {}
        for option in OPTIONS:
            value = _given(table, option.name)
            if option.fits(value):
                found[option.name] = value
            elif value is not None:
                least = f" of at least {option.least}" if option.least is not None else ""
                text = f"{value!r:.60} is no {option.kind}{least}"
                self._complain_once(f"the setting {SECTION}.{option.name} is passed over: {text}")
        return found

    def value(self, name: str, path: str = "") -> Any:
        """Return a setting by its name: that of the innermost folder around a file, else that of all files."""
        option = next(item for item in OPTIONS if item.name == name)
        place = Path(path) if path and self._folders else None
        around = [folder for folder in self._folders if place is not None and place.is_relative_to(folder)]
        tables = [self._folders[folder] for folder in sorted(around, key=lambda item: len(item.parts), reverse=True)]
        return next((table[name] for table in (*tables, self._values, self._first) if name in table), option.default)

    @property
    def state(self) -> object:
        """Return all values, to be compared with later ones."""
        return dict(self._values), {folder: dict(values) for folder, values in self._folders.items()}

    def steps(self, path: str) -> int:
        """Return the steps of evaluation for a file."""
        return int(self.value("steps", path))

    def python(self, path: str) -> str:
        """Return the interpreter or environment for a file; empty for none."""
        return str(self.value("python", path))

    def hints(self, path: str) -> Hints:
        """Return the hints that are wanted in a file."""
        return Hints(**{item.name: bool(self.value(f"hints.{item.name}", path)) for item in fields(Hints)})

    def arch(self, path: str) -> Arch:
        """Return the target for a file."""
        chosen, variable = str(self.value("target", path)), os.environ.get(TARGET_VARIABLE)
        for value, origin in ((chosen, f"the setting {SECTION}.target"), (variable, TARGET_VARIABLE)):
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


def _given(table: Mapping[str, object], name: str) -> object:
    """Return a setting of a table: `{"hints": {"bytes": true}}`, `{"hints.bytes": true}`, or that with the section."""
    group, _, member = name.partition(".")
    inner = table.get(group)
    nested = inner.get(member) if member and isinstance(inner, dict) else None
    return table.get(name, table.get(f"{SECTION}.{name}")) if nested is None else nested


def project_of(path: str) -> Configuration:
    """Return the project of a file, NKI024 where it cannot be understood; of what is no file, none."""
    return configuration_of(Path(path)) if Path(path).is_absolute() else Configuration()
