"""Frozen dataclasses that set their own fields through `object`."""

from __future__ import annotations

import nki_lab

SOURCE = """
from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@dataclass(frozen=True)
class Tiles:
    rows: int
    size: int = 0

    def __post_init__(self):
        object.__setattr__(self, "size", self.rows * 2)

@nki.jit
def kernel(x: nt.tensor[128, 512]):
    tiles = Tiles(128)
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((tiles.size, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_a_field_set_through_object_is_known() -> None:
    found = nki_lab.check(source=SOURCE)
    sizes = [item.message for item in found if item.code == "NKI203"]
    assert len(sizes) == 2
    assert all("(256, 512)" in message for message in sizes)


def test_a_frozen_field_is_still_refused_elsewhere() -> None:
    found = nki_lab.check(source=SOURCE.replace("    out = nl", "    tiles.size = 3\n    out = nl"))
    assert "NKI007" in [item.code for item in found]
