"""`nki_lab.crosscheck`: the same inputs through nki_lab and through the installed NKI, in a process of its own."""

from __future__ import annotations

import importlib.machinery
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from nki_lab.crosschecks import other_side
from nki_lab.crosschecks.differences import Crosscheck, InstructionDifference, difference
from nki_lab.crosschecks.sending import described, source_of
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.dialects.environment import OTHER_SIDE_VARIABLE, PRECISE_VARIABLE, TARGET_VARIABLE, is_other_side
from nki_lab.dialects.kernel import Kernel, as_kernel
from nki_lab.dialects.tracebacks import with_user_frames
from nki_lab.file_system import private_folder, write_whole
from nki_lab.isa.arch import Arch
from nki_lab.result import Run, run
from nki_lab.session import RunValues
from nki_lab.session.arrays import Array
from nki_lab.source_files import read_source
from nki_lab.testing import plain_array

_LAST: Final = 12  # lines of the error stream of a process that crashed


@with_user_frames
def crosscheck(
    kernel: Callable[..., object],
    *args: object,
    target: str | Arch | None = None,
    grid: object = None,
    where: Literal["simulator", "device"] = "simulator",
    python: str | os.PathLike[str] | None = None,
    timeout: float = 600.0,
    **keywords: Any,
) -> Crosscheck:
    """Run a kernel here and on the installed NKI with the same inputs, and return the differences.

    `args` and `keywords` go to the kernel, `target` and `grid` are as for `nki_lab.run`. The other side is the
    simulator of the installed `nki` (`neuronxcc.nki` for a kernel of Beta 1), or with `where="device"` the device that
    it drives. It runs in a process of `python` (this interpreter where not given) for `timeout` seconds at most. There
    the kernel's module is imported; of a script, and of a notebook, only definitions are executed. Its refusals, its
    crashes and the end of its time are parts of the result. NKI031 where there is no other side, or it cannot load the
    kernel; NKI001 for an argument that cannot be sent.
    """
    plain = as_kernel(kernel) if grid is None else as_kernel(kernel)[grid]
    if is_other_side():
        raise _lacking(
            "crosscheck is called while its own other side loads the kernel",
            "call it below if __name__ == '__main__', or in a function",
        )
    package = "neuronxcc.nki" if plain.dialect == "beta1" else "nki"
    interpreter = _interpreter(python, package)
    with private_folder() as folder:
        task = {
            "package": package,
            "where": where,
            "grid": plain.grid,
            "path": [os.path.abspath(item) for item in sys.path],  # noqa: PTH100 - as the other process has it
            **source_of(plain.function),
            "args": [described(item, folder, f"argument {number}") for number, item in enumerate(args)],
            "kwargs": {key: described(item, folder, key) for key, item in keywords.items()},
        }
        write_whole(folder / "task.json", json.dumps(task).encode())
        done = run(plain, *args, target=target, on_error="report", **keywords)
        other = _other(interpreter, folder, done, timeout)
        return _compared(plain, done, other, folder, where)


def _interpreter(python: str | os.PathLike[str] | None, package: str) -> str:
    if python is not None:
        if not Path(python).is_file():
            raise _lacking(f"there is no interpreter {os.fspath(python)}", "give the path of a Python that has nki")
        return os.fspath(python)
    root = package.partition(".")[0]
    # What is installed, whatever `activate` has put in front of it.
    found = importlib.machinery.PathFinder.find_spec(root)
    if found is None or found.origin is None:
        raise _lacking(
            f"no package called {root} is installed in {sys.prefix}",
            "install the Neuron SDK's nki here, or name an interpreter that has it: "
            'crosscheck(..., python="/path/to/venv/bin/python")',
        )
    return sys.executable


def _lacking(message: str, remedy: str) -> NkiError:
    return coded_error("NKI031", message, limit="a crosscheck runs the kernel on an installed NKI as well", help=remedy)


def _other(interpreter: str, folder: Path, done: Run, timeout: float) -> dict[str, Any]:
    """Return the result of the other side; a crash or the end of its time is an error in it."""
    environment = os.environ | {
        OTHER_SIDE_VARIABLE: "1",
        TARGET_VARIABLE: done.target,
        PRECISE_VARIABLE: str(int(done.program.options.precise)),
        "PYTHONUNBUFFERED": "1",
    }
    command = [interpreter, str(other_side.__file__), str(folder)]
    error: dict[str, str] = {}
    try:
        ended = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        error = {"type": "timeout", "message": f"it did not end within {timeout:g} s", "traceback": ""}
    else:
        if not (folder / "result.json").is_file():
            text = ended.stderr.decode(errors="replace")
            code = -ended.returncode
            how = f"by {signal.Signals(code).name}" if code in [*signal.Signals] else f"with status {ended.returncode}"
            last = "\n".join(text.splitlines()[-_LAST:])
            error = {"type": "crash", "message": f"its process ended {how}", "traceback": last}
    if error:
        return {"outputs": [], "steps": [], "exposed": False, "error": error, "loaded": True}
    found: dict[str, Any] = json.loads(read_source(folder / "result.json"))
    return found


def _compared(kernel: Kernel, done: Run, other: Mapping[str, Any], folder: Path, where: str) -> Crosscheck:
    error = other["error"]
    if error is not None and not other.get("loaded"):
        raise _lacking(
            f"the installed NKI cannot load {kernel.__name__}: {error['type']}: {error['message']}",
            "the kernel and what it uses are defined in a file that can be imported without nki_lab",
        )
    ours = [plain_array(item) for item in done.outputs]
    theirs = [other_side.load(folder, facts) for facts in other["outputs"]]
    names = _names(done, len(ours))
    tensors = tuple(difference(*item) for item in zip(names, ours, theirs, strict=False))
    both = done.error is None and error is None
    differ = both and not all(item.equal for item in tensors)
    first = _first(done, other["steps"], folder) if differ and other["exposed"] else None
    cause = ""
    if differ and first is None and [item.shape for item in ours] == [item.shape for item in theirs]:
        cause = done.cause(theirs)
    return Crosscheck(
        kernel=done.name,
        target=done.target,
        where=f"the installed NKI {other.get('version', '')}".rstrip() + (" on a device" if where == "device" else ""),
        version=other.get("version", ""),
        run=done,
        tensors=tensors,
        error=done.error,
        other_error="" if error is None else f"{error['type']}: {error['message']}",
        other_traceback="" if error is None else error["traceback"],
        counts=(len(ours), len(theirs)),
        first=first,
        exposes=bool(other["exposed"]),
        cause=cause,
    )


def _names(done: Run, count: int) -> list[str]:
    names = [tensor._buffer.name or f"result {number}" for number, tensor in enumerate(done.program.outputs)]
    return names if len(names) == count else [f"result {number}" for number in range(count)]


def _first(done: Run, steps: list[dict[str, Any]], folder: Path) -> InstructionDifference | None:
    """Return the first instruction whose result is off, by pairing equal calls of one line in their order."""
    values = done.values
    if not isinstance(values, RunValues):
        return None
    waiting: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for step in steps:
        waiting.setdefault((step["name"], step["line"]), []).append(step)
    at_all: InstructionDifference | None = None
    program = values.program
    for number in range(len(program)):
        op = program.op(number)
        known = waiting.get((op.variant.instruction.name, op.site.line))
        if not known or not op.writes:
            continue
        step = known.pop(0)
        array: Array | None = values.after_op(number, op.writes[0])
        if "file" not in step or not str(step["file"]).startswith("step") or array is None:
            continue
        theirs = other_side.load(folder, step)
        ours = array.reshape(theirs.shape) if array.size == theirs.size else array
        found = difference(op.variant.instruction.name, ours, theirs)
        if not found.differing and found.shape == found.other_shape:
            continue
        item = InstructionDifference(
            name=op.variant.instruction.name, file=op.site.file, line=op.site.line, tensor=found
        )
        if not found.close:
            return item
        at_all = at_all or item
    return at_all
