"""Runs of several ranks as one recording: who waits for whom, and for how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import nki_lab
from nki_lab import quantities
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.plots.columns import frame
from nki_lab.result import RankRuns
from nki_lab.wire import encode
from tests.wire.reader import read

X = np.ones((8, 64), np.float32)


def worked(x, group, steps, pairs=None):
    """Work for some steps, and add up what all ranks have; then pass it on where there are pairs."""
    tile, mine = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    for _ in range(steps):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
    nl.store(mine, tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    if pairs is None:
        ncc.all_reduce([mine], [out], group, nl.add)
    else:
        nl.store(out, tile)
        ncc.collective_permute([mine], [out], pairs)
    return out


def launched(steps: list[int], **keywords: Any) -> RankRuns:
    group = ReplicaGroup([list(range(len(steps)))])
    return nki_lab.run_ranks(worked, [(X, group, count) for count in steps], target="trn2", **keywords)


def column(recording: Recording, table: str, name: str) -> list[int]:
    found: list[int] = whole(recording.table(table)[name]).tolist()
    return found


def test_the_rank_with_more_work_is_the_slowest_and_the_others_wait_for_it() -> None:
    made = launched([4, 4, 40])
    told = made.summary.ranks
    assert (told["count"], told["slowest"], told["settled"]) == (3, 2, True)
    assert told["waits_ns"][2] == 0
    assert told["waits_ns"][0] == told["waits_ns"][1] > 0
    assert told["awaited_ns"] == [0, 0, pytest.approx(2 * told["waits_ns"][0])]
    # It ends as if it were alone; the others end with it, later than alone.
    assert told["makespan_ns"][2] == told["alone_ns"][2] == made[2].summary.makespan_ns
    assert told["alone_ns"][0] == made[0].summary.makespan_ns < told["makespan_ns"][0]
    assert told["makespan_ns"][0] == pytest.approx(told["makespan_ns"][2], abs=100)
    assert "Rank 2 is the slowest: the others wait" in made.report()
    assert "rank 2" in str(made)


def test_the_text_of_ranks_has_the_time_with_its_interval_and_exact_sums() -> None:
    made = launched([4, 4, 40])
    low, high = (quantities.significant(bound / 1000) for bound in made.summary.makespan_interval_ns)
    taken = quantities.duration(made.recording.makespan)
    assert str(made).splitlines()[0] == f"worked on trn2, 3 ranks: {taken}, {low} to {high}"
    assert all(round(time, 3) == time for time in made.summary.stall_ns.values())
    assert "3 ranks" in repr(made) and ": 1 rank;" in repr(launched([4]))


def test_the_difference_of_their_work_is_what_ranks_wait() -> None:
    made = launched([4, 40])
    sent = column(made.recording, "exchanges", "sent")
    assert made.summary.ranks["waits_ns"][0] * 1000 == sent[1] - sent[0]
    bring = column(made.recording, "exchanges", "row")[0]
    assert made.recording.row(bring).stall == "other rank"
    assert made.recording.row(bring).start > sent[1]


def test_equal_ranks_wait_for_nobody_and_none_is_slowest() -> None:
    made = launched([4, 4])
    told = made.summary.ranks
    assert told["slowest"] == -1
    assert told["waits_ns"] == told["awaited_ns"] == [0, 0]
    assert told["makespan_ns"] == told["alone_ns"]
    assert "slowest" not in made.report()


def test_a_chain_waits_from_rank_to_rank() -> None:
    """Rank 0 is late; it makes rank 1 wait, which sends before it has received: rank 2 does not wait."""
    given = [(X, None, count, [(0, 1), (1, 2)]) for count in (60, 4, 4)]
    told = nki_lab.run_ranks(worked, given, target="trn2").summary.ranks
    assert told["waits_ns"][1] > 0
    assert told["waits_ns"][0] == told["waits_ns"][2] == 0
    assert told["slowest"] == 0


def test_late_ranks_delay_each_other_in_turn() -> None:
    """Of two exchanges one waits for rank 0 and the other for rank 1, which began it the later for that."""

    def twice(x, group, first, second):
        tile, mine = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for steps in (first, second):
            for _ in range(steps):
                nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
            nl.store(mine, tile)
            ncc.all_reduce([mine], [out], group, nl.add)
            nisa.dma_copy(tile, out)
        return out

    group = ReplicaGroup([[0, 1]])
    told = nki_lab.run_ranks(twice, [(X, group, 40, 4), (X, group, 4, 60)], target="trn2").summary.ranks
    assert told["settled"]
    assert told["waits_ns"][0] > 0
    assert told["waits_ns"][1] > 0
    assert told["slowest"] == 1
    # Each waits for the other once: the launch takes longer than either alone.
    assert max(told["makespan_ns"]) > max(told["alone_ns"])


def test_ranks_lie_side_by_side_in_one_recording() -> None:
    made = launched([4, 8, 4])
    recording = made.recording
    assert recording.ranks == 3
    assert len(recording) == sum(len(run.recording) for run in made)
    assert recording.core_names == {0: "rank 0", 1: "rank 1", 2: "rank 2"}
    first = 0
    for rank, run in enumerate(made):
        for number in range(len(run.recording)):
            row, own = recording.row(first + number), run.recording.row(number)
            assert (row.name, row.detail, row.lane, row.line, row.iteration) == (
                own.name,
                own.detail,
                own.lane,
                own.line,
                own.iteration,
            )
            assert recording.lanes[int(recording.rows["lane"][first + number])].rank == rank
            assert recording.accesses(first + number)[0][1] == run.recording.accesses(number)[0][1]
        first += len(run.recording)
    labels = {recording.names[number] for number in column(recording, "buffers", "name")}
    assert labels == {run.recording.names[n] for run in made for n in column(run.recording, "buffers", "name")}


def test_what_a_rank_waited_for_is_an_edge_from_the_other_rank() -> None:
    made = launched([4, 40])
    recording = made.recording
    bring, sends = column(recording, "exchanges", "row")[0], column(recording, "exchanges", "sends")[1]
    assert (sends, "rank") in recording.predecessors(bring)
    assert recording.row(bring).critical_pred == sends
    assert recording.lanes[int(recording.rows["lane"][sends])].rank == 1


def test_the_critical_path_crosses_to_the_rank_that_is_waited_for() -> None:
    def uneven(x, group, first, second):
        """Rank 1 is late for the exchange, rank 0 has more to do after it."""
        tile, mine = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in range(first):
            nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
        nl.store(mine, tile)
        ncc.all_reduce([mine], [out], group, nl.add)
        nisa.dma_copy(tile, out)
        for _ in range(second):
            nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
        nl.store(out, tile)
        return out

    group = ReplicaGroup([[0, 1]])
    made = nki_lab.run_ranks(uneven, [(X, group, 4, 40), (X, group, 40, 4)], target="trn2")
    path = [made.recording.lanes[int(made.recording.rows["lane"][row])].rank for row in made.recording.critical_path[:]]
    assert path[0] == 1
    assert path[-1] == 0
    assert path == sorted(path, reverse=True)
    summary = made.summary
    waits = sum(summary.critical_wait_ns.values())
    assert summary.critical_path_ns + waits == pytest.approx(summary.makespan_ns)


def test_figures_are_sums_and_shares_of_all_ranks() -> None:
    made = launched([4, 8])
    summary, own = made.summary, [run.summary for run in made]
    for name in ("instructions", "cores", "dma_bytes", "hbm_read_bytes"):
        assert summary[name] == sum(item[name] for item in own)
    assert summary.makespan_ns == max(summary.ranks["makespan_ns"])
    assert summary.engine_busy_ns["vector"] == pytest.approx(sum(item.engine_busy_ns["vector"] for item in own))
    assert summary.mbu <= max(item.mbu for item in own)


def test_mbu_and_the_line_of_the_counter_are_of_what_all_ranks_get() -> None:
    made = launched([4, 4, 4, 4])
    summary, recording = made.summary, made.recording
    rate = (summary.hbm_read_bytes + summary.hbm_write_bytes) / summary.makespan_ns
    assert rate / (read(encode(recording))[0]["capacity"]["hbm"] / 1e9) == pytest.approx(summary.mbu)
    assert rate / frame(recording, "bandwidth")["limit_gb_s"][0] == pytest.approx(summary.mbu)
    assert frame(recording, "roofs")["gb_s"][-1] == pytest.approx(rate / summary.mbu)


def test_ranks_of_two_cores_have_both_in_their_group() -> None:
    def gathered(x, group):
        rows = x.shape[0] // nl.num_programs(0)
        first = nl.program_id(0) * rows
        tile, wide = nl.ndarray((rows, x.shape[1]), x.dtype), nl.ndarray((rows, 2 * x.shape[1]), x.dtype)
        nisa.dma_copy(dst=tile, src=x[first : first + rows])
        ncc.all_gather(srcs=[tile], dsts=[wide], replica_group=group, collective_dim=1)
        out = nl.ndarray((x.shape[0], 2 * x.shape[1]), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[first : first + rows], src=wide)
        return out

    group = ReplicaGroup([[0, 1]])
    made = nki_lab.run_ranks(nki.jit(gathered)[2], [(X, group), (X, group)], target="trn2")
    assert made.recording.core_names == {
        0: "rank 0, core 0",
        1: "rank 0, core 1",
        2: "rank 1, core 0",
        3: "rank 1, core 1",
    }
    assert column(made.recording, "exchanges", "call") == [0, 0, 1, 1]


def test_a_single_rank_is_a_run_of_its_own() -> None:
    made = launched([4])
    assert made.recording.ranks == 1
    assert made.recording.makespan == made[0].recording.makespan
    assert len(made.recording.table("exchanges")) == 0


def test_sixty_four_ranks_name_the_slowest() -> None:
    made = launched([2] * 41 + [12] + [2] * 22)
    assert made.summary.ranks["slowest"] == 41
    assert len(made.recording.table("exchanges")) == 64


def test_a_saved_recording_of_ranks_is_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    made = launched([4, 8])
    made.save(tmp_path / "ranks.nkirec")
    opened = nki_lab.open(tmp_path / "ranks.nkirec")
    assert opened.recording.hash() == made.recording.hash()
    assert opened.summary.ranks["slowest"] == 1
    assert opened.report() == made.report()
    assert [loop.core for loop in opened.loops()] == [0, 1]


def test_ranks_are_written_as_page_and_trace(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    made = launched([4, 8])
    made.to_html(tmp_path / "ranks.html")
    assert "Rank 1 is the slowest" in (tmp_path / "ranks.html").read_text(encoding="utf-8")
    made.to_perfetto(tmp_path / "ranks.pftrace")
    assert b"rank 1" in (tmp_path / "ranks.pftrace").read_bytes()
    bundle = made._repr_mimebundle_()
    assert "Rank 1 is the slowest" in str(bundle["text/plain"])


def test_runs_are_a_sequence_by_rank() -> None:
    made = launched([4, 8])
    assert len(made) == 2
    assert [run.name for run in made] == ["worked", "worked"]
    assert made[-1] is made[1]
    assert list(made[:1]) == [made[0]]
    assert repr(made).startswith("<runs of worked on trn2: 2 ranks")
    assert "runs[0].view()" in made.values.reason


def test_a_rank_without_times_leaves_no_recording() -> None:
    def broken(x, bad):
        assert not bad, "this rank fails"
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    made = nki_lab.run_ranks(broken, [(X, False), (X, True)], target="trn2", on_error="report")
    assert not made.has_recording
    with pytest.raises(nki_lab.NkiError, match="rank 1 has none") as caught:
        _ = made.recording
    assert caught.value.diagnostics[0].code == "NKI023"
    assert str(made) == repr(made)


def test_findings_and_comparisons_know_that_the_ranks_ran_together() -> None:
    three, two = launched([4, 4, 4]), launched([4, 4])
    assert {(item.code, item.help) for item in three.diagnostics} == {("NKI242", "")}
    assert {item["help"] for item in three.recording.summary["diagnostics"]} == {""}
    told = str(three.compare(two))
    assert "Ranks: 3 and 2." in told and "Cores" not in told
    alone = nki_lab.run(worked, X, ReplicaGroup([[0]]), 4, target="trn2")
    assert [item.help for item in alone.diagnostics] == ["run the ranks together with nki_lab.run_ranks"]


def test_tables_of_a_spreadsheet_tell_the_rank(tmp_path: Path) -> None:
    launched([4, 4]).to_csv(tmp_path / "tables")
    for name in ("lanes", "instructions"):
        header, *rows = (tmp_path / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        place = header.split(",").index("rank")
        assert {row.split(",")[place] for row in rows} == {"0", "1"}
