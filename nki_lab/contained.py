"""Work in processes of its own: what ends one of them, a crash of native code too, does not end its host."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, TypeVar

A = TypeVar("A")
R = TypeVar("R")

MEMORY_BYTES: Final = 8 << 30
"""Address space that a process may take: what asks for more ends in a MemoryError instead of a full machine."""

END_SECONDS: Final = 5.0
"""How long a process that has closed its stream may take to end."""

_OBJECTS: Final = 2_000_000
"""New objects between two collections of garbage in a copy. It ends soon, and its large trees are no garbage until
then: of a file of 40,000 lines each collection would visit all."""

_RESULT: Final = 0
_NOTE: Final = 1


@dataclass(frozen=True, slots=True)
class SuddenEnd:
    """Stands for the result of work whose process ended; `status` is its exit status, or minus a signal.

    `note` is what the work had last noted, as `note` takes it.
    """

    status: int
    note: str = ""

    def __str__(self) -> str:
        if self.status >= 0:
            return f"its process ended with status {self.status}"
        try:
            name = signal.Signals(-self.status).name
        except ValueError:
            name = f"signal {-self.status}"
        return f"its process was ended by {name}"


_hosts: list[BinaryIO] = []  # where the results of this process go, if it works for another one


def note(text: str) -> None:
    """Tell the host of this process what is worked on from now on; nothing where it has none."""
    if _hosts:
        _send(_hosts[-1], _NOTE, text)


def _send(stream: IO[bytes], kind: int, value: object) -> None:
    collects = gc.isenabled()
    gc.disable()  # pickling leaves no garbage, and makes as many objects as start collections of all there is
    try:
        data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    finally:
        if collects:
            gc.enable()
    stream.write(bytes([kind]) + len(data).to_bytes(8, "big") + data)
    stream.flush()


@dataclass(slots=True)
class _Results:
    """Reads the results of a process, and keeps its last note."""

    stream: IO[bytes]
    noted: str = ""

    def next(self) -> tuple[Any] | None:
        """Return the next result, in a tuple; None where the process has ended."""
        while len(head := self.stream.read(9)) == 9:
            size = int.from_bytes(head[1:], "big")
            data = self.stream.read(size)
            if len(data) < size:
                return None
            value = pickle.loads(data)
            if head[0] == _RESULT:
                return (value,)
            self.noted = value
        return None


# -- copies of this process --------------------------------------------------------------------------------------------


def can_fork() -> bool:
    """Return whether a copy of this process can work: on Linux, without threads, whose locks are copied as held.

    JAX has threads that Python does not count, and warns of each copy.
    """
    return sys.platform == "linux" and threading.active_count() == 1 and "jax" not in sys.modules


@contextmanager
def copying() -> Iterator[None]:
    """Let this process be copied without Python's warning of threads: those of BLAS do not work then."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_copies(function: Callable[[A], R], items: Sequence[A]) -> Iterator[R | SuddenEnd]:
    """Yield `function(item)` for each item, computed in a copy of this process, which has loaded everything.

    An item that ends its process costs its own result only: another copy goes on with the next.
    """
    number = 0
    while number < len(items):
        process, stream = _copy(function, items[number:])
        results = _Results(stream)
        at_end = False
        try:
            with stream:
                while number < len(items) and (found := results.next()) is not None:
                    number += 1
                    yield found[0]
                at_end = True
        finally:  # or nobody wants the rest
            status = _status(process, patient=at_end)
        if number < len(items):
            number += 1
            yield SuddenEnd(status, results.noted)


def _status(process: int, patient: bool) -> int:
    """Return the exit status of a copy, or minus a signal; ended by us at once, or in time if we are `patient`."""
    until = time.monotonic() + (END_SECONDS if patient else 0.0)
    while (found := os.waitpid(process, os.WNOHANG)) == (0, 0):
        if time.monotonic() >= until:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            found = os.waitpid(process, 0)
            break
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(found[1])


def _copy(function: Callable[[A], R], items: Sequence[A]) -> tuple[int, BinaryIO]:
    """Start a copy of this process that works on items; return its id and the stream of its results."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # a collection in the copy would touch, and so copy, every object
    with copying():
        process = os.fork()
    if process:
        gc.unfreeze()
        os.close(writing)
        return process, os.fdopen(reading, "rb")
    try:
        os.close(reading)
        bound_memory()
        gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
        with os.fdopen(writing, "wb") as stream:
            _hosts.append(stream)
            for item in items:
                _send(stream, _RESULT, function(item))
        os._exit(0)
    finally:  # nothing of the host's is to run here
        os._exit(1)


def bound_memory(most: int = MEMORY_BYTES) -> None:
    """Let the address space of this process grow by so many bytes, and no further."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = most + _address_space()
    with suppress(OSError, ValueError):  # macOS refuses bounds below what it has reserved
        resource.setrlimit(resource.RLIMIT_AS, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


# -- a process beside this one -----------------------------------------------------------------------------------------

_ROOT: Final = str(Path(__file__).resolve().parents[1])
# -P, and our folder last: a user's `ast.py` beside the kernel is not imported.
_COMMAND: Final = f"import sys; sys.path.append({_ROOT!r}); from nki_lab.contained import serve; serve()"


class Companion:
    """A process beside this one that computes what it is asked; started when needed, and again after it has ended."""

    def __init__(self, *preloaded: str) -> None:
        self._preloaded = preloaded
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process where it does not run; it loads the modules that it needs while nobody waits for it."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, *self._preloaded],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=os.name != "nt",  # who interrupts this process interrupts that one through it
            )

    def call(self, function: Callable[..., R], *arguments: object) -> R | SuddenEnd:
        """Return `function(*arguments)`; a function of a module, and what can be pickled. Raises OSError where no
        process can be started; an interrupt ends the work.
        """
        with self._lock:
            try:
                self.start()
                assert self._process is not None and self._process.stdin is not None
                assert self._process.stdout is not None
                results = _Results(self._process.stdout)
                with suppress(BrokenPipeError):
                    _send(self._process.stdin, _RESULT, (function, arguments))
                found = results.next()
            except BaseException:
                self._end()
                raise
            return SuddenEnd(self._end(), results.noted) if found is None else found[0]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _end(self) -> int:
        """End the process; returns its exit status, or minus the signal that had ended it before."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            return process.wait(timeout=0.2)  # a process that crashed is about to be gone
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def serve() -> None:
    """Compute what standard input asks for, until its end."""
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)  # what is printed is no answer
    bound_memory()
    for module in sys.argv[1:]:
        __import__(module)
    gc.collect()
    gc.freeze()
    _hosts.append(output)
    requests = _Results(source)
    with suppress(BrokenPipeError, KeyboardInterrupt):
        while (asked := requests.next()) is not None:
            function, arguments = asked[0]
            _send(output, _RESULT, function(*arguments))
