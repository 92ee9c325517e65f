"""Storage of tensors: memory regions, buffers, and the rules a new allocation obeys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from operator import index as as_index
from typing import Any, Final, SupportsIndex, cast

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error
from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.isa.dtype import DType
from nki_lab.kernel_runtime.tensor.pattern import Sizes
from nki_lab.printable import shown


class MemoryRegion(StrEnum):
    """The memory that holds a tensor. A member equals its name, and hashes like it."""

    __hash__ = str.__hash__  # the same as Enum's, without a call of Python

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


Space = MemoryRegion

sbuf: Final = MemoryRegion.sbuf
psum: Final = MemoryRegion.psum
private_hbm: Final = MemoryRegion.private_hbm
shared_hbm: Final = MemoryRegion.shared_hbm
hbm: Final = MemoryRegion.private_hbm

ON_CHIP: Final = frozenset((MemoryRegion.sbuf, MemoryRegion.psum))

Address = tuple[int, int]

_new: Final = object.__new__  # half the time of calling the class


class Buffer:
    """One allocation: a stretch of one memory that tensors are views of. Compared and hashed by identity.

    `id` counts the buffers of a trace. `shape` and
    `dtype` are those of the allocation. `address` is None (the allocator decides) or (partition, byte within the
    partition). `kind` is "temp", "input", "output" or "const"; `site` numbers the place in the source that made it;
    `owner` is the Executor, None for a placeholder that has no values; `core` the physical core in whose memory it
    lies, 0 for shared HBM.

    On-chip, `partitions` rows of `row_elements` elements (`partition_bytes` bytes) each; in HBM the three are 1, the
    size and the number of bytes, so that `partitions * partition_bytes == nbytes` everywhere.
    """

    fault: Diagnostic | None = None
    """Why no instruction may use the views of this buffer; see `InvalidBuffer`."""

    __slots__ = (
        "address",
        "core",
        "dtype",
        "id",
        "kind",
        "name",
        "nbytes",
        "on_chip",
        "owner",
        "partition_bytes",
        "partitions",
        "row_elements",
        "shape",
        "site",
        "space",
    )

    def __init__(
        self,
        id: int,  # noqa: A002 - the contract's name
        space: MemoryRegion,
        dtype: DType,
        shape: Sizes,
        *,
        name: str = "",
        address: Address | None = None,
        kind: str = "temp",
        site: int = -1,
        owner: Any = None,
        core: int = 0,
    ) -> None:
        self.id = id
        self.space = space
        self.dtype = dtype
        self.shape = shape
        self.name = name
        self.address = address
        self.kind = kind
        self.site = site
        self.owner = owner
        self.core = core
        self.on_chip = space is sbuf or space is psum
        if self.on_chip:
            self.partitions = shape[0]
            self.row_elements = math.prod(shape[1:])
        else:
            self.partitions = 1
            self.row_elements = math.prod(shape)
        self.partition_bytes = self.row_elements * dtype.nbytes
        self.nbytes = self.partitions * self.partition_bytes

    def twin(self, id: int, name: str, kind: str, site: int) -> Buffer:  # noqa: A002 - the contract's name
        """Return another buffer of the same shape, dtype, place and owner."""
        new: Buffer = _new(Buffer)
        new.id = id
        new.space = self.space
        new.dtype = self.dtype
        new.shape = self.shape
        new.name = name
        new.address = self.address
        new.kind = kind
        new.site = site
        new.owner = self.owner
        new.core = self.core
        new.on_chip = self.on_chip
        new.partitions = self.partitions
        new.row_elements = self.row_elements
        new.partition_bytes = self.partition_bytes
        new.nbytes = self.nbytes
        return new

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        place = f" at {self.address}" if self.address is not None else ""
        return f"<buffer {self.id}{name} {self.shape} {self.dtype.name} in {self.space.value}{place}>"


class InvalidBuffer(Buffer):
    """The buffer of views that leave their tensor or are empty: the first use of their elements raises `fault`.

    Views that are derived from such a view share the buffer, and so the fault.
    """

    __slots__ = ("fault",)

    fault: Diagnostic

    def __init__(self, buffer: Buffer, fault: Diagnostic) -> None:
        for name in Buffer.__slots__:
            setattr(self, name, getattr(buffer, name))
        self.fault = fault


def check_allocation(
    shape: object, dtype: DType, space: object, address: object, arch: Arch
) -> tuple[Sizes, MemoryRegion, Address | None]:
    """Return the shape, region and address of a new tensor, checked and in canonical form.

    Errors: NKI307 shape, NKI311 buffer that is not a memory region, NKI306 address, NKI313 larger than one partition
    of the memory, NKI320 larger than the chip's HBM. More partitions than the chip has are legal to allocate without an
    address; the instructions refuse.
    """
    region = _checked_space(space)
    sizes = _checked_shape(shape)
    if region in ON_CHIP:
        need = math.prod(sizes[1:]) * dtype.nbytes
        limit = arch.sbuf_partition_bytes if region is sbuf else arch.psum_partition_bytes
        if need > limit:
            shown = tuple(cast("Sequence[int]", shape))
            raise coded_error(
                "NKI313",
                f"{shown} {dtype.name} needs {need} bytes in each partition, {region.value} has {limit}",
                operand="shape",
                limit=f"bytes per partition <= {limit} ({region.value} of {arch.name})",
                help="tile the free dimensions; dimension 0 is the partition dimension",
                measured=(need, limit),
            )
    else:
        require_hbm(sizes, dtype, arch)
    if address is None:
        return sizes, region, None
    return sizes, region, _checked_address(address, sizes, dtype, region, arch)


def require_hbm(shape: Sizes, dtype: DType, arch: Arch) -> None:
    """Check that a tensor is no larger than the HBM of a chip; NKI320 otherwise."""
    need = math.prod(shape) * dtype.nbytes
    if need > arch.hbm_bytes:
        raise coded_error(
            "NKI320",
            f"{shape} {dtype.name} needs {_gib(need)} GiB, a chip has {arch.hbm_bytes >> 30} GiB of HBM",
            operand="shape",
            limit=f"bytes of a tensor <= {arch.hbm_bytes} (HBM of a chip with {arch.name})",
            help="pass the part that this core works on; several chips hold a larger tensor in parts",
            measured=(need, arch.hbm_bytes),
        )


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f}" if count < 1 << 60 else f"2**{count.bit_length() - 31} or more"


def row_major(shape: Sequence[int]) -> Sizes:
    """Return the strides, in elements, of a dense row-major tensor."""
    if len(shape) == 2:
        return (shape[1], 1)
    step = 1
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _checked_space(space: object) -> MemoryRegion:
    if type(space) is MemoryRegion:
        return space
    names = {"hbm": "hbm", **{region.value: region.value for region in MemoryRegion}}
    near = names.get(space.lower()) if isinstance(space, str) else None
    raise coded_error(
        "NKI311",
        f"buffer is {f'the string {space!r}' if isinstance(space, str) else f'a {type(space).__name__}'}",
        operand="buffer",
        limit="buffer is one of nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm",
        help=f"write buffer=nl.{near}" if near else "",
    )


def _checked_shape(shape: object) -> Sizes:
    if not isinstance(shape, tuple | list):
        raise _bad_shape(f"shape is a {type(shape).__name__}", "write a tuple of integers, for example (128, 512)")
    if not shape:
        raise _bad_shape("shape is empty", "a tensor has at least one dimension; one element is (1, 1)")
    sizes = []
    for position, size in enumerate(shape):
        value = integer_of(size)
        if value is None:
            raise _bad_shape(
                f"dimension {position} of shape {tuple(shape)!r} is a {type(size).__name__}",
                "divide with // for an integer" if isinstance(size, float) else "",
            )
        if value <= 0:
            raise _bad_shape(f"dimension {position} of shape {tuple(shape)!r} is {value}")
        sizes.append(value)
    return tuple(sizes)


def _bad_shape(message: str, help_text: str = "") -> NkiError:
    return coded_error(
        "NKI307", message, operand="shape", limit="a shape is a tuple of positive integers", help=help_text
    )


def integer_of(value: object) -> int | None:
    """Return `value` as an int, where it is a compile-time integer (bool is not); None otherwise."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return as_index(cast("SupportsIndex", value))
    except TypeError:
        return None


def _checked_address(address: object, shape: Sizes, dtype: DType, region: MemoryRegion, arch: Arch) -> Address:
    """Return `address` as (partition, byte). The free offset is in bytes: the guide's prose has elements, but its own
    examples (a PSUM bank times 2048, a tile index times row bytes) and published kernels use bytes."""
    if region not in ON_CHIP:
        raise _bad_address(
            f"address={shown(address)} for a tensor in {region.value}",
            "only SBUF and PSUM tensors are placed by address",
            "leave address out, or pass buffer=nl.sbuf or buffer=nl.psum",
        )
    partition, byte = _pair(address)
    partitions = shape[0]
    need = math.prod(shape[1:]) * dtype.nbytes
    capacity = arch.sbuf_partition_bytes if region is sbuf else arch.psum_partition_bytes
    starts = legal_starts(partitions)
    if partition < 0 or byte < 0:
        raise _bad_address(f"address {(partition, byte)} is negative", "partition and byte count from 0")
    if partition + partitions > arch.pmax:
        raise _bad_address(
            f"{partitions} partitions from partition {partition} end at {partition + partitions}",
            f"start partition + partitions <= {arch.pmax}",
        )
    if partition not in starts:
        raise _bad_address(
            f"a tensor of {partitions} partitions starts at partition {partition}",
            f"{partitions} partitions start at {' or '.join(map(str, starts))}",
        )
    if region is psum and byte % arch.psum_bank_bytes:
        raise _bad_address(
            f"byte {byte} is not the start of a PSUM bank",
            f"PSUM tensors start at a multiple of {arch.psum_bank_bytes} bytes",
            f"bank {byte // arch.psum_bank_bytes} starts at byte {byte // arch.psum_bank_bytes * arch.psum_bank_bytes}",
        )
    if byte + need > capacity:
        raise _bad_address(
            f"{need} bytes from byte {byte} end at {byte + need}, a partition of {region.value} has {capacity}",
            f"byte + bytes per partition <= {capacity} ({region.value} of {arch.name})",
        )
    return partition, byte


def _pair(address: object) -> Address:
    if type(address) is int and address == 0:
        return (0, 0)
    if isinstance(address, tuple | list) and len(address) == 2:
        partition, byte = integer_of(address[0]), integer_of(address[1])
        if partition is not None and byte is not None:
            return partition, byte
    raise _bad_address(
        f"address is {shown(address)}",
        "address is a pair (partition, byte within the partition) of integers",
        "for example address=(0, 2048)",
    )


def _bad_address(message: str, limit: str, help_text: str = "") -> NkiError:
    return coded_error("NKI306", message, operand="address", limit=limit, help=help_text)
