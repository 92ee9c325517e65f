"""The names around the cursor: those of the text without the statement that is being typed.

That statement says nothing yet, and is what keeps a text from parsing. While it is typed the rest stays the same, so
that it is read once a statement; from one to the next only what has changed is read.
"""

from __future__ import annotations

import ast
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.query.completion.cursor import Cursor
from nki_lab.query.completion.values import ValuesAt
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source import SyntaxFacts, syntax_facts
from nki_lab.source.magics import UNKNOWN
from nki_lab.source.names import NameUses
from nki_lab.source.trees import FUNCTIONS, first_line

KEPT_CHARACTERS: Final = 400_000
"""The most characters of the texts whose trees are kept, but for the newest."""

_CONTINUES: Final = re.compile(r"\s*(elif|else|except|finally|case)\b")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The names of a text around a cursor: the scope it stands in, and the values that they have.

    `words` are those of the lines above in the same function: names that may be bound by now.
    """

    facts: SyntaxFacts
    values: ValuesAt
    scope: NameUses
    dialect: str  # empty where the text does not use NKI
    in_kernel_code: bool
    files: Callable[[], Workspace] | None
    words: frozenset[str]


@dataclass(slots=True)
class _Known:
    texts: tuple[str, ...]
    facts: SyntaxFacts
    values: ValuesAt
    words: tuple[NameUses | None, int, frozenset[str]] = (None, 0, frozenset())

    def words_above(self, scope: NameUses, line: int) -> frozenset[str]:
        """Return the words of the lines above in the function around."""
        if self.words[:2] != (scope, line):
            self.words = scope, line, _words_above(self.facts, scope, line)
        return self.words[2]


_kept: OrderedDict[str, _Known] = OrderedDict()
lock: Final = threading.RLock()
"""Held while surroundings are made and read: the trees of one state of a file go over into the next."""


def surroundings(
    sources: Sequence[str],
    file: str,
    part: int,
    cursor: Cursor,
    indent: int,
    files: Callable[[], Workspace] | None = None,
) -> Surroundings | None:
    """Return what is around the cursor in the text `part` of a file's sources; None where nothing can be read.

    `indent` is the indentation of the cursor's line, or the column of the cursor in an empty one; `files` gives the
    others that the text may import. The caller holds `lock`.
    """
    lines = sources[part].split("\n")
    rest = _without(lines, cursor)
    texts = (*sources[:part], "\n".join(rest), *sources[part + 1 :])
    known = _read(texts, file)
    if known is None:
        return None
    line = sum(text.count("\n") + 1 for text in sources[:part]) + cursor.first + 1
    scope = _scope_at(known.facts, line, indent)
    dialects = {item.node: item.dialect for item in known.facts.functions}
    dialect = next((dialects[item.node] for item in scope.enclosing() if item.node in dialects), known.facts.dialect)
    return Surroundings(
        known.facts,
        known.values,
        scope,
        dialect or "",
        any(known.values.is_kernel_code(item) for item in scope.enclosing()),
        files,
        known.words_above(scope, line),
    )


def forget(file: str) -> None:
    """Forget the text of a file that is closed."""
    with lock:
        _kept.pop(file, None)


def _read(texts: tuple[str, ...], file: str) -> _Known | None:
    known = _kept.get(file)
    if known is None or known.texts != texts:
        before = _kept.pop(file, None)
        source: str | tuple[str, ...] = texts[0] if len(texts) == 1 else texts
        try:
            with gc_relaxed():
                facts = syntax_facts(source, file, as_typed=True, before=None if before is None else before.facts)
        except NkiError:
            return None
        known = _Known(texts, facts, ValuesAt(facts))
        _kept[file] = known
    _kept.move_to_end(file)
    while len(_kept) > 1 and sum(len(text) for item in _kept.values() for text in item.texts) > KEPT_CHARACTERS:
        _kept.popitem(last=False)
    return known


# -- the text without the statement ----------------------------------------------------------------------------------


def _without(lines: list[str], cursor: Cursor) -> list[str]:
    """Return the lines with a statement that says nothing in the place of the one at the cursor."""
    first, last = cursor.first, min(cursor.last, len(lines) - 1)
    text = lines[first] if first < len(lines) else ""
    stripped = text.lstrip()
    indent = text[: len(text) - len(stripped)]
    below = next((line for line in lines[last + 1 :] if line.strip()), "")
    deeper = below.startswith(indent) and below[len(indent) : len(indent) + 1].isspace()
    above = next((line for line in reversed(lines[:first]) if line.strip()), "")
    if not stripped:
        opens = above.split("#")[0].rstrip().endswith(":") and not _is_deeper(below, above)
        put = f"{above[: len(above) - len(above.lstrip())]}    pass" if opens else ""
    elif stripped.startswith("@"):
        put = ""
    else:
        goes_on = _CONTINUES.match(text)
        condition = f"if {UNKNOWN}:" if goes_on is None else _HEADERS[goes_on[1]]
        header = deeper or goes_on is not None
        put = f"{indent}{condition}{'' if deeper else ' pass'}" if header else f"{indent}pass"
    return [*lines[:first], put, *([""] * (last - first)), *lines[last + 1 :]]


_HEADERS: Final = {
    "elif": f"elif {UNKNOWN}:",
    "else": "else:",
    "except": f"except {UNKNOWN}:",
    "finally": "finally:",
    "case": f"case {UNKNOWN}:",
}


def _is_deeper(below: str, above: str) -> bool:
    return len(below) - len(below.lstrip()) > len(above) - len(above.lstrip())


# -- scopes ----------------------------------------------------------------------------------------------------------


def _scope_at(facts: SyntaxFacts, line: int, indent: int) -> NameUses:
    """Return the innermost function or class that a 1-based line, indented so far, belongs to."""
    scope = facts.module
    while True:
        inner = next((item for item in scope.children if _reaches(facts, item.node, line, indent)), None)
        if inner is None:
            return scope
        scope = inner


def _reaches(facts: SyntaxFacts, node: ast.AST, line: int, indent: int) -> bool:
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or line < first_line(node):
        return False
    end = node.end_lineno or node.lineno
    if line <= end:
        return line >= node.body[0].lineno or indent > node.col_offset
    return indent > node.col_offset and not any(map(str.strip, facts.lines[end : line - 1]))


_NAME: Final = re.compile(r"[^\W\d]\w*")


def _words_above(facts: SyntaxFacts, scope: NameUses, line: int) -> frozenset[str]:
    start = first_line(scope.node) - 1 if isinstance(scope.node, (*FUNCTIONS, ast.ClassDef)) else 0
    return frozenset(_NAME.findall("\n".join(facts.lines[start : line - 1])))
