"""Finds the calls of a file's functions in the other files of its project: its tests, scripts, other kernels."""

# ruff: noqa: PTH117
# Paths are texts here as everywhere in the search for modules.

from __future__ import annotations

import ast
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from nki_lab.file_system import relative
from nki_lab.kernel_runtime.interpreter import Launches, ModuleFinder, ModuleSource, Reads, Signature, best, launches
from nki_lab.kernel_runtime.interpreter.signatures import HOST_BUDGET
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.query.project_files import callers_of
from nki_lab.source import facts_of

MOST_FILES: Final = 8
"""Files that are evaluated for their calls of one file's functions."""
KEPT: Final = 256
"""Evaluations of files for their calls that are remembered."""

Found = Mapping[str, tuple[Signature, ...]]

_launches: OrderedDict[tuple[str, str], Launches] = OrderedDict()


def called_elsewhere(
    file: str, names: frozenset[str], library: ModuleFinder, cache: EvaluationCache, stop: Callable[[], bool] | None
) -> Found:
    """Return the signatures with which other files call the functions `names` of `file`; nothing is executed."""
    path = library.place(file)
    if not path or not names:
        return {}
    candidates = tuple(callers_of(path, names, library)[:MOST_FILES])
    asked = ("callers", path, names, candidates)
    known: tuple[Found, Reads] | None = cache.recall(asked, (), file, tuple)
    if known is not None and library.holds(known[1]):
        return known[0]
    reads: Reads = {}
    found: dict[str, list[Signature]] = {}
    for candidate in candidates:
        module = loaded(candidate, file, reads, library)
        if module is None:
            continue
        called = calls_in(module, candidate, library, stop)
        reads.update(called.reads)
        for (place, name), signatures in called.other.items():
            if library.place(place) == path and name in names:
                found.setdefault(name, []).extend(signatures)
    result = {name: best(signatures) for name, signatures in found.items()}
    cache.keep(asked, (), (result, reads), frozenset())
    return result


def loaded(path: str, beside: str, reads: Reads, library: ModuleFinder) -> ModuleSource | None:
    """Return the module of a file, named in findings as `beside` is: from the working directory, or by its full path.

    None where it cannot be read.
    """
    return library.load(path, reads, path if os.path.isabs(beside) else relative(path))


def calls_in(
    module: ModuleSource, path: str, library: ModuleFinder, stop: Callable[[], bool] | None = None
) -> Launches:
    """Return how the module of a file on the disk calls functions, its own at top level too."""
    key = (path, module.file)
    known = _launches.get(key)
    if known is None or not library.holds(known.reads):
        kernels = {item.node.name for item in facts_of(module).functions if item.is_entry}
        helpers = functions_of(module) - kernels
        reads: Reads = {}
        library.stamp(path, reads)
        known = launches(module, kernels & functions_of(module), replace(HOST_BUDGET, stop=stop), library, helpers)
        known = _launches[key] = replace(known, reads={**known.reads, **reads})
    _launches.move_to_end(key)
    while len(_launches) > KEPT:
        _launches.popitem(last=False)
    return known


def functions_of(module: ModuleSource) -> set[str]:
    """Return the names of the functions at a module's top level."""
    return {item.name for item in module.tree.body if isinstance(item, ast.FunctionDef)}
