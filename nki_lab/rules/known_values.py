"""Values that expressions have in every run: NKI's modules and names, constants, tensors made by plain assignments.

A name has the value that all of its assignments agree on; wherever something else may bind it, nothing is known.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import TARGETS
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.interpreter.namespaces import BETA1, Imports
from nki_lab.kernel_runtime.interpreter.values import UNKNOWN, Namespace
from nki_lab.kernel_runtime.issue.known_arguments import OPEN, KnownTensor, new_tensor
from nki_lab.kernel_runtime.issue.legality import ANY_SIZE
from nki_lab.kernel_runtime.issue.target import tile_size, tile_size_of
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.names import NameUses
from nki_lab.source.trees import without_constants

Value = Any
"""`OPEN` where nothing is known."""

PACKAGES: Final = ("nki", "neuronxcc")

_NOT_MODELLED: Final = "NKI010"  # a name that exists


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a tensor."""

    tensor: KnownTensor
    name: str
    function: Callable[..., object]


class KnownValues:
    """The values of one module's expressions; lines that are `unread` may bind anything."""

    def __init__(self, module: NameUses, unread: Collection[int] = ()) -> None:
        self._unread = unread
        self.imports = Imports({})
        self.scopes = list(module.subtree())
        self._beta1: set[int] = set()
        self._declared = {name for scope in self.scopes for name in scope.declared}
        self._names: dict[tuple[NameUses, str], Value] = {}
        self._read: dict[str, Value] | None = None
        self._depth = 0  # of the expression that is looked at
        self._waiting = 0  # names that are assigned from each other, and wait for the first of them
        self._bound: dict[NameUses, dict[str, Value]] = {}
        self._tables: dict[NameUses, tuple[dict[str, set[str]], dict[str, list[ast.expr]], dict[str, int]]] = {}

    # -- names ---------------------------------------------------------------------------------------------------------

    def name(self, name: str, scope: NameUses) -> Value:
        """Return the value of a name that a scope mentions."""
        known = self._names.get((scope, name))
        if known is None:
            read, self._read = self._read, None  # what its own value comes from is not of this scope
            try:
                place = scope.binder(name)
                known = self._starred(name, scope) if place is None else self._binding(name, place)
            finally:
                self._read = read
            self._names[scope, name] = known
        if self._read is not None:
            self._read[name] = known
        return known

    @contextmanager
    def reading(self) -> Iterator[dict[str, Value]]:
        """Give the names of a scope that are asked for meanwhile, with their values: all that a finding comes from."""
        read: dict[str, Value] = {}
        self._read = read
        try:
            yield read
        finally:
            self._read = None

    def _starred(self, name: str, scope: NameUses) -> Value:
        """Return what a name is that only `from module import *` can bind."""
        stars = [star for item in scope.enclosing() for star in item.stars]
        module = self.module(stars[0]) if len(stars) == 1 else OPEN
        return module.names.get(name, OPEN) if isinstance(module, Namespace) and name[0] != "_" else OPEN

    def _binding(self, name: str, place: NameUses) -> Value:
        bound = self._bound.setdefault(place, {})
        if name not in bound:
            chain = self._sources(name, place) if self._waiting >= _LONGEST else [(name, place)]
            for item, where in chain:
                self._bind_now(item, where)
        return bound[name]

    def _bind_now(self, name: str, place: NameUses) -> None:
        bound = self._bound.setdefault(place, {})
        if name in bound:  # names that are assigned from each other in a circle
            return
        bound[name] = OPEN  # while its own assignments are looked at
        depth, self._depth = self._depth, 0  # a name has one value, wherever it is asked for
        self._waiting += 1
        try:
            bound[name] = self._bind(name, place)
        finally:
            self._waiting -= 1
            self._depth = depth

    def _sources(self, name: str, place: NameUses) -> list[tuple[str, NameUses]]:
        """Return the names without a value that a name is assigned from, each after those that it is assigned from."""
        found: list[tuple[str, NameUses]] = []
        met: set[tuple[str, NameUses]] = set()
        stack = [(name, place, False)]
        while stack:
            item, where, is_followed = stack.pop()
            if is_followed:
                found.append((item, where))
            elif (item, where) not in met and item not in self._bound.get(where, ()):
                met.add((item, where))
                stack.append((item, where, True))
                for node in without_constants(self._table(where)[1].get(item, ())):
                    binder = where.binder(node.id) if isinstance(node, ast.Name) else None
                    if isinstance(node, ast.Name) and binder is not None:
                        stack.append((node.id, binder, False))
        return found

    def _bind(self, name: str, place: NameUses) -> Value:
        if name in place.definitions or name in self._declared:
            return OPEN
        if any(name in getattr(self.module(star), "names", ()) for star in place.stars):
            return OPEN
        imports, values, stores = self._table(place)
        assigned = values.get(name, ())
        if stores.get(name, 0) != len(assigned) or any(value.lineno in self._unread for value in assigned):
            return OPEN
        if paths := imports.get(name):
            fallback = all(isinstance(value, ast.Constant) and value.value is None for value in assigned)
            return self._imported(*paths) if len(paths) == 1 and fallback else OPEN
        found = joined(self.of(value, place) for value in assigned)
        return found if not _has_list(found) or self._is_only_handed_over(name, place) else OPEN

    def _is_only_handed_over(self, name: str, place: NameUses) -> bool:
        """Return whether all that a name is used for is an argument of NKI's functions, which leave a list alone."""
        for scope in place.subtree():
            loads = {node for node in scope.loads if node.id == name}
            for call in scope.calls if loads else ():
                given = loads.intersection((*call.args, *(item.value for item in call.keywords)))
                if given and self.is_function(self.of(call.func, scope)):
                    loads -= given
            if loads:
                return False
        return True

    def _table(self, place: NameUses) -> tuple[dict[str, set[str]], dict[str, list[ast.expr]], dict[str, int]]:
        if place not in self._tables:
            imports: dict[str, set[str]] = {}
            for node in place.import_nodes:
                for item in node.names:
                    if isinstance(node, ast.ImportFrom):
                        path = f"{'.' * node.level}{node.module or ''}:{item.name}"
                        imports.setdefault(item.asname or item.name, set()).add(path)
                    else:
                        first = item.name.partition(".")[0]
                        imports.setdefault(item.asname or first, set()).add(item.name if item.asname else first)
            values: dict[str, list[ast.expr]] = {}
            for name, value in place.values:
                values.setdefault(name, []).append(value)
            stores: dict[str, int] = {}
            for name in place.stores:
                stores[name] = stores.get(name, 0) + 1
            self._tables[place] = imports, values, stores
        return self._tables[place]

    # -- modules -------------------------------------------------------------------------------------------------------

    def module(self, path: str) -> Value:
        """Return a module of NKI's by its full name."""
        found = self.imports.module(path) if path.partition(".")[0] in PACKAGES else UNKNOWN
        return found if isinstance(found, Namespace) else OPEN

    def _imported(self, path: str) -> Value:
        """Return what `module`, or `name` in `module:name`, imports."""
        home, _, name = path.partition(":")
        found = self.module(home)
        return self.member(found, name) if name and isinstance(found, Namespace) else found

    def member(self, module: Namespace, name: str) -> Value:
        """Return a name of a module of NKI's, the module inside it first, as an import finds it."""
        inner = self.module(f"{module.name}.{name}")
        found = module.names.get(name, inner) if inner is OPEN else inner
        if module.name.startswith(BETA1):
            self._beta1.add(id(found))
        return OPEN if found is UNKNOWN else found

    def lacks(self, module: Namespace, name: str) -> Diagnostic | None:
        """Return the finding about a name that a module of NKI's does not have; None where it may have it."""
        if name in module.names or self.member(module, name) is not OPEN:
            return None
        found = self.imports.missing(module, name)
        return None if found is None or found.code == _NOT_MODELLED else found

    # -- expressions ---------------------------------------------------------------------------------------------------

    def of(self, node: ast.expr, scope: NameUses) -> Value:
        """Return the value of an expression; nothing is known of those that are nested deeper than anybody writes."""
        if self._depth == _DEEPEST:
            return OPEN
        self._depth += 1
        try:
            return self._of(node, scope)
        finally:
            self._depth -= 1

    def _of(self, node: ast.expr, scope: NameUses) -> Value:
        match node:
            case ast.Constant(value=value):
                return OPEN if value is ... else value
            case ast.Name(id=name):
                return self.name(name, scope)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.of(base, scope), name)
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript(value=base):
                found = self.of(base, scope)
                return self._part(found, node.slice, scope) if isinstance(found, KnownTensor) else OPEN
            case ast.Tuple(elts=items) | ast.List(elts=items):
                values = [self.of(item, scope) for item in items]
                if any(isinstance(item, ast.Starred) for item in items):
                    return OPEN
                return values if isinstance(node, ast.List) else tuple(values)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                parts = [self.of(left, scope), self.of(right, scope)]
                known = all(type(part) is int and abs(part) < _LARGE for part in parts) and parts[1] != 0
                return _ARITHMETIC[type(op)](*parts) if known else OPEN
            case ast.IfExp(body=body, orelse=orelse):
                return joined(self.of(part, scope) for part in (body, orelse))
            case _:
                return OPEN

    def _part(self, tensor: KnownTensor, key: ast.expr, scope: NameUses) -> KnownTensor:
        """Return what slices leave of a tensor; nothing is known of its shape where there is another key."""
        keys = key.elts if isinstance(key, ast.Tuple) else [key]
        if tensor.shape is None or len(keys) > len(tensor.shape) or not all(isinstance(k, ast.Slice) for k in keys):
            return replace(tensor, shape=None)
        sizes = [self._length(part, size, scope) for part, size in zip(keys, tensor.shape, strict=False)]
        shape = (*sizes, *tensor.shape[len(sizes) :])
        return replace(tensor, shape=shape, made=tensor.made if shape[0] == tensor.shape[0] else None)

    def _length(self, key: ast.expr, size: int, scope: NameUses) -> int:
        """Return how many elements a slice takes; `ANY_SIZE` where that is not known, or it leaves the tensor."""
        assert isinstance(key, ast.Slice)
        if key.lower is None and key.upper is None and key.step is None:
            return size
        start = 0 if key.lower is None else self.of(key.lower, scope)
        stop = size if key.upper is None else self.of(key.upper, scope)
        known = all(type(item) is int for item in (start, stop)) and key.step is None
        return int(stop - start) if known and 0 <= start < stop and (size is ANY_SIZE or stop <= size) else ANY_SIZE

    def _attribute(self, value: Value, name: str) -> Value:
        if isinstance(value, Namespace):
            return self.member(value, name)
        if value is tile_size:
            sizes = {tile_size_of(name, arch) for arch in TARGETS.values()}
            return sizes.pop() if len(sizes) == 1 and None not in sizes else OPEN
        if isinstance(value, type) and issubclass(value, Enum):
            return value.__members__.get(name, OPEN)
        if isinstance(value, KnownTensor):
            method = getattr(NkiTensor, name, None)
            if inspect.isfunction(method):
                return Method(value, name, method)
            kind = value.dtype
            known = {"dtype": OPEN if kind is None else kind.host, "buffer": value.space or OPEN}
            shape = None if value.shape is None else tuple(OPEN if size is ANY_SIZE else size for size in value.shape)
            return shape if name == "shape" and shape is not None else known.get(name, OPEN)
        return OPEN

    def _call(self, node: ast.Call, scope: NameUses) -> Value:
        called = self.of(node.func, scope)
        if isinstance(called, Method):
            return self._view(called, node, scope)
        if not self.is_function(called):
            return OPEN
        signature = signature_of(called)
        if signature is None:
            return OPEN
        if signature.parameters.keys() >= _DESCRIPTION:
            try:
                return self.allocated(called, node, scope, signature)
            except NkiError:
                return OPEN
        return KnownTensor() if _gives_tensor(signature) and not self.is_beta1(called) else OPEN

    def allocated(
        self, function: Callable[..., object], node: ast.Call, scope: NameUses, signature: inspect.Signature
    ) -> Value:
        """Return the tensor that a call makes where its arguments describe one; raises the error of a wrong one."""
        given = self.arguments(node, scope, signature) if signature.parameters.keys() >= _DESCRIPTION else None
        if given is None or self.is_beta1(function):
            return OPEN  # Beta 1 makes tensors of blocks as well
        if None in (given["dtype"], given["buffer"]):
            return KnownTensor()  # those of another tensor
        tensor = new_tensor(given["shape"], given["dtype"], given["buffer"], given.get("address"))
        return replace(tensor, made=node)

    def _view(self, method: Method, node: ast.Call, scope: NameUses) -> Value:
        """Return what a method of a tensor gives: a view in the same memory, of the dtype that it asks for."""
        signature = signature_of(method.function)
        if signature is None or not _gives_tensor(signature):
            return OPEN
        tensor = replace(method.tensor, shape=None)
        if "dtype" not in signature.parameters:
            return tensor
        given = self.arguments(node, scope, signature, first=1)
        kind = OPEN if given is None else given.get("dtype", OPEN)
        if kind is None:
            return tensor
        try:
            return replace(tensor, dtype=None if kind is OPEN else dtype_of(kind))
        except NkiError:
            return replace(tensor, dtype=None)

    def is_function(self, value: Value) -> bool:
        """Return whether a value is a function that a module of NKI's offers."""
        return id(value) in self.imports.functions

    def is_beta1(self, function: Value) -> bool:
        """Return whether a function is one of Beta 1."""
        return id(function) in self._beta1

    def arguments(
        self, node: ast.Call, scope: NameUses, signature: inspect.Signature, *, first: int = 0
    ) -> Mapping[str, Value] | None:
        """Return the arguments of a call by parameter, with defaults; None where they are not known, or do not fit."""
        given = [item.arg for item in node.keywords]
        if None in given or any(isinstance(item, ast.Starred) for item in node.args):
            return None
        values = [self.of(item, scope) for item in node.args]
        named = {item.arg: self.of(item.value, scope) for item in node.keywords if item.arg}
        try:
            bound = signature.bind(*[OPEN] * first, *values, **named)
        except TypeError:
            return None
        bound.apply_defaults()
        return bound.arguments


@cache
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """Return the parameters of a function; None for an object that tells none."""
    return _signature(function) if inspect.isroutine(function) else None


_DESCRIPTION: Final = frozenset({"shape", "dtype", "buffer"})
"""Parameters of functions that make a tensor: these describe it."""


def _gives_tensor(signature: inspect.Signature) -> bool:
    return bool(signature.return_annotation == NkiTensor.__name__)


def joined(values: Iterable[Value]) -> Value:
    """Return what is known of a value that is one of these."""
    first, *others = values
    for other in others:
        if first is OPEN or other is OPEN:
            return OPEN
        if isinstance(first, KnownTensor) and isinstance(other, KnownTensor):
            first = KnownTensor(
                first.space if first.space is other.space else None,
                first.dtype if first.dtype is other.dtype else None,
                _joined_shape(first.shape, other.shape),
            )
        elif first is not other and (type(first) is not type(other) or type(first) not in _PLAIN or first != other):
            return OPEN
    return first


def _has_list(value: Value) -> bool:
    return isinstance(value, list) or (isinstance(value, tuple) and any(map(_has_list, value)))


def same(left: Value, right: Value) -> bool:
    """Return whether two values are one for every check: equal, of the same types all through, or one module."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Namespace):
        return bool(left.name == right.name)
    return bool(left == right)


def _joined_shape(left: tuple[int, ...] | None, right: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if left is None or right is None or len(left) != len(right):
        return None
    return tuple(a if a == b and b is not ANY_SIZE else ANY_SIZE for a, b in zip(left, right, strict=True))


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LARGE: Final = 2**64
_PLAIN: Final = (int, float, str, bool)


def root_of(node: ast.expr) -> ast.expr:
    """Return the expression that attributes, subscripts and calls start from, `_DEEPEST` of them at most."""
    for _ in range(_DEEPEST):
        kind = type(node)
        if kind is ast.Attribute or kind is ast.Subscript:
            node = node.value  # type: ignore[attr-defined]
        elif kind is ast.Call:
            node = node.func  # type: ignore[attr-defined]
        else:
            break
    return node


_DEEPEST: Final = 100
"""Parts of an expression, one around the other, that are looked into."""

_LONGEST: Final = 20
"""Names that are assigned from each other and are followed at once: of more, the last is looked at first."""
