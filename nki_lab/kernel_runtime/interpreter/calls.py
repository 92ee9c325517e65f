"""Calls: the user's functions are entered, NKI's are recorded, listed ones of Python's are computed, others unknown."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Final, TypeVar

from nki_lab.diagnostic import error_of
from nki_lab.kernel_runtime.interpreter.compiler import compile_function
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function, Interpreter, Launch
from nki_lab.kernel_runtime.interpreter.limits import CALL, FunctionExit, Meter, budget_reached
from nki_lab.kernel_runtime.interpreter.namespaces import special
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    BoundMethod,
    Instance,
    Names,
    NativeMethod,
    Partial,
    Special,
    Unknown,
    Value,
)
from nki_lab.kernel_runtime.issue import call_errors
from nki_lab.kernel_runtime.issue.launching import grid_in_kernel
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.source.trees import parameters

_F = TypeVar("_F", bound=Callable[..., Value])


@dataclass(slots=True, eq=False, repr=False)
class CallSite:
    """The place of a call: its node and the frame that it is evaluated in."""

    frame: Frame
    node: ast.AST

    @property
    def interpreter(self) -> Interpreter:
        return self.frame.interpreter

    @property
    def meter(self) -> Meter:
        return self.frame.meter

    def call(self, callee: Value, *args: Value) -> Value:
        """Return the result of calling `callee` from here."""
        return call(self.frame, self.node, callee, list(args), {})

    def fault(self, error: Exception) -> Unknown:
        """Report an exception of the user's here."""
        return self.frame.fault(error, self.node)


Run = Callable[[CallSite, list[Value], Names], Value]
Caller = Callable[[CallSite, Value, list[Value], Names], Value]

CALLERS: Final[dict[type, Caller]] = {}
"""How objects of the interpreter's own classes are called."""


def caller(kind: type) -> Callable[[Caller], Caller]:
    """Enter the function that calls objects of class `kind`."""

    def enter(run: Caller) -> Caller:
        CALLERS[kind] = run
        return run

    return enter


@dataclass(frozen=True, slots=True)
class Native:
    """A function that is computed. Unknown arguments, in containers too where `deep`, make the result unknown.

    With `reads`, so do containers whose contents are in doubt; without `own`, so do objects of the user's classes.
    """

    run: Run
    deep: bool = False
    shallow: bool = True
    reads: bool = True
    own: bool = False


NATIVES: Final[dict[int, Native]] = {}
"""By id of the function or class; all of them live as long as the process."""


def native(
    *functions: Value,
    each: bool = False,
    deep: bool = False,
    shallow: bool = True,
    reads: bool = True,
    own: bool = False,
) -> Callable[[_F], _F]:
    """Enter the implementation `run(site, *arguments)` of `functions`: an allow-list, each with a bound on its cost.

    With `each`, the implementation takes the function before the site.
    """

    def enter(run: _F) -> _F:
        for function in functions:
            implementation = adapted(partial(run, function) if each else run, function)
            NATIVES[id(function)] = Native(implementation, deep, shallow, reads, own)
        return run

    return enter


def library_function(*names: str) -> Callable[[_F], _F]:
    """Enter the implementation `run(site, *arguments)` of functions that `namespaces` shows under these full names."""

    def enter(run: _F) -> _F:
        for name in names:
            special(name).run = adapted(run)
        return run

    return enter


def adapted(function: Callable[..., Value], original: Value = None) -> Run:
    """Return `function(site, *arguments)` as a function of argument lists.

    Arguments that it has no parameters for make the result unknown; where `original` refuses them, it says so.
    """
    signature = inspect.signature(function)
    _, *parameters = signature.parameters.values()
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    least = sum(item.default is item.empty for item in positional)
    most = math.inf if any(item.kind is item.VAR_POSITIONAL for item in parameters) else len(positional)

    def run(site: CallSite, args: list[Value], kwargs: Names) -> Value:
        if kwargs:
            try:
                signature.bind(site, *args, **kwargs)
            except TypeError:
                return _misfit(original, args, kwargs)
        elif not least <= len(args) <= most:
            return _misfit(original, args, kwargs)
        return function(site, *args, **kwargs)

    return run


@cache
def _signature(function: Value) -> inspect.Signature | None:
    """Return the signature of a listed function; None where Python knows none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _misfit(original: Value, args: list[Value], kwargs: Names) -> Value:
    """Raise Python's own TypeError for arguments that `original` has no parameters for; UNKNOWN for others."""
    signature = _signature(original)
    if signature is None:
        return UNKNOWN
    placeholders, names = [None] * len(args), dict.fromkeys(kwargs)
    try:
        signature.bind(*placeholders, **names)
    except TypeError:
        original(*placeholders, **names)
    return UNKNOWN


def call(frame: Frame, node: ast.AST, callee: Value, args: list[Value], kwargs: Names) -> Value:
    """Return the result of calling `callee`; it is unknown after a fault, which is reported at `node`."""
    kind = type(callee)
    if kind is Function:
        return call_function(frame, node, callee, args, kwargs)
    if kind in CALLERS:
        return CALLERS[kind](CallSite(frame, node), callee, args, kwargs)
    known = NATIVES.get(id(callee))
    if known is not None:
        return call_native(frame, node, known, args, kwargs)
    interpreter = frame.interpreter
    if id(callee) in interpreter.imports.functions:
        return call_nki(frame, node, callee, args, kwargs)
    if callee is UNKNOWN or callable(callee):
        values = [*args, *kwargs.values()]
        if any(type(value) is NkiTensor for value in values):
            interpreter.miss_operation(node, frame)
        if interpreter.on_handing is not None:
            interpreter.on_handing(args, kwargs, node, frame, False)
        return interpreter.doubt(values)
    return frame.fault(TypeError(f"{type(callee).__name__!r} object is not callable"), node)


def call_native(frame: Frame, node: ast.AST, known: Native, args: list[Value], kwargs: Names) -> Value:
    """Call a builtin, or a listed function of a library."""
    values = [*args, *kwargs.values()]
    doubtful = frame.interpreter.doubtful if known.reads else None
    for value in values:
        if value is UNKNOWN:
            if known.shallow:
                if args and args[0] is UNKNOWN:  # it may call that with the others
                    frame.interpreter.doubt(values, contents=False)
                return UNKNOWN
        elif (doubtful and id(value) in doubtful) or (not known.own and type(value) in CALLERS):
            return UNKNOWN
    if known.deep and frame.interpreter.holds_unknown(*values):
        return UNKNOWN
    return frame.attempt(node, known.run, CallSite(frame, node), args, kwargs)


def call_nki(frame: Frame, node: ast.AST, function: Callable[..., Value], args: list[Value], kwargs: Names) -> Value:
    """Call a function of this package; the instructions that it records stand at `node`."""
    interpreter = frame.interpreter
    values = [*args, *kwargs.values()]
    known = interpreter.imports.functions
    plain = all(type(value) in _PLAIN or id(value) in known for value in values)
    if not plain:
        if interpreter.holds_unknown(*values) or any(interpreter.is_doubtful(value) for value in values):
            interpreter.miss_operation(node, frame)
            if any(value is UNKNOWN for value in _written(function, args, kwargs)):
                interpreter.doubt_buffers()
            return interpreter.doubt(values, contents=False)
        if any(type(value) in _CODE for value in values):
            args = [_callback(frame, node, value) for value in args]
            kwargs = {name: _callback(frame, node, value) for name, value in kwargs.items()}
    frame.meter.node = node
    interpreter.pin(node, frame)
    interpreter.note_operation(node, frame)
    refused = interpreter.refused.get(node) if interpreter.assumptions is not None else None
    if refused and _outline(values) in refused:
        interpreter.effects += 1
        return interpreter.doubt(values, contents=False)
    try:
        if not plain:
            for value in values:
                frame.meter.walked(value)
        return frame.located(function(*args, **kwargs), node)
    except Exception as error:  # noqa: BLE001 - reported at the call
        interpreter.doubt(values, contents=False)
        if interpreter.assumptions is not None and (outline := _outline(values)) is not None:
            interpreter.refused.setdefault(node, set()).add(outline)
        misused = call_errors.of_call(error, function)
        return frame.fault(error if misused is None else error_of(misused), node)


def _outline(values: list[Value]) -> tuple[Hashable, ...] | None:
    """Return what most faults of a call depend on, its places in memory not among it; None for other arguments.

    A loop over assumed sizes finds a fault of a call in each iteration: the first one tells it.
    """
    parts: list[Hashable] = []
    for value in values:
        kind = type(value)
        if kind is NkiTensor:
            parts.append((value._shape, value._strides, value._dtype, value._buffer.space))
        elif kind in _PLAIN or isinstance(value, Enum):
            parts.append((kind, value))
        elif not callable(value):
            return None
    return tuple(parts)


def _written(function: Callable[..., Value], args: list[Value], kwargs: Names) -> Iterator[Value]:
    """Yield the arguments that a function of this package writes."""
    for number, name in _outputs(function):
        yield args[number] if number < len(args) else kwargs.get(name)


def _outputs(function: Callable[..., Value]) -> tuple[tuple[int, str], ...]:
    """Return the parameters that a function writes, with their places: outputs of its instruction, or of a store."""
    if isinstance(function, MethodType):  # remembered, it would keep its tensor, and with that the whole program
        return tuple((number - 1, name) for number, name in _declared_outputs(function.__func__))
    return _declared_outputs(function)


@cache
def _declared_outputs(function: Callable[..., Value]) -> tuple[tuple[int, str], ...]:
    instruction = getattr(function, "nki_instruction", None)
    operands = {"dst"}
    if instruction is not None:
        operands = {name for name, operand in instruction.operands.items() if operand.role == "out"}
    return tuple(
        (number, name) for number, name in enumerate(inspect.signature(function).parameters) if name in operands
    )


def _callback(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return a function of the user's as one that a function of NKI's can call."""
    interpreter = frame.interpreter
    if type(value) not in _CODE or id(value) in interpreter.imports.functions:
        return value

    def callback(*args: Value, **kwargs: Value) -> Value:
        result = call(frame, node, value, list(args), kwargs)
        interpreter.pin(node, frame)
        callback.lost = result is UNKNOWN  # type: ignore[attr-defined]
        return None if result is UNKNOWN else result

    function = value.function if isinstance(value, BoundMethod | Launch) else value
    if isinstance(function, Function):
        callback.__name__ = function.name
        names = function.positional[1 if isinstance(value, BoundMethod) else 0 :]
        callback.parameter = names[0] if names else ""  # type: ignore[attr-defined]
    else:
        callback.__name__ = str(getattr(value, "__name__", ""))
    return callback


def call_function(frame: Frame, node: ast.AST, function: Function, args: list[Value], kwargs: Names) -> Value:
    """Enter a function of the user's."""
    interpreter = frame.interpreter
    if function.entry and interpreter.launches(frame):
        return interpreter.launch(Launch(function), args, kwargs, node, frame)
    if function.closure.module is interpreter.main:
        interpreter.called.add(function.qualname)
    if interpreter.on_handing is not None:
        interpreter.on_handing(args, kwargs, node, frame, True)
    if function.scope.generator or isinstance(function.node, ast.AsyncFunctionDef):
        return _not_entered(interpreter, args, kwargs)
    try:
        names = bind(function, args, kwargs)
    except TypeError as error:
        return frame.fault(error, node)
    if interpreter.depth >= frame.meter.budget.calls:
        if not frame.doubtful:
            text = f"calls are followed {frame.meter.budget.calls} deep"
            interpreter.record(budget_reached(text), node, frame)
        return _not_entered(interpreter, args, kwargs)
    memory = interpreter.memory
    recording = None if memory is None else memory.begin(function, names.values())
    if memory is not None and recording is not None:
        known = memory.recall(recording)
        if known is not MISSING:
            return known
    frame.meter.spend(CALL)
    inner = Frame(interpreter, function.closure, function, names)
    interpreter.depth += 1
    interpreter.call_stack.append((node, frame))
    if memory is not None and memory.deepest < interpreter.depth:
        memory.deepest = interpreter.depth
    returned = False
    try:
        run_body(inner, function)
        returned = True
    except FunctionExit:
        return _not_entered(interpreter, args, kwargs)
    finally:
        interpreter.depth -= 1
        interpreter.call_stack.pop()
        if memory is not None and recording is not None and not returned:
            memory.give_up(recording)
    result = UNKNOWN if inner.doubtful else inner.result
    if memory is not None and recording is not None:
        memory.end(recording, result)
    return result


def _not_entered(interpreter: Interpreter, args: list[Value], kwargs: Names) -> Value:
    """Return UNKNOWN for a call that was not evaluated to its end, which more than its arguments may have decided."""
    interpreter.effects += 1
    return interpreter.doubt([*args, *kwargs.values()])


def run_body(frame: Frame, function: Function) -> None:
    """Evaluate a function's body; it is compiled when the function is first entered."""
    body, interpreter = function.body, frame.interpreter
    is_ours = frame.module is interpreter.main
    if body is None or function.entered_in is not interpreter:
        body = function.body = compile_function(function)
        function.entered_in = interpreter
        if is_ours:
            interpreter.entered.add(function.qualname)
            interpreter.called.add(function.qualname)
            interpreter.lacks_lines |= frame.module.source.lacks_lines_of(function.node)
    if is_ours:
        _note_arguments(frame, function)
    body(frame)


def _note_arguments(frame: Frame, function: Function) -> None:
    """Keep what parameters stand for, for a hover."""
    interpreter = frame.interpreter
    for arg in parameters(function.node.args):
        place, value = (arg.lineno, arg.col_offset), frame.locals.get(arg.arg, UNKNOWN)
        _, first = interpreter.types.setdefault(place, (arg.arg, value))
        if first is not value and isinstance(value, NkiTensor):
            interpreter.note_other(place, first, value)


def bind(function: Function, args: list[Value], kwargs: Names) -> Names:
    """Return the names of a call's frame; TypeError, in Python's words, where the arguments do not fit."""
    arguments, positional = function.node.args, function.positional
    if len(args) == len(positional) and not kwargs and not arguments.vararg and not arguments.kwonlyargs:
        names = dict(zip(positional, args, strict=True))
        if arguments.kwarg is not None:
            names[arguments.kwarg.arg] = {}
        return names
    named = [arg.arg for arg in arguments.kwonlyargs]
    rest, more = args[len(positional) :], dict(kwargs)
    if arguments.vararg is not None:
        args = args[: len(positional)]
    if arguments.kwarg is not None:
        own = {*positional[len(arguments.posonlyargs) :], *named}
        kwargs = {name: more.pop(name) for name in kwargs if name in own}
    names = bind_names(
        f"{function.qualname}()", positional, named, args, kwargs, function.defaults, len(arguments.posonlyargs)
    )
    if arguments.vararg is not None:
        names[arguments.vararg.arg] = tuple(rest)
    if arguments.kwarg is not None:
        names[arguments.kwarg.arg] = more
    return function.defaults | names


def bind_names(
    called: str,
    positional: list[str],
    named: list[str],
    args: list[Value],
    kwargs: Names,
    optional: Container[str],
    positional_only: int = 0,
) -> Names:
    """Return arguments by the names of their parameters; TypeError, in Python's words, where they do not fit."""
    if len(args) > len(positional):
        plural, verb = "s" * (len(positional) != 1), "was" if len(args) == 1 else "were"
        raise TypeError(f"{called} takes {len(positional)} positional argument{plural} but {len(args)} {verb} given")
    names, keywords = dict(zip(positional, args, strict=False)), (*positional[positional_only:], *named)
    for name in kwargs:
        if name not in keywords:
            raise TypeError(f"{called} got an unexpected keyword argument {name!r}")
        if name in names:
            raise TypeError(f"{called} got multiple values for argument {name!r}")
    names |= kwargs
    for group, kind in ((positional, "positional"), (named, "keyword-only")):
        missing = [name for name in group if name not in names and name not in optional]
        if missing:
            missing = list(map(repr, missing))
            last = f"{',' * (len(missing) > 2)} and {missing[-1]}" if len(missing) > 1 else missing[0]
            text = ", ".join(missing[:-1]) + last
            raise TypeError(
                f"{called} missing {len(missing)} required {kind} argument{'s' * (len(missing) > 1)}: {text}"
            )
    return names


@caller(Special)
def _special(site: CallSite, callee: Special, args: list[Value], kwargs: Names) -> Value:
    return site.frame.attempt(site.node, callee.run, site, args, kwargs)


@caller(BoundMethod)
def _bound(site: CallSite, callee: BoundMethod, args: list[Value], kwargs: Names) -> Value:
    return call(site.frame, site.node, callee.function, [callee.instance, *args], kwargs)


@caller(Partial)
def _partial(site: CallSite, callee: Partial, args: list[Value], kwargs: Names) -> Value:
    return call(site.frame, site.node, callee.function, [*callee.args, *args], {**callee.kwargs, **kwargs})


@caller(Launch)
def _launch(site: CallSite, callee: Launch, args: list[Value], kwargs: Names) -> Value:
    frame, interpreter = site.frame, site.interpreter
    if interpreter.launches(frame):
        return interpreter.launch(callee, args, kwargs, site.node, frame)
    if callee.grid:
        return site.fault(error_of(grid_in_kernel(callee.function.name, callee.grid)))
    return call_function(frame, site.node, callee.function, args, kwargs)


@caller(Instance)
def _instance(site: CallSite, callee: Instance, args: list[Value], kwargs: Names) -> Value:
    method = callee.cls.find("__call__")
    if method is MISSING:
        if callee.cls.inherits("unknown"):
            if site.interpreter.on_handing is not None:
                site.interpreter.on_handing(args, kwargs, site.node, site.frame, False)
            return site.interpreter.doubt([callee, *args, *kwargs.values()])
        return site.fault(TypeError(f"{callee.cls.name!r} object is not callable"))
    return call(site.frame, site.node, method, [callee, *args], kwargs)


_PLAIN: Final = frozenset((NkiTensor, int, float, bool, str, type(None)))  # known as a whole, and nobody's container
_CODE: Final = frozenset(
    {Function, BoundMethod, Partial, NativeMethod, Launch, Special, BuiltinFunctionType, FunctionType}
)
