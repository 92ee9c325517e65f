"""What the surroundings decide: target and precision from arguments, environment and configuration.

The environment is read here and nowhere else. Order: argument, environment, configuration, default.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime.frontend.legacy import DEFAULT_PRECISE
from nki_lab.kernel_runtime.frontend.target import DEFAULT_TARGET, choice
from nki_lab.kernel_runtime.options import Options

TARGET_VARIABLE: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
PRECISE_VARIABLE: Final = "NKI_PRECISE_FP"


def resolve_target(argument: str | Arch | None = None, *, kernel: str = "") -> Arch:
    """The target's table: `argument`, else the environment, else the kernel's decorator, else the configuration.

    Without any of them it is trn3, which NKI itself assumes without a chip. NKI004 says where an unknown name is from.
    """
    if argument is not None:
        return _named(argument, "target")
    variable = os.environ.get(TARGET_VARIABLE, "").strip()
    if variable:
        return _named(variable, TARGET_VARIABLE)
    if kernel:
        return _named(kernel, "platform_target")
    name, file = _configured()
    return _named(name, f"[tool.nki-lab] target in {file}") if name else arch_of(DEFAULT_TARGET)


def _named(name: Any, origin: str) -> Arch:
    if not isinstance(name, str | Arch):
        raise error_of(diagnose("NKI004", f"{origin} is {name!r}", operand="target", help='write target="trn2"'))
    try:
        return arch_of(name)
    except NkiError as error:
        first = error.diagnostics[0]
        raise error_of(replace(first, message=f"{origin} is {name!r}, which is no target")) from None


def _configured() -> tuple[str, str]:
    """The target in the nearest pyproject.toml that has one to say, with the file's path."""
    folder = Path.cwd()
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        try:
            stamp = file.stat()
        except OSError:
            continue
        target = _target_in(str(file), stamp.st_mtime_ns, stamp.st_size)
        return target, str(file)
    return "", ""


@lru_cache(maxsize=16)
def _target_in(file: str, _changed: int, _size: int) -> str:
    try:
        table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # somebody else's file, which its own tool will complain about
        return ""
    tool = table.get("tool")
    ours = tool.get("nki-lab") if isinstance(tool, dict) else None
    target = ours.get("target") if isinstance(ours, dict) else None
    return "" if target is None else str(target)


def default_options(dialect: str) -> Options:
    """The options of a run that names none: NKI_PRECISE_FP decides on rounding, where it is set.

    Kernels of Beta 1 have a default of their own.
    """
    value = os.environ.get(PRECISE_VARIABLE, "").strip().casefold()
    if value in ("0", "false", "off", "no"):
        return Options(precise=False)
    if value in ("1", "true", "on", "yes"):
        return Options(precise=True)
    return Options(precise=DEFAULT_PRECISE) if dialect == "legacy" else Options()


def _outside() -> str:
    return resolve_target().target


choice.outside = _outside
