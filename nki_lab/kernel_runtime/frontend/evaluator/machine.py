"""The state of one evaluation: what it knows, what it found, and how it goes on after a fault."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, Related, Span, diagnose
from nki_lab.isa.spec import Instruction
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.frontend.evaluator.library import Library
from nki_lab.kernel_runtime.frontend.evaluator.limits import Budget, Meter, OverBudget, TooLarge
from nki_lab.kernel_runtime.frontend.evaluator.modules import Home, Shelf
from nki_lab.kernel_runtime.frontend.evaluator.namespaces import Imports
from nki_lab.kernel_runtime.frontend.evaluator.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    Frame,
    Function,
    Instance,
    Launch,
    Partial,
    Unknown,
    UserClass,
    has_unknown,
)
from nki_lab.kernel_runtime.ir import Pass, Program, Site
from nki_lab.kernel_runtime.issue.builder import Builder, NkiInstruction
from nki_lab.kernel_runtime.issue.source_location import placed
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.kernel_runtime.tensor import Buffer, DynamicSlice, NkiTensor
from nki_lab.kernel_runtime.tensor.buffer import InvalidBuffer
from nki_lab.source.module import ModuleSource
from nki_lab.source.positions import place_of

BUILTINS = frozenset(dir(builtins))


class Left(BaseException):
    """A function of the user's was left by a failing assert or a raise that has been reported."""


class Thrown(BaseException):
    """A fault inside a `try` with handlers, on its way to them."""

    def __init__(self, error: Exception, found: tuple[Diagnostic, ...]) -> None:
        super().__init__(error)
        self.error = error
        self.found = found


class Metered(Builder):
    """The tracer's builder with the evaluation's meter: instructions cost steps, and notes go to its findings."""

    machine: Machine

    def issue(self, instruction: Instruction, live: tuple[Any, ...], fixed: tuple[Any, ...], name: str | None = None,
              ) -> NkiInstruction:  # fmt: skip
        self.machine.meter.spend(1)
        return super().issue(instruction, live, fixed, name)

    def allocate(self, shape: Any, dtype: Any, space: Any, *, name: str = "", address: Any = None,
                 kind: str = "temp") -> NkiTensor:  # fmt: skip
        self.machine.meter.spend(1)
        return super().allocate(shape, dtype, space, name=name, address=address, kind=kind)

    def note(self, diagnostic: Diagnostic, site: int) -> None:
        super().note(diagnostic, site)
        self.machine.findings.extend(self.notes)
        self.notes.clear()

    def read(self, tensor: NkiTensor) -> np.ndarray[Any, Any]:
        raise Unobservable


def metered_builder(program: Program, machine: Machine, base: type[Builder] = KernelBuilder) -> Metered:
    """A builder of the dialect's class `base` that records into `program` for `machine`."""
    builder: Metered = type(f"Metered{base.__name__}", (Metered, base), {})(program)
    builder.machine = machine
    return builder


class LoopRange:
    """The values of a loop's variable, over all times that the loop was entered."""

    __slots__ = ("high", "low", "name", "step", "trips")

    def __init__(self, name: str, walked: range) -> None:
        self.name = name
        self.low, self.high = min(walked[0], walked[-1]), max(walked[0], walked[-1])
        self.step = abs(walked.step)
        self.trips = len(walked)

    def widen(self, walked: range) -> None:
        """Take in another time."""
        self.low, self.high = min(self.low, walked[0], walked[-1]), max(self.high, walked[0], walked[-1])
        self.trips = max(self.trips, len(walked))

    def __str__(self) -> str:
        steps = f" in steps of {self.step}" if self.step != 1 else ""
        return f"{self.low} to {self.high}{steps}, {self.trips} trip{'s' * (self.trips != 1)}"


class Unobservable(Exception):  # noqa: N818 - no mistake of the user's: a run has values, an evaluation has none
    """A tensor's values were asked for."""


class Machine:
    """One evaluation of a module, and of those that it imports.

    `host` evaluates what launches kernels: calls of kernels are handed to `launched` and not entered. `doubtful` holds
    containers and objects that code which was not evaluated may have changed; `tainted` the buffers that it may have
    written; `called` the functions of the module, by qualified name, whose bodies were looked at, and `entered` those
    evaluated; `missed` the operations of NKI, of all that were met, that could not be evaluated; `origins` by file and
    line what of other modules was recorded, with the call in this one that led there.
    """

    def __init__(
        self, module: ModuleSource, budget: Budget, imports: Imports, *, host: bool = False,
        library: Library | None = None,
    ) -> None:  # fmt: skip
        self.module = module
        self.meter = Meter(budget)
        self.imports = imports
        self.host = host
        self.launched: Callable[[Launch, list[Any], dict[str, Any], ast.AST, Frame], None] | None = None
        self.home = Home(self, module, "__main__" if host else module.name)
        self.globals = self.home.globals
        self.base = self.home.base
        self.shelf = Shelf(self, library)
        self.builder: Builder | None = None
        self.findings: list[Diagnostic] = []
        self.types: dict[tuple[int, int], tuple[str, Any]] = {}
        self.ranges: dict[tuple[int, int], LoopRange] = {}
        self.tensors: dict[tuple[int, int], NkiTensor] = {}
        self.doubtful: dict[int, Any] = {}
        self.tainted: set[Buffer] = set()
        self.entered: set[str] = set()
        self.called: set[str] = set()
        self.guards = 0
        self.depth = 0
        self.calls: list[tuple[ast.AST, Frame]] = []
        self.evaluated: set[tuple[str, int, int]] = set()
        self.missed: set[tuple[str, int, int]] = set()
        self._counted: set[int] = set()
        self.origins: dict[tuple[str, int], Span] = {}
        self._seen: set[Any] = set()
        self._sites: dict[int, int] = {}

    # -- findings --------------------------------------------------------------------------------------------------

    def site(self, node: ast.AST, frame: Frame) -> Site:
        """The place of an expression."""
        place = place_of(node)
        name = frame.function.qualname if frame.function is not None else "<module>"
        return Site(frame.home.file, *place, name)

    def pin(self, node: ast.AST, frame: Frame) -> None:
        """Make `node` the call site of what is recorded next."""
        builder = self.builder
        if builder is not None:
            number = self._sites.get(id(node))
            if number is None:
                site = self.site(node, frame)
                number = self._sites[id(node)] = builder.site_of(site)
                if frame.home is not self.home and (origin := self.origin()) is not None:
                    self.origins.setdefault((site.file, site.line), origin)
            builder.pinned = number

    def step(self, node: ast.For, frame: Frame, variable: str, value: int, around: int) -> None:
        """Make a new pass through a loop, inside pass `around`, the one that is recorded in from now on."""
        builder = self.builder
        if builder is not None:
            number = self._sites.get(id(node))
            if number is None:
                place = self.site(node, frame)
                head = place._replace(end_line=place.line, end_column=place.column + len("for"))
                number = self._sites[id(node)] = builder.site_of(head)
            builder.pinned_pass = len(builder.program.passes)
            builder.program.passes.append(Pass(around, variable, value, number))

    def computed(self, value: ast.expr | None) -> None:
        """Tell a Beta 1 builder whether the value it is about to be assigned was made by the statement itself."""
        builder = self.builder
        if builder is not None and hasattr(builder, "temporary"):
            builder.temporary = isinstance(value, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare)

    def record(self, item: Diagnostic, node: ast.AST | None, frame: Frame) -> None:
        """Keep a finding, once for each code and place. What an imported module does at its top level is not judged."""
        if frame.home is not self.home and frame.function is None:
            return
        if node is not None:
            item = placed(item, self.site(node, frame))
            if frame.home is not self.home and (origin := self.origin()) is not None:
                item = replace(item, related=(*item.related, Related(REACHED, origin)))
        key = (item.code, item.span or item.message)
        if key not in self._seen:
            self._seen.add(key)
            self.findings.append(item)

    def origin(self) -> Span | None:
        """The call in the evaluated module itself that led to where evaluation is."""
        for node, frame in reversed(self.calls):
            if frame.home is self.home:
                place = place_of(node)
                return Span.from_bytes(self.module.file, *place)
        return None

    def note_range(self, node: ast.Name, frame: Frame, walked: range) -> None:
        """Keep what a loop's variable walks, for a hover."""
        if frame.home is self.home and walked:
            key = (node.lineno, node.col_offset)
            known = self.ranges.get(key)
            if known is None:
                self.ranges[key] = LoopRange(node.id, walked)
            else:
                known.widen(walked)

    def note_tensor(self, node: ast.expr, frame: Frame, tensor: NkiTensor) -> None:
        """Keep what an expression stands for, by its end: `x`, `x[0]` and `x[0].T` begin at one place."""
        if frame.home is self.home:
            self.tensors.setdefault((node.end_lineno or 0, node.end_col_offset or 0), tensor)

    def count(self, node: ast.AST, frame: Frame) -> None:
        """An operation of NKI was evaluated at `node`."""
        if id(node) not in self._counted:
            self._counted.add(id(node))
            self.evaluated.add(_operation(node, frame))

    def miss(self, node: ast.AST, frame: Frame) -> None:
        """An operation at `node` could not be evaluated."""
        self.missed.add(_operation(node, frame))

    def fault(self, error: Exception, node: ast.AST, frame: Frame) -> Unknown:
        """Report what an operation of the user's raised; its result is unknown from here on."""
        match error:
            case NkiError():
                found = error.diagnostics
            case TooLarge():
                self.record(budget_reached(f"{error} is not built"), node, frame)
                return UNKNOWN
            case Unobservable():
                return UNKNOWN
            case RecursionError() | MemoryError():
                raise OverBudget("the nesting", node) from None
            case _:
                found = (kernel_raised(error),)
        if self.guards:
            raise Thrown(error, tuple(placed(item, self.site(node, frame)) for item in found))
        for item in found:
            if item.code == "NKI007" and (frame.doubtful or frame.function is None):
                continue  # may not be reached; or host code, which is not judged
            self.record(item, node, frame)
        return UNKNOWN

    def located(self, value: Any, node: ast.AST, frame: Frame) -> Any:
        """Place the fault of a view that was made at `node` outside of its tensor; its uses report it."""
        buffer = value._buffer if type(value) is NkiTensor else None
        if isinstance(buffer, InvalidBuffer):
            buffer.fault = placed(buffer.fault, self.site(node, frame))
        return value

    def undefined(self, name: str, node: ast.AST, frame: Frame, *, local: bool = False) -> Any:
        """The value of a name that nothing has bound when it is read: NKI102, unless it may have been bound unseen."""
        home = frame.home
        if frame.function is None or (not local and (home.open_stars or name in home.module.scope.names)):
            return UNKNOWN
        if local:
            text = f"cannot access local variable {name!r} where it is not associated with a value"
            error: NameError = UnboundLocalError(text)
        else:
            error = NameError(f"name {name!r} is not defined")
        near = did_you_mean(name, [*frame.locals, *home.globals])
        item = diagnose("NKI102", str(error), help=near or "check the spelling, or import the name")
        if self.guards:
            raise Thrown(error, (placed(item, self.site(node, frame)),))
        self.record(item, node, frame)
        return UNKNOWN

    def unevaluated(self, what: str, node: ast.AST, frame: Frame) -> None:
        """Say that code is not looked at because a value is unknown, unless an earlier fault explains it."""
        faults = any(item.outcome == "fault" for item in self.findings)
        if frame.function is not None and not self.host and not faults:
            limit = "the editor evaluates NKI, the language's Python and constants, and runs nothing of yours"
            self.record(diagnose("NKI122", what, limit=limit), node, frame)

    # -- names -----------------------------------------------------------------------------------------------------

    def global_value(self, name: str, node: ast.AST, frame: Frame) -> Any:
        """The value of a global or builtin name."""
        found = frame.home.globals.get(name, MISSING)
        if found is not MISSING:
            return found
        if name in BUILTINS and name not in frame.home.module.scope.names:
            return getattr(builtins, name) if name in _PLAIN_BUILTINS else UNKNOWN
        return self.undefined(name, node, frame)

    # -- what was not evaluated ------------------------------------------------------------------------------------

    def doubt(self, values: Iterable[Any], *, contents: bool = True) -> None:
        """Code that is not evaluated may have changed these: tensors count as written, containers as unknown."""
        stack = list(values)
        seen: set[int] = set()
        while stack and len(seen) < _DOUBT_LIMIT:
            value = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            match value:
                case NkiTensor():
                    self.tainted.add(value._buffer)
                case list() | dict() | set():
                    stack.extend(value.values() if isinstance(value, dict) else value)
                    if contents:
                        self.doubtful[id(value)] = value
                case tuple():
                    stack.extend(value)
                case Instance():
                    stack.extend(value.fields.values())
                    if contents:
                        self.doubtful[id(value)] = value
                case BoundMethod():
                    stack.append(value.instance)
                case Partial():
                    stack.extend((*value.args, *value.kwargs.values()))
                case Function(closure=Frame() as closure) if closure is not closure.home.base:
                    stack.extend(closure.locals.values())
                case DynamicSlice():
                    stack.append(value.start)
                case UserClass():
                    stack.extend(value.attributes.values())
                case _:
                    pass
        self.meter.spend(len(seen))

    def lacks(self, *values: Any) -> bool:
        """Whether one of `values` is unknown, or has an unknown part."""
        for value in values:
            if value is UNKNOWN:
                return True
            kind = type(value)
            if kind is list or kind is tuple or kind is dict:
                self.meter.spend(len(value) >> 4)
                if has_unknown(value):
                    return True
            elif kind is slice and has_unknown(value):
                return True
        return False

    def is_doubtful(self, value: Any) -> bool:
        """Whether the contents of a container or object are unknown."""
        return bool(self.doubtful) and id(value) in self.doubtful


def _operation(node: ast.AST, frame: Frame) -> tuple[str, int, int]:
    return frame.home.file, getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


_DOUBT_LIMIT = 10_000
REACHED = "reached from this call"
# Builtins that the evaluator has a meaning for; the others exist, and what they give is unknown.
_EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
_PLAIN_BUILTINS = _EXCEPTIONS | {
    "abs", "all", "any", "bin", "bool", "callable", "chr", "classmethod", "dict", "divmod", "Ellipsis", "enumerate",
    "filter", "float", "format", "frozenset", "getattr", "hasattr", "hex", "int", "isinstance", "issubclass", "iter",
    "len", "list", "map", "max", "min", "next", "NotImplemented", "object", "ord", "pow", "print", "property", "range",
    "repr", "reversed", "round", "set", "setattr", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple",
    "type", "zip",
}  # fmt: skip


def kernel_raised(error: Exception) -> Diagnostic:
    """The finding for what the kernel's own Python raised, in the tracer's words; a note is what helps."""
    kind = type(error).__name__
    text = f"the kernel raised {kind}: {error}" if str(error) else f"the kernel raised {kind}"
    if isinstance(error, AssertionError):
        hint = "the kernel's own assert does not hold for these arguments"
    else:
        near = next(iter(getattr(error, "__notes__", ())), "")
        hint = near or "specialisation runs the kernel as Python; the error is in its own code"
    return diagnose("NKI007", text, help=hint)


def budget_reached(message: str) -> Diagnostic:
    """The NKI120 finding."""
    return diagnose(
        "NKI120",
        message,
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check the rest",
    )
