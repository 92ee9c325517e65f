"""Rows of the releases of the current dialect: what 0.3 to 0.6 removed, moved and replaced.

Each rewrite tells the old form by its arguments, so that what is new already stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from nki_lab.migrate.context import Context
from nki_lab.migrate.loops import rewrite_loops
from nki_lab.migrate.rows import BY_NUMBER

_ISA: Final = "nki.isa"
_LANGUAGE: Final = "nki.language"
_COLLECTIVES: Final = "nki.collectives"
_RMW: Final = ("dst_rmw_op", "unique_indices")
_COPIED: Final = frozenset({"dst", "src", "name", "oob_mode", *_RMW})
"""The keywords of `nisa.dma_copy` that `nisa.dma_compute` has a counterpart of."""
_SELECT: Final = ("dst", "pattern", "offset", "channel_multiplier", "on_true_tile", "on_false_value", "cmp_op")
"""NKI 0.2 API, `nki.isa.affine_select`: the order of the parameters."""
_INTEGERS: Final = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


def rewrite_releases(context: Context, since: str) -> None:
    """Rewrite what releases later than `since` spell otherwise."""
    for row, rewrite in _CALLS:
        if BY_NUMBER[row].release > since:
            for node in ast.walk(context.edits.tree):
                if isinstance(node, ast.Call):
                    rewrite(context, node)
    if BY_NUMBER[56].release > since:
        rewrite_loops(context)


# -- arguments ---------------------------------------------------------------------------------------------------------


def _given(node: ast.Call, *names: str) -> dict[str, ast.expr]:
    """Return the arguments of a call by name; `names` are those of the positional ones."""
    found: dict[str, ast.expr] = {}
    for name, item in zip(names, node.args, strict=False):
        if isinstance(item, ast.Starred):
            break
        found[name] = item
    return found | {item.arg: item.value for item in node.keywords if item.arg}


def _keyword(node: ast.Call, name: str) -> ast.keyword | None:
    return next((item for item in node.keywords if item.arg == name), None)


def _drop(context: Context, node: ast.Call, *names: str) -> None:
    """Take keywords out of a call, with the comma in front of each."""
    parts: list[ast.AST] = sorted([*node.args, *node.keywords], key=context.edits.start)
    for before, item in zip([None, *parts], parts, strict=False):
        if not isinstance(item, ast.keyword) or item.arg not in names:
            continue
        end = context.edits.end(item)
        if before is not None:
            context.edits.cut(node, context.edits.end(before), end)
        else:
            rest = context.edits.text[end : context.edits.end(node)]
            context.edits.cut(node, context.edits.start(item), end + len(rest) - len(rest.lstrip(", ")))


def _module(context: Context, node: ast.Call) -> str:
    return context.edits.text_of(node.func.value) if isinstance(node.func, ast.Attribute) else context.names.spelt(_ISA)


def _space(context: Context, node: ast.expr) -> str:
    """Return the memory that a tensor lies in; "" where it is not known."""
    found = context.values.of(node).space()
    if found:
        return found
    base = node
    while isinstance(base, ast.Subscript):
        base = base.value
    made = context.names.definition(base) if isinstance(base, ast.Name) else None
    if made is None or not isinstance(made[1], ast.Call) or not context.names.called(made[1], f"{_LANGUAGE}.ndarray"):
        return ""
    buffer = _given(made[1], "shape", "dtype", "buffer").get("buffer")
    if isinstance(buffer, ast.Constant):
        return str(buffer.value)
    return context.names.dotted(buffer).rpartition(".")[2] if buffer is not None else "sbuf"


# -- copies ------------------------------------------------------------------------------------------------------------


def _from_psum(context: Context, node: ast.Call) -> None:
    """A DMA reads SBUF: a tile in PSUM is copied there first."""
    if not context.names.called(node, f"{_ISA}.dma_copy"):
        return
    source = _given(node, "dst", "src").get("src")
    if source is not None and _space(context, source) == "psum":
        context.done(41)
        context.edits.replace(source, f"{context.nl('copy')}({context.edits.text_of(source)})")


def _accumulating(context: Context, node: ast.Call) -> None:
    """`nisa.dma_copy(dst, src, dst_rmw_op=op)` is `nisa.dma_compute(dst, [src, dst], reduce_op=op)`."""
    if not context.names.called(node, f"{_ISA}.dma_copy") or not any(item.arg in _RMW for item in node.keywords):
        return
    given = _given(node, "dst", "src")
    operator = given.get("dst_rmw_op")
    if operator is None or (isinstance(operator, ast.Constant) and operator.value is None):
        context.done(22)
        _drop(context, node, *_RMW)
        return
    if len(node.args) > 2 or not given.keys() <= _COPIED or not {"dst", "src"} <= given.keys():
        context.leave(22, node, "nisa.dma_compute has no such arguments")
        return
    edits = context.edits
    text = {name: edits.text_of(item) for name, item in given.items()}
    rest = "".join(f", {name}={text[name]}" for name in given if name not in ("dst", "src", "dst_rmw_op"))
    plain = "".join(f", {name}={text[name]}" for name in given if name not in ("dst", "src", *_RMW))
    module = _module(context, node)
    head = f"{module}.dma_compute({text['dst']}, [{text['src']}, {text['dst']}], reduce_op="
    copy = f"{edits.text_of(node.func)}({text['dst']}, {text['src']}{plain})"
    if isinstance(operator, ast.Attribute):
        context.done(22)
        edits.replace(node, f"{head}{text['dst_rmw_op']}{rest})")
        return
    statement = edits.parent(node)
    if not isinstance(statement, ast.Expr) or edits.comments(statement):
        context.leave(
            22, node, "whether it combines is known when it runs: write an if around a copy and a combination"
        )
        return
    unit, condition, combined = edits.unit, f"{text['dst_rmw_op']} == None", text["dst_rmw_op"]
    if isinstance(operator, ast.IfExp):
        condition, combined = edits.text_of(operator.test), edits.text_of(operator.orelse)
        if not isinstance(operator.body, ast.Constant) or not isinstance(operator.orelse, ast.Attribute):
            context.leave(22, node, "whether it combines is known when it runs")
            return
    elif not isinstance(operator, ast.Name):
        context.leave(22, node, "whether it combines is known when it runs")
        return
    context.done(22)
    inner = f"\n{edits.indent(statement)}"
    lines = (f"if {condition}:", f"{unit}{copy}", "else:", f"{unit}{head}{combined}{rest})")
    edits.replace(statement, inner.join(lines))


def _reordered(context: Context, node: ast.Call) -> None:
    """`nisa.dma_compute(dst, srcs, scales, op)` has its operator in front of the scales."""
    if not context.names.called(node, f"{_ISA}.dma_compute") or len(node.args) < 3:
        return
    scales = node.args[2]
    listed = scales
    if isinstance(scales, ast.Name):
        found = context.names.definition(scales)
        listed = found[1] if found is not None and found[1] is not None else scales
    if not isinstance(listed, ast.List | ast.Tuple):
        return
    context.done(42)
    for item, name in zip(node.args[2:], ("scales", "reduce_op"), strict=False):
        context.edits.replace(item, f"{name}={context.edits.text_of(item)}")


# -- values, axes and members ------------------------------------------------------------------------------------------


def _filled(context: Context, node: ast.Call) -> None:
    """A tile of integers is filled with an integer."""
    if not context.names.called(node, f"{_ISA}.memset"):
        return
    given = _given(node, "dst", "value")
    value, target = given.get("value"), given.get("dst")
    minus = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    if not isinstance(inner, ast.Constant) or not isinstance(inner.value, float) or target is None:
        return
    kind = context.values.of(target).dtype()
    if kind is None or kind.name not in _INTEGERS or not inner.value.is_integer():
        return
    context.done(43)
    assert value is not None
    context.edits.replace(value, f"{'-' * minus}{int(inner.value)}")


def _reduced(context: Context, node: ast.Call) -> None:
    """Release 0.2 took axis 1 for the last one of more dimensions."""
    if not context.names.called(node, f"{_ISA}.tensor_reduce"):
        return
    given = _given(node, "dst", "op", "data", "axis")
    axis, data, target = given.get("axis"), given.get("data"), given.get("dst")
    if axis is None or data is None or target is None:
        return
    inner = axis.elts[0] if isinstance(axis, ast.List | ast.Tuple) and len(axis.elts) == 1 else axis
    sizes, made = context.values.of(data).sizes(), context.values.of(target).sizes()
    if not isinstance(inner, ast.Constant) or inner.value != 1 or sizes is None or len(sizes) < 3 or made is None:
        return
    kept = [size for size in made if size != 1]
    if kept != [size for size in sizes[:-1] if size != 1]:
        context.leave(44, node, f"its result of {made} is no reduction of the last dimension of {sizes}")
        return
    context.done(44)
    context.edits.replace(inner, str(len(sizes) - 1))


def _engine(context: Context, node: ast.Call) -> None:
    """`use_gpsimd_dma=True` is `dma_engine=nisa.dma_engine.gpsimd_dma`."""
    found = _keyword(node, "use_gpsimd_dma")
    if found is None or not context.names.called(node, f"{_ISA}.sendrecv"):
        return
    member = context.nisa("dma_engine")
    context.done(45)
    value = found.value
    if isinstance(value, ast.Constant):
        text = f"{member}.{'gpsimd_dma' if value.value else 'dma'}"
    else:
        text = f"{member}.gpsimd_dma if {context.edits.text_of(value)} else {member}.dma"
    context.edits.replace(found, f"dma_engine={text}")


def _selected(context: Context, node: ast.Call) -> None:
    """The offset of `nisa.affine_select` moved behind the other parameters."""
    if not context.names.called(node, f"{_ISA}.affine_select") or _keyword(node, "offset") or len(node.args) < 3:
        return
    if any(isinstance(item, ast.Starred) for item in node.args) or len(node.args) > len(_SELECT):
        return
    fourth = node.args[3] if len(node.args) > 3 else None
    if fourth is None and _keyword(node, "channel_multiplier") is None:
        return
    if fourth is not None and (context.values.of(fourth).is_tensor or _keyword(node, "on_false_value") is None):
        is_new = len(node.args) < 5 or context.values.of(fourth).is_tensor or not _is_number(context, fourth)
        if is_new:
            return
    context.done(46)
    for item, name in zip(node.args[2:], _SELECT[2:], strict=False):
        context.edits.replace(item, f"{name}={context.edits.text_of(item)}")


def _is_number(context: Context, node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(context, node.operand)
    return isinstance(node, ast.Constant) or context.values.of(node).kinds == {"number"}


def _moved(context: Context, node: ast.Call) -> None:
    """A register is moved from a register: a number gets one."""
    found = _keyword(node, "imm")
    if found is not None and context.names.called(node, f"{_ISA}.register_move"):
        context.done(47)
        context.edits.replace(found, f"src={context.nisa('register_alloc')}({context.edits.text_of(found.value)})")


def _channels(context: Context, node: ast.Call) -> None:
    """The channels of a permutation have numbers."""
    found = _keyword(node, "num_channels")
    name = context.names.dotted(node.func)
    if found is None or not name.startswith(f"{_COLLECTIVES}.collective_permute_implicit"):
        return
    context.done(48)
    if name.endswith("_id"):
        _drop(context, node, "num_channels")
        return
    number = found.value.value if isinstance(found.value, ast.Constant) else None
    numbers = list(range(number)) if isinstance(number, int) else f"list(range({context.edits.text_of(found.value)}))"
    context.edits.replace(found, f"channel_ids={numbers}")


# -- functions ---------------------------------------------------------------------------------------------------------


def _root(context: Context, node: ast.Call) -> None:
    """`nl.rsqrt` reads SBUF; the activation reads PSUM too."""
    if not context.names.called(node, f"{_LANGUAGE}.rsqrt") or not node.args or _space(context, node.args[0]) != "psum":
        return
    statement, source = context.hoistable(node), node.args[0]
    sizes = context.sizes(source)
    kind = _given(node, "x", "dtype").get("dtype")
    dtype = context.dtype_text(source) if kind is None else context.edits.text_of(kind)
    if statement is None or sizes is None or dtype is None:
        context.leave(54, node, "its shape is not known, or it is evaluated under a condition")
        return
    context.done(54)
    tile = context.fresh("rsqrt_tile")
    context.edits.before(
        statement,
        f"{tile} = {context.nl('ndarray')}({context.shape_text(sizes)}, dtype={dtype}, buffer={context.nl('sbuf')})",
        f"{context.nisa('activation')}({tile}, op={context.nl('rsqrt')}, data={context.edits.text_of(source)})",
    )
    context.edits.replace(node, tile)


_CALLS: Final[tuple[tuple[int, Callable[[Context, ast.Call], None]], ...]] = (
    (41, _from_psum), (22, _accumulating), (42, _reordered), (43, _filled), (44, _reduced), (45, _engine),
    (46, _selected), (47, _moved), (48, _channels), (54, _root),
)  # fmt: skip
