"""Constants of the target and of the launch, and tensors placed by address."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 2048), "bfloat16"),)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = nl.tile_size.psum_fmax
    for bank in range(x.shape[1] // width):
        psum = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.psum, address=(0, bank * 2048), name=f"bank{bank}")
        tile = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf, address=(0, bank * width * 2))
        columns = slice(bank * width, (bank + 1) * width)
        nisa.dma_copy(dst=tile, src=x[:, columns])
        nisa.tensor_copy(dst=psum, src=tile)
        nisa.tensor_scalar(dst=tile, data=psum, op0=nl.add, operand0=nl.program_id(0) + nl.num_programs())
        nisa.dma_copy(dst=out[:, columns], src=tile)
    return out
