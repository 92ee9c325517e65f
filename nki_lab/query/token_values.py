"""The values that names of functions stand for: tensors by memory, registers, compile-time values."""

from __future__ import annotations

import ast
import inspect
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final

from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.vocabulary import MEMORIES
from nki_lab.query.evaluation_cache import Place
from nki_lab.query.names import BETA1_ROOT
from nki_lab.query.token_kinds import Token, sort_of, token_of
from nki_lab.source import SyntaxFacts
from nki_lab.source.module import argument_of
from nki_lab.source.names import NameUses
from nki_lab.source.nesting import Nesting
from nki_lab.source.trees import FUNCTIONS, FunctionNode, children, lines_of, parameters

Bound = tuple[Place, str, tuple[str, ...] | None]
"""Where a name is bound, and the modifiers of its value; None for one that has none."""

_MEMORY_BY_LABEL: Final = {label: name for name, label in MEMORIES.items()}


class Values:
    """The values that names of functions stand for, each from where it is bound to where it is bound again.

    The functions are those of a scope, itself included; `said` is what an examination says of them.
    """

    def __init__(self, facts: SyntaxFacts, scope: NameUses, said: Iterable[Bound]) -> None:
        self._facts = facts
        nodes = [item.node for item in scope.subtree()] if facts.dialect is not None else []
        functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        self._functions = sorted(functions, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
        self._names: list[ast.Name] = []
        self._assigned: list[ast.Assign] = []
        stack: list[ast.AST] = list(self._outermost())
        while stack:
            part = stack.pop()
            if isinstance(part, ast.Name):
                self._names.append(part)
            else:
                if isinstance(part, ast.Assign):
                    self._assigned.append(part)
                stack += children(part)
        self._nesting = Nesting(self._functions, lines_of)
        self._own = {node: {arg.arg for arg in parameters(node.args)} for node in self._functions}
        for stored in self._names:
            if not isinstance(stored.ctx, ast.Load):
                for inner in islice(self._around(stored.lineno), 1):
                    self._own[inner].add(stored.id)
        bound: dict[FunctionNode, dict[str, dict[Place, tuple[str, ...]]]] = {}
        for place, name, modifiers in (*_given(facts, self._assigned), *said):
            function = next(self._around(place[0]), None)
            if function is not None and modifiers is not None:
                bound.setdefault(function, {}).setdefault(name, {})[place] = modifiers
        self._bound = {
            function: {name: (sorted(places), places) for name, places in names.items()}
            for function, names in bound.items()
        }

    def _outermost(self) -> Iterator[FunctionNode]:
        """Yield the functions that are in no other."""
        end = 0
        for node in self._functions:
            if node.lineno > end:
                yield node
                end = node.end_lineno or node.lineno

    def _around(self, line: int) -> Iterator[FunctionNode]:
        """Yield the functions of kernel code around a line, the innermost first."""
        return reversed(self._nesting.around(line))

    def tokens(self) -> Iterator[Token]:
        """Yield the names of functions that stand for something known, and the parameters."""
        facts = self._facts
        for function in self._functions:
            for arg in parameters(function.args):
                modifiers = self._modifiers(arg.arg, (arg.lineno, arg.col_offset))
                yield token_of(facts, arg.lineno, arg.col_offset, arg.arg, "parameter", "declaration", *modifiers)
        given = {function: {arg.arg for arg in parameters(function.args)} for function in self._functions}
        for node in self._names:
            modifiers = self._modifiers(node.id, (node.lineno, node.col_offset))
            is_parameter = any(node.id in given[function] for function in islice(self._around(node.lineno), 1))
            if modifiers or is_parameter:
                stored = ("declaration",) if not isinstance(node.ctx, ast.Load) else ()
                kind = "parameter" if is_parameter else "variable"
                yield token_of(facts, node.lineno, node.col_offset, node.id, kind, *stored, *modifiers)

    def _modifiers(self, name: str, place: Place) -> tuple[str, ...]:
        for function in self._around(place[0]):
            known = self._bound.get(function, {}).get(name)
            if known is not None:
                order, places = known
                return places[order[max(0, bisect_right(order, place) - 1)]]
            if name in self._own[function]:
                break
        return ()


def evaluated(variables: Mapping[Place, Variable]) -> Iterator[Bound]:
    """Yield where names are bound, and the modifiers of their values; None for values that have none."""
    for place, item in variables.items():
        memory = _MEMORY_BY_LABEL.get(item.memory)
        if item.kind == "tensor":
            yield place, item.name, None if memory is None else (memory,)
        elif item.kind in ("value", "loop"):
            yield place, item.name, ("compileTime",)
        else:
            yield place, item.name, ("register",) if item.kind == "register" else ()


def _given(facts: SyntaxFacts, assigned: Iterable[ast.Assign]) -> Iterator[tuple[Place, str, tuple[str, ...]]]:
    """Yield the names that are bound to tensors whose memory the call that makes them names as `buffer`."""
    for node in assigned:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Call):
            buffer = argument_of(value, "buffer", _parameters(facts.dotted(value.func).removeprefix(BETA1_ROOT)))
            sort = sort_of(facts.dotted(buffer).removeprefix(BETA1_ROOT)) if buffer is not None else ()
            memories = tuple(name for name in sort if name in MEMORIES)
            if memories:
                yield (target.lineno, target.col_offset), target.id, memories


@cache
def _parameters(name: str) -> tuple[str, ...]:
    """Return the parameters of a function of `nki.language`; none of other names."""
    home, _, last = name.rpartition(".")
    value = namespaces.language_names().get(last) if home == "nki.language" else None
    return tuple(inspect.signature(value).parameters) if inspect.isfunction(value) else ()
