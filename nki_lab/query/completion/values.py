"""Values of the expressions at the cursor, as far as the text tells: NKI's names, constants, tensors.

Beside what is certain, a name counts as a tensor where its function uses it as one: nothing is refused for it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from nki_lab.isa.spec import Beta1, Instruction
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.interpreter.parameter_uses import TENSORS
from nki_lab.kernel_runtime.issue.known_arguments import OPEN, KnownTensor
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor
from nki_lab.rules.known_values import KnownValues, Method, Value, signature_of
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses
from nki_lab.source.trees import FUNCTIONS, last_name, parameters

V = TypeVar("V")

_MEMORIES: Final = frozenset(MemoryRegion)
_OWN: Final = (*FUNCTIONS, ast.ClassDef)
_OF_TENSORS: Final = frozenset({"ap", "reshape", "broadcast_to", "expand_dims", "shape", "dtype", "buffer"})
"""Attributes that mark what they are read from as a tensor, in kernel code."""


class ValuesAt(KnownValues):
    """The values of one module's expressions, and the names that are used as tensors."""

    def __init__(self, facts: SyntaxFacts) -> None:
        super().__init__(facts.module, facts.parsed.unread)
        self._kernel_code: set[ast.AST] = {item.node for item in facts.functions}
        self._kernel_code |= {item.node for item in facts.classes}
        self._known: dict[NameUses, bool] = {}
        self._used: dict[NameUses, frozenset[str]] = {}
        self._evaluated: Mapping[str, Variable] = {}
        self._seen: dict[str, KnownTensor] = {}
        self._listed: dict[NameUses, Sequence[Any]] = {}

    def learn(self, variables: Mapping[str, Variable]) -> None:
        """Take what an evaluation says of the names of the function at hand."""
        if self._evaluated != variables:
            self._evaluated = dict(variables)
            self._seen = {
                name: KnownTensor(MemoryRegion(item.memory.lower()), item.dtype, item.shape)
                for name, item in variables.items()
                if item.dtype is not None and item.memory.lower() in _MEMORIES
            }
            for table in (self._names, self._bound, self._listed):
                table.clear()

    def listed(self, scope: NameUses, make: Callable[[], Iterable[V]]) -> Sequence[V]:
        """Return a list about the names of a scope, which is made once for as long as nothing is learnt."""
        if scope not in self._listed:
            self._listed[scope] = tuple(make())
        return self._listed[scope]

    def is_kernel_code(self, scope: NameUses) -> bool:
        """Return whether a function or class is kernel code, or calls NKI's functions as kernel code does."""
        if scope not in self._known:
            self._known[scope] = isinstance(scope.node, _OWN) and (
                scope.node in self._kernel_code
                or any(self._is_nki(call, item) for item in scope.subtree() for call in item.calls)
            )
        return self._known[scope]

    def _is_nki(self, call: ast.Call, scope: NameUses) -> bool:
        return self.is_function(super().of(call.func, scope))

    def name(self, name: str, scope: NameUses) -> Value:
        """Return the value of a name that a scope mentions; a tensor too where it is used as one."""
        found = super().name(name, scope)
        if found is not OPEN and not (isinstance(found, KnownTensor) and found.space is None):
            return found
        if name in self._seen:
            return self._seen[name]
        if found is OPEN:
            place = scope.binder(name)
            if place is not None and name in self.used_as_tensors(place):
                return KnownTensor()
        return found

    def of(self, node: ast.expr, scope: NameUses) -> Value:
        """Return the value of an expression."""
        found = super().of(node, scope)
        if found is OPEN and isinstance(node, ast.Call):
            called = super().of(node.func, scope)
            instruction = getattr(called, "nki_instruction", None)
            if isinstance(instruction, Instruction):
                spelling = instruction.beta1
                makes = self.is_beta1(called) and isinstance(spelling, Beta1) and bool(spelling.returns)
                return KnownTensor() if makes else OPEN
            signature = signature_of(called) if inspect.isroutine(called) else None
            if signature is not None and signature.return_annotation == NkiTensor.__name__:
                return KnownTensor()
        elif found is OPEN and isinstance(node, ast.Subscript):
            if _key(node) in self.used_as_tensors(scope):
                return KnownTensor()
        elif found is OPEN and isinstance(node, ast.Attribute) and _key(node) in self.used_as_tensors(scope):
            return KnownTensor()
        return found

    # -- names that are used as tensors --------------------------------------------------------------------------------

    def used_as_tensors(self, scope: NameUses) -> frozenset[str]:
        """Return the names, subscripts and attributes that a function of kernel code uses as tensors."""
        if scope not in self._used:
            self._used[scope] = frozenset()  # while it is looked at
            if not isinstance(scope.node, FUNCTIONS) or not self.is_kernel_code(scope):
                return self._used[scope]
            self._used[scope] = frozenset(self._uses(scope))
        return self._used[scope]

    def _uses(self, scope: NameUses) -> Iterator[str]:
        if isinstance(scope.node, FUNCTIONS):
            for arg in parameters(scope.node.args):
                if arg.annotation is not None and last_name(_unsubscripted(arg.annotation)) in TENSORS:
                    yield arg.arg
        for mention in scope.mentions:
            if mention.attr in _OF_TENSORS and isinstance(mention.value, ast.Name):
                yield mention.value.id
        for call in scope.calls:
            for value in self._operands(call, scope):
                yield from _tensors_in(value)

    def _operands(self, call: ast.Call, scope: NameUses) -> Iterator[ast.expr]:
        """Yield the arguments of a call of an instruction that must be tensors."""
        instruction = getattr(super().of(call.func, scope), "nki_instruction", None)
        if not isinstance(instruction, Instruction):
            return
        names = tuple(instruction.arguments)
        if self.is_beta1(super().of(call.func, scope)) and isinstance(instruction.beta1, Beta1):
            names = instruction.beta1.positional
        given = [*zip(names, call.args, strict=False), *((item.arg, item.value) for item in call.keywords)]
        for name, value in given:
            operand = instruction.operands.get(name or "")
            if operand is not None and operand.is_tensor and not operand.scalar:
                yield value


def _tensors_in(value: ast.expr) -> Iterator[str]:
    """Yield the names of the tensors in an operand: `x` of `x[0:128]` and of `x.reshape(...)`, `xs[i]` of a list."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if key := _key(value):
        yield key
    if (
        isinstance(value, ast.Subscript)
        and isinstance(value.slice, ast.Slice | ast.Tuple)
        and (key := _key(value.value))
    ):
        yield key


def _key(node: ast.expr) -> str:
    """Return the text of a name, an attribute or a subscript of one; empty for other expressions."""
    return ast.unparse(node) if isinstance(_base(node), ast.Name) else ""


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _base(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


__all__ = ["OPEN", "KnownTensor", "Method", "Value", "ValuesAt"]
