"""pytest, unittest and inspect as tests of kernels use them: tests are followed, not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from nki_lab.kernel_runtime.interpreter.calls import CallSite, adapted
from nki_lab.kernel_runtime.interpreter.interpreter import Function, Launch
from nki_lab.kernel_runtime.interpreter.values import (
    UNKNOWN,
    Instance,
    Names,
    Namespace,
    Partial,
    Rows,
    Special,
    UserClass,
    Value,
)
from nki_lab.source.trees import parameters

MOST_ROWS: Final = 1024
"""Rows of one `parametrize` that are looked at."""


def _specials(functions: dict[str, Callable[..., Value]]) -> Names:
    return {name: Special(name, adapted(function)) for name, function in functions.items()}


# -- pytest ------------------------------------------------------------------------------------------------------------


class _Row(list[Value]):
    """The values of a `pytest.param`."""


def _raises(site: CallSite, *args: Value, **kwargs: Value) -> Value:
    return site.interpreter.refusing()


def _param(site: CallSite, *values: Value, marks: Value = (), **_: Value) -> Value:
    listed = marks if isinstance(marks, tuple | list) else [marks]
    return UNKNOWN if any(_is_failing(mark) for mark in listed) else _Row(values)


def _is_failing(mark: Value) -> bool:
    return isinstance(mark, Special) and mark.name in ("xfail", "skip")


def _failing(site: CallSite, *args: Value, **_: Value) -> Value:
    """Return `pytest.mark.xfail`, with and without reasons: the test is not followed."""
    return UNKNOWN if args and isinstance(args[0], Function | UserClass) else Special("xfail")


def _parametrize(site: CallSite, argnames: Value, argvalues: Value, indirect: Value = False, **_: Value) -> Value:
    """Return `pytest.mark.parametrize(names, rows)`; rows that are not known, and indirect names, are left out."""
    names = argnames
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    known = isinstance(names, list | tuple) and isinstance(argvalues, list | tuple) and names
    if not known or any(not isinstance(name, str) for name in names):
        return _on_tests("parametrize", lambda function: ())
    rows = []
    for given in argvalues[:MOST_ROWS]:
        row = given if len(names) > 1 or isinstance(given, _Row) else [given]
        if isinstance(row, list | tuple) and len(row) == len(names):
            rows.append(tuple(row))
    through = names if indirect is True else indirect if isinstance(indirect, list | tuple) else ()
    kept = [i for i, name in enumerate(names) if indirect is not UNKNOWN and name not in through]
    found = Rows(tuple(names[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows))
    return _on_tests("parametrize", lambda function: (found,) if kept and rows else ())


def _on_tests(name: str, rows_of: Callable[[Function], tuple[Rows, ...]]) -> Special:
    """Return the decorator that gives a test, or the tests of a class, rows of values."""

    def decorate(site: CallSite, value: Value) -> Value:
        for function in [value] if isinstance(value, Function) else tests_of(value):
            function.rows += rows_of(function)
        return value

    return Special(name, adapted(decorate))


def tests_of(cls: Value) -> list[Function]:
    """Return the test methods of a class and of those that it inherits from."""
    if not isinstance(cls, UserClass):
        return []
    found = {name: item for part in reversed(cls.mro) for name, item in part.attributes.items()}
    return [item for name, item in found.items() if name.startswith("test") and isinstance(item, Function)]


class _Marks(Mapping[str, Value]):
    """`pytest.mark`: every name is a mark. One that gives parameters of the test lists of values may parametrize it."""

    _known: Final = _specials({"parametrize": _parametrize, "xfail": _failing, "skip": _failing})

    def __getitem__(self, name: str) -> Value:
        return self._known[name] if name in self._known else Special("mark", _marked)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _marked(site: CallSite, args: list[Value], kwargs: Names) -> Value:
    """Return the test, or the decorator of a mark with arguments."""
    if len(args) == 1 and not kwargs and isinstance(args[0], Function | UserClass):
        return args[0]
    lists = {name: found for name, value in kwargs.items() if (found := _choices(value))}

    def rows_of(function: Function) -> tuple[Rows, ...]:
        names = {arg.arg for arg in parameters(function.node.args)}
        if not lists or not lists.keys() <= names | _OF_MARKS or len(lists.keys() & names) < len(kwargs) / 2:
            return ()
        own = [name for name in lists if name in names]
        return tuple(Rows((name,), tuple((item,) for item in lists[name]), assumed=True) for name in own)

    return _on_tests("mark", rows_of)


_OF_MARKS: Final = frozenset({"ids", "marks"})


def _choices(value: Value) -> tuple[Value, ...]:
    """Return the values that a keyword of an unknown mark lists: itself, or as the first field of an object."""
    if isinstance(value, Instance) and value.fields:
        value = next(iter(value.fields.values()))
    return tuple(value[:MOST_ROWS]) if isinstance(value, list | tuple) else ()


def _fixture(site: CallSite, function: Value = None, params: Value = None, name: Value = None, **_: Value) -> Value:
    """Return `pytest.fixture`, with and without arguments."""

    def decorate(site: CallSite, function: Value) -> Value:
        if isinstance(function, Function):
            values = tuple(params[:MOST_ROWS]) if isinstance(params, list | tuple) else ()
            own = name if isinstance(name, str) else function.name
            values = tuple(item[0] if isinstance(item, _Row) and len(item) == 1 else item for item in values)
            function.fixture = (own, values if params is None or values else (UNKNOWN,))
        return function

    return Special("fixture", adapted(decorate)) if function is None else decorate(site, function)


# -- inspect -----------------------------------------------------------------------------------------------------------

_EMPTY: Final = Special("inspect.Parameter.empty")


def _signature(site: CallSite, function: Value) -> Value:
    """Return `inspect.signature`: the names of the parameters, and their defaults."""
    given: set[str] = set()
    while not isinstance(function, Function) or function.wrapped is not None:
        if isinstance(function, Launch):
            function = function.function
        elif isinstance(function, Partial) and not function.args:
            given |= function.kwargs.keys()
            function = function.function
        elif isinstance(function, Function):
            function = function.wrapped
        else:
            return UNKNOWN
    arguments = function.node.args
    if arguments.vararg or arguments.kwarg or given or function.kind:
        return UNKNOWN
    shown = {
        arg.arg: Namespace("parameter", {"name": arg.arg, "default": function.defaults.get(arg.arg, _EMPTY)})
        for arg in parameters(arguments)
    }
    return Namespace("signature", {"parameters": shown})


def framework_modules() -> Names:
    """Return the modules that tests of kernels import, by dotted name."""
    refusals = _specials(dict.fromkeys(("assertRaises", "assertRaisesRegex"), _raises))
    pytest = _specials({"raises": _raises, "param": _param, "fixture": _fixture})
    parameter = Namespace("inspect.Parameter", {"empty": _EMPTY})
    return {
        "inspect": Namespace("inspect", _specials({"signature": _signature}) | {"Parameter": parameter}),
        "pytest": Namespace("pytest", pytest | {"mark": Namespace("pytest.mark", _Marks())}),
        "unittest": Namespace("unittest", {"TestCase": UserClass("TestCase", (), "unknown", refusals)}),
    }
