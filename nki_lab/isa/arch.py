"""Facts of each NeuronCore generation: sizes, limits, clocks and costs, each with its source and confidence.

`Arch` gives the numbers as plain fields, quickly; `arch.fact(name)` gives where one comes from. Units are in the
names: `_bytes`, `_ns`, `_ghz`, `_cycles` (of the engine named), `_bytes_per_ns` (which is GB/s).
`fmax` counts elements of the free dimension, as in `nl.tile_size`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from nki_lab.diagnostic import coded_error
from nki_lab.isa.spelling import did_you_mean

Confidence = Literal["documented", "measured", "inferred", "guess"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number and how far to trust it.

    `documented`: the vendor prints it. `measured`: read off a published profile. `inferred`: follows from such numbers
    by arithmetic, or is carried over from another generation. `guess`: a value somebody had to choose.
    """

    value: Any
    source: str
    confidence: Confidence
    fit: tuple[float, ...] = ()
    """The values that `benchmarks.calibration.fit` tries, of a number that it alone changes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Arch:
    """One NeuronCore generation; the only instances are V2, V3 and V4."""

    name: str
    generation: int
    target: str  # the instance family that stands for the generation, and what users write for it
    facts: Mapping[str, Fact]

    # Memories. SBUF and PSUM are two-dimensional: partitions times bytes a partition.
    pmax: int
    sbuf_bytes: int
    sbuf_partition_bytes: int
    sbuf_usable_bytes: int  # a partition, without the reserve
    psum_partition_bytes: int
    psum_banks: int
    psum_bank_bytes: int  # a partition
    psum_bank_fmax: int  # float32 elements
    psum_fmax: int  # the older name of psum_bank_fmax
    psum_bf16: bool  # whether matmuls accumulate into bfloat16 too
    hbm_bytes: int  # a chip
    hbm_bytes_per_ns: float  # a chip
    cores_per_chip: int
    mbu_bytes_per_ns: float  # what the vendor's profiler divides HBM traffic by

    # Operand limits.
    gemm_stationary_fmax: int
    gemm_moving_fmax: int  # as nl.tile_size says on every generation
    matmul_dst_bytes: int  # a partition
    bn_stats_fmax: int
    sbuf_operand_fmax: int
    psum_operand_fmax: int
    registers: int

    # Clocks and widths.
    tensor_ghz: float
    vector_ghz: float
    scalar_ghz: float
    gpsimd_ghz: float
    sync_ghz: float
    scalar_width: int
    scalar_width_narrow: int
    vector_fast_bytes: tuple[int, ...]  # float widths that the automatic fast modes take
    scalar_fast_bytes: tuple[int, ...]
    vector_fast_copy: int  # best speed-up of tensor_copy and tensor_scalar
    vector_fast_copy_partial: int  # when strided, or with one side in PSUM
    vector_fast_tensor_tensor: int
    vector_fp32_copy: int  # float32 tensor_copy from SBUF to SBUF
    vector_fast_exponential: int
    gpsimd_partitions_per_core: int

    # Peak rates, for utilisations (TFLOP/s).
    tensor_tflops_bf16: float
    tensor_tflops_fp8: float
    tensor_tflops_mx: float

    # Instruction costs.
    min_initiation_interval: int
    dynamic_initiation_interval: int  # with a register in an address
    vector_start_cycles: int
    vector_issue_overhead_cycles: int  # added to each initiation interval, as that of the Scalar Engine
    scalar_issue_overhead_cycles: int
    scalar_start_cycles: int
    gpsimd_start_cycles: int
    act_read_accumulator_cycles: int
    reciprocal_cycles: int  # of the Vector Engine, an element
    activation_table_load_ns: float
    strided_limit_bytes: int  # an innermost step above it halves bandwidth; 0: no such rule known
    strided_factor: int
    semaphore_ns: float
    sequencer_ns: float  # an instruction of an engine's sequencer
    launch_ns: float  # before the first instruction of a kernel on one core
    launch_pair_ns: float  # same, of a kernel on the two cores of a logical core
    teardown_ns: float

    # Matmul.
    matmul_latency_cycles: int  # fill, drain and write, beyond the streaming
    matmul_min_cycles: int
    load_stationary_ns: float
    stationary_stride_cycles: float  # a column of a stationary tile whose columns are not next to each other
    fp32_matmul_factor: int
    fp32_matmul_overhead_cycles: int
    fp32_transpose_factor: int
    tile_positions: tuple[int, ...]  # legal row and column tile sizes
    power_ramp_ns: float  # 0: none
    power_ramp_floor: float  # share of the peak rate at its start

    # DMA.
    dma_engines: int
    dma_queues_per_engine: int
    dma_partitions_per_engine: int
    dma_bytes_per_ns: float  # an engine, sustained
    dma_peak_bytes_per_ns: float
    dma_issue_interval_ns: float  # from one transfer of an HBM tensor to the next
    dma_short_descriptor_bytes: int  # transfers of descriptors below this do not keep the interval; 0: all do
    dma_engine_overhead_ns: float
    dma_start_load_ns: float  # from trigger to first data, beside the reading of the first descriptor
    dma_start_store_ns: float
    dma_buffer_bytes: int  # of a descriptor, that an engine reads before it writes
    dma_completion_ns: float  # from last data to the start of the waiting engine
    dma_engine_stagger_ns: float  # from the first of all engines to the last
    dma_semaphore_write_ns: float  # the least time of a descriptor, and an engine's end of a transfer
    dma_efficient_bytes: int  # a descriptor; below it overhead dominates
    dma_transpose_hbm_share: float
    dma_transpose_sbuf_share: float
    dma_accumulate_share: float
    dma_qos_classes: int
    dge_hardware_ns: float  # from a transfer to the next; 0: descriptors are static
    dge_trigger_ns: float  # of the engine that triggers one
    dge_software_ns: float  # of a transfer with a descriptor for each partition
    gpsimd_dma_bytes_per_ns: float

    # Serialisation, and beyond one core.
    sbuf_lock: tuple[str, ...]  # engines that exclude each other on SBUF
    psum_lock: tuple[str, ...]
    psum_bank_lock: tuple[str, ...]  # engines that exclude each other within one PSUM bank
    link_bytes_per_ns: float  # a chip
    chips_per_node: int
    collective_hop_ns: float  # within a node
    collective_far_hop_ns: float  # from node to node
    collective_mesh_bytes: int  # up to here a collective is a mesh, one hop
    collective_ring_bytes: int  # from here on a ring of pairs of ranks; between the two, hops double the distance
    core_barrier_ns: float
    loop_overhead_ns: float

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (arch_of, (self.name,))

    def fact(self, name: str) -> Fact:
        """Return the number `name` with its source and confidence; KeyError for other names."""
        return self.facts[name]

    def ghz(self, engine: str) -> float:
        """Return the clock of an engine: tensor, vector, scalar, gpsimd or sync."""
        return float(self.facts[f"{engine}_ghz"].value)

    def before_ns(self, cores: int) -> float:
        """Return the nanoseconds before the first instruction of a kernel on some cores."""
        return self.launch_ns if cores == 1 else self.launch_pair_ns

    def envelope_ns(self, cores: int) -> float:
        """Return the nanoseconds before and after the instructions of a kernel on some cores."""
        return self.before_ns(cores) + self.teardown_ns

    def engine_overhead_cycles(self, engine: str) -> int:
        """Return the cycles that each instruction keeps an engine beyond those for its elements."""
        return int(self.facts[f"{engine}_issue_overhead_cycles"].value) if engine in ("vector", "scalar") else 0

    def engine_start_cycles(self, engine: str) -> int:
        """Return the cycles of an instruction's latency beyond its initiation interval, on an engine; 0 on sync."""
        if engine == "tensor":
            return self.matmul_latency_cycles
        return int(self.facts[f"{engine}_start_cycles"].value) if engine in ("vector", "scalar", "gpsimd") else 0


@dataclass(frozen=True, slots=True)
class Reach:
    """The memories that an engine reads and writes."""

    read: frozenset[str]
    write: frozenset[str]


_ON_CHIP: Final = frozenset({"sbuf", "psum"})
_SBUF: Final = frozenset({"sbuf"})
_DMA_REACH: Final = frozenset({"hbm", "sbuf"})

# Trainium architecture guides. DMA reads no PSUM since NKI 0.3.0.
ENGINE_REACH: Final[Mapping[str, Reach]] = MappingProxyType({
    "tensor": Reach(_SBUF, frozenset({"psum"})),
    "vector": Reach(_ON_CHIP, _ON_CHIP),
    "scalar": Reach(_ON_CHIP, _ON_CHIP),
    "gpsimd": Reach(_SBUF, _SBUF),
    "dma": Reach(_DMA_REACH, _DMA_REACH),
})  # fmt: skip


def legal_starts(partitions: int) -> tuple[int, ...]:
    """Return the partitions where an access of `partitions` partitions may start, in ascending order.

    Trainium architecture guide: quadrants for up to 32, halves for up to 64, else 0. Empty above 128 and below 1.
    """
    if not 1 <= partitions <= 128:
        return ()
    if partitions <= 32:
        return (0, 32, 64, 96)
    return (0, 64) if partitions <= 64 else (0,)


# Sources.
_V2_GUIDE: Final = "Trainium/Inferentia2 architecture guide"
_V3_GUIDE: Final = "Trainium2 architecture guide"
_V4_GUIDE: Final = "Trainium3 architecture guide"
_GUIDES: Final = "Trainium architecture guides"
_API: Final = "NKI API reference"
_TILE_SIZE: Final = "NKI API reference, nl.tile_size"
_API_226: Final = "NKI API documentation of SDK 2.26, per-instruction cost"
_PERF_GUIDE: Final = "NKI performance guide"
_DMA_GUIDE: Final = "NKI DMA bandwidth guide"
_DMA_OVERVIEW: Final = "NKI DMA overview"
_DGE: Final = "NKI descriptor generation guide"
_PROFILES: Final = "published Trainium2 profiles"
_RESERVE: Final = (
    "nki-library budgets 224 KiB - 16 KiB - 264 bytes a partition: 16 KiB reserved; the reserve itself is not published"
)
_LIBRARY: Final = "recorded times of nki-library's kernels"
_UNPUBLISHED: Final = "not published"


def _facts(confidence: Confidence, source: str, **values: Any) -> dict[str, Fact]:
    return {name: Fact(value, source, confidence) for name, value in values.items()}


_documented, _measured, _inferred, _guess = (partial(_facts, level) for level in get_args(Confidence))


def _fitted(source: str, fit: Iterable[float], **values: float) -> dict[str, Fact]:
    """Numbers that a script fits to published times; it rewrites the value where it stands here."""
    tried = tuple(float(value) for value in fit)
    return {name: Fact(value, source, "inferred", tried) for name, value in values.items()}


def _carried(facts: Mapping[str, Fact], origin: str, *names: str) -> dict[str, Fact]:
    """Numbers of another generation, standing in where this one's are not published."""
    return {
        name: Fact(
            facts[name].value,
            f"{origin} figure: {facts[name].source}",
            "guess" if facts[name].confidence == "guess" else "inferred",
        )
        for name in names
    }


_COMMON: Final = (
    _documented(
        _TILE_SIZE,
        pmax=128,
        psum_bank_fmax=512,
        psum_fmax=512,
        psum_bank_bytes=2048,
        psum_banks=8,
        gemm_stationary_fmax=128,
        gemm_moving_fmax=512,
        bn_stats_fmax=512,
    )
    | _documented(_GUIDES, psum_partition_bytes=16 << 10)
    | _documented(
        _V2_GUIDE,
        sbuf_operand_fmax=65536,
        psum_operand_fmax=4096,
        gpsimd_partitions_per_core=16,
    )
    | _documented(f"{_API}, register_alloc", registers=64)
    | _documented(_API_226, gpsimd_start_cycles=150, dynamic_initiation_interval=600, act_read_accumulator_cycles=64)
    | _documented(f"{_API}, engine selection", min_initiation_interval=64)
    | _inferred(
        "NKIBench profiles of silu and swiglu on trn1: the Vector Engine's busy time leaves 1.8 and 2.5 cycles an "
        f"element; {_API_226} prints 8",
        reciprocal_cycles=2,
    )
    | _documented(_GUIDES, matmul_min_cycles=64, fp32_matmul_factor=4)
    | _documented(_DMA_OVERVIEW, dma_engines=16, dma_queues_per_engine=16, dma_partitions_per_engine=8)
    | _inferred(f"{_PROFILES}: bars of sequencer instructions, whose role is inferred", sequencer_ns=36.0)
    | _documented("NKI DMA bandwidth guide: 2 KiB or more of each partition", dma_efficient_bytes=2048)
    | _documented("Amazon EC2, trn1.32xlarge, trn2.48xlarge", chips_per_node=16)
    | _documented(
        "Neuron intra-node collective communications, comparison of algorithms",
        collective_mesh_bytes=1 << 20,
        collective_ring_bytes=56 << 20,
    )
    | _documented("Neuron collectives documentation, 15 us a hop between nodes", collective_far_hop_ns=15000.0)
    | _inferred("Neuron collectives documentation, 1-2 us a hop within a node", collective_hop_ns=1500.0)
    | _guess("not published; one semaphore exchange each way through shared memory", core_barrier_ns=2000.0)
    | _guess("not published; a register decrement, a compare and a branch on the sequencer", loop_overhead_ns=100.0)
)

_V2: Final = (
    _COMMON
    | _documented(
        _V2_GUIDE,
        sbuf_bytes=24 << 20,
        sbuf_partition_bytes=192 << 10,
        hbm_bytes=32 << 30,
        hbm_bytes_per_ns=820.0,
        cores_per_chip=2,
        tensor_ghz=2.8,
        vector_ghz=1.12,
        scalar_ghz=1.4,
        gpsimd_ghz=1.4,
        scalar_width=128,
        scalar_width_narrow=128,
        strided_limit_bytes=16,
        strided_factor=2,
        sbuf_lock=("vector", "gpsimd"),
        psum_lock=("vector", "scalar"),
        link_bytes_per_ns=384.0,
    )
    | _guess(_RESERVE, sbuf_usable_bytes=(192 - 16) << 10)
    | _inferred("the locks of this generation are wider than a bank", psum_bank_lock=())
    | _inferred("two cores share the chip's bandwidth; the profiler's divisor is that of both", mbu_bytes_per_ns=820.0)
    | _documented(f"{_API}, nc_matmul: dst within one bank", matmul_dst_bytes=2048)
    | _inferred("2 x 128 x 128 x 2.8 GHz; the guide prints 92", tensor_tflops_bf16=91.75)
    | _inferred("8-bit floats run at the bfloat16 rate", tensor_tflops_fp8=91.75)
    | _documented(_V2_GUIDE, tensor_tflops_mx=0.0)
    | _documented(
        f"absent from the {_V2_GUIDE}, introduced with later generations",
        psum_bf16=False,
        dma_qos_classes=0,
        power_ramp_ns=0.0,
        power_ramp_floor=1.0,
        gpsimd_dma_bytes_per_ns=0.0,
        vector_fast_bytes=(),
        scalar_fast_bytes=(),
        vector_fast_copy=1,
        vector_fast_copy_partial=1,
        vector_fast_tensor_tensor=1,
        vector_fp32_copy=1,
        vector_fast_exponential=1,
    )
    | _documented(f"{_API}, nc_matmul tile_size", tile_positions=(64, 128))
    | _inferred(
        f"{_V2_GUIDE}: about 100 cycles between dependent instructions, 28 of them the semaphore",
        vector_start_cycles=72,
    )
    | _inferred(
        "on trn1, cycles an instruction beyond one an element: Autocomp's conv1d has 62.6, 58.4 and about 53 on the "
        "Vector Engine with 3, 12 and 384 elements, NKIBench's bmm and matmul 52.6 and 61.6 on the Scalar Engine with "
        "128 and 512",
        vector_issue_overhead_cycles=58,
        scalar_issue_overhead_cycles=58,
    )
    | _measured(f"{_PERF_GUIDE}, figure 16: 159 ns for one element", scalar_start_cycles=222)
    | _measured(f"{_PERF_GUIDE}, figure 16", semaphore_ns=25.0)
    | _measured(f"{_PERF_GUIDE}, figures 20-21: 188 ns for 128 columns", matmul_latency_cycles=400)
    | _measured(f"{_PERF_GUIDE}, figures 20-21: one column", load_stationary_ns=67.0)
    | _inferred(
        "NKIBench swiglu and rmsnorm_matmul on trn1: 4608 and 1024 float32 matmuls of 512 columns leave 53 and 61 "
        "cycles for each of the four passes",
        fp32_matmul_overhead_cycles=228,
    )
    | _inferred("as a float32 matmul; no factor is published", fp32_transpose_factor=4)
    | _inferred(
        f"{_V2_GUIDE}: stationary tiles load up to four times as fast as they stream; strides halve the bandwidth",
        stationary_stride_cycles=0.5,
    )
    | _documented(_DMA_GUIDE, dma_bytes_per_ns=17.0)
    | _documented(_DMA_OVERVIEW, dma_peak_bytes_per_ns=27.2)
    | _measured(f"{_PERF_GUIDE}, figure 30", dma_semaphore_write_ns=7.0)
    | _inferred(
        "AWS's tests of Beta 1 kernels: 14 us for one with transfers of 7 us, 25 us for one of 10 us; as on Trainium2, "
        "whose kernels on one core leave about 7 us. Profiles show more: of the fused mamba tutorial's 172.9 us 150.9 "
        "us are in the core",
        launch_ns=4000.0,
        teardown_ns=3000.0,
    )
    | _guess("no logical cores of two on this generation: as on one", launch_pair_ns=4000.0)
    | _documented("no transpose path before Trainium2", dma_transpose_hbm_share=0.0, dma_transpose_sbuf_share=0.0)
    | _inferred(f"{_V4_GUIDE}: half rate before v4", dma_accumulate_share=0.5)
    | _guess(
        "no hardware generator on this generation: descriptors are static", dge_hardware_ns=0.0, dge_trigger_ns=0.0
    )
    | _inferred(
        "trn1 matrix multiplication tutorial: loads in the inner loop take 42.96 ms for 32,768 tiles of one tensor "
        f"and 2,048 of another, 1250 ns each; {_DMA_GUIDE}: about 1300 ns from semaphore to start",
        dma_issue_interval_ns=1250.0,
    )
    | _inferred(
        "AWS's tests of average pooling: 98 loads by descriptors of 4 bytes within 88 us, 392 by 8 bytes within 327, "
        "0.83 us each; the limit is that of Trainium2",
        dma_short_descriptor_bytes=64,
    )
    | _guess(f"{_UNPUBLISHED}; the scalar engine's clock", sync_ghz=1.4)
)

_V3: Final = (
    _COMMON
    | _documented(
        _V3_GUIDE,
        tensor_tflops_fp8=158.0, tensor_tflops_mx=0.0,
        sbuf_bytes=28 << 20, sbuf_partition_bytes=224 << 10,
        hbm_bytes=96 << 30, hbm_bytes_per_ns=2900.0, cores_per_chip=8,
        tensor_ghz=2.4, vector_ghz=0.96, scalar_ghz=1.2, gpsimd_ghz=1.2,
        scalar_width=128, scalar_width_narrow=128,
        vector_fast_bytes=(2,), vector_fast_copy=4, vector_fast_copy_partial=2,
        psum_bf16=False,
        fp32_transpose_factor=2, sbuf_lock=(), psum_lock=(), link_bytes_per_ns=1280.0,
        dma_transpose_hbm_share=0.9, dma_transpose_sbuf_share=0.5, gpsimd_dma_bytes_per_ns=307.0,
        scalar_fast_bytes=(), dma_qos_classes=0,
    )
    | _guess(_RESERVE, sbuf_usable_bytes=(224 - 16) << 10)
    | _inferred("same-bank collisions cost an unpublished amount: serialised", psum_bank_lock=("vector", "scalar"))
    | _inferred("divisor of MBU in the kernel optimization tutorial", mbu_bytes_per_ns=716.0)
    | _documented(f"{_API}, nc_matmul: dst within one bank", matmul_dst_bytes=2048)
    | _documented("nki-library metrics; the guide prints 79", tensor_tflops_bf16=78.64)
    | _documented(f"{_API}, nc_matmul tile_size", tile_positions=(32, 64, 128))
    | _inferred("2x of the 2N that v2 needs, or N/2: the 512-wide mode moves two inputs", vector_fast_tensor_tensor=2)
    | _measured(f"{_PROFILES}: 428 ns for 512 elements", vector_fp32_copy=2)
    | _documented(f"introduced with v4: {_V4_GUIDE}", vector_fast_exponential=1)
    | _measured(f"{_PROFILES}: duration is N / rate + 160 ns", vector_start_cycles=154)
    | _measured(f"{_PROFILES}: issue interval at N = 512", vector_issue_overhead_cycles=70)
    | _guess(f"{_UNPUBLISHED}; taken for none", scalar_issue_overhead_cycles=0)
    | _measured(f"{_PROFILES}: N / rate + 296 ns, seen right after a table load", scalar_start_cycles=355)
    | _measured(f"{_PROFILES}: two adjoining bars, taken for a table load", activation_table_load_ns=1327.0)
    | _measured(f"{_PROFILES}: 600 ns bar for a 427 ns stream", matmul_latency_cycles=420)
    | _measured(f"{_PROFILES}: 128 x 128 float32", load_stationary_ns=197.0)
    | _measured(f"{_PROFILES}: 859 ns for 512 columns", fp32_matmul_overhead_cycles=14)
    | _measured(f"{_PROFILES}: end of one engine to start of the next", semaphore_ns=27.0)
    | _documented("Neuron Explorer, summary page: about 50 % of peak, full rate after about 3 us", power_ramp_ns=3000.0)
    | _documented("Neuron Explorer, summary page", power_ramp_floor=0.5)
    | _documented(_DMA_GUIDE, dma_bytes_per_ns=23.0)
    | _documented(_DMA_OVERVIEW, dma_peak_bytes_per_ns=27.2)
    | _inferred(f"{_DMA_OVERVIEW}: efficiency against bytes a partition", dma_issue_interval_ns=850.0)
    | _inferred(
        f"{_DMA_OVERVIEW}: at 32 bytes a partition 622 ns, what the descriptors take; at 64 bytes 809 ns",
        dma_short_descriptor_bytes=64,
    )
    | _inferred(
        f"{_DMA_OVERVIEW}: efficiency against bytes a partition leaves 50 ns, 8 of them the semaphore",
        dma_engine_overhead_ns=42.0,
    )
    | _measured(f"{_PROFILES}: 749 ns with descriptors of 256 B; idle engines 764 ns", dma_start_load_ns=750.0)
    | _measured(f"{_PROFILES}: 615 ns with descriptors of 256 B", dma_start_store_ns=615.0)
    | _inferred(f"{_PROFILES}: descriptors of 8 KiB start later than short ones by their time", dma_buffer_bytes=8192)
    | _measured(f"{_PROFILES}: 316 and 297 ns", dma_completion_ns=306.0)
    | _measured(_PROFILES, dma_engine_stagger_ns=290.0, dma_semaphore_write_ns=8.0)
    | _inferred(f"{_V4_GUIDE}: half rate before v4", dma_accumulate_share=0.5)
    | _documented(f"{_V3_GUIDE}; {_DGE}", dge_hardware_ns=600.0)
    | _measured(f"{_PROFILES}: bar of the sync engine", dge_trigger_ns=523.0)
    | _measured(
        f"{_PROFILES}: scalar engine's end to the trigger issued by GpSimd, 881 ns less the semaphore",
        dge_software_ns=854.0,
    )
    | _inferred("mamba tutorial on trn1: a share of the envelope is behind the last instruction", teardown_ns=3000.0)
    | _fitted(f"{_LIBRARY} on one core: fitted", range(0, 26000, 1000), launch_ns=6000.0)
    | _fitted(f"{_LIBRARY} on two cores: fitted", range(5000, 40000, 1000), launch_pair_ns=24000.0)
    | _fitted(
        f"{_LIBRARY}, projections by strided weights: fitted",
        (0.25, 0.5, 1, 1.5, 2, 3),
        stationary_stride_cycles=2.0,
    )
    | _guess(f"{_UNPUBLISHED}; the scalar engine's clock", sync_ghz=1.2)
    | _guess("v2's stride penalty is not restated", strided_limit_bytes=0, strided_factor=1)
)  # fmt: skip

_V2_ALL: Final = _V2 | _carried(
    _V3,
    "Trainium2",
    "activation_table_load_ns",
    "dma_engine_overhead_ns",
    "dma_start_load_ns",
    "dma_start_store_ns",
    "dma_buffer_bytes",
    "dma_completion_ns",
    "dma_engine_stagger_ns",
    "dge_software_ns",
)

_V4: Final = (
    _COMMON
    | _carried(_V3, "Trainium2", *(name for name in _V3 if name not in _COMMON))
    | _documented(
        _V4_GUIDE,
        tensor_tflops_mx=315.0,
        sbuf_bytes=32 << 20,
        hbm_bytes=144 << 30, hbm_bytes_per_ns=4700.0, cores_per_chip=8,
        tensor_ghz=2.4, vector_ghz=1.2, scalar_ghz=1.2, gpsimd_ghz=1.2,
        scalar_width=128, scalar_width_narrow=256,
        vector_fast_bytes=(1, 2), scalar_fast_bytes=(1, 2), vector_fast_exponential=4,
        psum_bf16=True,
        link_bytes_per_ns=2560.0, dma_accumulate_share=1.0, dma_qos_classes=4,
    )
    | _inferred("32 MiB over 128 partitions", sbuf_partition_bytes=256 << 10)
    | _guess(_RESERVE, sbuf_usable_bytes=(256 - 16) << 10)
    | _documented(f"{_API}, nc_matmul: dst up to all eight banks", matmul_dst_bytes=16 << 10)
    | _documented("Neuron Explorer, summary page: about 50 % of peak, full rate after about 3 us", power_ramp_ns=3000.0)
    | _documented("Neuron Explorer, summary page", power_ramp_floor=0.5)
    | _documented("nki-library metrics; the guide prints 79", tensor_tflops_bf16=78.64)
    | _documented(f"{_API}, nc_matmul tile_size", tile_positions=(32, 64, 128))
    | _inferred("two cores' share of the chip, as the profiler counts on trn2", mbu_bytes_per_ns=1175.0)
    | _documented(_DMA_GUIDE, dma_bytes_per_ns=33.0)
    | _documented(_DMA_OVERVIEW, dma_peak_bytes_per_ns=38.4)
)  # fmt: skip


def _arch(name: str, generation: int, target: str, facts: Mapping[str, Fact]) -> Arch:
    numbers: dict[str, Any] = {key: fact.value for key, fact in facts.items()}
    return Arch(name=name, generation=generation, target=target, facts=MappingProxyType(dict(facts)), **numbers)


V2: Final = _arch("NeuronCore-v2", 2, "trn1", _V2_ALL)
V3: Final = _arch("NeuronCore-v3", 3, "trn2", _V3)
V4: Final = _arch("NeuronCore-v4", 4, "trn3", _V4)

GENERATIONS: Final[Mapping[int, Arch]] = MappingProxyType({2: V2, 3: V3, 4: V4})

# The names users write, and the generation each stands for.
TARGETS: Final[Mapping[str, Arch]] = MappingProxyType({
    "trn1": V2, "trn1n": V2, "inf2": V2, "gen2": V2,
    "trn2": V3, "gen3": V3,
    "trn3": V4, "gen4": V4,
})  # fmt: skip

_SPELLINGS: Final = dict(TARGETS) | {
    spelling: arch
    for number, arch in GENERATIONS.items()
    for spelling in (arch.name.casefold(), f"neuroncore_v{number}", f"neuroncorev{number}", f"v{number}")
}


def arch_of(target: str | Arch) -> Arch:
    """Return the generation that a target name stands for, in any case: "trn2", "gen3", "NeuronCore-v3".

    Raises NKI004 for an unknown name.
    """
    if isinstance(target, Arch):
        return target
    found = _SPELLINGS.get(target.strip().casefold())
    if found is not None:
        return found
    raise coded_error(
        "NKI004",
        f"{target!r} is no target",
        operand="target",
        limit=f"one of {', '.join(TARGETS)}",
        help=did_you_mean(target, (*TARGETS, *(arch.name for arch in GENERATIONS.values())))
        or "trn2 stands for the NeuronCore-v3 of Trainium2",
    )
