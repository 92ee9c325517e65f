"""The targets: documented numbers, provenance of every number, and recognition of names."""

from __future__ import annotations

import dataclasses
import pickle
from typing import get_args

import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import (
    ENGINE_REACH,
    GENERATIONS,
    TARGETS,
    V2,
    V3,
    V4,
    Arch,
    Confidence,
    arch_of,
    legal_starts,
)

ARCHES = [V2, V3, V4]
NUMBERS = [item.name for item in dataclasses.fields(Arch) if item.name not in ("name", "generation", "target", "facts")]


@pytest.mark.parametrize("arch", ARCHES, ids=str)
def test_every_number_has_a_source_and_a_confidence(arch: Arch) -> None:
    assert sorted(arch.facts) == sorted(NUMBERS)
    for name in NUMBERS:
        fact = arch.fact(name)
        assert fact.value == getattr(arch, name), name
        assert len(fact.source) > 5, name
        assert fact.confidence in get_args(Confidence), name


@pytest.mark.parametrize("arch", ARCHES, ids=str)
def test_numbers_have_the_declared_type(arch: Arch) -> None:
    kinds = {"int": int, "float": float, "bool": bool, "tuple[int, ...]": tuple, "tuple[str, ...]": tuple}
    for item in dataclasses.fields(Arch):
        if item.name in NUMBERS:
            assert type(getattr(arch, item.name)) is kinds[str(item.type)], item.name


def test_an_unknown_fact_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        V3.fact("warp_size")


def test_limits_are_those_of_tile_size() -> None:
    for arch in ARCHES:
        assert (arch.pmax, arch.psum_fmax, arch.psum_bank_fmax, arch.psum_bank_bytes, arch.psum_banks) == (
            128, 512, 512, 2048, 8,
        )  # fmt: skip
        assert (arch.gemm_stationary_fmax, arch.gemm_moving_fmax, arch.bn_stats_fmax) == (128, 512, 512)
        assert (arch.sbuf_operand_fmax, arch.psum_operand_fmax) == (65536, 4096)
        assert arch.psum_banks * arch.psum_bank_bytes == arch.psum_partition_bytes == 16384
        assert arch.sbuf_partition_bytes * arch.pmax == arch.sbuf_bytes
        assert arch.sbuf_usable_bytes == arch.sbuf_partition_bytes - (16 << 10)
        assert arch.min_initiation_interval == 64
        assert arch.dma_engines * arch.dma_partitions_per_engine == arch.pmax
    assert [arch.sbuf_partition_bytes // 1024 for arch in ARCHES] == [192, 224, 256]
    assert [arch.matmul_dst_bytes for arch in ARCHES] == [2048, 2048, 16384]
    assert [arch.dma_bytes_per_ns for arch in ARCHES] == [17, 23, 33]


def test_clocks_are_the_documented_ones() -> None:
    clocks = {arch: [arch.ghz(engine) for engine in ("tensor", "vector", "scalar", "gpsimd")] for arch in ARCHES}
    assert clocks == {V2: [2.8, 1.12, 1.4, 1.4], V3: [2.4, 0.96, 1.2, 1.2], V4: [2.4, 1.2, 1.2, 1.2]}
    assert V3.ghz("sync") > 0
    assert V3.fact("sync_ghz").confidence == "guess"


def test_peak_rates_agree_with_clock_and_width() -> None:
    for arch in ARCHES:
        assert arch.tensor_tflops_bf16 == pytest.approx(
            2 * arch.pmax * arch.gemm_stationary_fmax * arch.tensor_ghz / 1000, rel=1e-3
        )


def test_guesses_and_carried_numbers_say_so() -> None:
    assert V3.fact("sbuf_usable_bytes").confidence == "guess"
    assert V3.fact("vector_start_cycles").confidence == "measured"
    assert V4.fact("vector_start_cycles").confidence == "inferred"
    assert "Trainium2" in V4.fact("vector_start_cycles").source
    assert V2.fact("activation_table_load_ns").confidence == "inferred"
    assert V2.fact("dma_issue_interval_ns").confidence == "inferred"
    assert V4.fact("dma_issue_interval_ns").value == V3.dma_issue_interval_ns
    measured = [name for name, fact in V4.facts.items() if fact.confidence == "measured" and V3.fact(name) is not fact]
    assert measured == []


def test_later_generations_drop_the_locks() -> None:
    assert V2.sbuf_lock == ("vector", "gpsimd")
    assert V2.psum_lock == ("vector", "scalar")
    assert V3.sbuf_lock == V4.sbuf_lock == V3.psum_lock == V4.psum_lock == ()


def test_start_up_follows_the_engine() -> None:
    assert V3.engine_start_cycles("vector") == 154
    assert V3.engine_start_cycles("scalar") == 355
    assert V3.engine_start_cycles("gpsimd") == 150
    assert V3.engine_start_cycles("tensor") == V3.matmul_latency_cycles
    assert V3.engine_start_cycles("sync") == 0


def test_engines_reach_their_memories() -> None:
    assert set(ENGINE_REACH) == {"tensor", "vector", "scalar", "gpsimd", "dma"}
    assert ENGINE_REACH["tensor"].read == {"sbuf"}
    assert ENGINE_REACH["tensor"].write == {"psum"}
    assert ENGINE_REACH["gpsimd"].read == ENGINE_REACH["gpsimd"].write == {"sbuf"}
    assert ENGINE_REACH["vector"] == ENGINE_REACH["scalar"]
    assert "psum" not in ENGINE_REACH["dma"].read | ENGINE_REACH["dma"].write


@pytest.mark.parametrize(
    ("partitions", "starts"),
    [(1, (0, 32, 64, 96)), (32, (0, 32, 64, 96)), (33, (0, 64)), (64, (0, 64)), (65, (0,)), (128, (0,)), (129, ()),
     (0, ()), (-1, ())],
)  # fmt: skip
def test_start_partitions_follow_the_documented_bands(partitions: int, starts: tuple[int, ...]) -> None:
    assert legal_starts(partitions) == starts
    assert all(start + partitions <= 128 for start in starts)


@pytest.mark.parametrize(
    ("name", "arch"),
    [("trn1", V2), ("trn1n", V2), ("inf2", V2), ("gen2", V2), ("trn2", V3), ("gen3", V3), ("trn3", V4), ("gen4", V4),
     ("NeuronCore-v2", V2), ("neuroncore-V3", V3), ("NEURONCORE_V4", V4), (" TRN2 ", V3), ("v3", V3)],
)  # fmt: skip
def test_targets_are_recognised_in_any_case(name: str, arch: Arch) -> None:
    assert arch_of(name) is arch


@pytest.mark.parametrize("arch", ARCHES, ids=str)
def test_an_arch_is_one_object(arch: Arch) -> None:
    assert arch_of(arch) is arch
    assert arch_of(arch.name) is arch
    assert arch_of(arch.target) is arch
    assert TARGETS[arch.target] is GENERATIONS[arch.generation] is arch
    assert pickle.loads(pickle.dumps(arch)) is arch
    with pytest.raises(dataclasses.FrozenInstanceError):
        arch.pmax = 64  # type: ignore[misc]


@pytest.mark.parametrize("name", ["trn4", "gpu", "", "trn", "2"])
def test_an_unknown_target_is_refused_with_a_code(name: str) -> None:
    with pytest.raises(NkiError) as refused:
        arch_of(name)
    assert refused.value.diagnostics[0].code == "NKI004"
    assert isinstance(refused.value, ValueError)
    assert refused.value.diagnostics[0].help


def test_a_misspelt_target_is_answered_with_the_near_ones() -> None:
    with pytest.raises(NkiError, match=r"did you mean .*trn2"):
        arch_of("trn22")
