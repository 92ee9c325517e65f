"""Tensors and access patterns: storage, strided views, and the types that legality and cost read of them."""

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
    extent,
    is_dense,
    normalise,
    reshape_strides,
)
from nki_lab.kernel_runtime.tensor.refusal import describe
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
    "Space",
    "StridedView",
    "ViewType",
    "VirtualRegister",
    "check_allocation",
    "describe",
    "ds",
    "extent",
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
    "view_type",
    "whole",
]
