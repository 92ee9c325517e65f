"""Masks of Beta 1 as bounds on the ranges that they compare, and as conditions without a range."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from nki_lab.migrate.indices import Axis, Indices
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.names import Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import Values

_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq}


@dataclass(slots=True)
class Bound:
    """The positions that masks leave of one range: from the greatest of `low` up to the least of `high`, exclusive."""

    axis: Axis
    low: list[Linear] = field(default_factory=list)
    high: list[Linear] = field(default_factory=list)


@dataclass(slots=True)
class Box:
    """A mask: bounds by the key of their range, and conditions that hold or do not for everything."""

    bounds: dict[tuple[int, int], Bound] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)


def box_of(node: ast.expr, edits: SourceEdits, names: Names, indices: Indices, values: Values) -> Box | None:
    """Return a mask as a box; None where it is none, such as one that ties two ranges together."""
    box = Box()
    for item in _comparisons(node, names):
        if _is_condition(item, names, values):
            text = edits.text_of(item)
            box.conditions.append(text if values.of(item).kinds == {"number"} else f"{text} != False")
        elif not _enter(box, item, edits, indices):
            return None
    return box


def _is_condition(node: ast.expr, names: Names, values: Values) -> bool:
    """Return whether a part of a mask is a name for a Python value; None stands for everything."""
    kinds = values.of(node).kinds
    return isinstance(node, ast.Name) and kinds <= {"number", "other"} and not _walks(node, names, values)


def _walks(node: ast.Name, names: Names, values: Values) -> bool:
    """Return whether a name stands for an expression of index ranges."""
    found = names.definition(node)
    value = found[1] if found is not None else None
    return value is not None and any(
        isinstance(item, ast.expr) and values.of(item).kinds & {"index", "mask", "grid"} for item in ast.walk(value)
    )


def _comparisons(node: ast.expr, names: Names) -> Iterable[ast.expr]:
    """Yield the comparisons that a mask joins."""
    match node:
        case ast.BinOp(op=ast.BitAnd(), left=left, right=right):
            yield from _comparisons(left, names)
            yield from _comparisons(right, names)
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _comparisons(value, names)
        case ast.Name():
            found = names.definition(node)
            plain = found is not None and isinstance(found[1], ast.Compare | ast.BinOp | ast.BoolOp | ast.Name)
            if found is None or found[1] is None or found[2] is not None or not plain:
                yield node
            else:
                yield from _comparisons(found[1], names)
        case _:
            yield node


def _enter(box: Box, node: ast.expr, edits: SourceEdits, indices: Indices) -> bool:
    """Enter a comparison into a box; return whether it is one."""
    if isinstance(node, ast.Constant) and node.value is True:
        return True
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    left, right = indices.form(node.left), indices.form(node.comparators[0])
    kind = type(node.ops[0])
    if left is None or right is None:
        return False
    if not left.axes and not right.axes:
        box.conditions.append(edits.text_of(node))
        return True
    if len(left.axes) + len(right.axes) != 1 or kind not in _MIRRORED:
        return False
    walking, other = (left, right) if left.axes else (right, left)
    kind = kind if left.axes else _MIRRORED[kind]
    ((axis, factor),) = walking.axes
    if not factor.is_number or factor.const < 1:
        return False
    limit, step = other.rest - walking.rest, factor.const
    bound = box.bounds.setdefault(axis.key, Bound(axis))
    if kind in (ast.Lt, ast.Eq) or kind is ast.LtE:
        top = limit if kind is ast.Lt else limit + Linear(1)
        bound.high.append(_quotient(top, step))
    if kind in (ast.Gt, ast.GtE, ast.Eq):
        bottom = limit + Linear(1) if kind is ast.Gt else limit
        bound.low.append(_quotient(bottom, step))
    return True


def _quotient(value: Linear, step: int) -> Linear:
    """Return a quotient, rounded up."""
    if step == 1:
        return value
    if value.is_number:
        return Linear(-(-value.const // step))
    return Linear.of(f"({(value + Linear(step - 1)).text()}) // {step}")
