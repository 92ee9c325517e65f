"""The costs of each variant of a program, in picoseconds, and its other demands on its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nki_lab.diagnostic import coded_error
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import HBM, PSUM, SBUF, Cost, Route, Unmodelled
from nki_lab.kernel_runtime.ir import Program, Variant
from nki_lab.kernel_runtime.tensor import ViewType
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES

PICOSECONDS: Final = 1000
"""In a nanosecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantCost:
    """Cost of a variant.

    `interval`: from its start until its lane takes the next, `latency`: from its start until its result is visible.
    Both in picoseconds; of a DMA both are its time at the full rate. `work` is as declared.

    Of a DMA: `engines` of its core that take part, as bits; the `hbm_bytes` that it reads and writes there; the engine
    that has its descriptors made (`generator`, empty for static ones), how long that engine is at it (`trigger`), when
    it can have the next made (`generation`), how long from its begin to the first data (`start_latency`), and from the
    last data of a first engine to that of the last one (`stagger`); whether it keeps the issue interval (`spaced`). Of
    an engine: `stationary` is the operand, counted from the op's first, that is loaded into the array before streaming
    (-1: none); `table` the activation tables needed; `ports` the memories that a lock of the target guards against this
    engine, but in the last part of the interval (`apart`), `banked` if that is a lock a PSUM bank. `blocks` are the
    parts of the array that it uses, as bits (0: all), and `issue` is how long after it another may start on others.

    A transfer has `descriptors` of `descriptor_bytes` each, written as `mode` says.
    """

    interval: int
    latency: int
    bytes: int
    work: int
    confidence: int
    engines: int = 0
    hbm_bytes: int = 0
    generator: str = ""
    spaced: bool = False
    trigger: int = 0
    generation: int = 0
    start_latency: int = 0
    stagger: int = 0
    stationary: int = -1
    table: str | None = None
    ports: tuple[str, ...] = ()
    banked: bool = False
    apart: int = 0
    blocks: int = 0
    issue: int = 0
    mode: str = "none"
    descriptors: int = 0
    descriptor_bytes: int = 0


def picoseconds(nanoseconds: float) -> int:
    """Whole picoseconds, the nearest."""
    return round(nanoseconds * PICOSECONDS)


def costs_of(program: Program) -> list[VariantCost]:
    """Cost of each variant, in order of variants. NKI010 where a declaration has none."""
    return [cost_of(program.arch, variant) for variant in program.variants]


def cost_of(arch: Arch, variant: Variant) -> VariantCost:
    """Return the cost of one variant."""
    declared = variant.instruction.cost
    if isinstance(declared, Unmodelled):
        name = variant.instruction.name
        raise coded_error(
            "NKI010",
            f"{name} has no cost: {declared.reason}",
            limit="the time of a kernel is known where the cost of each of its instructions is",
            help=f"leave {name} out of what is timed, or run the kernel without timing",
        )
    cost = declared(variant.use)
    confidence = CONFIDENCES.index(cost.confidence)
    work = variant.instruction.work(variant.use)
    if variant.instruction.dma_route is not None:
        route = variant.instruction.dma_route(variant.use)
        time, trigger = picoseconds(cost.fixed_ns), _trigger(arch, route, cost)
        engines = _engines(arch, variant, cost)
        hardware = picoseconds(arch.dge_hardware_ns) if route.descriptors == "hardware" else 0
        return VariantCost(
            interval=time,
            latency=time,
            bytes=cost.bytes,
            work=work,
            confidence=confidence,
            engines=engines,
            hbm_bytes=_hbm_bytes(variant),
            generator=route.trigger,
            spaced=cost.descriptor_bytes >= arch.dma_short_descriptor_bytes,
            trigger=trigger,
            generation=max(trigger, hardware),
            start_latency=_start_latency(arch, route, variant, cost),
            stagger=picoseconds(arch.dma_engine_stagger_ns * (engines.bit_count() - 1) / (arch.dma_engines - 1)),
            mode=route.descriptors,
            descriptors=_descriptors(cost),
            descriptor_bytes=cost.descriptor_bytes,
        )
    clock = arch.ghz(variant.engine)
    return VariantCost(
        interval=picoseconds(cost.interval / clock),
        latency=picoseconds(cost.latency / clock),
        apart=picoseconds(cost.apart / clock),
        bytes=cost.bytes,
        work=work,
        confidence=confidence,
        stationary=_stationary(variant),
        table=_table(variant),
        ports=_ports(arch, variant),
        banked=variant.engine in arch.psum_bank_lock and PSUM in variant.use.spaces(),
        blocks=cost.blocks,
        issue=picoseconds(cost.issue / clock),
    )


def _engines(arch: Arch, variant: Variant, cost: Cost) -> int:
    """The DMA engines of a copy: those of the on-chip partitions, destination first; between HBM addresses all."""
    onchip = _views(variant, on_chip=True)
    if cost.dealt:
        return (1 << min(arch.dma_engines, _descriptors(cost))) - 1
    if cost.spread or not onchip:
        return (1 << arch.dma_engines) - 1
    view = onchip[0]
    last = view.start_partition + (view.partitions - 1) * view.partition_step
    engines = 0
    for partition in range(view.start_partition, last + 1, view.partition_step or 1):
        engines |= 1 << (partition // arch.dma_partitions_per_engine % arch.dma_engines)
    return engines


def _hbm_bytes(variant: Variant) -> int:
    """Bytes of all operands in HBM."""
    return sum(view.partitions * view.free_size * view.dtype.nbytes for view in _views(variant, on_chip=False))


def _views(variant: Variant, *, on_chip: bool) -> list[ViewType]:
    views: list[ViewType] = [variant.use.types[name] for name in variant.names]
    return [view for view in views if view.on_chip == on_chip]


def _writing(arch: Arch, route: Route, cost: Cost) -> float:
    """Return the nanoseconds in which software writes descriptors before it triggers a transfer; 0 of others.

    inferred: it writes those of `gpsimd_partitions_per_core` partitions at once, and the first of these batches is part
    of the start. The DMA overview's profiles show 881 ns before the trigger of a transfer of 128 descriptors, and a
    bare semaphore before one of 4.
    """
    if route.descriptors != "software":
        return 0.0
    batch = arch.gpsimd_partitions_per_core
    batches = -(-_descriptors(cost) // batch)
    return arch.dge_software_ns * max(0, batches - 1) / (arch.pmax / batch - 1)


def _trigger(arch: Arch, route: Route, cost: Cost) -> int:
    """Return how long the engine that triggers a transfer is at it: no time where descriptors stand in HBM."""
    if route.descriptors == "static":
        return 0
    own = arch.dge_trigger_ns if route.descriptors == "hardware" else arch.sequencer_ns
    return picoseconds(_writing(arch, route, cost) + own)


def _descriptors(cost: Cost) -> int:
    return -(-cost.bytes // max(1, cost.descriptor_bytes))


def _start_latency(arch: Arch, route: Route, variant: Variant, cost: Cost) -> int:
    """From the begin of its descriptors to first data.

    inferred: an engine writes the data of a descriptor when it has read all of it, at its peak rate. That explains why
    transfers with rows of 8 KiB begin about 270 ns later than those with rows of 256 bytes in the DMA overview's
    profiles, loads (1005 and 749 ns) and stores (900 and 615 ns) alike, whoever makes the descriptors. Of longer rows
    than those it writes the begin.
    guess: static descriptors start like others.
    """
    written = variant.use.space(variant.names[variant.outs.index(True)])
    fixed = arch.dma_start_store_ns if written == HBM else arch.dma_start_load_ns
    first = min(cost.descriptor_bytes, arch.dma_buffer_bytes)
    return picoseconds(_writing(arch, route, cost) + fixed + first / arch.dma_peak_bytes_per_ns)


def _stationary(variant: Variant) -> int:
    """Return the position of the tile that is loaded into the array before streaming, -1 of an op that loads none."""
    name = variant.instruction.history.get("stationary")
    return variant.names.index(name) if name in variant.names and variant.engine == "tensor" else -1


def _table(variant: Variant) -> str | None:
    """Return the activation tables that a variant needs."""
    table = getattr(variant.use.attrs.get(variant.instruction.history.get("activation_table", "")), "table_set", None)
    return table if isinstance(table, str) else None


def _ports(arch: Arch, variant: Variant) -> tuple[str, ...]:
    spaces = variant.use.spaces()
    locks = ((SBUF, arch.sbuf_lock), (PSUM, arch.psum_lock))
    return tuple(space for space, engines in locks if variant.engine in engines and space in spaces)
