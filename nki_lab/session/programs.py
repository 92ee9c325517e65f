"""Programs of earlier calls, for calls that must specialise to the same.

A program is kept under everything that its trace can have read: the bytecode and constants of the kernel and of every
function it names, the values of the globals and closure cells they name, the arguments' shapes, dtypes and constants,
grid, schedule, options, target and version. Only what is provably constant counts: a kernel that names a list, an
object, a module other than NKI's, NumPy and math, or a builtin that reads or writes anything (print among them) is
specialised again each time, and so is every kernel while a debugger traces. A trace that observed a value is never
kept.
"""

from __future__ import annotations

import builtins
import dis
import sys
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.collectives.rank_group import local
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.session.guards import Guards
from nki_lab.session.launch import Launch

KEPT: Final = 64
"""Programs that are kept; the one unused for longest goes first."""

ROWS: Final = 1_000_000
"""Instructions of all kept programs together: columns, views and buffers take up to some 300 bytes each."""

# Builtins that give the same for the same and do nothing else.
_PURE: Final = frozenset({
    "abs", "all", "any", "bool", "divmod", "enumerate", "float", "frozenset", "int", "isinstance", "len", "list", "max",
    "min", "pow", "range", "reversed", "round", "slice", "sorted", "str", "sum", "tuple", "zip", "dict", "type",
    "Ellipsis", "NotImplemented", "AssertionError", "ValueError", "TypeError",
})  # fmt: skip
_BUILTINS: Final = {name: getattr(builtins, name) for name in sorted(_PURE)}
_PURE_TYPES: Final = (bool, int, float, str, tuple, type(None))
_OF_MODULES: Final = (bool, int, float, str, FunctionType)
_OURS: Final = frozenset({"nki", "neuronxcc", "nki_lab"})
_ROOTS: Final = _OURS | {"numpy", "ml_dtypes", "math"}
# Attributes behind which those modules hold files or state.
_IMPURE: Final = frozenset({"device_print", "shared_constant"})
_IMPURE_NUMPY: Final = frozenset({
    "random", "lib", "load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap", "save", "savetxt", "savez",
    "savez_compressed", "tofile", "geterr", "geterrcall", "seterr", "seterrcall", "getbufsize", "setbufsize",
    "get_printoptions", "set_printoptions", "printoptions", "array2string", "array_repr", "array_str", "datetime64",
})  # fmt: skip
# Those of them that nothing else is called by: a function may have been given the module as an argument.
_IMPURE_ANYWHERE: Final = _IMPURE_NUMPY - {"lib", "load", "save"}
_OF_KERNELS: Final = frozenset({"function", "keywords", "grid", "schedule", "notes"})
"""Attributes of kernel objects that are not the user's; nor are those that begin with an underscore."""
_OPCODES_REFUSED: Final = frozenset({"IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_BUILD_CLASS"})
_OPCODES_OF_CELLS: Final = frozenset({"STORE_DEREF", "DELETE_DEREF"})


class _NotConstantError(Exception):
    """The kernel reads something that may change from call to call."""


class _Seen(dict[FunctionType, Hashable]):
    """The functions that a key has by now, with what takes the names that they depend on.

    `modules` are those that they name or are given, `attributes` the names of which they may take from any of them.
    """

    def __init__(self, guards: Guards | None) -> None:
        super().__init__()
        self.guards = guards
        self.modules: dict[ModuleType, None] = {}
        self.attributes: set[str] = set()


@dataclass(frozen=True, slots=True)
class CachedProgram:
    """A program with what its trace returned and noted."""

    program: Program
    structure: object
    notes: tuple[Diagnostic, ...]


_kept: OrderedDict[Hashable, CachedProgram] = OrderedDict()
_lock = threading.Lock()


def key_of(launch: Launch, arguments: Mapping[str, object], guards: Guards | None = None) -> Hashable | None:
    """Return the cache key of the program of this call; None where the program may not be cached.

    `guards` take the names that the key depends on.
    """
    function = launch.function
    if is_debugged() or not isinstance(function, FunctionType):
        return None
    seen = _Seen(guards)
    inputs: dict[int, int] = {}
    try:
        given = tuple((name, _argument(value, seen, inputs)) for name, value in arguments.items())
        place = None if local.rank is None else (local.rank.number, local.rank.group.size)
        asked = (launch.arch, launch.options, launch.grid, launch.dialect, launch.schedule)
        return (_function(function, seen), given, *asked, place, *_taken_from_modules(seen))
    except (_NotConstantError, RecursionError):
        return None


def recall(key: Hashable | None) -> CachedProgram | None:
    """The program that was kept under `key`."""
    if key is None:
        return None
    with _lock:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
        return known


def keep(key: Hashable | None, program: Program, structure: object, notes: list[Diagnostic]) -> None:
    """Keep a complete program whose trace observed nothing."""
    if key is None or len(program) > ROWS:
        return
    with _lock:
        _kept[key] = CachedProgram(program, structure, tuple(notes))
        # The values of an ordered dictionary say KeyError where an interrupt comes while a key is hashed.
        while len(_kept) > KEPT or sum(len(_kept[item].program) for item in _kept) > ROWS:
            _kept.popitem(last=False)


def is_debugged() -> bool:
    """Whether a debugger follows the trace line by line: breakpoints in the kernel must be reached."""
    return sys.gettrace() is not None or (
        _MONITORING is not None and _MONITORING.get_tool(_MONITORING.DEBUGGER_ID) is not None
    )


_MONITORING: Final = getattr(sys, "monitoring", None)  # Python 3.12 and later


def forget(files: Collection[str] | None = None) -> None:
    """Drop the programs that are kept of kernels in some files; without `files` all."""
    with _lock:
        for key in list(_kept):
            if files is None or _file_of(key) in files:
                del _kept[key]


def _file_of(key: Any) -> str:
    """Return the file of the kernel behind a cache key, as `_function` enters it."""
    function = key[0]
    return str(function[1]) if isinstance(function, tuple) else function.__code__.co_filename


def _argument(value: object, seen: _Seen, inputs: dict[int, int]) -> Hashable:
    if isinstance(value, NkiTensor):
        position = inputs.setdefault(value._buffer.id, len(inputs))
        return ("input", position, value._buffer.name, value._shape, value._dtype.name, value._buffer.space)
    return (tuple, *(_argument(item, seen, inputs) for item in value)) if type(value) is tuple else _value(value, seen)


def _value(value: Any, seen: _Seen) -> Hashable:
    """A constant as a key that equals that of no other constant: 1, 1.0 and True differ, 0.0 and -0.0 too."""
    kind = type(value)
    if kind is float:
        return (float, value.hex())
    if value is None or value is Ellipsis or kind in (int, bool, str, bytes, range):
        return (kind, value)
    if kind is tuple:
        return (tuple, *(_value(item, seen) for item in value))
    if isinstance(value, (np.dtype, NamedDType, DType)):
        if isinstance(value, np.dtype) and has_metadata(value):
            raise _NotConstantError
        return ("dtype", kind, str(value))
    if isinstance(value, np.generic):
        if isinstance(value, np.void) or _root(kind.__module__) not in _ROOTS:  # records change in place
            raise _NotConstantError
        return (kind, value.tobytes())
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, type) and value in _PURE_TYPES:
        return (type, value)
    if isinstance(value, (Enum, np.ufunc, BuiltinFunctionType, type, ModuleType)):
        known = _is_known(value)
    elif _root(kind.__module__) in _OURS:  # a kernel, an operator that is only a token
        inner = getattr(value, "function", None)
        if isinstance(inner, FunctionType):
            own = vars(value)
            if own.get("grid") or any(name not in _OF_KERNELS and not name.startswith("_") for name in own):
                raise _NotConstantError
            if seen.guards is not None:
                seen.guards.watch_name(own, "function")
                seen.guards.watch_name(own, "grid")
            return (kind, _function(inner, seen))
        known = callable(value) and inner is None  # else a kernel of an object, whose state may change
    else:
        known = False
    if not known:
        raise _NotConstantError
    if isinstance(value, ModuleType):
        seen.modules[value] = None
    return (kind, value)


def has_metadata(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype, or one inside it, carries data that dtypes are not compared by."""
    return dtype.metadata is not None or any(has_metadata(item[0]) for item in (dtype.fields or {}).values())


def _root(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def is_of_library(value: object) -> bool:
    """Return whether an object belongs to NKI, NumPy, math or Python, and is the same in every process."""
    if isinstance(value, type) and vars(builtins).get(value.__name__) is value:
        return True
    if isinstance(value, (Enum, np.ufunc, BuiltinFunctionType, type)):
        return _is_known(value)
    home = type(value).__module__
    if _root(home) == "numpy":  # also functions that libraries of other arrays may take over, and np.mgrid
        known = callable(value) and hasattr(value, "__qualname__") and _is_known(value)
        return known or isinstance(value, np.dtype) or home == type(np.mgrid).__module__
    return _root(home) in _OURS and not hasattr(value, "function")


def _is_known(value: object) -> bool:
    """Return whether `value` belongs to NKI, NumPy or math, whose functions and classes do not change."""
    if isinstance(value, ModuleType):
        return _root(value.__name__) in _ROOTS and not value.__name__.startswith("numpy.random")
    if isinstance(value, np.ufunc):  # those of np.frompyfunc call Python
        return getattr(np, value.__name__, None) is value
    if isinstance(value, Enum):
        return _root(type(value).__module__) in _ROOTS
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, (type(None), ModuleType)):
        return False  # the method of an object, such as the generator behind numpy.random.rand
    home = _root(getattr(value, "__module__", None))
    return home in _ROOTS and not (home == "numpy" and getattr(value, "__name__", "") in _IMPURE_NUMPY)


def _function(function: FunctionType, seen: _Seen) -> Hashable:
    """A function by its code and by what the names in it mean now.

    Those of NKI and NumPy are told by their globals: `functools.wraps` gives a helper the `__module__` of another.
    """
    home = _root(function.__globals__.get("__name__"))
    if home in _OURS or (home == "numpy" and function.__name__ not in _IMPURE_NUMPY):
        return function
    if function in seen:
        return seen[function]
    seen[function] = ("again", len(seen))
    code = function.__code__
    names = _globals_of(code)
    if names is None or function.__dict__ or _attributes_of(code) & _IMPURE_ANYWHERE:
        raise _NotConstantError
    seen.attributes |= _attributes_of(code)
    known: Mapping[str, object] = cast("Any", function).__builtins__
    read: list[Hashable] = []
    for name in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            if _is_numpy(value) and _taken_from(name, code) & _IMPURE_NUMPY:
                raise _NotConstantError
            read.append((name, _value(value, seen)))
        elif name in known and (name not in _PURE or known[name] is not _BUILTINS[name]):
            raise _NotConstantError
        else:
            read.append(name)
            if seen.guards is not None:
                seen.guards.watch_name(known, name)
    try:
        closure = tuple(_read(cell.cell_contents, code, seen) for cell in function.__closure__ or ())
    except ValueError:  # a cell that is still empty
        raise _NotConstantError from None
    if seen.guards is not None:
        seen.guards.watch(function, names)
    defaults = tuple(_read(item, code, seen) for item in function.__defaults__ or ())
    named = tuple((name, _read(item, code, seen)) for name, item in (function.__kwdefaults__ or {}).items())
    return (code, code.co_filename, tuple(read), closure, defaults, named)


def _read(value: object, code: CodeType, seen: _Seen) -> Hashable:
    """A value that a function has in a cell or as a default; from NumPy it takes nothing that reads or writes."""
    if _is_numpy(value) and _attributes_of(code) & _IMPURE_NUMPY:
        raise _NotConstantError
    return _value(value, seen)


def _is_numpy(value: object) -> bool:
    return isinstance(value, ModuleType) and _root(value.__name__) == "numpy"


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """An object that equals none but itself."""

    item: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.item is self.item

    def __hash__(self) -> int:
        return id(self.item)


def _taken_from_modules(seen: _Seen) -> list[Hashable]:
    """Return what the functions of a key may take from modules: a kernel's author may put something else there.

    A function may have been given a module by another one, so that the names of all count in each module.
    """
    found: list[Hashable] = []
    before = -1
    while before < (count := len(seen.modules) + len(seen.attributes)):  # functions from there may name others
        before, names = count, frozenset(seen.attributes)
        for module in [*seen.modules]:
            found += (module, *_members_of(module, names, seen, {module}))
    return found


def _members_of(
    module: ModuleType, names: frozenset[str], seen: _Seen, within: set[ModuleType]
) -> Iterator[tuple[str, Hashable]]:
    """Yield what some names of a module, and of those in it, mean now."""
    space = vars(module)
    if _root(module.__name__) == "numpy":  # whoever may take one of these from there has no key
        names -= _IMPURE_NUMPY
    for name in sorted(names & space.keys()):
        item = space[name]
        if seen.guards is not None:
            seen.guards.watch_name(space, name)
        if isinstance(item, ModuleType):
            if item not in within and _is_known(item):
                within.add(item)
                yield from _members_of(item, names, seen, within)
        elif is_of_library(item):
            yield name, Same(item)
        else:
            yield name, _value(item, seen)


_names: WeakKeyDictionary[CodeType, tuple[str, ...] | None] = WeakKeyDictionary()
_members: WeakKeyDictionary[CodeType, frozenset[str]] = WeakKeyDictionary()
_taken: WeakKeyDictionary[CodeType, dict[str, frozenset[str]]] = WeakKeyDictionary()


def _globals_of(code: CodeType) -> tuple[str, ...] | None:
    """The globals and builtins that a code object and those inside it name; None where it does more than read them."""
    if code not in _names:
        _names[code] = _found_globals(code)
    return _names[code]


def _found_globals(code: CodeType) -> tuple[str, ...] | None:
    steps = list(dis.get_instructions(code))
    if _IMPURE.intersection(code.co_names) or any(
        step.opname in _OPCODES_REFUSED or (step.opname in _OPCODES_OF_CELLS and step.argval in code.co_freevars)
        for step in steps
    ):
        return None
    names: dict[str, None] = {step.argval: None for step in steps if step.opname == "LOAD_GLOBAL"}
    if any(name.startswith("__") and name.endswith("__") for name in set(code.co_names) - names.keys()):
        return None  # parts of functions and modules, which are set in place
    for inner in _codes_in(code):
        found = _globals_of(inner)
        if found is None:
            return None
        names |= dict.fromkeys(found)
    return tuple(names)


def _attributes_of(code: CodeType) -> frozenset[str]:
    known = _members.get(code)
    if known is None:
        known = _members[code] = frozenset(code.co_names).union(*(_attributes_of(inner) for inner in _codes_in(code)))
    return known


def _taken_from(name: str, code: CodeType) -> frozenset[str]:
    """Return the attributes that a code object and those inside it may take from a global.

    Those are the ones that follow the name; where it stands alone, any that the code names.
    """
    known = _taken.setdefault(code, {})
    if name not in known:
        known[name] = _found_taken(name, code)
    return known[name]


def _found_taken(name: str, code: CodeType) -> frozenset[str]:
    found: set[str] = set()
    codes = [code]
    for inner in codes:
        codes += _codes_in(inner)
        steps = [step for step in dis.get_instructions(inner) if step.opname not in ("EXTENDED_ARG", "CACHE")]
        for step, after in pairwise(steps):
            if step.opname == "LOAD_GLOBAL" and step.argval == name:
                if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    return _attributes_of(code)
                found.add(after.argval)
    return frozenset(found)


def _codes_in(code: CodeType) -> list[CodeType]:
    return [item for item in code.co_consts if isinstance(item, CodeType)]
