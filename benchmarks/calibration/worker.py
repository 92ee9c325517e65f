"""Profile the runs of one kernel, without values, in a process of its own: a JSON line for each run.

Reads from standard input {"folder", "module", "function", "dialect", "seconds", "bytes", "options", "runs": [...]}.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from types import ModuleType
from typing import Any

import numpy as np

TENSOR = re.compile(r"([a-z]\w*)\[([\d,]*)\]")


class RunTimeoutError(Exception):
    """A run took longer than it may."""


def argument(value: Any, module: str) -> Any:
    """Return an argument of a call as the data writes it.

    A tensor is {"tensor": "bfloat16[128,512]"}, a name {"name": "package.module:Class.MEMBER"}, an object
    {"call": "package.module:Class", "arguments": {...}}; anything else stands for itself. Names without a module are
    those of `module`, the kernel's.
    """
    import nki_lab

    if isinstance(value, Mapping):
        if "tensor" in value:
            found = TENSOR.fullmatch(value["tensor"])
            if found is None:
                raise ValueError(f'{value["tensor"]!r} is no tensor such as "bfloat16[128,512]"')
            shape = tuple(int(size) for size in found[2].split(",") if size)
            return nki_lab.spec(shape, found[1])
        if "name" in value:
            return _named(value["name"], module)
        if "call" in value:
            inner = {name: argument(part, module) for name, part in value["arguments"].items()}
            return _named(value["call"], module)(**inner)
        raise ValueError(f"an argument is a tensor, a name or a call, not {value}")
    if isinstance(value, list):
        return tuple(argument(inner, module) for inner in value)
    return value


def _named(text: str, module: str) -> Any:
    own, _, path = text.partition(":")
    found: Any = importlib.import_module(own or module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def measure(done: Any) -> dict[str, Any]:
    """Return the figures of a profile: times in nanoseconds, counts by engine, HBM bytes, operations, shares."""
    summary = done.summary
    kept = (
        "target", "instructions", "cores", "flops", "dma_bytes", "hbm_read_bytes", "hbm_write_bytes", "makespan_ns",
        "critical_path_ns", "critical_wait_ns", "stall_ns", "slowed_ns", "launch_ns",
        "engine_busy_ns", "mfu", "hfu", "mbu", "confidence", "sbuf_peak_bytes_per_partition",
        "psum_peak_bytes_per_partition", "compiler_model", "makespan_without_compiler_model_ns",
    )  # fmt: skip
    figures = {name: summary[name] for name in kept if name in summary}
    return figures | counts(done)


def counts(done: Any) -> dict[str, Any]:
    """Return what an interval depends on, instructions by engine, matrix products, operations of transposes."""
    from nki_lab.timeline.summary import counted

    line = done._timeline
    if line is None:
        return {}
    engines: Counter[str] = Counter()
    products = transposes = 0
    for variant, count in counted(line.chip):
        engines[variant.engine] += count
        if variant.instruction.flops(variant.use):
            products += count
        transposes += count * variant.instruction.transpose_flops(variant.use)
    case = {"attributes": dict(line.case.attributes), "unmodelled": list(line.case.unmodelled)}
    return {"case": case, "engine_instructions": dict(engines), "matmuls": products, "transpose_flops": transposes}


def mechanisms() -> list[str]:
    """Return the options of the timing model that can be switched off and are on in a calibration."""
    from nki_lab.kernel_runtime.options import Options

    unrelated = {"precise", "strict"}  # numbers and refusals
    return [field.name for field in fields(Options) if field.type in (bool, "bool") and field.name not in unrelated]


def without(done: Any, every: bool) -> dict[str, float]:
    """Return the makespan in nanoseconds with one mechanism switched off: the launch; with `every`, each in turn.

    Mechanisms are those of the walk and the steps of the compiler model.
    """
    from nki_lab.kernel_runtime.allocate import allocate
    from nki_lab.kernel_runtime.backend import compiled
    from nki_lab.kernel_runtime.options import compiler_steps
    from nki_lab.kernel_runtime.schedule import schedule
    from nki_lab.kernel_runtime.timing import walk

    line = done._timeline
    options = line.program.options
    times = {}
    for name in mechanisms() if every else ["launch_overhead"]:
        if getattr(options, name):
            changed = replace(options, **{name: False})
            times[name] = walk(line.chip, line.schedule, changed, line.chip_allocation).makespan / 1000
    steps = compiler_steps(options) if every and line.compiled is not None else ()
    for step in steps:
        made = compiled(line.program, [name for name in steps if name != step])
        rows = line.program if made is None else made.program
        addresses = allocate(rows)
        times[f"compiler_model: {step}"] = walk(rows, schedule(rows, addresses), options, addresses).makespan / 1000
    return times


def profiled(kernel: Any, run: Mapping[str, Any], options: Mapping[str, Any], module: str) -> Any:
    """Return the profile of one run."""
    import nki_lab

    arguments = {name: argument(value, module) for name, value in run["arguments"].items()}
    positions = [arguments.pop(name) for name in sorted(name for name in arguments if name.isdigit())]
    axes = tuple(run.get("grid") or ())
    grid = axes[0] if len(axes) == 1 else axes or None
    return nki_lab.profile(
        kernel,
        *positions,
        **arguments,
        target=run["target"],
        grid=grid,
        trip_counts=run.get("trip_counts"),
        **options,
    )


def profile(kernel: Any, run: Mapping[str, Any], options: Mapping[str, Any], module: str) -> dict[str, Any]:
    """Return the figures of one run, with the seconds that it took and the codes of its findings."""
    begin = time.perf_counter()
    done = profiled(kernel, run, options, module)
    if "makespan_ns" not in done.summary:
        codes = sorted({item.code for item in done.diagnostics})
        raise ValueError(f"the profile has no times ({', '.join(codes)})")
    figures = measure(done) | {"without": without(done, run["mechanisms"])}
    severe = Counter(f"{item.code} {item.severity}" for item in done.diagnostics if not item.code.startswith("NKI7"))
    return {"figures": figures, "findings": dict(severe), "seconds": round(time.perf_counter() - begin, 2)}


class _Stub(ModuleType):
    """A module that has any name: for what a file imports for its tests."""

    def __getattr__(self, name: str) -> Any:
        return None


def stand_in(names: list[str]) -> None:
    """Put an empty module in place of each of these that is not installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                sys.modules.setdefault(".".join(parts[:end]), _Stub(".".join(parts[:end])))


def _alarm(_signal: int, _frame: Any) -> None:
    raise RunTimeoutError


def described(error: BaseException) -> str:
    """Return an error as one or two lines: its kind, its first line, where it was raised in the kernel."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = " ".join(line.strip() for line in lines[:6])[:600]
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def main() -> None:
    """Read the job, profile each of its runs, and print a line for each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels print is no answer
    job = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_AS, (job["bytes"], job["bytes"]))
    signal.signal(signal.SIGPROF, _alarm)
    import nki_lab

    nki_lab.activate()
    sys.path.insert(0, job["folder"])
    stand_in(job["stubs"])
    np.random.seed(0)
    for run in job["runs"]:
        print(json.dumps({"begin": run["id"]}), file=answers, flush=True)
        signal.setitimer(signal.ITIMER_PROF, job["seconds"])  # of this process, not of the wall clock
        try:
            kernel = getattr(importlib.import_module(job["module"]), job["function"])
            answer = profile(kernel, run, job["options"], job["module"])
        except RunTimeoutError:
            answer = {"failure": f"takes more than {job['seconds']} s of a processor"}
        except MemoryError:
            answer = {"failure": f"takes more than {job['bytes'] / 2**30:.1f} GiB of memory"}
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its answer
            answer = {"failure": described(error)}
            with contextlib.suppress(Exception):
                traceback.print_exc()
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"id": run["id"], **answer}), file=answers, flush=True)


if __name__ == "__main__":
    main()
