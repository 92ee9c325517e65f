"""The two figures of memory in a summary, and the sums over a run."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from hypothesis import given

import nki_lab
from nki_lab.timeline.timeline import timeline
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, traced


@nki.jit
def ahead(x):
    """Each iteration needs two tiles; the loads of the next ones go on while one computes."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 128):
        tile = nl.load(x[start : start + 128])
        result = nl.ndarray((128, x.shape[1]), x.dtype)
        nisa.activation(dst=result, op=nl.exp, data=tile)
        nl.store(out[start : start + 128], result)
    return out


def most(run: Any, space: str) -> int:
    return int(run.recording.table("usage")[space].max())


def test_loads_that_run_ahead_occupy_more_than_program_order_needs() -> None:
    run = nki_lab.profile(ahead, nki_lab.spec((2048, 512), "float32"), target="trn2")
    assert run.summary.sbuf_peak_bytes_per_partition == 2 * 2048
    assert run.summary.sbuf_occupied_bytes_per_partition == most(run, "sbuf") > 2 * 2048
    assert run.summary.psum_occupied_bytes_per_partition == run.summary.psum_peak_bytes_per_partition == 0


def test_a_tensor_that_is_done_before_another_begins_occupies_less_than_program_order_needs() -> None:
    @nki.jit
    def kernel(x):
        slow, quick = nl.ndarray((128, 512), nl.float32), nl.ndarray((128, 512), nl.float32)
        nisa.memset(dst=quick, value=0.0, engine=nisa.engine.vector)
        nisa.memset(dst=slow, value=0.0, engine=nisa.engine.gpsimd, name="slow")
        nisa.tensor_copy(dst=quick, src=quick, engine=nisa.engine.vector, name="quick")
        nl.store(x, slow)
        return x

    run = nki_lab.profile(kernel.with_schedule([("slow", "quick")]), nki_lab.spec((128, 512), "float32"), target="trn2")
    assert run.summary.sbuf_peak_bytes_per_partition == 2 * 2048
    assert run.summary.sbuf_occupied_bytes_per_partition == most(run, "sbuf") == 2048


@given(drawn_kernels())
def test_what_is_occupied_is_the_largest_use_of_the_recording(kernel: Drawn) -> None:
    line = timeline(traced(kernel))
    usage = line.record().table("usage")
    for space in ("sbuf", "psum"):
        largest = int(np.max(usage[space][:], initial=0))
        assert line.summary[f"{space}_occupied_bytes_per_partition"] == largest
