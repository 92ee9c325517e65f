"""Honest recordings and profiles, small ones of every form, to change copies of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nki_lab
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import synthetic

nki_lab.activate()

import nki  # noqa: E402 - importable from here on
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def summed(x):
    """Sums of products in a loop: three engines, DMA, a warning about a tile that is written twice."""
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=acc, value=0)
    for k in nl.affine_range(3):
        tile = nl.load(x[k * 128 : (k + 1) * 128])
        part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=part, stationary=tile[:, 0:128], moving=tile)
        nisa.tensor_tensor(dst=acc, data1=acc, data2=part, op=nl.add)
    dead = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=dead, op=nl.exp, data=acc)
    nl.store(out, acc)
    return out


def save_all(where: Path) -> list[Path]:
    """Save a kernel's run with findings, a drawn run with all kinds of values, and a profile; return the folders."""
    run = nki_lab.profile(summed, np.ones((384, 512), np.float32), target="trn2")
    other = nki_lab.profile(summed, np.ones((384, 512), np.float32), target="trn3")
    Recording(synthetic(60), {"target": "trn2", "kernel": "drawn"}).save(where / "drawn")
    return [
        run.save(where / "kernel"),
        other.save(where / "newer"),
        where / "drawn",
        run.to_explorer(where / "profile"),
    ]
