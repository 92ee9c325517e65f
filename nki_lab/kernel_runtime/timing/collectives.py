"""How late a collective brings its data: hops from rank to rank, and the rate of the links between chips.

Neuron intra-node collective communications: a collective takes a latency for each hop and the time of its bytes. Up to
1 MB ranks write to all others at once (mesh, hops do not grow with the ranks), up to 56 MB they double the distance
(recursive doubling: a hop for each power of two), above that pairs of ranks pass chunks round a ring. guess: a rank has
its cores' share of its chip's links, ranks come at the same time, and are numbered chip by chip and node by node.
"""

from __future__ import annotations

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.ir import Arrival, Program, arriving
from nki_lab.kernel_runtime.timing.costs import VariantCost, picoseconds


def hops(arch: Arch, arrival: Arrival) -> int:
    """Return how many ranks data passes one after the other."""
    ranks = len(arrival.ranks)
    if arrival.size <= arch.collective_mesh_bytes or not arrival.rounds:
        each = 1
    elif arrival.size <= arch.collective_ring_bytes:
        each = (ranks - 1).bit_length()
    else:
        each = -(-ranks // 2)
    return each * max(arrival.rounds, 1)


def latency_ns(arch: Arch, arrival: Arrival, cores: int) -> float:
    """Return the nanoseconds of all hops, for ranks of some cores."""
    node = arch.chips_per_node * arch.cores_per_chip // cores
    near = len({rank // node for rank in arrival.ranks}) == 1
    return hops(arch, arrival) * (arch.collective_hop_ns if near else arch.collective_far_hop_ns)


def link_ns(arch: Arch, arrival: Arrival, cores: int) -> float:
    """Return the nanoseconds in which a rank sends its part of the data."""
    rate = arch.link_bytes_per_ns * cores / arch.cores_per_chip
    return arrival.size * arrival.share * max(arrival.rounds, 1) / rate


def delays(program: Program, costs: list[VariantCost]) -> dict[int, int]:
    """Return by how many picoseconds the data of ops starts later since it comes from other ranks.

    Data is copied as it comes: of the time on the links, only what exceeds that of the copy counts.
    """
    arch, cores = program.arch, program.cores
    found = {}
    for op, arrival in arriving(program).items():
        own = costs[program.op_variant[op]].interval
        links = max(0, picoseconds(link_ns(arch, arrival, cores)) - own)
        found[op] = picoseconds(latency_ns(arch, arrival, cores)) + links
    return found
