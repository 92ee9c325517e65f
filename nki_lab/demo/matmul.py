"""A tiled matrix product: 128 x 512 tiles of the result, accumulated in PSUM over tiles of the contraction."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t[K, M].T @ rhs[K, N]; K and M are multiples of 128, N of 512."""
    K, M = lhs_t.shape
    N = rhs.shape[1]
    tile_k, tile_m, tile_n = nl.tile_size.pmax, nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax
    result = nl.ndarray((M, N), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(M // tile_m):
        rows = nl.ds(m * tile_m, tile_m)
        stationary = []
        for k in range(K // tile_k):
            tile = nl.ndarray((tile_k, tile_m), dtype=lhs_t.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=lhs_t[nl.ds(k * tile_k, tile_k), rows])
            stationary.append(tile)
        for n in range(N // tile_n):
            columns = nl.ds(n * tile_n, tile_n)
            total = nl.ndarray((tile_m, tile_n), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // tile_k):
                moving = nl.ndarray((tile_k, tile_n), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=moving, src=rhs[nl.ds(k * tile_k, tile_k), columns])
                nisa.nc_matmul(dst=total, stationary=stationary[k], moving=moving)
            rounded = nl.ndarray((tile_m, tile_n), dtype=result.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=rounded, src=total)
            nisa.dma_copy(dst=result[rows, columns], src=rounded)
    return result
