"""Tiles for what calls return, and the statements that compute them under a mask."""

from __future__ import annotations

import ast

from nki_lab.migrate.context import Context
from nki_lab.migrate.instructions import Bound, Result, result_of, spelt
from nki_lab.migrate.language import LANGUAGE, language_call
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.masks import Box
from nki_lab.migrate.views import Bounds


def made(context: Context, node: ast.Call, call: Bound | None, mask: ast.expr | None, tile: str) -> list[str] | None:
    """Return the statements that make a tile and compute it; None where its shape is not known."""
    box = context.box(mask if call is None else call.mask)
    if box is None:
        context.leave(15, mask or node, "the mask is no box")
        return None
    made = result(context, node, call)
    if made is None:
        context.leave(7 if call is not None else 15, node, "the shape of its result is not known here")
        return None
    rank = len(made.sizes)
    place = context.views.whole(tile, made.sizes, rank, box.bounds) if box.bounds else tile
    text = written(context, node, call, place, box.bounds)
    if text is None:
        context.leave(7, node, "its arguments have no known form")
        return None
    context.done(*([7] if call is not None else []), *([15] if box.bounds else []))
    parts = f"{context.shape_text(made.sizes)}, dtype={made.dtype}, buffer={context.nl(made.space)}"
    create = f"{tile} = {context.nl('ndarray')}({parts})"
    return [create, guarded(context, text, box, mask if call is None else call.mask, "")]


def result(context: Context, node: ast.Call, call: Bound | None) -> Result | None:
    if call is not None:
        return result_of(context, call)
    seen = context.values.of(node)
    sizes = context.sizes(node)
    if sizes is not None and len(sizes) == 1:
        sizes = [*sizes, Linear(1)]
    asked = next((item.value for item in node.keywords if item.arg == "dtype"), None)
    kind = seen.dtype()
    first = next((item for item in node.args if context.values.of(item).is_tensor), None)
    dtype = context.edits.text_of(asked) if asked is not None else None if kind is None else context.dtype(kind)
    if first is not None and asked is None and kind is not None and kind is context.values.of(first).dtype():
        dtype = context.dtype_text(first) or dtype
    elif first is not None and dtype is None:
        alone = sum(context.values.of(item).is_tensor for item in node.args) == 1
        dtype = context.dtype_text(first if alone else node)
    space = seen.space() or "sbuf"
    return None if sizes is None or dtype is None else Result(sizes, dtype, space)


def written(context: Context, node: ast.Call, call: Bound | None, place: str, bounds: Bounds) -> str | None:
    """Return the statement that computes a call into a tile."""
    if call is not None:
        return spelt(context, call, place, bounds)
    if context.names.dotted(node.func) == f"{LANGUAGE}.load":
        source = node.args[0] if node.args else next(item.value for item in node.keywords if item.arg == "src")
        context.done(36)
        return f"{context.nisa('dma_copy')}(dst={place}, src={context.operand(source, bounds)})"
    text = language_call(context, node, bounds)
    return None if text is None else f"{place if place.endswith(']') else f'{place}[...]'} = {text}"


def guarded(context: Context, text: str, box: Box, mask: ast.expr | None, indent: str) -> str:
    """Return a statement below the conditions of its mask: a box may be empty in some iterations."""
    tests = list(box.conditions)
    if box.conditions:
        context.done(16)
    if mask is not None and context.values.of(mask).kinds & {"empty"}:
        tests += [f"{item.text()} > 0" for bound_ in box.bounds.values() for item in bound_.high if not item.is_number]
    if not tests:
        return text
    return f"if {' and '.join(dict.fromkeys(tests))}:\n{indent}{context.edits.unit}{text}"
