"""Machine code for loops over columns, made by numba where the extra `fast` is installed.

A function that works on numbers in columns runs in the interpreter or compiled, and is the same source both ways. Where
numba is missing, or is another version than is supported, the interpreter runs it: slower, with equal results.

Compiling takes seconds, so that machine code is kept on disk. numba keeps it pickled: whoever can write there can
execute code. It is kept in a folder of its own that belongs to this user and that nobody else can look into, and not
read or written where that does not hold.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

from nki_lab.file_system import remove_folder
from nki_lab.own_faults import installed_version

SUPPORTED: Final = (0, 68)
"""The version of numba whose machine code is tested, without the patch level."""

_FOLDER: Final = "compiled"


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
        mine = {Path(self.function.__code__.co_filename).read_bytes()}
        return mine.union(*(other._sources() for other in self.callees.values()))


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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.parent.chmod(0o700)
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
