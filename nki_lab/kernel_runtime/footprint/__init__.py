"""Bytes that views touch: as runs, as rectangles of a table, as cells that several views cut, as what is written.

Every form is exact, but for sets so scattered that writing them down costs more than it gives: such a set counts as all
bytes between its ends.
"""

from nki_lab.kernel_runtime.footprint.cells import Cells, cells_of
from nki_lab.kernel_runtime.footprint.rectangles import (
    Box,
    Overlap,
    Rect,
    box_of,
    boxes_overlap,
    overlap_of,
    rect_of,
    share_bytes,
)
from nki_lab.kernel_runtime.footprint.runs import Column, Mask, progression, spread
from nki_lab.kernel_runtime.footprint.wording import elements_of
from nki_lab.kernel_runtime.footprint.written import WrittenPart
from nki_lab.kernel_runtime.number_sets import distinct, in_both

__all__ = [
    "Box",
    "Cells",
    "Column",
    "Mask",
    "Overlap",
    "Rect",
    "WrittenPart",
    "box_of",
    "boxes_overlap",
    "cells_of",
    "distinct",
    "elements_of",
    "in_both",
    "overlap_of",
    "progression",
    "rect_of",
    "share_bytes",
    "spread",
]
