"""Python operators and conversions of tensors, and what they ask of the executor."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, sbuf, shared_hbm, whole


class Recorder:
    """An executor that keeps values in an array and notes what it is asked."""

    elementwise_operators = False
    has_values = True

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.memory = np.arange(64, dtype=np.float32)

    def read(self, view: NkiTensor) -> np.ndarray:
        steps = [step * 4 for step in view.strides]
        return np.lib.stride_tricks.as_strided(self.memory[view.offset :], view.shape, steps)

    def assign(self, target: NkiTensor, value: Any) -> None:
        self.asked.append(("assign", target.shape, target.offset, value))

    def operator(self, name: str, tensor: NkiTensor, other: Any, reflected: bool) -> Any:
        self.asked.append((name, tensor, other, reflected))
        return "result"

    def sync(self) -> None:
        self.asked.append(("sync",))


@pytest.fixture
def owner() -> Recorder:
    return Recorder()


@pytest.fixture
def tile(owner) -> NkiTensor:
    return whole(Buffer(0, sbuf, dtype_of("float32"), (8, 8), name="x", owner=owner))


BINARY = [
    (operator.add, "add"),
    (operator.sub, "subtract"),
    (operator.mul, "multiply"),
    (operator.truediv, "divide"),
    (operator.floordiv, "floor_divide"),
    (operator.mod, "mod"),
    (operator.pow, "power"),
    (operator.matmul, "matmul"),
    (operator.and_, "bitwise_and"),
    (operator.or_, "bitwise_or"),
    (operator.xor, "bitwise_xor"),
    (operator.lshift, "left_shift"),
    (operator.rshift, "right_shift"),
]


@pytest.mark.parametrize(("function", "name"), BINARY)
def test_arithmetic_goes_to_the_executor(function, name, tile, owner) -> None:
    assert function(tile, 2) == "result"
    assert function(2, tile) == "result"
    assert function(tile, tile) == "result"
    assert [(ask[0], ask[3]) for ask in owner.asked] == [(name, False), (name, True), (name, False)]
    assert owner.asked[0][2] == 2
    assert owner.asked[2][2] is tile


@pytest.mark.parametrize(("function", "name"), BINARY)
def test_arithmetic_of_a_numpy_scalar_goes_to_the_executor(function, name, tile, owner) -> None:
    for number in (np.float64(2), np.float32(2), np.int32(2), np.int64(2)):
        if not (isinstance(number, np.floating) and name.startswith(("bitwise", "left", "right"))):
            assert function(number, tile) == "result"
            assert owner.asked.pop()[:1] == (name,)
    assert owner.asked == []


def test_functions_of_numpy_take_the_values_of_a_tensor(tile, owner) -> None:
    owner.read = lambda tensor: np.full(tensor.shape, 4.0, np.float32)
    np.testing.assert_array_equal(np.sqrt(tile), np.full((8, 8), 2.0))
    np.testing.assert_array_equal(np.ones((8, 8), np.float32) + tile, np.full((8, 8), 5.0))
    np.testing.assert_array_equal(np.add.reduce(tile, axis=1), np.full(8, 32.0))
    assert (np.float32(4) == tile).all()  # no operator of this executor
    assert owner.asked == []


@pytest.mark.parametrize(
    ("function", "name", "reflected"),
    [
        (operator.lt, "less", "greater"),
        (operator.le, "less_equal", "greater_equal"),
        (operator.gt, "greater", "less"),
        (operator.ge, "greater_equal", "less_equal"),
    ],
)
def test_comparisons_go_to_the_executor(function, name, reflected, tile, owner) -> None:
    assert function(tile, 2) == "result"
    assert function(2, tile) == "result"
    assert function(np.float32(2), tile) == "result"
    assert [ask[0] for ask in owner.asked] == [name, reflected, reflected]


@pytest.mark.parametrize(("function", "name"), [(operator.neg, "negative"), (abs, "abs"), (operator.invert, "invert")])
def test_unary_operators_go_to_the_executor(function, name, tile, owner) -> None:
    assert function(tile) == "result"
    assert owner.asked == [(name, tile, None, False)]
    assert +tile is tile


def test_equality_is_identity_unless_the_executor_computes_it(tile, owner) -> None:
    other = tile[...]
    assert tile == tile
    assert tile != other
    assert tile != 3
    assert tile in [other, tile]
    assert len({tile, other}) == 2
    assert owner.asked == []
    owner.elementwise_operators = True
    assert (tile == 3) == "result"
    assert (tile != other) == "result"
    assert [ask[0] for ask in owner.asked] == ["equal", "not_equal"]
    assert (tile == None) is False  # noqa: E711 - kernels write it
    assert (tile == "x") is False


def test_an_augmented_assignment_of_a_view_reads_computes_and_copies(tile, owner) -> None:
    tile[0:4, 2:4] += 1
    assert [ask[0] for ask in owner.asked] == ["add", "assign"]
    assert owner.asked[1][1:] == ((4, 2), 2, "result")


def test_an_assignment_copies_into_the_view(tile, owner) -> None:
    tile[..., 3] = 5.0
    assert owner.asked == [("assign", (8, 1), 3, 5.0)]


@pytest.mark.parametrize(
    "use",
    [
        bool, int, float, complex, operator.index, lambda t: not t, lambda t: 3 in t, range, lambda t: [1, 2][t],
        lambda t: [1, 2][t:], lambda t: 1 if t else 2, lambda t: t and 1,
    ],
)  # fmt: skip
def test_python_cannot_decide_by_a_tensors_values(use, tile, refused) -> None:
    found = refused("NKI017", lambda: use(tile))
    assert "x: (8, 8) float32 in sbuf" in found.message
    assert found.help
    with pytest.raises(TypeError):
        use(tile)


def test_values_are_read_through_the_executor(tile, owner) -> None:
    assert tile[1:3, 0:2].numpy().tolist() == [[8, 9], [16, 17]]
    assert np.asarray(tile).shape == (8, 8)
    assert np.asarray(tile, dtype=np.int32).dtype == np.int32
    assert np.add(tile[0, 1], 1).tolist() == [[2.0]]


def test_text_shows_values_where_there_are_some(tile, owner) -> None:
    assert str(tile[0, 1:3]) == "[[1. 2.]]"
    assert repr(tile[0, 1:3]).startswith("<tensor (1, 2) float32 in sbuf, name='x'>\n")
    assert "1." in repr(tile[0, 1:3])
    owner.has_values = False
    assert str(tile) == repr(tile) == "<tensor (8, 8) float32 in sbuf, name='x'>"


def test_a_tensor_without_executor_has_only_metadata(on_chip, refused) -> None:
    tile = on_chip(128, 512, dtype="bfloat16")
    assert str(tile) == "<tensor (128, 512) bfloat16 in sbuf>"
    refused("NKI005", lambda: tile + 1)
    refused("NKI005", tile.numpy)
    refused("NKI005", lambda: tile.__setitem__(0, 1))
    assert tile != 1


def test_hbm_tensors_are_iterated_row_by_row(owner) -> None:
    rows = list(whole(Buffer(0, shared_hbm, dtype_of("float32"), (3, 4), owner=owner)))
    assert [(row.shape, row.offset) for row in rows] == [((4,), 0), ((4,), 4), ((4,), 8)]


def test_partitions_are_not_iterated(tile, refused) -> None:
    assert "range(8)" in refused("NKI304", lambda: list(tile)).help


def test_a_tensor_binds_a_storage_handle_or_is_a_placeholder() -> None:
    placeholder = NkiTensor((128, 64), np.float32, None, "shared_hbm", name="a")
    assert (placeholder.buffer, placeholder.name, placeholder.strides) == (shared_hbm, "a", (64, 1))
    buffer = Buffer(1, sbuf, dtype_of("float32"), (4, 4))
    assert NkiTensor((4, 4), np.float32, buffer)._buffer is buffer
    assert NkiTensor([4, 4], "bfloat16").buffer == sbuf


def test_a_tensor_has_no_room_for_other_attributes(tile) -> None:
    with pytest.raises(AttributeError):
        tile.note = 1
    with pytest.raises(AttributeError):
        tile.shape = (1, 1)
