"""Calls whose results depend on nothing but their arguments: they are evaluated once, and known from then on.

Such a call records no instruction, reports nothing, changes no object that existed before it, and reads no names but
constants, functions and classes. Libraries of kernels make most of their calls so: for the strides of a view, or the
next free address. A later evaluation knows the calls of an earlier one as far as the modules are the same.

In a run with assumptions, a call also decides tests, which other tests of the run may depend on. A known call decides
them once more; where one goes another way than it did, the call is evaluated.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Hashable, Iterable, MutableMapping, Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.isa.dtype import DType, NamedDType
from nki_lab.kernel_runtime.interpreter.interpreter import Function, Interpreter
from nki_lab.kernel_runtime.interpreter.modules import ModuleScope
from nki_lab.kernel_runtime.interpreter.namespaces import SPECIALS
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    EnumMember,
    Instance,
    Namespace,
    Special,
    Unknown,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor
from nki_lab.kernel_runtime.tensor.strided_view import Shape
from nki_lab.source.module import ModuleSource
from nki_lab.source.scopes import loaded_names

KEPT: Final = 50_000
"""Calls that are known at once."""
GONE: Final = 100
"""Classes of earlier texts, which most of the calls that are known with them are of."""
_LARGEST: Final = 200
"""Parts of arguments, and of a result, beyond which a call is not described."""
_LEAST: Final = 12
"""Steps below which a call is evaluated faster than recalled."""
_PATIENCE: Final = 8
"""Calls of a function that may show it to be no such function."""
_AGAIN: Final = 16
"""Of the later calls of such a function, one among so many is looked at: other arguments may do."""

_ATOMS: Final = frozenset((type(None), bool, int, str, bytes, type(...), Unknown, Shape, np.dtype, DType, NamedDType))
_CONSTANTS: Final = (Enum, type, FunctionType, BuiltinFunctionType, np.dtype)
_BUFFER: Final = tuple(name for name in Buffer.__slots__ if name not in ("id", "owner", "site"))


class _Dependency(NamedTuple):
    """A function that a call entered: where it stands, and what the names in it stood for."""

    module: ModuleSource
    node: ast.AST
    names: tuple[Hashable, ...]


class _Call(NamedTuple):
    """A known call: how its result is made of its arguments, its steps, and how deep it went.

    In a run with assumptions, `decided` is what it decided of them.
    """

    result: tuple[Any, ...]
    steps: int
    last: ast.AST | None
    height: int
    depends: frozenset[_Dependency]
    decided: Any = None


class KnownCalls:
    """The known calls of the evaluations of one document, for one target."""

    def __init__(self) -> None:
        self.calls: dict[Hashable, _Call] = {}
        self.failures: MutableMapping[ast.AST, int] = WeakKeyDictionary()  # of functions whose text is still there
        self.classes: dict[tuple[Hashable, ...], int] = {}  # by the numbers of their statements, and their attributes
        self._nodes: MutableMapping[ast.AST, int] = WeakKeyDictionary()
        self._numbers = itertools.count()
        self._depends: dict[frozenset[_Dependency], frozenset[_Dependency]] = {}

    def keep(self, key: Hashable, call: _Call) -> None:
        """Remember a call."""
        self.calls[key] = call._replace(depends=self._depends.setdefault(call.depends, call.depends))
        while len(self.calls) > KEPT:
            del self.calls[next(iter(self.calls))]

    def number_of(self, node: ast.AST) -> int:
        """Return a number for a function's or class's statement, which does not keep it."""
        number = self._nodes.get(node)
        if number is None:
            number = self._nodes[node] = next(self._numbers)
        return number

    def tidy(self) -> None:
        """Forget everything where too much is known of functions and classes that are gone by now."""
        there = set(self._nodes.values())
        gone = sum(parts[0] not in there for parts in self.classes)
        if gone > GONE or len(self.failures) + len(self.classes) + len(self._depends) > KEPT // 10:
            self.failures.clear()
            for table in (self.calls, self.classes, self._depends):
                table.clear()


class _Indescribable(Exception):  # noqa: N818 - a value, not a mistake
    """Ends a description of values that depend on more than their parts."""


class Recording:
    """A call that is being evaluated: its arguments before it, and where the evaluation stood."""

    __slots__ = (
        "arguments", "compared", "deepest", "depth", "effects", "function", "key", "log", "objects", "parts", "steps",
        "test",
    )  # fmt: skip

    def __init__(self, function: Function, arguments: list[Value], parts: list[Value], objects: list[Value]) -> None:
        self.function = function
        self.arguments = arguments
        self.parts = parts
        self.objects = objects
        self.key: Hashable = (function.node, tuple(parts))
        self.effects: tuple[int, ...] = ()
        self.steps = self.depth = self.deepest = self.log = self.test = 0
        self.compared: Any = None


class CallMemory:
    """The known calls as one evaluation sees them."""

    def __init__(self, store: KnownCalls, interpreter: Interpreter) -> None:
        store.tidy()
        self._store = store
        self._interpreter = interpreter
        self._plain: dict[Function, bool] = {}
        self._own: dict[Hashable, _Call] = {}
        self._tokens: dict[UserClass, int] = {}
        self._classes: dict[int, UserClass] = {}
        self._signatures: dict[ast.AST, tuple[Hashable, ...] | None] = {}
        self._valid: dict[frozenset[_Dependency], bool] = {}
        self._log: list[Function | frozenset[_Dependency]] = []
        self._open = 0
        self.deepest = 0

    # -- around a call ---------------------------------------------------------------------------------------------

    def begin(self, function: Function, arguments: Iterable[Value]) -> Recording | None:
        """Return the recording of a call with these arguments; None where nothing is to be learnt of it."""
        if self._open:
            self._log.append(function)
        failures = self._store.failures
        failed = failures.get(function.node, 0)
        if failed >= _PATIENCE:
            failures[function.node] = failed + 1
            if failed % _AGAIN:
                return None
        if not self._is_plain(function):
            return None
        values = list(arguments)
        try:
            parts, objects = self._description(values)
        except _Indescribable:
            failures[function.node] = failures.get(function.node, 0) + 1
            return None
        recording = Recording(function, values, parts, objects)
        if (assumptions := self._interpreter.assumptions) is not None and assumptions.settled:
            recording.key = (recording.key, "settled")
        return recording

    def recall(self, recording: Recording) -> Value:
        """Return the result of a call that is known; MISSING for another one, whose evaluation is recorded now."""
        interpreter, key = self._interpreter, recording.key
        meter = interpreter.meter
        known = self._own.get(key) or self._store.calls.get(key)
        if (
            known is not None
            and meter.steps + known.steps < meter.budget.steps
            and interpreter.depth + known.height <= meter.budget.calls
            and (key in self._own or self._is_valid(known.depends))
        ):
            try:
                result = self._built(known.result, recording.objects)
            except _Indescribable:
                result = MISSING
            assumptions = interpreter.assumptions
            if result is not MISSING and (assumptions is None or assumptions.decide_again(known.decided)):
                meter.spend(known.steps)
                meter.node = known.last
                self._store.failures[recording.function.node] = -1
                self.deepest = max(self.deepest, interpreter.depth + known.height)
                if self._open:
                    self._log.append(known.depends)
                return result
        recording.effects, recording.steps = self._effects(), meter.steps
        recording.depth, recording.deepest = interpreter.depth, self.deepest
        recording.log = len(self._log) - 1 if self._open else 0
        if interpreter.assumptions is not None:
            recording.test, recording.compared = len(interpreter.assumptions.tests), interpreter.assumptions.compared
        if not self._open:
            self._log = [recording.function]
        self.deepest = interpreter.depth
        self._open += 1
        return MISSING

    def end(self, recording: Recording, result: Value) -> None:
        """Remember a call that was evaluated, if nothing but its arguments decided on its result."""
        interpreter, node = self._interpreter, recording.function.node
        steps, height = interpreter.meter.steps - recording.steps, self.deepest - recording.depth
        self._close(recording)
        failures = self._store.failures
        if self._effects() != recording.effects:
            failures[node] = failures.get(node, 0) + 1
            return
        if steps < _LEAST:
            failures[node] = failures.get(node, 0) + 1
            return
        try:
            parts, objects = self._description(recording.arguments)
            template = self._template(result, {id(item): number for number, item in enumerate(objects)}, set())
            depends = self._dependencies(self._log[recording.log :])
            decided = self._decided(recording)
        except _Indescribable:
            failures[node] = failures.get(node, 0) + 1
            return
        if parts != recording.parts or any(map(_differ, objects, recording.objects)):
            failures[node] = failures.get(node, 0) + 1
            return
        failures[node] = min(0, failures.get(node, 0)) - 1
        call = _Call(template, steps, interpreter.meter.node, height, depends, decided)
        main = interpreter.main.source
        if any(item.module is main for item in depends):
            self._own[recording.key] = call  # what it means for hovers is known in this evaluation only
        else:
            self._valid[depends] = True
            self._store.keep(recording.key, call)

    def _decided(self, recording: Recording) -> Any:
        """Return what a call decided of a run's assumptions; None without any."""
        assumptions = self._interpreter.assumptions
        decided = None if assumptions is None else assumptions.decided_since(recording.test, recording.compared)
        if assumptions is not None and decided is None:
            raise _Indescribable
        return decided

    def give_up(self, recording: Recording) -> None:
        """End the recording of a call that did not return."""
        self._interpreter.effects += 1
        self._close(recording)

    def _effects(self) -> tuple[int, ...]:
        """Return the counts of what an evaluation leaves behind."""
        interpreter, builder = self._interpreter, self._interpreter.builder
        recorded = () if builder is None else (len(builder.program), len(builder.program.buffers))
        return interpreter.effects, len(interpreter.findings), *recorded

    def _close(self, recording: Recording) -> None:
        self._open -= 1
        self.deepest = max(self.deepest, recording.deepest)

    # -- what functions depend on ----------------------------------------------------------------------------------

    def _is_plain(self, function: Function) -> bool:
        """Return whether a function stands at the top level of a module, or of a class there."""
        known = self._plain.get(function)
        if known is None:
            defaults = function.defaults.values()
            known = function.closure.function is None and not function.entry and not function.scope.generator
            known = known and all(self._token(item) is not None for item in defaults)
            if function.closure.function is None:
                self._plain[function] = known
        return known

    def _dependencies(self, log: Iterable[Function | frozenset[_Dependency]]) -> frozenset[_Dependency]:
        found: set[_Dependency] = set()
        for item in set(log):
            if not isinstance(item, Function):
                found |= item
                continue
            module = item.closure.module
            names = self._names_in(item.node, module) if self._is_plain(item) else None
            if names is None:
                raise _Indescribable
            found.add(_Dependency(module.source, item.node, names))
        return frozenset(found)

    def _names_in(self, node: ast.AST, module: ModuleScope) -> tuple[Hashable, ...] | None:
        """Return what the names that a function reads stand for in its module; None where that may change."""
        if node not in self._signatures:
            tokens = []
            for name in sorted(loaded_names([node])):
                value = module.globals.get(name, MISSING)
                tokens.append((name, "absent" if value is MISSING else self._token(value)))
            known = not module.open_stars and all(token is not None for _, token in tokens)
            self._signatures[node] = tuple(tokens) if known else None
        return self._signatures[node]

    def _is_valid(self, depends: frozenset[_Dependency]) -> bool:
        """Return whether the functions that an earlier evaluation entered mean the same in this one."""
        known = self._valid.get(depends)
        if known is None:
            scopes = {id(scope.source): scope for scope in self._interpreter.modules.scopes.values()}
            known = all(
                id(item.module) in scopes and self._names_in(item.node, scopes[id(item.module)]) == item.names
                for item in depends
            )
            self._valid[depends] = known
        return known

    def _token(self, value: Value) -> Hashable:
        """Return a constant that stands for a value that nothing changes; None for other values."""
        kind = type(value)
        if kind in _ATOMS:
            return (kind, value)
        if kind is float:
            return (kind, repr(value))
        if kind is tuple:
            parts = [self._token(item) for item in value]
            return None if None in parts else (tuple, *parts)
        if kind is Function:
            return (Function, self._store.number_of(value.node)) if value.closure.function is None else None
        if kind is UserClass:
            number = self._class_number(value)
            return None if number is None else (UserClass, number)
        if kind is EnumMember:
            number, own = self._class_number(value.cls), self._token(value.value)
            return None if number is None or own is None or value.fields else (EnumMember, number, value.name, own)
        if kind is Namespace:
            return None if value.place else (Namespace, value.name)
        if kind is Special:
            return (Special, value) if value in SPECIALS.values() else None
        return (kind, value) if isinstance(value, _CONSTANTS) else None

    def _class_number(self, cls: UserClass) -> int | None:
        """Return the number of a class: equal ones have equal attributes, functions of the same text among them."""
        number = self._tokens.get(cls)
        if number is None:
            if cls.node is None or self._interpreter.classes.get(cls.node) is not cls or cls.kind == "unknown":
                return None
            parts: list[Hashable] = [self._store.number_of(cls.node), cls.kind, repr(cls.dataclass)]
            parts += [self._class_number(parent) for parent in cls.mro[1:]]
            for name, value in cls.attributes.items():
                parts += [name, self._token(value)]
            parts += cls.members
            if any(part is None for part in parts):
                return None
            number = self._store.classes.setdefault(tuple(parts), len(self._store.classes))
            self._tokens[cls], self._classes[number] = number, cls
        return number

    # -- descriptions of values ------------------------------------------------------------------------------------

    def _description(self, values: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Return the parts that values consist of, and the objects among them in the order of their first place."""
        parts: list[Value] = []
        objects: list[Value] = []
        places: dict[int, int] = {}
        for value in values:
            self._describe(value, parts, objects, places)
        return parts, objects

    def _describe(self, value: Value, parts: list[Value], objects: list[Value], places: dict[int, int]) -> None:
        kind = type(value)
        if kind in _ATOMS:
            parts.append(kind)
            parts.append(value)
            return
        if len(parts) > _LARGEST:
            raise _Indescribable
        if kind is tuple:
            parts.append((tuple, len(value)))
            for item in value:
                self._describe(item, parts, objects, places)
            return
        known = places.get(id(value))
        if known is not None:
            parts.append(("again", known))
            return
        if kind is Instance or kind is list or kind is dict:
            if self._interpreter.is_doubtful(value):
                raise _Indescribable
            places[id(value)] = len(objects)
            objects.append(value)
            if kind is list:
                parts.append((list, len(value)))
                for item in value:
                    self._describe(item, parts, objects, places)
                return
            fields = value
            if kind is Instance:
                number = self._class_number(value.cls)
                if number is None:
                    raise _Indescribable
                fields = value.fields
                parts.append((Instance, number, *fields))
            else:
                parts.append((dict, len(value)))
                for name in value:
                    if type(name) not in _ATOMS:
                        raise _Indescribable
                    parts += (type(name), name)
            for item in fields.values():
                self._describe(item, parts, objects, places)
            return
        if kind is NkiTensor:
            places[id(value)] = len(objects)
            objects.append(value)
            self._describe_tensor(value, parts, objects, places)
            return
        token = self._token(value)
        if token is None:
            raise _Indescribable
        parts.append(token)

    def _describe_tensor(
        self, value: NkiTensor, parts: list[Value], objects: list[Value], places: dict[int, int]
    ) -> None:
        buffer = value._buffer
        if type(buffer) is not Buffer or value._indirect is not None or value._extra is not None:
            raise _Indescribable
        parts.append((NkiTensor, value._shape, value._strides, value._offset, value._dtype))
        known = places.get(id(buffer))
        if known is not None:
            parts.append(("again", known))
            return
        places[id(buffer)] = len(objects)
        objects.append(buffer)
        parts.append(tuple(getattr(buffer, name) for name in _BUFFER))

    def _template(self, value: Value, places: dict[int, int], made: set[int]) -> tuple[Any, ...]:
        """Return how a result is made: of constants, objects of the arguments, and new objects."""
        kind = type(value)
        if kind in _ATOMS or kind is float:
            return (None, value)
        if id(value) in places:
            return ("argument", places[id(value)])
        if kind is tuple:
            return (tuple, [self._template(item, places, made) for item in value])
        if id(value) in made or len(made) > _LARGEST:
            raise _Indescribable
        made.add(id(value))
        if kind is list:
            return (list, [self._template(item, places, made) for item in value])
        if kind is dict:
            if not all(type(name) in _ATOMS for name in value):
                raise _Indescribable
            return (dict, {name: self._template(item, places, made) for name, item in value.items()})
        if kind is Instance and not self._interpreter.is_doubtful(value):
            number = self._class_number(value.cls)
            if number is not None:
                fields = {name: self._template(item, places, made) for name, item in value.fields.items()}
                return (Instance, number, fields)
        if isinstance(value, _CONSTANTS):
            return (None, value)
        raise _Indescribable

    def _built(self, template: tuple[Any, ...], objects: list[Value]) -> Value:
        kind = template[0]
        if kind is None:
            return template[1]
        if kind == "argument":
            return objects[template[1]]
        if kind is tuple:
            return tuple([self._built(item, objects) for item in template[1]])
        if kind is list:
            return [self._built(item, objects) for item in template[1]]
        if kind is dict:
            return {name: self._built(item, objects) for name, item in template[1].items()}
        cls = self._class_of(template[1])
        return Instance(cls, {name: self._built(item, objects) for name, item in template[2].items()})

    def _class_of(self, number: int) -> UserClass:
        """Return the class of this evaluation that has a number."""
        found = self._classes.get(number)
        if found is None:
            for cls in self._interpreter.classes.values():
                if cls is not None and self._class_number(cls) == number:
                    return cls
            raise _Indescribable
        return found


def _differ(one: Value, other: Value) -> bool:
    return one is not other
