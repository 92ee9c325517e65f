"""Texts with the cursor in them: `|` stands where somebody types."""

from __future__ import annotations

from nki_lab.query import completions, signature_help
from nki_lab.query.completion import Completion, Completions, SignatureHelp, inserted
from nki_lab.query.evaluation_cache import Examination

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl
import nki.typing as nt

LIMIT = 512


def helper(t, u, *, scale=1.0):
    \"\"\"Copies.

    Args:
        t (NkiTensor): the tile to write
    \"\"\"
    nisa.tensor_copy(dst=t, src=u)


def on_host(path, mode="r"):
    return open(path, mode)


@nki.jit
def kernel(x: nt.tensor[128, 64], y, flag=False):
    tile = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    acc = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=tile, src=y)
"""
TAIL = """
    helper(tile, acc)
    below = tile
    return x
"""


def place(text: str) -> tuple[str, int, int]:
    """The text without its cursor, and the 1-based line and column of it."""
    before, cursor, after = text.partition("|")
    assert cursor, text
    return before + after, before.count("\n") + 1, len(before) - before.rfind("\n")


def complete(
    text: str, *, target: str = "trn2", known: Examination | None = None, typed: str = ""
) -> Completions | None:
    """The completions at the cursor of a whole text."""
    source, line, column = place(text)
    return completions(source, line, column, "marked.py", target=target, known=known, typed=typed)


def within(statement: str, **more: object) -> list[Completion]:
    """The completions in a statement of a kernel, the best first."""
    found = complete(f"{HEAD}    {statement}{TAIL}", **more)  # type: ignore[arg-type]
    return [] if found is None else sorted(found.items, key=lambda item: item.sort_text)


def labels(items: list[Completion], rank: int | None = None) -> list[str]:
    """The labels of completions, of one rank where that is given."""
    return [item.label for item in items if rank is None or item.rank == rank]


def named(items: list[Completion], label: str) -> Completion:
    """The completion of that label."""
    (found,) = [item for item in items if item.label == label]
    return found


def signature(text: str, *, target: str = "trn2") -> SignatureHelp | None:
    """The signature at the cursor of a whole text."""
    source, line, column = place(text)
    return signature_help(source, line, column, "marked.py", target=target)


def help_within(statement: str) -> SignatureHelp | None:
    """The signature in a statement of a kernel."""
    return signature(f"{HEAD}    {statement}{TAIL}")


def accepted(text: str, label: str, *, snippets: bool = True) -> str:
    """The text after a completion is accepted."""
    source, line, column = place(text)
    found = completions(source, line, column, "marked.py", target="trn2")
    assert found is not None
    item = named(list(found.items), label)
    lines = source.split("\n")
    written = inserted(item, calls=found.calls, snippets=snippets).text
    lines[line - 1] = lines[line - 1][: found.start - 1] + written + lines[line - 1][found.cursor - 1 :]
    return "\n".join(lines)
