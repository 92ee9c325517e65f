"""Tensors and access patterns: storage, strided views, and what the rest of the system asks of them."""

from nki_lab.kernel_runtime.tensor.buffer import (
    Buffer,
    MemoryRegion,
    Space,
    check_allocation,
    hbm,
    private_hbm,
    psum,
    row_major,
    sbuf,
    shared_hbm,
)
from nki_lab.kernel_runtime.tensor.indexing import DynamicSlice, ds
from nki_lab.kernel_runtime.tensor.pattern import (
    Slices,
    box_of,
    extent,
    free_pattern,
    is_dense,
    normalise,
    reshape_strides,
    slices_of,
    storage_shape,
    take,
)
from nki_lab.kernel_runtime.tensor.refusal import describe
from nki_lab.kernel_runtime.tensor.region import as_slices, box
from nki_lab.kernel_runtime.tensor.register import VirtualRegister
from nki_lab.kernel_runtime.tensor.strided_view import Indirect, Shape, StridedView, view_type
from nki_lab.kernel_runtime.tensor.view import NkiTensor, make_view, whole
from nki_lab.kernel_runtime.tensor.view_type import ViewType

__all__ = [
    "Buffer",
    "DynamicSlice",
    "Indirect",
    "MemoryRegion",
    "NkiTensor",
    "Shape",
    "Slices",
    "Space",
    "StridedView",
    "ViewType",
    "VirtualRegister",
    "as_slices",
    "box",
    "box_of",
    "check_allocation",
    "describe",
    "ds",
    "extent",
    "free_pattern",
    "hbm",
    "is_dense",
    "make_view",
    "normalise",
    "private_hbm",
    "psum",
    "reshape_strides",
    "row_major",
    "sbuf",
    "shared_hbm",
    "slices_of",
    "storage_shape",
    "take",
    "view_type",
    "whole",
]
