"""Two recordings side by side: differences add up, mirror, and vanish for equal runs; edits are named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.comparison import Compared, compare
from nki_lab.comparison.amounts import Amount
from nki_lab.export.comparison.sentence import change_text, headline, notes, signed_share
from nki_lab.export.comparison.text import report
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.quantities import THIN
from nki_lab.timeline.timeline import made
from tests import recordings
from tests.calls import execute
from tests.comparison.versions import COMPUTE, KERNEL, SCALED, edited, profiled
from tests.draws import Drawn
from tests.programs import draw_program
from tests.verdicts import loaded

NS = {"ns": 1, "µs": 1_000, "ms": 1_000_000}


def amounts(found: Compared) -> dict[Any, Amount]:
    """Every amount of a comparison by what it is of."""
    out: dict[Any, Amount] = {"latency": found.latency}
    out |= {("work", item.name): item for item in found.work}
    out |= {("memory", item.name): item for item in found.memory}
    for engine in found.engines:
        out |= {(engine.kind, item.name): item for item in (engine.busy, engine.waiting, engine.utilisation)}
    for stall in found.stalls:
        out |= {("stall", stall.name, item.name): item for item in (stall.critical, stall.lanes)}
    for line in found.lines:
        place = frozenset() if line.place is None else frozenset(
            {(line.place.file, line.place.line), (line.place.other_file, line.place.other_line)}
        )  # fmt: skip
        out |= {(place, item.name): item for item in (line.rows, line.busy, line.critical, line.share)}
    return out


def check_sums(found: Compared, before: Recording, after: Recording) -> None:
    """Check that parts add up to the whole, on both sides."""
    for side, run in (("before", before), ("after", after)):
        times = digest(run)
        path = sum(times.work.values()) + sum(times.waits.values())
        assert sum(getattr(line.critical, side) for line in found.lines) == path
        assert sum(getattr(line.rows, side) for line in found.lines) == len(run)
        assert sum(getattr(line.busy, side) for line in found.lines) == sum(lane.busy for lane in times.lanes)
        parts = sum(getattr(item, side) for item in found.work)
        assert parts + sum(getattr(item.critical, side) for item in found.stalls) == path
    for line in found.lines:
        assert line.work + sum(line.waits.values()) == line.critical.change


def check_pairs(found: Compared, before: Recording, after: Recording) -> None:
    """Check that each row is in one pair, or said to have no partner."""
    for paired, alone, run in (
        (found.rows.before, found.rows.only_before, before),
        (found.rows.after, found.rows.only_after, after),
    ):
        assert sorted([*paired.tolist(), *alone.tolist()]) == list(range(len(run)))


def check_mirrored(one: Compared, other: Compared) -> None:
    """Check that two comparisons are of the same runs in opposite order."""
    mine, others = amounts(one), amounts(other)
    assert mine.keys() == others.keys()
    for name, amount in mine.items():
        assert (amount.before, amount.after) == (others[name].after, others[name].before)
        assert amount.within_error == others[name].within_error
    assert set(zip(one.rows.before.tolist(), one.rows.after.tolist(), strict=True)) == set(
        zip(other.rows.after.tolist(), other.rows.before.tolist(), strict=True)
    )


@settings(deadline=None, max_examples=30)
@given(recordings.drawn())
def test_a_recording_does_not_differ_from_itself(run: Recording) -> None:
    found = compare(run, run)
    assert found.is_equal
    assert all(item.change in (0, None) for item in amounts(found).values())
    assert (found.rows.before == found.rows.after).all()
    assert len(found.rows.before) == len(run)
    assert headline(found).startswith("No difference")


@settings(deadline=None, max_examples=30)
@given(recordings.drawn(), recordings.drawn())
def test_parts_add_up_and_exchanging_the_recordings_changes_signs(before: Recording, after: Recording) -> None:
    found = compare(before, after)
    check_sums(found, before, after)
    check_pairs(found, before, after)
    check_mirrored(found, compare(after, before))
    assert report(found)


@st.composite
def drawn_kernels(draw: Any) -> tuple[Recording, Recording]:
    choice = Drawn(lambda low, high: draw(st.integers(low, high)))
    arch = arch_of(draw(st.sampled_from(["trn1", "trn2", "trn3"])))
    one, other = (
        made(execute(draw_program(choice, arch, exact=False, length=8), final=False).program) for _ in range(2)
    )
    return one.record(), other.record()


@settings(deadline=None, max_examples=8)
@given(drawn_kernels())
def test_changes_of_drawn_kernels_add_up_to_that_of_the_latency(pair: tuple[Recording, Recording]) -> None:
    before, after = pair
    found = compare(before, after)
    check_sums(found, before, after)
    check_pairs(found, before, after)
    assert sum(line.critical.change or 0 for line in found.lines) == found.latency.change
    assert compare(before, before).is_equal
    assert_adds_up(headline(found))


# -- edits -------------------------------------------------------------------------------------------------------------


def shown(text: str) -> int:
    """A duration as a sentence shows it, in nanoseconds."""
    value, unit = text.rsplit(" ", 1)
    return round(float(value.replace("\u202f", "")) * NS[unit])


def assert_adds_up(said: str) -> None:
    """Check that the amounts of a sentence's clauses are the change that it begins with."""
    found = re.match(
        r"(?P<total>[\d.\u202f]+ (ns|µs|ms)) (?P<way>slower|faster)(?: \([^)]*\))?(?:: (?P<rest>.*))?\.$", said
    )
    if found is None:
        assert said.startswith(("No difference", "The same latency")) or "different kernels" in said, said
        return
    rest = re.sub(r"`[^`]*`", "", found["rest"] or "")
    total = 0
    parts = [part for part in rest.split("; ") if part and "the error" not in part and "'s error" not in part]
    for part in parts:
        amount = shown(re.findall(r"[\d.\u202f]+ (?:ns|µs|ms)", part)[0].strip())
        total += -amount if re.search(r" less\b", part) else amount
    sign = 1 if found["way"] == "slower" else -1
    assert not parts or total == sign * shown(found["total"]), said


def difference(after: str, before: str = KERNEL, **options: Any) -> Compared:
    one, other = profiled(before, **options).recording, profiled(after, **options).recording
    found = compare(one, other)
    check_sums(found, one, other)
    check_pairs(found, one, other)
    check_mirrored(found, compare(other, one))
    assert sum(line.critical.change or 0 for line in found.lines) == found.latency.change
    assert_adds_up(headline(found))
    return found


def line_of(found: Compared, text: str) -> Any:
    (line,) = (item for item in found.lines if item.place and text in (item.place.other_text or item.place.text))
    return line


def test_a_comment_above_the_kernel_changes_nothing() -> None:
    found = difference("# a comment\n\n" + KERNEL)
    assert found.is_equal
    assert not found.edits
    assert line_of(found, "tensor_scalar").place.other_line == line_of(found, "tensor_scalar").place.line + 2


def test_another_tile_size_is_named_and_iterations_that_went_are_counted() -> None:
    found = difference(edited("TILE = 512", "TILE = 1024"))
    assert (found.latency.change or 0) < 0
    assert headline(found).count("faster") == 1
    assert notes(found)[0] == "Edited: line 5 `TILE = 512` → `TILE = 1024`."
    assert len(found.rows.before) == 12
    assert len(found.rows.only_before) == 12
    assert len(found.rows.only_after) == 0
    transfers = next(item for item in found.memory if item.name == "dma_transfers")
    assert (transfers.before, transfers.after) == (16, 8)


def test_an_additional_copy_is_named_with_its_line() -> None:
    copy = "        nisa.dma_copy(dst=out[:, i * TILE:(i + 1) * TILE], src=x)\n"
    found = difference(edited(COMPUTE, copy + COMPUTE))
    line = line_of(found, "src=x")
    assert line.place.state == "only after"
    assert (line.rows.before, line.rows.after) == (0, 8)
    assert (found.latency.change or 0) > 0
    assert notes(found)[0] == f"Edited: line 15 `{copy.strip()}` is new."
    assert len(found.rows.only_after) == 8
    assert len(found.rows.before) == 24


def test_a_transfer_that_is_split_is_paired_and_waits_longer() -> None:
    whole = "        nisa.dma_copy(dst=x, src=a[:, i * TILE:(i + 1) * TILE])\n"
    part = "            nisa.dma_copy(dst=x[:, k * 8:(k + 1) * 8], src=a[:, i * TILE + k * 8:i * TILE + (k + 1) * 8])\n"
    found = difference(edited(whole, "        for k in range(TILE // 8):\n" + part))
    line = line_of(found, "k * 8")
    assert line.place.state == "changed"
    assert line.rows.after == 64 * line.rows.before
    assert (found.latency.change or 0) > 0
    assert line.critical.change > 0
    sizes = next(item for item in found.memory if item.name == "dma_descriptor_bytes")
    assert sizes.change < 0
    assert any("only in the second" in note for note in notes(found))


def test_another_engine_is_seen_in_the_engines_busy_times() -> None:
    call = "nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0"
    found = difference(edited(call + ")", call + ", engine=nisa.scalar_engine)"))
    busy = {item.kind: item.busy for item in found.engines}
    assert busy["vector"].after == 0
    assert busy["scalar"].before == 0
    assert busy["scalar"].after
    assert len(found.rows.before) == 24
    assert line_of(found, "scalar_engine").place.state == "changed"


def test_fewer_buffers_wait_for_memory() -> None:
    tile = "        x = nl.ndarray((128, TILE), dtype=a.dtype, buffer=nl.sbuf)\n"
    once = "    x = nl.ndarray((128, TILE), dtype=a.dtype, buffer=nl.sbuf)\n"
    loop = "    for i in range(a.shape[1] // TILE):\n"
    found = difference(edited(loop + tile, once + loop))
    assert (found.latency.change or 0) > 0
    waiting = {item.kind: item.waiting for item in found.engines}
    assert (waiting["vector"].change or 0) > 10_000_000
    assert "moved" in notes(found)[0]
    peak = next(item for item in found.memory if item.name == "sbuf_occupied_bytes_per_partition")
    assert peak.change < 0
    assert len(found.rows.before) == 24


def test_figures_are_those_of_the_summary() -> None:
    run, other = profiled(KERNEL), profiled(edited("TILE = 512", "TILE = 256"))
    found = compare(run.recording, other.recording)
    for item in found.engines:
        assert item.busy.before == pytest.approx(1000 * run.summary.engine_busy_ns[item.kind])
        assert item.busy.after == pytest.approx(1000 * other.summary.engine_busy_ns[item.kind])
    memory = {item.name: (item.before, item.after) for item in found.memory}
    for name in ("sbuf_peak_bytes_per_partition", "hbm_read_bytes", "dma_bytes", "mbu"):
        assert memory[name] == (run.summary[name], other.summary[name])
    assert found.latency.after == 1000 * other.summary.makespan_ns
    assert found.before.interval == pytest.approx([1000 * bound for bound in run.summary.makespan_interval_ns])


def test_targets_are_told() -> None:
    found = compare(profiled(KERNEL, target="trn1").recording, profiled(KERNEL, target="trn2").recording)
    assert "Targets: trn1 and trn2." in notes(found)
    assert len(found.rows.before) == 24


def test_one_core_and_two_pair_by_line() -> None:
    two = edited("for i in range(a.shape[1] // TILE):",
                 "for i in range(nl.program_id(0), a.shape[1] // TILE, nl.num_programs(0)):")  # fmt: skip
    module = loaded(Path("version_cores.py"), two)
    spec = nki_lab.spec((128, 4096), "float32")
    one, other = (nki_lab.profile(module.scaled[cores], spec, target="trn2").recording for cores in (1, 2))
    found = compare(one, other)
    assert "Cores: 1 and 2." in notes(found)
    assert len(found.rows.only_before) == len(found.rows.only_after) == 0
    assert [item.utilisation.after <= 1 for item in found.engines]


@pytest.mark.parametrize("turned", [False, True])
def test_transfers_of_a_profile_without_their_lines_are_neither_new_nor_gone(tmp_path: Path, turned: bool) -> None:
    run = profiled(KERNEL)
    pair = (run.recording, nki_lab.open(run.to_explorer(tmp_path / "profile")).recording)
    found = compare(*reversed(pair)) if turned else compare(*pair)
    assert all(item.rows.before == item.rows.after for item in found.lines)
    (placeless,) = [item for item in found.lines if item.place is None]
    assert placeless.rows.before == 16  # the transfers
    assert sum(item.critical.change or 0 for item in found.lines) == found.latency.change
    assert any("does not tell the lines of its transfers" in note for note in notes(found))
    assert "without line" not in headline(found)
    # What a simulated run counts in its summary, a profile shows over time.
    (peak,) = [item for item in found.memory if item.name == "sbuf_occupied_bytes_per_partition"]
    assert peak.before == peak.after


def test_runs_that_tell_the_lines_of_their_transfers_are_compared_by_them() -> None:
    found = compare(profiled(KERNEL).recording, profiled(edited("operand0=2.0", "operand0=3.0")).recording)
    assert not found.placeless
    assert sum(item.rows.before for item in found.lines if item.place is None) == 0


def test_different_kernels_are_compared_by_time_only() -> None:
    other = """

@nki.jit
def summed(a):
    total = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    rows = nl.load(a)
    nl.store(total, nl.sum(rows, axis=1, keepdims=True))
    return total
"""
    found = compare(
        profiled(KERNEL).recording, profiled(KERNEL[: KERNEL.index("TILE")] + other, name="summed").recording
    )
    assert not found.same_kernel
    assert not found.lines
    assert not found.edits
    assert headline(found).startswith("scaled and summed are different kernels, compared by time: ")
    assert "line" not in headline(found)


def test_two_kernels_of_one_file_are_different_ones() -> None:
    text = KERNEL + SCALED.replace("scaled", "doubled").replace("nl.multiply, operand0=2.0", "nl.add, operand0=1.0")
    pair = [profiled(text, name=name, file="one_file.py").recording for name in ("scaled", "doubled")]
    found = compare(*pair)
    assert not found.same_kernel
    assert headline(found).startswith("scaled and doubled are different kernels, compared by time: ")
    empty = Recording({}, {"kernel": "nothing"})
    assert not compare(empty, pair[0]).same_kernel


def test_a_renamed_kernel_is_the_same_one() -> None:
    found = compare(profiled(KERNEL).recording, profiled(edited("def scaled", "def doubled"), name="doubled").recording)
    assert found.same_kernel
    assert len(found.rows.before) == 24


def test_differences_within_the_error_are_said() -> None:
    found = compare(profiled(KERNEL).recording, profiled(KERNEL, columns=4608).recording)
    assert found.latency.within_error is True
    assert headline(found).endswith("; within the error of the prediction.")
    twice = compare(profiled(KERNEL).recording, profiled(KERNEL, columns=16384).recording)
    assert twice.latency.within_error is False
    assert headline(twice).endswith("; more than the prediction's error.")


def test_an_empty_run_is_told() -> None:
    run, empty = profiled(KERNEL).recording, Recording({"rows": {
        name: [] for name in ("start", "duration", "ready", "op", "lane")
    }})  # fmt: skip
    for pair in ((run, empty), (empty, run), (empty, empty)):
        found = compare(*pair)
        assert any("has no instructions" in note for note in notes(found))
        assert report(found)


def test_a_million_instructions_are_paired_without_a_loop_over_them() -> None:
    tables = recordings.synthetic(200_000)
    run = Recording(tables)
    found = compare(run, run)
    assert found.is_equal
    assert (found.rows.before == np.arange(200_000)).all()


def test_changes_without_a_written_digit_are_none() -> None:
    assert [change_text(value, "ps") for value in (-499, 499, 500, 1000, None)] == ["0", "0", "+1 ns", "+1 ns", "–"]
    assert [change_text(value, "share") for value in (-0.0004, 0.0124)] == ["0", "+1.2 points"]
    assert change_text(-12_345, "count") == f"−12{THIN}345"
    assert [signed_share(part) for part in (0.25, -0.0001)] == ["+25 %", "< 0.1 %"]


def test_a_profile_that_was_written_and_opened_again_shows_no_change_of_nothing(tmp_path: Path) -> None:
    run = profiled(KERNEL)
    run.to_explorer(tmp_path / "profile")
    told = report(compare(run.recording, nki_lab.open(tmp_path / "profile").recording))
    assert not re.search(r"[+−](0(\.0)? |<)", told), told
