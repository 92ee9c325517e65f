"""Versions of one kernel to compare: a scaled copy, tile by tile, and edits of it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import nki_lab
from nki_lab.result import Run
from tests.verdicts import loaded

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl

TILE = 512
"""
SCALED = """

@nki.jit
def scaled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(a.shape[1] // TILE):
        x = nl.ndarray((128, TILE), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((128, TILE), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[:, i * TILE:(i + 1) * TILE])
        nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, i * TILE:(i + 1) * TILE], src=y)
    return out
"""
KERNEL = HEAD + SCALED
COMPUTE = "        nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0)\n"

_numbers = count()


def profiled(text: str, *, target: str = "trn2", name: str = "scaled", columns: int = 4096, file: str = "") -> Run:
    """A profile of a kernel of which this is the text; each text is a file of its own unless it is named."""
    module = loaded(Path(file or f"version_{next(_numbers)}.py"), text)
    return nki_lab.profile(getattr(module, name), nki_lab.spec((128, columns), "float32"), target=target)


def edited(old: str, new: str, text: str = KERNEL) -> str:
    """The text with one part exchanged."""
    assert text.count(old) == 1
    return text.replace(old, new)


def as_of_a_device(folder: Path) -> Path:
    """Have a profile that was written here say that it is of a device."""
    metadata = pq.read_table(folder / "Metadata.parquet")
    place = metadata.schema.get_field_index("is_simulation")
    column = pa.array([False])
    pq.write_table(metadata.set_column(place, metadata.schema.field(place), column), folder / "Metadata.parquet")
    return folder
