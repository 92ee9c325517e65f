"""Machine code for loops over columns, made by numba where the extra `fast` is installed.

A function that works on numbers in columns runs in the interpreter or compiled, and is the same source both ways. Where
numba is missing, or is another version than is supported, the interpreter runs it: slower, with equal results.

Compiling takes seconds, so that machine code is kept on disk. numba keeps it pickled: whoever can write there can
execute code. It is kept in a folder of its own that belongs to this user and that nobody else can look into, and not
read or written where that does not hold.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from nki_lab.file_system import remove_folder
from nki_lab.own_faults import installed_version

SUPPORTED: Final = (0, 68)
"""The version of numba whose machine code is tested, without the patch level."""

_FOLDER: Final = "compiled"

_LOAD: Final = 0.6
_READ: Final = 0.05
_COMPILE: Final = 0.5
"""Seconds that it takes to import numba, to read a small function from disk, and to compile it."""


@dataclass(slots=True)
class _Choices:
    """The folder of the cache, as an entry point tells: None for none."""

    folder: Callable[[], Path | None] = field(default=lambda: None)


choices: Final = _Choices()
_lock: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class Compiler:
    """The numba of this process; `why_not` says why there is none that is used."""

    numba: ModuleType | None
    why_not: str = ""


def compiler() -> Compiler:
    """Return numba, which this imports: half a second."""
    why_not = unavailable()
    if why_not:
        return Compiler(None, why_not)
    try:
        import numba
    except Exception as error:  # noqa: BLE001 - it refuses NumPy versions with several kinds of errors
        return Compiler(None, f"numba cannot be imported: {error}")
    if numba.config.DISABLE_JIT:
        return Compiler(None, "NUMBA_DISABLE_JIT is set")
    return Compiler(numba)


def unavailable() -> str:
    """Return why numba is not used as far as that is known without importing it, empty if it may be."""
    version = installed_version("numba")
    if not version:
        return "numba is not installed (pip install 'nki-lab[fast]')"
    if tuple(version.split(".")[:2]) != tuple(map(str, SUPPORTED)):
        return f"numba {version} is installed, {'.'.join(map(str, SUPPORTED))} is supported"
    return ""


def status() -> str:
    """Return which of the two runs, for people."""
    found = compiler()
    if found.numba is None:
        return f"interpreted: {found.why_not}"
    return f"compiled, numba {found.numba.__version__}"


@dataclass(slots=True)
class CompiledFunction:
    """A function of columns as machine code, made or read when it is first asked for.

    `callees` are the functions that it calls, by the names that it has for them, each with its own callees. `signature`
    makes the types of its arguments from numba.
    """

    function: FunctionType
    callees: Mapping[str, CompiledFunction] = field(default_factory=dict)
    _made: Any = None

    @property
    def is_made(self) -> bool:
        """Whether this process has it."""
        return self._made is not None

    @property
    def is_kept(self) -> bool:
        """Whether the disk may have it, as far as names of files tell."""
        folder = self._folder()
        return folder is not None and is_private(folder) and any(folder.rglob("*.nbi"))

    def get(self) -> Callable[..., Any] | None:
        """Return the function that compiles itself when it is called first, or finds what it compiled before; None
        where numba is not used.
        """
        with _lock:
            if self._made is None and not unavailable():
                numba = compiler().numba
                if numba is not None:
                    self._made = self._jitted(numba)
                    _keep(numba, self._made, self._folder())
            return self._made  # type: ignore[no-any-return]

    def _jitted(self, numba: ModuleType) -> Any:
        called = {name: other._jitted(numba) for name, other in self.callees.items()}
        mine = FunctionType(self.function.__code__, {**self.function.__globals__, **called}, self.function.__name__)
        # Divisors are never 0; `nogil` since walks of other threads go on beside it.
        return numba.njit(mine, error_model="numpy", nogil=True)

    def _folder(self) -> Path | None:
        """Return the folder for what these sources become: numba looks at the file of the outermost function only."""
        top = choices.folder()
        return None if top is None else top / _FOLDER / self._digest()

    def _digest(self) -> str:
        found = hashlib.sha256(installed_version("numba").encode())
        for source in sorted(self._sources()):
            found.update(hashlib.sha256(source).digest())
        return found.hexdigest()[:32]

    def _sources(self) -> set[bytes]:
        """Return the bytecode of all functions, with the constants of modules that becomes a part of machine code."""
        code, known = self.function.__code__, self.function.__globals__
        values = [(name, known[name]) for name in code.co_names if isinstance(known.get(name), int | tuple)]
        mine = {code.co_code + repr((code.co_consts, code.co_names, code.co_varnames, values)).encode()}
        return mine.union(*(other._sources() for other in self.callees.values()))


def compilable(function: Callable[..., Any], **callees: CompiledFunction) -> CompiledFunction:
    """Return a function of a module as one that can be compiled."""
    assert isinstance(function, FunctionType)
    return CompiledFunction(function, callees)


@dataclass(slots=True)
class WhenWorthwhile:
    """A function that becomes machine code when a process spent as long on what it replaces as making it takes:
    `compile_seconds` without those to import numba.
    """

    function: CompiledFunction
    compile_seconds: float = _COMPILE
    _spent: float = 0.0
    _enough: float = _READ

    def get(self) -> Callable[..., Any] | None:
        """Return the compiled function if it is worth its while by now."""
        if not self.function.is_made:
            if self._spent < self._enough:
                return None
            self._enough = math.inf if unavailable() else self._price()
            if self._spent < self._enough:
                return None
        return self.function.get()

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Count the time that is spent without the function."""
        start = time.perf_counter()
        yield
        self._spent += time.perf_counter() - start

    def _price(self) -> float:
        load = 0.0 if "numba" in sys.modules else _LOAD
        return load + (_READ if self.function.is_kept else self.compile_seconds)


def kept_bytes() -> int:
    """Return the bytes of the machine code on disk."""
    top = choices.folder()
    if top is None:
        return 0
    try:
        return sum(path.lstat().st_size for path in (top / _FOLDER).rglob("*") if path.is_file())
    except OSError:
        return 0


def clear() -> None:
    """Remove the machine code that is on disk."""
    top = choices.folder()
    if top is not None:
        remove_folder(top / _FOLDER)


def is_private(folder: Path) -> bool:
    """Return whether a folder and all that is in it belong to this user, with nobody else able to change any of it."""
    try:
        return all(_is_own(path) for path in (folder.parent, folder, *folder.rglob("*")))
    except OSError:
        return False


def _is_own(path: Path) -> bool:
    found = path.lstat()
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return False
    if os.name == "nt":  # there folders of a profile are its user's
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keep(numba: ModuleType, made: Any, folder: Path | None) -> None:
    """Let a function be read from a folder and written there, if nobody else has anything to do with that."""
    if folder is None:
        return
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return
    if not is_private(folder):
        return
    former = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        made.enable_caching()
    except (OSError, RuntimeError):  # a folder that cannot be written
        pass
    finally:
        numba.config.CACHE_DIR = former
