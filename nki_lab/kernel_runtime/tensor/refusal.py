"""The errors of view operations: the description of a tensor, and the refusals that several operations share."""

from __future__ import annotations

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.kernel_runtime.tensor.strided_view import StridedView

PARTITION_RULE = "dimension 0 of an SBUF or PSUM tensor is the partition dimension; it stays first, whole and unsplit"


def describe(tensor: StridedView) -> str:
    """Describe the tensor in a message: name, shape, dtype, memory."""
    buffer = tensor._buffer
    name = f"{buffer.name}: " if buffer.name else ""
    return f"{name}{tensor._shape} {tensor._dtype.name} in {buffer.space.value}"


def elements(count: int) -> str:
    """Return a number of elements in words."""
    return f"{count} element{'s' * (count != 1)}"


def refuse(
    code: str,
    message: str,
    tensor: StridedView,
    *,
    limit: str = "",
    help: str = "",  # noqa: A002 - the contract's name
    measured: tuple[int, int] | None = None,
) -> NkiError:
    """Return the error `code` about a view operation on `tensor`; the fault of a view that is invalid already."""
    fault = tensor._buffer.fault
    return error_of(fault or diagnose(code, message, note=describe(tensor), limit=limit, help=help, measured=measured))


def require_valid(tensor: StridedView) -> None:
    """Raise the fault of a view that leaves its tensor or is empty.

    Making such a view is legal, since kernels compute views that they do not use in their last iteration.
    """
    fault = tensor._buffer.fault
    if fault is not None:
        raise error_of(fault)


def bad_dimension(tensor: StridedView, operation: str, dim: object, last: int) -> NkiError:
    """Return the refusal of a dimension number outside 0..last."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        return refuse("NKI304", f"{operation}: dim is a {type(dim).__name__}, not an integer", tensor)
    hint = f"count from the front: dim={dim + last + 1}" if -last - 1 <= dim < 0 else ""
    return refuse(
        "NKI303",
        f"{operation}: dim {dim} of a tensor with {len(tensor._shape)} dimensions {tensor._shape}",
        tensor,
        limit=f"0 <= dim <= {last}",
        help=hint,
    )


def partition_refusal(tensor: StridedView, operation: str, message: str) -> NkiError:
    """Return the refusal of an operation that would move, split or resize dimension 0."""
    if tensor._buffer.on_chip:
        return refuse(
            "NKI312",
            f"{operation}: {message}",
            tensor,
            limit=PARTITION_RULE,
            help="move data across partitions with an instruction: nc_transpose, dma_copy or nc_stream_shuffle",
        )
    return refuse(
        "NKI309",
        f"{operation}: {message}, but dimension 0 is picked by a vector of indices",
        tensor,
        limit="after vector_select, dimension 0 stays first, whole and unsplit",
        help="change the layout first, then call vector_select",
    )
