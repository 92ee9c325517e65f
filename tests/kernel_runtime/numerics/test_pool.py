"""Blocks of memory: used again in a run, kept between runs up to a limit, never two owners of one."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Iterator

import ml_dtypes
import numpy as np
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


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "processor_count", lambda: 2)


@pytest.mark.usefixtures("two_processors")
def test_foreseen_blocks_are_handed_out_once_and_others_are_new() -> None:
    pool = Pool()
    pool.foresee([2 * MIB, MIB, 64, 2 * MIB])
    assert pool._mapped is not None
    first, second, third = (pool.take(2 * MIB) for _ in range(3))
    assert len({block.memory.ctypes.data for block in (first, second, third)}) == 3
    assert pool.take(MIB).memory.nbytes == MIB
    assert pool._mapped.take(MIB) is None
    assert pool._mapped.take(2 * MIB) is None


@pytest.mark.usefixtures("two_processors")
def test_nothing_is_written_to_a_block_that_was_handed_out() -> None:
    for _ in range(20):
        pool = Pool()
        pool.foresee([64 * MIB, 8 * MIB])
        blocks = [pool.take(size) for size in (8 * MIB, 64 * MIB)]
        for block in blocks:
            block.memory.fill(7)
        pool.forget_foreseen()
        assert all((block.memory == 7).all() for block in blocks)


@pytest.mark.usefixtures("two_processors")
def test_no_more_is_mapped_than_is_kept_and_nothing_that_is_there(
    reserve: pools._Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped: list[int] = []

    class Noted(pools._Mapped):
        def __init__(self, sizes: list[int], widened: list[pools._Ahead]) -> None:
            mapped.extend(sizes)
            super().__init__(sizes, widened)

    monkeypatch.setattr(pools, "_Mapped", Noted)
    monkeypatch.setattr(pools, "RESERVED", 5 * MIB)
    reserve.give([pools._new_block(2 * MIB)])
    pool = Pool()
    pool.foresee([2 * MIB, 2 * MIB, 4 * MIB, 3 * MIB])
    assert mapped == [2 * MIB, 3 * MIB]


@pytest.mark.usefixtures("two_processors")
def test_arrays_are_widened_ahead_once_for_who_asks_for_their_number(
    reserve: pools._Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_PIECE", 2**16)
    rng = np.random.default_rng(1)
    sizes = (2**18, 3 * 2**18 + 5)
    sources = {number: rng.standard_normal(size).astype(ml_dtypes.bfloat16) for number, size in enumerate(sizes)}
    for _ in range(20):
        pool = Pool()
        pool.foresee([2 * MIB, MIB], sources)
        assert pool._mapped is not None
        while pool._mapped._waiting:
            time.sleep(0.001)
        plain = [pool.take(size) for size in (MIB, MIB, 2 * MIB)]  # as many bytes as a widened one has
        blocks = [pool.take_widened(number) for number in sources]
        assert pool.take_widened(0) is None
        assert pool.take_widened(7) is None
        found = [block for block in blocks if block is not None]
        assert len({id(block) for block in (*plain, *found)}) == 5
        for block, source in zip(found, sources.values(), strict=True):
            np.testing.assert_array_equal(block.floats(source.size), source.astype(np.float32))
        assert pool.nbytes == sum(block.memory.nbytes for block in (*plain, *found))
        pool.give_up(found)
        assert pool.nbytes == 4 * MIB
        pool.close()
        assert len(reserve.sizes()) == 5  # in all: the next turn takes them again


@pytest.mark.usefixtures("two_processors")
def test_widened_arrays_leave_blocks_that_the_run_takes(reserve: pools._Reserve) -> None:
    reserve.give(pools._new_block(MIB) for _ in range(3))
    pool = Pool()
    pool.foresee([MIB, MIB], {number: np.ones(2**18, ml_dtypes.bfloat16) for number in range(2)})
    assert reserve.sizes() == [MIB, MIB]


@pytest.mark.usefixtures("two_processors")
def test_arrays_are_widened_ahead_only_where_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_WIDENED", 4 * MIB)
    for sizes, widens in (([2**18], True), ([2**18 - 1], False), ([2**19, 2**19], True), ([2**19, 2**19 + 1], False)):
        pool = Pool()
        pool.foresee([], {number: np.ones(size, ml_dtypes.bfloat16) for number, size in enumerate(sizes)})
        assert (pool._mapped is not None) is widens


@pytest.mark.usefixtures("two_processors")
def test_an_array_that_nobody_has_begun_to_widen_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools._Mapped, "_map", lambda _self: None)
    pool = Pool()
    pool.foresee([], {0: np.ones(2**18, ml_dtypes.bfloat16)})
    assert pool.take_widened(0) is None


def test_with_one_processor_nothing_is_mapped_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "processor_count", lambda: 1)
    pool = Pool()
    pool.foresee([2 * MIB])
    assert pool._mapped is None


@pytest.mark.usefixtures("two_processors")
def test_blocks_are_new_ones_where_no_thread_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    pool = Pool()
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refused)
        pool.foresee([2 * MIB], {0: np.ones(2**18, ml_dtypes.bfloat16)})
    assert pool.take_widened(0) is None
    assert pool.take(2 * MIB).memory.nbytes == 2 * MIB


@pytest.mark.usefixtures("two_processors")
def test_what_was_foreseen_for_nothing_is_left(reserve: pools._Reserve) -> None:
    pool = Pool()
    pool.foresee([2 * MIB])
    pool.close()
    assert reserve.sizes() == []


@pytest.mark.usefixtures("two_processors")
def test_a_block_that_is_ready_is_taken_while_its_like_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a block wakes when the thread has gone on to the next one of that size."""
    began, goes_on = threading.Event(), threading.Event()

    class Memory:
        def __init__(self, number: int) -> None:
            self.number, self.nbytes = number, 2 * MIB

        def __setitem__(self, _place: object, _value: object) -> None:
            if self.number == 0:
                began.set()
                time.sleep(0.05)  # until the other thread waits
            else:
                assert goes_on.wait(10)

    numbers = iter(range(2))
    monkeypatch.setattr(pools, "_new_block", lambda _size: pools.Block(Memory(next(numbers))))  # type: ignore[arg-type]
    mapped = pools._Mapped([2 * MIB, 2 * MIB])
    taken: list[pools.Block | None] = []
    assert began.wait(10)
    waiting = threading.Thread(target=lambda: taken.append(mapped.take(2 * MIB)))
    waiting.start()
    waiting.join(5)
    left = not waiting.is_alive()
    goes_on.set()
    waiting.join(10)
    assert left
    assert [block.memory.number for block in taken if block is not None] == [0]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("two_processors")
def test_a_run_goes_on_where_what_it_may_need_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_size: int) -> pools.Block:
        raise MemoryError

    pool = Pool()
    with monkeypatch.context() as patch:
        patch.setattr(pools, "_new_block", refused)
        pool.foresee([2 * MIB])
    assert pool.take(2 * MIB).memory.nbytes == 2 * MIB


def test_blocks_are_given_back_once_where_two_threads_close(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[pools.Block] = []
    pool = Pool()
    block = pool.take(MIB)

    class Reserve:
        @staticmethod
        def give(blocks: list[pools.Block]) -> None:
            found = [*blocks]
            if found and not given:
                given.extend(found)
                pool.close()  # as another thread does meanwhile
            else:
                given.extend(found)

    monkeypatch.setattr(pools, "_reserve", Reserve)
    pool.close()
    assert given == [block]


@pytest.mark.usefixtures("two_processors")
def test_a_forked_process_waits_for_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    began, goes_on = threading.Event(), threading.Event()

    class Memory:
        nbytes = 2 * MIB

        def __setitem__(self, _place: object, _value: object) -> None:
            began.set()
            assert goes_on.wait(10)

    monkeypatch.setattr(pools, "_new_block", lambda _size: pools.Block(Memory()))  # type: ignore[arg-type]
    mapped = pools._Mapped([2 * MIB])
    assert began.wait(10)
    monkeypatch.setattr("os.getpid", lambda: -1)
    taken: list[pools.Block | None] = []

    def forked() -> None:
        with mapped._lock:  # as its thread may have had it at the fork
            taken.append(mapped.take(2 * MIB))
            mapped.close()

    waiting = threading.Thread(target=forked, daemon=True)
    waiting.start()
    waiting.join(5)
    left = not waiting.is_alive()
    goes_on.set()
    assert left
    assert taken == [None]
