"""The parts of a module, in each of which the names of its kernels live."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from nki_lab.query import messages
from nki_lab.query.evaluation_cache import Block, blocks_of
from nki_lab.source import KernelFunction, ModuleSource, SyntaxFacts
from nki_lab.source.paths import path_to
from nki_lab.source.trees import FUNCTIONS, FunctionNode, extent


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


def made_kernels(facts: SyntaxFacts) -> dict[FunctionNode, tuple[str, str]]:
    """Return the kernels that functions make, with file and qualified name, where each is the only one of its name."""
    found: dict[FunctionNode, str] = {}
    top = {id(node) for node in facts.tree.body}
    for item in facts.functions:
        if item.is_entry and id(item.node) not in top:
            path = [
                node for node in path_to(facts.tree, extent(item.node)) if isinstance(node, (*FUNCTIONS, ast.ClassDef))
            ]
            around = path[: path.index(item.node)] if item.node in path else []
            if any(isinstance(node, FUNCTIONS) for node in around):
                parts = [f"{node.name}{'' if isinstance(node, ast.ClassDef) else '.<locals>'}" for node in around]
                found[item.node] = ".".join((*parts, item.node.name))
    times = Counter(found.values())
    return {node: (facts.file, name) for node, name in found.items() if times[name] == 1}
