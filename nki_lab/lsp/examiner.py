"""The server's side of the process that evaluates kernels: started when needed, started again when it fails."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import nki_lab.file_system
from nki_lab.contained import END_SECONDS, SuddenEnd
from nki_lab.lsp.messages import Answer, Begun, Buffers, Close, Job, Question, Reply, Reset, packed

PATIENCE_SECONDS: Final = 30.0
"""A job without an answer so long after its steps should be done has hung: its process is ended."""
STEP_SECONDS: Final = 2e-5
"""A step of an evaluation on the slowest machine."""
TRIES: Final = 2
"""Processes that may end over a job before it is given up."""

MOST_ENDED: Final = 64
"""Failed jobs that are remembered: their texts are not evaluated again."""

_ROOT: Final = str(Path(nki_lab.file_system.__file__).resolve().parents[1])
# -P, and our folder last: a user's `ast.py` beside the kernel is not imported.
_WORKER: Final = "nki_lab.lsp.worker"
_COMMAND: Final = f"import sys; sys.path.append({_ROOT!r}); from {_WORKER} import main; main()"

log = logging.getLogger(__name__)


def _text(job: Job) -> Job:
    """Return what stands for the text of a job, on its target, in all its revisions."""
    return replace(job, revision=0, evaluates=True)


async def _status(process: asyncio.subprocess.Process, patient: bool) -> int:
    """Return the exit status of a process, or minus a signal; ended by us at once, or in time if we are `patient`.

    `kill` of a process that has just ended would take its status away from asyncio, which then says 255.
    """
    if patient:
        with suppress(TimeoutError):
            return await asyncio.wait_for(process.wait(), END_SECONDS)
    if process.returncode is None:
        process.kill()
    return await process.wait()


class Examiner:
    """Hands jobs to the process, and its answers to the function `answered`, on the event loop.

    A process that starts is told the `greeting`. In the `background` it leaves the processor to others.
    """

    def __init__(self, *, background: bool = False, patience: float = PATIENCE_SECONDS) -> None:
        self._background = background
        self.answered: Callable[[Answer], None] = lambda _answer: None
        self.greeting: Callable[[], Buffers] = lambda: Buffers({})
        self._patience = patience
        self._process: asyncio.subprocess.Process | None = None
        self._open: dict[str, Job] = {}  # what has no final answer yet
        self._tries: dict[str, int] = {}
        self._begun = Begun("", "")
        self._ended: OrderedDict[Job, Answer] = OrderedDict()  # failures, by jobs of any revision
        self._waits: dict[str, asyncio.TimerHandle] = {}
        self._starting: asyncio.Task[None] | None = None
        self._closed = False
        self._asked: dict[int, asyncio.Future[Reply]] = {}
        self._number = 0

    def examine(self, job: Job) -> None:
        """Ask for an examination; earlier jobs of the same key are given up."""
        if _text(job) in self._ended:
            job = replace(job, evaluates=False)
        self._open[job.key] = job
        self._tries[job.key] = 0
        self._watch(job)
        self._send(job)

    async def ask(self, job: Job, kernel: str = "", *, mends: bool = False) -> Reply:
        """Return the cost of a kernel, the texts after `--fix` or the findings on the job's target; the job's version
        has been examined.
        """
        if self._process is None or self._closed:
            return Reply(0)
        self._number += 1
        number = self._number
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._send(Question(number, job, kernel, mends))
        try:
            return await answer
        finally:
            self._asked.pop(number, None)

    def _drop_questions(self) -> None:
        """Answer open questions with nothing: the process is gone."""
        for number, answer in self._asked.items():
            if not answer.done():
                answer.set_result(Reply(number))

    def forget(self, key: str) -> None:
        """Forget a document that is closed."""
        self._open.pop(key, None)
        self._unwatch(key)
        if self._process is not None:
            self._send(Close(key))

    def start(self) -> None:
        """Start the process, where it does not run."""
        if self._process is None and self._starting is None and not self._closed:
            self._starting = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """End the process."""
        self._closed = True
        for key in list(self._waits):
            self._unwatch(key)
        self._open.clear()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=5)

    def tell(self, message: Buffers | Reset) -> None:
        """Hand over what is not about one document; a process that starts later reads everything afresh."""
        if isinstance(message, Reset):
            self._ended.clear()
        if self._process is not None:
            self._send(message)

    def _send(self, message: Job | Close | Buffers | Reset | Question) -> None:
        if self._process is None or self._process.stdin is None:
            self.start()  # what is open is sent when it runs
        else:
            self._process.stdin.write(packed(message))

    async def _run(self) -> None:
        """One life of the process."""
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _COMMAND,
                *(["background"] if self._background else []),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=1 << 26,
            )
        except OSError as error:
            log.error("kernels are not evaluated, their process cannot be started: %s", error)
            for job in list(self._open.values()):
                self._give_up(job, str(error))
            return
        self._process = process
        self._send(self.greeting())
        for job in list(self._open.values()):
            self._watch(job)
            self._send(job)
        assert process.stdout is not None
        at_end = False
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await process.stdout.readexactly(4)
                    self._take(pickle.loads(await process.stdout.readexactly(int.from_bytes(head, "big"))))
            at_end = True
        finally:
            status = await _status(process, patient=at_end)
            self._process = self._starting = None
            self._drop_questions()
        if not self._closed:
            log.warning("the process that evaluates kernels ended with %s", status)
            self._try_again(str(SuddenEnd(status)))

    def _take(self, answer: Answer | Reply | Begun) -> None:
        if isinstance(answer, Begun):
            self._begun = answer
            return
        if isinstance(answer, Reply):
            asked = self._asked.get(answer.number)
            if asked is not None and not asked.done():
                asked.set_result(answer)
            return
        job = self._open.get(answer.key)
        if job is None or job.revision != answer.revision:
            return
        if answer.examination is not None or answer.failure:
            del self._open[answer.key]
            self._unwatch(answer.key)
        if answer.failure:
            log.error("examining %s failed: %s", job.file, answer.failure)
        self.answered(answer)
        if not job.evaluates and answer.key in self._open:  # that was its syntax
            ended = self._ended.get(_text(job), Answer(job.key, job.revision, failure="its process has ended before"))
            self._take(replace(ended, revision=job.revision))

    def _try_again(self, reason: str) -> None:
        """Start a new process for what was open, but for what has ended too many already."""
        for key, job in list(self._open.items()):
            self._tries[key] += 1
            if self._tries[key] >= TRIES:
                self._give_up(job, reason)
        if self._open:
            self.start()

    def _give_up(self, job: Job, reason: str) -> None:
        kernel = self._begun.kernel if self._begun.key == job.key else ""
        answer = Answer(job.key, job.revision, failure=reason, kernel=kernel)
        if job.evaluates:
            self._ended[_text(job)] = answer
            while len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
        self._take(answer)

    def _watch(self, job: Job) -> None:
        self._unwatch(job.key)
        loop = asyncio.get_running_loop()
        self._waits[job.key] = loop.call_later(job.steps * STEP_SECONDS + self._patience, self._hung, job)

    def _unwatch(self, key: str) -> None:
        if waiting := self._waits.pop(key, None):
            waiting.cancel()

    def _hung(self, job: Job) -> None:
        log.error("examining %s takes longer than it may: its process is ended", job.file)
        self._give_up(job, "it took longer than it may, and was ended")
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
