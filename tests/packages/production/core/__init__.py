from .config import *
from .sizes import MAX_PARTITIONS, div_ceil, pick_tile
