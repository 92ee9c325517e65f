"""Operands of different sizes."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 64), "float32"),)
FAULT = "NKI203"


@nki.jit
def kernel(x):
    a = nl.load(x)
    b = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.add)
    return x
