"""Kernels in JAX: a call under `jit`, `vmap` or another transformation becomes an operation of the traced function.

The operation's results have the shapes and dtypes that the front end finds: a kernel is refused where JAX traces the
call. When the compiled function runs, the operation calls back and the kernel runs on the simulator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.issue.source_location import placed, site_at, user_frame
from nki_lab.session import Launch, Results
from nki_lab.session.arguments import is_container, with_items
from nki_lab.session.arrays import kind_of, map_leaves, nameable, refused

Arguments = tuple[Any, ...]
Keywords = Mapping[str, Any]


class Launchable(Protocol):
    """A kernel as JAX calls it."""

    __name__: str

    def prepared(self) -> Launch:
        """The launch with the target and the options that hold now."""

    def results_of(self, args: Arguments, kwargs: Keywords) -> Results:
        """Return what the call would return and change."""

    def launch(self, args: Arguments, kwargs: Keywords, prepared: Launch | None = None) -> Any:
        """Run on arrays of NumPy; with `prepared`, on its target and with its options."""


def is_traced(args: Arguments, kwargs: Keywords) -> bool:
    """Whether a transformation of JAX is following a call with these arguments."""
    if "jax" not in sys.modules:
        return False
    tracer = _tracer()
    found = False

    def look(value: object) -> object:
        nonlocal found
        found = found or isinstance(value, tracer)
        return value

    for value in (*args, *kwargs.values()):
        if isinstance(value, tracer):
            return True
        if is_container(value):
            _substituted(value, look)
    return found


@cache
def _tracer() -> type:
    import jax

    kind: type = jax.core.Tracer
    return kind


def call(kernel: Launchable, args: Arguments, kwargs: Keywords) -> Any:
    """Call a kernel in a function that JAX traces; returns what the kernel returns, with tracers for its tensors.

    A fault that is known from shapes and dtypes is raised at once.
    """
    results = kernel.results_of(args, kwargs)
    for item in results.written:
        if kind_of(item.argument) != "jax":
            raise refused(
                item.name,
                "an array that the kernel writes, in a function that jax traces",
                "return the tensor from the kernel, or call it through jax_neuronx.nki_call",
                limit="functions that jax traces change no arrays",
            )
    return bound(kernel, args, kwargs, results)


def bound(kernel: Launchable, args: Arguments, kwargs: Keywords, results: Results) -> Any:
    """Enter the call into the function that JAX traces."""
    operands = _Operands()
    given = tuple(_substituted(value, operands.take) for value in args)
    named = {name: _substituted(value, operands.take) for name, value in kwargs.items()}
    entered = KernelCall(kernel, kernel.prepared(), given, named, results.flat, user_place())
    found = iter(_primitive().bind(*operands.arrays, call=entered) if results.flat else ())
    return map_leaves(results.structure, lambda leaf: next(found) if isinstance(leaf, TensorSpec) else leaf)


class _Operand:
    """The place of an array among the operands of the operation."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Operands:
    """Takes JAX's arrays out of arguments: each once, so that an array passed twice stays one tensor."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._known: dict[int, _Operand] = {}

    def take(self, value: object) -> object:
        kind = kind_of(value)
        if kind == "torch":
            raise refused("of the kernel", "a torch tensor, in a function that jax traces", "pass a jax array")
        if kind != "jax":
            return value
        if not value.shape and not isinstance(value, _tracer()):  # type: ignore[attr-defined]
            return value.item()  # type: ignore[attr-defined]
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = _Operand(len(self.arrays))
            self.arrays.append(value)
        return known


def _substituted(value: object, leaf: Callable[[object], object], depth: int = 0) -> object:
    """Return an argument with `leaf` of each part that is no container."""
    if not is_container(value):
        return leaf(value)
    if depth > sys.getrecursionlimit() // 10:  # it contains itself, which the kernel's own intake refuses
        return value
    return with_items("", value, lambda _name, item: _substituted(item, leaf, depth + 1))


class KernelCall:
    """A call of a kernel as JAX holds it: everything but the values of its arrays."""

    def __init__(
        self,
        kernel: Launchable,
        launch: Launch,
        args: Arguments,
        kwargs: Keywords,
        flat: Sequence[TensorSpec],
        place: Callable[[Diagnostic], Diagnostic],
    ) -> None:
        self.kernel = kernel
        self.launch = launch
        self.args = args
        self.kwargs = kwargs
        self.results = [(spec.shape, nameable(np.dtype(spec.dtype.host))) for spec in flat]
        self.place = place

    def run(self, *operands: Any) -> list[Any]:
        """Run the kernel on arrays; returns NumPy's, in the order of the results."""

        def value_of(item: object) -> object:
            return operands[item.number] if isinstance(item, _Operand) else item

        args = tuple(_substituted(value, value_of) for value in self.args)
        kwargs = {name: _substituted(value, value_of) for name, value in self.kwargs.items()}
        found: list[Any] = []
        map_leaves(self.kernel.launch(args, kwargs, self.launch), found.append)
        arrays = [np.asarray(leaf) for leaf in found if isinstance(leaf, np.ndarray)]
        return [item.view(dtype) for item, (_, dtype) in zip(arrays, self.results, strict=True)]

    def called_back(self, *operands: Any) -> tuple[Any, ...]:
        """Run the kernel where the compiled function calls back; an error comes without the frames in between."""
        try:
            return tuple(self.run(*map(np.asarray, operands)))
        except NkiError as error:
            failed = error.with_traceback(None)
            failed.__cause__ = failed.__context__ = None
            raise failed from None

    def no_derivative(self) -> NkiError:
        """Return NKI029."""
        name = self.kernel.__name__
        return error_of(
            self.place(
                diagnose(
                    "NKI029",
                    f"jax differentiates through the kernel {name}",
                    operand=name,
                    limit="a kernel has no derivative of its own",
                    help="call it within a jax.custom_vjp function whose backward rule is another kernel, or jax.numpy;"
                    " jax.lax.stop_gradient around its arguments keeps it out",
                )
            )
        )

    def __repr__(self) -> str:
        return self.kernel.__name__


def user_place() -> Callable[[Diagnostic], Diagnostic]:
    """Return what gives findings the place of the call that is being made."""
    frame = user_frame(2)
    if frame is None:
        return lambda item: item
    site = site_at(frame.f_code, frame.f_lasti)
    return lambda item: placed(item, site)


@cache
def _primitive() -> Any:
    """Return the operation of calling a kernel: its operands and results are arrays, its parameter a KernelCall."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    operation = Primitive("nki_call")
    operation.multiple_results = True
    operation.def_impl(_computed)
    operation.def_abstract_eval(_described)
    ad.primitive_jvps[operation] = _differentiated
    batching.primitive_batchers[operation] = _mapped
    mlir.register_lowering(operation, _lowered)
    return operation


def _computed(*operands: Any, call: KernelCall) -> list[Any]:
    import jax.numpy as jnp

    return [jnp.asarray(item) for item in call.run(*map(np.asarray, operands))]


def _described(*_operands: Any, call: KernelCall) -> list[Any]:
    from jax.core import ShapedArray

    return [ShapedArray(shape, dtype) for shape, dtype in call.results]


def _differentiated(_primals: Any, _tangents: Any, *, call: KernelCall) -> Any:
    raise call.no_derivative()


def _mapped(operands: Sequence[Any], axes: Sequence[int | None], *, call: KernelCall) -> tuple[list[Any], list[int]]:
    """Call the kernel for one element of the batch after the other."""
    import jax
    import jax.numpy as jnp

    mapped = [jnp.moveaxis(item, axis, 0) for item, axis in zip(operands, axes, strict=True) if axis is not None]

    def one(elements: list[Any]) -> list[Any]:
        rest = iter(elements)
        given = [item if axis is None else next(rest) for item, axis in zip(operands, axes, strict=True)]
        found: list[Any] = _primitive().bind(*given, call=call)
        return found

    results = jax.lax.map(one, mapped)
    return results, [0] * len(results)


def _lowered(context: Any, *operands: Any, call: KernelCall) -> Any:
    from jax.interpreters import mlir

    results, _, _ = mlir.emit_python_callback(
        context,
        call.called_back,
        None,
        list(operands),
        context.avals_in,
        context.avals_out,
        has_side_effect=False,
    )
    return results
