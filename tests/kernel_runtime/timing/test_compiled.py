"""Machine code for the walk: when it runs, where it is kept, and what happens without numba."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime import compiled_code
from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.compiled_code import CompiledFunction, is_private
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import compiled, costs_of
from nki_lab.kernel_runtime.timing.compiled import EVENT_LOOP, event_loop_for, fits
from nki_lab.kernel_runtime.timing.dma import UNITS, scaled
from nki_lab.kernel_runtime.timing.machine import machine_of
from tests.kernel_runtime.timing.timed import nisa, nl, timed


def chain(count: int) -> Any:
    """A kernel of `count` instructions."""

    def kernel() -> None:
        tile = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        for _ in range(count):
            nisa.memset(tile, 0.0)

    return kernel


def machine(count: int, **cost: int) -> Any:
    """The machine of such a kernel, all of whose costs are changed."""
    found = timed(chain(count))
    costs = [dataclasses.replace(item, **cost) for item in costs_of(found.program)]
    return machine_of(found.program, found.schedule, found.program.options, found.allocation, costs, {})


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("", "numba is not installed (pip install 'nki-lab[fast]')"),
        ("0.57.1", "numba 0.57.1 is installed, 0.68 is supported"),
        ("1.0", "numba 1.0 is installed, 0.68 is supported"),
        ("0.680.0", "numba 0.680.0 is installed, 0.68 is supported"),
    ],
)
def test_without_a_supported_numba_the_interpreter_walks(
    version: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_code, "installed_version", lambda _package: version)
    monkeypatch.setattr(EVENT_LOOP, "_made", None)
    monkeypatch.setattr(compiled, "_NEW", 0)
    monkeypatch.setattr(compiled, "_KEPT", 0)
    monkeypatch.setattr(compiled, "_MADE", 0)
    assert compiled_code.status() == f"interpreted: {said}"
    assert event_loop_for(machine(4)) is None
    assert timed(chain(4)).timing.makespan > 0


def test_a_numba_that_does_not_import_is_said_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 1.0 or less')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "numba", raising=False)
    monkeypatch.setattr(compiled_code, "installed_version", lambda _package: "0.68.1")
    monkeypatch.setattr(EVENT_LOOP, "_made", None)
    assert compiled_code.status() == "interpreted: numba cannot be imported: Numba needs NumPy 1.0 or less"
    assert EVENT_LOOP.get() is None


def test_small_programs_are_not_worth_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledFunction, "get", lambda _self: pytest.fail("asked for machine code"))
    monkeypatch.setattr(EVENT_LOOP, "_made", None)
    assert event_loop_for(machine(2000)) is None


def test_numbers_of_more_than_64_bits_are_left_to_the_interpreter() -> None:
    assert fits(machine(10))
    assert not fits(machine(10, interval=2**62 // UNITS + 1))
    assert not fits(machine(10, interval=1 << 50))
    assert not fits(machine(10, latency=1 << 60))
    assert not fits(machine(10, blocks=1 << 63))
    assert not fits(machine(10, hbm_bytes=1 << 40, interval=1))


def test_products_are_divided_exactly_without_long_numbers() -> None:
    random = np.random.default_rng(0)
    for _ in range(2000):
        number, divisor = (int(random.integers(1, 1 << int(random.integers(1, 48)))) for _ in range(2))
        factor = int(random.integers(1, UNITS + 1))
        assert scaled(number, factor, divisor) == divmod(number * factor, divisor)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_that_others_can_write_to_is_not_private(tmp_path: Path) -> None:
    folder = tmp_path / "compiled" / "digest"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    file = folder / "index.nbi"
    file.write_bytes(b"")
    assert is_private(folder)
    for path in (folder.parent, folder, file):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert not is_private(folder)
        path.chmod(mode)
    (folder / "link.nbi").symlink_to(file)
    assert not is_private(folder)
    assert not is_private(tmp_path / "missing")


def test_a_changed_source_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_code.choices, "folder", lambda: tmp_path)
    former = EVENT_LOOP._folder()
    monkeypatch.setattr(CompiledFunction, "_sources", lambda _self: {b"changed"})
    assert EVENT_LOOP._folder() != former


def test_programs_of_one_lane_of_a_core_and_of_none_have_machines() -> None:
    found = timed(lambda: None)
    assert found.timing.makespan == 0
    again = schedule(found.program, allocate(found.program))
    assert machine_of(found.program, again, found.program.options, None, [], {}).lanes.core == [0] * len(again.lanes)
