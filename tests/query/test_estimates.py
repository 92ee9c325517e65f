"""Estimates of kernels are those of a profile, are recalled while nothing changes, and say why there is none."""

from __future__ import annotations

from typing import Any

import pytest

import nki_lab
from nki_lab import query
from nki_lab.call_records.store import CallRecord
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Budget, Stopped
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.query import estimates, lenses, running
from nki_lab.query.estimate import Estimate
from nki_lab.source import facts_of
from nki_lab.source.module import ModuleSource

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n\n\n"
PLAIN = """@nki.jit
def k(x, scale=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0] // 128):
        nisa.dma_copy(dst=tile, src=x[i * 128 : i * 128 + 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=scale)
        nisa.dma_copy(dst=out[i * 128 : i * 128 + 128, :], src=tile)
    return out


k(np.zeros((512, 512), np.float32))
"""


def request(**more: Any) -> query.EvaluationRequest:
    """An evaluation for trn2."""
    return query.EvaluationRequest(arch=arch_of("trn2"), **more)


def estimate(text: str, name: str = "k", **more: Any) -> Estimate:
    """The estimate of a kernel of a module."""
    document = query.Document("/project/k.py")
    document.update(text)
    found = document.estimate(name, request(**more))
    assert found is not None
    return found


def test_it_is_the_profile_s() -> None:
    found = estimate(HEAD + PLAIN)
    names: dict[str, Any] = {}
    nki_lab.activate()
    exec(HEAD + PLAIN.partition("\n\n\nk(")[0], names)
    run = nki_lab.profile(names["k"], nki_lab.spec((512, 512), "float32"), target="trn2")
    assert found.time == run.summary.makespan_ns
    assert found.interval == tuple(run.summary.makespan_interval_ns)
    assert found.sbuf[0] == run.summary.sbuf_peak_bytes_per_partition
    assert found.psum[0] == run.summary.psum_peak_bytes_per_partition
    assert found.signature == "k(float32[512,512])"
    assert found.arguments == "rng.standard_normal((512, 512)).astype(nl.float32)"
    shown = {item.line + 6: item.busy / 1000 for item in digest(run.recording).lines if item.busy}
    assert sorted(found.lines.values()) == sorted(shown.values()) or set(found.lines) == set(shown)


def test_it_is_recalled_and_moves_with_its_lines() -> None:
    document = query.Document("/project/k.py")
    document.update(HEAD + PLAIN)
    first = document.estimate("k", request())
    document.update(HEAD + "# a line more\n" + PLAIN)

    def stop() -> bool:
        raise AssertionError("it is evaluated again")

    again = document.estimate("k", request(budget=Budget(stop=lambda: False)))
    assert first is not None
    assert again is not None
    assert again.time == first.time
    assert {line + 1: time for line, time in first.lines.items()} == again.lines
    document.update(HEAD + PLAIN.replace("nl.exp", "nl.tanh").replace("(512, 512)", "(256, 512)"))
    other = document.estimate("k", request())
    assert other is not None
    assert other.time < first.time


def test_it_can_be_stopped() -> None:
    with pytest.raises(Stopped):
        estimate(HEAD + PLAIN.replace("(512, 512)", "(51200, 512)"), budget=Budget(stop=lambda: True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PLAIN.partition("\n\n\nk(")[0], "its shapes are not known"),
        (PLAIN.replace("src=tile)", "src=tile[0:64, :])"), "NKI203 stops it"),
        (PLAIN.replace("(128, 512), dtype", "(128, 120000), dtype").replace("dst=tile,", "dst=tile[:, 0:512],"), ""),
        (PLAIN.replace("x.shape[0] // 128", "len(open('f').read())"), "not all of it can be evaluated"),
    ],
)
def test_without_one_it_says_why(text: str, reason: str) -> None:
    found = estimate(HEAD + text)
    assert found.reason
    assert reason in found.reason
    assert not found.time
    assert lenses.memory_title(found) == "no peaks of SBUF and PSUM"


def test_a_recorded_launch_gives_the_shapes_that_the_source_does_not() -> None:
    def call(rows: int, target: str, *, inner: bool = False) -> CallRecord:
        arguments = {"x": {"tensor": f"float32[{rows},512]"}}
        return CallRecord(arguments=arguments, target=target, inner=inner)

    stale = CallRecord(arguments={"gone": 1}, target="trn2")
    calls = (call(256, "trn1"), call(128, "trn2", inner=True), stale, call(384, "trn2"))
    found = estimate(HEAD + PLAIN.partition("\n\n\nk(")[0], recorded={"k": calls})
    assert found.signature == "k(x=float32[384,512])"
    assert found.time > 0
    other = estimate(HEAD + PLAIN.partition("\n\n\nk(")[0], recorded={"k": calls[:3]})
    assert other.signature == "k(x=float32[256,512])"


def test_a_large_program_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates, "MOST_INSTRUCTIONS", 11)
    assert "12 instructions" in estimate(HEAD + PLAIN).reason


def test_loops_of_the_device_are_timed_where_their_trips_are_known() -> None:
    text = """@nki.jit
def k(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def body(i):
        nisa.activation(dst=tile, op=nl.exp, data=tile)

    nl.fori_loop(0, TRIPS, body)
    nisa.dma_copy(dst=out, src=tile)
    return out


k(np.zeros((128, 512), np.float32))
"""
    few, many = (estimate(HEAD + text.replace("TRIPS", trips)) for trips in ("4", "40"))
    assert not few.reason
    assert many.time > few.time
    assert "iterations" in estimate(HEAD + text.replace("TRIPS", "400000")).reason


def test_a_launch_on_two_cores_is_called_so() -> None:
    text = PLAIN.replace("k(np.zeros((512", "k[2](np.zeros((512").replace("def k(x, scale=2.0)", "def k(x)")
    found = estimate(HEAD + text.replace(", scale=scale", ""))
    assert found.arguments.endswith("grid=(2,)")


def test_a_module_without_the_kernel_has_none() -> None:
    document = query.Document("/project/k.py")
    document.update(HEAD + PLAIN)
    assert document.estimate("other", request()) is None
    assert query.Document("/project/empty.py").estimate("k", request()) is None


def test_lenses_stand_over_the_last_kernel_of_a_name() -> None:
    facts = facts_of(ModuleSource.parse(HEAD + PLAIN + "\n\n" + PLAIN, "/project/k.py"))
    assert list(lenses.kernels(facts)) == ["k"]
    assert lenses.kernels(facts)["k"].line > 20
    assert lenses.extents(facts)["k"][0] == lenses.kernels(facts)["k"].line - 1


def test_examples_are_given_for_needed_parameters() -> None:
    facts = facts_of(ModuleSource.parse("def f(a, b=1, *rest, c, d=2, **more):\n    pass\n", "/project/k.py"))
    names = [part.partition("=")[0] for part in running.example_arguments(facts, "f").split(", ") if "rng" in part]
    assert names == ["a", "c"]


def test_titles_have_the_format_of_reports() -> None:
    found = Estimate(
        kernel="k", target="trn2", time=45137.9, interval=(36_412.3, 54_371.0), sbuf=(25600, 196608), psum=(0, 16384)
    )
    assert lenses.time_title(found) == "≈ 45.14 µs, 36.4 to 54.4 on trn2"
    assert lenses.memory_title(found) == "SBUF 25 KiB of 192 KiB (13 %) · PSUM 0 B of 16 KiB (0 %) per partition"
