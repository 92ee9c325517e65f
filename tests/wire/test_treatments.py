"""How instructions treat their operands reaches messages as the declarations, the costs and the target say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nki_lab
from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import whole
from nki_lab.kernel_runtime.vocabulary import ARRANGEMENTS, DESCRIPTOR_MODES, INDIRECTIONS
from nki_lab.wire import encode
from nki_lab.wire.overview import machine
from tests.kernel_runtime.timing.timed import nisa, nl
from tests.wire.reader import read


def kernel(x: object, table: object, ids: object) -> object:
    out = nl.ndarray((128, 128), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 128), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    rows = nl.ndarray((128, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(rows, ids)
    picked = nl.ndarray((128, 32), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(picked, table.ap([[32, 128], [1, 32]], vector_offset=rows, indirect_dim=0))
    total = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tile, tile)
    turned = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    nisa.nc_transpose(turned, tile)
    copied = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(copied, total)
    nisa.dma_copy(out, copied)
    return out


@pytest.fixture(scope="module")
def recording() -> Recording:
    x = np.ones((64, 128), np.float32)
    table, ids = np.ones((256, 32), np.float32), np.arange(128, dtype=np.int32).reshape(128, 1)
    return nki_lab.run(kernel, x, table, ids, target="trn2").recording


def test_operands_and_arrangements_are_those_of_the_declarations(recording: Recording) -> None:
    ops = recording.table("ops")
    told = {
        (recording.names[name], recording.names[operands], ARRANGEMENTS[arrangement], held, streamed)
        for name, operands, arrangement, held, streamed in zip(
            *(whole(ops[column]).tolist() for column in ("name", "operands", "arrangement", "stationary", "moving")),
            strict=True,
        )
    }
    assert told == {
        ("dma_copy", "dst src", "in order", -1, -1),
        ("nc_matmul", "dst stationary moving", "product", 1, 2),
        ("nc_transpose", "dst data", "transposed", 1, -1),
        ("tensor_copy", "dst src", "in order", -1, -1),
    }


def test_names_of_operands_are_as_many_as_the_accesses(recording: Recording) -> None:
    operands = whole(recording.table("ops")["operands"])[whole(recording.rows["op"])].tolist()
    for row, names in enumerate(operands):
        assert len(recording.names[names].split()) == len(recording.accesses(row))


def test_descriptors_move_the_bytes_of_their_transfer(recording: Recording) -> None:
    ops = recording.table("ops")
    for op, size in zip(whole(recording.rows["op"]).tolist(), whole(recording.rows["bytes"]).tolist(), strict=True):
        descriptors, each, engines, mode, cadence = (
            int(ops[name][op]) for name in ("descriptors", "descriptor_bytes", "engines", "mode", "cadence")
        )
        is_transfer = recording.names[int(ops["name"][op])] == "dma_copy"
        assert (descriptors > 0, each > 0, engines > 0, cadence > 0) == (is_transfer,) * 4
        assert (DESCRIPTOR_MODES[mode] != "none") == is_transfer
        if is_transfer:
            assert descriptors * each == size
    modes = {DESCRIPTOR_MODES[number] for number in whole(ops["mode"]).tolist()}
    assert modes == {"none", "hardware", "software"}


def test_a_gather_names_the_view_of_its_index(recording: Recording) -> None:
    views = recording.table("views")
    (gathering,) = [n for n, kind in enumerate(whole(views["indirect"]).tolist()) if INDIRECTIONS[kind] == "vector"]
    index = int(views["index"][gathering])
    assert recording.pattern(int(views["pattern"][index]))[:2] == ("int32", (128, 1))
    assert (np.delete(whole(views["index"]), gathering) == -1).all()


def test_messages_carry_them_and_the_facts_of_the_target(recording: Recording) -> None:
    header, tables = read(encode(recording))
    for name in ("operands", "stationary", "moving", "descriptors", "cadence"):
        np.testing.assert_array_equal(tables["ops"][name], whole(recording.table("ops")[name]))
    facts = header["machine"]
    arch = TARGETS["trn2"]
    assert facts["dmaEngines"] * facts["dmaEngineRate"] == pytest.approx(368)
    assert (facts["arrayRows"], facts["arrayColumns"]) == (arch.pmax, arch.gemm_stationary_fmax)
    assert facts["dmaEfficiency"]["bytes"] == [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    assert facts["dmaEfficiency"]["shares"] == sorted(facts["dmaEfficiency"]["shares"])
    assert len(json.dumps(facts)) < 600


def test_an_unknown_target_has_no_facts() -> None:
    assert machine("trn99") is None


def test_they_are_saved(recording: Recording, tmp_path: Path) -> None:
    recording.save(tmp_path / "run.nkirec")
    opened = nki_lab.open(tmp_path / "run.nkirec").recording
    assert opened.hash() == recording.hash()
    assert encode(opened) == encode(recording)
