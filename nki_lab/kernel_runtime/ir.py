"""NKI IR: what specialisation leaves of a kernel, as columns.

An op row is (variant, first access, site). A variant is everything about an instruction but its addresses: the
declaration, attributes, operand view types, engine; legality, numerics and cost are worked out once per variant. An
access row is an interned view. Operands of an op are its accesses in the variant's operand order.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Register, Synchronization, Use, show_value
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import Buffer, Indirect, NkiTensor, ViewType, VirtualRegister

Stage = Literal["specialized", "allocated", "scheduled"]


class Site(NamedTuple):
    """A place in the user's source: 1-based lines, 0-based UTF-8 byte columns as Python reports them."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str


@dataclass(slots=True, eq=False)
class View:
    """An interned access: a view type placed in a buffer."""

    id: int
    buffer: Buffer
    offset: int
    type: ViewType
    indirect: Indirect | None
    full: bool


class ViewColumns(NamedTuple):
    """Views as columns: the number of the buffer, the offset, the number of the type, and whether the view is all of
    the buffer. `moved` are the views with run-time addresses.
    """

    buffer: NDArray[np.int64]
    offset: NDArray[np.int64]
    type: NDArray[np.int64]
    full: NDArray[np.bool_]
    moved: list[View]

    @staticmethod
    def empty() -> ViewColumns:
        """Return the columns of no views."""
        none = np.zeros(0, np.int64)
        return ViewColumns(none, none, none, none.astype(bool), [])

    def with_more(self, views: list[View]) -> ViewColumns:
        """Return the columns with those of further views."""
        return ViewColumns(
            np.concatenate((self.buffer, np.array([view.buffer.id for view in views], np.int64))),
            np.concatenate((self.offset, np.array([view.offset for view in views], np.int64))),
            np.concatenate((self.type, np.array([view.type.id for view in views], np.int64))),
            np.concatenate((self.full, np.array([view.full for view in views], bool))),
            self.moved + [view for view in views if view.indirect is not None],
        )


class Variant:
    """One instruction with fixed attributes and operand types."""

    __slots__ = ("engine", "id", "instruction", "names", "outs", "use")

    def __init__(self, number: int, use: Use) -> None:
        self.id = number
        self.instruction = use.instruction
        self.use = use
        self.engine = use.engine
        self.names = tuple(name for name, view in use.types.items() if view is not None)
        self.outs = tuple(self.instruction.operands[name].role == "out" for name in self.names)


class Iteration(NamedTuple):
    """An iteration of a loop: its variable's value, the iteration of the loop around it (-1: none), the loop's site."""

    parent: int
    variable: str
    value: int
    site: int


@dataclass(slots=True, eq=False)
class Region:
    """A loop on the device. Its body, ops `first` to before `end`, is held once.

    A "for" loop sets `register` to `lower`, `lower + step`, ... below `upper`, which are read when it is entered. A
    "while" loop goes on as long as a register is not 0: `lower` before the first iteration, `upper` before every other;
    the body reads that value in `register`.

    `variable` is what the kernel calls `register`, `name` what it calls the body where that is a function. `parent` is
    the loop around it, -1 without one. `buffers` are the (first, end) of the program's buffers that were made in the
    body; `within` is the iteration of Python's loops that the loop itself is in.

    Where cores wait for each other in a loop they go round together: their bodies are one, and `twin` is the loop of
    the other core, which counts in a register of its own and is not among the program's loops.
    """

    id: int
    kind: Literal["for", "while"]
    parent: int
    first: int
    site: int
    _: KW_ONLY
    register: int
    lower: Register | int
    upper: Register | int
    step: int = 1
    variable: str = ""
    name: str = ""
    within: int = -1
    buffers: tuple[int, int] = (0, 0)
    twin: Region | None = None
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self.end = self.first

    @property
    def sides(self) -> tuple[Region, ...]:
        """Return the loop as each core has it that goes round in it."""
        return (self,) if self.twin is None else (self, self.twin)

    @property
    def trip_count(self) -> int | None:
        """Return its iterations where they are plain in the program: a "for" loop between constants."""
        if self.kind == "while" or isinstance(self.lower, Register) or isinstance(self.upper, Register):
            return None
        return len(range(self.lower, self.upper, self.step))


@dataclass(frozen=True, slots=True)
class Op:
    """A readable view of one row."""

    index: int
    variant: Variant
    views: tuple[View, ...]
    site: Site
    name: str

    def operand(self, name: str) -> View | None:
        return dict(zip(self.variant.names, self.views, strict=True)).get(name)

    @property
    def reads(self) -> tuple[View, ...]:
        """The views of its inputs."""
        return tuple(view for view, is_out in zip(self.views, self.variant.outs, strict=True) if not is_out)

    @property
    def writes(self) -> tuple[View, ...]:
        """The views of its results."""
        return tuple(view for view, is_out in zip(self.views, self.variant.outs, strict=True) if is_out)


class Arrival(NamedTuple):
    """The data that a collective brings to a rank: the `ranks` that exchange it, and how.

    `rounds` is how often all data goes round (a reduction for all ranks: twice), 0 where each rank sends straight to
    those that want something. `share` is the part of `size` bytes that a rank sends in a round.
    """

    ranks: tuple[int, ...]
    rounds: int
    size: int
    share: float


class Exchange(NamedTuple):
    """The part of a rank in a call of a collective: it hands in `size` bytes to `ranks`, itself among them.

    `source` is the rank that it receives from, `FROM_ALL` or `FROM_NONE`. `sends` are the ops whose results it hands
    in, `arriving` the buffers of what it receives.
    """

    what: str
    ranks: tuple[int, ...]
    source: int
    sends: tuple[int, ...]
    arriving: tuple[int, ...]
    size: int


FROM_ALL: Final = -1
"""An exchange brings data of all other ranks."""
FROM_NONE: Final = -2
"""An exchange brings no data."""


class Program:
    """A specialised kernel: columns of ops and accesses with their interned tables."""

    def __init__(self, name: str, arch: Arch, options: Options, dialect: str = "current") -> None:
        self.name = name
        self.arch = arch
        self.options = options
        self.dialect = dialect
        self.op_variant: array[int] = array("I")
        self.op_access: array[int] = array("I")
        self.op_site: array[int] = array("I")
        self.access_view: array[int] = array("I")
        self.variants: list[Variant] = []
        self.views: list[View] = []
        self.buffers: list[Buffer] = []
        self.sites: list[Site] = []
        self.op_names: dict[int, str] = {}
        self.op_iteration: array[int] = array("i")  # the innermost iteration of Python's loops, -1 outside of all
        self.iterations: list[Iteration] = []
        self.regions: list[Region] = []  # in the order in which they begin
        self.registers: list[str] = []  # what the kernel calls them, where that is known
        self.inputs: list[Buffer] = []
        self.shared_inputs: set[int] = set()  # numbers of those that several parameters of the kernel name
        self.outputs: list[NkiTensor] = []
        self.constants: dict[int, Any] = {}
        self.arrivals: dict[int, Arrival] = {}  # of buffers whose contents other ranks send
        self.exchanges: list[Exchange] = []  # in the order of the calls of collectives
        # What the user says about order: (op, the op that it waits for), and (first, end) of ops that keep their order.
        self.user_edges: list[tuple[int, int]] = []
        self.fences: list[tuple[int, int]] = []
        # Stretches of ops of one core: their first ops, and their cores. Bodies follow each other, but for cores that
        # wait for each other, which alternate; then `partners` are the ops of each exchange between them, both ways.
        self.core_starts: list[int] = [0]
        self.core_order: list[int] = [0]
        self.synchronizations: list[tuple[int, int]] = []  # ops of two cores that wait for each other
        self.partners: dict[int, int] = {}
        # (op, the op whose register it reads, or whose result it sends to other ranks). Of a program that
        # `path.executed` laid out also: (the first op that waits, the op that decides whether it runs), (op, first,
        # end) where buffers `first` to before `end` begin anew, and the first op of each iteration of device loops
        # whose trip count is data.
        self.is_laid_out = False
        self.flows: list[tuple[int, int]] = []
        self.control: list[tuple[int, int]] = []
        self.renewed: list[tuple[int, int, int]] = []
        self.begins: list[int] = []
        self.view_columns = ViewColumns.empty()  # as far as anything has asked, see `columns_of_views`
        self.observed = False
        self.diagnostics: tuple[Diagnostic, ...] = ()  # of compiling it, where that was all that was asked for

    def __len__(self) -> int:
        return len(self.op_variant)

    @property
    def cores(self) -> int:
        """The physical cores that the program runs on."""
        return max(self.core_order) + 1

    def begin_core(self) -> None:
        """Let the next core issue what follows."""
        self.core_order.append(self.cores)
        self.core_starts.append(len(self))

    @property
    def stretches(self) -> list[tuple[int, int, int]]:
        """(first op, end op, core) of ops that follow each other on one core."""
        return list(zip(self.core_starts, (*self.core_starts[1:], len(self)), self.core_order, strict=True))

    def core_of(self, index: int) -> int:
        """The core that executes an op."""
        return self.core_order[bisect_right(self.core_starts, index) - 1] if len(self.core_starts) > 1 else 0

    def core_column(self) -> NDArray[np.int64]:
        """The core of each op."""
        return np.repeat(np.array(self.core_order, np.int64), np.diff(np.array([*self.core_starts, len(self)])))

    def op(self, index: int) -> Op:
        """The row of an op, as a readable node."""
        return Op(
            index,
            self.variant_of(index),
            tuple(self.views_of(index)),
            self.site_of(index),
            self.op_names.get(index, ""),
        )

    def variant_of(self, index: int) -> Variant:
        """The variant of an op."""
        return self.variants[self.op_variant[index]]

    def site_of(self, index: int) -> Site:
        """The source location of an op."""
        return self.sites[self.op_site[index]]

    def views_of(self, index: int) -> list[View]:
        """The operands of an op, in its variant's order."""
        start = self.op_access[index]
        return [self.views[number] for number in self.access_view[start : start + len(self.variant_of(index).names)]]

    def variant_column(self) -> NDArray[np.int64]:
        """The number of each op's variant: a copy, as a column that NumPy looks into cannot grow."""
        return np.frombuffer(self.op_variant, np.uint32).astype(np.int64)

    def variants_where(self, test: Callable[[Variant], bool]) -> NDArray[np.bool_]:
        """Return of each variant whether it passes a test."""
        return np.fromiter(map(test, self.variants), bool, len(self.variants))

    def ops_where(self, test: Callable[[Variant], bool]) -> NDArray[np.bool_]:
        """Return of each op whether its variant passes a test."""
        return self.variants_where(test)[self.variant_column()]

    def ops(self) -> Iterator[Op]:
        """The rows in program order, as readable nodes."""
        return (self.op(index) for index in range(len(self)))

    def text(self) -> str:
        """The program as a stable listing: buffers, then one line an instruction with its source line."""
        out = [f"program {self.name} target={self.arch.name} dialect={self.dialect}"]
        out += [f"  %{b.id} = {b.space} {b.dtype.name}{list(b.shape)}{_named(b)}" for b in self.buffers]
        headers, depth = _loops(self)
        for op in self.ops():
            out += headers.pop(op.index, ())
            if self.cores > 1 and op.index in self.core_starts:
                out.append(f"core {self.core_of(op.index)}:")
            views = dict(zip(op.variant.names, op.views, strict=True))
            parts = []
            for name, operand in op.variant.instruction.operands.items():
                if name in views:
                    parts.append(f"{name}={_view_text(views[name])}")
                elif (value := op.variant.use.attrs.get(name)) != operand.default:
                    parts.append(f"{name}={show_value(value)}")
            label = f" name={op.name}" if op.name else ""
            call = f"{op.variant.instruction.name}({', '.join(parts)})"
            pad = "  " * (1 + depth[op.index])
            out.append(f"{op.index:6d}{pad}{op.variant.engine}.{call}{label}  ; line {op.site.line}")
        out += [line for lines in headers.values() for line in lines]  # loops without a body at the very end
        out += [f"  {op} after {before}" for op, before in self.user_edges]
        out += [f"  {first} to {end - 1} in order" for first, end in self.fences]
        out.append("  return " + ", ".join(f"%{t._buffer.id}" for t in self.outputs))
        return "\n".join(out) + "\n"


def _loops(program: Program) -> tuple[dict[int, list[str]], list[int]]:
    """The lines that announce the device loops, by the op they stand before, and how many loops each op is in."""
    headers: dict[int, list[str]] = {}
    depth = [0] * (len(program) + 1)
    for region in program.regions:
        pad = "  " * (1 + depth[region.first] if region.parent >= 0 else 1)
        label = " ".join(filter(None, (region.variable, region.name)))
        what = ", core 1: ".join(map(_header, region.sides))
        line = program.sites[region.site].line
        headers.setdefault(region.first, []).append(f"      {pad}{what}:{label and ' '}{label}  ; line {line}")
        for index in range(region.first, region.end):
            depth[index] += 1
    return headers, depth


def _header(side: Region) -> str:
    if side.kind == "for":
        return f"for r{side.register} in {side.lower!r} to {side.upper!r} step {side.step}"
    return f"while r{side.register}, at first {side.lower!r}, then {side.upper!r}"


def _named(buffer: Buffer) -> str:
    place = f" at {buffer.address}" if buffer.address is not None else ""
    place += f" of core {buffer.core}" if buffer.core else ""
    kind = "" if buffer.kind == "temp" else f" {buffer.kind}"
    return f"{kind}{place}" + (f" {buffer.name!r}" if buffer.name else "")


def _view_text(view: View) -> str:
    if view.full and view.type.shape == view.buffer.shape:
        return f"%{view.buffer.id}"
    pattern = ", ".join(f"[{s}, {n}]" for s, n in zip(view.type.strides, view.type.shape, strict=True))
    cast = f" as {view.type.dtype.name}" if view.type.dtype is not view.buffer.dtype else ""
    dynamic = f" {view.indirect.kind}-indirect" if view.indirect is not None else ""
    if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister):
        dynamic = f" + r{view.indirect.index.id} * {view.indirect.stride}"
    return f"%{view.buffer.id}@{view.offset}[{pattern}]{cast}{dynamic}"


def verify(program: Program, stage: Stage = "specialized") -> None:
    """Raise AssertionError naming the stage and row when the columns break an invariant of `stage`."""

    def require(holds: bool, fault: str) -> None:
        if not holds:
            raise AssertionError(f"{stage}: {fault}")

    rows, at = len(program), 0
    require(
        rows == len(program.op_access) == len(program.op_site) == len(program.op_iteration),
        "columns of different length",
    )
    for index in range(rows):
        variant = program.variant_of(index)
        require(program.op_access[index] == at, f"row {index} starts at access {program.op_access[index]}, not {at}")
        views = program.views_of(index)
        require(len(views) == len(variant.names), f"row {index} lacks accesses")
        for name, view in zip(variant.names, views, strict=True):
            require(view.type is variant.use.types[name], f"row {index}, {name}: the view is not of the variant's type")
            require(
                program.buffers[view.buffer.id] is view.buffer,
                f"row {index}, operand {name}: buffer of another program",
            )
        at += len(views)
    require(at == len(program.access_view), f"{len(program.access_view) - at} accesses belong to no row")
    require(all(0 <= row < rows for edge in program.user_edges for row in edge), "an edge of the user leads nowhere")
    require(all(0 <= first < end <= rows for first, end in program.fences), "a block without reordering leads nowhere")
    iterations = len(program.iterations)
    require(
        all(-1 <= item.parent < number for number, item in enumerate(program.iterations)),
        "an iteration within a later one",
    )
    require(all(-1 <= number < iterations for number in program.op_iteration), "an op in an iteration that is missing")
    _verify_loops(program, require)
    starts, cores = program.core_starts, program.core_order
    require(starts == sorted(starts) and 0 == starts[0] <= rows, f"cores begin at {starts}")
    require(len(cores) == len(starts) and set(cores) == set(range(program.cores)), f"core order {cores}")
    require(
        all(
            0 <= a == b - 1 < rows - 1 and program.core_of(a) != program.core_of(b) for a, b in program.synchronizations
        ),
        f"cores synchronize at {program.synchronizations}",
    )
    require(all(program.partners.get(b) == a for a, b in program.partners.items()), "an exchange with one side")


def _verify_loops(program: Program, require: Callable[[bool, str], None]) -> None:
    open_regions: list[Region] = []
    for number, region in enumerate(program.regions):
        while open_regions and open_regions[-1].id != region.parent:
            open_regions.pop()
        around = open_regions[-1] if open_regions else None
        low, high = (0, len(program)) if around is None else (around.first, around.end)
        require(region.id == number and (around is None) == (region.parent < 0), f"loop {number} is in no open loop")
        require(low <= region.first <= region.end <= high, f"loop {number} is not within the one around it")
        require(not number or region.first >= program.regions[number - 1].first, "loops out of order")
        for side in region.sides:
            used = [item.number for item in (side.lower, side.upper) if isinstance(item, Register)]
            require(
                side.step >= 1 and all(0 <= item < len(program.registers) for item in (side.register, *used)),
                f"loop {number} counts in no register",
            )
        open_regions.append(region)


def registers_of(variant: Variant) -> list[Register]:
    """The registers among a variant's attributes."""
    return [value for value in variant.use.attrs.values() if isinstance(value, Register)]


def registers_read(variant: Variant) -> dict[str, Register]:
    """The registers that a variant reads as attributes, by the attribute's name."""
    operands = variant.instruction.operands
    return {
        name: value
        for name, value in variant.use.attrs.items()
        if isinstance(value, Register) and operands[name].kind != "register_out"
    }


def synchronization(variant: Variant) -> Synchronization | None:
    """Return how a variant waits for the other core of the launch; None where it does not."""
    synchronizes = variant.instruction.synchronizes
    return None if synchronizes is None else synchronizes(variant.use)


def register_written(variant: Variant) -> int:
    """Return the number of the register that a variant writes; its instruction is one that `writes_register`."""
    register: Register = variant.use.attrs[variant.instruction.register_out]
    return register.number


def attributes_of(variant: Variant) -> Mapping[str, object]:
    """The attributes that differ from the declaration's defaults."""
    operands = variant.instruction.operands
    return {name: value for name, value in variant.use.attrs.items() if value != operands[name].default}


class Accesses(NamedTuple):
    """The operands of all ops, one row an access, in program order; the index tensors of an op's views come last."""

    op: NDArray[np.int64]
    view: NDArray[np.int64]
    buffer: NDArray[np.int64]
    is_out: NDArray[np.bool_]


def arriving(program: Program) -> dict[int, Arrival]:
    """Return the ops that bring what a collective sends, with that."""
    if not program.arrivals:
        return {}
    accesses = access_columns(program, indices=False)
    rows = np.flatnonzero(np.isin(accesses.buffer, list(program.arrivals)) & ~accesses.is_out)
    return {
        op: program.arrivals[buffer]
        for op, buffer in zip(accesses.op[rows].tolist(), accesses.buffer[rows].tolist(), strict=True)
    }


def access_columns(program: Program, *, indices: bool = True) -> Accesses:
    """The accesses of the ops issued so far; with `indices` ops also read the index tensors of their indirect views."""
    # Copies: a column that NumPy looks into cannot grow.
    view = np.frombuffer(program.access_view, np.uint32).astype(np.int64)
    variant = program.variant_column()
    start = np.frombuffer(program.op_access, np.uint32).astype(np.int64)
    width = np.fromiter((len(v.names) for v in program.variants), np.int64, len(program.variants))
    count = width[variant]
    op = np.repeat(np.arange(len(variant), dtype=np.int64), count)
    roles = np.concatenate([np.array(v.outs, bool) for v in program.variants] or [np.zeros(0, bool)])
    first_role = np.concatenate(([0], np.cumsum(width)))[:-1]
    position = np.arange(len(view), dtype=np.int64) - np.repeat(start, count)
    is_out = roles[np.repeat(first_role[variant], count) + position]
    views = columns_of_views(program)
    tiles = {
        item.id: item.indirect.index._view
        for item in views.moved
        if item.indirect is not None and isinstance(item.indirect.index, NkiTensor)
    }
    if indices and tiles:
        rows = np.flatnonzero(np.isin(view, list(tiles)))
        read = np.array([tiles[number] for number in view[rows].tolist()], np.int64)
        op = np.concatenate((op, op[rows]))
        view = np.concatenate((view, read))
        is_out = np.concatenate((is_out, np.zeros(len(rows), bool)))
        order = np.argsort(op, kind="stable")
        op, view, is_out = op[order], view[order], is_out[order]
    return Accesses(op, view, views.buffer[view], is_out)


def buffers_of_views(program: Program) -> NDArray[np.int64]:
    """Return the number of each view's buffer."""
    return columns_of_views(program).buffer


def columns_of_views(program: Program) -> ViewColumns:
    """Return the columns of all views so far; each view is looked at once."""
    known = program.view_columns
    fresh = program.views[len(known.buffer) :]
    if fresh:
        known = program.view_columns = known.with_more(fresh)
    return known
