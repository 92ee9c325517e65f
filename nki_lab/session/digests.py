"""Digests of cache keys that mean the same in every process: what a program depends on, as 256 bits.

A key of `programs.key_of` names objects of this process. Here code is told by its instructions, constants and names,
objects of NKI and NumPy by their names, and constants by their values. A part that has no such form gives no digest.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from nki_lab import own_faults
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.session.arguments import Arguments, Intake, Keywords, bound
from nki_lab.session.launch import Launch
from nki_lab.session.programs import Same, is_of_library, key_of
from nki_lab.source_files import lines_of

_FORMAT: Final = 1
_CODE: Final = (
    "co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount",
    "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_name", "co_qualname", "co_filename",
    "co_firstlineno", "co_linetable", "co_exceptiontable",
)  # fmt: skip


class _NoFormError(Exception):
    """A part of a key has no form outside of this process."""


def digest_of(launch: Launch, specs: Arguments, kwargs: Keywords, trip_counts: Mapping[Any, int] | None) -> str | None:
    """Return the digest of a profile: 64 hexadecimal digits; None where it may depend on more than can be told.

    It covers the kernel and all functions and constants that it names, the texts of their files, arguments, options,
    target, and the versions of nki_lab and Python. Raises NkiError where the arguments do not fit the kernel.
    """
    program = launch.program()
    intake = Intake(launch.builder(program), shared=True, dialect=launch.dialect, values=False)
    call = bound(launch.function, specs, kwargs)
    taken = {name: intake.take(name, value) for name, value in call.arguments.items()}
    key = key_of(launch, taken)
    if key is None:
        return None
    files: dict[str, None] = {}
    state = hashlib.sha256()
    counts = sorted((str(name), int(count)) for name, count in (trip_counts or {}).items())
    try:
        whole = (
            _FORMAT,
            own_faults.version(),
            platform.python_version(),
            _stamp(),
            repr(launch.arch),
            launch.notes,
            counts,
            key,
        )
        for part in _parts(whole, files):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
    except (_NoFormError, RecursionError):
        return None
    for file in files:
        state.update("".join(lines_of(file)).encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _parts(value: object, files: dict[str, None]) -> Iterator[bytes]:
    """Yield the parts of a value; `files` takes the files of code."""
    kind = type(value)
    yield kind.__qualname__.encode()
    if isinstance(value, (tuple, list)):
        yield str(len(value)).encode()
        for item in value:
            yield from _parts(item, files)
    elif isinstance(value, CodeType):
        files[value.co_filename] = None
        for name in _CODE:
            yield from _parts(getattr(value, name), files)
    elif isinstance(value, frozenset):
        yield "\0".join(sorted(map(repr, value))).encode()
    elif kind is bytes:
        yield value  # type: ignore[misc]
    elif value is None or value is Ellipsis or kind in (bool, int, str, float, complex, range):
        yield repr(value).encode("utf-8", "surrogatepass")
    elif isinstance(value, np.generic):
        yield value.tobytes()
    elif isinstance(value, Same):
        if not is_of_library(value.item):
            raise _NoFormError
        yield _named(value.item).encode()
    else:
        yield _named(value).encode()


def _named(value: object) -> str:
    """Return the name by which an object of a library or a plain record is known everywhere."""
    if isinstance(value, Enum):
        return f"{type(value).__module__}.{type(value).__qualname__}.{value.name}"
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ufunc):
        return f"numpy.{value.__name__}"
    if isinstance(value, (np.dtype, NamedDType, DType)):
        return f"{type(value).__qualname__}.{value}"
    text = repr(value)
    if hasattr(type(value), "__dataclass_fields__") and " at 0x" not in text:
        return text
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str):
        return f"{type(value).__module__}.{type(value).__qualname__}:{getattr(value, '__module__', '')}.{name}"
    if isinstance(value, Arch) or _has_no_state(value):  # the whole of a target is in each digest
        return f"{type(value).__module__}.{type(value).__qualname__}"
    raise _NoFormError


def _has_no_state(value: object) -> bool:
    """Return whether an object of NKI is like all others of its type."""
    kind = type(value)
    ours = kind.__module__.startswith("nki_lab.") and not hasattr(value, "__dict__")
    return ours and not any(getattr(item, "__slots__", ()) for item in kind.__mro__)


@lru_cache(maxsize=1)
def _stamp() -> str:
    """Return what changes when the package's files do."""
    folder = Path(own_faults.__file__).parent
    state = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        found = file.stat()
        state.update(f"{file.relative_to(folder).as_posix()} {found.st_size} {found.st_mtime_ns}\n".encode())
    return state.hexdigest()
