"""Finds the calls of a file's kernels in other files: its tests, and the scripts beside it."""

# ruff: noqa: PTH110, PTH112, PTH117, PTH118, PTH119, PTH120, PTH122, PTH208
# Folders are listed and their files looked at in an editor, while somebody types.

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from nki_lab.kernel_runtime.interpreter import ModuleFinder, Reads, Signature, launches
from nki_lab.kernel_runtime.interpreter.signatures import HOST_BUDGET, MOST
from nki_lab.query.evaluation_cache import EvaluationCache
from nki_lab.source_files import read_source

MOST_FILES: Final = 8
"""Files that are evaluated for their calls."""
MOST_LISTED: Final = 256
"""Files of a folder that are looked at."""
MOST_BYTES: Final = 256 << 10
"""Size of a file beyond which it is passed over: tests are short."""
FOLDERS_UP: Final = 6
"""Folders above a kernel's that may hold its tests."""

Found = Mapping[str, tuple[Signature, ...]]


def called_elsewhere(
    file: str, kernels: frozenset[str], library: ModuleFinder, cache: EvaluationCache, stop: Callable[[], bool] | None
) -> Found:
    """Return the signatures that files near `file` call its `kernels` with, at most four each; nothing is executed."""
    path = library.place(file)
    if not path:
        return {}
    candidates = _candidates(path)
    asked = ("callers", path, kernels, candidates)
    known: tuple[Found, Reads] | None = cache.recall(asked, (), file, tuple)
    if known is not None and library.holds(known[1]):
        return known[0]
    reads: Reads = {}
    found: dict[str, tuple[Signature, ...]] = {}
    budget = replace(HOST_BUDGET, stop=stop)
    for candidate in _telling(path, kernels, candidates, library, reads):
        display_name = os.path.relpath(candidate) if not os.path.isabs(file) else candidate
        module = library.load(candidate, reads, display_name)
        if module is None or all(len(found.get(name, ())) >= MOST for name in kernels):
            continue
        called = launches(module, (), budget, library)
        reads.update(called.reads)
        for (place, name), signatures in called.other.items():
            if library.place(place) == path and name in kernels:
                known_texts = [str(item) for item in found.get(name, ())]
                more = [item for item in signatures if str(item) not in known_texts]
                found[name] = (*found.get(name, ()), *more)[:MOST]
    cache.keep(asked, (), (found, reads), frozenset())
    return found


def _candidates(path: str) -> tuple[str, ...]:
    """Return the Python files beside `path`, and those of the folders that may hold its tests, which may mirror
    packages.
    """
    folder = os.path.dirname(path)
    folders = [folder]
    inner: list[str] = []
    for _ in range(FOLDERS_UP):
        for name in ("tests", "test"):
            if os.path.isdir(os.path.join(folder, name)):
                folders += _mirrored(os.path.join(folder, name), inner)
        above, name = os.path.split(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder, inner = above, [name, *inner]
    found = []
    for place in folders:
        try:
            names = sorted(name for name in os.listdir(place) if name.endswith(".py"))[:MOST_LISTED]
        except OSError:
            continue
        found += [os.path.join(place, name) for name in names]
    return tuple(item for item in dict.fromkeys(found) if item != path)


def _mirrored(tests: str, inner: list[str]) -> list[str]:
    """Return the folders below `tests` that may hold a package's tests; `inner` leads from beside it to the package."""
    bases = [os.path.join(tests, *kind) for kind in ((), ("unit",), ("integration",))]
    ends = range(len(inner), 0, -1)
    parts = [inner[start:end] for end in ends for start in range(end)]
    return [os.path.join(base, *part) for part in (*parts, []) for base in bases]


def _telling(
    path: str, kernels: frozenset[str], candidates: tuple[str, ...], library: ModuleFinder, reads: Reads
) -> list[str]:
    """Return the files that mention the module and one of its kernels, its own test first."""
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem == "__init__":
        stem = os.path.basename(os.path.dirname(path))
    words = re.compile(rb"\b(?:%s)\b" % b"|".join(re.escape(name.encode()) for name in sorted(kernels)))
    named = re.compile(rb"\b%s\b" % re.escape(stem.encode()))
    found = []
    for candidate in candidates:
        if library.stamp(candidate, reads) is None:
            continue
        try:
            text = read_source(candidate, MOST_BYTES)
        except OSError:
            continue
        if named.search(text) and words.search(text):
            found.append(candidate)
    first = (f"test_{stem}.py", f"{stem}_test.py")
    return sorted(found, key=lambda item: os.path.basename(item) not in first)[:MOST_FILES]
