"""Decorators: whether a function that has one is still called with the names of its parameters."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Final

from nki_lab.query.navigation.meaning import Bound, Outside, Resolver
from nki_lab.query.navigation.reading import Reading
from nki_lab.source.occurrences import NameScope, Occurrence
from nki_lab.source.trees import FUNCTIONS

DEEPEST: Final = 4
"""Variables that stand for decorators, one for another."""


def keeps_keywords(
    resolver: Resolver, reading: Reading, scope: NameScope, node: ast.expr, names: Collection[str], depth: int = DEEPEST
) -> bool:
    """Return whether a decorator passes the keyword arguments `names` on to its function, under these names.

    Those of libraries do. Of the workspace's own, those do that only unpack their keyword arguments into a call.
    """
    while isinstance(node, ast.Call):
        node = node.func
    meaning = resolver.followed(resolver.expression(reading, scope, node))
    if not isinstance(meaning, Bound):
        return isinstance(meaning, Outside)

    def keeps(item: Occurrence) -> bool:
        assert isinstance(meaning, Bound)
        if item.role == "import":
            return isinstance(resolver.followed(resolver.imported(meaning.reading, item)), Outside)
        return isinstance(item.node, (*FUNCTIONS, ast.ClassDef)) and _only_unpacks(item.node, names)

    values = meaning.scope.assigned.get(meaning.name, ())
    found = meaning.scope.bindings(meaning.name)
    if values:
        return (
            len(found) == len(values)
            and depth > 0
            and all(keeps_keywords(resolver, meaning.reading, meaning.scope, item, names, depth - 1) for item in values)
        )
    return all(map(keeps, found))


def _only_unpacks(node: ast.AST, names: Collection[str]) -> bool:
    """Return whether the functions inside a node have no such parameters, and unpack mappings of arguments only."""
    mappings, unpacked, reads = set(), set(), []
    for item in ast.walk(node):
        if isinstance(item, ast.arguments) and item.kwarg is not None:
            mappings.add(item.kwarg.arg)
        elif isinstance(item, ast.arg) and item.arg in names:
            return False
        elif isinstance(item, ast.keyword) and item.arg is None:
            unpacked.add(item.value)
        elif isinstance(item, ast.Name):
            reads.append(item)
    return all(item in unpacked for item in reads if item.id in mappings)
