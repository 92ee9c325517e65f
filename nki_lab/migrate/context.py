"""The state of one migration: the text with its edits, what is known of it, and what was done or could not be."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from nki_lab.isa.dtype import DType
from nki_lab.migrate.guesses import Guesses
from nki_lab.migrate.indices import Indices
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.masks import Box, box_of
from nki_lab.migrate.names import Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import Tile, Values
from nki_lab.migrate.views import Bounds, Views

_CONDITIONAL: Final = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LANGUAGE: Final = "nki.language"
_REDUCTIONS: Final = ("sum", "prod", "max", "min", "mean", "var", "all")


@dataclass(frozen=True, slots=True)
class Left:
    """A place that a row matches and where its rewrite is not safe."""

    row: int
    node: ast.AST
    reason: str


@dataclass(slots=True)
class Context:
    """The state that the rewrites share. `applied` counts them by row, `left` are places that need the author."""

    edits: SourceEdits
    names: Names
    values: Values
    indices: Indices
    views: Views
    applied: Counter[int] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    extra: dict[int, str] = field(default_factory=dict)
    declared_sizes: Callable[[ast.Call], list[Linear] | None] | None = None

    @classmethod
    def of(cls, text: str, tree: ast.Module, values: Values) -> Context:
        """Return the context of a text in which nothing has been done."""
        edits = SourceEdits(text, tree)
        names = Names(edits)
        values.guess = Guesses(edits, names, values).seen
        indices = Indices(edits, names, values)
        return cls(edits, names, values, indices, Views(edits, names, values, indices))

    # -- what was done -----------------------------------------------------------------------------------------------

    def done(self, *rows: int) -> None:
        """Count a rewrite for each of some rows."""
        self.applied.update(rows)

    def leave(self, row: int, node: ast.AST, reason: str) -> None:
        """Note a place that stays as it is."""
        if not any(item.row == row and item.node is node for item in self.left):
            self.left.append(Left(row, node, reason))

    # -- spellings ---------------------------------------------------------------------------------------------------

    def nl(self, name: str) -> str:
        """Return how the module writes a name of `nki.language`."""
        self.needed.add(_LANGUAGE)
        return f"{self.names.spelt(_LANGUAGE)}.{name}"

    def nisa(self, name: str) -> str:
        """Return how the module writes a name of `nki.isa`."""
        self.needed.add("nki.isa")
        return f"{self.names.spelt('nki.isa')}.{name}"

    def dtype(self, kind: DType) -> str:
        """Return how the module writes a dtype."""
        return self.nl(kind.name)

    # -- tensors -----------------------------------------------------------------------------------------------------

    def sizes(self, node: ast.expr) -> list[Linear] | None:
        """Return the sizes of a tensor expression, as numbers or as source; None where they are not known."""
        seen = self.values.of(node)
        if isinstance(node, ast.Subscript):
            view = self.views.of(node)
            if view is not None and view.sizes and all(size is not None for size in view.sizes):
                return [size for size in view.sizes if size is not None]
        known = seen.sizes()
        if isinstance(node, ast.Name | ast.Attribute) and not seen.blocks():
            rank = seen.rank() if seen.tiles else self._rank(node)
            text = self.edits.text_of(node)
            if rank is not None:
                tiles = seen.tiles
                ones = [bool(tiles) and all(tile.shape[dim] == 1 for tile in tiles) for dim in range(rank)]
                return [Linear(1) if one else Linear.of(f"{text}.shape[{dim}]") for dim, one in enumerate(ones)]
        computed = self._computed(node)
        if known is not None and (computed is None or len(computed) != len(known)):
            return [Linear(size) for size in known]
        return computed

    def _rank(self, node: ast.expr) -> int | None:
        """Return the number of dimensions of a tensor that the evaluation did not come to."""
        found = self.names.definition(node) if isinstance(node, ast.Name) else None
        if found is None or found[1] is None or found[2] is not None:
            return None
        value = found[1]
        if self.names.called(value, *(f"{_LANGUAGE}.{name}" for name in ("ndarray", "zeros", "ones", "full"))):
            assert isinstance(value, ast.Call)
            shape = value.args[0] if value.args else None
            return len(shape.elts) if isinstance(shape, ast.Tuple | ast.List) else None
        sizes = self.sizes(value)
        return None if sizes is None else len(sizes)

    def _computed(self, node: ast.expr) -> list[Linear] | None:
        """Return the sizes of what an operator or a function of `nki.language` makes of tensors."""
        match node:
            case ast.BinOp(left=left, right=right):
                return self._joined([left, right])
            case ast.UnaryOp(operand=operand):
                return self.sizes(operand)
            case ast.Compare(left=left, comparators=others):
                return self._joined([left, *others])
            case ast.Call(func=ast.Attribute(attr="broadcast_to" | "reshape"), args=[*_, ast.Tuple(elts=elements)]):
                forms = [self.indices.form(item) for item in elements]
                return (
                    None
                    if any(form is None or form.axes for form in forms)
                    else [form.rest for form in forms if form is not None]
                )
            case ast.Call(func=func, args=args):
                path, _, name = self.names.dotted(func).rpartition(".")
                inner = self._joined([item for item in args if self.values.of(item).is_tensor])
                if path == "nki.isa" and self.declared_sizes is not None:
                    return self.declared_sizes(node)
                if path != _LANGUAGE or inner is None:
                    return None
                return self._function(node, name, inner)
            case _:
                return None

    def _function(self, node: ast.Call, name: str, inner: list[Linear]) -> list[Linear] | None:
        tile = [*inner, Linear(1)] if len(inner) == 1 else inner
        given = {item.arg: item.value for item in node.keywords}
        if name in _REDUCTIONS:
            axis = given.get("axis", node.args[1] if len(node.args) > 1 else None)
            try:
                axes = ast.literal_eval(axis) if axis is not None else None
            except ValueError:
                return None
            axes = [axes] if isinstance(axes, int) else axes
            if axes is None:
                return None
            places = {item % len(tile) for item in axes}
            keep = isinstance(flag := given.get("keepdims"), ast.Constant) and flag.value is True
            kept = [Linear(1) if dim in places else size for dim, size in enumerate(tile)]
            left = kept if keep else [size for dim, size in enumerate(tile) if dim not in places]
            return [*left, Linear(1)] if len(left) == 1 else left
        if name in ("transpose", "load_transpose2d"):
            return tile[::-1] if len(tile) == 2 else None
        return None if name in ("matmul", "broadcast_to", "gather_flattened", "expand_dims", "ndarray") else tile

    def _joined(self, nodes: list[ast.expr]) -> list[Linear] | None:
        """Return the common sizes of tensors; numbers have none."""
        found: list[Linear] = []
        for node in nodes:
            sizes = self.sizes(node) if self.values.of(node).is_tensor else []
            if sizes is None:
                return None
            if len(sizes) < len(found):
                sizes = [*[Linear(1)] * (len(found) - len(sizes)), *sizes]
            found = [*[Linear(1)] * (len(sizes) - len(found)), *found]
            found = [b if a == Linear(1) else a for a, b in zip(found, sizes, strict=True)]
        return found or None

    def shape_text(self, sizes: list[Linear]) -> str:
        """Return sizes as source: `x.shape` where they are all sizes of one tensor."""
        texts = [size.text() for size in sizes]
        base = texts[0].removesuffix(".shape[0]")
        if base != texts[0] and texts == [f"{base}.shape[{dim}]" for dim in range(len(texts))]:
            ranks = {len(tile.shape) for tile in self._named(base)}
            if ranks == {len(texts)}:
                return f"{base}.shape"
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def _named(self, name: str) -> Iterator[Tile]:
        for node in ast.walk(self.edits.tree):
            if isinstance(node, ast.Name) and node.id == name:
                yield from self.values.of(node).tiles

    def dtype_text(self, node: ast.expr) -> str | None:
        """Return the dtype of a tensor expression as source."""
        base = node
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name) and not self.values.of(base).blocks() and self.values.of(base).is_tensor:
            return f"{self.edits.text_of(base)}.dtype"
        kind = self.values.of(node).dtype()
        if isinstance(node, ast.Call) and self.names.dotted(node.func).startswith(_LANGUAGE):
            inner = [item for item in node.args if self.values.of(item).is_tensor]
            typed = any(item.arg == "dtype" for item in node.keywords) or len(inner) != 1
            if not typed and kind is not None and self.values.of(inner[0]).dtype() is kind:
                return self.dtype_text(inner[0])
        if kind is not None:
            return self.dtype(kind)
        return self._assumed_dtype(node)

    def _assumed_dtype(self, node: ast.expr) -> str | None:
        """Return the dtype of a computed tensor as that of one which has the same under all assumptions."""
        kinds = {tile.dtype for tile in self.values.of(node).tiles}
        for item in ast.walk(node):
            seen = self.values.of(item) if isinstance(item, ast.Name) else None
            if seen is not None and seen.is_tensor and {tile.dtype for tile in seen.tiles} == kinds:
                return f"{self.edits.text_of(item)}.dtype"
        return self.dtype(next(iter(kinds))) if len(kinds) == 1 else None

    # -- masks -------------------------------------------------------------------------------------------------------

    def box(self, node: ast.expr | None) -> Box | None:
        """Return a mask as a box, an empty one where there is none; None where it is no box."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return Box()
        return box_of(node, self.edits, self.names, self.indices, self.values)

    def operand(self, node: ast.expr, bounds: Bounds) -> str:
        """Return the source of an operand, cut to the bounds of a mask."""
        kinds = self.values.of(node).kinds
        if not bounds or isinstance(node, ast.Constant) or (kinds and "tensor" not in kinds):
            return self.edits.text_of(node)
        if isinstance(node, ast.Subscript):
            view = self.views.of(node, bounds)
            if view is not None:
                self.done(*view.rows)
                return view.text
            return self.edits.text_of(node)
        sizes = self.sizes(node)
        rank = len(sizes) if sizes is not None else 2
        return self.views.whole(self.edits.text_of(node), sizes, rank, bounds)

    def fresh(self, wish: str) -> str:
        """Return a name that the module does not have."""
        return self.names.fresh(wish)

    def hoistable(self, node: ast.AST) -> ast.stmt | None:
        """Return the statement in front of which an expression can be evaluated; None where there is none."""
        statement = self.edits.statement(node)
        for item in self.edits.above(node):
            if item is statement:
                break
            if isinstance(item, _CONDITIONAL):
                return None
        above = self.edits.parent(statement)
        chained = (
            isinstance(statement, ast.If)
            and isinstance(above, ast.If)
            and above.orelse == [statement]
            and self.edits.segment(statement).startswith("elif")
        )
        return None if chained or isinstance(statement, ast.While) else statement
