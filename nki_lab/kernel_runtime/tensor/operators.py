"""Python operators of tensors: each goes to the executor, and questions about values are refused."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, Final, NoReturn

import numpy as np

from nki_lab.diagnostic import coded_error
from nki_lab.isa.python_operators import ARITHMETIC, COMPARISONS, ORDERINGS
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse, require_valid
from nki_lab.kernel_runtime.tensor.register import refused_use
from nki_lab.kernel_runtime.tensor.strided_view import StridedView


def outside_kernel(tensor: StridedView, use: str) -> Exception:
    """Return the error of an operation that needs an executor, on a tensor that belongs to none."""
    return coded_error(
        "NKI005",
        f"{use} on {describe(tensor)}, which belongs to no running kernel",
        limit="tensors compute and hold values only inside a kernel",
    )


def _operator(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def operate(self: TensorOperators, other: Any = None) -> Any:
        return self._operate(name, other, reflected)

    return operate


def _inplace(name: str) -> Callable[[TensorOperators, Any], Any]:
    def update(self: TensorOperators, other: Any) -> Any:
        inplace = getattr(self._buffer.owner, "inplace", None)
        return self._operate(name, other) if inplace is None else inplace(name, self, other)

    return update


class TensorOperators(StridedView):
    """Arithmetic, comparisons and conversions of a tensor.

    Arithmetic and comparisons are `owner.operator(name, tensor, other, reflected)` with the names of `nki.language`.
    `==` and `!=` compare identity unless the owner computes elementwise. A tensor hashes by identity. An owner may
    also have `inplace(name, tensor, other)` for `+=` and its kin, which otherwise make a new tensor, `truth(tensor)`
    for conditions, and `member(tensor, name)` for attributes that tensors do not have.
    """

    __slots__ = ()

    def _operate(self, name: str, other: Any, reflected: bool = False) -> Any:
        owner = self._buffer.owner
        if owner is None:
            raise outside_kernel(self, f"the operator {name}")
        for operand in (self, other):
            if isinstance(operand, StridedView):
                require_valid(operand)
        return owner.operator(name, self, other, reflected)

    __neg__ = _operator("negative")
    __abs__ = _operator("abs")
    __invert__ = _operator("invert")

    def __pos__(self) -> Any:
        return self

    def __eq__(self, other: object) -> Any:
        return self._operate("equal", other) if self._elementwise(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self._operate("not_equal", other) if self._elementwise(other) else NotImplemented

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Leave an operator of a NumPy scalar and a tensor to the tensor; NumPy's functions take its values."""
        name = _REFLECTED.get(ufunc.__name__)
        if name is not None and method == "__call__" and not kwargs and _is_number(inputs[0]):
            result = getattr(self, name)(inputs[0][()])
            if result is not NotImplemented:
                return result
        arrays = [np.asarray(item) if isinstance(item, StridedView) else item for item in inputs]
        return getattr(ufunc, method)(*arrays, **kwargs)

    def __hash__(self) -> int:
        return id(self)

    def _elementwise(self, other: object) -> bool:
        if not isinstance(other, StridedView | Number):
            return False
        return getattr(self._buffer.owner, "elementwise_operators", False) is True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            member = getattr(self._buffer.owner, "member", None)
            found = None if member is None else member(self, name)
            if found is not None:
                return found
            raise refuse(
                "NKI006",
                f"tensors have no attribute {name}",
                self,
                limit="the attributes of NkiTensor",
                help=did_you_mean(name, (item for item in dir(type(self)) if not item.startswith("_"))),
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _needed(self, use: str) -> NoReturn:
        raise refuse(
            "NKI017",
            f"the tensor {describe(self)} is {use}, but its values exist only when the kernel runs",
            self,
            limit="Python decides at specialisation time, from shapes, dtypes and compile-time values",
            help="compute with instructions (tensor_scalar, select, predicated copy), or branch with a register",
        )

    def __bool__(self) -> bool:
        truth = getattr(self._buffer.owner, "truth", None)
        if truth is None:
            self._needed("used as a condition")
        return bool(truth(self))

    __int__ = refused_use("converted to int")
    __float__ = refused_use("converted to float")
    __complex__ = refused_use("converted to complex")
    __index__ = refused_use("used as an integer (index, range or slice bound)")

    def __contains__(self, item: object) -> bool:
        self._needed("searched with `in`")

    def __len__(self) -> int:
        return self._shape[0]


def _is_number(value: object) -> bool:
    """Check for a scalar of NumPy, which comparisons hand on as an array without dimensions."""
    return isinstance(value, np.generic | np.ndarray) and not value.ndim


_TWO_SIDED: Final = {item.method: item.name for item in ARITHMETIC}
_ORDERINGS: Final = {item.method: item.name for item in ORDERINGS}
_TURNED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_REFLECTED: Final = {
    **{name: f"__r{python}__" for python, name in _TWO_SIDED.items()},
    **{item.name: f"__{_TURNED[item.method]}__" for item in COMPARISONS},
    "remainder": "__rmod__",
}
"""The methods of the right side that NumPy's functions of two sides stand for."""

for _python, _name in (_TWO_SIDED | _ORDERINGS).items():
    setattr(TensorOperators, f"__{_python}__", _operator(_name))
for _python, _name in _TWO_SIDED.items():
    setattr(TensorOperators, f"__r{_python}__", _operator(_name, reflected=True))
for _python in ("add", "sub", "mul", "truediv"):
    setattr(TensorOperators, f"__i{_python}__", _inplace(_TWO_SIDED[_python]))
