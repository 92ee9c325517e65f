"""The tensors that a kernel returns: entered into its program, and checked to be outputs."""

from __future__ import annotations

from nki_lab.diagnostic import diagnose, error_class
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor


def collect_outputs(result: object, builder: Builder) -> None:
    """Enter the returned tensors into the program, and check that there is nothing else among them."""
    outputs: list[NkiTensor] = []
    _gather(result, outputs)
    for tensor in outputs:
        if tensor._buffer.kind == "temp":
            tensor._buffer.kind = "output"
        if tensor._buffer.space is not MemoryRegion.shared_hbm and tensor._buffer.kind != "input":
            site = tensor._buffer.site
            builder.note(
                diagnose(
                    "NKI607",
                    f"the kernel returns a tensor in {tensor._buffer.space.value}",
                    note=f"{tensor._shape} {tensor._dtype.name}",
                    limit="returned tensors are in nl.shared_hbm",
                    help="allocate it with buffer=nl.shared_hbm",
                ),
                site,
            )
        builder.view_of(tensor)
    builder.program.outputs = outputs


def _gather(result: object, outputs: list[NkiTensor]) -> None:
    if result is None:
        return
    if isinstance(result, NkiTensor):
        outputs.append(result)
    elif isinstance(result, (tuple, list)):
        for item in result:
            _gather(item, outputs)
    elif isinstance(result, dict):
        for item in result.values():
            _gather(item, outputs)
    elif isinstance(result, (int, float, str, bool)):
        return
    else:
        raise error_class(TypeError)(
            (
                diagnose(
                    "NKI014",
                    f"the kernel returned a {type(result).__name__}",
                    limit="a kernel returns tensors, or tuples, lists and dicts of tensors, or nothing",
                    help="return the tensor that nl.ndarray(..., buffer=nl.shared_hbm) gave",
                ),
            )
        )
