"""Scale and activate in tiles; everything but the loop is in other modules."""

import nki
import nki.isa as nisa
import nki.language as nl

import production.core.sizes as sizes
from production.core import tiling

from . import core
from .core import *
from .core.tiling import Pool, TileView, load_tile, naming, store_tile
from .core.tiling.naming import Names

ROUNDS = 2


def make_apply(config):
    factor = 1.0 if config.scale is None else config.scale
    calls = 0

    def apply(dst, src):
        nonlocal calls
        calls += 1
        nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=factor)
        if not config.activation.is_linear():
            nisa.activation(dst=dst, op=config.activation.op, data=dst)
        return calls

    return apply


@nki.jit
def kernel(x, activation="exp", layout=0):
    assert len(x.shape) == 2, f"a matrix is needed, not {x.shape}"
    kind = core.Activation.parse(activation)
    config = MoreConfig.of(x, activation=kind, padding=(0, 1)).scaled(0.5)
    assert isinstance(config, core.Config) and config.padding == (0, 1), f"padding is {config.padding}"
    assert config.names == [f"tile_{i:02d}" for i in range(config.count)], f"{config.names}"
    assert Layout(layout).other() is Layout.COLUMNS and Layout.ROWS < Layout.COLUMNS
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    names = Names(prefix="act")
    pool = Pool(ROUNDS, (core.MAX_PARTITIONS, config.tile), x.dtype, names=names)
    apply = make_apply(config)
    widths = {}
    for block in config.blocks():
        rows = TileView(x, rows=slice(block.rows.start, block.rows.end))
        for j, start in enumerate(range(0, config.columns, config.tile)):
            size = min(config.tile, config.columns - start)
            tile = load_tile(rows.narrowed(start, size).view, pool)
            number = apply(tile, tile)
            widths.setdefault(block.index, []).append(size)
            store_tile(out[block.slice, nl.ds(start, size)], tile)
    assert number == len(config.blocks()) * config.count, "every tile once"
    assert all(sum(row) == config.columns for row in widths.values())
    assert (total := sum(map(len, widths.values()))) == number and total > 0
    assert sizes.product(*x.shape) == sizes.volume(x.shape) and sizes.halved(5) == 3
    assert sizes.power_of_two(100) == 128 and sizes.tuned_sizes is None
    assert tiling.naming is naming and len(names) == ROUNDS
    first, *rest = zip(*[(1, 2), (3, 4)])
    assert first == (1, 3) and rest == [(2, 4)]
    return out
