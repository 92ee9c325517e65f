import nki.isa as nisa
import nki.language as nl

from ..sizes import volume
from . import naming as _naming

WIDTHS = {nl.float32: 4, nl.bfloat16: 2}


class Pool:
    """Tiles of one shape that are used in turn."""

    def __init__(self, count, shape, dtype, buffer=nl.sbuf, names=None):
        self.names = _naming.Names("pool") if names is None else names
        self.tiles = [nl.ndarray(shape, dtype=dtype, buffer=buffer, name=self.names("tile", i)) for i in range(count)]
        self.next = 0
        self.bytes = count * volume(shape[1:]) * WIDTHS[dtype]

    def take(self):
        tile = self.tiles[self.next]
        self.next = (self.next + 1) % len(self.tiles)
        return tile

    def __getitem__(self, index):
        return self.tiles[index % len(self.tiles)]


class TileView:
    def __init__(self, tensor, rows=None, columns=None):
        self.tensor = tensor
        self.rows = rows if rows is not None else slice(0, tensor.shape[0])
        self.columns = slice(0, tensor.shape[1]) if columns is None else columns

    @property
    def view(self):
        return self.tensor[self.rows, self.columns]

    def narrowed(self, start, size):
        return TileView(self.tensor, self.rows, slice(start, start + size))


def load_tile(source, pool, **options):
    tile = pool.take()
    part = tile[0 : source.shape[0], 0 : source.shape[1]]
    nisa.dma_copy(dst=part, src=source, **options)
    return part


def store_tile(target, tile):
    nisa.dma_copy(dst=target, src=tile)
