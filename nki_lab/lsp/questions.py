"""Questions to the process that evaluates kernels, which it answers when nothing is to be examined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nki_lab.diagnostic import Diagnostic
    from nki_lab.lsp.worker import Job
    from nki_lab.query.estimate import Estimate


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
