"""What callers ask of a kernel: to be run on arrays, specialised for shapes, or timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.collector import seldom_collected
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.language.scheduling import Pair
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.path import TripCounts
from nki_lab.session.call import Call
from nki_lab.session.outcome import Execution, OnError
from nki_lab.source.kernel_code import Dialect


@seldom_collected()
def execute(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    target: str | Arch,
    options: Options | None = None,
    grid: tuple[int, ...] = (),
    dialect: Dialect = "current",
    on_error: OnError = "raise",
    notes: Iterable[Diagnostic] = (),
    timed: bool = False,
    schedule: tuple[Pair, ...] = (),
) -> Execution:
    """Run a kernel on arrays; with `timed` also work out its addresses and times, in the order that `schedule` asks.

    A fault is raised, or with `on_error="report"` given in `error`; what the device compiler would reject is in the
    diagnostics, and refused where `options.strict`. Arrays that the kernel writes are changed in place. `notes` are
    findings about the launch itself.
    """
    call = Call(function, target, options or Options(), grid, dialect, tuple(notes), schedule)
    call.timed = timed
    try:
        call.run(args, kwargs)
    except NkiError as error:
        if on_error == "raise":
            raise
        call.time_what_there_is()
        return call.result(error)
    except KeyboardInterrupt:
        if on_error == "raise":
            raise
        return call.result(call.interrupted())
    finally:
        call.close()
    return call.result(None)


@seldom_collected()
def specialise(
    function: Callable[..., Any],
    specs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | Arch,
    options: Options | None = None,
    grid: tuple[int, ...] = (),
    dialect: Dialect = "current",
    schedule: tuple[Pair, ...] = (),
    trip_counts: TripCounts | None = None,
) -> tuple[Program, tuple[Diagnostic, ...]]:
    """The program of a kernel for arguments without values (`TensorSpec`, or arrays of which only the shape counts).

    Looking at values in the kernel is NKI017. `trip_counts` are the passes of device loops that depend on data, by line
    or name; without them NKI801 says that they are unknown. Gives the program and what was found.
    """
    call = Call(function, target, options or Options(), grid, dialect, (), schedule)
    call.trip_counts = trip_counts or {}
    try:
        call.specialise(specs, kwargs or {}, values=False)
        call.find_path()
        call.check()
    finally:
        call.close()
    return call.program, call.diagnostics()


@seldom_collected()
def profile(
    function: Callable[..., Any],
    specs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | Arch,
    options: Options | None = None,
    grid: tuple[int, ...] = (),
    dialect: Dialect = "current",
    notes: Iterable[Diagnostic] = (),
    schedule: tuple[Pair, ...] = (),
    trip_counts: TripCounts | None = None,
) -> Execution:
    """Addresses and times of a kernel for arguments without values, as for `specialise`; there are no outputs.

    There are no times either where the passes of a device loop depend on data and `trip_counts` does not give them.
    """
    call = Call(function, target, options or Options(), grid, dialect, tuple(notes), schedule)
    call.trip_counts = trip_counts or {}
    try:
        call.specialise(specs, kwargs or {}, values=False)
        call.time(needed=True)
        call.check()
    finally:
        call.close()
    return call.result(None)
