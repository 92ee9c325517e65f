"""Declarations of instructions: each is complete, stands in one place, and serves every reader.

A declaration is a class body under `@instruction(...)`. Its attributes are operands (`out`, `arg`, `column`, `attr`,
`choice`), limits (`limit`, `Predicate`), and the properties `numerics`, `cost`, `beta1` and `example`. Reading it gives
the checker its rules, the simulator its arithmetic, the timing its cycles, the editor its hover and the tests their
strategies. A property is a value or `Unmodelled(reason)`; a missing, doubled or unknown one raises at import.

Further properties say which part an instruction plays, as far as it plays one: `role`, `contraction`, `accumulation`,
`fills`, `register_value`, `keeps_state`, `merges`, `synchronizes`. Readers ask for these and never for a name, so that
an instruction of one's own is treated like the ones that are here.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import CodeType, SimpleNamespace
from typing import Any, Final, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DType
from nki_lab.printable import shown

SBUF: Final = "sbuf"
PSUM: Final = "psum"
HBM: Final = "hbm"
ONCHIP: Final = (SBUF, PSUM)

TABLE: dict[str, Instruction] = {}
"""Every declared instruction by its NKI name, in order of declaration."""

Arrays = SimpleNamespace
"""Arrays by operand name, as `numerics` gets them; a number or None stands for an operand that is no tensor."""

REQUIRED: Final = type("Required", (), {"__repr__": lambda _: "<required>", "__bool__": lambda _: False})()
"""Default of an argument that has none."""


class Register(NamedTuple):
    """A virtual register of a program, as an attribute names it: its number."""

    number: int

    def __repr__(self) -> str:
        return f"r{self.number}"


RegisterValues = Sequence[int | None]
"""Contents of the registers by number; None where they are not known."""


def content_of(values: RegisterValues, source: Register | int) -> int | None:
    """Return a constant, or the content of a register as far as that is known."""
    return values[source.number] if isinstance(source, Register) else source


class EngineState(Protocol):
    """State that instructions keep between calls: accumulation registers by lane, generators, register values.

    `add` tells how the matmul at hand treats dst.
    """

    scalar_accumulators: NDArray[Any]
    vector_accumulators: NDArray[Any]
    random: dict[str, NDArray[Any]]
    values: dict[int, int | float]
    add: Any

    def multiply(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return left.T @ right, in `out` where it is given."""

    def multiply_add(self, left: NDArray[Any], right: NDArray[Any], out: NDArray[Any]) -> None:
        """Set out += left.T @ right."""


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """A property that is known to be missing; using it is diagnostic NKI010, never a zero."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One argument of an instruction.

    `dims` are letters shared by all operands: the first is the partition dimension, the last the flattened rest, a
    digit a fixed size; a single letter is the element count of the whole view. `kind` decides how an attribute is read.
    `offsets` are partitions within a quadrant where the operand may start beside the usual ones. `rows` gives, of a
    call, the partitions of the operand that the instruction reads, where it does not read all. `former` helps a call
    that has its arguments in the order of an earlier release.
    """

    name: str = ""
    role: str
    dims: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = ()
    kind: str = "any"
    choices: tuple[Any, ...] = ()
    enum: type[Enum] | None = None
    scalar: bool = False
    optional: bool = False
    indirect: bool = False
    offsets: tuple[int, ...] = ()
    rows: Callable[[Use], NDArray[Any]] | None = None
    default: Any = REQUIRED
    former: str = ""
    doc: str = ""

    @property
    def is_tensor(self) -> bool:
        return self.role != "attr"


def out(
    dims: str, spaces: tuple[str, ...], doc: str, *, optional: bool = False, explicit: bool = False, **options: Any
) -> Operand:
    """Declare an operand that the instruction writes; `options` are fields of `Operand`.

    An `optional` one may be None, and is None by default unless calls must be `explicit` about it.
    """
    return Operand(
        role="out",
        dims=tuple(dims.split()),
        spaces=spaces,
        doc=doc,
        optional=optional,
        default=None if optional and not explicit else REQUIRED,
        **options,
    )


def arg(dims: str, spaces: tuple[str, ...], doc: str, *, explicit: bool = False, **options: Any) -> Operand:
    """Declare an operand that the instruction reads; with `scalar` a Python number may stand in its place.

    `numerics` finds either under the operand's name in `ins`, a number in the precision of the computation, and the
    other properties find the type of the view or the number in `use.value(name)`. `optional` and `explicit` are as in
    `out`.
    """
    if options.get("optional") and not explicit:
        options.setdefault("default", None)
    return Operand(role="in", dims=tuple(dims.split()), spaces=spaces, doc=doc, **options)


def column(doc: str, **options: Any) -> Operand:
    """Declare an operand that is a number, or an on-chip tile of one column with a number for each partition."""
    return arg("P 1", ONCHIP, doc, scalar=True, **options)


def attr(kind: str, doc: str, **options: Any) -> Operand:
    """Declare a compile-time argument.

    Kinds are `alu`, `activation`, `enum`, `bool`, `number`, `pattern`, `axis`, `pair` and `any`. An `optional` operator
    may be None. Registers are `register`, `register_out` where the instruction writes it, and `register_or_int`.
    """
    return Operand(role="attr", kind=kind, doc=doc, **options)


def choice(doc: str, default: Enum) -> Operand:
    """Declare a compile-time argument that is a member of an enumeration, by default this one."""
    return attr("enum", doc, default=default, enum=type(default))


@dataclass(frozen=True, slots=True)
class Several:
    """An argument that is a list of up to `most` tensors alike, of which the first must be there.

    Operands are named by the argument without its s, and their place.
    """

    most: int
    operand: Operand


_COMPARE: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]]] = {
    ast.LtE: ("<=", operator.le),
    ast.Lt: ("<", operator.lt),
    ast.Eq: ("==", operator.eq),
    ast.GtE: (">=", operator.ge),
    ast.Gt: (">", operator.gt),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A comparison of dimension letters with constants of the target, parsed once at import.

    Names are dimension letters, fields of `Arch`, and `<operand>_bytes` for the size of an operand's dtype.
    `operand` is the argument that the finding points at.
    """

    name: str = ""
    code: str
    text: str
    help: str
    operand: str
    compare: str
    left: CodeType
    right: CodeType
    left_text: str
    right_text: str

    def sides(self, names: Mapping[str, Any]) -> tuple[Any, Any]:
        return eval(self.left, {"__builtins__": {}}, names), eval(self.right, {"__builtins__": {}}, names)

    def holds(self, left: Any, right: Any) -> bool:
        return _OPERATORS[self.compare](left, right)


_OPERATORS: Final = dict(_COMPARE.values())


def limit(text: str, code: str = "NKI210", *, help: str, operand: str) -> Limit:  # noqa: A002
    """Declare a limit such as `"K <= pmax"`."""
    node = ast.parse(text, mode="eval").body
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1):
        raise ValueError(f"a limit is one comparison, got {text!r}")
    right = node.comparators[0]
    sign, _ = _COMPARE[type(node.ops[0])]
    return Limit(
        code=code,
        text=text,
        help=help,
        operand=operand,
        compare=sign,
        left=compile(ast.Expression(node.left), text, "eval"),
        right=compile(ast.Expression(right), text, "eval"),
        left_text=ast.unparse(node.left),
        right_text=ast.unparse(right),
    )


Fault = str | None
"""A description of what is wrong with a use, in the user's numbers; None where nothing is."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A limit that is not one comparison: a named test with a case it accepts and one it refuses.

    `test(use)` gives None, or a description of the fault in the user's numbers. The cases are argument overrides for
    the instruction's `example`; tests run both on every target that has the instruction (or on `target`). `older` is
    the remedy on targets that are too old for what the use asks for, where `help` is for those that are not.
    """

    code: str
    text: str
    test: Callable[[Use], Fault]
    operand: str = field(kw_only=True)
    help: str = field(kw_only=True)
    older: str = field(default="", kw_only=True)
    refuses: Mapping[str, Any] = field(kw_only=True)
    accepts: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    target: str = field(default="", kw_only=True)
    name: str = field(default="", kw_only=True)


ARRAY_BLOCK: Final = 32
"""Rows and columns of the smallest part of the Tensor Engine's array (NKI API, nki.isa.nc_matmul, tiling mode)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time of one instruction: `interval` until the engine takes the next, `latency` until its result can be read.

    Both in cycles of the engine; `latency` counts from the start. In the last `apart` cycles of the interval the engine
    uses no memory that it could keep another one from. A DMA gives `bytes` and fixed nanoseconds instead,
    and the length of its descriptors; `spread` tells that all DMA engines take equal parts of it, `dealt` that its
    descriptors go to them one by one.

    One that uses a part of the array alone names it: `blocks` are bits, one for each `ARRAY_BLOCK` rows and columns,
    row by row (0: the whole array), and `issue` is how long after it another may start on other blocks, in cycles.
    """

    interval: float = 0.0
    latency: float = 0.0
    apart: float = 0.0
    issue: float = 0.0
    blocks: int = 0
    bytes: int = 0
    fixed_ns: float = 0.0
    descriptor_bytes: int = 0
    spread: bool = False
    dealt: bool = False
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Route:
    """The start of a DMA transfer: the `queues` that take it, the writer of its descriptors, and its trigger.

    Descriptors are `static` (written before the kernel starts; no engine is the `trigger`), or written at run time by
    `hardware` on behalf of the triggering engine, or by `software` on GpSimd. A queue has transfers of one kind of
    descriptors and one trigger. `queues` names a group of them: `load` or `store`, a `priority`, or the trigger.
    """

    queues: str
    descriptors: Literal["static", "hardware", "software"]
    trigger: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implicit:
    """A constant that an instruction reads although no argument names it, and what to do where it must have a place."""

    operand: str
    text: str
    help: str


Values = Mapping[str, Any]
"""Arguments of a Beta 1 call by name: tensors, numbers, operators, shapes."""

Result = tuple[tuple[int, ...], Any, str]
"""Shape, dtype (None where the call or promotion decides) and memory space of a tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beta1:
    """The Beta 1 spelling of an instruction: the result is returned instead of passed as `returns`.

    `order` are the positional arguments, with spaces between. The other operands are keywords, except those that Beta 1
    is `without`, and so are the `extra` ones; `positional` and `keywords` follow. `result(values)` gives (shape, dtype
    or None, space) of the tile to return from the bound arguments; without it, the tile is in SBUF, has the dtype of
    the first input, and its shape or `shape(values)`.

    Arguments that stand for operands of another kind have one of three `forms`: the `shape` of a tile, an affine
    `index`, or a `comparison` of such with 0. `dtypes` are tiles that Beta 1 is stricter about. `adapt(values)` then
    changes the values themselves. `arrange(values)` does so once a mask has cut them and the result has its shape.
    """

    returns: str = "dst"
    result: Callable[[Values], Result] | None = None
    shape: Callable[[Values], tuple[int, ...]] | None = None
    order: str = ""
    without: str = ""
    extra: str = ""
    forms: Mapping[str, Literal["shape", "index", "comparison"]] = field(default_factory=dict)
    dtypes: Mapping[str, tuple[DType, ...]] = field(default_factory=dict)
    adapt: Callable[[dict[str, Any]], None] | None = None
    arrange: Callable[[dict[str, Any]], None] | None = None
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


def _complete(spelling: Beta1 | Unmodelled, operands: Mapping[str, Operand]) -> Beta1 | Unmodelled:
    """Return the Beta 1 spelling with its arguments and its result, which follow from the operands."""
    if isinstance(spelling, Unmodelled):
        return spelling
    positional = tuple(spelling.order.split())
    apart = {spelling.returns, *positional, *spelling.without.split()}
    keywords = (*(name for name in operands if name not in apart), *spelling.extra.split())
    result, shape = spelling.result, spelling.shape
    if result is None and spelling.returns:
        first = next(name for name, operand in operands.items() if operand.role == "in")

        def result(values: Values) -> Result:
            return values[first].shape if shape is None else shape(values), values[first].dtype, SBUF

    return replace(spelling, positional=positional, keywords=keywords, result=result)


@dataclass(slots=True, eq=False, repr=False)
class Use:
    """One instruction with its operands and target, as limits, engine choice, cost and numerics see it."""

    instruction: Instruction
    arch: Arch
    types: Mapping[str, Any]
    attrs: Mapping[str, Any]
    dims: Mapping[str, int]
    engine: str = ""
    dialect: str = "current"
    dtypes: dict[str, DType | None] = field(init=False)

    def __post_init__(self) -> None:
        self.dtypes = {name: None if view is None else view.dtype for name, view in self.types.items()}

    @property
    def name(self) -> str:
        """Name of the instruction."""
        return self.instruction.name

    @property
    def index_order(self) -> str:
        """Order in which the elements of an index tensor count: `rows` or `columns`."""
        return str(self.instruction.history.get("index_order", "rows"))

    def value(self, operand: str) -> Any:
        """Return an operand as the call gave it: the type of its view, a number in its place, or None."""
        view = self.types.get(operand)
        return self.attrs.get(operand) if view is None else view

    def space(self, operand: str) -> str:
        """Return the memory space of a tensor operand: `sbuf`, `psum` or `hbm`; empty for numbers and None."""
        view = self.types.get(operand)
        return "" if view is None else HBM if view.space.endswith(HBM) else str(view.space)

    def spaces(self) -> tuple[str, ...]:
        """Return the memory spaces of all tensor operands."""
        return tuple(self.space(name) for name, view in self.types.items() if view is not None)

    def before(self, generation: int, what: str) -> Fault:
        """Return the complaint that the target is older than `what` needs; None where it is not."""
        if self.arch.generation >= generation:
            return None
        return f"{what} NeuronCore-v{generation}, the target is {self.arch.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """A matrix product: dst = stationary.T @ moving over their partitions; the fields name the operands.

    `plain(use)` is true where a call computes exactly that, in float32: not in transpose mode or with packed rows.
    """

    dst: str = "dst"
    stationary: str = "stationary"
    moving: str = "moving"
    plain: Callable[[Use], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulation:
    """A result, `operand`, in which an instruction can add up.

    `mode(use)` is True where the call adds to it, False where it overwrites it, and None where it adds to the elements
    that an accumulating instruction has written before and overwrites the others.
    """

    operand: str = "dst"
    mode: Callable[[Use], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Numbers of its own that an instruction writes to all of dst; the attribute `operand` decides about them.

    `bounds(use)` are the least and the largest of them, None where a register decides.
    """

    operand: str
    bounds: Callable[[Use], tuple[float, float] | None]


class Fold(NamedTuple):
    """How a call reduces its own result: the operand that receives it, the attribute with the operator, others."""

    result: str
    operator: str
    given: Mapping[str, Any]


class Synchronization(NamedTuple):
    """The other core that a call waits for: calls of one instruction on one `channel` are paired in their order.

    An exchange sends what it reads to core `send_to`, and writes what core `receive_from` reads.
    """

    channel: tuple[int, ...] = ()
    send_to: int | None = None
    receive_from: int | None = None


def _elements(use: Use) -> int:
    return max((int(view.partitions * view.free_size) for view in use.types.values() if view is not None), default=0)


Role = Literal["", "copy"]
"""`copy`: dst == src, cast to dst's dtype, and nothing else."""

Arrangement = Literal["", "in order", "transposed"]
"""Where the elements of a result come from; empty where they are computed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instruction:
    """A declared instruction; the frozen result of `@instruction`.

    `merges(use)` tells whether it leaves elements of its results as they were, `keeps_state(use)` whether it leaves
    something in the engine's own registers that later instructions read. `synchronizes(use)` is how it waits for the
    other core of the launch, None where it does not; an instruction that waits and writes nothing `only_orders`: it
    touches no element of its operands, and later accesses of them wait for it. `warns(use)` are findings that do not
    stop it. `precision(use)` is `float32`, `native` or `bits`, and `exact(use)` tells whether results need no rounding;
    a body may give both as constants.

    `continuous(use)` tells whether small changes of the inputs change the floating-point results little, so that the
    same arithmetic in float64 says what the exact result is. It is false of an instruction that compares its data,
    rounds to a grid of its own or draws random numbers; by default of one with an operator that `decides`.

    `moves(use)` tells how dst has the elements of the only tensor that a call reads, with nothing done to them but a
    cast to dst's dtype: `in order`, as every copy, or `transposed`, dst[F, P] = data[P, F].T. Other calls have none.

    An operand of kind `register_out` makes it one that writes a register. `register_value(use, values)` gives what it
    writes from the registers' contents before, None where these do not tell; without it the value is data, which only
    a run knows.

    An `elementwise` instruction computes each element of its result from those in the same place, so that it can be
    cut along any dimension. One with a `rowwise` attribute reduces the trailing dimensions that the attribute names,
    each row for itself. One that `folds` can reduce each row of its own result on the way. `stacked(use)` are the
    attributes that change in the call of another instruction that does the same for each element of a further
    dimension, the first free one. `implicit_operands(use)` are constants that it reads besides its operands. Keywords
    that are `tolerated` are no arguments; real kernels pass them, and their value says why they do nothing.

    `relief(use)` is the engine that the Beta 1 compiler takes for a call that leaves the choice to it, empty where it
    keeps to `engine(use)`; see `kernel_runtime.backend.engines`.

    `dma_route(use)` is how a transfer gets under way, None for instructions of other engines. `work(use)` counts what
    one execution does, in `work_unit`: the elements of the largest operand unless the declaration says otherwise.
    `flops(use)` are its multiplications and additions, `transpose_flops(use)` those of a transpose that the array does
    as a product.
    """

    index: int
    name: str
    doc: str
    engines: tuple[str, ...]
    engine: Callable[[Use], str]
    operands: Mapping[str, Operand]
    limits: tuple[Limit, ...]
    predicates: tuple[Predicate, ...]
    numerics: Callable[..., None] | Unmodelled
    precision: Callable[[Use], str]
    exact: Callable[[Use], bool]
    continuous: Callable[[Use], bool]
    moves: Callable[[Use], Arrangement]
    cost: Callable[[Use], Cost] | Unmodelled
    beta1: Beta1 | Unmodelled
    example: Mapping[str, Any]
    since: int
    until: int | None
    release: str
    only_orders: bool
    see: str
    groups: Mapping[str, tuple[str, ...]]
    tensors: tuple[str, ...]
    register_out: str
    merges: Callable[[Use], bool] | None
    shapes: Callable[[Use], Mapping[str, tuple[int, ...]]] | None = None
    history: Mapping[str, Any] = field(default_factory=dict)
    role: Role = ""
    contraction: Contraction | None = None
    accumulation: Accumulation | None = None
    fills: Fill | None = None
    register_value: Callable[[Use, RegisterValues], int | None] | None = None
    keeps_state: Callable[[Use], bool] | None = None
    synchronizes: Callable[[Use], Synchronization | None] | None = None
    dma_route: Callable[[Use], Route] | None = None
    relief: Callable[[Use], str] = lambda _use: ""
    elementwise: bool = False
    rowwise: str = ""
    stacked: Callable[[Use], Mapping[str, Any]] | None = None
    folds: Fold | None = None
    implicit_operands: Callable[[Use], tuple[Implicit, ...]] = lambda _use: ()
    tolerated: Mapping[str, str] = field(default_factory=dict)
    work: Callable[[Use], int] = _elements
    work_unit: str = "elements"
    flops: Callable[[Use], int] = lambda _use: 0
    transpose_flops: Callable[[Use], int] = lambda _use: 0
    warns: Callable[[Use], list[Diagnostic]] | None = None

    @property
    def writes_register(self) -> bool:
        """Whether calls write a register: the attribute `register_out`."""
        return bool(self.register_out)

    @property
    def loads_register(self) -> bool:
        """Whether calls write a register with a value that only a run knows."""
        return bool(self.register_out) and self.register_value is None

    def accumulates(self, use: Use) -> bool:
        """Whether a call may add to what is in its result."""
        return self.accumulation is not None and self.accumulation.mode(use) is not False

    def updates(self, use: Use) -> bool:
        """Whether a call may use, or leave in place, what is in its results: it accumulates or merges."""
        return self.accumulates(use) or (self.merges is not None and self.merges(use))

    @property
    def arguments(self) -> Mapping[str, Operand]:
        """The arguments of a call: the operands, those of a list under the name of the list."""
        first = {names[0]: name for name, names in self.groups.items()}
        inner = {name for names in self.groups.values() for name in names[1:]}
        return {first.get(name, name): operand for name, operand in self.operands.items() if name not in inner}

    @property
    def summary(self) -> str:
        return self.doc.strip().split("\n", 1)[0]

    def signature(self) -> str:
        """Return the call as the current dialect spells it."""
        parts = [
            name if operand.default is REQUIRED else f"{name}={show_value(operand.default)}"
            for name, operand in self.arguments.items()
        ]
        return f"{self.name}({', '.join(parts)}, name=None)"


def show_value(value: object) -> str:
    """Return an attribute as a kernel author writes it: enum members and operators by their NKI names."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    name = getattr(value, "nki_op", None)
    return f"nl.{name}" if name else shown(value)


_MANDATORY: Final = ("numerics", "cost", "beta1", "example")


def instruction(
    *,
    engine: str | tuple[str, ...],
    since: int = 2,
    until: int | None = None,
    release: str = "0.2",
    see: str,
) -> Callable[[type], Instruction]:
    """Declare an instruction from a class body and enter it into `TABLE`.

    `engine` names the engines that can run it; with several, the body's `choose(use)` picks when the caller does not.
    `since`/`until` are NeuronCore generations, `release` the first NKI release that has it.
    """
    engines = (engine,) if isinstance(engine, str) else engine

    def declare(body: type) -> Instruction:
        made = _build(body, engines, since, until, release, see)
        if made.name in TABLE:
            raise ValueError(f"instruction {made.name} is declared twice")
        TABLE[made.name] = made
        return made

    return declare


def _build(body: type, engines: tuple[str, ...], since: int, until: int | None, release: str, see: str) -> Instruction:
    name = body.__name__
    own: Mapping[str, Any] = vars(body)
    doc = (body.__doc__ or "").strip()
    groups = {
        key: tuple(f"{key.removesuffix('s')}{place}" for place in range(value.most))
        for key, value in own.items()
        if isinstance(value, Several)
    }
    operands = _operands(own, groups)
    limits = tuple(replace(value, name=key) for key, value in own.items() if isinstance(value, Limit))
    predicates = tuple(replace(value, name=key) for key, value in own.items() if isinstance(value, Predicate))
    for problem in _problems(own, engines, operands, limits, predicates):
        raise ValueError(f"instruction {name}{problem}")
    derived: dict[str, Any] = {
        "index": len(TABLE),
        "name": name,
        "doc": re.sub(r"\n    ", "\n", doc),
        "engines": engines,
        "engine": _function(own.get("choose", engines[0])),
        "operands": operands,
        "limits": limits,
        "predicates": predicates,
        "precision": _function(own.get("precision", "float32")),
        "exact": _function(own.get("exact", False)),
        "continuous": _function(own.get("continuous", _without_decisions)),
        "moves": _function(own.get("moves", "in order" if "role" in own else "")),
        "beta1": _complete(own["beta1"], operands),
        "since": since,
        "until": until,
        "release": release,
        "merges": _function(own["merges"]) if "merges" in own else None,
        "relief": _function(own.get("relief", "")),
        "only_orders": "synchronizes" in own and all(operand.role != "out" for operand in operands.values()),
        "see": see,
        "groups": groups,
        "tensors": tuple(key for key, operand in operands.items() if operand.is_tensor),
        "register_out": next((key for key, operand in operands.items() if operand.kind == "register_out"), ""),
    }
    return Instruction(**{key: own[key] for key in _PROPERTIES if key in own} | derived)


def _operands(own: Mapping[str, Any], groups: Mapping[str, tuple[str, ...]]) -> dict[str, Operand]:
    """Return the operands in order of declaration, those of lists one by one."""
    found: dict[str, Operand] = {}
    for key, value in own.items():
        if isinstance(value, Operand):
            found[key] = replace(value, name=key)
        elif isinstance(value, Several):
            first, *others = groups[key]
            found[first] = replace(value.operand, name=first)
            found |= {name: replace(value.operand, name=name, default=None, optional=True) for name in others}
    return found


def _problems(
    own: Mapping[str, Any],
    engines: tuple[str, ...],
    operands: Mapping[str, Operand],
    limits: tuple[Limit, ...],
    predicates: tuple[Predicate, ...],
) -> Iterator[str]:
    """Find reasons to refuse a declaration, as they follow the words "instruction" and its name."""
    missing = [key for key in _MANDATORY if key not in own]
    is_stripped = sys.flags.optimize >= 2  # python -OO has no doc strings
    if missing or not (is_stripped or (own["__doc__"] or "").strip()):
        yield f" lacks {', '.join(missing) or 'a doc string'}: give a value or Unmodelled"
    if len(engines) > 1 and "choose" not in own:
        yield f" has engines {engines} and no choose(use)"
    if ("dma" in engines) != ("dma_route" in own):
        yield ": the DMA engines, and no others, need a dma_route(use)"
    if undocumented := [key for key, operand in operands.items() if not operand.doc]:
        yield f": operands without doc: {', '.join(undocumented)}"
    letters = {letter for operand in operands.values() for letter in operand.dims if not letter.isdigit()}
    known = letters | {f"{key}_bytes" for key in operands} | set(Arch.__dataclass_fields__)
    for item in limits:
        if unknown := {*item.left.co_names, *item.right.co_names} - known:
            yield f", limit {item.text!r}: unknown names {sorted(unknown)}"
        if item.operand not in operands:
            yield f", limit {item.text!r} points at {item.operand!r}, not an operand"
    named = {key for item in predicates for key in (item.operand, *item.accepts, *item.refuses)} | set(own["example"])
    if strange := sorted(named - set(operands)):
        yield f" has no operands {', '.join(strange)}, which its predicates or example name"
    required = {key for key, operand in operands.items() if operand.default is REQUIRED}
    if lacking := sorted(required - set(own["example"])):
        yield f": its example lacks {', '.join(lacking)}"
    yield from _wrong_properties(own, operands)


def _wrong_properties(own: Mapping[str, Any], operands: Mapping[str, Operand]) -> Iterator[str]:
    """Find properties of a body that are not known, or that name operands that do not fit."""
    parts = (Operand, Several, Limit, Predicate)
    properties = {key for key, value in own.items() if not key.startswith("__") and not isinstance(value, parts)}
    if unknown := sorted(properties - {"choose", *_PROPERTIES}):
        yield f" has unknown properties: {', '.join(unknown)}"
    needed: dict[str, str] = {"dst": "out", "src": "in"} if "role" in own else {}
    if needed and (own["role"] != "copy" or {key for key, item in operands.items() if item.is_tensor} != set(needed)):
        yield ": role is 'copy', with no tensors but dst and src"
    for key, (kind, fields) in _KINDS.items():
        if key in own:
            if not isinstance(own[key], kind):
                yield f": {key} is no {kind.__name__}"
            needed |= {getattr(own[key], part): role for part, role in fields.items()}
    for key, part in needed.items():
        if key not in operands or operands[key].role != part:
            yield f": a property needs {key!r} as an operand of role {part!r}"
    registers = sum(operand.kind == "register_out" for operand in operands.values())
    if registers > 1 or ("register_value" in own and not registers):
        yield f" writes {registers} registers: one, of which register_value tells, or none"


_PROPERTIES: Final = frozenset(Instruction.__dataclass_fields__)
"""Attributes of a declaration's body beside operands, limits and `choose`."""

_KINDS: Final[Mapping[str, tuple[Any, Mapping[str, str]]]] = {
    "contraction": (Contraction, {"dst": "out", "stationary": "in", "moving": "in"}),
    "accumulation": (Accumulation, {"operand": "out"}),
    "fills": (Fill, {"operand": "attr"}),
    "folds": (Fold, {"result": "out", "operator": "attr"}),
} | dict.fromkeys(("register_value", "keeps_state", "synchronizes", "stacked", "warns"), (Callable, {}))
"""The class of a property, and the roles of the operands that its fields name."""


def _without_decisions(use: Use) -> bool:
    """Whether no operator of a call jumps between two results."""
    return not any(getattr(value, "decides", False) for value in use.attrs.values())


def _function(value: Any) -> Callable[[Use], Any]:
    """Return a property as a function of the call; a declaration may give a constant for all calls."""
    return value if callable(value) else lambda _use: value
