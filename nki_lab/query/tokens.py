"""Kinds of names in a text, for colours: tensors by memory, calls of NKI by engine, kernels and their helpers.

Everything that the text alone shows is there without an evaluation: names of NKI through their imports, engines by
their declarations, memories given as `buffer=`.
"""

from __future__ import annotations

import ast
import inspect
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.interpreter import Variable
from nki_lab.kernel_runtime.interpreter.namespaces import MODULES
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.kernel_runtime.vocabulary import KINDS, MEMORIES, MEMORY_OF
from nki_lab.query.evaluation_cache import Examination, Place
from nki_lab.query.issued import Issued
from nki_lab.query.names import BETA1_ROOT, DOCUMENTED, instruction_of
from nki_lab.source import SyntaxFacts
from nki_lab.source.module import argument_of
from nki_lab.source.names import NameUses, definitions_of, dotted
from nki_lab.source.trees import FUNCTIONS, FunctionNode, children, parameters

TYPES: Final = ("namespace", "type", "function", "parameter", "variable", "enumMember")
"""Types of tokens, all of the protocol's own, so that every theme has colours for them."""

ENGINE_MODIFIERS: Final = {kind: f"{kind}Engine" if kind != "dma" else "dma" for kind in KINDS if kind != "cc"}
"""Modifiers of calls by the kind of lane that they occupy."""

MODIFIERS: Final = (
    "declaration", "defaultLibrary", *MEMORIES, "compileTime", "register", *ENGINE_MODIFIERS.values(), "kernel",
    "helper",
)  # fmt: skip
"""Modifiers of tokens: those of the protocol, then those that this package adds."""

_BIT: Final = {name: 1 << number for number, name in enumerate(MODIFIERS)}
_MEMORY_BY_LABEL: Final = {label: name for name, label in MEMORIES.items()}


@dataclass(frozen=True, slots=True)
class Token:
    """A name: its 1-based line, its 0-based character, its length, its type and modifiers."""

    line: int
    character: int
    length: int
    type: str
    modifiers: tuple[str, ...] = ()

    @property
    def bits(self) -> int:
        """Return the modifiers as bits, in the order of `MODIFIERS`."""
        return sum(_BIT[name] for name in set(self.modifiers))


def tokens(facts: SyntaxFacts, known: Examination) -> list[Token]:
    """Return the names of a text with something to say about them, in order; `known` is its latest examination."""
    found: dict[tuple[int, int], Token] = {}
    for item in (*_definitions(facts), *_Values(facts, known).tokens(), *_references(facts, known.issued)):
        if item.length:
            found.setdefault((item.line, item.character), item)
    return [found[place] for place in sorted(found)]


def _token(facts: SyntaxFacts, line: int, column: int, name: str, kind: str, *modifiers: str) -> Token:
    """Return the token of a name; of length 0 where the text has another there, as in lines that were mended."""
    start = facts.character(line, column)
    stands = facts.line(line)[start : start + len(name)] == name
    return Token(line, start, len(name) if stands else 0, kind, modifiers)


# -- kernels and helpers -------------------------------------------------------------------------------------------


def _definitions(facts: SyntaxFacts) -> Iterator[Token]:
    for item in facts.functions:
        span = facts.name_span(item.node)
        if span.end_column - span.column == len(item.node.name):
            role = "kernel" if item.is_entry else "helper"
            yield Token(span.line, span.column - 1, len(item.node.name), "function", ("declaration", role))


# -- names of NKI, and of the module's functions -----------------------------------------------------------------------


def _references(facts: SyntaxFacts, issued: Mapping[Place, Issued]) -> Iterator[Token]:
    """Yield the mentions of NKI's names, and of kernels and helpers, anywhere in the text."""
    roles = {item.node: "kernel" if item.is_entry else "helper" for item in facts.functions}
    for scope in facts.module.subtree():
        heads: dict[str, str] = {}
        own: dict[str, str] = {}
        called = {id(call.func): call for call in scope.calls}
        for node in (*scope.loads, *scope.annotated):
            head = _head(node, scope, heads)
            if _is_nki(head):
                yield from _nki_name(facts, node, node.id, head, called.get(id(node)), issued)
                continue
            if node.id not in own:
                nodes = [item.node for item in definitions_of(node.id, scope)]
                own[node.id] = next((roles[item] for item in nodes if item in roles), "")
            if own[node.id]:
                yield _token(facts, node.lineno, node.col_offset, node.id, "function", own[node.id])
        for mention in scope.mentions:
            name = _full_name(mention, scope, heads)
            if name and mention.end_lineno is not None and mention.end_col_offset is not None:
                yield from _nki_name(facts, mention, mention.attr, name, called.get(id(mention)), issued)


def _head(node: ast.Name, scope: NameUses, heads: dict[str, str]) -> str:
    if node.id not in heads:
        heads[node.id] = dotted(node, scope)
    return heads[node.id]


def _full_name(node: ast.Attribute, scope: NameUses, heads: dict[str, str]) -> str:
    """Return the full name of NKI that a chain of attributes spells; empty for others."""
    parts = [node.attr]
    value = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    head = _head(value, scope, heads) if isinstance(value, ast.Name) else ""
    name = ".".join((head, *reversed(parts)))
    return name if _is_nki(head) or _is_nki(name) else ""


def _is_nki(name: str) -> bool:
    return name.removeprefix(BETA1_ROOT).partition(".")[0] == "nki"


def _nki_name(
    facts: SyntaxFacts, node: ast.expr, text: str, name: str, call: ast.Call | None, issued: Mapping[Place, Issued]
) -> Iterator[Token]:
    """Yield the token of a name of NKI's: of an attribute, its last part."""
    kind, *modifiers = _sort(name.removeprefix(BETA1_ROOT))
    if kind == "function" and (engine := _engine(facts, name, call, issued)):
        modifiers.append(engine)
    line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    column = end - len(text.encode("utf-8", "surrogatepass"))
    if kind:
        yield _token(facts, line, column, text, kind, "defaultLibrary", *modifiers)


@cache
def _sort(name: str) -> tuple[str, ...]:
    """Return the type and the modifiers of a name of NKI's, spelt in the current way; an empty type for none."""
    home, _, last = name.rpartition(".")
    if instruction_of(name) is not None:
        return ("function",)
    if name in MODULES:
        return ("namespace",)
    if home == "nki.language" and last in DTYPES:
        return ("type",)
    names = namespaces.language_names() if home == "nki.language" else namespaces.instruction_names()
    value = names.get(last) if home in DOCUMENTED else None
    if isinstance(value, MemoryRegion):
        return "variable", MEMORY_OF[value.name], "compileTime"
    if home.startswith(("nki.isa.", "nki.language.")):
        return "enumMember", "compileTime"
    if inspect.isclass(value):
        return ("type",)
    if value is not None and not inspect.isfunction(value):
        return "variable", "compileTime"
    return ("type" if home == "nki.typing" else "function" if home in MODULES else "",)


def _engine(facts: SyntaxFacts, name: str, call: ast.Call | None, issued: Mapping[Place, Issued]) -> str:
    """Return the modifier of the engine that a call runs on.

    That is the engine of what the call issued; where it is not evaluated, the one that it names, or the only one that
    the instruction declares; empty where several are possible.
    """
    if call is not None and (done := issued.get((call.lineno, call.col_offset))) is not None:
        engines = {item.engine for item in done.instructions}
    else:
        instruction = instruction_of(name)
        engines = set(instruction.engines) if instruction is not None else set()
        given = [item.value for item in call.keywords if item.arg == "engine"] if call is not None else []
        named = facts.short_name(given[0]).removesuffix("_engine") if given else ""
        if len(engines) > 1 and named in engines:
            engines = {named}
    return ENGINE_MODIFIERS.get(engines.pop(), "") if len(engines) == 1 else ""


# -- values ----------------------------------------------------------------------------------------------------------


class _Values:
    """The values that names of functions stand for, each from where it is bound to where it is bound again."""

    def __init__(self, facts: SyntaxFacts, known: Examination) -> None:
        self._facts = facts
        nodes = [scope.node for scope in facts.module.subtree()] if facts.dialect is not None else []
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
        self._starts = [node.lineno for node in self._functions]
        self._own = {node: {arg.arg for arg in parameters(node.args)} for node in self._functions}
        for stored in self._names:
            if not isinstance(stored.ctx, ast.Load):
                for inner in islice(self._around(stored.lineno), 1):
                    self._own[inner].add(stored.id)
        bound: dict[FunctionNode, dict[str, dict[Place, tuple[str, ...]]]] = {}
        for place, name, modifiers in (*_given(facts, self._assigned), *_evaluated(known.variables)):
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
        for number in range(bisect_right(self._starts, line) - 1, -1, -1):
            node = self._functions[number]
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                yield node
            elif node.col_offset == 0:
                return

    def tokens(self) -> Iterator[Token]:
        """Yield the names of functions that stand for something known, and the parameters."""
        facts = self._facts
        for function in self._functions:
            for arg in parameters(function.args):
                modifiers = self._modifiers(arg.arg, (arg.lineno, arg.col_offset))
                yield _token(facts, arg.lineno, arg.col_offset, arg.arg, "parameter", "declaration", *modifiers)
        given = {function: {arg.arg for arg in parameters(function.args)} for function in self._functions}
        for node in self._names:
            modifiers = self._modifiers(node.id, (node.lineno, node.col_offset))
            is_parameter = any(node.id in given[function] for function in islice(self._around(node.lineno), 1))
            if modifiers or is_parameter:
                stored = ("declaration",) if not isinstance(node.ctx, ast.Load) else ()
                kind = "parameter" if is_parameter else "variable"
                yield _token(facts, node.lineno, node.col_offset, node.id, kind, *stored, *modifiers)

    def _modifiers(self, name: str, place: Place) -> tuple[str, ...]:
        for function in self._around(place[0]):
            known = self._bound.get(function, {}).get(name)
            if known is not None:
                order, places = known
                return places[order[max(0, bisect_right(order, place) - 1)]]
            if name in self._own[function]:
                break
        return ()


def _evaluated(variables: Mapping[Place, Variable]) -> Iterator[tuple[Place, str, tuple[str, ...] | None]]:
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
            sort = _sort(facts.dotted(buffer).removeprefix(BETA1_ROOT)) if buffer is not None else ()
            memories = tuple(name for name in sort if name in MEMORIES)
            if memories:
                yield (target.lineno, target.col_offset), target.id, memories


@cache
def _parameters(name: str) -> tuple[str, ...]:
    """Return the parameters of a function of `nki.language`; none of other names."""
    home, _, last = name.rpartition(".")
    value = namespaces.language_names().get(last) if home == "nki.language" else None
    return tuple(inspect.signature(value).parameters) if inspect.isfunction(value) else ()


# -- on the wire -----------------------------------------------------------------------------------------------------


def encoded(items: Sequence[tuple[int, int, int, Token]]) -> list[int]:
    """Return tokens as the protocol's numbers: five each, places relative to the token before.

    Each comes with its 0-based line, its character and its length in the editor's units, in order.
    """
    data: list[int] = []
    line = start = 0
    for at, character, length, item in items:
        data += (at - line, character - start if at == line else character, length, TYPES.index(item.type), item.bits)
        line, start = at, character
    return data


def changed(before: Sequence[int], after: Sequence[int]) -> tuple[int, int, list[int]] | None:
    """Return the one edit between two lists of numbers: its start, the numbers to remove, those to insert."""
    if before == after:
        return None
    low = 0
    most = min(len(before), len(after))
    while low < most and before[low] == after[low]:
        low += 1
    high = 0
    while high < most - low and before[-1 - high] == after[-1 - high]:
        high += 1
    return low, len(before) - low - high, list(after[low : len(after) - high])
