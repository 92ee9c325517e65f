"""Findings of later iterations name the iteration."""

from __future__ import annotations

import pytest

import nki_lab

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

@nki.jit
def kernel(x: nt.tensor[128, 1024]):
    out = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for m in range(2):
        for k in range({trips}):
            tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[0:128, k * 128:(k + 1) * {step}])
            nisa.dma_copy(dst=out[0:128, k % 8 * 128:(k % 8 + 1) * 128], src=tile)
    return out
"""


@pytest.mark.parametrize(
    ("trips", "step", "notes"),
    [(9, 128, ["in the iteration m = 0, k = 8"]), (8, 2048, []), (8, 128, None)],
)
def test_a_finding_names_a_later_iteration(trips: int, step: int, notes: list[str] | None) -> None:
    found = [item for item in nki_lab.check(source=KERNEL.format(trips=trips, step=step)) if item.code == "NKI303"]
    assert [[note.message for note in item.related if "iteration" in note.message] for item in found] == (
        [] if notes is None else [notes]
    )
    assert all(note.span is not None and note.span.line == 11 for item in found for note in item.related)
