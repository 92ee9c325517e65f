"""The rows of the migration: what is replaced by what, whether that is safe, and where the guide says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GUIDE: Final = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/nki/migration/index.html"


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of rewrite: its number, what is replaced, what stands there afterwards, and whether it is safe.

    `release` is the first one that needs it; `remedy` is the suggestion where it cannot be done. `codes` are the
    findings of the checker that the row mends, or that are left to the author where it cannot: those about `call`,
    about any where it is empty.
    """

    number: int
    before: str
    after: str
    remedy: str = ""
    release: str = "0.2"
    anchor: str = "nki-migration-guide"
    is_manual: bool = False
    codes: tuple[str, ...] = ()
    call: str = ""

    @property
    def link(self) -> str:
        """Return the section of the migration guide."""
        return f"{GUIDE}#{self.anchor}"


_BLOCKS: Final = "nki-block-dimension-migration-guide"
_THREE: Final = "nki-0-3-0-update-guide"
_FOUR, _FIVE, _SIX = (f"nki-migrate-0-{first}-to-0-{first + 1}" for first in (3, 4, 5))

ROWS: Final[tuple[Row, ...]] = (
    Row(1, "`import neuronxcc.nki…`, `from neuronxcc…`", "the same names of `nki`", "import it from nki by hand"),
    Row(2, "`@nki.jit(mode=…, platform_target=…)`", "`@nki.jit`; the target comes from the environment",
        release="0.3", anchor=_THREE, codes=("NKI604",)),
    Row(3, "`@nki.jit(mode='trace')`, `@nki.trace`", "no decorator: helpers are inlined"),
    Row(4, "`nki.simulate_kernel(k, a)`", "`nki.simulate(k)(a)`"),
    Row(5, "`nki.baremetal`", "`nki.jit`: a call runs the kernel"),
    Row(6, "`nki.benchmark`, `nki.profile`", "–",
        "take times with the profiler, or with nki_lab.profile(kernel, *arguments)", is_manual=True),
    Row(7, "`y = nisa.f(a, …)`", "`y = nl.ndarray(…)` and `nisa.f(y, a, …)`",
        "allocate the result with nl.ndarray, and pass it as the first argument"),
    Row(8, "`y[…] = nisa.f(a, …)`", "`nisa.f(y[…], a, …)`", "pass the destination as the first argument"),
    Row(9, "`psum += nisa.nc_matmul(a, b)`", "`nisa.nc_matmul(psum, a, b)`, which accumulates",
        "pass the accumulator as the first argument of nc_matmul, with accumulate=True behind other writes"),
    Row(10, "`nisa.memset(shape, value, dtype)`", "`nl.ndarray(…)` and `nisa.memset(dst, value)`",
        "allocate the tile, and pass it to nisa.memset"),
    Row(11, "`nisa.iota(expr, dtype)`", "`nisa.iota(dst, pattern, offset, channel_multiplier)`",
        "write steps and sizes of the expression as pattern=, offset= and channel_multiplier="),
    Row(12, "`nisa.affine_select(pred=i >= j, …)`", "`nisa.affine_select(dst, pattern, …, cmp_op=)`",
        "write the predicate as an affine expression that cmp_op compares with 0"),
    Row(13, "`t[i_p, i_f]` of `nl.arange` and `nl.mgrid`", "slices, strided slices, else `t.ap(pattern, offset)`",
        "write slices, or t.ap([[step, count], …], offset=…)"),
    Row(14, "`t[i_p, i0 * 64 + i1]` over all of a dimension", "a slice and `.reshape`", "write a slice and reshape it"),
    Row(15, "`mask=i_p < n`", "slices up to `min(…)` on all operands",
        "cut all operands of the statement with slices up to min(size, limit)"),
    Row(16, "`mask=` without an index", "`if`", "put the statement below an if"),
    Row(17, "`(B, nl.par_dim(P), F)` on the chip", "a list of `(P, F)` tiles",
        "keep a list of tiles, and index it with the block", anchor=_BLOCKS),
    Row(18, "`(nl.par_dim(P), F)`", "`(P, F)`", "put the partitions first", anchor=_BLOCKS),
    Row(19, "`hbm[idx_tile, i_f]`", "`hbm.ap(…, vector_offset=idx_tile)`",
        "write hbm.ap([[F, P], [1, F]], vector_offset=idx_tile, indirect_dim=0)"),
    Row(20, "`hbm[scalar_tile, i_p, i_f]`", "`hbm.ap(…, scalar_offset=scalar_tile)`",
        "write hbm.ap(pattern, scalar_offset=scalar_tile, indirect_dim=0)"),
    Row(21, "`nisa.tensor_copy_dynamic_src`, `_dst`", "`nisa.tensor_copy` of `.ap(scalar_offset=…)`",
        "use nisa.tensor_copy with t.ap(pattern, scalar_offset=offset, indirect_dim=1)", release="0.4", is_manual=True),
    Row(22, "`nisa.dma_copy(…, dst_rmw_op=)`", "`nisa.dma_compute(dst, [src, dst], reduce_op=)`",
        "use nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)", release="0.3", anchor=_THREE),
    Row(23, "`t[…] = nl.loop_reduce(x, op, loops)`", "`nisa.tensor_tensor(t, t, x, op)`",
        "keep an accumulator, and combine with nisa.tensor_tensor"),
    Row(24, "`ncc.sbuf.mod_alloc(…)`", "`address=(0, …)` of each tile",
        "give each tile of the list address=(0, base_addr + i % tiles * bytes)"),
    Row(25, "`ncc.psum.mod_alloc(…)`", "`address=(0, bank * 2048)` of each tile",
        "give each tile of the list address=(0, (base_bank + i % tiles) * 2048)"),
    Row(26, "`np.add`, `nl.max` as `op=`", "`nl.add`, `nl.maximum`"),
    Row(27, "`x is None`", "`x == None`", release="0.3", anchor=_THREE, codes=("NKI110",)),
    Row(28, "lists as arguments and defaults, a bare `*`", "tuples, no `*`", "pass a tuple", release="0.3",
        anchor=_THREE, codes=("NKI109", "NKI114")),
    Row(29, "an output parameter that `nl.store` writes", "a result in `nl.shared_hbm`, returned",
        "allocate the result with nl.ndarray(…, buffer=nl.shared_hbm), and return it"),
    Row(30, "a returned tensor in `nl.hbm`", "`nl.shared_hbm`", "allocate it in nl.shared_hbm", release="0.3",
        anchor=_THREE),
    Row(31, "`nl.fp32.min`, `nl.finfo(d).min`", "the number"),
    Row(32, "`nisa.vector_engine`", "`nisa.engine.vector`"),
    Row(33, "`perf_mode='double_row_gen3'`", "`nisa.matmul_perf_mode.double_row`"),
    Row(34, "`a + b` of tiles", "`nl.add(a, b)`, with the dtype that Beta 1 gives"),
    Row(35, "`kernel[4, 2](a)`", "loops in the kernel; brackets hold the number of cores only",
        "loop over the programs in the kernel; only the number of cores stands in brackets"),
    Row(36, "`nl.load`, `nl.store`", "stay; a value in PSUM is copied first"),
    Row(37, "`nl.affine_range` and its kin", "`range`", release="0.6", codes=("NKI127",)),
    Row(38, "`nl.load(nl.shared_identity_matrix(n))`", "`nl.shared_identity_matrix(n)`, which is in SBUF"),
    Row(39, "`t.broadcast_to(shape)`, `nl.static_cast`, `nl.expand_dims`", "`nl.broadcast_to(t, shape)`, `nl.copy`"),
    Row(40, "other deprecated and removed spellings of 0.2 to 0.5", "what `nki-lab check --fix` writes", release="0.3",
        anchor=_THREE),
    Row(41, "`nisa.dma_copy(hbm, psum_tile)`", "`nisa.dma_copy(hbm, nl.copy(psum_tile))`",
        "copy the tile to SBUF with nisa.tensor_copy first", release="0.3", anchor=_THREE),
    Row(42, "`nisa.dma_compute(dst, srcs, scales, op)`", "`nisa.dma_compute(dst, srcs, scales=scales, reduce_op=op)`",
        release="0.3", anchor=_THREE),
    Row(43, "`nisa.memset(integers, 2.0)`", "`nisa.memset(integers, 2)`", "pass an integer; packed types take 0 only",
        release="0.3", anchor=_THREE, codes=("NKI224",)),
    Row(44, "`nisa.tensor_reduce(…, axis=1)` for the last of more dimensions", "the number of the last dimension",
        "write the numbers of the last dimensions", release="0.3", anchor=_THREE, codes=("NKI217",)),
    Row(45, "`nisa.sendrecv(…, use_gpsimd_dma=True)`", "`dma_engine=nisa.dma_engine.gpsimd_dma`", release="0.3",
        anchor=_THREE),
    Row(46, "`nisa.affine_select(dst, pattern, offset, …)`", "`offset=offset`", release="0.3", anchor=_THREE),
    Row(47, "`nisa.register_move(dst, imm=42)`", "`nisa.register_move(dst, src=nisa.register_alloc(42))`",
        release="0.3", anchor=_THREE),
    Row(48, "`num_channels=2` of implicit permutations", "`channel_ids=[0, 1]`; none where a rank is asked for",
        release="0.3", anchor=_THREE),
    Row(49, "`dge_mode=2` and other numbers for members", "`nisa.dge_mode.hwdge`", "write the member", release="0.3",
        anchor=_THREE, codes=("NKI606",)),
    Row(50, "`buffer='sbuf'`", "`buffer=nl.sbuf`", "write the memory", release="0.3", anchor=_THREE, codes=("NKI311",)),
    Row(51, "`nisa.dma_copy(…, dge_mode=nisa.dge_mode.hwdge)` between dtypes", "–",
        "reinterpret with .view(dtype), or choose nisa.dge_mode.swdge for a cast", release="0.3", anchor=_THREE,
        is_manual=True, codes=("NKI222",), call="dma_copy"),
    Row(52, "`nl.tile_size.total_available_sbuf_size`", "`nl.tile_size.sbuf_fmax_bytes`", release="0.4", anchor=_FOUR,
        codes=("NKI601",)),
    Row(53, "`nisa.dma_transpose` into fewer dimensions", "–",
        "give the destination the rank of the source: (128, 1, 1, 4096) for four dimensions", release="0.4",
        anchor=_FOUR, is_manual=True, codes=("NKI225",), call="dma_transpose"),
    Row(54, "`nl.rsqrt(psum_tile)`", "`nl.ndarray(…)` and `nisa.activation(dst, op=nl.rsqrt, data=psum_tile)`",
        "use nisa.activation with nl.rsqrt", release="0.5", anchor=_FIVE),
    Row(55, "`t.reshape` to another number of elements", "–", "correct the sizes", release="0.5", anchor=_FIVE,
        is_manual=True, codes=("NKI305",)),
    Row(56, "`for i in nl.dynamic_range(n):`", "`def body(i):` and `nl.fori_loop(0, n, body)`",
        "write the body as a function, with what outlives an iteration in tiles", release="0.6", anchor=_SIX),
    Row(57, "`while register:`", "`def body(register):` and `nl.while_loop(register, body)`",
        "write the body as a function that returns the register", release="0.6", anchor=_SIX),
)  # fmt: skip
"""All rows, 1 to 39 from Beta 1 (NKI 0.1), the others between releases of the current dialect."""

BY_NUMBER: Final = {row.number: row for row in ROWS}

BY_CODE: Final = {code: row for row in ROWS for code in row.codes}
"""The rows by the findings of the checker."""
OTHERS: Final = BY_NUMBER[40]
"""The row of the fixes that no other row has."""
