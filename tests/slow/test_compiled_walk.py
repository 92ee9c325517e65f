"""The walk as machine code: the same columns as the interpreter's. These tests need `nki-lab[fast]`."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.allocate import allocate
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.schedule import schedule
from nki_lab.kernel_runtime.timing import compiled, walk
from nki_lab.kernel_runtime.timing.compiled import EVENT_LOOP
from tests.kernel_runtime.timing.test_extrapolation import Loop, loops, walking
from tests.kernel_runtime.timing.test_walk import TARGETS, Kernel, kernels, options
from tests.kernel_runtime.timing.timed import timed
from tests.machine_code import compiled_into
from tests.scale import scaled
from tests.two_cores import MOVES, Move, kernel_of, nl, specialised

pytestmark = pytest.mark.slow

COLUMNS = ("start", "duration", "ready", "wait", "setup", "served", "busy", "critical_pred", "stall", "setup_reason",
           "throttle_reason")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The event loop as machine code, for programs of any length."""
    with compiled_into(tmp_path_factory.mktemp("cache")) as patch:
        patch.setattr(compiled, "_MADE", 0)
        patch.setattr(compiled, "_NEW", 0)
        found = EVENT_LOOP.get()
        assert found is not None
        yield found


def equal(program: Any, order: Any, allocation: Any, chosen: Options) -> None:
    """Both walks of a program, the interpreter's of every op, have the same columns, path and sums."""
    fast = walk(program, order, chosen, allocation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_MADE", 1 << 60)
        slow = walk(program, order, chosen, allocation, every_op=True)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)
    for name in ("row", "work", "wait", "reason"):
        np.testing.assert_array_equal(getattr(fast.path, name), getattr(slow.path, name), err_msg=name)
    assert (fast.makespan, fast.lanes, fast.trust) == (slow.makespan, slow.lanes, slow.trust)


@settings(max_examples=scaled(120), deadline=None)
@given(kernels(most_calls=40), options(), TARGETS)
def test_drawn_kernels_have_equal_columns(kernel: Kernel, chosen: dict[str, bool], target: str) -> None:
    found = timed(kernel.on(target), target=target, **chosen)
    equal(found.program, found.schedule, found.allocation, dataclasses.replace(Options(), **chosen))


@settings(max_examples=scaled(200), deadline=None)
@given(loops(), options(), st.sampled_from(("trn2", "trn3")))
def test_loops_that_are_filled_in_have_equal_columns(loop: Loop, chosen: dict[str, bool], target: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walking, "_COMPILED_LOOKS", (12, 60))
        found = timed(loop, (128, 512), (128, 512), target=target, **chosen)
        equal(found.program, found.schedule, found.allocation, dataclasses.replace(Options(), **chosen))


@settings(max_examples=scaled(40), deadline=None)
@given(st.lists(MOVES, max_size=12))
def test_two_cores_have_equal_columns(moves: list[Move]) -> None:
    program, _ = specialised(kernel_of(moves, nl.float32), (128, 64))
    allocation = allocate(program)
    equal(program, schedule(program, allocation), allocation, program.options)


PROGRAM = """
import sys
from pathlib import Path
from nki_lab.kernel_runtime import compiled_code
from nki_lab.kernel_runtime.timing.compiled import _FOLLOW
import numpy as np
compiled_code.choices.folder = lambda: Path(sys.argv[1])
found = _FOLLOW.get()
out = np.zeros(4, np.int64)
assert found(np.array([-1, 0, 1]), 2, out) == 3 and out.tolist() == [2, 1, 0, 0]
print(sum(found.stats.cache_hits.values()), sum(found.stats.cache_misses.values()))
"""


def run(folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_the_next_process_finds_machine_code_unless_others_could_have_changed_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert run(folder) == "0 1"
    assert run(folder) == "1 0"
    (index,) = folder.rglob("*.nbi")
    index.chmod(0o666)
    assert run(folder) == "0 1"


def test_a_hostile_index_in_a_shared_folder_is_not_unpickled(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    run(folder)
    (index,) = folder.rglob("*.nbi")
    index.write_bytes(b"not a pickle: reading it would raise")
    index.chmod(0o666)
    assert run(folder) == "0 1"


def test_a_folder_that_cannot_be_made_costs_the_cache_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "below") == "0 1"
