"""Views as regions of their buffers, for coverage, storage binding and drawing."""

from __future__ import annotations

from nki_lab.kernel_runtime.tensor.pattern import Range, Slices, box_of, slices_of, storage_shape
from nki_lab.kernel_runtime.tensor.strided_view import StridedView


def box(view: StridedView) -> tuple[Range, ...] | None:
    """The static elements of a view as a product of slices over its buffer; see `pattern.box_of`.

    Ranges count elements of the view's dtype. None where the set is no such product, or a run-time index takes part.
    """
    buffer = view._buffer
    if view._indirect is not None:
        return None
    shape = storage_shape(buffer.shape, buffer.dtype.nbytes, view._dtype.nbytes)
    return None if shape is None else box_of(shape, view._offset, view._shape, view._strides)


def as_slices(view: StridedView) -> Slices | None:
    """The view as plain slicing and permutation of its buffer; see `pattern.slices_of`. None with a run-time index."""
    buffer = view._buffer
    if view._indirect is not None:
        return None
    shape = storage_shape(buffer.shape, buffer.dtype.nbytes, view._dtype.nbytes)
    return None if shape is None else slices_of(shape, view._offset, view._shape, view._strides)
