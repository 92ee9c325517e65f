"""Times without values: the same ones as of a run, the same ones every time, and clean refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError

ROOT = Path(__file__).parents[1]
LHS, RHS = nki_lab.spec((256, 128), "bfloat16"), nki_lab.spec((256, 1024), "bfloat16")


@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    for n in range(b.shape[1] // 512):
        total = nl.ndarray((a.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
        for k in range(a.shape[0] // 128):
            stationary = nl.load(a[nl.ds(k * 128, 128)])
            moving = nl.load(b[nl.ds(k * 128, 128), nl.ds(n * 512, 512)])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        nl.store(out[:, nl.ds(n * 512, 512)], nl.exp(nl.copy(total)))
    return out


@nki.jit
def hoarding(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for _ in range(40):
        tiles.append(nl.load(x))  # noqa: PERF401 - comprehensions are no part of the language
    total = nl.load(x)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nl.store(out, total)
    return out


def arrays(dtype: Any = ml_dtypes.bfloat16) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return tuple(rng.standard_normal(shape).astype(np.float32).astype(dtype) for shape in ((256, 128), (256, 1024)))  # type: ignore[return-value]


# -- what a profile is ------------------------------------------------------------------------------------------------


def test_a_profile_is_a_run_without_outputs() -> None:
    done = nki_lab.profile(product, LHS, RHS, target="trn2")
    assert isinstance(done, nki_lab.Run)
    assert (done.name, done.target, done.outputs, done.output, done.error) == ("product", "trn2", (), None, None)
    assert done.ok
    assert done.diagnostics == ()
    assert done.timings.timing is not None
    assert done.timings.timing > 0 < done.timings.specialize
    assert repr(done) == "<run of product on trn2: no outputs>"


def test_a_profile_has_the_times_of_a_run() -> None:
    done, ran = nki_lab.profile(product, LHS, RHS, target="trn2"), nki_lab.run(product, *arrays(), target="trn2")
    assert done.summary == ran.summary
    for column in ("start", "duration", "ready", "stall", "lane", "after"):
        assert np.array_equal(done.recording.rows[column][:], ran.recording.rows[column][:])
    assert done.report() == ran.report()


def test_arrays_count_by_their_shape_and_constants_by_their_value() -> None:
    def kernel(x, factor, times=1):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(times):
            tile = nl.multiply(tile, factor)
        nl.store(out, tile)
        return out

    x = np.ones((8, 8), np.float32)
    few, many = (nki_lab.profile(kernel, x, 2.0, times=times, target="trn2") for times in (1, 9))
    assert many.summary.instructions == few.summary.instructions + 8
    assert many.summary.makespan_ns > few.summary.makespan_ns


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_every_target_has_times(target: str) -> None:
    done = nki_lab.profile(product, LHS, RHS, target=target)
    assert done.summary.target == target
    assert done.summary.makespan_ns > max(done.summary.engine_busy_ns.values()) > 0


def test_a_grid_is_profiled_as_it_is_launched() -> None:
    def kernel(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.program_id(0)], nl.load(x))
        return out

    spec = nki_lab.spec((8, 8), "float32")
    assert nki_lab.profile(kernel, spec, grid=2, target="trn2").summary.instructions == 4
    assert nki_lab.profile(nki.jit(kernel)[2], spec, target="trn2").summary.instructions == 4


# -- the same every time ----------------------------------------------------------------------------------------------

SCRIPT = """
import nki_lab
nki_lab.activate()
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(4):
        tile = nl.load(x[nl.ds(128 * row, 128)])
        nl.store(out[nl.ds(128 * row, 128)], nl.exp(nl.add(tile, nl.max(tile, axis=1, keepdims=True))))
    return out

done = nki_lab.profile(kernel, nki_lab.spec((512, 256), "float32"), target="trn2")
print(done.recording.hash(), done.summary.makespan_ns)
"""


def test_equal_input_gives_equal_recordings_in_any_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    said = set()
    for seed in ("0", "77"):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        )
        said.add(done.stdout)
    assert len(said) == 1
    assert len(said.pop().split()[0]) == 64


def test_equal_input_gives_equal_recordings_in_one_process() -> None:
    first, second = (nki_lab.profile(product, LHS, RHS, target="trn2").recording for _ in range(2))
    assert first is not second
    assert first.hash() == second.hash()
    other = nki_lab.profile(product, LHS, RHS, target="trn3").recording
    assert other.hash() != first.hash()


TIMING_OPTIONS = ("array_tiles", "bandwidth_sharing", "port_conflicts", "table_loads", "stationary_reuse", "power_ramp",
                  "launch_overhead")  # fmt: skip


@pytest.mark.parametrize("option", TIMING_OPTIONS)
def test_values_do_not_depend_on_options_of_time(option: str) -> None:
    given = arrays()
    default = getattr(nki_lab.Options(), option)
    plain = nki_lab.run(product, *given, target="trn2")
    changed = nki_lab.run(product, *given, target="trn2", **{option: not default})
    assert np.array_equal(plain.outputs[0], changed.outputs[0])
    assert changed.program.options != plain.program.options


def test_options_of_time_change_times() -> None:
    def makespan(**options: bool) -> float:
        return float(nki_lab.profile(product, LHS, RHS, target="trn2", **options).summary.makespan_ns)

    assert makespan(launch_overhead=True) > makespan() >= makespan(table_loads=False)
    assert makespan(bandwidth_sharing=False) <= makespan()


# -- what cannot be profiled, or should not run --------------------------------------------------------------------


def test_a_kernel_that_needs_too_much_memory_is_timed_with_a_finding() -> None:
    done = nki_lab.profile(hoarding, nki_lab.spec((128, 2048), "float32"), target="trn2")
    (found,) = done.diagnostics
    assert (found.code, found.outcome, found.severity) == ("NKI315", "reject", "error")
    assert "229376" in found.message
    assert found.file == __file__
    assert len(found.related) >= 2
    assert all("8192 bytes" in item.message for item in found.related[:2])
    assert not done.ok
    assert done.summary.makespan_ns > 0
    assert done.summary.sbuf_peak_bytes_per_partition == 41 * 8192
    assert max(done.recording.table("usage")["sbuf"][:]) > 229376
    assert "error: NKI315" in done.report()
    with pytest.raises(NkiError, match="NKI315"):
        nki_lab.profile(hoarding, nki_lab.spec((128, 2048), "float32"), target="trn2", strict=True)


def test_a_kernel_that_looks_at_values_is_refused() -> None:
    def kernel(x):
        if nl.load(x)[0, 0] > 0:
            pass

    with pytest.raises(NkiError, match="NKI017"):
        nki_lab.profile(kernel, nki_lab.spec((4, 4), "float32"), target="trn2")


@pytest.mark.parametrize(
    ("keywords", "code"),
    [({"target": "trn9"}, "NKI004"), ({"target": ""}, "NKI004"), ({"grid": 9, "target": "trn2"}, "NKI016"),
     ({"power_ramp": "loud", "max_instructions": 0}, "NKI012"), ({"factor": 2}, "NKI002")],
    ids=str,
)  # fmt: skip
def test_a_wrong_keyword_is_said(keywords: dict[str, Any], code: str) -> None:
    with pytest.raises(NkiError, match=code):
        nki_lab.profile(product, LHS, RHS, **keywords)


def test_missing_arguments_and_what_is_no_kernel_are_said() -> None:
    with pytest.raises(TypeError, match="NKI003"):
        nki_lab.profile(product, LHS)
    with pytest.raises(TypeError, match="NKI001"):
        nki_lab.profile("product", LHS)
