"""Beta 1: products accumulated with +=, tiles assigned, mgrid."""

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki

from nki_lab import spec

ARGUMENTS = (spec((256, 128), "bfloat16"), spec((256, 512), "bfloat16"))


@nki.jit
def kernel(lhs_t, rhs):
    out = nl.ndarray((128, 512), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
    i_k, i_m = nl.mgrid[0:128, 0:128]
    i_kn, i_n = nl.mgrid[0:128, 0:512]
    for k in nl.affine_range(2):
        a = nl.load(lhs_t[k * 128 + i_k, i_m])
        b = nl.ndarray((nl.par_dim(128), 512), dtype=rhs.dtype, buffer=nl.sbuf)
        b[i_kn, i_n] = nl.load(rhs[k * 128 + i_kn, i_n])
        acc += nisa.nc_matmul(a, b)
    result = nl.copy(acc, dtype=out.dtype)
    nl.store(out, value=result)
    return out
