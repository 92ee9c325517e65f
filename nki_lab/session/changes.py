"""The arguments that a kernel writes: the caller's arrays change with them."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.ir import Program
from nki_lab.session import arrays
from nki_lab.session.arguments import Input


def written_inputs(program: Program, inputs: list[Input]) -> list[Input]:
    """The inputs whose memory some instruction writes."""
    ids = {item.tensor._buffer.id: item for item in inputs}
    rows = program.variant_column()
    first = np.frombuffer(program.op_access, np.uint32)
    accesses = np.frombuffer(program.access_view, np.uint32)
    seen: set[int] = set()
    for variant in program.variants:
        places = [position for position, is_out in enumerate(variant.outs) if is_out]
        if any(not variant.use.types[variant.names[position]].on_chip for position in places):
            starts = first[rows == variant.id]
            for position in places:
                seen |= {program.views[i].buffer.id for i in np.unique(accesses[starts + position]).tolist()}
    return [item for number, item in ids.items() if number in seen]


def refuse_unchangeable(program: Program, written: list[Input]) -> None:
    """Refuse a kernel that changes an argument which cannot be changed, and does not return it."""
    returned = {tensor._buffer.id for tensor in program.outputs}
    for item in written:
        frozen = item.kind == "jax" or (item.kind == "numpy" and not item.original.flags.writeable)
        if frozen and item.tensor._buffer.id not in returned:
            what = "a jax array" if item.kind == "jax" else "a read-only array"
            raise arrays.refused(
                item.name,
                f"{what}, and the kernel writes it",
                "return the tensor from the kernel, or pass a copy",
                limit="an argument that the kernel changes is writeable",
            )
