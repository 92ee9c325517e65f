"""A view of a kernel library's own: sizes and strides kept apart from the tensor, `.ap` at the end."""

from typing import Any, Optional

import nki.language as nl
from nki.language import NKIObject


class TensorView(NKIObject):
    base_tensor: Any
    shape: tuple
    strides: tuple
    offset: int
    scalar_offset: Optional[Any]
    vector_offset: Optional[Any]
    indirect_dim: Optional[int]

    def __init__(self, base_tensor, shape=None, strides=None, offset=0, scalar_offset=None, vector_offset=None,
                 indirect_dim=None):  # fmt: skip
        self.base_tensor = base_tensor
        self.shape = tuple(base_tensor.shape) if shape is None else shape
        self.strides = _row_major(self.shape) if strides is None else strides
        self.offset = offset
        self.scalar_offset = scalar_offset
        self.vector_offset = vector_offset
        self.indirect_dim = indirect_dim

    def _like(self, shape, strides, offset=None, scalar_offset=None, indirect_dim=None):
        return TensorView(
            self.base_tensor,
            shape=tuple(shape),
            strides=tuple(strides),
            offset=self.offset if offset is None else offset,
            scalar_offset=self.scalar_offset if scalar_offset is None else scalar_offset,
            vector_offset=self.vector_offset,
            indirect_dim=self.indirect_dim if indirect_dim is None else indirect_dim,
        )

    @property
    def dtype(self):
        return self.base_tensor.dtype

    @staticmethod
    def of(tensor):
        return tensor if isinstance(tensor, TensorView) else TensorView(tensor)

    def is_sbuf(self) -> bool:
        return self.base_tensor.buffer == nl.sbuf

    def slice(self, dim: int, start: int, end: int, step: int = 1):
        assert 0 <= start < end <= self.shape[dim], f"slice {start}:{end} of {self.shape[dim]}"
        shape, strides = list(self.shape), list(self.strides)
        shape[dim] = (end - start + step - 1) // step
        strides[dim] = strides[dim] * step
        return self._like(shape, strides, self.offset + start * self.strides[dim])

    def permute(self, dims):
        if self.is_sbuf():
            assert dims[0] == 0, "the partition dimension stays"
        shape, strides = [], []
        for dim in dims:
            shape.append(self.shape[dim])
            strides.append(self.strides[dim])
        return self._like(shape, strides)

    def reshape_dim(self, dim: int, sizes):
        known, hole = 1, None
        sizes = list(sizes)
        for at, size in enumerate(sizes):
            if size == -1:
                hole = at
            else:
                known *= size
        if hole is not None:
            sizes[hole] = self.shape[dim] // known
        strides, step = [], self.strides[dim]
        for size in reversed(sizes):
            strides.insert(0, step)
            step *= size
        before, after = dim, dim + 1
        return self._like(
            tuple(self.shape[:before]) + tuple(sizes) + tuple(self.shape[after:]),
            tuple(self.strides[:before]) + tuple(strides) + tuple(self.strides[after:]),
        )

    def flatten_dims(self, start_dim: int, end_dim: int):
        size = 1
        for dim in range(start_dim, end_dim + 1):
            size *= self.shape[dim]
            if dim < end_dim:
                assert self.strides[dim] == self.strides[dim + 1] * self.shape[dim + 1]
        return self._like(
            (*self.shape[:start_dim], size, *self.shape[end_dim + 1 :]),
            (*self.strides[:start_dim], self.strides[end_dim], *self.strides[end_dim + 1 :]),
        )

    def expand_dim(self, dim: int):
        return self._like((*self.shape[:dim], 1, *self.shape[dim:]), (*self.strides[:dim], 1, *self.strides[dim:]))

    def broadcast(self, dim: int, size: int):
        assert self.shape[dim] == 1
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._like(shape, strides)

    def select(self, dim: int, index):
        shape = self.shape[:dim] + self.shape[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        if isinstance(index, int):
            return self._like(shape, strides, self.offset + index * self.strides[dim])
        return self._like(shape, strides, scalar_offset=index, indirect_dim=dim)

    def get_view(self):
        """The tensor as instructions take it."""
        pattern = []
        for step, size in zip(self.strides, self.shape):
            pattern.append([step, size])
        if self.scalar_offset is not None:
            return self.base_tensor.ap(pattern, offset=self.offset, scalar_offset=self.scalar_offset,
                                       indirect_dim=self.indirect_dim)  # fmt: skip
        if self.vector_offset is not None:
            return self.base_tensor.ap(pattern=pattern, offset=self.offset, vector_offset=self.vector_offset,
                                       indirect_dim=0)  # fmt: skip
        return self.base_tensor.ap(pattern=pattern, offset=self.offset)


def _row_major(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
