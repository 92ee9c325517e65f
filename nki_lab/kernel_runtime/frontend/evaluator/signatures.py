"""How kernels are called, as far as the source says: annotations, and calls in the same module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, Span
from nki_lab.kernel_runtime.frontend.evaluator import calls, expressions, host, host_arrays
from nki_lab.kernel_runtime.frontend.evaluator.evaluation import our_fault, run_module
from nki_lab.kernel_runtime.frontend.evaluator.library import Library, Reads
from nki_lab.kernel_runtime.frontend.evaluator.limits import Budget, OverBudget
from nki_lab.kernel_runtime.frontend.evaluator.machine import Left, Machine, Thrown
from nki_lab.kernel_runtime.frontend.evaluator.modules import Home
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import SPECIALS, Imports
from nki_lab.kernel_runtime.frontend.evaluator.numpy_names import numpy_namespace
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    UNKNOWN,
    Annotation,
    Frame,
    Function,
    Instance,
    Launch,
    Namespace,
    Special,
    UserClass,
    has_unknown,
)
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.language.scheduling import Pair, pairs_of
from nki_lab.source.module import ModuleSource
from nki_lab.source.trees import extent

HOST_BUDGET: Final = Budget(steps=200_000, seconds=2.0)
MOST: Final = 4
"""Distinct signatures that are evaluated for one function."""
MOST_LOOKED_AT: Final = 16
"""Distinct signatures of one function that are collected, for the best of them."""
MOST_OTHERS: Final = 32
"""Kernels of other modules whose calls are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way a kernel is called: TensorSpecs for arrays, other values as they are.

    `grid` is the launch grid, `schedule` the edges of `with_schedule`, `span` the call in the source where it was
    found.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    schedule: tuple[Pair, ...] = ()
    span: Span | None = None

    def __str__(self) -> str:
        parts = [_shown(item) for item in self.args]
        parts += [f"{name}={_shown(item)}" for name, item in self.kwargs.items()]
        grid = f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"{grid}({', '.join(parts)})"


def _shown(value: Any) -> str:
    if isinstance(value, tuple | list) and len(value) <= 8:
        return f"({', '.join(_shown(item) for item in value)})"
    if isinstance(value, np.dtype):
        return value.name
    return repr(value)[:60]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """How a module calls kernels: its `own` by name, those of `other` modules by file and name.

    `called` are the functions, by qualified name, whose bodies that depends on; `reads` is what the search for other
    modules depends on, `modules` are those of `other` by file. `failures` say where the evaluation itself failed: what
    is launched after that is not known.
    """

    own: Mapping[str, tuple[Signature, ...]]
    other: Mapping[tuple[str, str], tuple[Signature, ...]]
    called: frozenset[str]
    reads: Reads
    modules: Mapping[str, ModuleSource] = field(default_factory=dict)
    failures: tuple[Diagnostic, ...] = ()


def signatures(
    module: ModuleSource, names: Iterable[str], budget: Budget = HOST_BUDGET, library: Library | None = None
) -> dict[str, tuple[Signature, ...]]:
    """The signatures of the named top-level functions, at most `MOST` each."""
    return dict(launches(module, names, budget, library).own)


def launches(
    module: ModuleSource, names: Iterable[str], budget: Budget = HOST_BUDGET, library: Library | None = None
) -> Launches:
    """The signatures of the named top-level functions and of kernels of other modules, at most `MOST` each.

    What launches kernels (the module's own statements with `__name__ == "__main__"`, and its tests) is evaluated with
    arrays that are shapes; nothing is executed.
    """
    wanted = set(names)
    found: dict[str, dict[str, Signature]] = {name: {} for name in wanted}
    other: dict[tuple[str, str], dict[str, Signature]] = {}
    last = {name: module.function(name) for name in wanted}  # a notebook may define a kernel again
    m = _machine(module, budget, library)

    def launched(launch: Launch, args: list[Any], kwargs: dict[str, Any], node: ast.AST, frame: Frame) -> None:
        function, home = launch.function, _home_of(launch.function)
        own = function.name in wanted and function.closure is m.base and function.node is last[function.name]
        if not own and (home is None or home is m.home or home.module.function(function.name) is not function.node):
            return
        span = _span(module, node) if frame.home is m.home else m.origin()
        made = Signature(
            args=tuple(args), kwargs=dict(kwargs), grid=launch.grid, schedule=pairs_of(launch.schedule), span=span,
        )  # fmt: skip
        if own:
            _enter(found[function.name], made)
        elif home is not None and len(other) < MOST_OTHERS:
            _enter(other.setdefault((home.file, function.name), {}), made)

    m.launched = launched
    with module.shown(), m.shelf.opened(), np.errstate(all="ignore"):
        try:
            run_module(m)
            for name in wanted:
                function = m.globals.get(name)
                function = function.function if isinstance(function, Launch) else function
                if isinstance(function, Function):
                    annotated = _from_annotations(m, function)
                    if annotated is not None:
                        found[name] = {str(annotated): annotated, **found[name]}
            for name, value in list(m.globals.items()):
                if isinstance(value, UserClass):
                    for method, item in value.attributes.items():
                        if method.startswith("test"):
                            _call_test(m, item, Instance(value, {}))
                elif name.startswith("test"):  # as pytest collects them
                    _call_test(m, value)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs what comes after it
            m.record(our_fault(error), m.meter.node, m.base)
    return Launches(
        own={name: _best(table) for name, table in found.items()},
        other={key: _best(table) for key, table in other.items() if table},
        called=frozenset(m.called),
        reads=m.shelf.reads,
        modules={file: m.shelf.module_of(file) for file, _ in other},
        failures=tuple(item for item in m.findings if item.code == "NKI901"),
    )


def _best(table: Mapping[str, Signature]) -> tuple[Signature, ...]:
    """The signatures of a kernel: those that are known as a whole, where some are."""
    whole = [item for item in table.values() if not has_unknown([*item.args, *item.kwargs.values()])]
    return tuple(whole or table.values())[:MOST]


def _home_of(function: Function) -> Home | None:
    """The module at whose top level a function stands."""
    closure = function.closure
    return closure.home if closure is not None and closure is closure.home.base else None


def _machine(module: ModuleSource, budget: Budget, library: Library | None) -> Machine:
    modules = host.namespaces(host_arrays.functions())
    entries = ("spec", "run", "profile", "compile")
    lab = {name: SPECIALS.get(f"nki_lab.{name}") or Special(name, lambda *_: UNKNOWN) for name in entries}
    lab["spec"] = Special("spec", lambda _m, _f, _n, args, kwargs: host.array(
        kwargs.get("shape", args[0] if args else UNKNOWN), kwargs.get("dtype", args[1] if len(args) > 1 else None)
    ))  # fmt: skip
    numpy = numpy_namespace(modules.pop("numpy"))
    modules |= {"nki_lab": Namespace("nki_lab", lab), "pytest": _pytest(), "unittest": _unittest()}
    return Machine(module, budget, Imports(numpy, modules), host=True, library=library)


def _span(module: ModuleSource, node: ast.AST) -> Span:
    return Span.from_bytes(module.file, *extent(node))


def _enter(table: dict[str, Signature], signature: Signature) -> None:
    values = [*signature.args, *signature.kwargs.values()]
    if any(_holds_array(value) for value in values) and len(table) < MOST_LOOKED_AT:
        table.setdefault(f"{signature}{signature.schedule or ''}", signature)


def _holds_array(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(_holds_array(item) for item in value)
    return isinstance(value, TensorSpec)


def _call_test(m: Machine, function: Any, *args: Any) -> None:
    """Follow a test; its fixtures are unknown."""
    if not isinstance(function, Function):
        return
    arguments = function.node.args
    names = [arg.arg for arg in (*arguments.args[len(args) :], *arguments.kwonlyargs)]
    fixtures = {name: UNKNOWN for name in names if name not in function.defaults}
    try:
        calls.call_function(m, m.base, function.node, function, list(args), fixtures)
    except (OverBudget, Left, Thrown, RecursionError):
        m.guards = 0


class _Row(list[Any]):
    """The values of a `pytest.param`."""


class _Raising:
    """What `pytest.raises` opens: a kernel that is called in there is meant to be refused."""

    def __init__(self, m: Machine) -> None:
        self.m = m
        self.launched = m.launched

    def __enter__(self) -> None:
        self.launched, self.m.launched = self.m.launched, lambda *_: None

    def __exit__(self, *error: object) -> None:
        self.m.launched = self.launched


def _pytest() -> Namespace:
    raises = Special("raises", lambda m, _f, _n, _args, _kwargs: _Raising(m))
    row = Special("param", lambda _m, _f, _n, args, _kwargs: _Row(args))
    return Namespace("pytest", {"mark": _MARK, "raises": raises, "param": row})


def _unittest() -> Namespace:
    raises = Special("assertRaises", lambda m, _f, _n, _args, _kwargs: _Raising(m))
    methods = {"assertRaises": raises, "assertRaisesRegex": raises}
    return Namespace("unittest", {"TestCase": UserClass("TestCase", (), "unknown", methods)})


def _failing(_m: Machine, _frame: Any, _node: ast.AST, args: list[Any], _kwargs: dict[str, Any]) -> Any:
    """`pytest.mark.xfail`, with and without reasons: the test is not followed."""
    if args and isinstance(args[0], Function | UserClass):
        return UNKNOWN
    return Special("xfail", lambda *_: UNKNOWN)


def _parametrize(m: Machine, frame: Any, node: ast.AST, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`pytest.mark.parametrize(names, values)`: the test is followed with the first row of values."""
    names, rows = args if len(args) == 2 else (UNKNOWN, UNKNOWN)
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    if not isinstance(names, list | tuple) or not isinstance(rows, list | tuple) or not rows:
        return UNKNOWN
    row = rows[0] if len(names) > 1 or isinstance(rows[0], _Row) else [rows[0]]

    def decorate(_m: Machine, _frame: Any, _node: ast.AST, given: list[Any], _kwargs: dict[str, Any]) -> Any:
        if isinstance(row, list | tuple) and len(row) == len(names) and isinstance(given[0], Function):
            given[0].defaults |= dict(zip(names, row, strict=True))
        return given[0]

    return Special("parametrize", decorate)


_MARK: Final = Namespace(
    "pytest.mark", {"parametrize": Special("parametrize", _parametrize), "xfail": Special("xfail", _failing)}
)


def _from_annotations(m: Machine, function: Function) -> Signature | None:
    """The signature that `nki.typing` annotations declare; parameters without one are unknown."""
    arguments = function.node.args
    values: dict[str, Any] = {}
    for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        declared = _declared(m, arg.annotation)
        if declared is not None:
            values[arg.arg] = declared
        elif arg.arg not in function.defaults:
            values[arg.arg] = UNKNOWN
    return Signature(kwargs=values) if any(_holds_array(value) for value in values.values()) else None


def _declared(m: Machine, annotation: ast.expr | None) -> TensorSpec | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) and len(annotation.value) < 200:
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if not isinstance(annotation, ast.Subscript):
        return None
    try:
        value = expressions.build(annotation, m.module.scope)(m.base)
    except (OverBudget, RecursionError):
        return None
    if not isinstance(value, Annotation) or not value.shape:
        return None
    declared = host.array(value.shape, value.dtype)
    return declared if isinstance(declared, TensorSpec) else None
