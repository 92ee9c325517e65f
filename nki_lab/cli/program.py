"""A program as plain data, for other programs to read."""

from __future__ import annotations

from enum import Enum

from nki_lab.cli.sarif import JsonObject
from nki_lab.isa.spec import Register, show_value
from nki_lab.kernel_runtime.ir import Op, Program, Region, View, attributes_of
from nki_lab.kernel_runtime.tensor import Buffer, VirtualRegister
from nki_lab.timeline.summary import summarise


def as_data(program: Program) -> JsonObject:
    """The program: what it counts, its buffers, its device loops, and its instructions in order.

    Operands name a buffer by its number, and in it the first element, sizes and steps, counted in their dtype; where a
    register moves them, its name and the elements for each 1 in it. The body of a device loop are the instructions
    `first` to before `end`; where two cores wait for each other in one, `other_core` says how the second one counts.
    """
    return {
        "kernel": program.name,
        "dialect": program.dialect,
        "summary": dict(summarise(program)),
        "diagnostics": [item.as_dict() for item in program.diagnostics],
        "buffers": [_buffer(buffer) for buffer in program.buffers],
        "loops": [_loop(program, region) for region in program.regions],
        "instructions": [_instruction(op) for op in program.ops()],
        "returns": [tensor._buffer.id for tensor in program.outputs],
    }


def _buffer(buffer: Buffer) -> JsonObject:
    return {
        "id": buffer.id,
        "name": buffer.name,
        "space": str(buffer.space),
        "kind": buffer.kind,
        "dtype": buffer.dtype.name,
        "shape": list(buffer.shape),
        "address": None if buffer.address is None else list(buffer.address),
    }


def _loop(program: Program, region: Region) -> JsonObject:
    site = program.sites[region.site]
    return {
        "kind": region.kind,
        "first": region.first,
        "end": region.end,
        "parent": region.parent,
        "variable": region.variable,
        "body": region.name,
        **_counted(region),
        "trip_count": region.trip_count,
        "file": site.file,
        "line": site.line,
        "other_core": None if region.twin is None else _counted(region.twin),
    }


def _counted(region: Region) -> JsonObject:
    """How a loop counts."""
    return {
        "register": repr(Register(region.register)),
        "lower": _plain(region.lower),
        "upper": _plain(region.upper),
        "step": region.step,
    }


def _instruction(op: Op) -> JsonObject:
    variant = op.variant
    return {
        "index": op.index,
        "name": variant.instruction.name,
        "label": op.name,
        "engine": variant.engine,
        "attributes": {name: _plain(value) for name, value in attributes_of(variant).items()},
        "operands": {
            name: {"role": "out" if out else "in", **_view(view)}
            for name, out, view in zip(variant.names, variant.outs, op.views, strict=True)
        },
        "file": op.site.file,
        "line": op.site.line,
        "function": op.site.function,
    }


def _view(view: View) -> JsonObject:
    moved: JsonObject = {}
    if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister):
        moved = {"register": repr(Register(view.indirect.index.id)), "scale": view.indirect.stride}
    return {
        "buffer": view.buffer.id,
        "offset": view.offset,
        "shape": list(view.type.shape),
        "strides": list(view.type.strides),
        "dtype": view.type.dtype.name,
        "indirect": view.type.indirect,
        **moved,
    }


def _plain(value: object) -> object:
    """A constant as JSON has it, anything else as listings show it."""
    is_plain = value is None or (isinstance(value, str | int | float) and not isinstance(value, Enum))
    return value if is_plain else show_value(value)
