"""The tensors that a kernel returns: entered into its program, and checked to be outputs."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lab.diagnostic import diagnose, error_class
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor


def collect_outputs(result: object, builder: Builder) -> None:
    """Enter the returned tensors into the program, and check that there is nothing else among them."""
    outputs = list(_tensors(result))
    for tensor in outputs:
        if tensor._buffer.kind == "temp":
            tensor._buffer.kind = "output"
        if tensor._buffer.space is not MemoryRegion.shared_hbm and tensor._buffer.kind != "input":
            builder.note(
                diagnose(
                    "NKI607",
                    f"the kernel returns a tensor in {tensor._buffer.space.value}",
                    note=f"{tensor._shape} {tensor._dtype.name}",
                    limit="returned tensors are in nl.shared_hbm",
                    help="allocate it with buffer=nl.shared_hbm",
                ),
                tensor._buffer.site,
            )
        builder.view_of(tensor)
    builder.program.outputs = outputs


def _tensors(result: object) -> Iterator[NkiTensor]:
    if isinstance(result, NkiTensor):
        yield result
    elif isinstance(result, (tuple, list, dict)):
        for item in result.values() if isinstance(result, dict) else result:
            yield from _tensors(item)
    elif result is not None and not isinstance(result, (int, float, str, bool)):
        raise error_class(TypeError)(
            (
                diagnose(
                    "NKI014",
                    f"the kernel returned a {type(result).__name__}",
                    limit="a kernel returns tensors and constants, or tuples, lists and dicts of these",
                    help="return the tensor that nl.ndarray(..., buffer=nl.shared_hbm) gave",
                ),
            )
        )
