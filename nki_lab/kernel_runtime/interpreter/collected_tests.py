"""The tests of a module, called as pytest and unittest call them: parametrized, with fixtures, nothing of it run."""

# ruff: noqa: PTH118
# Paths are texts here as everywhere in the search for modules.
from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from nki_lab.kernel_runtime.interpreter.builtins.test_frameworks import tests_of
from nki_lab.kernel_runtime.interpreter.calls import CallSite, call_function
from nki_lab.kernel_runtime.interpreter.interpreter import Function, Interpreter
from nki_lab.kernel_runtime.interpreter.module_finder import ANCESTORS
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    Instance,
    Names,
    Namespace,
    Rows,
    Special,
    UserClass,
    Value,
)
from nki_lab.source.scopes import function_scope

MOST_CALLS: Final = 12
"""Calls of one parametrized test."""
STEPS: Final = 20_000
"""Steps of one call of a test."""
_DEPTH: Final = 6
"""Fixtures that depend on fixtures."""
_SET_UP: Final = ("setUpClass", "setup_class", "setUp", "setup_method")


class TestCollection:
    """The tests of an evaluated module, and the fixtures that they see."""

    __test__ = False

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._conftests: list[Mapping[str, Value]] | None = None
        self._made: dict[int, Value] = {}

    def follow(self) -> None:
        """Call every test: functions and methods by their names, as pytest collects them."""
        names = self._interpreter.main.globals
        for name, value in list(names.items()):
            if isinstance(value, UserClass):
                for test in tests_of(value):
                    self._follow(test, value, [*_marks(value.find("pytestmark")), *_marks(names.get("pytestmark"))])
            elif name.startswith("test") and isinstance(value, Function):
                self._follow(value, None, _marks(names.get("pytestmark")))

    def _follow(self, test: Function, cls: UserClass | None, marks: list[Special]) -> None:
        interpreter, frame = self._interpreter, self._interpreter.base
        for mark in marks:
            if interpreter.attempted(partial(mark.run, CallSite(frame, test.node), [test], {})) is UNKNOWN:
                return
        arguments = test.node.args
        parameters = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if cls is not None and test.kind != "static":
            parameters = parameters[1:]
        rows = [item for item in test.rows if item.rows]
        given = {name for item in rows for name in item.names}
        wanted = [name for name in parameters if name not in given and name not in test.defaults]
        fixtures = {name: found for name in wanted if (found := self._fixture(name, cls)) is not None}
        trips = max([1, *(len(item.rows) for item in rows), *(len(_params(item)) for item in fixtures.values())])
        interpreter.assumed += any(item.assumed for item in rows)
        for number in _spread(trips):
            values = dict.fromkeys(wanted, UNKNOWN) | _row(rows, number)
            self._call(test, cls, values, fixtures, number)
        interpreter.assumed -= any(item.assumed for item in rows)

    def _call(
        self, test: Function, cls: UserClass | None, values: Names, fixtures: Mapping[str, Function], number: int
    ) -> None:
        interpreter = self._interpreter
        with interpreter.meter.limited(STEPS):
            instance = None if cls is None else Instance(cls, {})
            if instance is not None:
                for name in _SET_UP:
                    self._attempt(instance.cls.find(name), [instance], {})
            for name, fixture in fixtures.items():
                values[name] = self._value(fixture, instance, values, number)
            self._attempt(test, [] if instance is None or test.kind == "static" else [instance], values)

    def _attempt(self, function: Value, args: list[Value], kwargs: Names) -> Value:
        """Return the result of a function of the user's; UNKNOWN where it fails."""
        if not isinstance(function, Function):
            return UNKNOWN
        if len(args) == 1 and isinstance(args[0], Instance) and function.kind == "class":
            args = [args[0].cls]
        frame, interpreter = self._interpreter.base, self._interpreter
        names = [arg.arg for arg in function.node.args.args[len(args) :]]
        kwargs = {name: UNKNOWN for name in names if name not in function.defaults} | kwargs
        return interpreter.attempted(partial(call_function, frame, function.node, function, args, kwargs))

    # -- fixtures --------------------------------------------------------------------------------------------------

    def _fixture(self, name: str, cls: UserClass | None) -> Function | None:
        """Return the fixture that a test sees under a name: of its class, its module, or the folders above it."""
        tables = [] if cls is None else [part.attributes for part in cls.mro]
        for table in (*tables, self._interpreter.main.globals):
            if (found := _named(table, name)) is not None:
                return found
        if self._conftests is None:
            self._conftests = list(self._found_conftests())
        return next((found for table in self._conftests if (found := _named(table, name)) is not None), None)

    def _found_conftests(self) -> Iterator[Mapping[str, Value]]:
        modules = self._interpreter.modules
        for folder in modules.folders_above(ANCESTORS):
            module = modules.file(os.path.join(folder, "conftest.py"), "conftest")
            if isinstance(module, Namespace):
                yield module.names

    def _value(
        self, fixture: Function, instance: Instance | None, values: Mapping[str, Value], number: int, depth: int = 0
    ) -> Value:
        """Return the value of a fixture in the call of that number."""
        if id(fixture) in self._made:
            return self._made[id(fixture)]
        if depth > _DEPTH:
            return UNKNOWN
        params = _params(fixture)
        given: Names = {}
        cls = None if instance is None else instance.cls
        owned = instance is not None and any(fixture in part.attributes.values() for part in instance.cls.mro)
        for arg in fixture.node.args.args[1 if owned else 0 :]:
            name = arg.arg
            if name == "request":
                param = params[number % len(params)] if params else UNKNOWN
                given[name] = Namespace("request", {"param": param})
            elif name in values and values[name] is not UNKNOWN:
                given[name] = values[name]
            else:
                inner = self._fixture(name, cls)
                known = inner is not None and inner is not fixture
                given[name] = self._value(inner, instance, values, number, depth + 1) if known and inner else UNKNOWN
        found = self._attempt(_returning(fixture), [instance] if owned else [], given)
        if not fixture.node.args.args:
            self._made[id(fixture)] = found
        return found


def _marks(value: Value) -> list[Special]:
    """Return the marks of a `pytestmark`."""
    return [item for item in (value if isinstance(value, list | tuple) else [value]) if isinstance(item, Special)]


def _named(table: Mapping[str, Value], name: str) -> Function | None:
    found = table.get(name, MISSING)
    if isinstance(found, Function) and found.fixture is not None and found.fixture[0] == name:
        return found
    others = (item for item in table.values() if isinstance(item, Function) and item.fixture is not None)
    return next((item for item in others if item.fixture is not None and item.fixture[0] == name), None)


def _params(fixture: Function) -> tuple[Value, ...]:
    return () if fixture.fixture is None else fixture.fixture[1]


def _row(rows: list[Rows], number: int) -> Names:
    """Return the values of one call: of stacked decorators each value comes once, not all of their product."""
    return {
        name: value for item in rows for name, value in zip(item.names, item.rows[number % len(item.rows)], strict=True)
    }


def _spread(trips: int) -> list[int]:
    """Return the calls that are followed, the first and the last among them."""
    if trips <= MOST_CALLS:
        return list(range(trips))
    return [number * (trips - 1) // (MOST_CALLS - 1) for number in range(MOST_CALLS)]


def _returning(fixture: Function) -> Function:
    """Return a fixture as a function of its value: one that yields it returns it."""
    node = fixture.node
    if not isinstance(node, ast.FunctionDef) or not fixture.scope.generator:
        return fixture
    for i, statement in enumerate(node.body):
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Yield):
            last = ast.copy_location(ast.Return(value.value), statement)
            short = ast.FunctionDef(
                name=node.name, args=node.args, body=[*node.body[:i], last], decorator_list=[], returns=None
            )
            ast.copy_location(short, node)
            scope = function_scope(short, node.name, fixture.scope.parent or fixture.scope)
            return Function(short, fixture.name, scope, fixture.defaults, fixture.closure)
    return fixture
