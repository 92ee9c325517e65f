"""Modules whose statements were evaluated once, for the evaluations of all their functions.

A module with thousands of kernels would otherwise be evaluated thousands of times. What its statements left is handed
on as it is, to an evaluation with everything else of its own. Lists, dictionaries, sets and objects that an evaluation
has changed are put back: only those that the names it looked up lead to are compared. A state goes where an evaluation
has changed a name of a module or an attribute of a class: the next one evaluates the statements again. States that hold
values of which it is not known whether they change, tensors among them, are not kept.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import Enum
from operator import is_
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

import numpy as np

from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.interpreter.definitions import KERNEL_DECORATOR
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Interpreter, Launch
from nki_lab.kernel_runtime.interpreter.namespaces import SPECIALS
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    BoundMethod,
    EnumMember,
    Field,
    Instance,
    Namespace,
    Partial,
    Special,
    Unknown,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.interpreter.variables import Variable, is_telling, variable_of
from nki_lab.kernel_runtime.tensor.strided_view import Shape

KEPT: Final = 4
"""States that are kept at once: a notebook has a part for each kernel that it defines again."""
MODULE_STEPS: Final = 400_000
"""Steps of the statements of a module that is evaluated once for many runs."""

_PATIENCE: Final = 8
"""States of a module that are lost, after which its statements have no more steps than without them."""

_ATOMS: Final = frozenset(
    (type(None), bool, int, float, str, bytes, range, type(...), Unknown, Shape, np.dtype, DType, NamedDType)
)
_Place = tuple[int, int]
_Bound = tuple[str, Value]  # a name, and the value that it was first bound to
_CONSTANTS: Final = (Enum, type, FunctionType, BuiltinFunctionType, np.dtype)


class _Changing(Exception):  # noqa: N818 - a value, not a mistake
    """Says that a module has a value of which it is not known whether it changes."""


class _State:
    """The state in which the statements of a module left the interpreter that evaluated them."""

    def __init__(self, interpreter: Interpreter, *, complete: bool) -> None:
        builder = interpreter.builder
        program = None if builder is None else builder.program
        if program is not None and (len(program) or program.buffers or program.iterations):
            raise _Changing
        if interpreter.tensors or interpreter.tainted:
            raise _Changing
        self.complete = complete
        self.steps, self._node = interpreter.meter.steps, interpreter.meter.node
        self._imports, self._main, self._base = interpreter.imports, interpreter.main, interpreter.base
        self._modules = interpreter.modules.copied()
        self._interpreter = interpreter
        self._left = {name: _copied(getattr(interpreter, name)) for name in Interpreter.LEFT_BY_MODULES}
        parts = _Parts()
        parts.frame(interpreter.base)
        parts.walk(scope.globals for scope in interpreter.modules.scopes.values())
        parts.walk([interpreter.main.globals, *interpreter.modules.namespaces()])
        self._frames, self._contents = parts.frames, {id(value): (value, before) for value, before in parts.contents}
        self._scopes = {id(scope): scope for scope in (interpreter.main, *interpreter.modules.scopes.values())}
        self._tables = frozenset(id(scope.globals) for scope in self._scopes.values())
        self._led_to: dict[tuple[int, str], list[tuple[Any, Any]]] = {}

    def restore(self) -> bool:
        """Put back what the last evaluation has changed; False where that is not possible."""
        if self._interpreter.shared_changes:
            return False
        if any(len(self._contents[table][0]) != len(self._contents[table][1]) for table in self._tables):
            return False
        for key, scope in self._scopes.items():
            for name in scope.read:
                for value, before in self._reachable(key, name):
                    if not _same(value, before):
                        _put_back(value, before)
        return True

    def _reachable(self, scope: int, name: str) -> list[tuple[Any, Any]]:
        """Return the containers that a name of a module led to when its statements had been evaluated."""
        found = self._led_to.get((scope, name))
        if found is None:
            names = self._contents[id(self._scopes[scope].globals)][1]
            parts = _Parts(self._contents, self._tables)
            parts.walk([names[name]] if name in names else ())
            found = self._led_to[scope, name] = parts.contents
        return found

    def give(self, interpreter: Interpreter) -> None:
        """Let an interpreter go on from here."""
        for scope in self._scopes.values():
            scope.read.clear()
        for frame in self._frames:
            frame.interpreter, frame.meter = interpreter, interpreter.meter
        interpreter.imports, interpreter.main, interpreter.base = self._imports, self._main, self._base
        interpreter.modules.take(self._modules)
        for name, value in self._left.items():
            if isinstance(value, dict | list | set):
                _put_back(getattr(interpreter, name), value)  # in place: builders add to the findings
            else:
                setattr(interpreter, name, value)
        interpreter.meter.steps, interpreter.meter.node = self.steps, self._node
        self._interpreter = interpreter


class ModuleStates:
    """The states of the modules of one examination, by what the evaluations of their functions have in common."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, _State | None] = OrderedDict()
        self._lost: Counter[Hashable] = Counter()
        self._variables: dict[_Place, tuple[_Bound, Variable | None]] = {}

    def variables_of(self, bound: Iterable[tuple[_Place, _Bound]]) -> dict[_Place, Variable]:
        """Return the summaries of what statements of a module have bound, each made once."""
        known, found = self._variables, {}
        for place, entry in bound:
            before, variable = known.get(place, (None, None))
            if before is not entry:
                variable = variable_of(*entry) if is_telling(entry[1]) else None
                known[place] = entry, variable
            if variable is not None:
                found[place] = variable
        return found

    def steps_of(self, key: Hashable, least: int) -> int:
        """Return the steps for the statements of a module: `least`, more where they are evaluated once."""
        wasted = self._lost[key] >= _PATIENCE or (key in self._kept and self._kept[key] is None)
        return least if wasted else max(least, MODULE_STEPS)

    def enter(self, key: Hashable, interpreter: Interpreter, run: Callable[[Interpreter], bool], most: int) -> None:
        """Let an interpreter have evaluated the statements of its module, as `run` does, in less than `most` steps."""
        known = self._kept.get(key)
        if known is not None and known.restore() and (known.steps < most if known.complete else known.steps >= most):
            known.give(interpreter)
            return
        self._lost[key] += known is not None
        complete = run(interpreter)
        try:
            self._kept[key] = _State(interpreter, complete=complete)
        except _Changing:
            self._kept[key] = None
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


class _Parts:
    """The frames and the contents of all values that a module's names lead to.

    `before` has the contents that containers had, by their ids; without it they are copied now. Tables of names among
    the `outside` are not entered.
    """

    def __init__(
        self, before: Mapping[int, tuple[Any, Any]] | None = None, outside: frozenset[int] = frozenset()
    ) -> None:
        self.frames: list[Frame] = []
        self.contents: list[tuple[Any, Any]] = []
        self._before = before
        self._outside = outside
        self._seen: set[int] = set()
        self._waiting: list[Value] = []

    def walk(self, values: Iterable[Value]) -> None:
        """Take in values, and all that they hold."""
        waiting = self._waiting
        waiting.extend(values)
        while waiting:
            value = waiting.pop()
            kind = type(value)
            if kind in _ATOMS or value is MISSING or isinstance(value, _CONSTANTS) or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self._open(value)

    def frame(self, frame: Frame | None) -> None:
        """Take in a frame and those around it."""
        while frame is not None and id(frame) not in self._seen:
            self._seen.add(id(frame))
            self.frames.append(frame)
            self._waiting += [item for item in (frame.locals, frame.module.globals) if id(item) not in self._outside]
            frame = frame.parent

    def _contents(self, value: Any) -> None:
        if self._before is None:
            self.contents.append((value, value.copy()))
        elif id(value) in self._before:
            self.contents.append(self._before[id(value)])
            value = self.contents[-1][1]
        inside = (*value, *value.values()) if isinstance(value, dict) else value
        if not _ATOMS.issuperset(map(type, inside)):
            self._waiting.extend(inside)

    def _open(self, value: Value) -> None:
        match value:
            case dict() | list() | set():
                self._contents(value)
            case tuple() | frozenset():
                self._waiting.extend(() if _ATOMS.issuperset(map(type, value)) else value)
            case slice():
                self._waiting += [value.start, value.stop, value.step]
            case Function():
                self._waiting += [*value.defaults.values(), value.owner, value.setter, value.wrapped]
                self.frame(value.closure)
            case Launch():
                self._waiting += [value.function, value.grid, value.schedule]
            case UserClass():
                self._waiting += [*value.attributes.values(), *value.members.values(), *value.bases]
                self._waiting += (value.dataclass or {}).values()
            case Instance():
                self._waiting += [value.cls, value.fields]
            case EnumMember():
                self._waiting += [value.cls, value.value, value.fields]
            case BoundMethod():
                self._waiting += [value.function, value.instance]
            case Partial():
                self._waiting += [value.function, value.args, value.kwargs]
            case Field():
                self._waiting += [value.default, value.factory]
            case Namespace():
                self._waiting.append(value.names if value.place else None)
            case Special() if value is KERNEL_DECORATOR or SPECIALS.get(value.name) is value:
                pass
            case _:
                raise _Changing


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list | set) else value


def _put_back(value: Any, before: Any) -> None:
    """Give a container the contents that it had."""
    value.clear()
    (value.extend if isinstance(value, list) else value.update)(before)


def _same(now: Any, before: Any) -> bool:
    """Return whether a container holds the objects that it held before."""
    if len(now) != len(before) or not all(map(is_, now, before)):
        return False
    return not isinstance(now, dict) or all(map(is_, now.values(), before.values()))
