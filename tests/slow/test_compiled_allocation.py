"""Addresses found by machine code: those that the interpreter finds. These tests need `nki-lab[fast]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.kernel_runtime.allocate import Allocation, allocate, compiled, placing
from nki_lab.kernel_runtime.ir import Program
from tests.kernel_runtime.drawn_kernels import Drawn, drawn_kernels, small, traced
from tests.machine_code import compiled_into
from tests.scale import scaled

pytestmark = pytest.mark.slow

COLUMNS = ("partition", "byte", "first", "last", "reuse", "overlaps")


@pytest.fixture(scope="module", autouse=True)
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """The loop as machine code."""
    with compiled_into(tmp_path_factory.mktemp("cache")):
        found = compiled.ARRANGE.get()
        assert found is not None
        yield found


def both(program: Program, loop: Callable[..., Any]) -> tuple[Allocation, Allocation]:
    """The addresses as the interpreter and as machine code find them."""
    slow = allocate(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "run", lambda *columns: compiled.by(loop, *columns))
        return slow, allocate(program)


@settings(max_examples=scaled(300), deadline=None)
@given(kernel=drawn_kernels(columns=40, most_tiles=12), room=st.sampled_from((192, 256, 512, 8192)))
def test_both_find_the_same_addresses(loop: Callable[..., Any], kernel: Drawn, room: int) -> None:
    slow, fast = both(traced(kernel, target=small(sbuf=room)), loop)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)
    assert [item.as_dict() for item in fast.diagnostics] == [item.as_dict() for item in slow.diagnostics]


@settings(max_examples=scaled(200), deadline=None)
@given(kernel=drawn_kernels(columns=700, most_tiles=10))
def test_both_find_the_same_banks(loop: Callable[..., Any], kernel: Drawn) -> None:
    slow, fast = both(traced(kernel, target=small(sbuf=4096)), loop)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name), err_msg=name)
