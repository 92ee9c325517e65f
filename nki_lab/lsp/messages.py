"""The messages between the server and the process that evaluates kernels: pickled, after their length in four bytes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:  # the server starts the process before it has loaded these
    from nki_lab.diagnostic import Diagnostic
    from nki_lab.query import Examination
    from nki_lab.query.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Job:
    """A version of a document to be examined; `sources` are the cells of a notebook, or the one text of a file,
    or its bytes, where the disk has it. Unless it `evaluates`, its syntax is examined only.

    Cells that name a target, by their first and last lines, are among `targets`.
    A file that is open in the editor counts in place of the disk's for others that import it, until `Close`.
    """

    key: str
    revision: int
    file: str
    sources: tuple[str, ...] | bytes
    is_notebook: bool
    target: str
    steps: int
    python: str = ""
    evaluates: bool = True
    targets: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Close:
    """The end of a document."""

    key: str


@dataclass(frozen=True, slots=True)
class Buffers:
    """The texts of all files that are open, by path, for a process that is not asked about them."""

    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reset:
    """A change of settings or of installed packages: what is known of them has to be read again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a job: first its syntax findings, then its examination, or why there is none: a `failure`, while
    the named kernel was evaluated. In between come the findings that are sure `early`, in place of those on syntax.

    `reads` are the paths that the examination looked at, beside the text itself.
    """

    key: str
    revision: int
    syntax: tuple[Diagnostic, ...] = ()
    early: tuple[Diagnostic, ...] | None = None
    examination: Examination | None = None
    failure: str = ""
    kernel: str = ""
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Begun:
    """The kernel of a document that is evaluated from now on; "" where that is none."""

    key: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a version of a document: the cost of a `kernel`, the texts after `--fix` where it `mends`, or
    the findings on its job's target.
    """

    number: int
    job: Job
    kernel: str = ""
    mends: bool = False

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
    texts: tuple[str, ...] | None = None


Message = Job | Close | Buffers | Reset | Question | None
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
