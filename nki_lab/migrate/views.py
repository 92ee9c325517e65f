"""Subscripts with index expressions as slices, reshaped slices or access patterns of the current dialect."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nki_lab.migrate.indices import Axis, Form, Indices
from nki_lab.migrate.linear import Linear, greatest, least
from nki_lab.migrate.masks import Bound
from nki_lab.migrate.names import FUNCTIONS, Names
from nki_lab.migrate.source_edits import SourceEdits
from nki_lab.migrate.values import Values

Bounds = Mapping[tuple[int, int], Bound]


@dataclass(slots=True)
class View:
    """The new source of a subscript, the sizes of its dimensions (None where unknown), and the rows that made it."""

    text: str
    sizes: list[Linear | None]
    rows: set[int] = field(default_factory=set)


class Views:
    """Writes the subscripts of a module anew."""

    def __init__(self, edits: SourceEdits, names: Names, values: Values, indices: Indices) -> None:
        self._edits, self._names, self._values, self._indices = edits, names, values, indices

    def of(self, node: ast.Subscript, bounds: Bounds | None = None) -> View | None:
        """Return a subscript of a tensor without index expressions, under the bounds of a mask; None where it has no
        such form.
        """
        bounds = bounds or {}
        keys = self._keys(node)
        base = self._edits.text_of(node.value)
        blocks = self._values.of(node.value).blocks()
        chain, rest = keys[:blocks], keys[blocks:]
        rows: set[int] = set()
        if blocks:
            rows.add(17)
            forms = [item if isinstance(item, Form) else self._indices.form(item) for item in chain]
            if any(item is None or item.axes for item in forms):
                return None
            base += "".join(f"[{self._text(item)}]" for item in chain)
        if not rest:
            seen = self._values.of(node)
            sizes = seen.sizes() or ()
            return View(base, [Linear(size) for size in sizes], rows)
        if any(not isinstance(item, Form) and self._values.of(item).is_tensor for item in rest):
            return self._indirect(node, base, rest, bounds)
        forms = [None if isinstance(item, ast.Slice) or _is_ellipsis(item) else self._form(item) for item in rest]
        if not any(form is not None and form.axes for form in forms):
            if any(self._is_unread(item) for item in rest):
                return None
            return self._plain(node, base, rest, bounds, rows)
        if any(form is None for form in forms):
            return None
        known = [form for form in forms if form is not None]
        return self._sliced(node, base, known, bounds, rows) or self._pattern(node, base, known, bounds, rows)

    def _keys(self, node: ast.Subscript) -> list[ast.expr | Form]:
        parts: list[ast.expr] = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        keys: list[ast.expr | Form] = []
        for item in parts:
            grid = self._indices.grid(item)
            keys += [item] if grid is None else grid
        return keys

    def _form(self, item: ast.expr | Form) -> Form | None:
        return item if isinstance(item, Form) else self._indices.form(item)

    def _is_unread(self, item: ast.expr | Form) -> bool:
        """Return whether a key is an index expression that could not be read."""
        return not isinstance(item, Form) and bool(self._values.of(item).kinds & {"index", "grid", "tensor"})

    def _text(self, item: ast.expr | Form) -> str:
        return item.rest.text() if isinstance(item, Form) else self._edits.text_of(item)

    def is_on_chip(self, node: ast.expr) -> bool:
        """Return whether a tensor lies in SBUF or PSUM; parameters that nothing is known of do not."""
        space = self._values.of(node).space()
        if space:
            return space in ("sbuf", "psum")
        owner = self._names.function(node)
        if isinstance(node, ast.Name) and isinstance(owner, FUNCTIONS):
            return self._names.definition(node) is not None
        return not isinstance(node, ast.Name)

    # -- slices --------------------------------------------------------------------------------------------------------

    def _plain(
        self, node: ast.Subscript, base: str, rest: Sequence[ast.expr | Form], bounds: Bounds, rows: set[int]
    ) -> View | None:
        """Return a subscript of integers and slices; bounds cut the slices by their place."""
        text = f"{base}[{', '.join(self._text(item) for item in rest)}]"
        sizes = [Linear(size) for size in self._values.of(node).sizes() or ()]
        cut = self.whole(text, sizes or None, len(sizes) or 2, bounds)
        if all(_is_ellipsis(item) for item in rest) and bounds:
            cut = self.whole(base, sizes or None, len(sizes) or 2, bounds)
        return View(cut, list(sizes), rows | ({15} if bounds else set()))

    def whole(self, text: str, sizes: Sequence[Linear | None] | None, rank: int, bounds: Bounds) -> str:
        """Return the part of a whole tensor of `rank` dimensions that bounds leave, by the places of their ranges."""
        parts = [":"] * rank
        for bound in bounds.values():
            place = rank - bound.axis.right
            if not 0 <= place < rank:
                continue
            if sizes is not None and sizes[place] == Linear(1) and bound.axis.size != Linear(1):
                continue
            low = greatest(Linear(), *bound.low) if bound.low else "0"
            parts[place] = f"{low}:{least(bound.axis.size, *bound.high)}"
        while parts and parts[-1] == ":":
            parts.pop()
        return f"{text}[{', '.join(parts)}]" if parts else text

    def _sliced(
        self, node: ast.Subscript, base: str, forms: Sequence[Form], bounds: Bounds, rows: set[int]
    ) -> View | None:
        """Return slices, where each range walks one dimension in steps of its own; None elsewhere."""
        on_chip = self.is_on_chip(node.value)
        keys: list[str] = []
        made: list[tuple[int, list[tuple[Axis, Linear]]]] = []
        for place, form in enumerate(forms):
            walked = sorted(form.axes, key=lambda item: -item[0].right)
            if not walked:
                keys.append(form.rest.text())
                if on_chip and place == 0:
                    made.append((0, []))
                continue
            key = self._slice(form, walked, bounds, is_first=on_chip and place == 0)
            if key is None:
                return None
            keys.append(key)
            made.append((walked[0][0].right, walked))
        rank = max(form.rank for form in forms)
        used = [axis.key for _, walked in made for axis, _ in walked]
        order = [axis.right for _, walked in made for axis, _ in walked]
        if len(set(used)) != len(used) or order != sorted(order, reverse=True) or len(set(order)) != len(order):
            return None
        if any(axis.key not in used and axis.size != Linear(1) for form in forms for axis in form.dense):
            return None
        if on_chip and len(made) == 1:
            made.append((0, []))
        merged = any(len(walked) > 1 for _, walked in made)
        text = f"{base}[{', '.join(keys)}]"
        sizes: list[Linear | None] = []
        queue = [(axis.right, axis.size) for _, walked in made for axis, _ in walked]
        spare = [right for right, _ in made].count(0)
        expand: list[int] = []
        for right in range(rank, 0, -1):
            if queue and queue[0][0] == right:
                sizes.append(queue.pop(0)[1])
            elif spare:
                spare -= 1
                sizes.append(Linear(1))
            else:
                expand.append(len(sizes))
                sizes.append(Linear(1))
        if spare and len(sizes) + spare == 2:
            sizes += [Linear(1)] * spare
            spare = 0
        if spare:
            return None
        if merged:
            if bounds:
                return None
            text += f".reshape(({', '.join(item.text() if item else '1' for item in sizes)}))"
        else:
            for dim in expand:
                if on_chip and dim == 0:
                    return None
                text += f".expand_dim({dim})"
        return View(text, sizes, rows | {14 if merged else 13} | ({15} if bounds else set()))

    def _slice(self, form: Form, walked: list[tuple[Axis, Linear]], bounds: Bounds, *, is_first: bool) -> str | None:
        """Return the slice that ranges walk in one dimension; None where it is none."""
        if len(walked) > 1:
            covered = Linear(1)
            for axis, factor in reversed(walked):
                if factor != covered:
                    return None
                covered = covered.times(axis.size)
            return f"{form.rest.text()}:{(form.rest + covered).text()}"
        ((axis, factor),) = walked
        if not factor.is_number or factor.const < 1 or (is_first and factor.const != 1 and axis.size != Linear(1)):
            return None
        step, bound = factor.const, bounds.get(axis.key)
        if step == 1:
            ends = [form.rest + axis.size, *(form.rest + item for item in (bound.high if bound else ()))]
            starts = [form.rest, *(form.rest + item for item in (bound.low if bound else ()))]
            return f"{greatest(*starts)}:{least(*ends)}"
        if bound is not None and bound.low:
            return None
        count = Linear.of(least(axis.size, *(bound.high if bound else ())))
        last = (count - Linear(1)).scaled(step) + Linear(1)
        return f"{form.rest.text()}:{(form.rest + last).text()}:{step}"

    # -- access patterns -----------------------------------------------------------------------------------------------

    def shape(self, node: ast.expr) -> list[Linear] | None:
        """Return the sizes of a tensor that a name or an attribute stands for, as numbers or as source."""
        seen = self._values.of(node)
        sizes, rank = seen.sizes(), seen.rank()
        if sizes is not None and (not isinstance(node, ast.Name) or self._is_literal(node)):
            return [Linear(size) for size in sizes]
        if rank is None or not isinstance(node, ast.Name | ast.Attribute):
            return None
        text = self._edits.text_of(node)
        return [Linear.of(f"{text}.shape[{dim}]") for dim in range(rank)]

    def _is_literal(self, node: ast.Name) -> bool:
        """Return whether a tensor is made with sizes that are written as numbers."""
        found = self._names.definition(node)
        call = found[1] if found is not None and found[2] is None else None
        parts = list(ast.walk(call.args[0])) if isinstance(call, ast.Call) and call.args else []
        plain = ast.Tuple | ast.List | ast.Constant | ast.Load | ast.Call
        return bool(parts) and all(
            isinstance(item, plain) or self._names.dotted(item).startswith("nki") for item in parts
        )

    def strides(self, node: ast.expr) -> list[Linear] | None:
        """Return the elements between neighbours in each dimension of a whole tensor."""
        sizes = self.shape(node)
        if sizes is None:
            return None
        strides = [Linear(1)]
        for size in reversed(sizes[1:]):
            strides.insert(0, strides[0].times(size))
        return strides

    def _pattern(
        self, node: ast.Subscript, base: str, forms: Sequence[Form], bounds: Bounds, rows: set[int]
    ) -> View | None:
        """Return an access pattern; None where the tensor is no whole one, or partitions are not walked in order."""
        if not isinstance(node.value, ast.Name | ast.Attribute) or 17 in rows:
            return None
        strides = self.strides(node.value)
        if strides is None or len(strides) != len(forms):
            return None
        if any(bound.low for bound in bounds.values()):
            return None
        found: dict[int, tuple[Axis | None, Linear]] = {}
        offset = Linear()
        for form, stride in zip(forms, strides, strict=True):
            offset += form.rest.times(stride)
            for axis, factor in form.axes:
                known = found.get(axis.right)
                if known is not None and known[0] is not None and known[0].key != axis.key:
                    return None
                before = known[1] if known is not None else Linear()
                found[axis.right] = axis, before + factor.times(stride)
            for axis in form.dense:
                found.setdefault(axis.right, (axis, Linear()))
        rank = max(form.rank for form in forms)
        on_chip = self.is_on_chip(node.value)
        pairs, sizes = [], []
        for right in range(rank, 0, -1):
            walked, step = found.get(right, (None, Linear()))
            size = Linear(1) if walked is None else walked.size
            count = size
            if walked is not None and (bound := bounds.get(walked.key)):
                count = Linear.of(least(size, *bound.high))
            if on_chip and right == rank:
                if step not in (strides[0], Linear()):
                    return None
                step = strides[0]
            pairs.append(f"[{step.text() if step != Linear() else 1 if size == Linear(1) else 0}, {count.text()}]")
            sizes.append(size)
        text = f"{base}.ap([{', '.join(pairs)}], offset={offset.text()})"
        return View(text, list(sizes), rows | {13} | ({15} if bounds else set()))

    # -- run-time indices ----------------------------------------------------------------------------------------------

    def _indirect(self, node: ast.Subscript, base: str, keys: Sequence[ast.expr | Form], bounds: Bounds) -> View | None:
        """Return an access of a whole tensor in HBM at rows that a tile names; None where it is none."""
        if not isinstance(node.value, ast.Name | ast.Attribute) or bounds or self.is_on_chip(node.value):
            return None
        strides = self.strides(node.value)
        places = [place for place, item in enumerate(keys) if not isinstance(item, Form) and self._is_tile(item)]
        if strides is None or len(places) != 1 or len(strides) != len(keys):
            return None
        dim = places[0]
        tile = keys[dim]
        assert isinstance(tile, ast.expr)
        seen = self._values.of(tile).sizes()
        forms = [None if place == dim else self._form(item) for place, item in enumerate(keys)]
        known = [item for item in forms if item is not None]
        if len(known) != len(keys) - 1 or seen is None:
            return None
        is_vector = seen[0] > 1
        if is_vector and dim:
            return None
        steps: dict[int, tuple[Linear, Linear]] = {}
        offset = Linear()
        for form, stride in zip(forms, strides, strict=True):
            for axis, factor in () if form is None else form.axes:
                before = steps[axis.right][1] if axis.right in steps else Linear()
                steps[axis.right] = axis.size, before + factor.times(stride)
            offset += Linear() if form is None else form.rest.times(stride)
        rank = max([2, *(form.rank for form in known)]) if is_vector else max((form.rank for form in known), default=2)
        if is_vector:
            if rank in steps:
                return None
            steps[rank] = Linear(seen[0]), strides[0]
        pairs = [steps.get(right, (Linear(1), Linear(1))) for right in range(rank, 0, -1)]
        pattern = ", ".join(f"[{step.text()}, {size.text()}]" for size, step in pairs)
        name = "vector_offset" if is_vector else "scalar_offset"
        at = f"{name}={self._edits.text_of(tile)}, indirect_dim={dim}"
        text = f"{base}.ap([{pattern}], offset={offset.text()}, {at})"
        return View(text, [size for size, _ in pairs], {19 if is_vector else 20})

    def _is_tile(self, item: ast.expr) -> bool:
        return self._values.of(item).is_tensor


def _is_ellipsis(item: ast.expr | Form) -> bool:
    return isinstance(item, ast.Constant) and item.value is Ellipsis
