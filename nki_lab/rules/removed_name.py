"""NKI603: entry points of earlier releases that `nki` no longer has, on the host's side."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from nki_lab.kernel_runtime.issue.nki_api_names import missing
from nki_lab.rules.rule import Findings, syntax_rule
from nki_lab.source import SyntaxFacts
from nki_lab.source.trees import FUNCTIONS

_ENTRIES: Final = frozenset({"baremetal", "benchmark", "profile", "simulate_kernel", "trace", "cpu_simulate"})
_MENTION: Final = re.compile(rf"\b({'|'.join(sorted(_ENTRIES))})\b")


@syntax_rule("NKI603", dialects=("current", "beta1"), on_host=True)
def check(facts: SyntaxFacts) -> Findings:
    """One finding for each mention of such a name of the module `nki`, wherever it stands."""
    lines = [number for number, line in enumerate(facts.lines, start=1) if _MENTION.search(line)]
    for node in _on_lines(facts.tree, lines) if lines else ():
        if isinstance(node, ast.Attribute) and node.attr in _ENTRIES and facts.imported(node) == f"nki.{node.attr}":
            found = missing("nki", node.attr, ())
            yield facts.report(found.code, node, found.message, limit=found.limit, use=found.help)


def _on_lines(tree: ast.Module, lines: list[int]) -> Iterator[ast.AST]:
    """The nodes that reach over one of these lines, which are in order: all of a module would take long."""
    stack: list[ast.AST] = list(reversed(tree.body))
    while stack:
        node = stack.pop()
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.decorator_list:
            first = node.decorator_list[0].lineno
        if first and bisect_left(lines, first) == bisect_right(lines, last):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
