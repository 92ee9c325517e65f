"""Kinds of names in a text, for colours: tensors by memory, calls of NKI by engine, kernels and their helpers.

Everything that the text alone shows is there without an evaluation: names of NKI through their imports, engines by
their declarations, memories given as `buffer=`.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.query.evaluation_cache import Examination, Place
from nki_lab.query.issued import Issued
from nki_lab.query.names import BETA1_ROOT, instruction_of
from nki_lab.query.token_kinds import ENGINE_MODIFIERS, TYPES, Token, sort_of, token_of
from nki_lab.query.token_values import Bound, Values, evaluated
from nki_lab.source import SyntaxFacts
from nki_lab.source.names import NameUses, definitions_of, dotted


def tokens(facts: SyntaxFacts, known: Examination, kept: KeptTokens | None = None) -> list[Token]:
    """Return the names of a text with something to say about them, in order; `known` is its latest examination.

    `kept` are those of an earlier state of the text, and becomes those of this one: the tokens of a function or class
    are worked out again when it, or something that they come from, has changed.
    """
    kept, fresh = {} if kept is None else kept, KeptTokens()
    roles: dict[ast.AST, str] = {item.node: "kernel" if item.is_entry else "helper" for item in facts.functions}
    issued = known.issued
    around = _surroundings(facts, roles)
    values, mentions = [], list(_references(facts, issued, roles, [facts.module]))
    parts = _Parts(evaluated(known.variables), issued)
    for scope in facts.module.children:
        key = _key(facts, scope.node)
        part = _part(facts, scope, roles, parts.of(scope.node), around, kept.get(key))
        if not facts.parsed.unread.intersection(range(part.line, part.line + key[0].count("\n") + 1)):
            fresh[key] = part
        values += part.values
        mentions += part.mentions
    kept.clear()
    kept.update(fresh)
    found: dict[tuple[int, int], Token] = {}
    for item in (*_definitions(facts), *values, *mentions):
        if item.length:
            found.setdefault((item.line, item.character), item)
    return [found[place] for place in sorted(found)]


# -- functions and classes, each by itself ---------------------------------------------------------------------------


class _Parts:
    """Sorts what an examination says by the lines that it is about."""

    def __init__(self, bound: Iterable[Bound], issued: Mapping[Place, Issued]) -> None:
        self._bound = sorted(bound, key=lambda item: item[0])
        self._places = [item[0] for item in self._bound]
        self._issued = issued
        self._calls = sorted(issued)

    def of(self, node: ast.AST) -> tuple[list[Bound], dict[Place, Issued]]:
        """Return what is said about the lines of a node."""
        start, end = _extent(node)
        low, high = (bisect_left(self._places, (line, 0)) for line in (start, end + 1))
        first, last = (bisect_left(self._calls, (line, 0)) for line in (start, end + 1))
        return self._bound[low:high], {place: self._issued[place] for place in self._calls[first:last]}


@dataclass(frozen=True, slots=True)
class _Part:
    """The tokens of a function or class that begins at a line, and all that they come from but for its own text."""

    line: int
    basis: object
    values: list[Token]
    mentions: list[Token]

    def moved(self, line: int) -> _Part:
        """Return the tokens where the function begins now."""
        count = line - self.line
        if not count:
            return self
        values, mentions = (
            [Token(item.line + count, item.character, item.length, item.type, item.modifiers) for item in group]
            for group in (self.values, self.mentions)
        )
        return _Part(line, self.basis, values, mentions)


_Key = tuple[str, type[ast.AST], int, int]
KeptTokens = dict[_Key, _Part]
"""The tokens of functions and classes by their texts."""


def _key(facts: SyntaxFacts, node: ast.AST) -> _Key:
    """Return what tells a definition from others: its lines, and its place in them."""
    start, end = _extent(node)
    text = "\n".join(facts.lines[start - 1 : end])
    return text, type(node), getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)


def _part(
    facts: SyntaxFacts,
    scope: NameUses,
    roles: Mapping[ast.AST, str],
    said: tuple[list[Bound], dict[Place, Issued]],
    around: object,
    kept: _Part | None,
) -> _Part:
    """Return the tokens of a scope of the module; `kept` are those of the same text before."""
    line = _extent(scope.node)[0]
    bound = tuple(((place[0] - line, place[1]), name, modifiers) for (place, name, modifiers) in said[0])
    engines = tuple(
        (place[0] - line, place[1], frozenset(item.engine for item in done.instructions))
        for place, done in said[1].items()
    )
    inside = tuple(roles.get(item.node, "") for item in scope.subtree())
    basis = (bound, engines, inside, around)
    if kept is not None and kept.basis == basis:
        return kept.moved(line)
    values = list(Values(facts, scope, said[0]).tokens())
    return _Part(line, basis, values, list(_references(facts, said[1], roles, scope.subtree())))


def _surroundings(facts: SyntaxFacts, roles: Mapping[ast.AST, str]) -> object:
    """Return what the names of the module stand for, as far as tokens tell it apart."""
    module = facts.module
    kinds = {name: tuple(roles.get(item.node, "") for item in found) for name, found in module.definitions.items()}
    aliases = {name: ast.dump(value) for name, value in module.aliases.items()}
    return facts.dialect, module.imports, module.stars, module.bound, kinds, aliases


def _extent(node: ast.AST) -> tuple[int, int]:
    start: int = getattr(node, "lineno", 0)
    decorators = [item.lineno for item in getattr(node, "decorator_list", ())]
    return min([start, *decorators]), getattr(node, "end_lineno", None) or start


# -- kernels and helpers -------------------------------------------------------------------------------------------


def _definitions(facts: SyntaxFacts) -> Iterator[Token]:
    for item in facts.functions:
        span = facts.name_span(item.node)
        if span.end_column - span.column == len(item.node.name):
            role = "kernel" if item.is_entry else "helper"
            yield Token(span.line, span.column - 1, len(item.node.name), "function", ("declaration", role))


# -- names of NKI, and of the module's functions -----------------------------------------------------------------------


def _references(
    facts: SyntaxFacts,
    issued: Mapping[Place, Issued],
    roles: Mapping[ast.AST, str],
    scopes: Iterable[NameUses],
) -> Iterator[Token]:
    """Yield the mentions of NKI's names, and of kernels and helpers, in some scopes."""
    for scope in scopes:
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
                yield token_of(facts, node.lineno, node.col_offset, node.id, "function", own[node.id])
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
    kind, *modifiers = sort_of(name.removeprefix(BETA1_ROOT))
    if kind == "function" and (engine := _engine(facts, name, call, issued)):
        modifiers.append(engine)
    line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    column = end - len(text.encode("utf-8", "surrogatepass"))
    if kind:
        yield token_of(facts, line, column, text, kind, "defaultLibrary", *modifiers)


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


# -- on the wire -----------------------------------------------------------------------------------------------------


_NUMBERS: Final = {name: number for number, name in enumerate(TYPES)}


def encoded(items: Sequence[tuple[int, int, int, Token]]) -> list[int]:
    """Return tokens as the protocol's numbers: five each, places relative to the token before.

    Each comes with its 0-based line, its character and its length in the editor's units, in order.
    """
    data: list[int] = []
    line = start = 0
    for at, character, length, item in items:
        data += (at - line, character - start if at == line else character, length, _NUMBERS[item.type], item.bits)
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
