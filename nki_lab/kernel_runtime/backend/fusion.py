"""Sums of what an activation wrote: the Scalar Engine adds them up while it writes.

AWS's attention kernels for Beta 1 compute an exponential, then its sum with another instruction, and say in a comment
that the compiler is expected to make one instruction of the two. Kernels with that comment have published times and
ceilings near which they come with it only.
"""

from __future__ import annotations

import numpy as np

from nki_lab.isa.spec import Fold, Use
from nki_lab.kernel_runtime.backend.listing import Listing
from nki_lab.kernel_runtime.ir import Variant, View


def merge_sums(listing: Listing) -> None:
    """Let activations write the sum that a later instruction would compute of their results."""
    sums = np.array([_is_sum(variant) for variant in listing.variants], bool)[listing.variant]
    if not sums.any():
        return
    first, row, out = listing.first, listing.access_row, listing.is_out
    buffer = listing.buffer_of_view[listing.view]
    writer = np.full(len(listing.buffers), -1, np.int64)
    writer[buffer[out]] = row[out]
    by_buffer = np.argsort(buffer, kind="stable")
    bounds = np.searchsorted(buffer[by_buffer], np.arange(len(listing.buffers) + 1))
    writes = np.bincount(buffer[out], minlength=len(listing.buffers))
    found: dict[int, int] = {}
    for late in np.flatnonzero(sums).tolist():
        to, of = (listing.views[int(listing.view[first[late] + place])] for place in range(2))
        early = int(writer[of.buffer.id])
        if writes[of.buffer.id] != 1 or not 0 <= early < late or early in found:
            continue
        others = by_buffer[bounds[to.buffer.id] : bounds[to.buffer.id + 1]]
        others = others[(row[others] > early) & (row[others] < late)]
        if not all(_are_apart(to, listing.views[number]) for number in listing.view[others].tolist()):
            continue
        variant = listing.variants[listing.variant[early]]
        wrote = listing.views[int(listing.view[first[early]])]
        if _can_sum(variant) and wrote.offset == of.offset and wrote.type is of.type:
            found[early] = late
    gone = np.zeros(len(listing), bool)
    gone[list(found.values())] = True
    views = {}
    for early, late in found.items():
        view = int(listing.view[first[late]])
        fold = listing.variants[listing.variant[early]].instruction.folds
        assert fold is not None  # _can_sum
        number = _summing(listing, int(listing.variant[early]), int(listing.variant[late]), fold)
        listing.variant[early] = number
        views[int(first[early]) + listing.variants[number].names.index(fold.result)] = view
        listing.stand_in[int(listing.source[late])] = int(listing.source[early])
    listing.view = np.insert(listing.view, list(views), list(views.values()))
    listing.count("sums merged into activations", len(found))
    listing.drop(gone)


def _are_apart(column: View, other: View) -> bool:
    """Return whether two views of a tile are different columns of it."""
    same = column.type is other.type and column.type.free_size == 1 and column.type.dtype is column.buffer.dtype
    return same and (column.offset - other.offset) % column.buffer.row_elements != 0


def _is_sum(variant: Variant) -> bool:
    """Whether a variant adds up all that is in each partition of a tile."""
    attrs = variant.use.attrs
    return (
        variant.outs == (True, False)
        and "axis" in attrs
        and not attrs.get("negate")
        and getattr(attrs.get("op"), "name", "") == "add"
        and variant.use.types[variant.names[0]].free_size == 1
        and all(variant.use.types[name].indirect is None for name in variant.names)
    )


def _can_sum(variant: Variant) -> bool:
    """Whether a variant can write a sum beside its result, and does not."""
    use, fold = variant.use, variant.instruction.folds
    if fold is None or fold.result not in use.types or use.types[fold.result] is not None:
        return False
    return all(use.attrs.get(name) is variant.instruction.operands[name].default for name in fold.given)


def _summing(listing: Listing, number: int, adding: int, fold: Fold) -> int:
    """Return the variant that writes a sum as well, as another one would."""
    old, late = listing.variants[number].use, listing.variants[adding]
    kind = late.use.types[late.names[0]]
    for known in listing.variants[-64:]:
        use = known.use
        if (
            use.instruction is old.instruction
            and use.types == {**old.types, fold.result: kind}
            and use.dims is old.dims
        ):
            return known.id
    attrs = {**old.attrs, **fold.given, fold.operator: late.use.attrs["op"]}
    use = Use(old.instruction, old.arch, {**old.types, fold.result: kind}, attrs, old.dims, old.engine)
    listing.variants.append(Variant(len(listing.variants), use))
    return len(listing.variants) - 1
