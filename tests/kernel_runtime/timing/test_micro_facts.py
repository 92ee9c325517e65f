"""Published measurements of single instructions, out of the walk of a kernel.

Each test names where the number was published. v2 is Trainium1, v3 Trainium2. No number here is a constant of the
model by itself: where one is, the law that it belongs to is tested at other sizes beside it.
"""

from __future__ import annotations

import pytest

from nki_lab.kernel_runtime.timing import costs_of
from tests.kernel_runtime.timing.timed import Timed, nisa, nl, timed

CLOSE = 0.05

# NKI kernel optimization tutorial, zoomed profiles of its third and fifth version (trn2), read off the screenshots.
TUTORIAL_MATMUL_INTERVAL = 859.0
TUTORIAL_COPY_OUT_OF_PSUM = 700.0
TUTORIAL_COPY_WITHIN_SBUF = 428.0
TUTORIAL_ADD = 694.0
TUTORIAL_ADD_INTERVAL = 604.0
TUTORIAL_COPY_INTERVAL = 343.0
TUTORIAL_STATIONARY_LOAD = 197.0
TUTORIAL_TRIGGER = 523.0
# NKI DMA overview, profiles of its two examples (trn2).
OVERVIEW_EXP_4096 = 3712.0
OVERVIEW_EXP_128 = 401.0
OVERVIEW_TABLE_LOAD = 1327.0
OVERVIEW_TRANSFER_32K = 1416.0
OVERVIEW_TRANSFER_2K = 97.0
OVERVIEW_SOFTWARE_TO_LAST_ENGINE = 1203.0
OVERVIEW_SYNC_TO_SEMAPHORES = 764.0
OVERVIEW_STORE_OF_LONG_ROWS_TO_DATA = 900.0
OVERVIEW_LONG_DATA_TO_CONSUMER = 316.0
OVERVIEW_SYNC_TO_DATA = 1005.0
OVERVIEW_SOFTWARE_TO_DATA = 749.0
OVERVIEW_STORE_TO_DATA = 615.0
OVERVIEW_DATA_TO_CONSUMER = 297.0
OVERVIEW_SCALAR_TO_GPSIMD = 27.0  # in the example with 4 descriptors
OVERVIEW_SCALAR_TO_TRIGGER = 881.0  # in the one with 128
# NKI performance guide, figures 16, 20 and 21 (trn1).
GUIDE_ACTIVATION_CHAIN = 189.0
GUIDE_ACTIVATION = 159.0
GUIDE_MATMUL_128 = 188.0
GUIDE_STATIONARY_LOAD = 67.0
# Profile of a depthwise convolution with 65,536 tiny tensor_tensor (Autocomp, trn1): 3.84 ms in all.
AUTOCOMP_TINY_CYCLES = 65.6


def matmuls(columns: int, dtype: object, rows: int = 128, count: int = 24, stationary: int = 128) -> object:
    """A kernel of independent matmuls over tiles that are there."""

    def kernel() -> None:
        a = nl.ndarray((rows, stationary), dtype, buffer=nl.sbuf)
        b = nl.ndarray((rows, columns), dtype, buffer=nl.sbuf)
        nisa.memset(a, 0.0)
        nisa.memset(b, 0.0)
        for _ in range(count):
            acc = nl.ndarray((stationary, columns), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(acc, a, b)

    return kernel


@pytest.mark.parametrize(
    ("columns", "dtype", "target", "expected"),
    [
        (512, nl.float32, "trn2", TUTORIAL_MATMUL_INTERVAL),
        # Four passes of N columns at 2.4 GHz and 14 cycles; one pass for narrow dtypes (NKI API documentation 2.26).
        (256, nl.float32, "trn2", (4 * 256 + 14) / 2.4),
        (128, nl.float32, "trn2", (4 * 128 + 14) / 2.4),
        (512, nl.bfloat16, "trn2", 512 / 2.4),
        # NKIBench swiglu and rmsnorm_matmul (trn1): 53 and 61 cycles beside each of four passes.
        (512, nl.float32, "trn1", (4 * 512 + 4 * 57) / 2.8),
        (512, nl.bfloat16, "trn1", 512 / 2.8),
        (16, nl.bfloat16, "trn1", 64 / 2.8),
    ],
)
def test_matmuls_follow_each_other_by_their_interval(columns: int, dtype: object, target: str, expected: float) -> None:
    found = timed(matmuls(columns, dtype), target=target, power_ramp=False)
    assert found.steps("nc_matmul")[4:] == pytest.approx([expected] * 19, rel=CLOSE)


def test_the_ramp_is_over_after_some_matmuls() -> None:
    steps = timed(matmuls(512, nl.float32)).steps("nc_matmul")
    assert steps[0] > 1.5 * TUTORIAL_MATMUL_INTERVAL
    assert steps[-1] == pytest.approx(TUTORIAL_MATMUL_INTERVAL, rel=CLOSE)


def test_an_isolated_bf16_matmul_of_128_columns_takes_188_ns_on_trn1() -> None:
    found = timed(matmuls(128, nl.bfloat16, count=1), target="trn1")
    assert found.span(found.rows("nc_matmul")[0]) == pytest.approx(GUIDE_MATMUL_128, rel=CLOSE)


@pytest.mark.parametrize(
    ("target", "dtype", "expected"),
    [("trn1", nl.bfloat16, GUIDE_STATIONARY_LOAD), ("trn2", nl.float32, TUTORIAL_STATIONARY_LOAD)],
)
def test_a_stationary_load_shows_after_a_pause(target: str, dtype: object, expected: float) -> None:
    found = timed(matmuls(128, dtype, count=1), target=target)
    assert found.timing.setup[found.rows("nc_matmul")[0]] / 1000 == pytest.approx(expected, rel=CLOSE)


# -- Vector Engine ----------------------------------------------------------------------------------------------------


def copies(columns: int, space: object, dtype: object, count: int = 6) -> object:
    """A kernel of independent copies of one tile into several of SBUF."""

    def kernel() -> None:
        source = nl.ndarray((128, columns), dtype, buffer=space)
        nisa.memset(source, 0.0)
        for _ in range(count):
            nisa.tensor_copy(nl.ndarray((128, columns), dtype, buffer=nl.sbuf), source)

    return kernel


@pytest.mark.parametrize(
    ("columns", "space", "dtype", "span", "interval"),
    [
        (512, nl.psum, nl.float32, TUTORIAL_COPY_OUT_OF_PSUM, 582 / 0.96),
        (512, nl.sbuf, nl.float32, TUTORIAL_COPY_WITHIN_SBUF, TUTORIAL_COPY_INTERVAL),
        # N / rate + 160 ns, and N cycles + 70 from start to start, at other sizes; 16-bit tiles at a quarter of a cycle
        # an element within SBUF, at a half from PSUM (Trainium2 architecture guide).
        (256, nl.psum, nl.float32, 256 / 0.96 + 160, 326 / 0.96),
        (256, nl.sbuf, nl.float32, 128 / 0.96 + 160, 198 / 0.96),
        (1024, nl.sbuf, nl.bfloat16, 256 / 0.96 + 160, 326 / 0.96),
        (512, nl.psum, nl.bfloat16, 256 / 0.96 + 160, 326 / 0.96),
    ],
)
def test_copies_of_the_vector_engine_follow_their_law(
    columns: int, space: object, dtype: object, span: float, interval: float
) -> None:
    found = timed(copies(columns, space, dtype))
    assert [found.span(row) for row in found.rows("tensor_copy")] == pytest.approx([span] * 6, rel=CLOSE)
    assert found.steps("tensor_copy") == pytest.approx([interval] * 5, rel=CLOSE)


def adds(columns: int, space: object, dtype: object, count: int = 5) -> object:
    """A kernel of independent additions of a tile of SBUF and one of another memory."""

    def kernel() -> None:
        a = nl.ndarray((128, columns), dtype, buffer=nl.sbuf)
        b = nl.ndarray((128, columns), dtype, buffer=space)
        nisa.memset(a, 0.0)
        nisa.memset(b, 0.0)
        for _ in range(count):
            nisa.tensor_tensor(nl.ndarray((128, columns), dtype, buffer=nl.sbuf), a, b, nl.add)

    return kernel


@pytest.mark.parametrize(
    ("columns", "space", "dtype", "target", "span", "interval"),
    [
        (512, nl.psum, nl.float32, "trn2", TUTORIAL_ADD, TUTORIAL_ADD_INTERVAL),
        (128, nl.psum, nl.float32, "trn2", 128 / 0.96 + 160, 198 / 0.96),
        (256, nl.psum, nl.float32, "trn2", 256 / 0.96 + 160, 326 / 0.96),
        (512, nl.sbuf, nl.bfloat16, "trn2", 256 / 0.96 + 160, 326 / 0.96),
        # NKI API documentation 2.26: two cycles an element, one for bfloat16 throughout or with a side in PSUM.
        (512, nl.sbuf, nl.float32, "trn1", (1024 + 72) / 1.12, (1024 + 58) / 1.12),
        (512, nl.sbuf, nl.bfloat16, "trn1", (512 + 72) / 1.12, (512 + 58) / 1.12),
        (512, nl.psum, nl.float32, "trn1", (512 + 72) / 1.12, (512 + 58) / 1.12),
        # Autocomp's conv1d, 512 additions and products of 384 columns: 0.2 ms.
        (384, nl.psum, nl.float32, "trn1", (384 + 72) / 1.12, 0.2e6 / 512),
        (1, nl.sbuf, nl.float32, "trn1", 74 / 1.12, AUTOCOMP_TINY_CYCLES / 1.12),
    ],
)
def test_additions_of_the_vector_engine_follow_their_law(
    columns: int, space: object, dtype: object, target: str, span: float, interval: float
) -> None:
    found = timed(adds(columns, space, dtype), target=target)
    assert found.span(found.rows("tensor_tensor")[0]) == pytest.approx(span, rel=CLOSE)
    assert found.steps("tensor_tensor") == pytest.approx([interval] * 4, rel=CLOSE)


def fused(columns: int, space: object, count: int = 5) -> object:
    """A kernel of independent multiply-adds of a tile of SBUF and one of another memory."""

    def kernel() -> None:
        a = nl.ndarray((128, columns), nl.float32, buffer=space)
        b = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
        nisa.memset(a, 0.0)
        nisa.memset(b, 0.0)
        for _ in range(count):
            out = nl.ndarray((128, columns), nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(out, a, nl.multiply, 2.0, nl.add, b)

    return kernel


@pytest.mark.parametrize(
    ("space", "target", "interval"),
    [
        # As the addition of a tile of PSUM, whose second stage is free (Trainium2 architecture guide).
        (nl.psum, "trn2", TUTORIAL_ADD_INTERVAL),
        # A cycle an element: published shares of the engine in AdamW kernels.
        (nl.sbuf, "trn2", (512 + 70) / 0.96),
        (nl.psum, "trn1", (1024 + 58) / 1.12),
    ],
)
def test_a_tile_of_psum_is_a_second_stream_for_fused_operators_too(space: object, target: str, interval: float) -> None:
    found = timed(fused(512, space), target=target)
    assert found.steps("scalar_tensor_tensor") == pytest.approx([interval] * 4, rel=CLOSE)


# -- Scalar Engine ----------------------------------------------------------------------------------------------------


def exponentials(shape: tuple[int, int], dtype: object, count: int = 1) -> object:
    """A kernel of activations, each on the result of the one before."""

    def kernel() -> None:
        tile = nl.ndarray(shape, dtype, buffer=nl.sbuf)
        bias = nl.ndarray((shape[0], 1), nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 0.0)
        nisa.memset(bias, 0.0)
        for _ in range(count):
            nisa.activation(tile, nl.exp, tile, bias=bias)

    return kernel


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((4, 4096), nl.bfloat16, OVERVIEW_EXP_4096),
        ((128, 128), nl.bfloat16, OVERVIEW_EXP_128),
        # N / 1.2 GHz + 296 ns for any dtype.
        ((128, 1024), nl.bfloat16, 1024 / 1.2 + 296),
        ((128, 2048), nl.float32, 2048 / 1.2 + 296),
    ],
)
def test_activations_follow_their_law(shape: tuple[int, int], dtype: object, expected: float) -> None:
    found = timed(exponentials(shape, dtype))
    row = found.rows("activation")[0]
    assert found.span(row) == pytest.approx(expected, rel=CLOSE)
    assert found.timing.setup[row] / 1000 == pytest.approx(OVERVIEW_TABLE_LOAD, rel=CLOSE)


def test_a_chain_of_one_element_activations_steps_by_189_ns_on_trn1() -> None:
    found = timed(exponentials((128, 1), nl.float32, count=8), target="trn1")
    assert found.steps("activation") == pytest.approx([GUIDE_ACTIVATION_CHAIN] * 7, rel=CLOSE)
    assert found.span(found.rows("activation")[3]) == pytest.approx(GUIDE_ACTIVATION, rel=CLOSE)


# -- DMA ---------------------------------------------------------------------------------------------------------------


def load_exp_store(load_mode: object, store_mode: object) -> object:
    """The DMA overview's example: a tile is loaded, its exponential is stored."""

    def kernel(x: object) -> object:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        result = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x, dge_mode=load_mode)
        nisa.activation(result, nl.exp, tile)
        nisa.dma_copy(out, result, dge_mode=store_mode)
        return out

    return kernel


def overview_example(shape: tuple[int, int], load_mode: object, store_mode: object) -> tuple[Timed, int, int, int]:
    found = timed(load_exp_store(load_mode, store_mode), shape, dtype=nl.bfloat16)
    return found, *found.rows("activation"), *found.rows("dma_copy")


def test_32_kib_on_one_engine_take_1416_ns() -> None:
    found, _, load, _ = overview_example((4, 4096), nisa.dge_mode.hwdge, nisa.dge_mode.swdge)
    assert found.timing.duration[load] / 1000 == pytest.approx(OVERVIEW_TRANSFER_32K, rel=CLOSE)
    assert found.timing.start[load] / 1000 == pytest.approx(OVERVIEW_SYNC_TO_DATA, rel=CLOSE)


@pytest.mark.parametrize(("shape", "bytes_an_engine"), [((8, 4096), 65536), ((128, 4096), 65536), ((4, 2048), 16384)])
def test_a_transfer_takes_what_its_busiest_engine_moves(shape: tuple[int, int], bytes_an_engine: int) -> None:
    found, _, load, _ = overview_example(shape, nisa.dge_mode.hwdge, nisa.dge_mode.swdge)
    assert found.timing.duration[load] / 1000 == pytest.approx(bytes_an_engine / 23 + 8, rel=1e-3)


def test_software_transfers_start_and_are_waited_for_as_published() -> None:
    found, exp, load, store = overview_example((128, 128), nisa.dge_mode.swdge, nisa.dge_mode.swdge)
    timing, arch = found.timing, found.program.arch
    assert timing.start[load] / 1000 - arch.dge_software_ns == pytest.approx(OVERVIEW_SOFTWARE_TO_DATA, rel=CLOSE)
    assert timing.duration[load] / 1000 == pytest.approx(OVERVIEW_TRANSFER_2K, rel=CLOSE)
    loaded = timing.start[load] + timing.duration[load] + round(arch.dma_engine_stagger_ns * 1000)
    from_trigger = loaded / 1000 - arch.dge_software_ns
    assert from_trigger == pytest.approx(OVERVIEW_SOFTWARE_TO_LAST_ENGINE, rel=CLOSE)
    begins = timing.start[exp] - timing.setup[exp]  # with its table load
    assert (begins - loaded) / 1000 == pytest.approx(OVERVIEW_DATA_TO_CONSUMER, rel=CLOSE)
    from_end = (timing.start[store] - timing.ready[exp]) / 1000
    assert from_end == pytest.approx(OVERVIEW_SCALAR_TO_TRIGGER + OVERVIEW_STORE_TO_DATA, rel=CLOSE)


def test_few_descriptors_of_software_are_written_at_once() -> None:
    found, exp, load, store = overview_example((4, 4096), nisa.dge_mode.hwdge, nisa.dge_mode.swdge)
    timing = found.timing
    trigger = int(timing.served[store])
    assert (trigger - timing.ready[exp]) / 1000 == pytest.approx(OVERVIEW_SCALAR_TO_GPSIMD, rel=CLOSE)
    assert (timing.start[store] - trigger) / 1000 == pytest.approx(OVERVIEW_STORE_OF_LONG_ROWS_TO_DATA, rel=CLOSE)
    begins = timing.start[exp] - timing.setup[exp]
    loaded = timing.start[load] + timing.duration[load]
    assert (begins - loaded) / 1000 == pytest.approx(OVERVIEW_LONG_DATA_TO_CONSUMER, rel=CLOSE)


def test_idle_engines_are_reached_before_long_rows_are_read() -> None:
    found, _, _, _ = overview_example((4, 4096), nisa.dge_mode.hwdge, nisa.dge_mode.swdge)
    assert found.program.arch.dma_start_load_ns == pytest.approx(OVERVIEW_SYNC_TO_SEMAPHORES, rel=CLOSE)


def test_the_sync_engine_is_at_a_trigger_for_523_ns() -> None:
    found, _, load, store = overview_example((128, 512), nisa.dge_mode.hwdge, nisa.dge_mode.hwdge)
    costs = costs_of(found.program)
    for row in (load, store):
        assert costs[found.program.op_variant[row]].trigger / 1000 == pytest.approx(TUTORIAL_TRIGGER, rel=CLOSE)


# DMA overview, its chart of throughput against bytes a partition (128 partitions, copies back to back, trn2 assumed).
CURVE = {
    32: 0.0179, 64: 0.0275, 128: 0.0538, 256: 0.1041, 512: 0.2093, 1024: 0.4306, 2048: 0.8086, 4096: 0.9653,
    8192: 0.9821, 16384: 0.9904, 32768: 0.9988,
}  # fmt: skip


def efficiency(size: int, target: str = "trn2", dtype_bytes: int = 2) -> float:
    """Share of the full rate that copies of `size` bytes a partition reach, from one tensor, back to back."""
    columns = size // dtype_bytes
    dtype = {2: nl.bfloat16, 4: nl.float32}[dtype_bytes]
    count = 6 if size >= 16384 else 40

    def kernel(x: object) -> None:
        tiles = [nl.ndarray((128, columns), dtype, buffer=nl.sbuf) for _ in range(count)]
        for tile in tiles:
            nisa.dma_copy(tile, x)

    found = timed(kernel, (128, columns), target=target, dtype=dtype)
    ends = sorted((found.timing.start + found.timing.duration).tolist())
    arch = found.program.arch
    skipped = count // 3
    each = (ends[-1] - ends[skipped]) / (count - 1 - skipped) / 1000
    return 128 * size / each / (arch.dma_engines * arch.dma_bytes_per_ns)


@pytest.mark.parametrize(("size", "published"), CURVE.items())
def test_the_efficiency_of_copies_follows_the_published_curve(size: int, published: float) -> None:
    assert efficiency(size) == pytest.approx(published, rel=0.10)


def test_the_curve_depends_on_bytes_and_not_on_the_dtype() -> None:
    assert efficiency(1024, dtype_bytes=4) == pytest.approx(efficiency(1024), rel=1e-6)


def test_sizes_between_the_published_points_follow_the_same_law() -> None:
    for size in (384, 1536, 3072, 6144):
        each = max(850.0, 8 * size / 23 + 50)
        assert efficiency(size) == pytest.approx(8 * size / each / 23, rel=0.01)
