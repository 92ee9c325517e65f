"""Functions of one module whose texts differ in nothing but the name: one evaluation tells about all of them.

Generated files hold thousands of these. The names have one length, so that columns are the same, and stand nowhere else
in the functions; decorators are NKI's, defaults are constants: nothing else tells where a function stands.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable
from typing import Final, NamedTuple

from nki_lab.diagnostic import Diagnostic
from nki_lab.query.evaluation_cache import KernelEvaluation, moved_lines
from nki_lab.source import SyntaxFacts
from nki_lab.source.copies import blanked_text
from nki_lab.source.trees import attribute_path, defaults, first_line

_PACKAGES: Final = ("nki", "neuronxcc")


class _Known(NamedTuple):
    name: str
    first: int
    last: int
    found: KernelEvaluation


class EqualFunctions:
    """The evaluations of one examination by the texts of the functions, and by all else that they depend on."""

    def __init__(self, facts: SyntaxFacts) -> None:
        self._facts = facts
        self._known: dict[Hashable, _Known] = {}
        bound = Counter(name for node in facts.module.import_nodes for name in map(_bound, node.names))
        others = {*facts.module.stores, *facts.module.definitions, *facts.module.declared}
        self._imports = {name for name, count in bound.items() if count == 1 and name not in others}
        self._texts: dict[ast.FunctionDef, str] = {}

    def recall(self, key: Hashable, node: ast.FunctionDef) -> KernelEvaluation | None:
        """Return what an evaluation of an equal function tells about this one; None where there was none."""
        text = self._text(node)
        known = self._known.get((key, text)) if text else None
        if known is None:
            return None
        by = first_line(node) - known.first

        def line_of(line: int) -> int:
            return line + by if known.first <= line <= known.last else line

        def renamed(names: frozenset[str]) -> frozenset[str]:
            return _renamed(names, known.name, node.name)

        moved: KernelEvaluation = moved_lines(known.found, line_of, self._facts.file, renamed)
        return moved

    def keep(self, key: Hashable, node: ast.FunctionDef, found: KernelEvaluation) -> None:
        """Remember an evaluation, unless its findings speak of the function by name."""
        text = self._text(node)
        if text and not any(_names(item, node.name) for item in found.findings):
            last = node.end_lineno or node.lineno
            self._known.setdefault((key, text), _Known(node.name, first_line(node), last, found))

    def _text(self, node: ast.FunctionDef) -> str:
        """Return the text of a function with its name blanked; "" where more than the text tells what it does."""
        text = self._texts.get(node)
        if text is None:
            text = self._texts[node] = self._blanked(node)
        return text

    def _blanked(self, node: ast.FunctionDef) -> str:
        own = self._facts.parsed.function(node.name) is node
        plain = all(isinstance(item, ast.Constant) for item in defaults(node.args))
        if not own or not plain or node.col_offset or not all(map(self._is_ours, node.decorator_list)):
            return ""
        return blanked_text(self._facts.parsed, node)

    def _is_ours(self, decorator: ast.expr) -> bool:
        """Return whether a decorator is one of NKI's, without arguments."""
        root, _ = attribute_path(decorator)
        return (
            isinstance(root, ast.Name)
            and root.id in self._imports
            and self._facts.dotted(decorator).partition(".")[0] in _PACKAGES
        )


def _bound(item: ast.alias) -> str:
    return item.asname or item.name.partition(".")[0]


def _renamed(names: frozenset[str], old: str, new: str) -> frozenset[str]:
    """Return qualified names in which one function has another name."""
    inside = f"{old}."
    return frozenset(new + name[len(old) :] if name == old or name.startswith(inside) else name for name in names)


def _names(item: Diagnostic, name: str) -> bool:
    """Return whether a finding speaks of a name."""
    texts = (item.message, item.limit, item.help, item.note, item.operand, *(other.message for other in item.related))
    return any(name in text for text in texts)
