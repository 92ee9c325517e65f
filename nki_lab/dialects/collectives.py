"""`nki.collectives`: the groups of ranks; the operations between them are not modelled."""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.kernel_runtime.frontend.objects import NKIObject


class ReplicaGroup(NKIObject):
    """The ranks that take part in a collective: disjoint lists, such as `ReplicaGroup([[0, 1], [2, 3]])`."""

    replica_groups: Sequence[Sequence[int]]

    def __init__(self, replica_groups: Sequence[Sequence[int]] = ()) -> None:
        self.replica_groups = replica_groups
        ranks = [rank for group in replica_groups for rank in group]
        if len(set(ranks)) != len(ranks):
            raise error_of(
                diagnose(
                    "NKI012",
                    f"ReplicaGroup({replica_groups!r}) has a rank twice",
                    operand="replica_groups",
                    limit="the groups are disjoint",
                )
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaGroup) and list(map(list, other.replica_groups)) == list(
            map(list, self.replica_groups)
        )

    def __hash__(self) -> int:
        return hash(tuple(map(tuple, self.replica_groups)))

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.replica_groups!r})"
