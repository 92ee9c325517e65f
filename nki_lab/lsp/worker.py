"""The process that evaluates kernels beside the server, so that a long evaluation keeps nobody waiting.

Standard input brings jobs, standard output takes answers.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.garbage import collect_all, give_blocks_back
from nki_lab.kernel_runtime.interpreter import Budget, Buffer, ModuleFinder, Stopped, site_folders
from nki_lab.lsp.messages import Answer, Begun, Buffers, Close, Job, Message, Question, Reply, Reset, receive, send
from nki_lab.lsp.settings import project_of
from nki_lab.lsp.streams import own_streams
from nki_lab.query import Configuration, Document, EvaluationRequest, Examination, Selection
from nki_lab.query.fixes.mending import Mending

log = logging.getLogger(__name__)

MEMORY_BYTES: Final = 8 << 30
"""Address space of the process: what asks for more ends in a MemoryError instead of a full machine."""

IDLE_SECONDS: Final = 1.0
"""After so long without work, garbage is collected,"""
YOUNG: Final = 25_000
"""and at work whenever there are so many new objects, among these alone: most of them are gone by then."""
YOUNG_ROUNDS: Final = 4
"""After so many such rounds all garbage is collected: what is left takes memory, which stays in pieces."""

EARLY_SECONDS: Final = 0.3
"""An examination that takes longer tells what it is sure of, and again after each such time that brought more."""


class Worker:
    """Examines documents one at a time. While kernels are evaluated, the syntax of others is looked at in between."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._documents: dict[str, Document] = {}
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._newest: dict[str, int] = {}
        self._libraries: dict[object, ModuleFinder] = {}
        self._buffers: dict[str, Buffer] = {}  # of files that are open
        self._read: list[Job] = []  # their syntax is done
        self._asked: list[Question] = []
        self._rounds = 0  # of collections of young garbage

    def listen(self, source: BinaryIO) -> None:
        """Take messages until the end of `source`; runs beside `work`."""
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            while (message := receive(source)) is not None:
                if isinstance(message, Job | Close):
                    self._newest[message.key] = message.revision if isinstance(message, Job) else -1
                self._inbox.put(message)
        self._inbox.put(None)

    def work(self) -> None:
        """Examine until the end of the input."""
        while self._read or self._asked or self._take(self._next()):
            self._tidy()
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
            collect_all()
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
            document = self._documents.pop(message.key, None)
            if document is not None:
                self._buffers.pop(document.file, None)
        elif isinstance(message, Reset):
            self._libraries.clear()
            site_folders.cache_clear()
        elif isinstance(message, Buffers):
            self._buffers.clear()
            self._buffers.update((path, _buffer(text)) for path, text in message.texts.items())
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
        source = job.sources if job.is_notebook or isinstance(job.sources, bytes) else job.sources[0]
        if isinstance(source, str) and Path(job.file).is_absolute():
            self._buffers[job.file] = _buffer(source)
        try:
            found = self._selected(job, document.update(source))
        except Exception as error:  # noqa: BLE001 - the server goes on after a mistake of ours, and says so
            self._failed(job, error)
            return
        send(self._output, Answer(job.key, job.revision, syntax=tuple(found)))
        self._read = [item for item in self._read if item.key != job.key]
        if job.evaluates:
            self._read.append(job)

    def _examine(self, job: Job) -> None:
        def stop() -> bool:
            self._tidy()
            return not self._drain() or not self._is_current(job)

        request = replace(self._request(job, stop), early=self._early(job))
        try:
            found = self._documents[job.key].examine(request)
            found = replace(found, findings=tuple(self._selected(job, found.findings)))
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the same
            self._failed(job, error)
            return
        send(self._output, Answer(job.key, job.revision, examination=found, reads=request.library.looked_at))
        if isinstance(job.sources, bytes):  # it is looked at once
            self._documents.pop(job.key, None)

    def _early(self, job: Job) -> Callable[[Iterable[Diagnostic]], None]:
        """Return what tells the server the findings that are sure before everything is evaluated."""
        due, told = time.monotonic() + EARLY_SECONDS, 0

        def early(found: Iterable[Diagnostic]) -> None:
            nonlocal due, told
            if (now := time.monotonic()) < due:
                return
            selected = tuple(self._selected(job, found))
            due = now + EARLY_SECONDS
            if len(selected) > told:
                told = len(selected)
                send(self._output, Answer(job.key, job.revision, early=selected))

        return early

    def _request(self, job: Job, stop: Callable[[], bool]) -> EvaluationRequest:
        project = _project(job)
        return EvaluationRequest(
            arch=arch_of(job.target),
            budget=Budget(stop=stop, begun=lambda kernel: send(self._output, Begun(job.key, kernel))),
            targets=job.targets,
            steps=job.steps,
            given=project.signatures(Path(job.file)),
            library=self._library(project, job.python),
        )

    def _answer(self, question: Question) -> None:
        """Answer a question; whatever is to be examined comes first, and the question is asked again after it."""
        job = question.job
        document = self._documents.get(job.key)

        def stop() -> bool:
            self._tidy()
            return not self._drain() or bool(self._read) or not self._is_current(job)

        reply = Reply(question.number)
        if document is not None and self._is_current(job):
            try:
                request = self._request(job, stop)
                if question.mends:
                    reply = Reply(question.number, texts=self._mended(job, document, stop))
                elif question.kernel:
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

    def _mended(self, job: Job, document: Document, stop: Callable[[], bool]) -> tuple[str, ...]:
        """Return the texts of a document as `--fix` leaves them."""
        later = Document(job.file)

        def examined(texts: tuple[str, ...]) -> Examination:
            later.update(texts if job.is_notebook else texts[0])
            return later.examine(self._request(job, stop))

        texts = tuple(item for item in job.sources if isinstance(item, str))
        seen = document.examine(self._request(job, stop))
        mending = Mending(texts, seen, examined, lambda found: self._selected(job, found.findings))
        mending.run()
        return mending.texts

    def _library(self, project: Configuration, python: str) -> ModuleFinder:
        """Return the modules of a project; one library as long as settings stay. `python` serves where it names
        none.
        """
        key = (project.folder, project.paths, project.python or python)
        if key not in self._libraries:
            self._libraries[key] = replace(project, python=key[2] or None).library()
            self._libraries[key].buffers = self._buffers
        return self._libraries[key]

    def _selected(self, job: Job, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the findings that the project wants to hear of."""
        project = _project(job)
        if project.excludes(Path(job.file)):
            return []
        return Selection(select=project.select, ignore=project.ignore).of(found)

    def _tidy(self) -> None:
        """Collect garbage where there is much; most examinations are given up half-way, since somebody types."""
        if gc.get_count()[0] <= YOUNG:
            return
        self._rounds = (self._rounds + 1) % YOUNG_ROUNDS
        if self._rounds:
            gc.collect(0)
        else:
            collect_all()

    def _failed(self, job: Job, error: Exception) -> None:
        self._documents.pop(job.key, None)
        send(self._output, Answer(job.key, job.revision, failure=f"{type(error).__name__}: {error}"))


def _buffer(text: str) -> Buffer:
    return Buffer(text.encode("utf-8", "surrogatepass"))


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
    give_blocks_back()
    if sys.argv[1:] == ["background"] and hasattr(os, "nice"):
        os.nice(5)
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
