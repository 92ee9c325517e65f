"""Python operators of tensors: each goes to the executor, and questions about values are refused."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn, cast

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse

if TYPE_CHECKING:
    from nki_lab.kernel_runtime.tensor.view import NkiTensor


class TensorOperators:
    """Arithmetic, comparisons and conversions of a tensor.

    Arithmetic and comparisons are `owner.operator(name, tensor, other, reflected)` with the names of `nki.language`.
    `==` and `!=` compare identity unless the owner computes elementwise. A tensor hashes by identity. An owner may
    also have `inplace(name, tensor, other)` for `+=` and its kin, which otherwise make a new tensor, `truth(tensor)`
    for conditions, and `member(tensor, name)` for attributes that tensors do not have.
    """

    __slots__ = ()

    def _operate(self, name: str, other: Any, reflected: bool = False) -> Any:
        tensor = cast("NkiTensor", self)
        owner = tensor._buffer.owner
        if owner is None:
            raise outside_kernel(tensor, f"the operator {name}")
        return owner.operator(name, tensor, other, reflected)

    def _update(self, name: str, other: Any) -> Any:
        tensor = cast("NkiTensor", self)
        inplace = getattr(tensor._buffer.owner, "inplace", None)
        return self._operate(name, other) if inplace is None else inplace(name, tensor, other)

    def __iadd__(self, other: Any) -> Any:
        return self._update("add", other)

    def __isub__(self, other: Any) -> Any:
        return self._update("subtract", other)

    def __imul__(self, other: Any) -> Any:
        return self._update("multiply", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._update("divide", other)

    def __add__(self, other: Any) -> Any:
        return self._operate("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._operate("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return self._operate("subtract", other)

    def __rsub__(self, other: Any) -> Any:
        return self._operate("subtract", other, True)

    def __mul__(self, other: Any) -> Any:
        return self._operate("multiply", other)

    def __rmul__(self, other: Any) -> Any:
        return self._operate("multiply", other, True)

    def __truediv__(self, other: Any) -> Any:
        return self._operate("divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operate("divide", other, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._operate("floor_divide", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._operate("floor_divide", other, True)

    def __mod__(self, other: Any) -> Any:
        return self._operate("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._operate("mod", other, True)

    def __pow__(self, other: Any) -> Any:
        return self._operate("power", other)

    def __rpow__(self, other: Any) -> Any:
        return self._operate("power", other, True)

    def __matmul__(self, other: Any) -> Any:
        return self._operate("matmul", other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._operate("matmul", other, True)

    def __and__(self, other: Any) -> Any:
        return self._operate("bitwise_and", other)

    def __rand__(self, other: Any) -> Any:
        return self._operate("bitwise_and", other, True)

    def __or__(self, other: Any) -> Any:
        return self._operate("bitwise_or", other)

    def __ror__(self, other: Any) -> Any:
        return self._operate("bitwise_or", other, True)

    def __xor__(self, other: Any) -> Any:
        return self._operate("bitwise_xor", other)

    def __rxor__(self, other: Any) -> Any:
        return self._operate("bitwise_xor", other, True)

    def __lshift__(self, other: Any) -> Any:
        return self._operate("left_shift", other)

    def __rlshift__(self, other: Any) -> Any:
        return self._operate("left_shift", other, True)

    def __rshift__(self, other: Any) -> Any:
        return self._operate("right_shift", other)

    def __rrshift__(self, other: Any) -> Any:
        return self._operate("right_shift", other, True)

    def __neg__(self) -> Any:
        return self._operate("negative", None)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._operate("abs", None)

    def __invert__(self) -> Any:
        return self._operate("invert", None)

    def __lt__(self, other: Any) -> Any:
        return self._operate("less", other)

    def __le__(self, other: Any) -> Any:
        return self._operate("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self._operate("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self._operate("greater_equal", other)

    def __eq__(self, other: object) -> Any:
        return self._operate("equal", other) if self._elementwise(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self._operate("not_equal", other) if self._elementwise(other) else NotImplemented

    def __hash__(self) -> int:
        return id(self)

    def _elementwise(self, other: object) -> bool:
        if not isinstance(other, TensorOperators | Number):
            return False
        return getattr(cast("NkiTensor", self)._buffer.owner, "elementwise_operators", False) is True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            member = getattr(cast("NkiTensor", self)._buffer.owner, "member", None)
            found = None if member is None else member(self, name)
            if found is not None:
                return found
            names = (item for item in dir(type(self)) if not item.startswith("_"))
            raise refuse(
                "NKI006",
                f"tensors have no attribute {name}",
                cast("NkiTensor", self),
                limit="the attributes of NkiTensor",
                help=did_you_mean(name, names),
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _needed(self, use: str) -> NoReturn:
        tensor = cast("NkiTensor", self)
        raise refuse(
            "NKI017",
            f"the tensor {describe(tensor)} is {use}, but its values exist only when the kernel runs",
            tensor,
            limit="Python decides at specialisation time, from shapes, dtypes and compile-time values",
            help="compute with instructions (tensor_scalar, select, predicated copy), or branch with a register",
        )

    def __bool__(self) -> bool:
        truth = getattr(cast("NkiTensor", self)._buffer.owner, "truth", None)
        if truth is None:
            self._needed("used as a condition")
        return bool(truth(self))

    def __int__(self) -> int:
        self._needed("converted to int")

    def __float__(self) -> float:
        self._needed("converted to float")

    def __complex__(self) -> complex:
        self._needed("converted to complex")

    def __index__(self) -> int:
        self._needed("used as an integer (index, range or slice bound)")

    def __contains__(self, item: object) -> bool:
        self._needed("searched with `in`")

    def __len__(self) -> int:
        return cast("NkiTensor", self)._shape[0]

    def __iter__(self) -> Iterator[NkiTensor]:
        tensor = cast("NkiTensor", self)
        if tensor._buffer.on_chip:
            raise refuse(
                "NKI304",
                f"iteration over the partitions of {describe(tensor)}",
                tensor,
                limit="HBM tensors are iterated along dimension 0, SBUF and PSUM tensors are not",
                help=f"loop over indices: for i in range({tensor._shape[0]}): tile[i:i + 1]",
            )
        return (tensor[position] for position in range(tensor._shape[0]))


def outside_kernel(tensor: NkiTensor, use: str) -> Exception:
    """The error of an operation that needs an executor, on a tensor that belongs to none."""
    return error_of(
        diagnose(
            "NKI005",
            f"{use} on {describe(tensor)}, which belongs to no running kernel",
            limit="tensors compute and hold values only inside a kernel",
        )
    )
