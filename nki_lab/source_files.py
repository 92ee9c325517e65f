"""Reads files of a user's as text: regular files, links to such ones included, and only up to a size.

A device never ends and a pipe keeps its reader waiting; a folder that is checked may hold both under any name.
"""

# ruff: noqa: PTH113, PTH114, PTH116, PTH118, PTH123
# Files are opened without waiting as descriptors, whose status decides.

from __future__ import annotations

import linecache
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, Final

MOST_BYTES: Final = 64 << 20
"""Size of the largest file that is read: notebooks hold the pictures that their cells drew."""
LIMIT: Final = f"a regular file of at most {MOST_BYTES >> 20} MiB, or a link to one inside of the project"


class UnsuitableFileError(OSError):
    """Reports a file that is there and is not read: no regular file, or too large."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


def read_source(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file; OSError for one that cannot be read, is something else, or is too large."""
    require_regular(os.stat(path), most)  # before it is opened, since opening a device may have effects
    # Without O_NONBLOCK, opening a pipe that took the file's place in the meantime would wait for somebody to write.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        require_regular(os.fstat(handle), most)
        content = stream.read(most + 1)  # files of /proc have no size
    if len(content) > most:
        raise _too_large(most)
    return content


def read_stream(stream: BinaryIO | None, most: int = MOST_BYTES) -> bytes:
    """Return what a stream holds up to its end; OSError where it is closed, None for one, or holds too much."""
    if stream is None:
        raise UnsuitableFileError("it is closed")
    content = stream.read(most + 1)
    if len(content) > most:
        raise _too_large(most)
    return content


def is_kind(kind: Callable[[], bool]) -> bool:
    """Return whether a path is of a kind, `path.is_dir`: one that the system cannot take, or hides, is of none."""
    try:
        return kind()
    except (OSError, ValueError):
        return False


def require_file(path: str | os.PathLike[str], most: int | None = None) -> None:
    """Check that a path leads to a regular file, before a library opens it: OSError for one that is something else."""
    require_regular(os.stat(path), most)


def leads_outside(path: str | os.PathLike[str], folders: Iterable[str | os.PathLike[str]]) -> bool:
    """Return whether a path is a link to what is in none of some folders: a project may hold links to anything."""
    if not os.path.islink(path):
        return False
    real = os.path.realpath(path)
    return not any(real.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)


def require_regular(status: os.stat_result, most: int | None = None) -> None:
    """Check that a path leads to a regular file, of at most `most` bytes where that is given."""
    if not stat.S_ISREG(status.st_mode):
        kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
        kind = next((name for matches, name in kinds if matches(status.st_mode)), "a device")
        raise UnsuitableFileError(f"it is {kind}, not a file")
    if most is not None and status.st_size > most:
        raise _too_large(most)


def _too_large(most: int) -> UnsuitableFileError:
    return UnsuitableFileError(f"it has more than {most} bytes")


def lines_of(file: str, scope: dict[str, object] | None = None) -> list[str]:
    """Return the lines of a source file as `linecache` has or reads them; none where it cannot be read.

    `scope` are the global names of a function from there, which may hold a loader of its own.
    """
    if file not in linecache.cache:
        try:
            require_regular(os.stat(file), MOST_BYTES)
        except FileNotFoundError:
            pass  # the name of a cell or of a module that a loader knows
        except (OSError, ValueError):
            return []
    try:
        return linecache.getlines(file, scope)
    except (LookupError, ValueError):  # it declares an encoding that is none of text: linecache knows others only
        return []


def read_again(file: str) -> None:
    """Have the lines of a file read anew, where it was written since they were read; those of one that is gone stay."""
    if file in linecache.cache and os.path.isfile(file):
        linecache.checkcache(file)


def shown_names(files: Iterable[str]) -> dict[str, str]:
    """Return each file with the name to show for it: "Cell In[3]" for a cell of this process's notebook, else its own.

    A second cell of one number keeps its own name, so that names stay apart.
    """
    out: dict[str, str] = {}
    numbers = _cell_numbers()
    taken = set()
    for file in files:
        number = numbers.get(file)
        name = file if number is None else f"Cell In[{number}]"
        out[file] = file if name in taken else name
        taken.add(out[file])
    return out


def shown_name(file: str) -> str:
    """Return the name to show for one file: see `shown_names`."""
    return shown_names([file])[file]


def _cell_numbers() -> Mapping[str, int]:
    """Return the numbers of the cells that IPython compiled, by the names that their code has for a file."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return numbers if isinstance(numbers, dict) else {}


def line_of(file: str, number: int) -> str:
    """Return the 1-based line of a source file with its end; empty where there is none that can be read."""
    lines = lines_of(file)
    return lines[number - 1] if 0 < number <= len(lines) else ""


_RANGE: Final = re.compile(r"\bin\s+(?:\w+\.)*(\w*range)\s*\(")


def range_of_loop(file: str, number: int) -> str:
    """Return the name of the range that the `for` in a 1-based line of a source file counts through, else nothing."""
    found = _RANGE.search(line_of(file, number))
    return found[1] if found else ""
