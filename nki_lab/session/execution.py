"""What callers ask of a kernel: to be run on arrays, specialised for shapes, or timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.path import TripCounts
from nki_lab.session.call import Call
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import Execution, OnError


@gc_relaxed()
def execute(
    launch: Launch, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, on_error: OnError = "raise",
    timed: bool = False,
) -> Execution:  # fmt: skip
    """Run a kernel on arrays; with `timed` also work out its addresses and times.

    A fault is raised, or with `on_error="report"` given in `error`; what the device compiler would reject is in the
    diagnostics, and refused where `options.strict`. Arrays that the kernel writes are changed in place.
    """
    call = Call(launch)
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


@gc_relaxed()
def specialise(
    launch: Launch,
    specs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    trip_counts: TripCounts | None = None,
) -> tuple[Program, tuple[Diagnostic, ...]]:
    """The program of a kernel for arguments without values (`TensorSpec`, or arrays of which only the shape counts).

    Looking at values in the kernel is NKI017. `trip_counts` are the passes of device loops that depend on data, by line
    or name; without them NKI801 says that they are unknown. Gives the program and what was found.
    """
    call = Call(launch)
    call.trip_counts = trip_counts or {}
    try:
        call.specialise(specs, kwargs or {}, values=False)
        call.find_path()
        call.check()
    finally:
        call.close()
    return call.program, call.diagnostics()


@gc_relaxed()
def profile(
    launch: Launch,
    specs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    trip_counts: TripCounts | None = None,
) -> Execution:
    """Addresses and times of a kernel for arguments without values, as for `specialise`; there are no outputs.

    There are no times either where the passes of a device loop depend on data and `trip_counts` does not give them.
    """
    call = Call(launch)
    call.trip_counts = trip_counts or {}
    try:
        call.specialise(specs, kwargs or {}, values=False)
        call.time(needed=True)
        call.check()
    finally:
        call.close()
    return call.result(None)
