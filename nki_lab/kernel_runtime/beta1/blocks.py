"""Block dimensions of Beta 1: on-chip tensors of shape (B..., par_dim(P), F...) are grids of tiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.beta1.index import Grid, position_of
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, make_view, row_major
from nki_lab.kernel_runtime.tensor.pattern import Sizes
from nki_lab.kernel_runtime.tensor.refusal import describe, refuse


class ParDim(int):
    """A size in a shape that marks the partition dimension; `nl.par_dim(n)`."""

    __slots__ = ()


def par_dim(size: int) -> ParDim:
    """`size`, marked as the partition dimension of an on-chip shape; the entries before it are block dimensions."""
    return ParDim(size)


def split_shape(shape: Any) -> tuple[Sizes, Sizes]:
    """Block sizes and tile shape of an on-chip shape."""
    sizes = tuple(shape)
    at = next((k for k, size in enumerate(sizes) if isinstance(size, ParDim)), 0)
    plain = tuple([size.real if isinstance(size, ParDim) else size for size in sizes])
    return plain[:at], plain[at:]


Grow = Callable[[Sizes], NkiTensor]


class BlockTensor(NkiTensor):
    """A grid of tiles. `t[i]` over all block dimensions is a tile, over some of them a smaller grid.

    Tiles come into being when they are first asked for, each with storage of its own: how many of them exist at a time
    is the allocator's business. The grid as a whole is no operand of any instruction.
    """

    __slots__ = ()

    @property
    def blocks(self) -> Sizes:
        """Sizes of the block dimensions."""
        sizes: Sizes = self._extra.sizes
        return sizes

    def tiles(self) -> Iterator[NkiTensor]:
        """Every tile of the grid, the last block dimension fastest."""
        return (self._extra.tile(index) for index in itertools.product(*map(range, self.blocks)))

    def __getitem__(self, key: Any) -> NkiTensor:
        keys = key if isinstance(key, tuple) else (key,)
        blocks: Blocks = self._extra
        depth = len(blocks.sizes)
        known = blocks.there(keys[:depth])
        if known is not None:
            return known if len(keys) == depth else known[keys[depth:]]
        keys = tuple(part for item in keys for part in (item.indices if isinstance(item, Grid) else (item,)))
        if keys[0] is Ellipsis:
            keys = (slice(None),) * (len(self._shape) - len(keys) + 1) + keys[1:]
        if all(isinstance(item, slice) and item == slice(None) for item in keys):
            return self
        place = []
        for dim, (item, size) in enumerate(zip(keys[:depth], self.blocks, strict=False)):
            value = position_of(item)
            if value is None:
                raise refuse(
                    "NKI312",
                    f"block dimension {dim} is indexed by a {type(item).__name__}",
                    self,
                    limit="block dimensions are indexed by integers: each block is a tile of its own",
                    help="loop over the blocks",
                )
            if not 0 <= value < size:
                raise refuse(
                    "NKI303",
                    f"index {value} of block dimension {dim}, which has {size} blocks",
                    self,
                    limit=f"0 <= index < {size}",
                )
            place.append(value)
        if len(place) < depth:
            return grid_of(self._buffer, self._extra.part(tuple(place)), self._shape[depth:])
        tile = blocks.tile(tuple(place))
        return tile[keys[depth:]] if len(keys) > depth else tile


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The tiles of a grid, made when needed; grids cut out of it share them."""

    sizes: Sizes
    grow: Grow
    prefix: Sizes = ()
    known: dict[Sizes, NkiTensor] = field(default_factory=dict)

    def part(self, place: Sizes) -> Blocks:
        """The grid of the remaining dimensions."""
        return Blocks(self.sizes[len(place) :], self.grow, self.prefix + place, self.known)

    def there(self, place: tuple[Any, ...]) -> NkiTensor | None:
        """The tile at plain integers, where it has been made: what loops ask for most."""
        for item in place:
            if item.__class__ is not int:
                return None
        return self.known.get(self.prefix + place)

    def tile(self, place: Sizes) -> NkiTensor:
        where = self.prefix + place
        found = self.known.get(where)
        if found is None:
            found = self.known[where] = self.grow(where)
        return found


def grid_of(buffer: Buffer, blocks: Blocks, tile_shape: Sizes) -> BlockTensor:
    """The grid's tensor; `buffer` says memory and dtype, and holds nothing."""
    shape = blocks.sizes + tile_shape
    grid = make_view(buffer, shape, row_major(shape), 0, buffer.dtype)
    grid.__class__ = BlockTensor
    grid._extra = blocks
    return cast(BlockTensor, grid)


def tiles_of(tensor: NkiTensor) -> Iterator[NkiTensor]:
    """Return the tiles of a grid, or the tensor itself."""
    return tensor.tiles() if isinstance(tensor, BlockTensor) else iter((tensor,))


def require_tile(tensor: NkiTensor) -> None:
    """NKI312 for a grid where a tile is needed."""
    if isinstance(tensor, BlockTensor):
        raise coded_error(
            "NKI312",
            f"{describe(tensor)} has block dimensions {tensor.blocks}, it is no tile",
            limit="instructions take tiles: tensors whose partition dimension comes first",
            help=f"index the block dimensions, as in t[{', '.join('i' for _ in tensor.blocks)}]",
        )
