"""Code of the host's: whether statements that are not evaluated, or calls of unknown functions, can reach a tensor.

Every expression has a kind; the largest one of its parts is that of the whole. What is not on a list can reach one.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from nki_lab.isa.dtype import NamedDType
from nki_lab.kernel_runtime.interpreter.calls import NATIVES
from nki_lab.kernel_runtime.interpreter.classes import ENUMS
from nki_lab.kernel_runtime.interpreter.compiler import frame_at
from nki_lab.kernel_runtime.interpreter.host_names import (
    HOST_BUILTINS,
    HOST_MODULES,
    REACHING,
    RETURNING,
    Binding,
    assigned_to_attributes,
    attribute_stores,
    bindings_of_function,
    bindings_of_module,
)
from nki_lab.kernel_runtime.interpreter.interpreter import EXCEPTIONS, MODELLED, Frame, Function, Interpreter, Launch
from nki_lab.kernel_runtime.interpreter.modules import ModuleScope
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    EnumMember,
    Instance,
    Namespace,
    NativeMethod,
    Partial,
    Special,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.scopes import Scope, function_scope
from nki_lab.source.trees import parameters

PLAIN: Final = 0
"""Numbers, texts and the like."""
HOST: Final = 1
"""Objects whose methods can be called with anything, and reach nothing but the host."""
DATA: Final = 2
"""Containers of those; what a method puts into them stays there."""
OPAQUE: Final = 3
"""What is, holds or leads to a tensor or to code of the user's, or may do so."""

_MOST_NODES: Final = 4_000
_DEEPEST: Final = 10
_MOST_ITEMS: Final = 256


class _ReachingError(Exception):
    """The code may reach a tensor."""


@dataclass(slots=True)
class _Place:
    """The place of code: its scope, and the frame of that scope or, with `outside` 1, of the one around it.

    `kinds` are those of the names that the code itself binds. Code that `ran` earlier may have met other values.
    """

    scope: Scope
    module: ModuleScope
    frame: Frame | None = None
    outside: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    function: Function | None = None
    ran: bool = False
    result: int = PLAIN

    @property
    def skipped(self) -> bool:
        """Whether the code is part of a frame that is evaluated."""
        return self.function is None

    def around(self, hops: int) -> Frame | None:
        """Return the frame `hops` outside of the code, None for one that does not run."""
        return None if self.frame is None or hops < self.outside else frame_at(self.frame, hops - self.outside)


def is_host_code(frame: Frame, scope: Scope, body: list[ast.stmt], target: ast.expr | None, *, leaves: bool) -> bool:
    """Return whether statements that are skipped in a frame reach no tensor and issue nothing.

    Containers and objects that they may change are doubtful afterwards. Where they may leave the function or the
    iteration, the whole function has to be such code.
    """
    look = _Look(frame.interpreter)
    place = _Place(scope, frame.module, frame)
    try:
        if leaves:
            look.whole_function(frame)
        elif frame.interpreter.guards and frame.function is not None and any(map(_raises, body)):
            return False
        if target is not None:  # of a loop over something unknown
            look.bind(place, target, look.loop_kind(place, target))
        look.block(place, body)
        look.check_changes()
    except (_ReachingError, RecursionError):
        return False
    frame.interpreter.doubt_contents(look.changed)
    return True


def is_host_call(frame: Frame, scope: Scope, function: ast.expr, values: Iterable[Value]) -> bool:
    """Return whether an unknown function is one of the host's, which does nothing to the arguments `values`."""
    look = _Look(frame.interpreter)
    try:
        for value in values:
            look.hand_over(value)
        return look.called(_Place(scope, frame.module, frame), function, OPAQUE) == HOST
    except (_ReachingError, RecursionError):
        return False


def _raises(node: ast.stmt) -> bool:
    return any(isinstance(item, ast.Raise | ast.Assert | ast.Call | ast.Subscript) for item in ast.walk(node))


class _Look:
    """One look at code; `changed` are values that it may change, `wide` where it changes some that are not known."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.changed: list[Value] = []
        self.wide = False
        self._read: list[Value] = []
        self._visited = 0
        self._depth = 0
        self._busy: set[object] = set()
        self._classes: dict[int, bool] = {}
        self._functions: dict[object, int] = {}
        self._names: dict[tuple[str, int, int], int] = {}

    @contextmanager
    def _deeper(self, key: object) -> Iterator[None]:
        if key in self._busy or self._depth >= _DEEPEST:
            raise _ReachingError
        self._busy.add(key)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._busy.discard(key)

    def check_changes(self) -> None:
        """Take in everything that was read where it is not known what is changed."""
        if self.wide:
            if any(
                isinstance(item, list | dict | set | Instance) and self.value(item) == OPAQUE for item in self._read
            ):
                raise _ReachingError
            self.changed += self._read

    def whole_function(self, frame: Frame) -> None:
        """Refuse a frame whose function is not code of the host's as a whole, with the arguments that it has."""
        function = frame.function
        if function is None or function.entry:
            raise _ReachingError
        names = [arg.arg for arg in parameters(function.node.args)]
        self._enter(function, {name: self.value(frame.locals.get(name, UNKNOWN)) for name in names})

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, value: Value, depth: int = 4) -> int:
        """Return the kind of a known value."""
        kind = type(value)
        if value is None or kind in _PLAIN_TYPES or isinstance(value, np.dtype | np.generic | enum.Enum):
            return PLAIN
        if kind in (list, tuple, set, frozenset, dict):
            if self._is_doubtful(value) or len(value) > _MOST_ITEMS or not depth:
                return OPAQUE
            items = (*value, *value.values()) if kind is dict else value
            return OPAQUE if any(self.value(item, depth - 1) == OPAQUE for item in items) else DATA
        if kind is EnumMember:
            return max([PLAIN, *(self.value(item, depth - 1) for item in (value.value, *value.fields.values()))])
        if kind is Instance:
            return self._instance(value, depth)
        if isinstance(value, type) and (id(value) in NATIVES or issubclass(value, BaseException)):
            return PLAIN
        return OPAQUE

    def _is_doubtful(self, value: Value) -> bool:
        interpreter = self.interpreter
        return interpreter.is_doubtful(value) and id(value) not in interpreter.doubted_by_host

    def _instance(self, value: Instance, depth: int) -> int:
        if value.cls.kind == "unknown" and value.cls.name == "environ" and value.cls.node is None:
            return HOST
        if self._is_doubtful(value) or not depth or not self._of_host(value.cls):
            return OPAQUE
        for name, item in value.fields.items():
            known = self.value(item, depth - 1) if item is not UNKNOWN else self._field(value.cls, name)
            if known == OPAQUE:
                return OPAQUE
        return HOST

    def _of_host(self, cls: UserClass) -> bool:
        """Return whether all methods of a class, given anything, are code of the host's."""
        known = self._classes.get(id(cls))
        if known is not None:
            return known
        self._classes[id(cls)] = True  # as long as nothing contradicts
        try:
            self._look_at_class(cls)
        except _ReachingError:
            self._functions.clear()  # they may have counted on it
            self._names.clear()
            self._classes = dict.fromkeys((*(key for key, state in self._classes.items() if not state), id(cls)), False)
            return False
        return True

    def _look_at_class(self, cls: UserClass) -> None:
        if cls.inherits("unknown"):
            raise _ReachingError
        for part in cls.mro:
            for name, item in part.attributes.items():
                if isinstance(item, Function):
                    if name not in _MAKING:
                        self._enter(item, self._parameters(item, OPAQUE, HOST))
                elif not (name.startswith("__") and name.endswith("__")) and self.value(item) == OPAQUE:
                    raise _ReachingError

    def _field(self, cls: UserClass, name: str) -> int:
        """Return the kind of a field whose value is not known, by what the methods of its class store there."""
        stored, kind = 0, PLAIN
        if any(name in part.annotations for part in cls.mro):
            return OPAQUE
        for part in cls.mro:
            for method in part.attributes.values():
                if not isinstance(method, Function):
                    continue
                place = self._inside(method, self._parameters(method, OPAQUE, HOST))
                for value in assigned_to_attributes(place.module.source, method.node).get(name, ()):
                    stored += 1
                    with self._deeper(("field", id(value))):
                        kind = max(kind, self.kind(place, value))
        scopes = {self.interpreter.main.file: self.interpreter.main, **self.interpreter.modules.scopes}
        counts = [attribute_stores(scope.source) for scope in {id(item): item for item in scopes.values()}.values()]
        elsewhere = sum(count.get(name, 0) for count in counts) - stored
        return OPAQUE if elsewhere or any("__setattr__" in count for count in counts) else kind

    # -- names -----------------------------------------------------------------------------------------------------

    def dynamic(self, place: _Place, node: ast.expr) -> Value:
        """Return the value of a name, or of an attribute of one; MISSING where that is not known."""
        if isinstance(node, ast.Name):
            return self._variable(place, node.id)
        if not isinstance(node, ast.Attribute):
            return MISSING
        owner, name = self.dynamic(place, node.value), node.attr
        match owner:
            case Namespace():
                return owner.names.get(name, MISSING)
            case Instance() | UserClass() | EnumMember() if name[0] != "_" or not name.endswith("__"):
                return self._member(owner, name)
            case _:
                return MISSING

    def _member(self, owner: Value, name: str) -> Value:
        if isinstance(owner, Instance) and name in owner.fields:
            return MISSING if self.interpreter.is_doubtful(owner) else owner.fields[name]
        if isinstance(owner, EnumMember) and (name in ("name", "value") or name in owner.fields):
            return owner.fields.get(name) if name in owner.fields else getattr(owner, name)
        cls = owner if isinstance(owner, UserClass) else owner.cls
        if cls is owner and name in cls.members:
            return cls.members[name]
        found = cls.find(name)
        if not isinstance(found, Function) or found.kind == "static":
            return found
        if found.kind == "class":
            return BoundMethod(found, cls)
        return found if cls is owner else BoundMethod(found, owner)

    def _variable(self, place: _Place, name: str) -> Value:
        if name in place.kinds:
            return MISSING
        hops = place.scope.place(name)
        if place.ran and len(self._bindings(place, name)) > 1:
            return MISSING
        if hops is None:
            found = place.module.globals.get(name, MISSING)
            builtin = name not in place.module.source.scope.names
            return MODELLED.get(name, MISSING) if found is MISSING and builtin else found
        frame = place.around(hops)
        return MISSING if frame is None else frame.locals.get(name, MISSING)

    def _bindings(self, place: _Place, name: str) -> list[Binding]:
        hops = place.scope.place(name)
        if hops is None:
            return [] if place.module.open_stars else bindings_of_module(place.module.source).find(name)
        frame = place.around(hops)
        function = None if frame is None else frame.function
        scope: Scope | None = place.scope
        for _ in range(hops):
            scope = scope.parent if scope is not None else None
        if function is None or scope is None or scope.kind != "function":
            return []
        return bindings_of_function(place.module.source, function.node).find(name)

    def _name(self, place: _Place, name: str) -> int:
        if name in place.kinds and not place.skipped:
            return place.kinds[name]
        own = place.kinds.get(name, PLAIN)
        found = self._variable(replace(place, kinds={}), name)
        if found is MISSING and name in place.kinds:
            return own
        if found is MISSING and not place.skipped and place.scope.place(name) == 0 and not place.ran:
            return PLAIN  # bound further on: the next pass knows
        if isinstance(found, Namespace) and not found.place and found.name in HOST_MODULES:
            return HOST
        if found is MISSING or found is UNKNOWN:
            return max(own, self._bound(place, name))
        self._read.append(found)
        return max(own, self.value(found))

    def _bound(self, place: _Place, name: str) -> int:
        """Return the kind of a name whose value is not known, by what binds it."""
        bindings = self._bindings(place, name)
        hops = place.scope.place(name)
        if not bindings:
            return OPAQUE
        if hops is None:
            where = _Place(place.module.source.scope, place.module, ran=True)
        else:
            scope, frame = place.scope, place.around(hops)
            for _ in range(hops):
                scope = scope.parent or scope
            where = _Place(scope, place.module, frame, ran=True)
        key = name, id(where.scope), id(where.frame)
        kind = self._names.get(key, -1)
        if kind < 0:
            kind = PLAIN
            with self._deeper(key):
                for item in bindings:
                    kind = max(kind, self._binding(where, item))
            self._names[key] = kind
        return kind

    def _binding(self, place: _Place, item: Binding) -> int:
        if item.value is not None:
            return self.kind(place, item.value)
        if isinstance(item.statement, ast.Import):
            return HOST if item.name.partition(".")[0] in HOST_MODULES else OPAQUE
        if item.statement is None:
            return OPAQUE
        module, level = item.statement.module or "", item.statement.level
        if not level and module.partition(".")[0] in HOST_MODULES:
            return OPAQUE if item.name in REACHING or item.name in RETURNING else HOST
        modules = self.interpreter.modules
        found = modules.relative(level, module, place.module) if level else modules.absolute(module, place.module)
        return self._of_module(found, item.name)

    def _of_module(self, module: Value, name: str) -> int:
        """Return the kind of a name of a module of the user's that was found."""
        scope = self.interpreter.modules.scopes.get(module.place) if isinstance(module, Namespace) else None
        if scope is None or name not in scope.globals:
            return OPAQUE
        return self._name(_Place(scope.source.scope, scope, ran=True), name)

    # -- statements ------------------------------------------------------------------------------------------------

    def block(self, place: _Place, body: Iterable[ast.stmt]) -> None:
        """Look at statements; `_ReachingError` where one may reach a tensor. The order they run in plays no part."""
        statements = list(body)
        for _ in range(4):
            before = dict(place.kinds)
            for node in statements:
                self._statement(place, node)
            if place.kinds == before:
                return
        raise _ReachingError

    def _statement(self, place: _Place, node: ast.AST) -> None:
        match node:
            case ast.Expr(value=ast.Tuple()):
                raise _ReachingError  # stands for a line that could not be parsed
            case ast.Expr(value=value):
                self.kind(place, value)
            case ast.Assign(targets=targets, value=value):
                kind = self.kind(place, value)
                for target in targets:
                    self.bind(place, target, kind)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.bind(place, target, self.kind(place, value))
            case ast.AugAssign(target=target, value=value):
                read = ast.copy_location(ast.Name(target.id, ast.Load()), target) if type(target) is ast.Name else None
                kind = self._operands(place, [value] if read is None else [read, value])
                self.bind(place, target, kind)
                if read is not None:
                    self._change(place, read)  # a list grows in place
            case ast.For(target=target, iter=walked):
                self.bind(place, target, self.kind(place, walked))
                self._parts(place, node.body, node.orelse)
            case ast.If(test=test) | ast.While(test=test):
                self.kind(place, test)
                self._parts(place, node.body, node.orelse)
            case ast.With(items=items):
                for item in items:
                    kind = self.kind(place, item.context_expr)
                    if kind > HOST:
                        raise _ReachingError
                    if item.optional_vars is not None:
                        self.bind(place, item.optional_vars, kind)
                self._parts(place, node.body)
            case ast.Try():
                for handler in node.handlers:
                    if handler.name is not None:
                        self.bind(place, ast.Name(handler.name, ast.Store()), HOST)
                    self._parts(place, handler.body)
                self._parts(place, node.body, node.orelse, node.finalbody)
            case ast.Return(value=value):
                kind = PLAIN if value is None else self.kind(place, value)
                if place.skipped and kind == OPAQUE:
                    raise _ReachingError
                place.result = max(place.result, kind)
            case ast.Raise():
                for part in (node.exc, node.cause):
                    if part is not None:
                        self.kind(place, part)
            case ast.Assert():
                self.kind(place, node.test)
                if node.msg is not None:
                    self.kind(place, node.msg)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.bind(place, target, PLAIN)
            case ast.Import(names=names):
                for module in names:
                    top = module.name.partition(".")[0]
                    kind = HOST if top in HOST_MODULES else OPAQUE
                    self.bind(place, ast.Name(module.asname or top, ast.Store()), kind)
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.Global() | ast.Nonlocal() if place.skipped:
                pass
            case _:
                raise _ReachingError

    def _parts(self, place: _Place, *bodies: list[ast.stmt]) -> None:
        for body in bodies:
            for node in body:
                self._statement(place, node)

    def loop_kind(self, place: _Place, target: ast.expr) -> int:
        """Return the kind of what a skipped loop binds its target to, by the loop itself."""
        names = [item.id for item in ast.walk(target) if isinstance(item, ast.Name)]
        return max([PLAIN, *(self._bound(place, name) for name in names)])

    def bind(self, place: _Place, target: ast.expr, kind: int) -> None:
        """Look at a target to which something of a kind is bound."""
        match target:
            case ast.Name(id=name):
                if place.skipped:
                    old = self._variable(replace(place, kinds={}), name)
                    lost = old is not MISSING and old is not UNKNOWN and self.value(old) == OPAQUE
                    if kind == OPAQUE or lost:
                        raise _ReachingError
                elif place.scope.place(name) != 0 and name not in place.kinds:
                    raise _ReachingError
                place.kinds[name] = max(kind, place.kinds.get(name, PLAIN))
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    self.bind(place, item, kind)
            case ast.Starred(value=inner):
                self.bind(place, inner, max(kind, DATA))
            case ast.Subscript(value=owner) | ast.Attribute(value=owner):
                parts = [owner, target.slice] if isinstance(target, ast.Subscript) else [owner]
                if kind == OPAQUE or max(self.kind(place, part) for part in parts) == OPAQUE:
                    raise _ReachingError
                self._change(place, owner)
            case _:
                raise _ReachingError

    def _change(self, place: _Place, node: ast.expr) -> None:
        """Enter the container or object of an expression as changed."""
        found = self.dynamic(place, node)
        if found is MISSING or found is UNKNOWN:
            self.wide = self.wide or self.kind(place, node) != PLAIN
        else:
            self.changed.append(found)

    # -- expressions -----------------------------------------------------------------------------------------------

    def kind(self, place: _Place, node: ast.expr) -> int:
        """Return the kind of an expression's value; `_ReachingError` where evaluating it may reach a tensor."""
        self._visited += 1
        if self._visited > _MOST_NODES:
            raise _ReachingError
        match node:
            case ast.Constant():
                return PLAIN
            case ast.Name(id=name):
                return self._name(place, name)
            case ast.Attribute():
                return self._attribute(place, node)
            case ast.Call():
                return self._call(place, node)
            case ast.JoinedStr(values=values):
                for item in values:
                    self.kind(place, item)
                return PLAIN
            case ast.FormattedValue(value=value, format_spec=spec):
                self._show(place, value)
                return PLAIN if spec is None else self.kind(place, spec)
            case ast.BinOp(left=left, right=right):
                return self._operands(place, [left, right])
            case ast.UnaryOp(op=op, operand=operand):
                return self.kind(place, operand) * 0 if isinstance(op, ast.Not) else self._operands(place, [operand])
            case ast.Compare(left=left, comparators=rest):
                return self._comparison(place, node, [left, *rest])
            case ast.BoolOp(values=values):
                return max(self.kind(place, value) for value in values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.kind(place, test)
                return max(self.kind(place, body), self.kind(place, orelse))
            case ast.Subscript(value=value, slice=key):
                self.kind(place, key)
                if self.kind(place, value) == OPAQUE and isinstance(self.dynamic(place, value), Instance):
                    raise _ReachingError  # a method
                return self.kind(place, value)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return max([PLAIN, *(self.kind(place, part) for part in (lower, upper, step) if part is not None)])
            case ast.Starred(value=value):
                return self.kind(place, value)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return max([DATA, *(self.kind(place, item) for item in items)])
            case ast.Dict(keys=keys, values=values):
                return max([DATA, *(self.kind(place, item) for item in (*keys, *values) if item is not None)])
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(place, node)
            case ast.NamedExpr(target=target, value=value):
                kind = self.kind(place, value)
                self.bind(place, target, kind)
                return kind
            case _:
                raise _ReachingError

    def _operands(self, place: _Place, nodes: list[ast.expr]) -> int:
        """Return the kind of an operation's result; those on tiles are instructions."""
        kind = max(self.kind(place, node) for node in nodes)
        if kind == OPAQUE:
            raise _ReachingError
        return kind

    def _comparison(self, place: _Place, node: ast.Compare, nodes: list[ast.expr]) -> int:
        kind = max(self.kind(place, item) for item in nodes)
        builder = self.interpreter.builder
        plain = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
        if kind == OPAQUE and not plain:
            values = [self.dynamic(place, item) for item in nodes]
            own = any(isinstance(value, Instance | NkiTensor) for value in values)
            if own or builder is None or builder.program.dialect == "beta1":
                raise _ReachingError
        return PLAIN

    def _comprehension(self, place: _Place, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        own = replace(place, kinds=dict(place.kinds), function=place.function or _NOBODY)
        for part in node.generators:
            kind = self.kind(own, part.iter)
            for item in ast.walk(part.target):
                if isinstance(item, ast.Name):
                    own.kinds[item.id] = kind
            for test in part.ifs:
                self.kind(own, test)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return max([DATA, *(self.kind(own, part) for part in parts)])

    def _attribute(self, place: _Place, node: ast.Attribute) -> int:
        found, owner = self.dynamic(place, node), self.dynamic(place, node.value)
        method = found.function if isinstance(found, BoundMethod) else None
        if isinstance(method, Function) and method.kind == "property":
            return self._enter(method, self._parameters(method, OPAQUE, self.value(found.instance)))
        if found is not MISSING and found is not UNKNOWN:
            return self.value(found)
        if isinstance(owner, Namespace) and owner.place:
            return self._of_module(owner, node.attr)
        if isinstance(owner, Instance) and found is UNKNOWN and self._is_doubtful(owner) is False:
            return self._field(owner.cls, node.attr)
        kind = self.kind(place, node.value)
        if kind == OPAQUE:
            return PLAIN if node.attr in _TELLING and not isinstance(owner, Instance) else OPAQUE
        return OPAQUE if node.attr in REACHING or (kind == HOST and node.attr.startswith("__")) else kind

    def _show(self, place: _Place, node: ast.expr) -> int:
        """Return the kind of a value that is shown or handed to the host, which may call its methods."""
        if isinstance(node, ast.Starred):
            return self._show(place, node.value)
        if isinstance(node, ast.Lambda):
            inner = function_scope(node, "<lambda>", place.scope)
            kinds = dict(place.kinds) | {arg.arg: OPAQUE for arg in parameters(node.args)}
            self.kind(replace(place, scope=inner, kinds=kinds, frame=None, function=_NOBODY), node.body)
            return OPAQUE
        kind, found = self.kind(place, node), self.dynamic(place, node)
        if kind == OPAQUE and found is not MISSING:
            self.hand_over(found)
        return kind

    def hand_over(self, value: Value, depth: int = 3) -> None:
        """Look at a value that is shown or handed to the host: its functions and methods may be called."""
        if isinstance(value, Partial | Launch | Special | UserClass | NativeMethod):
            raise _ReachingError
        if id(value) in self.interpreter.imports.functions:
            raise _ReachingError
        if isinstance(value, Function | BoundMethod):
            self._callee(value, OPAQUE)
        elif isinstance(value, Instance):
            for name in ("__repr__", "__str__", "__format__", "__iter__", "__call__"):
                if isinstance(method := value.cls.find(name), Function):
                    self._enter(method, self._parameters(method, OPAQUE, OPAQUE))
        elif type(value) in (list, tuple, set, dict):
            if len(value) > _MOST_ITEMS or not depth:
                raise _ReachingError
            for item in value.values() if isinstance(value, dict) else value:
                self.hand_over(item, depth - 1)

    # -- calls -----------------------------------------------------------------------------------------------------

    def _call(self, place: _Place, node: ast.Call) -> int:
        arguments = [*node.args, *(item.value for item in node.keywords)]
        given = max([PLAIN, *(self._show(place, item) for item in arguments)])
        function, callee = node.func, self.dynamic(place, node.func)
        if isinstance(callee, Function | BoundMethod):
            changed, wide = len(self.changed), self.wide
            kind = self._callee(callee, given)
            if self.wide and not wide and isinstance(callee, BoundMethod) and given < DATA:
                self.wide = False  # it changes its object, if anything
                self.changed[changed:] = [*self.changed[changed:], callee.instance]
            return kind
        if isinstance(callee, UserClass):
            return self._make(callee, given)
        if id(callee) in NATIVES and callee is not MISSING:
            return self._native(place, node, callee, given)
        if isinstance(callee, Special) and callee.name == "os.getenv":
            return OPAQUE if given == OPAQUE else HOST
        if callee is not MISSING and callee is not UNKNOWN:
            raise _ReachingError
        return self.called(place, function, given)

    def called(self, place: _Place, function: ast.expr, given: int) -> int:
        """Return the kind of the result of a function that is not known."""
        if isinstance(function, ast.Name) and function.id in HOST_BUILTINS and function.id not in place.kinds:
            names = place.module.source.scope.names
            if place.scope.place(function.id) is None and function.id not in names and not place.module.open_stars:
                return HOST
        name = function.attr if isinstance(function, ast.Attribute) else ""
        kind = self.kind(place, function)
        if kind == OPAQUE or (kind == DATA and (given == OPAQUE or not name)):
            raise _ReachingError
        if kind == PLAIN and not name:
            raise _ReachingError
        if kind == DATA and isinstance(function, ast.Attribute) and name not in _PURE:
            self._change(place, function.value)
        return OPAQUE if given == OPAQUE and name in RETURNING else kind if kind != PLAIN else DATA

    def _native(self, place: _Place, node: ast.Call, callee: Value, given: int) -> int:
        """Return the kind of the result of a builtin."""
        if callee in _TELLERS or callee in EXCEPTIONS.values():
            return PLAIN
        if callee is getattr and len(node.args) >= 2 and not node.keywords:
            kind = self.kind(place, node.args[0])
            if kind == OPAQUE and isinstance(self.dynamic(place, node.args[0]), Instance | Namespace):
                raise _ReachingError
            return max(kind, given) if kind != OPAQUE else OPAQUE
        if given == OPAQUE and callee not in _GATHERERS:
            raise _ReachingError
        if callee in _GATHERERS or callee in _COUNTERS:
            return max(DATA, given)
        raise _ReachingError

    def _make(self, cls: UserClass, given: int) -> int:
        """Return the kind of a new object."""
        if cls.kind in ENUMS:
            return PLAIN
        if not self._of_host(cls):
            raise _ReachingError
        wide = self.wide
        for name in _MAKING:
            if isinstance(made := cls.find(name), Function):
                self._enter(made, self._parameters(made, given, HOST))
        self.wide = wide if given < DATA else self.wide
        return OPAQUE if given == OPAQUE and not isinstance(cls.find("__init__"), Function) else HOST

    def _callee(self, callee: Function | BoundMethod, given: int) -> int:
        if isinstance(callee, Function):
            return self._enter(callee, self._parameters(callee, given, given))
        if not isinstance(callee.function, Function):
            raise _ReachingError
        own = PLAIN if isinstance(callee.instance, UserClass) else self.value(callee.instance)
        return self._enter(callee.function, self._parameters(callee.function, given, own))

    def _parameters(self, function: Function, given: int, first: int) -> dict[str, int]:
        """Return the kinds of parameters: the first, and all others with their defaults."""
        arguments, found = function.node.args, {}
        for number, arg in enumerate(parameters(arguments)):
            kind = first if not number else given
            if arg in (arguments.vararg, arguments.kwarg):
                kind = max(kind, DATA)
            if arg.arg in function.defaults:
                kind = max(kind, self.value(function.defaults[arg.arg]))
            found[arg.arg] = kind
        return found

    def _inside(self, function: Function, kinds: dict[str, int]) -> _Place:
        closure = function.closure
        return _Place(function.scope, closure.module, closure, 1, dict(kinds), function)

    def _enter(self, function: Function, kinds: dict[str, int]) -> int:
        """Return the kind of a function's result, by its body, for arguments of these kinds."""
        key = (id(function.node), id(function.closure), tuple(kinds.items()))
        if key in self._functions:
            return self._functions[key]
        if function.entry or function.scope.generator or isinstance(function.node, ast.AsyncFunctionDef):
            raise _ReachingError
        place = self._inside(function, kinds)
        with self._deeper(key):
            if isinstance(function.node, ast.Lambda):
                place.result = self.kind(place, function.node.body)
            else:
                self.block(place, function.node.body)
        self._functions[key] = place.result
        return place.result


_NOBODY: Final[Function] = object.__new__(Function)
"""Stands for the function of a comprehension or lambda: what they bind is their own."""
_PLAIN_TYPES: Final = frozenset({bool, int, float, complex, str, bytes, range, type(Ellipsis), NamedDType})
_MAKING: Final = ("__init__", "__post_init__")
_TELLING: Final = frozenset({"shape", "dtype", "ndim", "buffer", "name", "size", "itemsize"})
"""Attributes that say something of a tensor."""
_PURE: Final = frozenset({"get", "items", "keys", "values", "copy", "index", "count"})
_TELLERS: Final = (print, len, str, repr, format, int, float, bool, isinstance, issubclass, hasattr, callable, type)
_GATHERERS: Final = (list, tuple, zip, enumerate, reversed)
_COUNTERS: Final = (
    dict, set, frozenset, sorted, min, max, sum, abs, range, round, any, all, divmod, pow, ord, chr, hex, bin, slice,
)  # fmt: skip
