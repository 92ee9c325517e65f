"""Worker processes on this computer, as an executor: a worker that dies loses one point, the one it had.

The pool of `concurrent.futures` runs the caller's script again in each worker, and gives up as a whole where one dies.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

_ROOT: Final = str(Path(__file__).resolve().parents[2])
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from nki_lab.sweeps.local_pool import main; main()"
)
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
                   "NUMEXPR_NUM_THREADS")  # fmt: skip
SIZE: Final = struct.Struct("<Q")
"""The size in front of each message."""


class WorkerDiedError(BrokenExecutor):
    """Reports that a worker process ended while it had a point."""


class LocalProcesses(Executor):
    """Processes that start when the first work comes. Libraries of linear algebra get one thread in each of them."""

    def __init__(self, workers: int) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        self._workers = workers
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a worker call an importable function."""
        future: Future[Any] = Future()
        with self._lock:
            if self._stopped:
                raise RuntimeError("the workers have been stopped")
            self._work.put((future, pickle.dumps((fn, args, kwargs))))
            if len(self._threads) < self._workers:
                thread = threading.Thread(target=self._serve, daemon=True, name="nki-lab sweep")
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the workers; with `cancel_futures` at once, whatever they do."""
        with self._lock:
            self._stopped = True
            if cancel_futures:
                self._drop_waiting()
                for process in self._processes:
                    process.kill()
            for _ in self._threads:
                self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _drop_waiting(self) -> None:
        with suppress(queue.Empty):
            while True:
                item = self._work.get_nowait()
                if item is not None:
                    item[0].cancel()

    def _serve(self) -> None:
        """Give the work of the queue to one process after the other; a new one follows one that died."""
        process: subprocess.Popen[bytes] | None = None
        while (item := self._work.get()) is not None:
            future, message = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if process is None or process.poll() is not None:
                    self._end(process)
                    process = self._start()
                assert process.stdin is not None
                assert process.stdout is not None
                send(process.stdin, message)
                is_result, value = pickle.loads(receive(process.stdout))
            except (OSError, EOFError, struct.error) as error:
                status = self._end(process)
                process = None
                future.set_exception(WorkerDiedError(f"the worker ended with status {status}: {error}"))
            except Exception as error:  # noqa: BLE001 - the caller has it
                future.set_exception(error)
            else:
                (future.set_result if is_result else future.set_exception)(value)
        self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise OSError("the workers have been stopped")
            places = list(sys.path)
            places += [] if _ROOT in places else [_ROOT]
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(places)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
                start_new_session=True,  # Ctrl-C is the session's, which ends its workers itself
            )
            self._processes.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes] | None) -> int | None:
        if process is None:
            return None
        with self._lock:
            self._processes.discard(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message with its size in front."""
    stream.write(SIZE.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """Return the next message; EOFError where the other side has closed."""
    head = stream.read(SIZE.size)
    if len(head) < SIZE.size:
        raise EOFError("it closed its output")
    (size,) = SIZE.unpack(head)
    content = stream.read(size)
    if len(content) < size:
        raise EOFError("it closed its output within a message")
    return content


# -- in the worker's process ------------------------------------------------------------------------------------------


def main() -> None:
    """Answer calls until the session closes the input."""
    source = sys.stdin.buffer
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints of kernels and references would come between the results
    while True:
        try:
            message = receive(source)
        except EOFError:
            return
        try:
            function, args, kwargs = pickle.loads(message)
            answer = pickle.dumps((True, function(*args, **kwargs)))
        except Exception as error:  # noqa: BLE001 - the session has it
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        try:
            send(target, answer)
        except BrokenPipeError:  # the session has ended
            return
