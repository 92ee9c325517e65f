"""A text with the places of its names: read again after a change at the cost of what has changed."""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import NkiError, Span
from nki_lab.source import SyntaxFacts, syntax_facts
from nki_lab.source.name_places import ending, imported_place, keyword_place, places_of, word_at
from nki_lab.source.occurrences import NameScope, Occurrence, occurrences_of
from nki_lab.source.trees import FUNCTIONS, children, first_line

Source = str | Sequence[str]
"""A text, or the cells of a notebook."""
Named = Occurrence | ast.Attribute | ast.keyword | ast.alias | ast.Import | ast.ImportFrom
"""What a name in the text is a part of."""
MOST_DEEP: Final = 400


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in the text, in its scope.

    It is an occurrence, an attribute, a keyword of `call`, the part of an import before `as`, or the first `parts`
    parts of a module's name in an import statement.
    """

    span: Span
    scope: NameScope
    named: Named
    call: ast.Call | ast.ClassDef | None = None
    parts: int = 0


class Reading:
    """The facts of a text, and all mentions of names in it."""

    def __init__(self, facts: SyntaxFacts, scope: NameScope) -> None:
        self.facts = facts
        self.scope = scope

    @property
    def file(self) -> str:
        """Return the name of the file."""
        return self.facts.file

    @property
    def uses_nki(self) -> bool:
        """Return whether the text imports NKI; other files belong to other servers."""
        return self.facts.dialect is not None

    def spans(self, item: Occurrence) -> Iterator[Span]:
        """Yield the places of a mention."""
        return places_of(self.facts, item)

    def first(self, item: Occurrence) -> Span | None:
        """Return the place of a mention, of the first one in a line that could not be read."""
        return next(self.spans(item), None)

    def word(self, line: int, column: int) -> tuple[str, Span] | None:
        """Return the identifier at a 1-based line and column, as Python reads it, and its place."""
        found = word_at(self.facts.line(line), column)
        if found is None:
            return None
        word, start = found
        return unicodedata.normalize("NFKC", word), Span(self.file, line, start, line, start + len(word))

    def mention(self, line: int, column: int) -> Mention | None:
        """Return the name at a 1-based line and column; None for keywords, numbers, text in strings and comments."""
        found = self.word(line, column)
        if found is None:
            return None
        word, span = found
        for scope in self.scope.subtree():
            for item in scope.occurrences.get(word, ()):
                if _covers(item.node, line) and span in self.spans(item):
                    return Mention(span, scope, item)
            for attribute in scope.attributes.get(word, ()):
                if attribute.end_lineno == line and ending(self.facts, attribute, word) == span:
                    return Mention(span, scope, attribute)
            for keyword, call in scope.keywords.get(word, ()):
                if keyword.lineno == line and keyword_place(self.facts, keyword) == span:
                    return Mention(span, scope, keyword, call)
        return self._imported(word, span)

    def _imported(self, word: str, span: Span) -> Mention | None:
        """Return the mention in an import statement that binds no name: a module, or what stands before `as`."""
        for scope in self.scope.subtree():
            for owner in {id(item.owner): item.owner for item in scope.imports}.values():
                if not isinstance(owner, ast.Import | ast.ImportFrom) or not _covers(owner, span.line):
                    continue
                for alias in owner.names:
                    if alias.name.rpartition(".")[2] == word and imported_place(self.facts, alias) == span:
                        return Mention(span, scope, alias, parts=alias.name.count(".") + 1)
                    if isinstance(owner, ast.Import) and alias.lineno == span.line:
                        start = self.facts.character(alias.lineno, alias.col_offset) + 1
                        if parts := _parts_before(alias.name, span.column - start, word):
                            return Mention(span, scope, alias, parts=parts)
                if isinstance(owner, ast.ImportFrom) and owner.module and owner.lineno == span.line:
                    start = self.facts.line(span.line).find(owner.module, span.column - 1 - len(owner.module)) + 1
                    if parts := _parts_before(owner.module, span.column - start, word):
                        return Mention(span, scope, owner, parts=parts)
        return None

    def functions(self) -> Iterator[tuple[NameScope, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """Yield the functions of the text, nested ones and methods too, with their scopes."""
        for scope in self.scope.subtree():
            if scope.kind == "function" and isinstance(scope.node, FUNCTIONS):
                yield scope, scope.node

    def path(self, line: int, byte: int) -> list[ast.AST]:
        """Return the nodes around a 1-based line and UTF-8 byte column, outermost first."""
        found: list[ast.AST] = []
        node: ast.AST | None = self.facts.tree
        while node is not None and len(found) < MOST_DEEP:
            node = next((item for item in _located(node) if _holds(item, line, byte)), None)
            if node is not None:
                found.append(node)
        return found


def _located(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that have places: `arguments` and the like give way to their own parts."""
    stack = list(reversed(children(node)))
    while stack:
        part = stack.pop()
        if hasattr(part, "lineno"):
            yield part
        else:
            stack.extend(reversed(children(part)))


def _holds(node: ast.AST, line: int, byte: int) -> bool:
    start = (first_line(node), 0 if getattr(node, "decorator_list", None) else node.col_offset)  # type: ignore[attr-defined]
    return start <= (line, byte) <= (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _covers(node: ast.AST, line: int) -> bool:
    start: int = getattr(node, "lineno", 0)
    return start <= line <= (getattr(node, "end_lineno", None) or start)


def _parts_before(module: str, offset: int, word: str) -> int:
    """Return the number of parts of a dotted name up to the one at an offset; 0 where no part begins there."""
    at = 0
    for number, part in enumerate(module.split("."), 1):
        if at == offset and part == word:
            return number
        at += len(part) + 1
    return 0


def reading_of_facts(facts: SyntaxFacts, before: Reading | None = None) -> Reading:
    """Return the names of a text whose facts are known; `before` is a reading of an earlier state, and is used up."""
    if before is not None and before.facts is facts:
        return before
    return Reading(facts, occurrences_of(facts.tree, None if before is None else before.scope))


def reading_of(source: Source | bytes, file: str, before: Reading | None = None) -> Reading | None:
    """Return the names of a text; `before`, of an earlier state of it, is used up. None where nothing can be read."""
    try:
        facts = syntax_facts(source, file, as_typed=True, before=None if before is None else before.facts)
    except NkiError:
        return None
    return reading_of_facts(facts, before)
