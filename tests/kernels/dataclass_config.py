"""A frozen dataclass as configuration, with a property and a method."""

from dataclasses import dataclass, replace

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((128, 512), "bfloat16"),)


@dataclass(frozen=True)
class Config:
    tile: int = 128
    dtype: object = nl.float32
    names: tuple = ("a", "b")

    @property
    def trips(self):
        return 512 // self.tile

    def columns(self, trip):
        return nl.ds(trip * self.tile, self.tile)


@nki.jit
def kernel(x):
    config = Config(tile=256)
    wider = replace(config, tile=512)
    assert wider.tile == 2 * config.tile and config != wider and config == Config(256)
    out = nl.ndarray(x.shape, dtype=config.dtype, buffer=nl.shared_hbm)
    for trip in range(config.trips):
        tile = nl.ndarray((x.shape[0], config.tile), dtype=x.dtype, buffer=nl.sbuf, name=f"{config.names[trip]}_{trip}")
        nisa.dma_copy(dst=tile, src=x[:, config.columns(trip)])
        wide = nl.copy(tile, dtype=config.dtype)
        nisa.dma_copy(dst=out[:, config.columns(trip)], src=wide)
    return out
