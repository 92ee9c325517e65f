"""Tensors of Beta 1: blocks as lists of tiles, allocators as addresses, reductions over loops, updates in memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final

from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.migrate.context import Context
from nki_lab.migrate.instructions import Bound
from nki_lab.migrate.language import LANGUAGE
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.operators import operator_text
from nki_lab.migrate.views import Bounds

_CREATES: Final = ("ndarray", "zeros", "ones", "full", "empty", "zeros_like", "empty_like")
_BANK: Final = 2048
"""Bytes of a PSUM bank in a partition (NKI migration guide, Improved allocation API)."""
_ALLOCATORS: Final = {
    "nki.compiler.sbuf.mod_alloc": ("sbuf", "base_addr", "num_free_tiles"),
    "nki.compiler.psum.mod_alloc": ("psum", "base_bank", "num_bank_tiles"),
}


def row_of(context: Context, node: ast.Subscript) -> int:
    """Return the row that a subscript belongs to which could not be rewritten."""
    keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for key in keys:
        for item in ast.walk(key):
            if isinstance(item, ast.expr) and context.values.of(item).is_tensor:
                return 20 if context.values.of(item).sizes() == (1, 1) else 19
    return 17 if context.values.of(node.value).blocks() else 13


def is_tile_of_list(context: Context, target: ast.Subscript) -> bool:
    """Return whether a target is a whole tile of what becomes a list."""
    keys = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    return 0 < context.values.of(target.value).blocks() == len(keys)


def dtype_of_list(context: Context, node: ast.Attribute) -> str | None:
    """Return `t.dtype` of what becomes a list of tiles; None for other attributes."""
    blocks = context.values.of(node.value).blocks()
    if not blocks or not isinstance(node.ctx, ast.Load):
        return None
    if node.attr == "dtype":
        context.done(17)
        return f"{context.edits.text_of(node.value)}{'[0]' * blocks}.dtype"
    if node.attr in ("shape", "reshape", "broadcast_to"):
        context.leave(17, node, "a list of tiles has no such attribute")
    return None


def target_dtype(context: Context, target: ast.Subscript) -> DType | None:
    """Return the dtype of the tensor that is assigned to."""
    return context.values.of(target.value).dtype()


def casts(context: Context, call: Bound, target: ast.Subscript) -> bool:
    """Return whether an instruction that writes PSUM would have to write another dtype than it does."""
    seen, kind = context.values.of(call.node), target_dtype(context, target)
    return seen.space() == "psum" and kind is not None and seen.dtype() not in (None, kind)


def has_other_writes(context: Context, base: ast.expr) -> bool:
    """Return whether an accumulator is assigned something beside its products."""
    if not isinstance(base, ast.Name):
        return False
    owner = context.names.function(base) or context.edits.tree
    for node in ast.walk(owner):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            inner: ast.expr = node.targets[0]
            while isinstance(inner, ast.Subscript):
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id == base.id:
                return True
    return False


def product(context: Context, value: ast.expr, place: str) -> str | None:
    """Return `nl.matmul(x, y, transpose_x=True)` as a product that accumulates; None for others."""
    if not context.names.called(value, f"{LANGUAGE}.matmul") or not isinstance(value, ast.Call):
        return None
    turned = next((item.value for item in value.keywords if item.arg == "transpose_x"), None)
    turned = turned if turned is not None else value.args[2] if len(value.args) > 2 else None
    if not isinstance(turned, ast.Constant) or turned.value is not True or len(value.args) < 2:
        return None
    x, y = (context.operand(item, {}) for item in value.args[:2])
    return f"{context.nisa('nc_matmul')}({place}, {x}, {y})"


def loop_reduce(
    context: Context,
    node: ast.stmt,
    target: ast.Subscript,
    value: ast.Call,
    write: Callable[[ast.stmt, str], None],
) -> bool:
    """Rewrite `t[…] = nl.loop_reduce(x, op, loops)`: each iteration combines its tile with the target."""
    view = context.views.of(target)
    given = dict(zip(("x", "op", "loop_indices"), value.args, strict=False))
    given |= {item.arg: item.value for item in value.keywords if item.arg is not None}
    if view is None or "x" not in given or "op" not in given or "mask" in given:
        context.leave(23, value, "its target or its operator has no known form")
        return True
    tile, place = context.edits.text_of(given["x"]), view.text
    if context.values.of(given["x"]).space() == "psum" == context.values.of(target.value).space():
        tile = f"{context.nl('copy')}({tile})"
    context.done(23, *view.rows)
    operator = operator_text(context, given["op"])
    write(node, f"{context.nisa('tensor_tensor')}({place}, {place}, {tile}, op={operator})")
    return True


def update(context: Context, call: Bound, bounds: Bounds) -> str | None:
    """Return a copy that combines with its destination as such; None for other calls."""
    operator = call.given.get("dst_rmw_op")
    if operator is None or (isinstance(operator, ast.Constant) and operator.value is None):
        return None
    context.done(22)
    dst, src = (context.operand(call.given[name], bounds) for name in ("dst", "src"))
    return f"{context.nisa('dma_compute')}({dst}, [{src}, {dst}], reduce_op={operator_text(context, operator)})"


# -- creation ----------------------------------------------------------------------------------------------------------


def _creates(context: Context, node: ast.Call) -> str:
    path, _, name = context.names.dotted(node.func).rpartition(".")
    return name if path == LANGUAGE and name in _CREATES else ""


def creation(context: Context, node: ast.Call) -> str | None:
    """Return the creation of a tensor at an address of its own, or in the memory that Beta 1 chose; None for others."""
    name = _creates(context, node)
    if not name:
        return None
    if name.endswith("_like") and not any(item.arg == "buffer" for item in node.keywords):
        inner = [context.edits.text_of(item) for item in (*node.args, *node.keywords)]
        context.done(18)
        buffer = f"buffer={context.nl('sbuf')}"
        return f"{context.edits.text_of(node.func)}({', '.join([*inner, buffer])})"
    place = next((item.value for item in node.keywords if item.arg == "buffer"), None)
    if place is None or not _is_allocator(context, place):
        return None
    return _tile(context, node, [], [])


def _is_allocator(context: Context, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and context.names.dotted(node.func).startswith(
        ("nki.compiler.sbuf.", "nki.compiler.psum.")
    )


def list_of_tiles(context: Context, name: str, node: ast.Call) -> list[str] | None:
    """Return the statements that make a list of tiles for a tensor with block dimensions; None for other calls."""
    blocks = context.values.of(node).blocks()
    created = _creates(context, node)
    if not created or created.endswith("_like"):
        return None
    shape = _shape(context, node)
    if shape is not None:
        marked = [place for place, item in enumerate(shape) if context.names.called(item, f"{LANGUAGE}.par_dim")]
        on_chip = context.values.of(node).space() in ("", "sbuf", "psum")
        blocks = blocks or (marked[0] if marked and on_chip and context.values.of(node).kinds else 0)
    if not blocks:
        return None
    if shape is None:
        context.leave(17, node, "its shape is not written out")
        return None
    counts = [context.edits.text_of(item) for item in shape[:blocks]]
    loops = [context.fresh(f"{name}_{place}" if blocks > 1 else f"{name}_block") for place in range(blocks)]
    tile = _tile(context, node, loops, counts)
    if tile is None:
        return None
    context.done(17)
    unit = context.edits.unit
    lines, inner = [], name
    for depth, (loop, count) in enumerate(zip(loops, counts, strict=True)):
        lines.append(f"{unit * depth}for {loop} in range({count}):")
        last = depth == blocks - 1
        lines.append(f"{unit * (depth + 1)}{inner}.append({tile if last else '[]'})")
        inner += f"[{loop}]"
    return [f"{name} = []", "\n".join(lines)]


def _shape(context: Context, node: ast.Call) -> list[ast.expr] | None:
    shape = node.args[0] if node.args else next((item.value for item in node.keywords if item.arg == "shape"), None)
    if isinstance(shape, ast.Name):
        found = context.names.definition(shape)
        shape = found[1] if found is not None and found[2] is None else None
    return list(shape.elts) if isinstance(shape, ast.Tuple | ast.List) else None


def _tile(context: Context, node: ast.Call, loops: Sequence[str], counts: Sequence[str]) -> str | None:
    """Return the creation of one tile of a tensor, at its address where an allocator places it."""
    shape = _shape(context, node)
    if shape is None:
        return None
    texts = [context.edits.text_of(item) for item in shape[len(loops) :]]
    parts = [f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"]
    parts += [_value(context, item) for item in node.args[1:]]
    hints = ("name", "dtype", "buffer", "fill_value")
    for item in node.keywords:
        if item.arg == "buffer" and _is_allocator(context, item.value):
            address = _address(context, node, item.value, texts, loops, counts)
            if address is None:
                return None
            parts += address
        elif item.arg in hints and not (item.arg == "name" and loops):
            parts.append(f"{item.arg}={_value(context, item.value)}")
    return f"{context.edits.text_of(node.func)}({', '.join(parts)})"


def _value(context: Context, node: ast.expr) -> str:
    return operator_text(context, node) if isinstance(node, ast.Attribute) else context.edits.text_of(node)


def _written_dtype(context: Context, node: ast.Call) -> DType | None:
    """Return the dtype that a creation names, directly or by a name for it."""
    value = next(
        (item.value for item in node.keywords if item.arg == "dtype"), node.args[1] if len(node.args) > 1 else None
    )
    for _ in range(3):
        if isinstance(value, ast.Name):
            found = context.names.definition(value)
            value = found[1] if found is not None and found[2] is None else None
    return DTYPES.get(context.names.dotted(value).rpartition(".")[2]) if value is not None else None


def _address(
    context: Context, node: ast.Call, buffer: ast.expr, sizes: list[str], loops: Sequence[str], counts: Sequence[str]
) -> list[str] | None:
    """Return memory and address of a tile that `mod_alloc` places: its block modulo the tiles there are."""
    assert isinstance(buffer, ast.Call)
    known = _ALLOCATORS.get(context.names.dotted(buffer.func))
    given = {item.arg: item.value for item in buffer.keywords}
    row = 25 if ".psum." in context.names.dotted(buffer.func) else 24
    if known is None or buffer.args or given.keys() - {known[1], known[2], "base_addr", "base_partition"}:
        context.leave(row, buffer, "a function of the kernel's own places the tiles")
        return None
    space, base_name, tiles_name = known
    base = context.indices.form(given[base_name]) if base_name in given else None
    start = base.rest if base is not None else Linear()
    kind = context.values.of(node).dtype() or _written_dtype(context, node)
    if space == "sbuf":
        if kind is None:
            context.leave(row, buffer, "the dtype is not known here")
            return None
        size = Linear(kind.nbytes)
        for text in sizes[1:]:
            size = Linear.of(text).times(size)
    else:
        size = Linear(_BANK)
    tiles = given.get(tiles_name)
    numbers = list(tiles.elts) if isinstance(tiles, ast.Tuple | ast.List) else [] if tiles is None else [tiles]
    if len(numbers) not in (0, len(loops)):
        context.leave(row, buffer, "it has another number of tile counts than there are block dimensions")
        return None
    place = Linear()
    for loop, number in zip(loops, numbers, strict=False):
        text = context.edits.text_of(number)
        position = Linear() if text == "1" else Linear.of(f"({loop} % {text})")
        place = place.times(Linear.of(text)) + position
    unit = Linear(1) if space == "sbuf" else Linear(_BANK)
    offset = start.times(unit) + place.times(size)
    partition = context.edits.text_of(given["base_partition"]) if "base_partition" in given else "0"
    context.done(row)
    del counts
    return [f"buffer={context.nl(space)}", f"address=({partition}, {offset.text()})"]
