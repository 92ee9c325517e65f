"""Calls of `nki.isa` in Beta 1's spelling, which return a tile, as calls that write to their first argument.

Operand order, keywords, forms and the result are those of the declarations.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from nki_lab.isa.dtype import BOOL, F32, UINT8, DType, dtype_of
from nki_lab.isa.python_operators import COMPARISONS
from nki_lab.isa.spec import REQUIRED, SBUF, TABLE, Beta1, Instruction
from nki_lab.kernel_runtime.beta1.masking import Sized
from nki_lab.migrate.context import Context
from nki_lab.migrate.linear import Linear
from nki_lab.migrate.operators import operator_text
from nki_lab.migrate.source_edits import BREAK
from nki_lab.migrate.views import Bounds

_SIGNS: Final = {item.node: item.name for item in COMPARISONS}
_PRIMES: Final = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097)
"""Sizes that stand for unknown ones: products of them tell their factors."""
_UNKNOWN: Final = (7919, 7927)
"""Prime sizes of a tile whose own are not known; no result of known sizes has them."""
_GENERIC: Final = ("dtype", "mask", "buffer")


class Bound(NamedTuple):
    """A call with its arguments by name."""

    instruction: Instruction
    spelling: Beta1
    node: ast.Call
    given: Mapping[str, ast.expr]

    @property
    def mask(self) -> ast.expr | None:
        """Return the mask."""
        return self.given.get("mask")


class Result(NamedTuple):
    """The tile that a call returns: sizes, dtype as source, memory."""

    sizes: list[Linear]
    dtype: str
    space: str


class _Arranged(NamedTuple):
    """A stand-in for a tensor whose dimensions, all of size 1, are permuted."""

    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,) * len(self.order)

    def permute(self, dims: Sequence[int]) -> _Arranged:
        return _Arranged(tuple(self.order[dim] for dim in dims))


def bound(context: Context, node: ast.AST) -> Bound | None:
    """Return a call of an instruction of Beta 1 with its arguments; None for other nodes."""
    if not isinstance(node, ast.Call):
        return None
    path, _, name = context.names.dotted(node.func).rpartition(".")
    instruction = TABLE.get(name) if path == "nki.isa" and context.names.is_old(node.func) else None
    if instruction is None or not isinstance(instruction.beta1, Beta1):
        return None
    spelling = instruction.beta1
    if any(isinstance(item, ast.Starred) for item in node.args) or any(item.arg is None for item in node.keywords):
        context.leave(7, node, f"{name} takes arguments that are not written out")
        return None
    if len(node.args) > len(spelling.positional):
        return None
    given = dict(zip(spelling.positional, node.args, strict=False))
    given |= {item.arg: item.value for item in node.keywords if item.arg is not None}
    return Bound(instruction, spelling, node, given)


def spelt(context: Context, call: Bound, dst: str | None, bounds: Bounds, extra: str = "") -> str | None:
    """Return the call in the current spelling, with `dst` for its destination; None where that is not known."""
    instruction, spelling, given = call.instruction, call.spelling, call.given
    order = [name for name in instruction.operands if name != spelling.returns or dst is None]
    parts = [] if dst is None else [dst]
    count = len(call.node.args)
    arranged = _arranged(context, call)
    plain = True
    for place, (name, value) in enumerate(given.items()):
        if name in _GENERIC and (name not in instruction.operands):
            continue
        form = spelling.forms.get(name)
        if form is not None:
            made = _formed(context, call, form, value)
            if made is None:
                return None
            parts += made
            plain = False
            continue
        if name not in instruction.operands:
            if name not in ("name",):
                continue
            parts.append(f"{name}={context.edits.text_of(value)}")
            continue
        text = argument(context, call, name, value, bounds)
        if (change := arranged.get(name)) is not None:
            text = f"{text}.permute({change.order})" if isinstance(change, _Arranged) else repr(change)
        if plain and place < count and place < len(order) and order[place] == name:
            parts.append(text)
        else:
            plain = False
            parts.append(f"{name}={text}")
    if extra:
        parts.append(extra)
    return f"{context.edits.text_of(call.node.func)}({f',{BREAK}'.join(parts)})"


def _arranged(context: Context, call: Bound) -> dict[str, Any]:
    """Return the arguments that Beta 1's compiler changed by itself before it made the instruction."""
    if call.spelling.arrange is None:
        return {}
    before: dict[str, Any] = {}
    for name in call.spelling.positional:
        node = call.given.get(name)
        if node is None:
            return {}
        seen = context.values.of(node)
        rank = seen.rank() if seen.is_tensor else None
        if rank is not None:
            before[name] = _Arranged(tuple(range(rank)))
            continue
        try:
            before[name] = ast.literal_eval(node)
        except (ValueError, TypeError):
            before[name] = seen.number()
    after = dict(before)
    try:
        call.spelling.arrange(after)
    except (AttributeError, TypeError):  # of what is not known here
        return {}
    return {name: value for name, value in after.items() if value != before[name]}


def argument(context: Context, call: Bound, name: str, value: ast.expr, bounds: Bounds) -> str:
    """Return the source of an argument, with the copies that Beta 1 made by itself."""
    operand = call.instruction.operands[name]
    seen = context.values.of(value)
    if not operand.is_tensor or not seen.is_tensor:
        text = operator_text(context, value)
        if operand.enum is not None and isinstance(value, ast.Constant) and isinstance(value.value, str):
            member = "double_row" if value.value.startswith("double_row") else value.value
            context.done(33)
            return context.nisa(f"{operand.enum.__name__}.{member}")
        return text
    text = context.operand(value, bounds)
    kind = seen.dtype()
    if kind is BOOL and BOOL not in operand.dtypes and UINT8 in operand.dtypes:
        text = f"{text}.view({context.dtype(UINT8)})"
    if operand.role == "in" and operand.spaces == (SBUF,) and seen.space() == "psum":
        text = f"{context.nl('copy')}({text})"
    if operand.scalar and operand.dims == ("P", "1") and kind is not None and kind.is_float and kind is not F32:
        text = f"{context.nl('copy')}({context.operand(value, bounds)}, dtype={context.dtype(F32)})"
    return _broadcast(context, call, name, value, text, bounds)


def _broadcast(context: Context, call: Bound, name: str, value: ast.expr, text: str, bounds: Bounds) -> str:
    """Return an operand, repeated to the shape of another one that has the same letters."""
    dims, own = call.instruction.operands[name].dims, context.values.of(value).sizes()
    if own is None or bounds or "1" in dims or call.instruction.operands[name].role != "in":
        return text
    for other, node in call.given.items():
        operand = call.instruction.operands.get(other)
        sizes = context.values.of(node).sizes()
        if operand is None or other == name or operand.dims != dims or sizes is None or len(sizes) != len(own):
            continue
        if (
            own != sizes
            and own[0] == sizes[0]
            and all(have in (1, want) for have, want in zip(own, sizes, strict=True))
        ):
            wide = context.sizes(node)
            return f"{context.nl('broadcast_to')}({text}, {context.shape_text(wide)})" if wide else text
    return text


def _formed(context: Context, call: Bound, form: str, value: ast.expr) -> list[str] | None:
    """Return the arguments that stand for one of Beta 1's own forms: a shape, an index or a comparison."""
    if form == "shape":
        context.done(10)
        return []
    if form == "index":
        index = context.indices.form(value)
        parts = None if index is None else _affine(context, index, None)
        if parts is not None:
            context.done(11)
        return parts
    if isinstance(value, ast.Name):
        known = context.names.definition(value)
        value = known[1] if known is not None and known[1] is not None and known[2] is None else value
    if not isinstance(value, ast.Compare) or len(value.ops) != 1 or type(value.ops[0]) not in _SIGNS:
        return None
    difference = context.indices._sum(value.left, value.comparators[0], -1)
    tile = next(call.given[name] for name, item in call.instruction.operands.items() if item.role == "in")
    parts = None if difference is None else _affine(context, difference, context.sizes(tile))
    if parts is None:
        return None
    context.done(12)
    return [*parts, f"cmp_op={context.nl(_SIGNS[type(value.ops[0])])}"]


def _affine(context: Context, form: Any, sizes: list[Linear] | None) -> list[str] | None:
    """Return the arguments `pattern`, `channel_multiplier` and `offset` of an affine expression."""
    rank = max(form.rank, len(sizes or ()), 2)
    by_place = {axis.right: (axis, factor) for axis, factor in form.axes}
    if len(by_place) != len(form.axes):
        return None
    for axis in form.dense:
        by_place.setdefault(axis.right, (axis, Linear()))
    pattern = []
    for right in range(rank - 1, 0, -1):
        axis, step = by_place.get(right, (None, Linear()))
        size = (
            axis.size if axis is not None else sizes[len(sizes) - right] if sizes and len(sizes) >= right else Linear(1)
        )
        if sizes and len(sizes) >= right and sizes[len(sizes) - right].is_number:
            size = sizes[len(sizes) - right]
        pattern.append(f"[{step.text()}, {size.text()}]")
    multiplier = by_place.get(rank, (None, Linear()))[1]
    return [f"pattern=[{', '.join(pattern)}]", f"channel_multiplier={multiplier.text()}", f"offset={form.rest.text()}"]


# -- results -----------------------------------------------------------------------------------------------------------


def result_of(context: Context, call: Bound) -> Result | None:
    """Return the tile that a call returns; None where its shape, dtype or memory is not known."""
    seen = context.values.of(call.node)
    sizes, kind, space = _declared(context, call)
    if sizes is None:
        known = seen.sizes()
        sizes = [Linear(size) for size in known] if known is not None else None
    asked = call.given.get("dtype")
    if asked is not None and not (isinstance(asked, ast.Constant) and asked.value is None):
        dtype: str | None = operator_text(context, asked)
    elif kind is not None:
        dtype = context.dtype(kind)
    else:
        dtype = _inherited(context, call)
    space = seen.space() or space
    if sizes is None or dtype is None or not space:
        return None
    return Result(sizes if len(sizes) > 1 else [*sizes, Linear(1)], dtype, space)


def declared_sizes(context: Context, node: ast.Call) -> list[Linear] | None:
    """Return the sizes of what an instruction of Beta 1 returns; None where they are not known."""
    call = bound(context, node)
    return None if call is None or not call.spelling.returns else _declared(context, call)[0]


def _inherited(context: Context, call: Bound) -> str | None:
    """Return the dtype that the inputs promote to, as source."""
    inputs = _tensors(context, call)
    kinds = {context.values.of(node).dtype() for node in inputs.values()}
    sets = {frozenset(tile.dtype for tile in context.values.of(node).tiles) for node in inputs.values()}
    sets = {kinds_ for kinds_ in sets if kinds_} or sets  # a guessed tile has no dtype of its own
    if inputs and (len(inputs) == 1 or (len(kinds) == 1 and None not in kinds) or (kinds == {None} and len(sets) == 1)):
        return context.dtype_text(next(iter(inputs.values())))
    own = context.values.of(call.node).dtype()
    return None if own is None else context.dtype(own)


def _tensors(context: Context, call: Bound) -> dict[str, ast.expr]:
    return {
        name: value
        for name, value in call.given.items()
        if name in call.instruction.operands
        and call.instruction.operands[name].is_tensor
        and context.values.of(value).is_tensor
    }


def _declared(context: Context, call: Bound) -> tuple[list[Linear] | None, DType | None, str]:
    """Return shape, dtype and memory of the result as the declaration tells them of the sizes of the operands."""
    values: dict[str, Any] = {
        name: None if item.default is REQUIRED else item.default for name, item in call.instruction.operands.items()
    }
    known: dict[Linear, int] = {}
    for name, node in call.given.items():
        if name in _GENERIC:
            continue
        if context.values.of(node).is_tensor:
            sizes = context.sizes(node)
            if sizes is None:  # the result may not depend on it
                values[name] = Sized(_UNKNOWN, context.values.of(node).dtype() or F32)
                continue
            for size in sizes:
                if size not in known and size != Linear(1):
                    if len(known) == len(_PRIMES):
                        return None, None, ""
                    known[size] = _PRIMES[len(known)]
            shape = tuple(1 if size == Linear(1) else known[size] for size in sizes)
            values[name] = Sized(shape, context.values.of(node).dtype() or F32)
        else:
            form = call.spelling.forms.get(name)
            if form == "shape" and isinstance(node, ast.Tuple | ast.List):
                shape_sizes = [context.indices.form(_plain(context, item)) for item in node.elts]
                if all(item is not None and not item.axes for item in shape_sizes):
                    own = [item.rest for item in shape_sizes if item is not None]
                    kind = call.given.get("dtype")
                    seen = context.values.of(call.node).dtype()
                    return own, seen if kind is None else None, "sbuf"
            if form == "index":
                index = context.indices.form(node)
                if index is None:
                    return None, None, ""
                places = {axis.right: axis.size for axis, _ in index.axes} | {a.right: a.size for a in index.dense}
                own = [places.get(right, Linear(1)) for right in range(max(index.rank, 2), 0, -1)]
                return own, context.values.of(call.node).dtype(), "sbuf"
            try:
                values[name] = ast.literal_eval(node)
            except (ValueError, TypeError):
                values[name] = context.values.of(node).number()
    assert call.spelling.result is not None
    try:
        shape, kind, space = call.spelling.result(values)
    except Exception:  # noqa: BLE001 - declarations expect what a call gives, which is not all known here
        return None, None, ""
    back = {number: size for size, number in known.items()}
    made = [_factors(int(size), back) for size in shape]
    found = None if any(item is None for item in made) else [item for item in made if item is not None]
    # The declared dtype counts where it is not that of an operand.
    kinds = {item.dtype for item in values.values() if isinstance(item, Sized)}
    named = None if kind is None or (kind in kinds and kind is not F32) else dtype_of(kind)
    if named is F32 and F32 in kinds and call.spelling.returns and space == SBUF:
        named = None
    return found, named, "psum" if space != SBUF else "sbuf"


def _plain(context: Context, node: ast.expr) -> ast.expr:
    """Return `n` for `nl.par_dim(n)`."""
    if context.names.called(node, "nki.language.par_dim") and isinstance(node, ast.Call) and node.args:
        return node.args[0]
    return node


def _factors(size: int, back: Mapping[int, Linear]) -> Linear | None:
    """Return a size as the product of the sizes that its prime factors stand for."""
    found = Linear(1)
    for prime, meant in back.items():
        while size % prime == 0:
            size //= prime
            found = found.times(meant)
    return found.scaled(size) if size < _PRIMES[0] else None
