"""Functions of `nki.language` and operators on tiles: without masks, with the dtypes and copies that Beta 1 gave."""

from __future__ import annotations

import ast
import inspect
from typing import Any, Final

from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import BOOL, F32, DType, promote
from nki_lab.isa.python_operators import ARITHMETIC, COMPARISONS
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.migrate.context import Context
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.operators import operator_text
from nki_lab.migrate.source_edits import BREAK
from nki_lab.migrate.views import Bounds

CURRENT: Final[dict[str, Any]] = namespaces.language_names()
LANGUAGE: Final = "nki.language"
_OPERATORS: Final = {
    item.node: item.name
    for item in (*ARITHMETIC, *COMPARISONS)
    if item.name not in ("mod", "floor_divide", "matmul")  # several instructions, or refused
} | {ast.USub: "negative", ast.Invert: "invert"}
RANGES: Final = ("affine_range", "sequential_range", "static_range")
_IN_SBUF: Final = ("power", "rsqrt")
"""Functions of the GpSimd Engine, which reads no PSUM (NKI migration guide, 0.5)."""
REDUCTIONS: Final = ("sum", "prod", "max", "min", "mean", "var", "all")
_SIDES: Final = ("x", "y", "value", "condition", "src", "dst", "data")
_OWN_DTYPE: Final = ("matmul", "all", "rand")


def operator_name(node: ast.expr) -> str | None:
    """Return the function of `nki.language` that an operator on tiles stands for; None where it is none."""
    match node:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            return _OPERATORS.get(type(op))
        case ast.Compare(ops=[op]):
            return _OPERATORS.get(type(op))
        case _:
            return None


def operator_call(context: Context, node: ast.expr) -> str | None:
    """Return an operator on tiles as a call; None where it is none."""
    name = operator_name(node)
    match node:
        case ast.BinOp(left=left, right=right):
            sides = [left, right]
        case ast.UnaryOp(operand=operand):
            sides = [operand]
        case ast.Compare(left=left, comparators=[right]):
            sides = [left, right]
        case _:
            return None
    seen = context.values.of(node)
    if name is None or not seen.is_tensor or not any(context.values.of(item).is_tensor for item in sides):
        return None
    context.done(34)
    return _call(context, node, name, sides)


def language_call(context: Context, node: ast.Call, bounds: Bounds, target: DType | None = None) -> str | None:
    """Return a call of `nki.language` in the current spelling, cut to the bounds of a mask; None where it stays.

    `target` is the dtype of the tensor that it is assigned to.
    """
    path, _, name = context.names.dotted(node.func).rpartition(".")
    if path != LANGUAGE or any(isinstance(item, ast.Starred) for item in node.args) or name in RANGES:
        return None
    if name in ("par_dim",) and len(node.args) == 1:
        context.done(18)
        return context.edits.text_of(node.args[0])
    if context.edits.is_replaced(node):
        return None
    keywords = {item.arg: item.value for item in node.keywords if item.arg is not None}
    if name == "static_cast" and len(node.args) == 2:
        return _cast(context, node)
    if name not in CURRENT or len(keywords) != len(node.keywords):
        return None
    if name in ("load", "store"):
        context.done(36)
        first = node.args[0] if node.args else keywords.get("src")
        if name == "load" and first is not None and _is_identity(context, first):
            return _identity(context, first, keywords.get("dtype"))
    return _edited(context, node, name, bounds or {}, target)


def _edited(context: Context, node: ast.Call, name: str, bounds: Bounds, target: DType | None) -> str:
    """Return a call of which single arguments are rewritten, dropped or added; the rest of it keeps its form."""
    edits, known = context.edits, _parameters(name)
    names = list(known)
    items: list[tuple[ast.AST, ast.expr, bool]] = [
        (value, value, place < len(names) or not names) for place, value in enumerate(node.args)
    ]
    items += [(item, item.value, item.arg in known or not known) for item in node.keywords]
    sides = [value for item, value, _ in items if not isinstance(item, ast.keyword) or item.arg in _SIDES]
    tensors = [value for value in sides if context.values.of(value).is_tensor]
    given = dict(zip(names, node.args, strict=False)) | {item.arg: item.value for item in node.keywords}
    asked = given.get("dtype")
    last: ast.AST = node.func
    if not bounds:
        _trailing(context, node, name, tensors)
    for item, value, stays in items:
        if edits.is_replaced(value) and value not in tensors:
            last = item
        elif stays:
            other = _written_dtype(context, node, target) if value is asked else None
            edits.replace(value, other or _argument(context, name, value, tensors, bounds))
            last = item
        else:
            before = [other for other, _, _ in items if edits.end(other) <= edits.start(item)]
            start = edits.end(before[-1]) if before else edits.start(item)
            end = edits.end(item)
            if not before:
                rest = edits.text[end:]
                end += len(rest) - len(rest.lstrip(", "))
            edits.cut(node, start, end)
    if asked is None and "dtype" in known:
        required = getattr(known["dtype"], "default", None) is inspect.Parameter.empty
        kind = context.values.of(node).dtype() if required else _wanted(context, node, name, tensors, target)
        if kind is not None and last is not node.func:
            context.done(34)
            edits.cut(node, edits.end(last), edits.end(last), f", dtype={context.dtype(kind)}")
    return edits.text_of(node)


def _written_dtype(context: Context, node: ast.Call, target: DType | None) -> str | None:
    """Return the dtype of what a call is assigned to, where it asks for another one: Beta 1 writes that at once."""
    if target is None or context.values.of(node).dtype() in (None, target):
        return None
    context.done(34)
    return context.dtype(target)


def _trailing(context: Context, node: ast.Call, name: str, tensors: list[ast.expr]) -> None:
    """Permute the tile of a reduction so that its axes come last, as the current functions have it."""
    axis = next((item.value for item in node.keywords if item.arg == "axis"), None)
    axis = axis if axis is not None else node.args[1] if name in REDUCTIONS and len(node.args) > 1 else None
    rank = context.values.of(tensors[0]).rank() if name in REDUCTIONS and len(tensors) == 1 else None
    try:
        given = ast.literal_eval(axis) if axis is not None else ()
    except ValueError:
        return
    axes = [given] if isinstance(given, int) else list(given)
    if rank is None or axis is None or not axes:
        return
    places = sorted(item % rank for item in axes)
    trailing = list(range(rank - len(places), rank))
    if places == trailing or 0 in places or any(item.arg == "keepdims" for item in node.keywords):
        return
    order = [*(dim for dim in range(rank) if dim not in places), *places]
    text = context.edits.text_of(tensors[0])
    context.edits.replace(tensors[0], f"{text}.permute(({', '.join(map(str, order))}))")
    context.edits.replace(axis, f"({', '.join(map(str, trailing))},)" if len(trailing) == 1 else str(tuple(trailing)))
    context.done(34)


def _parameters(name: str) -> dict[str, object]:
    try:
        return dict(inspect.signature(CURRENT[name]).parameters)
    except (TypeError, ValueError):
        return {}


def _call(context: Context, node: ast.expr, name: str, sides: list[ast.expr]) -> str:
    """Return the call that stands for an operator."""
    tensors = [item for item in sides if context.values.of(item).is_tensor]
    parts = [_argument(context, name, item, tensors, {}) for item in sides]
    kind = _wanted(context, node, name, tensors, None)
    if kind is not None:
        parts.append(f"dtype={context.dtype(kind)}")
    return f"{context.nl(name)}({f',{BREAK}'.join(parts)})"


def _wanted(context: Context, node: ast.expr, name: str, tensors: list[ast.expr], target: DType | None) -> DType | None:
    """Return the dtype that Beta 1 gives a result, where the current dialect gives another one by itself."""
    given, kinds = context.values.of(node).dtype(), [context.values.of(item).dtype() for item in tensors]
    if name in _OWN_DTYPE or not kinds or any(kind is None for kind in kinds):
        return None
    known = [kind for kind in kinds if kind is not None]
    own = promote(*known)
    if name not in ALU:
        own = known[0]
    if target is not None and target is not own and target.nbytes > own.nbytes and target.is_float:
        return target
    return given if given is not None and given is not own and target is None else None


def _argument(context: Context, name: str, value: ast.expr, tensors: list[ast.expr], bounds: Bounds) -> str:
    """Return the source of an argument: copied out of PSUM, or repeated along partitions, where that is needed."""
    seen = context.values.of(value)
    if bounds and not seen.kinds and isinstance(value, ast.Name | ast.Subscript):
        return context.operand(value, bounds)
    if not seen.is_tensor:
        return operator_text(context, value) if name not in ("ndarray", "zeros") else _constant(context, value)
    text = context.operand(value, bounds)
    psum = seen.space() == "psum"
    others = [item for item in tensors if item is not value]
    both = psum and bool(others) and tensors[0] is not value and context.values.of(others[0]).space() == "psum"
    if (psum and name in ("store", *_IN_SBUF)) or both:
        text = f"{context.nl('copy')}({text})"
    if name in ("load", "store", "where", "broadcast_to", "matmul") or len(others) != 1:
        return text
    own, wide = seen.sizes(), context.values.of(others[0]).sizes()
    if own and wide and own[0] == 1 != wide[0] and not bounds:
        sizes = context.sizes(others[0])
        if sizes is not None and len(sizes) == len(own):
            mine = context.sizes(value) or [Linear(1)] * len(own)
            shape = [sizes[0], *(mine[1:] if own[1:] != wide[1:] else sizes[1:])]
            return f"{context.nl('broadcast_to')}({text}, {context.shape_text(shape)})"
    return text


def _constant(context: Context, value: ast.expr) -> str:
    return operator_text(context, value) if isinstance(value, ast.Attribute) else context.edits.text_of(value)


def _cast(context: Context, node: ast.Call) -> str | None:
    value, kind = node.args
    if not context.values.of(value).is_tensor:
        numpy = context.names.spelt("numpy")
        if context.names.imports("numpy"):
            context.done(39)
            return f"{numpy}.asarray({context.edits.text_of(value)}).astype({context.edits.text_of(kind)})"
        context.leave(39, node, "it is no tile: write numpy.asarray(x).astype(dtype)")
        return None
    context.done(39)
    return f"{context.nl('copy')}({context.edits.text_of(value)}, dtype={operator_text(context, kind)})"


def _is_identity(context: Context, node: ast.expr) -> bool:
    """Return whether an expression is an identity matrix in HBM, which is a tile of SBUF now."""
    if isinstance(node, ast.Name):
        found = context.names.definition(node)
        return found is not None and found[1] is not None and found[2] is None and _is_identity(context, found[1])
    return context.names.called(node, f"{LANGUAGE}.shared_identity_matrix")


def _identity(context: Context, node: ast.expr, kind: ast.expr | None) -> str:
    context.done(38)
    text = context.edits.text_of(node)
    own = context.values.of(node).dtype()
    dtype = operator_text(context, kind) if kind is not None else ""
    return (
        text
        if kind is None or (own is F32 and dtype.endswith("float32"))
        else f"{context.nl('copy')}({text}, dtype={dtype})"
    )


def method_call(context: Context, node: ast.Call) -> str | None:
    """Return `t.broadcast_to(shape)` as a function of `nki.language`; None for other calls."""
    func = node.func
    if (
        not isinstance(func, ast.Attribute)
        or func.attr != "broadcast_to"
        or not context.values.of(func.value).is_tensor
    ):
        return None
    context.done(39)
    arguments = [context.edits.text_of(item) for item in node.args]
    if len(arguments) > 1:
        arguments = [f"({', '.join(arguments)})"]
    arguments += [context.edits.text_of(item.value) for item in node.keywords]
    return f"{context.nl('broadcast_to')}({context.edits.text_of(func.value)}, {', '.join(arguments)})"


TRUTH: Final = BOOL
"""The dtype of comparisons."""
