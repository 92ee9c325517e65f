"""Functions of one module whose texts differ in nothing but the name: what holds for one holds for all of them.

Generated files hold thousands of these. The names have one length, so that columns are the same, and stand nowhere else
in the functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from nki_lab.source.facts import SyntaxFacts
from nki_lab.source.module import ModuleSource
from nki_lab.source.trees import first_line


def blanked_text(module: ModuleSource, node: ast.FunctionDef) -> str:
    """Return the text of a function with its name blanked; "" where the name stands in it again."""
    name = node.name
    text = "\n".join(module.lines[first_line(node) - 1 : node.end_lineno])
    blank = "\0" * len(name)
    if text.count(name) == 1:
        return text.replace(name, blank)
    text, count = re.subn(rf"\b{re.escape(name)}\b", blank, text)
    return text if count == 1 else ""


def copies_in(module: ModuleSource) -> Mapping[ast.AST, ast.FunctionDef]:
    """Return the functions at a module's top level that are copies, each with the first one that it is a copy of.

    Of a text with lines that cannot be read, those functions are none that may lack some of them; and what stands below
    such lines is no copy of what does not.
    """
    return module.once("copies", lambda: _copies_in(module))


def _copies_in(module: ModuleSource) -> dict[ast.AST, ast.FunctionDef]:
    alike: dict[tuple[int, int, bool], list[ast.FunctionDef]] = {}
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef) and not node.col_offset and not module.lacks_lines_of(node):
            lines = (node.end_lineno or node.lineno) - first_line(node)
            alike.setdefault((lines, len(node.name), module.is_torn(first_line(node))), []).append(node)
    found: dict[ast.AST, ast.FunctionDef] = {}
    for nodes in alike.values():
        first: dict[str, ast.FunctionDef] = {}
        for node in nodes if len(nodes) > 1 else ():
            text = blanked_text(module, node)
            original = first.setdefault(text, node) if text else node
            if original is not node:
                found[node] = original
    return found


def without_copies(facts: SyntaxFacts) -> tuple[SyntaxFacts, frozenset[ast.FunctionDef]]:
    """Return facts without the kernels that are copies of others, and these others.

    Kernels that the module mentions stay: what is found elsewhere may depend on them.
    """
    copies = copies_in(facts.parsed)
    if not copies:
        return facts, frozenset()
    kinds: dict[ast.AST, tuple[str, bool]] = {item.node: (item.dialect, item.is_entry) for item in facts.functions}
    mentioned = {name.id for scope in facts.module.subtree() for name in (*scope.loads, *scope.annotated)}
    left_out = {
        node: original
        for node, original in copies.items()
        if node in kinds and kinds[node] == kinds.get(original) and getattr(node, "name", "") not in mentioned
    }
    kept = [item for item in facts.functions if item.node not in left_out]
    return facts.of(kept), frozenset(left_out.values())
