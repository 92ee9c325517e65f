"""The parts of a module, in each of which the names of its kernels live."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from nki_lab.query import messages
from nki_lab.query.evaluation_cache import Block, blocks_of
from nki_lab.source import KernelFunction, ModuleSource, SyntaxFacts


@dataclass(frozen=True, slots=True)
class Part:
    """A module up to where the names of `kernels` are bound again: the whole of it, for most."""

    module: ModuleSource
    kernels: tuple[KernelFunction, ...]
    blocks: tuple[Block, ...]

    @property
    def top(self) -> frozenset[str]:
        """Return the names of kernels that the module still has at its end."""
        return frozenset(item.node.name for item in self.kernels if self.module.function(item.node.name) is item.node)


def parts_of(facts: SyntaxFacts) -> Iterator[Part]:
    """Yield the kernels by the part of the module that their names live in.

    A notebook defines a kernel, launches it, and defines it better in a later cell. The statements up to there are
    evaluated for each part: of many parts the first are left out, with their kernels.
    """
    body = facts.tree.body
    places = {id(node): i for i, node in enumerate(body)}
    bound: dict[str, list[int]] = {}
    for i, node in enumerate(body):
        bound.setdefault(getattr(node, "name", ""), []).append(i)
    by_end: dict[int, list[KernelFunction]] = {}
    for kernel in (item for item in facts.functions if item.is_entry):
        own = bound.get(kernel.node.name, [])
        later = bisect_right(own, places.get(id(kernel.node), len(body)))
        end = own[later] if later < len(own) else len(body)
        by_end.setdefault(end, []).append(kernel)
    by_end = by_end or {len(body): []}  # it may call kernels of other modules
    ends = sorted(by_end, reverse=True)
    within = dict(zip(ends, accumulate(ends), strict=True))
    blocks = blocks_of(facts.parsed)
    for end, kernels in by_end.items():
        if end != ends[0] and within[end] > messages.MOST_STATEMENTS:
            continue
        module = facts.parsed
        if end != len(body):
            module = ModuleSource(module.text, module.file, ast.Module(body=body[:end], type_ignores=[]))
        yield Part(module, tuple(kernels), blocks[:end])
