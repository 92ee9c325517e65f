"""The process that evaluates kernels beside the server, so that a long evaluation keeps nobody waiting.

Messages are pickled, each after its length in four bytes. Standard input brings jobs, standard output takes answers.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Budget, ModuleFinder, Stopped
from nki_lab.lsp.settings import project_of
from nki_lab.query import Configuration, Document, EvaluationRequest, Examination, Selection
from nki_lab.query.estimate import Estimate

log = logging.getLogger(__name__)

MEMORY_BYTES: Final = 8 << 30
"""Address space of the process: what asks for more ends in a MemoryError instead of a full machine."""

IDLE_SECONDS: Final = 1.0
"""After so long without work, garbage is collected,"""
GARBAGE: Final = 3_000_000
"""and after a job that leaves so many objects more than there were."""


@dataclass(frozen=True, slots=True)
class Job:
    """A version of a document to be examined; `sources` are the cells of a notebook, or the one text of a file."""

    key: str
    revision: int
    file: str
    sources: tuple[str, ...]
    is_notebook: bool
    target: str
    steps: int
    python: str = ""


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a document."""

    key: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a job: first its syntax findings, then its examination, or why there is none."""

    key: str
    revision: int
    syntax: tuple[Diagnostic, ...] = ()
    examination: Examination | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a version of a document: the cost of a `kernel`, or the findings on its job's target."""

    number: int
    job: Job
    kernel: str = ""

    @property
    def key(self) -> str:
        """Return the key of the document."""
        return self.job.key


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question; empty where the document has changed since, or the question failed."""

    number: int
    estimate: Estimate | None = None
    findings: tuple[Diagnostic, ...] | None = None


Message = Job | Close | Question | None
"""A message of the server; None at the end of the input."""


def packed(message: object) -> bytes:
    """Return a message as the pipes carry it."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(4, "big") + data


def send(stream: BinaryIO, message: object) -> None:
    """Write one message."""
    stream.write(packed(message))
    stream.flush()


def receive(stream: BinaryIO) -> Message:
    """Read one message; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    message: Message = pickle.loads(stream.read(int.from_bytes(head, "big")))
    return message


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the process alone.

    What anything prints goes to the log from then on, and no child reads the other side's messages.
    """
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    return source, output


class Worker:
    """Examines documents one at a time. While kernels are evaluated, the syntax of others is looked at in between."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._documents: dict[str, Document] = {}
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._newest: dict[str, int] = {}
        self._libraries: dict[object, ModuleFinder] = {}
        self._read: list[Job] = []  # their syntax is done
        self._asked: list[Question] = []

    def listen(self, source: BinaryIO) -> None:
        """Take messages until the end of `source`; runs beside `work`."""
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            while (message := receive(source)) is not None:
                if not isinstance(message, Question):
                    self._newest[message.key] = message.revision if isinstance(message, Job) else -1
                self._inbox.put(message)
        self._inbox.put(None)

    def work(self) -> None:
        """Examine until the end of the input."""
        while self._read or self._asked or self._take(self._next()):
            if not self._drain():
                return
            if self._read:
                self._examine(self._read.pop(0))
            elif self._asked:
                self._answer(self._asked.pop(0))

    def _next(self) -> Message:
        """Wait for a message."""
        try:
            return self._inbox.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            gc.collect()
            return self._inbox.get()

    def _drain(self) -> bool:
        """Look at the syntax of everything that waits; False at the end of the input."""
        while True:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                return True
            if not self._take(message):
                self._inbox.put(message)
                return False

    def _take(self, message: Message) -> bool:
        if isinstance(message, Close):
            self._documents.pop(message.key, None)
        elif isinstance(message, Job) and self._is_current(message):
            self._read_syntax(message)
        elif isinstance(message, Question):
            self._asked.append(message)
        return message is not None

    def _is_current(self, job: Job) -> bool:
        return self._newest.get(job.key) == job.revision

    def _read_syntax(self, job: Job) -> None:
        document = self._documents.get(job.key)
        if document is None or document.file != job.file:
            document = self._documents[job.key] = Document(job.file)
        try:
            found = self._selected(job, document.update(job.sources if job.is_notebook else job.sources[0]))
        except Exception as error:  # noqa: BLE001 - the server goes on after a mistake of ours, and says so
            self._failed(job, error)
            return
        send(self._output, Answer(job.key, job.revision, syntax=tuple(found)))
        self._read = [item for item in self._read if item.key != job.key]
        self._read.append(job)

    def _examine(self, job: Job) -> None:
        def stop() -> bool:
            return not self._drain() or not self._is_current(job)

        request = self._request(job, stop)
        try:
            found = self._documents[job.key].examine(request)
            found = replace(found, findings=tuple(self._selected(job, found.findings)))
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the same
            self._failed(job, error)
            return
        send(self._output, Answer(job.key, job.revision, examination=found))
        if gc.get_count()[0] > GARBAGE:
            gc.collect()

    def _request(self, job: Job, stop: Callable[[], bool]) -> EvaluationRequest:
        project = _project(job)
        return EvaluationRequest(
            arch=arch_of(job.target),
            budget=Budget(stop=stop),
            steps=job.steps,
            given=project.signatures(Path(job.file)),
            library=self._library(project, job.python),
        )

    def _answer(self, question: Question) -> None:
        """Answer a question; whatever is to be examined comes first, and the question is asked again after it."""
        job = question.job
        document = self._documents.get(job.key)

        def stop() -> bool:
            return not self._drain() or bool(self._read) or not self._is_current(job)

        reply = Reply(question.number)
        if document is not None and self._is_current(job):
            try:
                request = self._request(job, stop)
                if question.kernel:
                    reply = Reply(question.number, estimate=document.estimate(question.kernel, request))
                else:
                    found = self._selected(job, document.examine(request).findings)
                    reply = Reply(question.number, findings=tuple(found))
            except Stopped:
                if self._is_current(job):
                    self._asked.append(question)
                    return
            except Exception:
                log.exception("a question about %s failed", job.file)
        send(self._output, reply)

    def _library(self, project: Configuration, python: str) -> ModuleFinder:
        """Return the modules of a project; one library as long as settings stay. `python` serves where it names
        none.
        """
        key = (project.folder, project.paths, project.python or python)
        if key not in self._libraries:
            self._libraries[key] = replace(project, python=key[2] or None).library()
        return self._libraries[key]

    def _selected(self, job: Job, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the findings that the project wants to hear of."""
        project = _project(job)
        if project.excludes(Path(job.file)):
            return []
        return Selection(select=project.select, ignore=project.ignore).of(found)

    def _failed(self, job: Job, error: Exception) -> None:
        self._documents.pop(job.key, None)
        send(self._output, Answer(job.key, job.revision, failure=f"{type(error).__name__}: {error}"))


def _project(job: Job) -> Configuration:
    """Return the configuration for a job's file; nothing where it cannot be understood, which the server says."""
    try:
        return project_of(job.file)
    except NkiError:
        return Configuration()


def main() -> None:
    """Work until standard input ends."""
    source, output = own_streams()
    _bound_memory()
    worker = Worker(output)
    gc.collect()
    gc.freeze()
    gc.disable()  # trees and closures of a large module are made and dropped as a whole; see IDLE_SECONDS
    threading.Thread(target=worker.listen, args=(source,), daemon=True).start()
    try:
        worker.work()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    with suppress(OSError, ValueError):  # macOS refuses bounds below what it has reserved
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


if __name__ == "__main__":
    main()
