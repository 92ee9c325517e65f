"""The dtype table, what users may do with a host dtype, recognition, and promotion."""

from __future__ import annotations

import copy
import itertools
import pickle
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.isa import dtype as tables
from nki_lab.isa.dtype import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    FLOATS,
    FP4_E2M1FN_X4,
    FP8,
    FP8_E4M3,
    FP8_E4M3FN,
    FP8_E5M2,
    FP8_E8M0,
    INT8,
    INT16,
    INT32,
    INTEGERS,
    PACKED,
    TF32,
    UINT8,
    UINT16,
    UINT32,
    DType,
    NamedDType,
    dtype_of,
    grid_contains,
    promote,
    scalar_dtype,
)
from tests.every import for_each

ALL = list(DTYPES.values())
NUMBERS = [entry for entry in ALL if isinstance(entry.host, np.dtype)]
NAMED = [entry for entry in ALL if isinstance(entry.host, NamedDType)]


def test_there_are_the_eighteen_documented_types() -> None:
    assert list(DTYPES) == [
        "bool_", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "bfloat16", "tfloat32",
        "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e5m2_x4", "float8_e4m3fn_x4",
        "float4_e2m1fn_x4",
    ]  # fmt: skip


def test_the_sets_partition_the_table() -> None:
    assert {BOOL} | INTEGERS | FLOATS | PACKED == set(ALL)
    assert len(INTEGERS) + len(FLOATS) + len(PACKED) + 1 == len(ALL)
    assert FP8 < FLOATS
    assert FP8_E8M0 not in FP8


@for_each(ALL)
def test_widths_agree_between_record_host_and_storage(entry: DType) -> None:
    assert np.dtype(entry.host).itemsize == entry.nbytes == entry.storage.itemsize == entry.host.itemsize


@for_each([entry for entry in NUMBERS if entry.is_float])
def test_float_parameters_are_those_of_the_format(entry: DType) -> None:
    info = ml_dtypes.finfo(entry.host)
    assert entry.max_finite == float(info.max)
    assert 2.0**entry.smallest_exponent == float(info.smallest_subnormal)
    assert entry.lowest == float(info.min)
    assert entry.mantissa_bits == info.nmant
    assert entry.exponent_bits == info.nexp
    with np.errstate(all="ignore"):
        assert entry.has_inf == np.isinf(np.array([np.inf]).astype(entry.host).astype(np.float64))[0]


@for_each(sorted(INTEGERS, key=str))
def test_integer_bounds_are_those_of_numpy(entry: DType) -> None:
    limits = np.iinfo(entry.storage)
    assert (entry.lowest, entry.max_finite) == (limits.min, limits.max)


def test_tfloat32_keeps_float32s_exponent_and_ten_bits() -> None:
    assert TF32.max_finite == np.array(0x7F7FE000, np.uint32).view(np.float32)
    assert 2.0**TF32.smallest_exponent == np.array(0x00002000, np.uint32).view(np.float32)


@for_each(ALL)
def test_a_dtype_is_one_object_whatever_copies_it(entry: DType) -> None:
    assert copy.deepcopy(entry) is entry
    assert pickle.loads(pickle.dumps(entry)) is entry
    assert pickle.loads(pickle.dumps(entry.host)) == entry.host
    assert str(entry) == repr(entry) == entry.name


# What kernels do with nl.<name>.


@for_each([entry for entry in ALL if entry is not BOOL])
def test_the_string_of_a_host_is_its_bare_name(entry: DType) -> None:
    assert str(entry.host) == entry.name
    assert f"{entry.host}" == entry.name


def test_numpys_boolean_keeps_numpys_name() -> None:
    assert str(BOOL.host) == "bool"


@for_each(ALL)
def test_numpy_takes_a_host_wherever_it_takes_a_dtype(entry: DType) -> None:
    host: Any = entry.host
    zeros = np.zeros((2, 3), dtype=host)
    assert zeros.nbytes == 6 * entry.nbytes
    assert zeros.dtype == host
    assert host == zeros.dtype
    assert np.dtype(host) == host
    assert entry.name.rstrip("_") in str(zeros.dtype)
    assert np.empty(3, entry.storage).view(host).dtype == host
    assert hash(host) == hash(np.dtype(host))
    assert {host: 1}[np.dtype(host)] == 1
    assert zeros.astype(host).dtype == host
    assert dtype_of(zeros.dtype) is entry


@for_each([*NUMBERS, TF32])
def test_astype_keeps_values(entry: DType) -> None:
    ones = np.ones(4, np.float32).astype(entry.host)
    assert (ones.view(entry.storage).astype(np.float32) == 1).all()


@for_each(list(itertools.permutations(ALL, 2)))
def test_hosts_of_different_types_are_unequal_on_either_side(pair: tuple[DType, DType]) -> None:
    one, other = pair
    left: Any = one.host
    right: Any = other.host
    assert left != right
    assert np.dtype(left) != right
    assert left != np.dtype(right)
    assert left not in (right, np.dtype(right))


def test_tfloat32_is_not_float32() -> None:
    host: Any = TF32.host
    assert np.dtype(np.float32) not in (host,)
    assert host not in (np.float32, np.dtype(np.float32), "float32", None)
    assert host == "tfloat32"
    assert host in (F32.host, host)


# Recognition.


@for_each(ALL)
def test_every_spelling_of_a_type_is_recognised(entry: DType) -> None:
    for spelling in (entry, entry.name, entry.host, np.dtype(entry.host)):
        assert dtype_of(spelling) is entry
        assert dtype_of(spelling) is entry


@for_each(NUMBERS)
def test_scalar_classes_are_recognised(entry: DType) -> None:
    assert isinstance(entry.host, np.dtype)
    assert dtype_of(entry.host.type) is entry


@pytest.mark.parametrize(
    ("spelling", "entry"),
    [
        (int, INT32), (float, F32), (bool, BOOL), ("bool", BOOL), ("float8e4", FP8_E4M3), ("float8e5", FP8_E5M2),
        ("<f4", F32), ("f2", F16), ("u1", UINT8), (np.dtype(">f4"), F32), (np.dtype(">i2"), INT16),
        ([("tfloat32", "<f4")], TF32), (np.single, F32), (np.half, F16),
    ],
    ids=str,
)  # fmt: skip
def test_aliases_are_recognised(spelling: object, entry: DType) -> None:
    assert dtype_of(spelling) is entry


class _TorchDtype:
    """Prints as torch's dtypes do; torch itself is optional."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_torch_dtypes_are_recognised_by_name(name: str) -> None:
    assert dtype_of(_TorchDtype(name)) is DTYPES[name]
    assert "torch" not in sys.modules


def test_torch_bool_is_a_boolean() -> None:
    assert dtype_of(_TorchDtype("bool")) is BOOL


def test_jax_scalar_constructors_are_recognised_by_their_dtype() -> None:
    assert dtype_of(types.SimpleNamespace(dtype=np.dtype(ml_dtypes.bfloat16))) is BF16
    assert "jax" not in sys.modules


@pytest.mark.parametrize(
    "spelling",
    [None, "", "float", "f16", np.float64, "int64", np.dtype("u8"), complex, ..., 3, 1.5, True, "object",
     np.zeros(3, np.float32), np.float32(1), _TorchDtype("int64"), [("a", "f4"), ("b", "f4")], str, "S4", "M8[ns]",
     pytest.param("9" * 5000, id="digits"), pytest.param("(2," + "9" * 5000 + ")f4", id="shape of digits")],
    ids=repr,
)  # fmt: skip
def test_what_is_no_dtype_is_refused_with_a_code(spelling: object) -> None:
    with pytest.raises(NkiError) as refused:
        dtype_of(spelling)
    assert refused.value.diagnostics[0].code == "NKI012"
    assert isinstance(refused.value, ValueError)


def test_a_misspelt_name_is_answered_with_the_near_ones() -> None:
    with pytest.raises(NkiError, match="did you mean bfloat16"):
        dtype_of("bfloat_16")
    with pytest.raises(NkiError, match=r"did you mean .*float8_e4m3"):
        dtype_of(_TorchDtype("float8_e4m3fnuz"))


def test_a_64_bit_type_is_answered_with_the_32_bit_one() -> None:
    with pytest.raises(NkiError, match=r"astype\(np\.float32\)"):
        dtype_of(np.float64)
    with pytest.raises(NkiError, match=r"astype\(np\.int32\)"):
        dtype_of(_TorchDtype("int64"))


# Grids.


def _values(entry: DType) -> np.ndarray[Any, Any]:
    """Every value of a type of at most 16 bits, as float64."""
    codes = np.arange(256**entry.nbytes, dtype=f"u{entry.nbytes}")
    if entry is BOOL:
        codes = codes[:2]
    with np.errstate(invalid="ignore"):
        return codes.view(entry.storage).astype(np.float64)


SMALL = [entry for entry in NUMBERS if entry.nbytes <= 2]


@for_each(list(itertools.product(SMALL, SMALL)))
def test_grid_contains_agrees_with_enumeration(pair: tuple[DType, DType]) -> None:
    wide, narrow = pair
    values, grid = _values(narrow), _values(wide)
    contained = bool(np.isin(values[~np.isnan(values)], grid).all())
    contained &= not np.isnan(values).any() or bool(np.isnan(grid).any())
    assert grid_contains(wide, narrow) == contained


@for_each(SMALL)
def test_float32_holds_every_small_grid(narrow: DType) -> None:
    assert grid_contains(F32, narrow)


def test_grids_of_32_bits() -> None:
    assert grid_contains(F32, TF32)
    assert not grid_contains(TF32, F32)
    assert grid_contains(TF32, BF16)
    assert grid_contains(TF32, F16)
    assert not grid_contains(TF32, UINT16)
    assert not grid_contains(F32, INT32)
    assert not grid_contains(INT32, UINT32)
    assert grid_contains(INT32, UINT16)
    assert grid_contains(FP4_E2M1FN_X4, FP4_E2M1FN_X4)
    assert not grid_contains(F32, FP4_E2M1FN_X4)


# Promotion.


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        ((F32, INT8), F32), ((FP8_E5M2, INT32), FP8_E5M2), ((F16, F32), F32), ((BF16, F16), F32),
        ((FP8_E4M3, FP8_E5M2), BF16), ((FP8_E4M3, F16), F16), ((TF32, F32), F32), ((TF32, BF16), TF32),
        ((INT8, UINT8), INT16), ((INT8, UINT16), INT32), ((INT32, UINT32), F32), ((INT8, INT16), INT16),
        ((UINT8, UINT32), UINT32), ((UINT8, INT8, UINT16), INT32), ((BOOL, BOOL), BOOL), ((BOOL, INT8), INT8),
        ((BOOL, F16), F16), ((INT8, 2), INT32), ((F16, 1.2), F32), ((F16, np.float16(2)), F16), ((F16, 2), F16),
        ((BOOL, True), UINT8), ((INT8, True), INT16), ((UINT8, 2), INT32), ((1, 2), INT32), ((1, 2.0), F32),
        (("int8", np.uint8), INT16), ((BF16,), BF16), ((UINT32, 2**31), UINT32), ((FP8_E4M3, FP8_E4M3FN, F16), F16),
    ],
    ids=str,
)  # fmt: skip
def test_promotion_follows_the_documented_rules(operands: tuple[object, ...], result: DType) -> None:
    assert promote(*operands) is result
    assert promote(*reversed(operands)) is result


UNPACKED = st.sampled_from([entry for entry in ALL if entry.kind != "packed"])


@given(st.lists(UNPACKED, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_promotion_ignores_order_and_repetition(operands: list[DType], random: Any) -> None:
    expected = promote(*operands)
    shuffled = [*operands, *operands]
    random.shuffle(shuffled)
    assert promote(*shuffled) is expected


@given(st.lists(st.sampled_from(sorted(INTEGERS, key=str)), min_size=1, max_size=4))
def test_promotion_of_integers_holds_all_their_values_or_is_float32(operands: list[DType]) -> None:
    result = promote(*operands)
    assert result is F32 or all(grid_contains(result, operand) for operand in operands)


def test_packed_types_promote_only_with_themselves() -> None:
    assert promote(FP4_E2M1FN_X4, FP4_E2M1FN_X4) is FP4_E2M1FN_X4
    with pytest.raises(NkiError) as refused:
        promote(FP4_E2M1FN_X4, F32)
    assert refused.value.diagnostics[0].code == "NKI207"


def test_scalars_count_as_their_widest() -> None:
    assert scalar_dtype(True) is UINT8
    assert scalar_dtype(-1) is INT32
    assert scalar_dtype(2**31) is UINT32
    assert scalar_dtype(2**32) is F32
    assert scalar_dtype(0.5) is F32
    assert scalar_dtype(np.int16(3)) is INT16
    assert scalar_dtype(ml_dtypes.bfloat16(3)) is BF16
    assert scalar_dtype(np.float64(3)) is F32  # what np.sqrt gives of a Python number
    assert scalar_dtype(np.int64(3)) is INT32
    assert scalar_dtype(np.uint64(2**31)) is UINT32
    for nonsense in ("3", None, 2j, np.complex64(3), [1]):
        with pytest.raises(NkiError):
            scalar_dtype(nonsense)


def test_every_constant_of_the_module_is_in_the_table() -> None:
    constants = {value for value in vars(tables).values() if isinstance(value, DType)}
    assert constants == set(ALL)
    assert FP8_E4M3FN in FP8
