"""Registers and device loops: what runs as a loop on the chip is recorded once, as a region of the program.

`nl.fori_loop` and `nl.while_loop` take the body as a function; `for i in nl.dynamic_range(...)` and `while register:`
are statements, which the tracer runs through once. What the body does with Python happens once, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Final, Literal

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose, error_of
from nki_lab.isa.spec import Register
from nki_lab.kernel_runtime.ir import Region, Site
from nki_lab.kernel_runtime.issue.builder import Builder, OpenLoop
from nki_lab.kernel_runtime.issue.context import current
from nki_lab.kernel_runtime.issue.iterations import variable_at, way_out, while_at
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.issue.source_location import is_ours, placed, site_at, user_frame
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister
from nki_lab.kernel_runtime.tensor.buffer import integer_of
from nki_lab.source.trees import extent

DEPRECATED: Final[Mapping[str, str]] = {"dynamic_range": "nl.fori_loop(start, stop, body, step)"}
"""Names of `nki.language` that NKI 0.6 deprecates, with what to write instead."""


def register_alloc(x: Any = None) -> VirtualRegister:
    """A new register, with the integer `x` in it where that is given.

    A tensor of one element, which published kernels pass as well, is loaded.
    """
    builder = current("nisa.register_alloc")
    register = builder.register()
    if isinstance(x, NkiTensor):
        builder.advise(
            "NKI606",
            "register_alloc: x is a tensor, which is loaded",
            operand="x",
            limit="x is an integer constant, or left out",
            remedy="write nisa.register_load(register, tensor)",
        )
        instruction_function("register_load")(register, x)
    elif x is not None:
        instruction_function("register_move")(register, x)
    return register


register_alloc.__module__ = "nki.isa"


# -- loops whose body is a function ------------------------------------------------------------------------------------


def fori_loop(lower: Any, upper: Any, body_fun: Any, step: Any = 1) -> None:
    """A loop on the device: `body_fun(i)` for i from `lower` to before `upper` in steps of `step`.

    Bounds are integers or registers, the step is a positive integer. `i` is a register, for use as `scalar_offset`,
    index of `select` or start of `nl.ds`; writing to it changes nothing for the loop. The body returns nothing and is
    recorded once.
    """
    builder = current("nl.fori_loop")
    _require_body(body_fun, "nl.fori_loop")
    site = builder.site()
    bounds = _bounds("nl.fori_loop", builder, lower, upper, step)
    register = builder.register(_parameter(body_fun))
    region = _open(builder, "for", site, register, *bounds, name=getattr(body_fun, "__name__", ""), what="nl.fori_loop")
    try:
        result = body_fun(register)
        if result is not None:
            raise _refused(
                "NKI115",
                f"the body of nl.fori_loop returns {_described(result)}",
                "it returns nothing",
                "write results into a tensor from before the loop",
            )
        _close(builder, region)
    finally:
        abandon(builder, region)


def _require_body(body_fun: Any, what: str) -> None:
    if not callable(body_fun):
        raise _refused(
            "NKI115",
            f"{what}: body_fun is {_described(body_fun)}",
            "body_fun is a function of one register",
            f"define the body as a function and pass that: {what}(..., body)",
        )


def while_loop(init: Any, body_fun: Any) -> None:
    """A loop on the device: as long as the register is not 0, `register = body_fun(register)`, first with `init`.

    The body gets the register, and returns the one that decides about the next iteration; it is recorded once.
    """
    builder = current("nl.while_loop")
    _require_body(body_fun, "nl.while_loop")
    site = builder.site()
    if not isinstance(init, VirtualRegister):
        raise _refused(
            "NKI116",
            f"nl.while_loop: init is {_described(init)}",
            "init is a register",
            "nisa.register_alloc(1) gives a register that holds 1",
        )
    builder.require_own(init)
    register = builder.register(_parameter(body_fun))
    first = Register(init.id)
    region = _open(
        builder, "while", site, register, first, first, 1, name=getattr(body_fun, "__name__", ""), what="nl.while_loop"
    )
    try:
        result = body_fun(register)
        if getattr(body_fun, "lost", False):  # the evaluator does not know what the body returns
            result = register
        if not isinstance(result, VirtualRegister):
            raise _refused(
                "NKI115",
                f"the body of nl.while_loop returns {_described(result)}",
                "it returns one register",
                "return the register that decides whether another iteration follows",
            )
        builder.require_own(result)
        region.upper = Register(result.id)
        _close(builder, region)
    finally:
        abandon(builder, region)


# -- loops that are statements -----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class DynamicRange:
    """The value of `nl.dynamic_range`: a `for` over it makes one iteration, in which the body is recorded."""

    _builder: Builder
    _bounds: Bounds
    _site: int
    variable: str | None = None  # set by who knows; otherwise the bytecode is asked

    def __iter__(self) -> Iterator[VirtualRegister]:
        frame = sys._getframe(1)
        own = self.variable if self.variable is not None else "" if is_ours(frame) else variable_at(frame)
        register, region = self.open(own)
        yield register
        self.close(region)

    def open(self, variable: str) -> tuple[VirtualRegister, Region]:
        """Begin the loop; its variable, and the region that `close` ends."""
        builder = self._builder
        register = builder.register(variable, frozen=True)
        return register, _open(builder, "for", self._site, register, *self._bounds, what="nl.dynamic_range")

    def close(self, region: Region) -> None:
        _close(self._builder, region)


def dynamic_range(start: Any, stop: Any = None, step: Any = 1) -> DynamicRange:
    """A loop on the device, as `for i in nl.dynamic_range(...)`: from `start` (or 0) to before `stop` by `step`.

    Bounds are integers or registers, the step is a positive integer; `i` is a register that is not written. The body is
    recorded once. NKI 0.6 prefers `nl.fori_loop`.
    """
    builder = current("nl.dynamic_range")
    site = builder.site()
    lower, upper = (0, start) if stop is None else (start, stop)
    bounds = _bounds("nl.dynamic_range", builder, lower, upper, step)
    _deprecated(builder, site, "nl.dynamic_range", DEPRECATED["dynamic_range"])
    return DynamicRange(builder, bounds, site)


def while_continues(builder: Builder, register: VirtualRegister) -> bool | None:
    """Return whether the innermost `while register:` makes an iteration: one, in which the body is recorded.

    None where the register is tested by anything else, or where there is no source text to tell.
    """
    frame = user_frame()
    if frame is None:
        return None
    place = site_at(frame.f_code, frame.f_lasti)
    node = while_at(place.file, place.line, place.column, place.end_line, place.end_column)
    if node is None:
        return None
    key = (id(frame), node.lineno, node.col_offset)
    if builder.loops and builder.loops[-1].key == key:
        close_while(builder, builder.loops[-1].region, register)
        return False
    way = way_out(node)
    if way is not None:
        end = Site(place.file, *extent(way), place.function)
        raise error_of(placed(left_early("a `break` or `return`"), end))
    site = builder.site_of(Site(place.file, *extent(node.test), place.function))
    variable = getattr(node.test, "id", "") or getattr(node.test, "attr", "")  # the condition, where it is a name
    open_while(builder, register, site, variable, key)
    return True


def open_while(builder: Builder, register: VirtualRegister, site: int, variable: str, key: Any = ()) -> Region:
    """Begin the loop of `while register:`."""
    builder.require_own(register)
    _deprecated(builder, site, "while on a register", "nl.while_loop(register, body)")
    here = Register(register.id)
    return _open(builder, "while", site, register, here, here, 1, variable=variable, key=key, what="while")


def close_while(builder: Builder, region: Region, register: VirtualRegister) -> None:
    """End the loop of `while register:`, which has been asked again."""
    builder.require_own(register)
    region.upper = Register(register.id)
    _close(builder, region)


# -- regions -----------------------------------------------------------------------------------------------------------


def _open(
    builder: Builder,
    kind: Literal["for", "while"],
    site: int,
    register: VirtualRegister,
    lower: Register | int,
    upper: Register | int,
    step: int,
    *,
    what: str,
    variable: str | None = None,
    name: str = "",
    key: Any = (),
) -> Region:
    """Begin a region with the next op."""
    builder.sync()
    program = builder.program
    if builder.fenced:
        item = diagnose(
            "NKI117",
            f"{what} stands inside nl.no_reorder()",
            limit="a fixed order holds plain instructions, no device loops",
            help="put `with nl.no_reorder():` into the body",
        )
        raise error_of(placed(item, program.sites[site]))
    within = builder.place()[1]
    region = Region(
        len(program.regions),
        kind,
        builder.loops[-1].region.id if builder.loops else -1,
        len(program),
        site,
        register=register.id,
        lower=lower,
        upper=upper,
        step=step,
        variable=register.name if variable is None else variable,
        name=name,
        within=within,
        buffers=(len(program.buffers),) * 2,
    )
    program.regions.append(region)
    builder.loops.append(OpenLoop(region, builder.iterations.enter(), key))
    return region


def _close(builder: Builder, region: Region) -> None:
    """End a region before the next op; NKI115 where a loop inside it is still open."""
    builder.sync()
    if builder.loops and builder.loops[-1].region is not region:
        finish(builder)
    end_loop(builder)


def end_loop(builder: Builder) -> None:
    """End the innermost region, wherever it is."""
    program = builder.program
    region, token, _ = builder.loops.pop()
    region.end = len(program)
    region.buffers = (region.buffers[0], len(program.buffers))
    builder.iterations.leave(token)


def abandon(builder: Builder, region: Region) -> None:
    """End a region that may be open still, and all inside it: something has gone wrong in its body."""
    while any(item.region is region for item in builder.loops):
        end_loop(builder)


def finish(builder: Builder) -> None:
    """Refuse a device loop that is still open when what holds it is over: NKI115."""
    if not builder.loops:
        return
    region = builder.loops[-1].region
    while builder.loops:
        end_loop(builder)
    raise error_of(placed(left_early("a `break` or `return`"), builder.program.sites[region.site]))


def left_early(how: str) -> Diagnostic:
    """The NKI115 finding of a loop that `how` leaves."""
    return diagnose(
        "NKI115",
        f"the body of a device loop is left by {how}",
        limit="a device loop ends by its bounds, or by its register",
        help="decide before the loop, or end it with `while register:` and a register that becomes 0",
    )


# -- arguments ---------------------------------------------------------------------------------------------------------


Bounds = tuple[Register | int, Register | int, int]
"""Lower bound, upper bound and step."""


_WIDTH: Final = range(-(1 << 31), 1 << 31)


def _bounds(what: str, builder: Builder, lower: Any, upper: Any, step: Any) -> Bounds:
    parts: list[Register | int] = []
    for name, bound in (("the lower bound", lower), ("the upper bound", upper)):
        if isinstance(bound, VirtualRegister):
            builder.require_own(bound)
            parts.append(Register(bound.id))
            continue
        value = None if isinstance(bound, bool | NkiTensor) else integer_of(bound)
        if value is None:
            remedy = "load a tensor's value: nisa.register_load(nisa.register_alloc(), tensor)"
            raise _refused(
                "NKI116",
                f"{what}: {name} is {_described(bound)}",
                "bounds are integers or registers",
                remedy if isinstance(bound, NkiTensor) else "",
            )
        if value not in _WIDTH:
            raise _refused(
                "NKI116",
                f"{what}: {name} is {_described(bound)}",
                "a loop counts in a register of 32 bits: bounds from -2**31 to 2**31 - 1",
                "split the range into several loops",
            )
        parts.append(value)
    size = None if isinstance(step, bool | NkiTensor | VirtualRegister) else integer_of(step)
    if size is None or size < 1 or size not in _WIDTH:
        raise _refused(
            "NKI116",
            f"{what}: step is {_described(step)}",
            "step is a positive integer of 32 bits known at compile time",
            "count up from the lower bound, by a constant",
        )
    return parts[0], parts[1], size


def _refused(code: str, message: str, limit: str, remedy: str) -> NkiError:
    return coded_error(code, message, limit=limit, help=remedy)


def _deprecated(builder: Builder, site: int, name: str, instead: str) -> None:
    builder.note(
        diagnose("NKI601", f"{name} is deprecated since NKI 0.6", limit="it still works", help=f"write {instead}"), site
    )


def _described(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, NkiTensor):
        return "a tensor"
    return repr(value) if isinstance(value, int | float | str | VirtualRegister) else f"a {type(value).__name__}"


def _parameter(body: Any) -> str:
    """Return the name of the first parameter of a loop's body."""
    own = getattr(body, "parameter", None)
    if isinstance(own, str):
        return own
    skipped = 1 if isinstance(body, MethodType) else 0
    function: Callable[..., Any] = body.__func__ if isinstance(body, MethodType) else body
    if not isinstance(function, FunctionType) or function.__code__.co_argcount <= skipped:
        return ""
    return function.__code__.co_varnames[skipped]
