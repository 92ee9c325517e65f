"""Blocks of memory: used again in a run, kept between runs up to a limit, never two owners of one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nki_lab.kernel_runtime.numerics import pool as pools
from nki_lab.kernel_runtime.numerics.pool import Pool

MIB = 2**20


@pytest.fixture(autouse=True)
def reserve(monkeypatch: pytest.MonkeyPatch) -> Iterator[pools._Reserve]:
    """An empty reserve."""
    fresh = pools._Reserve()
    monkeypatch.setattr(pools, "_reserve", fresh)
    yield fresh


def test_a_block_that_is_given_back_is_handed_out_again() -> None:
    pool = Pool()
    block = pool.take(100)
    assert pool.take(100) is not block
    pool.give(block)
    assert pool.take(128) is block


def test_an_untouched_block_is_none_that_was_given_back() -> None:
    pool = Pool()
    block = pool.take(2 * MIB)
    pool.give(block)
    assert pool.take_untouched(2 * MIB) is not block


def test_large_blocks_outlive_their_pool_and_small_ones_do_not() -> None:
    first, second = Pool(), Pool()
    large, small = first.take(MIB), first.take(64)
    first.give(small)
    first.close()
    assert second.take(MIB) is large
    assert second.take(MIB) is not large
    assert second.take(64) is not small


def test_a_block_that_somebody_has_an_array_in_is_not_kept() -> None:
    first, second = Pool(), Pool()
    block = first.take(MIB)
    first.forget(block)
    first.close()
    assert second.take(MIB) is not block


def test_what_is_kept_is_limited(reserve: pools._Reserve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "RESERVED", 5 * MIB)
    pool = Pool()
    blocks = [pool.take(size * MIB) for size in (1, 2, 3)]
    pool.close()
    assert [reserve.take(size * MIB) for size in (1, 2, 3)] == [None, *blocks[1:]]
    pool = Pool()
    pool.take(6 * MIB)
    pool.close()
    assert reserve.take(6 * MIB) is None


def test_a_closed_pool_gives_its_blocks_once(reserve: pools._Reserve) -> None:
    pool = Pool()
    block = pool.take(MIB)
    pool.close()
    pool.close()
    assert reserve.take(MIB) is block
    assert reserve.take(MIB) is None
