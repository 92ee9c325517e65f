"""Bytes of memory that placed tensors have in common."""

from __future__ import annotations

from nki_lab.kernel_runtime.tensor import Buffer

Box = tuple[int, int, int, int]
"""First partition and end, first byte and end."""


def box_of(buffer: Buffer) -> Box:
    """Return the partitions and bytes of a placed tensor."""
    assert buffer.address is not None
    partition, byte = buffer.address
    return partition, partition + buffer.partitions, byte, byte + buffer.partition_bytes


def boxes_overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have a byte in common."""
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def share_bytes(a: Buffer, b: Buffer) -> bool:
    """Whether two tensors are placed on bytes of one memory."""
    if a.address is None or b.address is None or a.space is not b.space or a.core != b.core:
        return False
    return boxes_overlap(box_of(a), box_of(b))


def overlapping_groups(buffers: list[Buffer]) -> list[list[Buffer]]:
    """Return placed tensors that overlap, directly or through others, in lists of two and more, by their numbers."""
    alike: dict[tuple[object, ...], list[Buffer]] = {}
    for buffer in buffers:
        alike.setdefault((buffer.core, buffer.space, *box_of(buffer)), []).append(buffer)
    places = sorted(
        alike.values(), key=lambda members: (members[0].core, members[0].space, box_of(members[0])[2], members[0].id)
    )
    parent = list(range(len(places)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    near: list[int] = []
    for number, (first, *_) in enumerate(places):
        near = [other for other in near if not _ends_before(places[other][0], first)]
        for other in near:
            if share_bytes(places[other][0], first):
                parent[root(other)] = root(number)
        near.append(number)
    groups: dict[int, list[Buffer]] = {}
    for number, members in enumerate(places):
        groups.setdefault(root(number), []).extend(members)
    return [sorted(group, key=lambda buffer: buffer.id) for group in groups.values() if len(group) > 1]


def _ends_before(a: Buffer, b: Buffer) -> bool:
    """Whether a ends before b begins, and before all that begin after b."""
    return a.core != b.core or a.space is not b.space or box_of(a)[3] <= box_of(b)[2]
