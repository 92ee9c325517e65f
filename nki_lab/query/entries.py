"""Texts about names that no declaration and no function of NKI's modules stands for.

Entry points and annotations are objects of the dialects, which are above the editor's queries; memories, engines and
members of tensors have no text of their own that a signature would go with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from nki_lab.kernel_runtime.tensor import NkiTensor

TEXTS: Final[Mapping[str, str]] = {
    "nki.jit": "`@nki.jit`, `@nki.jit()`, `nki.jit(function)`\n\n"
    "The kernel of a function. Called with arrays it runs on the simulator; called in another kernel it is inlined;"
    " `kernel[2](...)` launches it on two physical cores.",
    "nki.simulate": "`nki.simulate(kernel)(*arrays)`\n\nThe kernel on the simulator, whatever the environment says.",
    "nki.Kernel": "`nki.Kernel`\n\nWhat `nki.jit` makes of a function: called, launched with `kernel[n]`, ordered with"
    " `kernel.with_schedule(...)`.",
    "nki.Kernel.with_schedule": "`kernel.with_schedule([(consumer, producer), ...])`\n\n"
    "The same kernel with scheduling edges between instructions by their names: the consumer starts after its"
    " producers have ended. Results do not change.",
    "nki.typing.tensor": "`nt.tensor[128, 512]`, `nt.tensor[(128, 512), nl.bfloat16]`\n\n"
    "The annotation of a tensor parameter. The editor takes the kernel's shapes from it; a call compares them.",
    "nki.typing.mutable_tensor": "`nt.mutable_tensor[128, 512]`\n\n"
    "The annotation of a tensor parameter that the kernel writes. Beta 1 asks for it; what is written is returned.",
    "nki.language.sbuf": "`nl.sbuf`\n\nThe memory that the engines work on: 128 partitions, and bytes behind each.",
    "nki.language.psum": "`nl.psum`\n\nThe memory that the Tensor engine writes: 128 partitions of eight 2 KiB banks.",
    "nki.language.hbm": "`nl.hbm`\n\nDevice memory of one program of a launch; the same as `nl.private_hbm`.",
    "nki.language.private_hbm": "`nl.private_hbm`\n\nDevice memory of one program of a launch.",
    "nki.language.shared_hbm": "`nl.shared_hbm`\n\n"
    "Device memory that all programs of a launch share: what a kernel returns lies there.",
    "nki.language.tile_size": "`nl.tile_size`\n\nSizes of the target: `nl.tile_size.pmax`, `psum_bank_fmax`,"
    " `gemm_moving_fmax`, `gemm_stationary_fmax`, `sbuf_fmax_bytes` and others.",
    "nki.isa.VirtualRegister": "`nisa.register_alloc(...)`\n\n"
    "A 32-bit register of the sequencer: bounds of device loops, places of views. It has no value while a kernel is"
    " specialised.",
    "nki.isa.NkiInstruction": "What a call of `nki.isa` returns: the handle of an instruction, and no tensor.",
    "nki.language.NkiTensor.shape": "`tensor.shape`\n\nElements along each dimension; on the chip, partitions first.",
    "nki.language.NkiTensor.strides": "`tensor.strides`\n\nSteps of the view, in elements of its storage.",
    "nki.language.NkiTensor.offset": "`tensor.offset`\n\nThe element of the storage that the view begins with.",
    "nki.language.NkiTensor.dtype": "`tensor.dtype`\n\nThe dtype of the elements, as `nl.bfloat16` names one.",
    "nki.language.NkiTensor.buffer": "`tensor.buffer`\n\nThe memory: `nl.sbuf`, `nl.psum` or one of HBM.",
    "nki.language.NkiTensor.name": "`tensor.name`\n\nWhat `nl.ndarray(name=)` called it.",
    "nki.language.NkiTensor.ndim": "`tensor.ndim`\n\nHow many dimensions the view has.",
    "nki.language.NkiTensor.size": "`tensor.size`\n\nHow many elements the view has.",
    "nki.language.NkiTensor.address": "`tensor.address`\n\nThe place that `nl.ndarray(address=)` gave it, or None.",
    "nki.language.NkiTensor.itemsize": "`tensor.itemsize`\n\nBytes of an element.",
    "nki.language.bool": "`nl.bool`\n\nThe dtype `nl.bool_`.",
    "nki.trace": "`@nki.trace`\n\nOf Beta 1: the kernel of a function that other kernels call.",
    "nki.baremetal": "`@nki.baremetal`\n\nOf Beta 1: the kernel of a function, for a device. It is simulated.",
    "nki.benchmark": "`@nki.benchmark`\n\nOf Beta 1: a kernel that is timed. It runs once and leaves "
    "`benchmark_result`, a predicted latency.",
    "nki.profile": "`@nki.profile`\n\nOf Beta 1: a kernel that is profiled. It runs once and writes its "
    "predicted profile into `working_directory`.",
    "nki.simulate_kernel": "`nki.simulate_kernel(kernel[grid], *arrays)`\n\nOf Beta 1: runs a kernel on the simulator.",
    "nki.compiler.sbuf.mod_alloc": "`ncc.sbuf.mod_alloc(base_addr=, num_free_tiles=())`\n\n"
    "Of Beta 1: places the tiles of a tensor in SBUF side by side; block indices wrap around.",
    "nki.compiler.sbuf.alloc": "`ncc.sbuf.alloc(function)`\n\nOf Beta 1: a function places each tile in SBUF.",
    "nki.compiler.sbuf.auto_alloc": "`ncc.sbuf.auto_alloc()`\n\nOf Beta 1: the compiler places the tiles in SBUF.",
    "nki.compiler.psum.mod_alloc": "`ncc.psum.mod_alloc(base_bank=, num_bank_tiles=())`\n\n"
    "Of Beta 1: places the tiles of a tensor in PSUM, bank after bank; block indices wrap around.",
    "nki.compiler.psum.alloc": "`ncc.psum.alloc(function)`\n\nOf Beta 1: a function places each tile in PSUM.",
    "nki.compiler.psum.auto_alloc": "`ncc.psum.auto_alloc()`\n\nOf Beta 1: the compiler places the tiles in PSUM.",
}
"""By the full name in the current dialect's spelling; of a removed one, in that of Beta 1."""

_TENSOR: Final = "nki.language.NkiTensor"


def entry(dotted: str) -> str | None:
    """Return the Markdown of such a name, spelt in full; None for other names."""
    home, _, name = dotted.rpartition(".")
    if home == "nki.isa" and name.endswith("_engine"):
        member = name.removesuffix("_engine")
        return f"`nisa.{name}`\n\nThe engine `nisa.engine.{member}`, as earlier releases spell it."
    if dotted == _TENSOR:
        return f"`nl.NkiTensor`\n\n{inspect.getdoc(NkiTensor)}"
    if home == _TENSOR and dotted not in TEXTS and not name.startswith("_"):
        return _member(name, getattr(NkiTensor, name, None))
    return TEXTS.get(dotted)


def _member(name: str, value: object) -> str | None:
    """Return an attribute or a method of tensors."""
    text = inspect.getdoc(value) if value is not None else None
    if text is None:
        return None
    if not inspect.isfunction(value):
        return f"`tensor.{name}`\n\n{text}"
    return f"```python\ntensor.{name}{bare_signature(value, skipped=1)}\n```\n\n{text}"


def bare_signature(
    function: Callable[..., object], spelled: Callable[[object], object] = lambda default: default, *, skipped: int = 0
) -> inspect.Signature:
    """Return the signature of a function without annotations, and without the first `skipped` parameters."""
    signature = inspect.signature(function)
    parameters = [
        item.replace(annotation=item.empty, default=spelled(item.default)) for item in signature.parameters.values()
    ]
    return signature.replace(parameters=parameters[skipped:], return_annotation=signature.empty)
