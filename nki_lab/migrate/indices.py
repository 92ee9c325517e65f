"""Index expressions of Beta 1 as the ranges they walk: `k * 128 + i_p` is 128 elements from `k * 128` on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from nki_lab.migrate.linear import Linear
from nki_lab.migrate.names import Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import Values

_ATTRIBUTES = "pxyz"


@dataclass(frozen=True, slots=True)
class Axis:
    """A range that the source writes: `size` elements in dimension `right` of its grid, the last being 1.

    Axes with one `key` are one range, wherever they are used.
    """

    key: tuple[int, int]
    size: Linear
    right: int


@dataclass(frozen=True, slots=True)
class Form:
    """An index expression: `rest` and for each axis its position times a factor; `rank` dimensions in its grid.

    `dense` are the ranges of `nl.mgrid` in whose full grid it repeats, walked or not.
    """

    rest: Linear
    axes: tuple[tuple[Axis, Linear], ...] = ()
    rank: int = 0
    dense: tuple[Axis, ...] = ()


class Indices:
    """Reads the index expressions of a module."""

    def __init__(self, edits: SourceEdits, names: Names, values: Values) -> None:
        self._edits, self._names, self._values = edits, names, values
        self._known: dict[int, Form | None] = {}

    def form(self, node: ast.expr) -> Form | None:
        """Return what an expression of integers and ranges comes to; None where it is not affine, or unknown."""
        if id(node) not in self._known:
            self._known[id(node)] = None  # of a name that is bound to itself
            self._known[id(node)] = self._form(node)
        return self._known[id(node)]

    def _form(self, node: ast.expr) -> Form | None:
        match node:
            case ast.Constant(value=value):
                return Form(Linear(value)) if type(value) is int else None
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.form(operand)
                return None if inner is None else _scaled(inner, Linear(-1))
            case ast.BinOp(op=ast.Add() | ast.Sub() as sign, left=left, right=right):
                return self._sum(left, right, -1 if isinstance(sign, ast.Sub) else 1)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                return self._product(left, right)
            case ast.Call() if self._names.called(node, "nki.language.arange"):
                return self._arange(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute(value=value, attr=attr) if len(attr) == 1 and attr in _ATTRIBUTES:
                grid = self.grid(value)
                if grid is not None:
                    place = _ATTRIBUTES.index(attr)
                    return grid[place] if place < len(grid) else None
                return self._opaque(node)
            case _:
                return self._opaque(node)

    def _opaque(self, node: ast.expr) -> Form | None:
        """Return an expression that walks no range as a text."""
        if self._values.of(node).kinds & {"index", "grid", "tensor", "mask"} or self._walks(node):
            return None
        return Form(Linear.of(self._edits.text_of(node)))

    def _walks(self, node: ast.expr) -> bool:
        """Return whether a part of an expression walks a range."""
        for item in ast.walk(node):
            if isinstance(item, ast.Name) and item is not node:
                inner = self.form(item) if isinstance(item.ctx, ast.Load) else None
                if (inner is None and self._values.of(item).kinds & {"index", "grid"}) or (inner and inner.axes):
                    return True
            if self._names.called(item, "nki.language.arange"):
                return True
        return False

    def _name(self, node: ast.Name) -> Form | None:
        kinds = self._values.of(node).kinds
        if kinds & {"tensor", "mask", "grid"}:
            return None
        plain = Form(Linear(0, {node.id: 1}))
        found = self._names.definition(node)
        if found is None or found[1] is None:
            return None if "index" in kinds else plain
        statement, value, part = found
        assert value is not None
        if part is not None:
            grid = self.grid(value)
            form = grid[part] if grid is not None and part < len(grid) else None
            return form if form is not None else (None if "index" in kinds else plain)
        if kinds == {"number"}:
            return plain
        inner = self.form(value)
        if inner is None or not inner.axes:
            return None if "index" in kinds else plain
        return inner if self._is_same_here(value, statement, node) else None

    def _is_same_here(self, value: ast.expr, statement: ast.stmt, use: ast.Name) -> bool:
        """Return whether the names in a definition mean at its use what they meant there."""
        if self._names.function(statement) is not self._names.function(use):
            return True
        for item in ast.walk(value):
            if isinstance(item, ast.Name) and item.id != use.id:
                there = self._names.definition(item)
                here = self._names.definition(ast.copy_location(_at(self._edits, item.id, use), use))
                if (there and there[0]) is not (here and here[0]):
                    return False
        return True

    def grid(self, node: ast.expr) -> list[Form] | None:
        """Return the indices of `nl.mgrid[...]`, or of a name for one."""
        if isinstance(node, ast.Name):
            found = self._names.definition(node)
            return None if found is None or found[1] is None or found[2] is not None else self.grid(found[1])
        if not isinstance(node, ast.Subscript) or self._names.dotted(node.value) != "nki.language.mgrid":
            return None
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        forms = []
        for place, item in enumerate(parts):
            if not isinstance(item, ast.Slice) or item.upper is None or item.step is not None:
                return None
            lower = self.form(item.lower) if item.lower is not None else Form(Linear())
            upper = self.form(item.upper)
            if lower is None or upper is None or lower.axes or upper.axes:
                return None
            axis = Axis((id(node), place), upper.rest - lower.rest, len(parts) - place)
            forms.append(Form(lower.rest, ((axis, Linear(1)),), len(parts)))
        dense = tuple(item.axes[0][0] for item in forms)
        return [Form(item.rest, item.axes, item.rank, dense) for item in forms]

    def _arange(self, node: ast.Call) -> Form | None:
        bounds = [self.form(item) for item in node.args]
        if node.keywords or not 1 <= len(bounds) <= 2 or any(item is None or item.axes for item in bounds):
            return None
        ends = [item.rest for item in bounds if item is not None]
        start, stop = (Linear(), ends[0]) if len(ends) == 1 else (ends[0], ends[1])
        return Form(start, ((Axis((id(node), 0), stop - start, 1), Linear(1)),), 1)

    def _subscript(self, node: ast.Subscript) -> Form | None:
        """Return `nl.arange(n)[:, None]`: the range with a place in a grid."""
        grid = self.grid(node.value)
        if grid is not None and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return grid[node.slice.value] if -len(grid) <= node.slice.value < len(grid) else None
        if self._values.of(node).kinds == {"number"}:
            return Form(Linear.of(self._edits.text_of(node)))
        inner = self.form(node.value) if _is_view(node.slice) else None
        if inner is None or not inner.axes:
            return self._opaque(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        old = inner.rank
        places: dict[int, int] = {}
        for place, item in enumerate(parts):
            if isinstance(item, ast.Slice):
                places[old] = len(parts) - place
                old -= 1
        if old:
            return None
        axes = tuple((Axis(axis.key, axis.size, places[axis.right]), factor) for axis, factor in inner.axes)
        return Form(inner.rest, axes, len(parts))

    def _sum(self, left: ast.expr, right: ast.expr, sign: int) -> Form | None:
        first, second = self.form(left), self.form(right)
        if first is None or second is None:
            return None
        second = _scaled(second, Linear(sign))
        axes = {axis.key: (axis, factor) for axis, factor in first.axes}
        for axis, factor in second.axes:
            known = axes.get(axis.key)
            axes[axis.key] = (axis, factor if known is None else known[1] + factor)
        kept = tuple(item for item in axes.values() if item[1] != Linear())
        dense = tuple(dict.fromkeys((*first.dense, *second.dense)))
        return Form(first.rest + second.rest, kept, max(first.rank, second.rank), dense)

    def _product(self, left: ast.expr, right: ast.expr) -> Form | None:
        first, second = self.form(left), self.form(right)
        if first is None or second is None or (first.axes and second.axes):
            return None
        if not first.axes and not second.axes:
            if first.rest.is_number or second.rest.is_number:
                return Form(first.rest.times(second.rest))
            return Form(Linear(0, {f"{_operand(self._edits, left)} * {_operand(self._edits, right)}": 1}))
        walking, factor = (first, second) if first.axes else (second, first)
        return _scaled(walking, factor.rest)


def _at(edits: SourceEdits, name: str, use: ast.Name) -> ast.Name:
    """Return another name read at the place of a use."""
    node = ast.copy_location(ast.Name(name, ast.Load()), use)
    above = edits.parent(use)
    if above is not None:
        edits._parents[id(node)] = above
        edits.kept.append(node)
    return node


def _operand(edits: SourceEdits, node: ast.expr) -> str:
    text = edits.text_of(node)
    return f"({text})" if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mult) else text


def _scaled(form: Form, factor: Linear) -> Form:
    axes = tuple((axis, item.times(factor)) for axis, item in form.axes)
    return Form(form.rest.times(factor), axes, form.rank, form.dense)


def _is_view(node: ast.expr) -> bool:
    """Return whether a key is made of `:` and None."""
    parts: Sequence[ast.expr] = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(
        (isinstance(item, ast.Constant) and item.value is None)
        or (isinstance(item, ast.Slice) and item.lower is item.upper is item.step is None)
        for item in parts
    )
