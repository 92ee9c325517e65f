"""The interpreter: the state of one evaluation, its frames and functions, its findings, and its doubts."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose
from nki_lab.isa.spelling import NearMisses
from nki_lab.kernel_runtime.interpreter.limits import (
    FAULT,
    Budget,
    FunctionExit,
    Meter,
    OverBudget,
    PendingException,
    TooLarge,
    Unobservable,
    budget_reached,
    kernel_raised,
)
from nki_lab.kernel_runtime.interpreter.module_finder import ModuleFinder
from nki_lab.kernel_runtime.interpreter.modules import ModuleCache, ModuleScope
from nki_lab.kernel_runtime.interpreter.namespaces import Imports
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    PARTED,
    SIMPLE,
    UNKNOWN,
    BoundMethod,
    Instance,
    Names,
    Partial,
    Rows,
    Unknown,
    UserClass,
    Value,
    unknown_within,
)
from nki_lab.kernel_runtime.interpreter.variables import MOST_OTHERS, is_alike
from nki_lab.kernel_runtime.ir import Iteration, Site
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.source_location import placed, span_at
from nki_lab.kernel_runtime.tensor import Buffer, DynamicSlice, NkiTensor
from nki_lab.kernel_runtime.tensor.buffer import InvalidBuffer
from nki_lab.source.module import ModuleSource
from nki_lab.source.positions import place_of
from nki_lab.source.scopes import Scope
from nki_lab.source.uses import computes

REACHED: Final = "reached from this call"
_CHARACTERS: Final = 64  # of a message, for a step
_MOST_DOUBTED: Final = 10_000
_FEW_PARTS: Final = 16


class Assumed(Protocol):
    """The assumptions of a run about its arguments. `compared` is the last comparison: operator, operands, result.

    `tests` are those that were decided. What a call decided (`decided_since`) can be decided again without it, in a
    run that is as `settled` as its own.
    """

    settled: bool

    compared: tuple[type[ast.cmpop], Value, Value, Value] | None
    tests: list[Any]

    def choose(self, test: ast.expr, answer: bool | None, *, local: bool) -> bool:
        """Return the way that a test goes; `answer` is its value, None where that is unknown.

        One that is not `local` reads no names of functions: it depends on nothing that is assumed.
        """
        ...

    def refuse(self) -> None:
        """Enter that the function refuses what is assumed: its last comparison has the wrong result."""
        ...

    def decided_since(self, number: int, compared: Any) -> Any: ...
    def decide_again(self, decided: Any) -> bool: ...


class Memory(Protocol):
    """Knows calls that were evaluated before: see `known_calls`."""

    deepest: int

    def begin(self, function: Function, arguments: Iterable[Value]) -> Any: ...
    def recall(self, recording: Any) -> Value: ...
    def end(self, recording: Any, result: Value) -> None: ...
    def give_up(self, recording: Any) -> None: ...


class Frame:
    """Names of one running function, comprehension, class body or module."""

    __slots__ = ("doubtful", "function", "interpreter", "locals", "meter", "module", "parent", "result")

    def __init__(
        self,
        interpreter: Interpreter,
        parent: Frame | None,
        function: Function | None,
        names: Names,
        module: ModuleScope | None = None,
    ) -> None:
        self.interpreter = interpreter
        self.meter = interpreter.meter
        self.parent = parent
        self.module: ModuleScope = parent.module if module is None and parent is not None else module  # type: ignore[assignment]
        self.function = function
        self.locals = names
        self.result: Value = None
        self.doubtful = False  # an unknown condition may have left the function already

    def fault(self, error: Exception, node: ast.AST) -> Unknown:
        """Report an exception that an operation of the user's raised; its result is unknown from here on."""
        return self.interpreter.fault(error, node, self)

    def attempt(self, node: ast.AST, function: Callable[..., Value], *args: Value) -> Value:
        """Return `function(*args)`; an exception that it raises is reported at `node`."""
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - what the user's values raise
            return self.fault(error, node)

    def located(self, value: Value, node: ast.AST) -> Value:
        """Place the fault of a view that was made at `node` outside of its tensor; its uses report it."""
        buffer = value._buffer if type(value) is NkiTensor else None
        if isinstance(buffer, InvalidBuffer):
            buffer.fault = placed(buffer.fault, self.interpreter.site(node, self))
        return value


@dataclass(slots=True, eq=False, repr=False)
class Function:
    """A function of the user's: its tree, its defaults and the frame it was made in; `body` runs it in a frame."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    name: str
    scope: Scope
    defaults: Names
    closure: Frame
    kind: str = ""  # "static", "class", "property" in a class body
    owner: UserClass | None = None
    entry: bool = False  # decorated as a kernel
    setter: Function | None = None  # of a property
    wrapped: Value = None  # the function whose signature it shows, as `functools.wraps` says
    rows: list[Rows] = field(default_factory=list)  # of a test
    fixture: tuple[str, tuple[Value, ...]] | None = None  # of a fixture: its name, and its `params`
    body: Callable[[Frame], object] | None = None
    entered_in: Interpreter | None = None  # the last evaluation that entered it
    positional: list[str] = field(init=False)

    def __post_init__(self) -> None:
        arguments = self.node.args  # `positional` are the parameters that take positional arguments
        self.positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]

    def __repr__(self) -> str:
        return f"<function {self.qualname}>"

    @property
    def qualname(self) -> str:
        return self.scope.qualname


@dataclass(slots=True, eq=False, repr=False)
class Launch:
    """A kernel with a launch grid and edges of `with_schedule`, or as `nki.simulate` and its kin give it.

    The grid is None where it is not known.
    """

    function: Function
    grid: tuple[int, ...] | None = ()
    schedule: tuple[Value, ...] = ()


def _length(walked: range) -> int:
    """Return `len(walked)`, which Python has for machine words only."""
    return (walked[-1] - walked[0]) // walked.step + 1 if walked else 0


class LoopRange:
    """The values of a loop's variable, over all times that the loop was entered."""

    __slots__ = ("high", "low", "name", "step", "trips")

    def __init__(self, name: str, walked: range) -> None:
        self.name = name
        self.low, self.high = min(walked[0], walked[-1]), max(walked[0], walked[-1])
        self.step = abs(walked.step)
        self.trips = _length(walked)

    def widen(self, walked: range) -> None:
        """Take in another time."""
        self.low, self.high = min(self.low, walked[0], walked[-1]), max(self.high, walked[0], walked[-1])
        self.trips = max(self.trips, _length(walked))

    def __str__(self) -> str:
        steps = f" in steps of {self.step}" if self.step != 1 else ""
        return f"{self.low} to {self.high}{steps}, {self.trips} trip{'s' * (self.trips != 1)}"


class Interpreter:
    """One evaluation of a module, and of those that it imports.

    `host` evaluates code that launches kernels: calls of kernels are handed to `on_launch` and not entered; calls of
    other functions, which may be given kernels, to `on_handing`, with whether the function is known. What is called
    while `assumed` is not zero may be meant to fail. `doubtful`
    holds containers and objects that skipped code may have changed, those `doubted_by_host` by code that reaches no
    tensor; `tainted` the buffers that it may have written.
    `called` are the functions of the module, by qualified name, whose bodies were looked at, and `entered` those
    evaluated; `operations` the places of all NKI operations that were evaluated, `missed` of those that could not be,
    `omitted` of those in statements that were not evaluated;
    `origins` has by file and line everything that other modules recorded, with the call in this one that led there.
    `run` runs the statements of a module. `assumptions` decide unknown tests; without them, what depends
    on an unknown one is skipped; with them, `refused` has the arguments for which calls failed.
    `LEFT_BY_MODULES` are the attributes that hold what is known after the statements of a module.
    """

    LEFT_BY_MODULES: Final = (
        "findings", "types", "ranges", "doubtful", "doubted_by_host", "refused", "entered", "called", "classes",
        "operations", "missed", "omitted", "origins", "_counted", "_reported",
    )  # fmt: skip

    def __init__(
        self,
        module: ModuleSource,
        budget: Budget,
        imports: Imports,
        *,
        run: Callable[[Frame], object],
        host: bool = False,
        library: ModuleFinder | None = None,
    ) -> None:
        self.findings: list[Diagnostic] = []
        self.meter = Meter(budget, self.findings)
        self.imports = imports
        self.host = host
        self.on_launch: Callable[[Launch, list[Value], Names, ast.AST, Frame], None] | None = None
        self.on_handing: Callable[[list[Value], Names, ast.AST, Frame, bool], None] | None = None
        self.assumed = 0
        self._run = run
        self.main = self._scope(module, "__main__" if host else module.name)
        self.base = Frame(self, None, None, self.main.globals, self.main)
        self.modules = ModuleCache(library, self.main, self._scope, self._evaluate)
        self.builder: Builder | None = None
        self.types: dict[tuple[int, int], tuple[str, Value]] = {}
        self.ranges: dict[tuple[int, int], LoopRange] = {}
        self.tensors: dict[tuple[int, int], NkiTensor] = {}
        # Of other shapes than those of `types` and `tensors`, by the same places: no name begins where one ends.
        self.others: dict[tuple[int, int], list[NkiTensor]] = {}
        self.numbers: dict[tuple[int, int], tuple[float, float]] = {}  # the least and largest of names with several
        self.doubtful: dict[int, Value] = {}
        self.doubted_by_host: set[int] = set()
        self.tainted: set[Buffer] = set()
        self.skipped_statements = 0  # of modules, which took too many steps
        self.lacks_lines = False  # of a function that was entered: they may write whatever it has
        self._doubted_buffers = 0
        self.refused: dict[ast.AST, set[Hashable]] = {}
        self.entered: set[str] = set()
        self.called: set[str] = set()
        self.assumptions: Assumed | None = None
        self.memory: Memory | None = None
        self.shared_changes = 0  # of names of modules, and attributes of classes
        self.near_misses = NearMisses()
        self.effects = 0  # counts what makes a call more than a function of its arguments
        self.classes: dict[ast.AST, UserClass | None] = {}
        self.guards = 0
        self.depth = 0
        self.call_stack: list[tuple[ast.AST, Frame]] = []
        self.operations: set[tuple[str, int, int]] = set()
        self.missed: set[tuple[str, int, int]] = set()
        self.omitted: set[tuple[str, int, int]] = set()
        self._counted: set[int] = set()
        self.origins: dict[tuple[str, int], Span] = {}
        self._reported: set[object] = set()
        self._sites: dict[int, int] = {}
        self._later: set[int] = set()

    # -- modules ---------------------------------------------------------------------------------------------------

    def _scope(self, module: ModuleSource, name: str) -> ModuleScope:
        return ModuleScope(module, name, lambda star: self.imports.module(star) is not UNKNOWN)

    def _evaluate(self, module: ModuleScope) -> None:
        """Run the statements of an imported module; its faults are not for the importer's handlers."""
        guards, self.guards = self.guards, 0
        stack, self.call_stack = self.call_stack, []
        memory, self.memory = self.memory, None
        self.effects += 1
        try:
            self._run(Frame(self, None, None, module.globals, module))
        finally:
            self.guards, self.call_stack, self.memory = guards, stack, memory

    def note_class(self, cls: UserClass, frame: Frame) -> None:
        """Keep a class by its statement; a statement that makes several stands for none of them."""
        self.effects += 1
        if cls.node is not None:
            self.classes[cls.node] = None if cls.node in self.classes or frame.function is not None else cls

    def shared_changed(self) -> None:
        """Take note that a name of a module, or an attribute of a class, has another value than before."""
        self.effects += 1
        self.shared_changes += 1
        self.memory = None

    def launches(self, frame: Frame) -> bool:
        """Return whether a kernel that code of a frame calls is launched: by the host, or by statements of a module."""
        caller = self.call_stack[0][1] if self.call_stack else frame
        return self.host or frame.function is None or caller.function is None

    def launch(self, kernel: Launch, args: list[Value], kwargs: Names, node: ast.AST, frame: Frame) -> Unknown:
        """Hand the call of a kernel to `on_launch`; its result is unknown."""
        self.effects += 1
        if self.on_launch is not None:
            self.on_launch(kernel, args, kwargs, node, frame)
        return UNKNOWN

    def attempted(self, run: Callable[[], Value]) -> Value:
        """Return the result of following code of the host's; UNKNOWN where it fails or takes too many steps."""
        try:
            return run()
        except (OverBudget, FunctionExit, PendingException, RecursionError):
            self.guards = 0
            return UNKNOWN

    def decided(self, answer: Value, test: ast.expr, *, local: bool) -> Value:
        """Return the way that a test goes, as the assumptions decide it where there are some."""
        assumed = self.assumptions
        return answer if assumed is None else assumed.choose(test, None if answer is UNKNOWN else answer, local=local)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Hand on no kernels while this lasts: those called here are meant to be refused."""
        on_launch, self.on_launch = self.on_launch, lambda *_: None
        on_handing, self.on_handing = self.on_handing, None
        try:
            yield
        finally:
            self.on_launch, self.on_handing = on_launch, on_handing

    # -- findings --------------------------------------------------------------------------------------------------

    def site(self, node: ast.AST, frame: Frame) -> Site:
        """Return the place of an expression."""
        name = frame.function.qualname if frame.function is not None else "<module>"
        return Site(frame.module.file, *place_of(node), name)

    def pin(self, node: ast.AST, frame: Frame) -> None:
        """Make `node` the call site of the instructions recorded next."""
        builder = self.builder
        if builder is None:
            return
        if id(node) not in self._sites:
            site = self.site(node, frame)
            self._sites[id(node)] = builder.site_of(site)
            if frame.module is not self.main and (origin := self.origin()) is not None:
                self.origins.setdefault((site.file, site.line), origin)
        builder.pinned = self._sites[id(node)]

    def start_iteration(
        self, node: ast.For, frame: Frame, variable: str, value: int, around: int, *, later: bool
    ) -> None:
        """Record from now on in a new iteration of a loop, inside iteration `around`; the first is not `later`."""
        builder = self.builder
        if builder is None:
            return
        if id(node) not in self._sites:
            place = self.site(node, frame)
            self._sites[id(node)] = builder.site_of(
                place._replace(end_line=place.line, end_column=place.column + len("for"))
            )
        builder.pinned_iteration = len(builder.program.iterations)
        if later:
            self._later.add(builder.pinned_iteration)
        builder.program.iterations.append(Iteration(around, variable, value, self._sites[id(node)]))

    def mark_temporary(self, value: ast.expr | None) -> None:
        """Let a Beta 1 builder know whether the value it is about to be assigned was made by the statement itself."""
        builder = self.builder
        if builder is not None and hasattr(builder, "temporary"):
            builder.temporary = computes(value)

    def record(self, item: Diagnostic, node: ast.AST | None, frame: Frame) -> None:
        """Keep a finding, once for each code and place. The top level of an imported module is not judged."""
        self.effects += 1
        if frame.module is not self.main and frame.function is None:
            return
        if node is not None:
            item = placed(item, self.site(node, frame))
            if frame.module is not self.main and (origin := self.origin()) is not None:
                item = replace(item, related=(*item.related, Related(REACHED, origin)))
        key = (item.code, item.span or item.message)
        if key not in self._reported:
            self._reported.add(key)
            later = self._later_iteration() if frame.function is not None else []
            self.findings.append(replace(item, related=(*item.related, *later)) if later else item)

    def _later_iteration(self) -> list[Related]:
        """Name the iteration of Python's loops that is evaluated, where it is not the first one of all of them."""
        row, found, is_later = -1 if self.builder is None else self.builder.pinned_iteration, [], False
        span: Span | None = None
        while row >= 0 and self.builder is not None:
            program = self.builder.program
            item = program.iterations[row]
            is_later |= row in self._later
            span = span or span_at(program, item.site)
            found.append(f"{item.variable} = {item.value}")
            row = item.parent
        return [Related(f"in the iteration {', '.join(reversed(found))}", span)] if is_later else []

    def origin(self) -> Span | None:
        """Return the call in the evaluated module itself that led to the current one."""
        for node, frame in reversed(self.call_stack):
            if frame.module is self.main:
                return Span.from_bytes(self.main.file, *place_of(node))
        return None

    def note_range(self, node: ast.Name, frame: Frame, walked: range) -> None:
        """Keep the values of a loop's variable, for a hover."""
        if frame.module is self.main and walked:
            key = (node.lineno, node.col_offset)
            self.ranges.setdefault(key, LoopRange(node.id, walked)).widen(walked)

    def note_tensor(self, node: ast.expr, frame: Frame, tensor: NkiTensor) -> None:
        """Keep the value of an expression, by its end: `x`, `x[0]` and `x[0].T` begin at one place."""
        if frame.module is self.main:
            place = node.end_lineno or 0, node.end_col_offset or 0
            first = self.tensors.setdefault(place, tensor)
            if first is not tensor:
                self.note_other(place, first, tensor)

    def note_other(self, place: tuple[int, int], first: Value, value: Value) -> None:
        """Keep what is bound where another value was first, and is unlike it: of another iteration, or call."""
        if isinstance(value, NkiTensor):
            if not isinstance(first, NkiTensor) or is_alike(first, value):
                return
            known = self.others.setdefault(place, [])
            if len(known) <= MOST_OTHERS and not any(is_alike(item, value) for item in known):
                known.append(value)
        elif isinstance(value, int | float) and isinstance(first, int | float) and value != first:
            low, high = self.numbers.get(place, (first, first))
            if not low <= value <= high:
                self.numbers[place] = min(low, value), max(high, value)

    def note_operation(self, node: ast.AST, frame: Frame) -> None:
        """Count an operation of NKI that was evaluated at `node`."""
        self.effects += 1
        if id(node) not in self._counted:
            self._counted.add(id(node))
            self.operations.add(_operation(node, frame))

    def miss_operation(self, node: ast.AST, frame: Frame) -> None:
        """Count an operation at `node` that could not be evaluated."""
        self.effects += 1
        self.missed.add(_operation(node, frame))

    def omit_operation(self, node: ast.AST, frame: Frame) -> None:
        """Count an operation at `node` in a statement that is not evaluated."""
        self.effects += 1
        self.omitted.add(_operation(node, frame))

    def fault(self, error: Exception, node: ast.AST, frame: Frame) -> Unknown:
        """Report an exception that an operation of the user's raised; its result is unknown from here on."""
        if isinstance(error, Unobservable):
            return UNKNOWN
        self.effects += 1
        match error:
            case NkiError():
                found = error.diagnostics
            case TooLarge():
                self.meter.spend(FAULT)
                self.record(budget_reached(f"{error} is not built"), node, frame)
                return UNKNOWN
            case RecursionError() | MemoryError():
                raise OverBudget("the nesting", node) from None
            case _:
                found = (kernel_raised(error),)
        return self.report(error, found, node, frame)

    def report(self, error: Exception, found: Iterable[Diagnostic], node: ast.AST, frame: Frame) -> Unknown:
        """Report the findings of an exception, or raise it for the handlers around it."""
        found = tuple(found)
        self.meter.spend(FAULT + sum(len(item.message) for item in found) // _CHARACTERS)
        if self.guards:
            raise PendingException(error, tuple(placed(item, self.site(node, frame)) for item in found))
        for item in found:
            if item.code == "NKI007" and (frame.doubtful or frame.function is None):
                continue  # may not be reached; or host code, which is not judged
            self.record(item, node, frame)
        return UNKNOWN

    def undefined(self, name: str, node: ast.AST, frame: Frame, *, local: bool = False) -> Value:
        """Report a name that nothing has bound when it is read (NKI102), unless it may have been bound unseen."""
        self.effects += 1
        module = frame.module
        if frame.function is None or (not local and (module.open_stars or name in module.source.scope.names)):
            return UNKNOWN
        unbound = f"cannot access local variable {name!r} where it is not associated with a value"
        error = UnboundLocalError(unbound) if local else NameError(f"name {name!r} is not defined")
        near = self.near_misses.did_you_mean(name, frame.locals, module.globals)
        item = diagnose("NKI102", str(error), help=near or "check the spelling, or import the name")
        return self.report(error, (item,), node, frame)

    def record_all(self, items: Iterable[Diagnostic], node: ast.AST | None, frame: Frame) -> None:
        """Keep several findings at one place."""
        for item in items:
            self.record(item, node, frame)

    def report_unevaluated(self, message: str, node: ast.AST, frame: Frame) -> None:
        """Report code of kernels that is skipped because a value is unknown, unless an earlier fault explains it.

        What the statements of a module call is the code of no kernel.
        """
        self.effects += 1
        faults = any(item.outcome == "fault" for item in self.findings)
        outside = frame.function is None or any(caller.function is None for _, caller in self.call_stack[:1])
        if not outside and not self.host and not faults:
            limit = "the editor evaluates NKI, the language's Python and constants, and runs nothing of yours"
            self.record(diagnose("NKI122", message, limit=limit), node, frame)

    # -- names -----------------------------------------------------------------------------------------------------

    def global_value(self, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return the value of a global or builtin name."""
        module = frame.module
        found = module.globals.get(name, MISSING)
        if found is not MISSING:
            module.read.add(name)
            return found
        if name in _BUILTINS and name not in frame.module.source.scope.names:
            return MODELLED.get(name, UNKNOWN)
        return self.undefined(name, node, frame)

    # -- skipped code ----------------------------------------------------------------------------------------------

    def doubt(self, values: Iterable[Value], *, contents: bool = True) -> Unknown:
        """Return UNKNOWN, with values that skipped code may have changed marked.

        Tensors count as written, containers as unknown.
        """
        stack = list(values)
        seen: set[int] = set()
        looked = 0
        while stack and len(seen) < _MOST_DOUBTED and looked < 8 * _MOST_DOUBTED:
            value = stack.pop()
            looked += 1
            if id(value) in seen:
                continue
            seen.add(id(value))
            if type(value) in SIMPLE:
                continue
            match value:
                case NkiTensor():
                    self.effects += 1
                    self.tainted.add(value._buffer)
                case list() | set() | tuple():
                    stack.extend(value)
                case dict():
                    stack.extend(value.values())
                case Instance():
                    stack.extend(value.fields.values())
                case BoundMethod():
                    stack.append(value.instance)
                case Partial():
                    stack.extend((*value.args, *value.kwargs.values()))
                case Function() if value.closure.parent is not None:
                    stack.extend(value.closure.locals.values())
                case DynamicSlice():
                    stack.append(value.start)
                case UserClass():
                    stack.extend(value.attributes.values())
                case _:
                    pass
            if contents and isinstance(value, list | dict | set | Instance):
                self.effects += 1
                self.doubtful[id(value)] = value
                self.doubted_by_host.discard(id(value))
        self.meter.spend(len(seen) + (looked >> 3))
        return UNKNOWN

    def doubt_contents(self, values: Iterable[Value]) -> None:
        """Mark containers and objects that skipped code may have changed, which reaches no tensor."""
        self.effects += 1
        for value in values:
            if isinstance(value, list | dict | set | Instance) and id(value) not in self.doubtful:
                self.doubtful[id(value)] = value
                self.doubted_by_host.add(id(value))

    def doubt_buffers(self) -> None:
        """Count all tensors as written that there are: something wrote to one of them, it is not known which."""
        self.effects += 1
        if self.builder is not None:
            self.tainted.update(self.builder.program.buffers[self._doubted_buffers :])
            self._doubted_buffers = len(self.builder.program.buffers)

    def holds_unknown(self, *values: Value) -> bool:
        """Return whether one of `values` is unknown, or has an unknown part; large ones are paid for."""
        for value in values:
            if value is UNKNOWN:
                return True
            if type(value) in PARTED:
                found, looked = unknown_within(value)
                if looked >= _FEW_PARTS:
                    self.meter.spend(looked >> 4)
                if found:
                    return True
        return False

    def is_doubtful(self, value: Value) -> bool:
        """Return whether the contents of a container or object are unknown."""
        return bool(self.doubtful) and id(value) in self.doubtful


def _operation(node: ast.AST, frame: Frame) -> tuple[str, int, int]:
    return frame.module.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


_BUILTINS: Final = frozenset(dir(builtins))
EXCEPTIONS: Final[Names] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
"""Python's exceptions by their names."""
# Builtins with a meaning here. The others exist, and give unknown results: they reach outside, or no kernel needs them.
MODELLED: Final[Names] = EXCEPTIONS | {
    value.__name__: value
    for value in (
        abs, all, any, bin, bool, callable, chr, classmethod, dict, divmod, enumerate, filter, float, format, frozenset,
        getattr, hasattr, hex, int, isinstance, issubclass, iter, len, list, map, max, min, next, object, ord, pow,
        print, property, range, repr, reversed, round, set, setattr, slice, sorted, staticmethod, str, sum, super,
        tuple, type, zip,
    )
} | {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}  # fmt: skip
