"""The calls that run, time, compile and check kernels, and open what was saved of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nki_lab import session
from nki_lab.diagnostic import Diagnostic, NkiError, coded_error
from nki_lab.dialects import launches
from nki_lab.dialects.environment import cache_folder, default_options, resolve_target
from nki_lab.dialects.kernel import Kernel, as_kernel
from nki_lab.dialects.tracebacks import with_user_frames
from nki_lab.extras import extra
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.beta1 import grid_sizes
from nki_lab.kernel_runtime.collectives.rank_group import Rank, RankGroup, local
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.options import Options, option_names, with_changes
from nki_lab.kernel_runtime.progress import Monitor, Report, current_monitor, followed_by
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.result.cached_profile import SECONDS, CachedProfile
from nki_lab.result.outcome import Run
from nki_lab.result.profile_cache import ProfileCache, can_save
from nki_lab.result.ranks import RankRuns
from nki_lab.result.recorded import SavedRun


@with_user_frames
def run_ranks(kernel: Callable[..., object], arguments: Sequence[object], **keywords: Any) -> RankRuns:
    """Run a kernel on as many ranks as there are `arguments`, and give each rank's Run, by rank.

    An entry of `arguments` is what a rank is called with: a tuple of positional arguments, a mapping of keywords, or a
    single array. `keywords` are those of `nki_lab.run`, the same for all ranks. The ranks run at the same time, each in
    a thread; what they exchange is exact. The times of a rank's Run know nothing of the others; the result itself is
    seen, saved and exported as all ranks together, which wait for each other in collectives. The first fault of a rank
    is raised, where `on_error` does not say otherwise.
    """
    if not isinstance(arguments, (list, tuple)) or not arguments:
        raise coded_error(
            "NKI012",
            "run_ranks: arguments is no list of arguments",
            operand="arguments",
            limit="an entry for each rank",
            help="write run_ranks(kernel, [(a0, b0), (a1, b1)])",
        )
    group = RankGroup(len(arguments))
    done: dict[int, Run] = {}
    failed: dict[int, BaseException] = {}

    def one(number: int, given: object) -> None:
        local.rank = Rank(number, group)
        try:
            if isinstance(given, Mapping):
                done[number] = run(kernel, **given, **keywords)
            else:
                done[number] = run(kernel, *(given if isinstance(given, (list, tuple)) else (given,)), **keywords)
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            failed[number] = error
        finally:
            local.rank = None
            group.leave(number)

    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in enumerate(arguments)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        # A rank with NKI241 failed only because another one did not come.
        causes = {
            number: error
            for number, error in failed.items()
            if not isinstance(error, NkiError) or error.diagnostics[0].code != "NKI241"
        }
        raise min((causes or failed).items())[1]
    return RankRuns([done[number] for number in range(len(arguments))])


@with_user_frames
def run(
    kernel: Callable[..., object],
    *args: object,
    target: str | Arch | None = None,
    on_error: session.OnError = "raise",
    strict: bool | None = None,
    grid: object = None,
    options: Options | None = None,
    progress: Report | None = None,
    **keywords: Any,
) -> Run:
    """Run a kernel on arrays and give its outputs with all that was found.

    `kernel` is a function, with or without `@nki.jit`. `args` and `keywords` go to it; a keyword that names an option
    of `nki_lab.Options`, such as `precise` or `launch_overhead`, sets the option instead, unless the kernel has a
    parameter of that name: then pass the option as `options=nki_lab.Options(...)`. A kernel's own parameter called
    target, on_error, strict, grid, options or progress is passed by position.

    `target` is trn1, trn2 or trn3; without it the environment, the project's settings, or trn3 decides. `grid`
    launches as `kernel[grid]`. A fault raises an NkiError, or is kept in `Run.error` with `on_error="report"`. What the
    device compiler would reject is an error in `Run.diagnostics`, and raises with `strict`.

    `progress` is called with a `Progress` at the beginning of each phase and at most ten times a second, in the thread
    of the run: phase, instructions done, their total or None, seconds. What it raises ends the run and is raised.
    KeyboardInterrupt ends it too; with `on_error="report"` it is NKI008 in `Run.error`.
    """
    if on_error not in ("raise", "report"):
        raise coded_error("NKI012", f"on_error is {on_error!r}", operand="on_error", limit='"raise" or "report"')
    plain, chosen, mine = _kernel(kernel, grid, options, strict, keywords)
    # A collector of runs gets the failed ones too.
    reported: session.OnError = on_error if launches.current_observer() is None else "report"
    with _followed(progress):
        execution = plain.execute(args, mine, target=target, options=chosen, on_error=reported, timed=True)
    done = Run(execution, plain.__name__, (*args, *mine.values()))
    launches.report(done)
    if execution.error is not None and on_error == "raise":
        raise KeyboardInterrupt if execution.interrupted else execution.error
    return done


@with_user_frames
def compile(  # noqa: A001 - the contract's name
    kernel: Callable[..., object],
    *specs: object,
    target: str | Arch | None = None,
    strict: bool | None = None,
    grid: object = None,
    options: Options | None = None,
    trip_counts: session.TripCounts | None = None,
    **keywords: Any,
) -> Program:
    """Compile a kernel for arguments of which only shape and dtype are known, and return its program.

    `specs` are what `nki_lab.spec` gives, arrays of which only the shape counts, or constants; keywords as for `run`.
    Faults raise; what was found besides is in the program's `diagnostics`. `trip_counts` says how often device loops
    run whose bounds depend on data, for example `{"i": 16}` by variable, `{"body": 16}` by the body's function or
    `{12: 16}` by line; without it NKI801 names them.
    """
    plain, chosen, mine = _kernel(kernel, grid, options, strict, keywords)
    launch = replace(plain.prepared(target, chosen), notes=())
    plain.check_grid(launch.arch)
    program, found = session.specialise(launch, specs, mine, trip_counts)
    program.diagnostics = found
    return program


@with_user_frames
def profile(
    kernel: Callable[..., object],
    *specs: object,
    target: str | Arch | None = None,
    strict: bool | None = None,
    grid: object = None,
    options: Options | None = None,
    trip_counts: session.TripCounts | None = None,
    progress: Report | None = None,
    **keywords: Any,
) -> Run:
    """Time a kernel for arguments of which only shape and dtype are known, and return a Run without outputs.

    Arguments as for `compile`. Nothing is computed, so that a kernel that looks at values is refused (NKI017), and so
    is one with an instruction of which no cost is known (NKI010). A kernel that needs more memory than there is gets
    a finding, and times as if there were room. Without `trip_counts` a kernel whose device loops depend on data has no
    times, and NKI801 says so. `progress` as for `run`.
    """
    plain, chosen, mine = _kernel(kernel, grid, options, strict, keywords)
    launch = plain.prepared(target, chosen)
    plain.check_grid(launch.arch)
    with _followed(progress):
        done = _cached_profile(launch, specs, mine, trip_counts, plain.__name__)
    launches.report(done)
    return done


@contextmanager
def _followed(progress: Report | None) -> Iterator[None]:
    """Tell `progress` of the run, and of its end where that is good; NKI012 for what cannot be called."""
    if progress is None:
        yield
        return
    if not callable(progress):
        raise coded_error(
            "NKI012",
            f"progress is {progress!r}",
            operand="progress",
            limit="a function that takes a Progress",
            help="pass progress=print to see what it gets",
        )
    with followed_by(Monitor(progress, outer=current_monitor())):
        yield


def _cached_profile(
    launch: session.Launch,
    specs: tuple[object, ...],
    keywords: Mapping[str, object],
    trip_counts: session.TripCounts | None,
    name: str,
) -> Run:
    """Return a profile: that of an earlier process where the cache on disk has it, else a new one, which it keeps."""
    folder = cache_folder()
    asks = folder is not None and can_save() and not launch.options.strict and not launch.records
    cache = ProfileCache(folder) if folder is not None and asks else None
    digest = None if cache is None else session.digest_of(launch, specs, keywords, trip_counts)
    arguments = (*specs, *keywords.values())
    known = None if cache is None or digest is None else cache.find(digest)
    if known is not None:
        remake = partial(session.profile_on, launch, specs, keywords, trip_counts)
        return CachedProfile(known, name, arguments, launch.arch, remake)
    done = Run(session.profile(launch, specs, keywords, trip_counts), name, arguments)
    taken = done.timings.specialize + done.timings.check + (done.timings.timing or 0.0)
    if cache is not None and digest is not None and done.has_recording and taken > SECONDS:
        cache.keep(digest, done.recording)
    return done


def _kernel(
    function: object, grid: object, options: Options | None, strict: bool | None, keywords: Mapping[str, object]
) -> tuple[Kernel, Options, dict[str, object]]:
    """The kernel of a call, its options, and the keywords that are the kernel's."""
    kernel = as_kernel(function)
    try:
        own = set(kernel.__signature__.parameters)
    except (TypeError, ValueError):
        own = set()
    changes = {name: keywords[name] for name in option_names() if name in keywords and name not in own}
    mine = {name: value for name, value in keywords.items() if name not in changes}
    if strict is not None:
        changes["strict"] = strict
    base = options if options is not None else default_options(kernel.dialect)
    try:
        chosen = with_changes(base, changes) if changes else base
    except (TypeError, ValueError) as error:
        raise coded_error("NKI012", str(error), limit=f"options: {', '.join(option_names())}") from None
    return kernel if grid is None else kernel[grid], chosen, mine


@with_user_frames
def check(
    path: str | Path | None = None,
    *,
    source: str | None = None,
    function: Callable[..., object] | str | None = None,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    grid: object = None,
    target: str | Arch | None = None,
    possible: bool = False,
) -> list[Diagnostic]:
    """Return the findings in a file, a source text or a function, of which nothing is run.

    `args` and `kwargs` are arguments of the function by which shapes become known: specs, arrays or constants. `grid`
    is what it is launched on, `grid=2` or `grid=(4, 2)`; a kernel object says it itself: `kernel[2]`. With `possible`,
    what is wrong for some arguments of functions without shapes is information, with a value that shows it.
    """
    from nki_lab import query  # the evaluator is loaded by those who check

    sizes: tuple[int, ...] = ()
    if grid is not None and grid != ():
        grid_of: Callable[[Any], tuple[int, ...]] = function.grid_of if isinstance(function, Kernel) else grid_sizes
        sizes = grid_of(grid[0] if isinstance(grid, tuple) and len(grid) == 1 else grid)
    if isinstance(function, Kernel):
        arch, sizes, function = function.target(target), sizes or function.grid, function.function
    else:
        arch = resolve_target(target)
    return query.check(
        path,
        source=source,
        function=function,
        args=args,
        kwargs=kwargs,
        grid=sizes,
        target=arch,
        possible=possible,
    )


@with_user_frames
def open(path: str | os.PathLike[str]) -> SavedRun:  # noqa: A001 - the contract's name
    """Open the run that was saved into a folder: it has the same reports and exports as the run itself.

    A folder with the tables of a Neuron Explorer profile opens the same way. NKI018 where there is no such folder,
    NKI019 where it holds neither or is damaged, NKI020 where a later version wrote it, NKI022 without pyarrow.
    """
    with extra("save", "opening a saved run needs", operand="open"):
        import pyarrow.parquet  # noqa: F401

    from nki_lab.export.explorer.profile import is_profile
    from nki_lab.kernel_runtime.recording.folder import MANIFEST, pins, require_folder

    folder = require_folder(path)
    if not (folder / MANIFEST).exists() and is_profile(folder):
        from nki_lab.export.explorer.reading import read_profile

        return SavedRun(read_profile(folder), folder)
    return SavedRun(Recording.open(folder), folder, pins(folder))
