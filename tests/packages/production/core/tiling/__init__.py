from production.core.tiling.tiles import Pool, TileView, load_tile, store_tile
from production.core.tiling import naming
