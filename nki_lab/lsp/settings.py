"""Which target a file is checked for: the editor's setting, else the environment's, else the project's."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.frontend.target import DEFAULT_TARGET

SECTION: Final = "nki-lab"
TARGET_VARIABLE: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
SECONDS: Final = 12.0
"""How long the kernels of one file are evaluated, where the editor does not say."""


class Settings:
    """The settings in force. What names no target is said once, through `complain`, and passed over."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self.target: str | None = None  # as the editor's settings have it
        self.seconds = SECONDS
        self._said: set[str] = set()

    def take(self, values: Any) -> None:
        """Settings of the editor: `{"target": "trn2", "seconds": 5}`, or the same under the section's name."""
        table = values if isinstance(values, dict) else {}
        inner = table.get(SECTION)
        table = inner if isinstance(inner, dict) else table
        target, seconds = (table.get(name, table.get(f"{SECTION}.{name}")) for name in ("target", "seconds"))
        self.target = target if isinstance(target, str) and target.strip() else None
        if isinstance(seconds, int | float) and seconds > 0:
            self.seconds = float(seconds)

    def arch(self, path: str) -> Arch:
        """The target for a file."""
        given = [(self.target, f"the setting {SECTION}.target"), (os.environ.get(TARGET_VARIABLE), TARGET_VARIABLE)]
        file = configuration_of(path)
        if file is not None:
            given.append((_configured(str(file), *_stamp(file)), f"target in {file}"))
        for value, origin in given:
            if value and value.strip():
                try:
                    return arch_of(value)
                except NkiError as error:
                    self._say(f"{origin} is passed over: {error.diagnostics[0].message}")
        return arch_of(DEFAULT_TARGET)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._complain(text)


def configuration_of(path: str) -> Path | None:
    """The nearest pyproject.toml above a file."""
    if not path:
        return None
    return next((file for folder in Path(path).parents if (file := folder / "pyproject.toml").is_file()), None)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=32)
def _configured(file: str, _changed: int, _size: int) -> str | None:
    """What `[tool.nki-lab] target` says; None where nothing, or where the file cannot be read."""
    try:
        table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # its own tool will complain about it
        return None
    tool = table.get("tool")
    ours = tool.get(SECTION) if isinstance(tool, dict) else None
    target = ours.get("target") if isinstance(ours, dict) else None
    return target if isinstance(target, str) else None
