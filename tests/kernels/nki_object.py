"""An NKIObject that holds tiles, with __post_init__, __call__ and inheritance."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 128), "float32"),)


class Base(nl.NKIObject):
    dtype: object = None
    scale = 2.0


class Accumulator(Base):
    shape: tuple
    tile: nl.NkiTensor

    def __post_init__(self):
        self.tile = nl.zeros(self.shape, dtype=self.dtype, buffer=nl.sbuf)
        self.calls = 0

    def __call__(self, value):
        nisa.tensor_tensor(dst=self.tile, data1=self.tile, data2=value, op=nl.add)
        self.calls += 1
        return self


@nki.jit
def kernel(x):
    total = Accumulator(shape=x.shape, dtype=x.dtype)
    tile = nl.load(x)
    for _ in range(3):
        total = total(tile)
    assert total.calls == 3 and total.scale == 2.0 and isinstance(total, Base)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(total.tile, total.scale))
    return out
