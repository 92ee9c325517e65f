"""The choice of target and precision from arguments, environment and configuration.

The environment is read here and nowhere else. Order: argument, notebook cell, environment, configuration, default.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nki_lab.call_records.choices import choices
from nki_lab.call_records.projects import project_of
from nki_lab.diagnostic import NkiError, coded_error, error_of
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.kernel_runtime import compiled_code
from nki_lab.kernel_runtime.beta1 import DEFAULT_PRECISE
from nki_lab.kernel_runtime.issue.target import DEFAULT_TARGET, choice
from nki_lab.kernel_runtime.options import Options
from nki_lab.source.callables import code_of
from nki_lab.source_files import read_source

TARGET_VARIABLE: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
PRECISE_VARIABLE: Final = "NKI_PRECISE_FP"
TRACEBACK_VARIABLE: Final = "NKI_LAB_TRACEBACK"
OTHER_SIDE_VARIABLE: Final = "NKI_LAB_CROSSCHECK"
CACHE_VARIABLE: Final = "NKI_LAB_CACHE"
NOTEBOOK_VARIABLE: Final = "NKI_LAB_NOTEBOOK_BYTES"
NOTEBOOK_BYTES: Final = 5 * 2**20
"""Bytes that one run may add to a saved notebook unless the environment says otherwise."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """The options in the first line of a notebook cell, for all that the cell runs; or those of a test."""

    target: Arch | None = None
    strict: bool = False
    precise: bool | None = None


_cells: list[_Cell] = [_Cell()]


@contextmanager
def chosen(*, target: str | None = None, strict: bool = False, precise: bool | None = None) -> Iterator[Arch]:
    """While this lasts, in all threads, these choices are those of calls that name none; gives the target."""
    _cells.append(_Cell(None if target is None else _named(target, "--target"), strict, precise))
    try:
        yield resolve_target()
    finally:
        _cells.pop()


def resolve_target(argument: str | Arch | None = None, *, kernel: str = "") -> Arch:
    """The target's table: `argument`, else the cell, the environment, the kernel's decorator, the configuration.

    Without any of them it is trn3, which NKI itself assumes without a chip. NKI004 says where an unknown name is from.
    """
    if argument is not None:
        return _named(argument, "target")
    cell = _cells[-1].target
    if cell is not None:
        return cell
    variable = _variable(TARGET_VARIABLE)
    if variable:
        return _named(variable, TARGET_VARIABLE)
    if kernel:
        return _named(kernel, "platform_target")
    name, file = _configured()
    return _named(name, f"[tool.nki-lab] target in {file}") if name else _DEFAULT


_DEFAULT: Final = arch_of(DEFAULT_TARGET)


def target_origin() -> str:
    """Return the name of the setting that decides on the target of a call that names none."""
    if _cells[-1].target is not None:
        return "the notebook cell"
    if os.environ.get(TARGET_VARIABLE, "").strip():
        return TARGET_VARIABLE
    name, file = _configured()
    return f"[tool.nki-lab] in {file}" if name else "the default"


def _named(name: Any, origin: str) -> Arch:
    if not isinstance(name, str | Arch):
        raise coded_error("NKI004", f"{origin} is {name!r}", operand="target", help='write target="trn2"')
    try:
        return arch_of(name)
    except NkiError as error:
        raise error_of(replace(error.diagnostics[0], message=f"{origin} is {name!r}, which is no target")) from None


def _variable(name: str) -> str:
    """Return a variable of the environment without spaces around it; empty where it is not set.

    `os.environ.get` raises and catches two errors for a variable that is not set, which takes longer than all else
    that a call of a kernel asks about its target.
    """
    known = getattr(os.environ, "_data", None)
    if _IS_POSIX and isinstance(known, dict) and _encoded(name) not in known:
        return ""
    return os.environ.get(name, "").strip()


_IS_POSIX: Final = os.name == "posix"
_encoded: Final = lru_cache(os.fsencode)


@lru_cache(maxsize=64)
def _settings_above(folder: str) -> tuple[str, ...]:
    """Return where settings for a folder may stand, the nearest first."""
    paths = []
    while True:
        paths.append(os.path.join(folder, "pyproject.toml"))  # noqa: PTH118 - texts: each call of a kernel looks here
        parent = os.path.dirname(folder)  # noqa: PTH120
        if parent == folder:
            return tuple(paths)
        folder = parent


def _configured() -> tuple[str, str]:
    """The target in the nearest pyproject.toml that has one to say, with the file's path."""
    for file in _settings_above(os.getcwd()):  # noqa: PTH109
        try:
            stamp = os.stat(file)  # noqa: PTH116
        except OSError:
            continue
        return _target_in(file, stamp.st_mtime_ns, stamp.st_size), file
    return "", ""


@lru_cache(maxsize=16)
def _target_in(file: str, _changed: int, _size: int) -> str:
    try:
        table = tomllib.loads(read_source(file).decode())
    except (OSError, ValueError):  # somebody else's file, which its own tool will complain about
        return ""
    tool = table.get("tool")
    ours = tool.get("nki-lab") if isinstance(tool, dict) else None
    target = ours.get("target") if isinstance(ours, dict) else None
    return "" if target is None else str(target)


def default_options(dialect: str) -> Options:
    """The options of a run that names none: cell or test, else NKI_PRECISE_FP decides on rounding, where it is set.

    Kernels of Beta 1 have a default of their own.
    """
    strict, precise = _cells[-1].strict, _cells[-1].precise
    if precise is None:
        value = _variable(PRECISE_VARIABLE).casefold()
        if value in ("0", "false", "off", "no"):
            precise = False
        elif value in ("1", "true", "on", "yes"):
            precise = True
        elif dialect == "beta1":
            precise = DEFAULT_PRECISE
    return _options(strict, precise)


@lru_cache
def _options(strict: bool, precise: bool | None) -> Options:
    return Options(strict=strict) if precise is None else Options(precise=precise, strict=strict)


def records_calls(function: object) -> bool:
    """Return whether calls of a function are recorded: an entry point or the project of the function's file says so."""
    if choices.always or choices.session:
        return True
    code = getattr(function, "__code__", None) or code_of(function)
    return code is not None and project_of(code.co_filename).records


def is_other_side() -> bool:
    """Return whether this process is the other side of a crosscheck, where `nki` is the installed package."""
    return bool(os.environ.get(OTHER_SIDE_VARIABLE))


def shows_own_frames() -> bool:
    """Return whether tracebacks show the frames of this package: NKI_LAB_TRACEBACK=full."""
    return os.environ.get(TRACEBACK_VARIABLE, "").strip().casefold() == "full"


def cache_folder() -> Path | None:
    """Return the folder of the cache on disk: NKI_LAB_CACHE, `0` or `off` for none, else the system's place for such.

    That is `nki-lab` in XDG_CACHE_HOME or ~/.cache, in Library/Caches on macOS, in LOCALAPPDATA on Windows.
    """
    text = os.environ.get(CACHE_VARIABLE, "").strip()
    if text.casefold() in ("0", "off", "false", "no"):
        return None
    if text:
        return Path(os.path.expanduser(text))  # noqa: PTH111 - a user that is not known stays as it is
    home = os.path.expanduser("~")  # noqa: PTH111 - without a home the text stays as it is
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    usual = os.path.join(home, "Library", "Caches") if sys.platform == "darwin" else os.path.join(home, ".cache")  # noqa: PTH118
    base = named if os.path.isabs(named) else usual  # noqa: PTH117
    return Path(base) / "nki-lab" if os.path.isabs(base) else None  # noqa: PTH117


def notebook_bytes() -> int:
    """The bytes that one run may add to a saved notebook; NKI012 where the environment says no number."""
    text = os.environ.get(NOTEBOOK_VARIABLE, "").strip()
    if not text:
        return NOTEBOOK_BYTES
    if not text.isdecimal():
        raise coded_error(
            "NKI012",
            f"{NOTEBOOK_VARIABLE} is {text!r}",
            operand=NOTEBOOK_VARIABLE,
            limit="a number of bytes, 0 to keep no run in notebooks",
        )
    return int(text)


choice.outside = lambda: resolve_target().target
compiled_code.choices.folder = cache_folder
