"""Builders that the tensor tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, sbuf, shared_hbm, whole


@pytest.fixture(scope="session")
def on_chip() -> Callable[..., NkiTensor]:
    """A fresh SBUF (or other on-chip) tensor of a shape."""

    def build(*shape: int, dtype: Any = "float32", space: MemoryRegion = sbuf, **more: Any) -> NkiTensor:
        return whole(Buffer(0, space, dtype_of(dtype), shape, **more))

    return build


@pytest.fixture(scope="session")
def in_hbm() -> Callable[..., NkiTensor]:
    """A fresh HBM tensor of a shape."""

    def build(*shape: int, dtype: Any = "float32", **more: Any) -> NkiTensor:
        return whole(Buffer(0, shared_hbm, dtype_of(dtype), shape, **more))

    return build


@pytest.fixture(scope="session")
def addresses() -> Callable[[NkiTensor], np.ndarray]:
    """The element number of each element of a view, in the view's shape, straight from the definition."""

    def enumerate_elements(view: NkiTensor) -> np.ndarray:
        out = np.full(view._shape, view._offset, dtype=np.int64)
        for axis, (size, step) in enumerate(zip(view._shape, view._strides, strict=True)):
            out += np.arange(size).reshape([-1 if k == axis else 1 for k in range(len(view._shape))]) * step
        return out

    return enumerate_elements


@pytest.fixture(scope="session")
def refused() -> Callable[..., Any]:
    """Runs an operation that is refused with one code, or makes a view whose values are; gives the diagnostic."""

    def check(code: str, operation: Callable[[], Any]) -> Any:
        with pytest.raises(NkiError) as caught:
            made = operation()
            if isinstance(made, NkiTensor):
                made.numpy()
        (found,) = caught.value.diagnostics
        assert found.code == code, f"{found}"
        assert found.message
        return found

    return check
