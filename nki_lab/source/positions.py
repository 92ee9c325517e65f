"""The places that Python gives failing expressions: a finding stands where a run of the kernel would put it.

Python's compiler gives each bytecode instruction the place of its expression, with a few habits of its own, which are
repeated here: an attribute on a later line starts at its name, and before Python 3.12 a truth test takes the place of
the comparison compiled before it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from nki_lab.source.trees import Extent, extent

_JUMPS_KEEP_COMPARISONS = sys.version_info < (3, 12)  # later a truth test has the place of what is tested
_PARTS_HAVE_PLACES = sys.version_info >= (3, 13)  # before it, a failing assert or loop has that of the statement
_METHOD_ARGUMENTS = 30  # a call with more does not use the method protocol (STACK_USE_GUIDELINE of CPython)


def place_of(node: ast.AST) -> Extent:
    """Return the place at which Python reports a failure of `node`."""
    line, column, end_line, end_column = extent(node)
    attribute = node.func if isinstance(node, ast.Call) and _is_method_call(node) else node
    if isinstance(attribute, ast.Attribute) and attribute.end_lineno is not None and line != attribute.end_lineno:
        line = attribute.end_lineno
        column = max(0, (attribute.end_col_offset or 0) - len(attribute.attr.encode()))
    return line, column, end_line, end_column


def _is_method_call(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    count = len(node.args) + len(node.keywords) + bool(node.keywords)
    starred = any(isinstance(item, ast.Starred) for item in node.args)
    return count < _METHOD_ARGUMENTS and not starred and all(item.arg is not None for item in node.keywords)


def assertion_place(node: ast.Assert) -> ast.AST:
    """Return the node whose place a failing assert has: its test, the last comparison of that, or the statement."""
    return node.test if _PARTS_HAVE_PLACES else after(node.test, node)


def iteration_place(iterated: ast.expr, owner: ast.AST) -> ast.AST:
    """Return the node whose place a loop or comprehension `owner` has that cannot walk what it is given."""
    return iterated if _PARTS_HAVE_PLACES else owner


def jump_place(test: ast.expr, owner: ast.AST) -> ast.AST:
    """Return the node whose place a condition has that is neither true nor false."""
    return owner if _JUMPS_KEEP_COMPARISONS else test


def last_comparison(test: ast.expr) -> ast.Compare | None:
    """Return the comparison that is compiled last in a condition."""
    match test:
        case ast.Compare():
            return test
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return last_comparison(operand)
        case ast.BoolOp(values=values):
            parts = values
        case ast.IfExp(test=condition, body=body, orelse=orelse):
            parts = [condition, body, orelse]
        case _:
            return None
    return next((found for part in reversed(parts) if (found := last_comparison(part)) is not None), None)


def condition_places(test: ast.expr, owner: ast.AST) -> Iterator[Extent]:
    """Return the places at which Python asks the parts of a condition of `owner` for their truth."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            parts = [operand]
        case ast.BoolOp(values=values):
            parts = values
        case ast.IfExp(body=body, orelse=orelse):  # its own test is another condition
            parts = [body, orelse]
        case _:
            yield extent(test)
            if _JUMPS_KEEP_COMPARISONS:
                yield extent(owner)
            return
    for part in parts:
        yield from condition_places(part, owner)


def after(test: ast.expr, owner: ast.AST) -> ast.AST:
    """Return the node whose place the jump compiled after `test` has, `owner` where `test` holds no comparison."""
    return (last_comparison(test) if _JUMPS_KEEP_COMPARISONS else None) or owner
