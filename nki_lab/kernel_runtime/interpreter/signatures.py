"""How kernels are called, as far as the source says: annotations, and calls in the same module."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.interpreter.array_shapes import array
from nki_lab.kernel_runtime.interpreter.assembly import assemble, run_module
from nki_lab.kernel_runtime.interpreter.collected_tests import TestCollection
from nki_lab.kernel_runtime.interpreter.compiler import compile_expression
from nki_lab.kernel_runtime.interpreter.handed_kernels import handed, holds_array
from nki_lab.kernel_runtime.interpreter.intake import Signature, shown
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Interpreter, Launch
from nki_lab.kernel_runtime.interpreter.limits import Budget, OverBudget, internal_error
from nki_lab.kernel_runtime.interpreter.module_finder import ModuleFinder, Reads
from nki_lab.kernel_runtime.interpreter.modules import ModuleScope
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Annotation,
    Instance,
    Names,
    Value,
    modest,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.language.scheduling import pairs_of
from nki_lab.source.module import ModuleSource
from nki_lab.source.trees import extent

HOST_BUDGET: Final = Budget(steps=400_000)
MOST: Final = 4
"""Distinct signatures that are evaluated for one function."""
MOST_ASSUMED: Final = 6
"""Those of a function of whose calls none is sure: it may refuse some."""
MOST_LOOKED_AT: Final = 32
"""Distinct signatures of one function that are collected, for the best of them."""
MOST_OTHERS: Final = 32
"""Kernels of other modules whose calls are looked at."""
MOST_MADE: Final = 256
"""Kernels that functions make whose calls are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """How a module calls kernels: its `own` by name, those of `other` modules by file and name, and those that
    functions of either make by file and qualified name (`made`).

    `called` are the functions, by qualified name, whose bodies that depends on; `reads` is what the search for other
    modules depends on, `modules` are those of `other` by file. `failures` say where the evaluation itself failed: what
    is launched after that is not known.
    """

    own: Mapping[str, tuple[Signature, ...]]
    other: Mapping[tuple[str, str], tuple[Signature, ...]]
    called: frozenset[str]
    reads: Reads
    made: Mapping[tuple[str, str], tuple[Signature, ...]] = field(default_factory=dict)
    modules: Mapping[str, ModuleSource] = field(default_factory=dict)
    failures: tuple[Diagnostic, ...] = ()


def launches(
    module: ModuleSource,
    names: Iterable[str],
    budget: Budget = HOST_BUDGET,
    library: ModuleFinder | None = None,
    helpers: Iterable[str] = (),
) -> Launches:
    """Return the signatures of the named top-level functions, of kernels of other modules, and of those that functions
    make, at most `MOST` each.

    Those of `helpers` come from calls only: what their annotations declare need not lie in HBM.

    What launches kernels (the module's own statements with `__name__ == "__main__"`, and its tests) is evaluated with
    arrays that are shapes; nothing is executed.
    """
    kernels = set(names)
    wanted = kernels.union(helpers)
    found: dict[str, dict[str, Signature]] = {name: {} for name in wanted}
    other: dict[tuple[str, str], dict[str, Signature]] = {}
    last = {name: module.function(name) for name in wanted}  # a notebook may define a kernel again
    makings = _Makings()
    interpreter = assemble(module, budget, host=True, library=library)

    def taken(value: Value) -> Value:
        found, parts = modest(value)
        interpreter.meter.spend(parts >> 3)
        return found

    def entered(
        launch: Launch, args: Iterable[Value], kwargs: Names, node: ast.AST, frame: Frame, assumed: bool
    ) -> None:
        function = _original(launch.function)
        home = _home_of(function)
        own = function.name in wanted and function.closure is interpreter.base and function.node is last[function.name]
        number = makings.number_of(function)
        if (
            not own
            and number < 0
            and (home is None or home is interpreter.main or home.source.function(function.name) is not function.node)
        ):
            return
        span = Span.from_bytes(module.file, *extent(node)) if frame.module is interpreter.main else interpreter.origin()
        schedule = pairs_of(launch.schedule)
        made = Signature(
            args=tuple(map(taken, args)),
            kwargs={name: taken(value) for name, value in kwargs.items()},
            grid=launch.grid,
            schedule=schedule,
            span=span,
            assumed=assumed,
            launch=number,
            around=_constants_around(function) if number >= 0 else "",
        )
        if number >= 0:
            makings.enter(function, made)
        elif own:
            _enter(found[function.name], made)
        elif home is not None and len(other) < MOST_OTHERS:
            _enter(other.setdefault((home.file, function.name), {}), made)

    def launched(launch: Launch, args: list[Value], kwargs: Names, node: ast.AST, frame: Frame) -> None:
        makings.note(_original(launch.function))
        entered(launch, args, kwargs, node, frame, interpreter.assumed > 0)

    def given(args: list[Value], kwargs: Names, node: ast.AST, frame: Frame, known: bool) -> None:
        interpreter.on_handing = None  # what follows is no call of the module's
        try:
            for item in handed(frame, node, args, kwargs, generators=not known):
                entered(item.launch, item.args, item.kwargs, node, frame, True)
        finally:
            interpreter.on_handing = given

    interpreter.on_launch, interpreter.on_handing = launched, given
    with module.shown(), interpreter.modules.opened, np.errstate(all="ignore"):
        try:
            run_module(interpreter)
            for name in kernels:
                function = interpreter.main.globals.get(name)
                function = function.function if isinstance(function, Launch) else function
                if isinstance(function, Function):
                    annotated = _from_annotations(interpreter, _original(function))
                    if annotated is not None:
                        found[name] = {str(annotated): annotated, **found[name]}
            TestCollection(interpreter).follow()
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs what comes after it
            interpreter.record(internal_error(error), interpreter.meter.node, interpreter.base)
    files = {file for file, _ in (*other, *makings.found)}
    return Launches(
        own={name: best(table.values()) for name, table in found.items()},
        other={key: best(table.values()) for key, table in other.items() if table},
        made={name: best(table.values()) for name, table in makings.found.items() if table},
        called=frozenset(interpreter.called),
        reads=interpreter.modules.reads,
        modules={file: interpreter.modules.source_of(file) for file in files if file != module.file},
        failures=tuple(item for item in interpreter.findings if item.code == "NKI901"),
    )


def best(signatures: Iterable[Signature]) -> tuple[Signature, ...]:
    """Return the signatures of a kernel that are evaluated.

    They are those that are known as a whole, where some are, and those that are sure, where some are; of others the
    smallest, which are the fastest to evaluate.
    """
    found = {f"{item}{item.schedule or ''}": item for item in reversed(list(signatures))}
    known = list(reversed(found.values()))
    whole = [item for item in known if not _has_unknown([*item.args, *item.kwargs.values()])]
    sure = [item for item in whole or known if not item.assumed]
    if sure:
        return tuple(sure[:MOST])
    return tuple(sorted(whole or known, key=_elements)[:MOST_ASSUMED])


def _has_unknown(values: Iterable[Value]) -> bool:
    """Return whether one of the values, or of those in containers and objects, is unknown, four of these deep."""
    level, seen = [values], set[int]()
    for _ in range(_DEPTH):
        below: list[Iterable[Value]] = []
        for value in (item for items in level for item in items):
            if value is UNKNOWN:
                return True
            inner: Iterable[Value] = value if isinstance(value, tuple | list) else ()
            if isinstance(value, Instance):
                inner = value.fields.values()
            elif type(value) is dict:
                inner = value.values()
            if inner and id(value) not in seen:
                seen.add(id(value))
                below.append(inner)
        level = below
    return False


_DEPTH: Final = 5


def _elements(signature: Signature) -> int:
    stack, total = [*signature.args, *signature.kwargs.values()], 0
    while stack:
        match stack.pop():
            case TensorSpec(shape=shape):
                total += math.prod(shape)
            case tuple() | list() as items:
                stack.extend(items)
            case dict() as items:
                stack.extend(items.values())
            case _:
                pass
    return total


def _original(function: Function) -> Function:
    """Return the function that decorators of the project's own have wrapped."""
    while isinstance(function.wrapped, Function | Launch) and function.closure.parent is not None:
        function = function.wrapped.function if isinstance(function.wrapped, Launch) else function.wrapped
    return function


def _home_of(function: Function) -> ModuleScope | None:
    """Return the module at whose top level a function stands."""
    closure = function.closure
    return closure.module if closure.parent is None else None


def _maker_of(function: Function) -> tuple[str, str] | None:
    """Return the file and the qualified name of a kernel that a function makes; None of one at module level."""
    return None if function.closure.parent is None else (function.closure.module.file, function.qualname)


class _Makings:
    """The launches of kernels that functions make: each is another one, with names of its own around it."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], dict[str, Signature]] = {}
        self._times: Counter[tuple[str, str]] = Counter()
        self._last: Function | None = None

    def note(self, function: Function) -> None:
        """Count a launch."""
        self._last, maker = function, _maker_of(function)
        if maker is not None:
            self._times[maker] += 1

    def number_of(self, function: Function) -> int:
        """Return the number of the launch of a function that is being looked at; -1 of functions at module level."""
        maker = _maker_of(function)
        return -1 if maker is None or function is not self._last else self._times[maker] - 1

    def enter(self, function: Function, signature: Signature) -> None:
        """Keep the signature of a launch."""
        maker = _maker_of(function)
        if maker is not None and (maker in self.found or len(self.found) < MOST_MADE):
            _enter(self.found.setdefault(maker, {}), signature)


class HostRun:
    """The code of a module that launches kernels, followed to its end, with the kernels that functions make."""

    def __init__(self, module: ModuleSource, budget: Budget = HOST_BUDGET, library: ModuleFinder | None = None) -> None:
        self._interpreter = interpreter = assemble(module, budget, host=True, library=library)
        self._launched: dict[tuple[str, str], list[Function]] = {}

        def launched(launch: Launch, args: list[Value], kwargs: Names, node: ast.AST, frame: Frame) -> None:
            function = _original(launch.function)
            maker = _maker_of(function)
            if maker is not None:
                self._launched.setdefault(maker, []).append(function)

        interpreter.on_launch = launched
        with (
            module.shown(),
            interpreter.modules.opened,
            np.errstate(all="ignore"),
            suppress(Exception),
        ):  # as `launches`
            run_module(interpreter)
            TestCollection(interpreter).follow()

    def function(self, maker: tuple[str, str], number: int) -> Function | None:
        """Return a kernel by file and qualified name, as it was at a launch; None where there is none."""
        found = self._launched.get(maker, [])
        return found[number] if 0 <= number < len(found) else None

    def lend(self, interpreter: Interpreter) -> None:
        """Have an interpreter evaluate kernels of this run: its modules are those of the run."""
        own = self._interpreter
        interpreter.main, interpreter.base = own.main, own.base
        interpreter.modules, interpreter.imports = own.modules, own.imports
        interpreter.called |= own.called


def _constants_around(function: Function) -> str:
    """Return the numbers, texts and dtypes that names around a function stand for, of those that it uses."""
    found: Names = {}
    frame = function.closure
    used = {item.id for item in ast.walk(function.node) if isinstance(item, ast.Name)}
    while frame.parent is not None:
        found |= {name: frame.locals[name] for name in used.intersection(frame.locals) - found.keys()}
        frame = frame.parent
    return ", ".join(f"{name}={shown(found[name])}" for name in sorted(found) if isinstance(found[name], _CONSTANTS))


_CONSTANTS: Final = (int, float, str, np.dtype, DType, NamedDType)


def _enter(table: dict[str, Signature], signature: Signature) -> None:
    values = [*signature.args, *signature.kwargs.values()]
    if any(map(holds_array, values)) and len(table) < MOST_LOOKED_AT:
        key = f"{signature}{signature.schedule or ''}"
        if key not in table or (table[key].assumed and not signature.assumed):
            table[key] = signature


def _from_annotations(interpreter: Interpreter, function: Function) -> Signature | None:
    """Return the signature that `nki.typing` annotations declare; parameters without one are unknown."""
    arguments = function.node.args
    values: Names = {}
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        declared = _declared(interpreter, arg.annotation)
        if declared is not None:
            values[arg.arg] = declared
        elif arg.arg not in function.defaults:
            values[arg.arg] = UNKNOWN
    return Signature(kwargs=values) if any(holds_array(value) for value in values.values()) else None


def _declared(interpreter: Interpreter, annotation: ast.expr | None) -> TensorSpec | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) and len(annotation.value) < 200:
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if not isinstance(annotation, ast.Subscript):
        return None
    try:
        value = compile_expression(annotation, interpreter.main.source.scope)(interpreter.base)
    except (OverBudget, RecursionError):
        return None
    if not isinstance(value, Annotation) or not value.shape:
        return None
    declared = array(value.shape, value.dtype)
    return declared if isinstance(declared, TensorSpec) else None
