"""The rows that run-time indices select, as views ask for them and as pinned tiles keep them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.kernel_runtime.protocols import IndexUse
from nki_lab.session.tiles import tiles_of
from nki_lab.widgets.value_answers import answer
from tests.wire.reader import read

ROOT = Path(__file__).resolve().parents[2]
ROWS, WIDTH = 128, 64
Array = np.ndarray[Any, np.dtype[Any]]


@nki.jit
def gathered(table, ids):
    """Rows of table by ids; those outside of it are skipped. The indices change when they have been used."""
    out = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((ROWS, 1), nl.int32, buffer=nl.sbuf, name="index")
    nisa.dma_copy(dst=index, src=ids)
    rows = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=rows, value=0.0)
    nisa.dma_copy(dst=rows, src=table.ap([[WIDTH, ROWS], [1, WIDTH]], vector_offset=index), oob_mode=nisa.oob_mode.skip)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.add, operand0=1)
    nisa.dma_copy(dst=out.ap([[WIDTH, ROWS], [1, WIDTH]], vector_offset=index), src=rows, oob_mode=nisa.oob_mode.skip)
    return out


@nki.jit
def refused(table, ids):
    """The same where an index outside of the table is a fault."""
    out = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((ROWS, 1), nl.int32, buffer=nl.sbuf, name="index")
    nisa.dma_copy(dst=index, src=ids)
    rows = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=table.ap([[WIDTH, ROWS], [1, WIDTH]], vector_offset=index))
    nisa.dma_copy(dst=out, src=rows)
    return out


def table() -> Array:
    return np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)


def strange() -> Array:
    ids = np.random.default_rng(1).permutation(ROWS).astype(np.int32)[:, None]
    ids[[3, 9, 40], 0] = [-1, ROWS, 1_000_000]
    return ids


def uses(run: nki_lab.Run) -> dict[int, IndexUse]:
    """What each step takes, as the page asks for it."""
    tiles = tiles_of(run.values)
    found: dict[int, IndexUse] = {}
    for view in run.program.views:
        if view.indirect is None:
            continue
        for step in range(len(run.recording)):
            told = answer(tiles, {"kind": "indices", "request": 1, "step": step, "view": view.id})
            assert told is not None
            if "reason" not in told[0]:
                kept = {name: told[0][name] for name in IndexUse._fields}
                found[step] = IndexUse(**kept)  # type: ignore[arg-type]
                assert step in found[step].steps
    return found


def test_the_rows_of_a_router_are_the_experts_that_it_chose() -> None:
    module = runpy.run_path(str(ROOT / "examples" / "kernels" / "k07_routing.py"))
    run = nki_lab.run(module["KERNELS"][1], *module["inputs"](tokens=256, D=128, experts=64), target="trn2")
    chosen = np.asarray(run.outputs[1])
    found = uses(run)
    assert len(found) == 2 * module["K"]
    wanted = {tuple(chosen[t * 128 : t * 128 + 128, k].tolist()) for t in range(2) for k in range(module["K"])}
    assert {tuple(use.values) for use in found.values()} == wanted
    assert all((use.stride, use.lowest, use.highest, use.written) == (128, 0, 63, True) for use in found.values())


def test_a_step_gets_the_indices_that_it_reads_and_rows_outside_as_they_are() -> None:
    ids = strange()
    run = nki_lab.run(gathered, table(), ids, target="trn2")
    gather, scatter = (use for _, use in sorted(uses(run).items()))
    assert gather.values == ids[:, 0].tolist()
    assert scatter.values == (ids[:, 0] + 1).tolist()
    assert (scatter.lowest, scatter.highest) == (0, ROWS - 1)
    outside = [value for value in gather.values if not gather.lowest <= value <= gather.highest]
    assert outside == [-1, ROWS, 1_000_000]


def test_the_indices_of_the_instruction_that_failed_are_known() -> None:
    ids = strange()
    run = nki_lab.run(refused, table(), ids, target="trn2", on_error="report")
    assert run.error is not None
    (use,) = uses(run).values()
    assert use.values == ids[:, 0].tolist()


def test_a_pinned_tile_tells_who_takes_it_and_only_where_it_holds() -> None:
    ids = strange()
    run = nki_lab.run(gathered, table(), ids, target="trn2")
    gather, scatter = sorted(uses(run))
    run.pin("index", step=gather).pin("index").pin("rows")
    first, last, other = (read(item)[0] for item in run.pins)
    assert [(use["steps"], use["values"]) for use in first["indices"]] == [([gather], ids[:, 0].tolist())]
    assert [(use["steps"], use["values"]) for use in last["indices"]] == [([scatter], (ids[:, 0] + 1).tolist())]
    assert "indices" not in other


def test_indices_that_nothing_wrote_are_told_so() -> None:
    @nki.jit
    def half(table, ids):
        out = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.shared_hbm)
        index = nl.ndarray((ROWS, 1), nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index[0:64], src=ids[0:64])
        rows = nl.ndarray((ROWS, WIDTH), table.dtype, buffer=nl.sbuf)
        for part in (index[0:64], index[64:128]):
            source = table.ap([[WIDTH, 64], [1, WIDTH]], vector_offset=part)
            nisa.dma_copy(dst=rows[0:64], src=source, oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=rows)
        return out

    run = nki_lab.run(half, table(), strange(), target="trn2", on_error="report")
    assert sorted(use.written for use in uses(run).values()) == [False, True]


@pytest.mark.parametrize(("step", "view"), [(-1, 0), (99, 0), (0, 0), (0, 10_000), ("1", 0), (0, None)])
def test_whatever_is_asked_is_answered(step: Any, view: Any) -> None:
    run = nki_lab.run(gathered, table(), strange(), target="trn2")
    told = answer(tiles_of(run.values), {"kind": "indices", "request": 1, "step": step, "view": view})
    assert told is not None
    assert told[0]["reason"]


def test_a_run_without_values_says_why() -> None:
    spec = nki_lab.spec((ROWS, WIDTH), "float32"), nki_lab.spec((ROWS, 1), "int32")
    profile = nki_lab.profile(gathered, *spec, target="trn2")
    told = answer(tiles_of(profile.values), {"kind": "indices", "request": 1, "step": 1, "view": 1})
    assert told is not None
    assert "profile" in str(told[0]["reason"])
