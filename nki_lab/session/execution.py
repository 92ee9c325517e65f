"""The entry points of a session: run a kernel on arrays, specialise it for shapes, or time it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from nki_lab.diagnostic import Diagnostic, NkiError, error_of
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.garbage import gc_relaxed
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.launching import too_many
from nki_lab.kernel_runtime.path import TripCounts
from nki_lab.session import plans
from nki_lab.session.arguments import Arguments, Keywords
from nki_lab.session.call import Call
from nki_lab.session.launch import Launch
from nki_lab.session.outcome import Execution, OnError
from nki_lab.session.plans import Signature

_MOST_DRAWN_OF_CANCELLED: Final = 4_000
"""Instructions of a run that was stopped before its times were known up to which it is drawn: a tenth of a second."""


def execute(
    launch: Launch,
    args: Arguments,
    kwargs: Keywords,
    *,
    on_error: OnError = "raise",
    timed: bool = False,
    check: Callable[[], None] | None = None,
) -> Execution:
    """Run a kernel on arrays; with `timed` also work out its addresses and times.

    `check` refuses calls by launch, shapes and dtypes; it is called unless an equal call has a plan. A fault is
    raised, or with `on_error="report"` given in `error`; the findings have what the device compiler would reject, which
    raises with `options.strict`. Arrays that the kernel writes are changed in place.
    """
    on_target = partial(profile_on, launch, args, kwargs, None)
    signature = None if timed or on_error != "raise" else plans.signature_of(launch, args, kwargs)
    if signature is not None:
        repeated = plans.run_again(signature)
        if repeated is not None:
            return repeated.execution(on_target)
    if check is not None:
        check()
    execution = _executed(launch, args, kwargs, signature, on_error=on_error, timed=timed)
    return replace(execution, on_target=None if execution.error is not None else on_target)


@gc_relaxed()
def _executed(
    launch: Launch, args: Arguments, kwargs: Keywords, signature: Signature | None, *, on_error: OnError, timed: bool
) -> Execution:
    call = Call(launch, timed=timed)
    call.signature = signature
    try:
        call.run(args, kwargs)
    except NkiError as error:
        if on_error == "raise":
            raise
        call.time_failed_run()
        return call.result(error)
    except KeyboardInterrupt:
        if on_error == "raise":
            raise
        call.time_failed_run(_MOST_DRAWN_OF_CANCELLED)
        return call.result(call.interrupted())
    finally:
        call.close()
    return call.result()


def specialise(
    launch: Launch, specs: Arguments, kwargs: Keywords | None = None, trip_counts: TripCounts | None = None
) -> tuple[Program, tuple[Diagnostic, ...]]:
    """Return the program and the findings for arguments without values (`TensorSpec`, or arrays as shapes).

    Looking at values in the kernel is NKI017. `trip_counts` are the iterations of device loops that depend on data, by
    line or name; without them NKI801 says that they are unknown.
    """
    call = _specialised(launch, specs, kwargs or {}, trip_counts, timed=False)
    return call.program, call.diagnostics()


def profile(
    launch: Launch, specs: Arguments, kwargs: Keywords | None = None, trip_counts: TripCounts | None = None
) -> Execution:
    """Return addresses and times of a kernel for arguments without values, as for `specialise`, and no outputs.

    There are no times either where the iterations of a device loop depend on data and `trip_counts` lacks them.
    """
    done = _specialised(launch, specs, kwargs or {}, trip_counts, timed=True).result()
    return replace(done, on_target=partial(profile_on, launch, specs, kwargs or {}, trip_counts))


def profile_on(
    launch: Launch, args: Arguments, kwargs: Keywords, trip_counts: TripCounts | None, arch: Arch
) -> Execution:
    """Time a call, of which only shapes count, on another target; NKI016 for a grid that it does not have."""
    found = too_many(launch.name, launch.grid, arch)
    if found is not None:
        raise error_of(found)
    return profile(replace(launch, target=arch), args, kwargs, trip_counts)


@gc_relaxed()
def _specialised(
    launch: Launch, specs: Arguments, kwargs: Keywords, trip_counts: TripCounts | None, *, timed: bool
) -> Call:
    call = Call(launch, trip_counts=trip_counts)
    try:
        call.specialise(specs, kwargs, values=False)
        if timed:
            call.time(needed=True)
        else:
            call.find_path()
        call.check()
        if call.record is not None:
            call.record.end()
        call.monitor.complete()
    finally:
        call.close()
    return call
