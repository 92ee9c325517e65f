"""The results of a kernel before it runs: shapes and dtypes, and the arguments that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.session import arrays
from nki_lab.session.arguments import Arguments, Keywords
from nki_lab.session.call import Call, refuse_unchangeable, written_inputs
from nki_lab.session.launch import Launch


@dataclass(frozen=True, slots=True)
class WrittenArgument:
    """An array argument that the kernel changes: its name as messages have it, and the caller's object.

    Names are those of parameters; arrays within an argument are named like `pair[1]` and `options.bias`.
    """

    name: str
    argument: Any


@dataclass(frozen=True, slots=True)
class Results:
    """The return value of a kernel with a TensorSpec for each tensor, and the arguments that the kernel changes.

    `structure` has the kernel's tuples, named tuples, lists and dicts; `flat` its TensorSpecs in order. A dtype is that
    of the tensor; its `host` is the NumPy dtype of the array that a run returns.
    """

    structure: Any
    flat: tuple[TensorSpec, ...]
    written: tuple[WrittenArgument, ...]


@gc_relaxed()
def results_of(launch: Launch, args: Arguments, kwargs: Keywords) -> Results:
    """Return what a call of a kernel would return and change; nothing is computed, and no array is changed.

    Of arrays only shape and dtype count: TensorSpecs, tracers and fake tensors do as well. The program is the one that
    a run of the same call uses, which it therefore does not make again where it can be kept. Raises the errors of a
    run that are known without values. A kernel that looks at values of its tensors is NKI017.
    """
    call = Call(launch)
    call.record = None
    try:
        call.specialise(args, kwargs, values=False, reuse=True)
        if not call.cached or launch.options.strict:
            call.check()
        written = written_inputs(call.program, call.inputs)
        refuse_unchangeable(call.program, written)
    finally:
        call.close()
    flat: list[TensorSpec] = []

    def spec_of(leaf: object) -> object:
        if not isinstance(leaf, NkiTensor):
            return leaf
        flat.append(TensorSpec(leaf._shape, leaf._dtype))
        return flat[-1]

    structure = arrays.map_leaves(call.structure, spec_of)
    return Results(structure, tuple(flat), tuple(WrittenArgument(item.name, item.original) for item in written))
