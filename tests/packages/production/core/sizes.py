import math
from functools import lru_cache, partial, reduce
from typing import Optional, Sequence

import nki.language as nl
import numpy as np

try:
    from a_library_that_is_not_installed import tuned_sizes
except ImportError:
    tuned_sizes = None

MAX_PARTITIONS = nl.tile_size.pmax
_CANDIDATES = sorted({64, 128, 256, 512}, reverse=True)
_DEFAULTS = {"small": 64, **dict.fromkeys(["medium", "large"], 256)}


def div_ceil(a: int, b: int) -> int:
    assert b > 0, f"cannot divide {a} by {b:d}"
    return (a + b - 1) // b


@lru_cache(maxsize=None)
def pick_tile(size: int, hint: Optional[str] = None) -> int:
    if hint is not None:
        return _DEFAULTS.get(hint, 128)
    for candidate in _CANDIDATES:
        if size % candidate == 0:
            return candidate
    raise ValueError(f"no tile for {size!r}")


def volume(shape: Sequence[int]) -> int:
    return int(np.prod(shape))


def power_of_two(n: int) -> int:
    return 1 << max(0, math.ceil(math.log2(n)))


def product(*sizes: int) -> int:
    return reduce(lambda a, b: a * b, sizes, 1)


halved = partial(div_ceil, b=2)
