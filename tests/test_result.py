"""Runs as users see them: `run`, `compile`, and what a Run tells."""

from __future__ import annotations

import re
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
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.quantities import in_nanoseconds


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@nki.jit
def product(lhs_t, rhs):
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=nl.load(lhs_t), moving=nl.load(rhs))
    nl.store(out, nl.copy(total))
    return out


@nki.jit
def unwritten(a):
    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)


@nki.jit
def uninitialised(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf))
    return out


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, np.float32).astype(dtype)


# -- run --------------------------------------------------------------------------------------------------------------


def test_a_run_has_outputs_target_and_no_findings() -> None:
    run = nki_lab.run(add, ones(4, 3), b=ones(4, 3), target="trn2")
    (total,) = run.outputs
    assert (total == 2).all()
    assert run.output is total
    assert run.target == "trn2"
    assert run.diagnostics == ()
    assert run.error is None
    assert run.ok


def test_several_outputs_are_a_tuple_and_keep_their_structure() -> None:
    def kernel(a):
        return {"twice": add(a, a), "rest": (a, [add(a, a)])}

    run = nki_lab.run(kernel, ones(4, 3))
    assert len(run.outputs) == 3
    assert run.output["twice"] is run.outputs[0]
    assert run.output["rest"][1][0] is run.outputs[2]


def test_a_kernel_without_result_has_no_outputs() -> None:
    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    a = ones(4, 3)
    run = nki_lab.run(kernel, a)
    assert run.outputs == ()
    assert run.output is None
    assert (a == 2).all()


def test_keywords_that_name_options_are_options() -> None:
    run = nki_lab.run(add, ones(4, 3), ones(4, 3), matmul_order="tile", precise=False)
    assert (run.program.options.matmul_order, run.program.options.precise) == ("tile", False)
    run = nki_lab.run(add, ones(4, 3), ones(4, 3), options=nki_lab.Options(slab_bytes=1 << 20), strict=True)
    assert (run.program.options.slab_bytes, run.program.options.strict) == (1 << 20, True)


def test_a_parameter_of_the_kernel_wins_over_an_option_of_its_name() -> None:
    seen = []

    def kernel(a, precise):
        seen.append(precise)
        return a

    run = nki_lab.run(kernel, ones(4, 3), precise=7)
    assert seen == [7]
    assert run.program.options.precise is True


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"target": "trn9"}, "NKI004"),
        ({"target": 2}, "NKI004"),
        ({"matmul_order": "quick"}, "NKI012"),
        ({"max_instructions": 0}, "NKI012"),
        ({"on_error": "ignore"}, "NKI012"),
        ({"grid": 5}, "NKI016"),
        ({"nonsense": 1}, "NKI002"),
    ],
)
def test_a_wrong_keyword_is_said(keywords: dict[str, Any], code: str) -> None:
    with pytest.raises(NkiError, match=code):
        nki_lab.run(add, ones(4, 3), ones(4, 3), **keywords)


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(TypeError, match="NKI001 the kernel is a str"):
        nki_lab.run("add", ones(4, 3))


def test_a_run_may_be_endless_only_to_a_point() -> None:
    def kernel(a):
        tile = nl.load(a)
        while True:
            nisa.memset(tile, 0.0)

    with pytest.raises(RuntimeError, match="NKI011"):
        nki_lab.run(kernel, ones(4, 3), max_instructions=100)


def test_a_grid_launches_as_the_bracket_does() -> None:
    def kernel(a):
        out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.program_id(0)], nl.load(a))
        return out

    assert nki_lab.run(kernel, ones(4, 3), grid=2, target="trn2").output.shape == (2, 4, 3)
    assert nki_lab.run(nki.jit(kernel)[2], ones(4, 3), target="trn2").ok


def test_a_reject_is_reported_and_refused_with_strict() -> None:
    run = nki_lab.run(uninitialised, ones(4, 3))
    assert [item.code for item in run.diagnostics] == ["NKI301"]
    assert len(run.outputs) == 1
    assert not run.ok
    with pytest.raises(NkiError, match="NKI301"):
        nki_lab.run(uninitialised, ones(4, 3), strict=True)


def test_advice_stops_nothing() -> None:
    run = nki_lab.run(unwritten, ones(4, 3), strict=True)
    assert [(item.code, item.severity) for item in run.diagnostics] == [("NKI308", "warning")]
    assert run.ok


@pytest.mark.parametrize(
    ("args", "code"), [((), "NKI009"), ((np.ones(3), np.ones(3)), "NKI001"), ((1,), "NKI003")], ids=["9", "1", "3"]
)
def test_a_fault_is_reported_where_asked_for(args: Any, code: str) -> None:
    run = nki_lab.run(add, *args, on_error="report")
    assert run.error is not None
    assert run.diagnostics[0].code == code
    assert run.diagnostics[0].file == __file__
    assert run.outputs == ()
    assert not run.ok
    assert code in str(run)
    assert "failed" in repr(run)


# -- what a run tells -------------------------------------------------------------------------------------------------


def test_times_are_seconds_by_stage() -> None:
    timings = nki_lab.run(add, ones(4, 3), ones(4, 3)).timings
    assert 0 < timings["specialize"] == timings.specialize < 60
    assert 0 < timings.numeric < 60
    assert timings.timing is not None
    assert 0 < timings.timing < 60


def test_the_summary_counts_what_the_program_does() -> None:
    summary = nki_lab.run(product, ones(64, 32, dtype=ml_dtypes.bfloat16), ones(64, 16), target="trn2",
                          on_error="report").summary  # fmt: skip
    assert summary["target"] == "trn2"
    summary = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2").summary
    assert summary["instructions"] == summary.instructions == 5
    assert summary.flops == 2 * 64 * 32 * 16
    assert summary.hbm_read_bytes == 4 * (64 * 32 + 64 * 16)
    assert summary.hbm_write_bytes == 4 * 32 * 16
    assert summary.dma_bytes == summary.hbm_read_bytes + summary.hbm_write_bytes


def test_the_summary_tells_times_and_shares() -> None:
    summary = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2").summary
    assert summary.makespan_ns == pytest.approx(summary.critical_path_ns + sum(summary.critical_wait_ns.values()))
    assert set(summary.engine_busy_ns) == {"tensor", "vector", "scalar", "gpsimd", "sync", "dma"}
    assert all(0 <= busy <= summary.makespan_ns for busy in summary.engine_busy_ns.values())
    assert summary.engine_busy_ns["tensor"] > 0 == summary.engine_busy_ns["gpsimd"]
    assert sum(summary.confidence.values()) == pytest.approx(1)
    assert summary.mfu == pytest.approx(summary.flops / (summary.makespan_ns * 78.64e3))
    assert summary.sbuf_peak_bytes_per_partition >= 4 * (32 + 16)
    assert summary.psum_peak_bytes_per_partition == 4 * 16
    assert summary.launch_ns == 0
    longer = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2", launch_overhead=True).summary
    assert longer.makespan_ns > summary.makespan_ns + longer.launch_ns > longer.launch_ns > 0


def test_what_a_failed_run_has_no_model_of_is_not_in_its_summary() -> None:
    failed = nki_lab.run(add, np.ones(3), np.ones(3), on_error="report")
    assert failed.summary.get("mfu") is None
    with pytest.raises(AttributeError, match="the summary has no makespan_ns; it has target, instructions"):
        failed.summary.makespan_ns


def test_transposes_are_no_flops() -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray((a.shape[1], a.shape[0]), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.transpose(nl.load(a)))
        return out

    assert nki_lab.run(kernel, ones(64, 32)).summary.flops == 0


def test_a_run_is_checked_against_arrays_or_a_function() -> None:
    run = nki_lab.run(add, ones(4, 3), ones(4, 3))
    assert run.check(np.full((4, 3), 2.0)) is run
    assert run.check([np.full((4, 3), 2.0)]) is run
    assert run.check(lambda a, b: a.astype(np.float64) + b) is run
    with pytest.raises(AssertionError, match="output 0 of add: 12 of 12 elements"):
        run.check(np.full((4, 3), 3.0))
    with pytest.raises(AssertionError, match="add has 1 outputs, the reference 2"):
        run.check([np.zeros((4, 3)), np.zeros((4, 3))])
    assert run.check(np.full((4, 3), 2.1), rtol=0.1) is run
    failed = nki_lab.run(add, np.ones(3), np.ones(3), on_error="report")
    with pytest.raises(TypeError, match="NKI001"):
        failed.check(np.ones(3))


def test_a_run_is_shown_as_text_and_as_a_table() -> None:
    run = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2")
    assert repr(run) == "<run of product on trn2: float32[32, 16]>"
    lines = str(run).splitlines()
    assert lines[0] == "product on trn2"
    assert re.fullmatch(r"  flops +65,536", lines[3])
    shown = run._repr_html_()
    assert "product on trn2" in shown
    assert shown.count("<tr>") == shown.count("</tr>") == len(lines) - 1
    assert re.search(r"makespan +[\d.]+ µs, [\d.]+ to [\d.]+; \d+ % of it work on the critical path", str(run))


def test_findings_are_shown_with_a_run_and_escaped_in_html() -> None:
    run = nki_lab.run(uninitialised, ones(4, 3))
    assert repr(run) == "<run of uninitialised on trn3: float32[4, 3]; 1 error>"
    assert "error: NKI301" in str(run)
    shown = run._repr_html_()
    assert "NKI301" in shown
    assert "--&gt;" in shown


# -- recordings -------------------------------------------------------------------------------------------------------


def test_a_run_is_saved_and_opened_with_all_that_it_told(tmp_path: Path) -> None:
    run = nki_lab.run(uninitialised, ones(4, 3), target="trn2")
    assert run.save(tmp_path / "run.nkirec") == tmp_path / "run.nkirec"
    opened = nki_lab.open(str(tmp_path / "run.nkirec"))
    assert (opened.name, opened.target) == ("uninitialised", "trn2")
    assert opened.summary == run.summary
    assert opened.summary.makespan_ns == run.summary.makespan_ns
    assert opened.recording.hash() == run.recording.hash()
    assert opened.report() == run.report() == str(opened)
    assert [(item.code, item.message, item.span) for item in opened.diagnostics] == [
        (item.code, item.message, item.span) for item in run.diagnostics
    ]
    assert repr(opened) == "<saved run of uninitialised on trn2: 1 instruction; 1 error>"


def test_exports_of_an_opened_run_are_those_of_the_run(tmp_path: Path) -> None:
    run = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2")
    opened = nki_lab.open(run.save(tmp_path / "run.nkirec"))
    for kind, suffix in (("to_perfetto", "pftrace"), ("to_html", "html")):
        first, second = (getattr(item, kind)(tmp_path / f"{n}.{suffix}") for n, item in enumerate((run, opened)))
        assert first.stat().st_size > 1000
        assert re.sub(rb"p\d{4,}", b"", first.read_bytes()) == re.sub(rb"p\d{4,}", b"", second.read_bytes())


def test_a_profile_of_neuron_explorer_opens_as_a_run(tmp_path: Path) -> None:
    run = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2")
    opened = nki_lab.open(run.to_explorer(tmp_path / "profile"))
    assert opened.target == "trn2"
    assert {"dma read", "nc_matmul"} <= set(opened.recording.texts("ops", "name"))

    def rows(recording: Recording) -> list[tuple[str, int, int, int]]:
        """Lane, begin, and duration in the nanoseconds that a profile keeps, and line; one of a transfer it has not."""
        found = [recording.row(number) for number in range(len(recording))]
        base = in_nanoseconds(min(row.start for row in found))
        times = [(in_nanoseconds(row.start), in_nanoseconds(row.start + row.duration)) for row in found]
        return sorted(
            (row.lane, start - base, end - start, 0 if row.lane.startswith("dma") else row.line)
            for row, (start, end) in zip(found, times, strict=True)
        )

    assert rows(opened.recording) == rows(run.recording)
    assert "Neuron Explorer profile" in opened.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert opened.report().startswith("product on trn2: ")


def test_saving_again_replaces_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "run.nkirec"
    nki_lab.run(add, ones(4, 3), ones(4, 3)).save(place)
    nki_lab.run(product, ones(64, 32), ones(64, 16)).save(place)
    assert nki_lab.open(place).name == "product"


def test_a_run_that_failed_has_no_recording_but_a_report(tmp_path: Path) -> None:
    failed = nki_lab.run(add, np.ones(3), np.ones(3), on_error="report")
    for act in (failed.save, failed.to_html, failed.to_perfetto, failed.to_explorer, failed.to_csv):
        with pytest.raises(NkiError, match="NKI023 the run of add has no recording"):
            act(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    assert "NKI001" in failed.report()


def test_a_report_tells_what_holds_the_run_back() -> None:
    run = nki_lab.run(product, ones(64, 32), ones(64, 16), target="trn2")
    first, *rest = run.report().splitlines()
    assert re.match(r"product on trn2: [\d.]+ µs, [\d.]+ to [\d.]+, 5 instructions$", first)
    assert [line for line in rest if line.startswith("Line ") and "costs most" in line]


def test_the_diagnostics_of_a_run_go_with_its_recording() -> None:
    run = nki_lab.run(unwritten, ones(4, 3))
    assert [item["code"] for item in run.recording.summary["diagnostics"]] == ["NKI308"]
    assert run.recording.summary["kernel"] == "unwritten"
    assert run.recording is run.recording
    assert nki_lab.run(add, ones(4, 3), ones(4, 3), power_ramp=False).recording.summary["options"] == {
        "power_ramp": False
    }


# -- compile ----------------------------------------------------------------------------------------------------------


def test_a_program_is_compiled_from_specs() -> None:
    program = nki_lab.compile(add, nki_lab.spec((4, 3), "bfloat16"), b=nki_lab.spec([4, 3], nl.bfloat16), target="trn2")
    names = [op.variant.instruction.name for op in program.ops()]
    assert names == ["dma_copy", "dma_copy", "tensor_tensor", "dma_copy"]
    assert program.arch.target == "trn2"
    assert program.text().startswith("program add target=NeuronCore-v3")


def test_compiling_takes_constants_and_options() -> None:
    def kernel(a, times, scale=1.0):
        for _ in range(times):
            nisa.memset(nl.ndarray(a.shape, dtype=a.dtype), scale)

    program = nki_lab.compile(kernel, nki_lab.spec((4, 3), "float32"), 3, scale=2.0, precise=False)
    assert len(program) == 3
    assert program.options.precise is False
    with pytest.raises(NkiError, match="NKI016"):
        nki_lab.compile(kernel, nki_lab.spec((4, 3), "float32"), 3, grid=7)


@pytest.mark.parametrize(
    ("grid", "said"),
    [(2, ""), ((2,), ""), (3, "NKI016 add[3] asks for 3"), ((2, 2), "NKI016 add is launched with [2, 2]"),
     ("2", "NKI016 add is launched with ['2']"), ((2.5,), "NKI016 add is launched with [2.5]")],
)  # fmt: skip
def test_a_check_takes_the_grids_of_a_run(grid: object, said: str) -> None:
    tensors = [nki_lab.spec((4, 3), "float32")] * 2
    try:
        found = [
            item
            for item in nki_lab.check(function=add, args=tensors, grid=grid, target="trn2")
            if item.severity == "error"
        ]
    except NkiError as error:
        found = list(error.diagnostics)
    assert " ".join(f"{item.code} {item.message}" for item in found).startswith(said)
    assert bool(found) == bool(said)


def test_a_program_carries_what_was_found_while_it_was_compiled() -> None:
    program = nki_lab.compile(uninitialised, nki_lab.spec((4, 3), "float32"))
    assert [item.code for item in program.diagnostics] == ["NKI301"]
    assert nki_lab.compile(add, *[nki_lab.spec((4, 3), "float32")] * 2).diagnostics == ()


@pytest.mark.parametrize("shape", [(), (0, 3), (4, -1), "43", (4, 2.5), (True, 3), None], ids=str)
def test_a_spec_has_a_shape_that_tensors_have(shape: Any) -> None:
    with pytest.raises(AssertionError, match="NKI307"):
        nki_lab.spec(shape, "float32")


def test_a_spec_has_a_dtype_of_nki() -> None:
    assert repr(nki_lab.spec(7, "float16")) == "float16[7]"
    assert nki_lab.spec((4, np.int64(3)), nl.bfloat16) == nki_lab.spec([4, 3], "bfloat16")
    with pytest.raises(ValueError, match="NKI012"):
        nki_lab.spec((4, 3), "float64")


# -- check ------------------------------------------------------------------------------------------------------------


def test_a_file_is_checked_without_being_run(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(
        "import nki\nimport nki.language as nl\nraise SystemExit('this is not run')\n\n"
        "@nki.jit\ndef kernel(a):\n    sizes = [n for n in a.shape]\n    return a\n",
        encoding="utf-8",
    )
    found = nki_lab.check(file, target="trn2")
    assert "NKI103" in [item.code for item in found]
    assert all(item.file == str(file) for item in found)
