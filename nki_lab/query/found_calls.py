"""Calls that are found in other files: which grids they may have, what of their findings is certain, who they reach."""

from __future__ import annotations

import ast
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.interpreter import ModuleFinder, ModuleSource, Reads, Signature
from nki_lab.query.callers import functions_of, loaded
from nki_lab.query.evaluation_cache import KernelEvaluation
from nki_lab.query.project_files import callers_of
from nki_lab.query.sampling import OF_TARGETS
from nki_lab.source import KernelFunction, facts_of
from nki_lab.source.moved_lines import moved_finding
from nki_lab.source.reparsing import common_ends

MOST_FILES: Final = 8
"""Files that are looked at for kernels which call a helper."""
MOST_KERNELS: Final = 4
"""Kernels of other files that are evaluated for the helpers of one file."""
MOST_ACCEPTED: Final = 2
"""Calls of one function that are evaluated of those which the source does not show for sure."""
KEPT: Final = 32
"""Evaluations of other files' kernels that one process remembers."""
STEPS: Final = 300_000
"""Steps of the evaluation of a call that the source does not show for sure."""

_REFUSALS: Final = frozenset({"NKI002", "NKI003", "NKI007", "NKI016"})
"""Findings about arguments and grids that a kernel does not take."""
_DROPPED: Final = OF_TARGETS | {"NKI122", "NKI414"}
"""Findings about a target that a call is not meant for, values that are unknown, and what is dead in this call only."""

_kept: OrderedDict[Hashable, KernelEvaluation] = OrderedDict()


def possible_grids(kernel: KernelFunction, signature: Signature, arch: Arch) -> list[tuple[int, ...]]:
    """Return the launch grids that a call may have: its own, or all of the chip's where that is not known.

    Of Beta 1, whose grids have any number of programs, none.
    """
    if signature.grid is not None:
        return [signature.grid]
    if kernel.dialect == "beta1":
        return []
    return [(), (2,)] if arch.generation >= 3 else [()]


def certain(results: Sequence[KernelEvaluation]) -> KernelEvaluation | None:
    """Return the evaluation of a call of which not everything is sure, as evaluated in all ways that are possible.

    A way that the kernel itself refuses is none; the findings are those that the others share. None where the kernel
    refuses all of them: it is not called so.
    """
    found = [
        item
        for item in results
        if not any(finding.code in _REFUSALS and finding.outcome != "advice" for finding in item.findings)
    ]
    if not found:
        return None
    others = [{(item.code, item.span, item.message) for item in other.findings} for other in found[1:]]
    shared = tuple(
        item
        for item in found[0].findings
        if item.code not in _DROPPED and all((item.code, item.span, item.message) in other for other in others)
    )
    return replace(found[0], findings=shared)


def function_of(module: ModuleSource, name: str) -> KernelFunction | None:
    """Return the function of that name at a module's top level, to be evaluated as a kernel."""
    node, facts = module.function(name), facts_of(module)
    if not isinstance(node, ast.FunctionDef) or facts.dialect is None:
        return None
    dialect = next((item.dialect for item in facts.functions if item.node is node), facts.dialect)
    return KernelFunction(node=node, dialect=dialect, kernel=node)


def reaching(file: str, names: frozenset[str], library: ModuleFinder) -> Iterator[tuple[ModuleSource, str]]:
    """Yield the modules, with their paths, that have kernels and import functions of `file`, through others too."""
    reads: Reads = {}
    pending = [(library.place(file), names)]
    seen = {pending[0][0]}
    while pending and len(seen) <= MOST_FILES:
        path, wanted = pending.pop(0)
        for candidate in callers_of(path, wanted, library) if path else ():
            if candidate in seen or len(seen) > MOST_FILES:
                continue
            seen.add(candidate)
            module = loaded(candidate, file, reads, library)
            if module is None or facts_of(module).dialect is None:
                continue
            if any(item.is_entry for item in facts_of(module).functions):
                yield module, candidate
            else:
                pending.append((candidate, frozenset(functions_of(module))))


def as_typed(found: Iterable[Diagnostic], file: str, then: Sequence[str], now: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield the findings in `file` as its text is now; those of lines that have changed since are dropped."""
    above, below = common_ends(then, now)
    moved = len(now) - len(then)
    for item in found:
        if item.span is None or item.span.file != file:
            continue
        if item.end_line <= above:
            yield item
        elif item.line > len(then) - below:
            yield moved_finding(item, lambda line: line + moved if line > above else line, file)


def recall(key: Hashable, library: ModuleFinder) -> KernelEvaluation | None:
    """Return the evaluation of another file's kernel; None where there is none, or what it read has changed."""
    found = _kept.get(key)
    if found is None or not library.holds(found.reads):
        return None
    _kept.move_to_end(key)
    return found


def keep(key: Hashable, found: KernelEvaluation) -> None:
    """Remember an evaluation, under a key that has the text and all that was given."""
    _kept[key] = found
    while len(_kept) > KEPT:
        _kept.popitem(last=False)
