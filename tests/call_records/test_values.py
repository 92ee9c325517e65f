"""Arguments as data and back."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.call_records.signatures import StaleCallError, decoded, signature_of
from nki_lab.call_records.store import CallRecord
from nki_lab.call_records.values import encoded, has_tensor, is_known, unchanged
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.interpreter import UNKNOWN, EnumMember, Instance, TileSpec
from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor


class Layout(Enum):
    rows = 1


@dataclass
class Config:
    width: int
    layout: Layout = Layout.rows
    tiles: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Slotted:
    width: int


class Trap:
    """An object that must not be touched."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = object.__hash__


def tensor(shape: tuple[int, ...], dtype: str, space: MemoryRegion) -> NkiTensor:
    return NkiTensor(shape, dtype, Buffer(0, space, dtype_of(dtype), shape))


CONSTANTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(categories=["L", "N"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner)
    ),
    max_leaves=12,
)


@given(CONSTANTS)
def test_constants_come_back_as_they_were(value: object) -> None:
    data = json.loads(json.dumps(encoded(value)))
    if is_known(data):
        assert repr(decoded(data)) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        nl.float32,
        nl.bfloat16,
        nl.tfloat32,
        range(0, 8, 2),
        slice(None, 4),
        nl.ds(0, 128),
        nisa.dge_mode.swdge,
        nisa.vector_engine,
        nl.sbuf,
        (1, (2.5, "x")),
    ],
    ids=repr,
)
def test_nki_values_come_back_as_they_were(value: object) -> None:
    found = decoded(json.loads(json.dumps(encoded(value))))
    assert repr(found) == repr(value)
    assert type(found) is type(value)


def test_tensors_keep_shape_dtype_and_memory() -> None:
    assert decoded(encoded(tensor((4, 8), "bfloat16", MemoryRegion.shared_hbm))) == TensorSpec(
        (4, 8), dtype_of("bfloat16")
    )
    tile = decoded(encoded(tensor((128, 8), "float32", MemoryRegion.psum)))
    assert tile == TileSpec(TensorSpec((128, 8), dtype_of("float32")), MemoryRegion.psum)


def test_objects_keep_their_fields() -> None:
    data = encoded(Config(3, tiles=[tensor((128, 8), "float32", MemoryRegion.sbuf)]))
    assert has_tensor(data)
    found = decoded(data)
    assert isinstance(found, Instance)
    assert found.cls.name == "Config"
    assert found.fields["width"] == 3
    assert isinstance(found.fields["layout"], EnumMember)
    assert decoded(encoded(Slotted(5))).fields == {"width": 5}


@pytest.mark.parametrize(
    "value", [Trap(), print, lambda: 0, np.ones(3), 2**80, float("nan"), "\x1b[2J", {1: 2}, int], ids=range(9)
)
def test_what_is_no_data_is_unknown(value: object) -> None:
    data = encoded(value)
    assert not is_known(data)
    assert decoded(data) is UNKNOWN


def test_endless_and_huge_containers_are_unknown_inside() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert not is_known(encoded(endless))
    assert not is_known(encoded(list(range(100_000))))
    assert len(json.dumps(encoded([[[list(range(100))] * 100] * 100] * 100))) < 20_000


def test_fields_that_change_are_unknown_one_by_one() -> None:
    config = Config(3, tiles=[1])
    first = encoded((config, 1))
    assert unchanged(first, encoded((config, 1))) == first
    config.tiles.append(2)
    found = decoded(unchanged(first, encoded((config, 1))))
    assert found[0].fields["width"] == 3
    assert found[0].fields["tiles"] is UNKNOWN
    assert found[1] == 1
    assert unchanged(encoded([1]), encoded((1,))) == {"unknown": "changed"}


HOSTILE = [
    {"tensor": "float32[0]"},
    {"tensor": "float32[" + "9" * 30 + "]"},
    {"tensor": "object[1]"},
    {"tensor": "float32[4]", "memory": "disk"},
    {"nki": "MemoryRegion.__class__"},
    {"nki": "engine.mro"},
    {"nki": "os.system"},
    {"range": [0, 8, 0]},
    {"object": "Config"},
    {"dtype": "object"},
    {"call": "print()"},
    {"slice": ["a", None, None]},
    {"ds": [0, None]},
]


@pytest.mark.parametrize("data", HOSTILE, ids=str)
def test_hostile_data_is_refused(data: object) -> None:
    with pytest.raises(StaleCallError):
        decoded([data])


def test_deep_data_is_refused() -> None:
    data: Any = 1
    for _ in range(400):
        data = [data]
    with pytest.raises(StaleCallError):
        decoded(data)


def function(text: str) -> Any:
    return ast.parse(f"def f({text}): ...").body[0]


def call(**arguments: Any) -> CallRecord:
    return CallRecord(arguments=arguments)


def test_variadic_arguments_go_to_their_places() -> None:
    record = call(a=1, b=2, rest=encoded((3, 4)), k=5, more=encoded({"m": 6}))
    found = signature_of(record, function("a, b, *rest, k, **more"))
    assert found.args == (1, 2, 3, 4)
    assert found.kwargs == {"k": 5, "m": 6}
    assert signature_of(call(a=1, b=2), function("a, /, b=3")).args == (1,)


@pytest.mark.parametrize(
    ("record", "parameters", "reason"),
    [
        (call(a=1), "b=2", "f has no parameter a"),
        (call(a=1), "a, b", "the call has no value for b"),
        (call(a=1), "a, *, b", "the call has no value for b"),
        (call(rest=encoded((1,))), "a, *rest", "the call has no value for a"),
        (call(rest=5), "*rest", "what rest took is not known"),
        (call(a={"tensor": "x"}), "a", "'x' is no tensor"),
    ],
)
def test_a_call_that_does_not_fit_is_stale(record: CallRecord, parameters: str, reason: str) -> None:
    with pytest.raises(StaleCallError, match=reason):
        signature_of(record, function(parameters))
