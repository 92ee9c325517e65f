"""The Python files of a project, and the names that each of them imports: who may call a function."""

# ruff: noqa: PTH118, PTH119, PTH120, PTH122
# Folders are listed in an editor, while somebody types: as texts that takes a tenth of the time.

from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

from nki_lab.kernel_runtime.interpreter import Buffer, ModuleFinder
from nki_lab.source_files import read_source

MOST_FILES: Final = 4096
"""Files of a project that are looked at."""
MOST_FOLDERS: Final = 2048
"""Folders of a project that are looked into."""
MOST_BYTES: Final = 512 << 10
"""Size of a file beyond which it is passed over: tests are short."""
FOLDERS_UP: Final = 8
"""Folders above a file's that may be its project's, or hold its tests."""
KEPT: Final = 4 * MOST_FILES
"""Files whose imports are remembered, by modification time and size."""

_IMPORT: Final = re.compile(
    rb"(?:^(?:\xef\xbb\xbf)?|[:;])[ \t]*"
    rb"(?:from[ \t]+([\w.\x80-\xff]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
_WORD: Final = re.compile(rb"[\w\x80-\xff]+")  # in UTF-8, where letters beyond ASCII have such bytes
_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})

_Key = tuple[str, int, int]
"""A file, its modification time and its size."""

_imports: OrderedDict[_Key, frozenset[bytes]] = OrderedDict()


def callers_of(path: str, names: frozenset[str], library: ModuleFinder, folders: tuple[str, ...] = ()) -> list[str]:
    """Return the files of a project, and of further folders, that import the module at `path` and mention one of its
    functions.

    The tests of the module come first, then other files by their names.
    """
    if library.stamp(path) is None or not names:
        return []
    asked = (path, names, folders)
    if asked not in library.remembered:
        library.remembered[asked] = _found(path, names, library, folders)
    found: list[str] = library.remembered[asked]
    return found


def may_import(text: bytes, path: str) -> bool:
    """Return whether the imports of a text name the module at `path`, or the package that it is in."""
    names = _names_of(path)
    return any(name in text for name in names) and not _words(text).isdisjoint(names)


def _names_of(path: str) -> set[bytes]:
    """Return the names by which imports mention a module: its own, and its package's."""
    return {os.fsencode(_stem(path)), os.fsencode(os.path.basename(os.path.dirname(path)))}


def _found(path: str, names: frozenset[str], library: ModuleFinder, folders: tuple[str, ...]) -> list[str]:
    stem, folder = _stem(path), os.path.dirname(path)
    modules = _names_of(path)
    packages = {item.encode() for item in _packages(folder, library)}
    wanted = {name.encode() for name in names}
    found = []
    for candidate, key in _files(path, library, folders):
        imported = _imported(key, library.buffers)
        named = not imported.isdisjoint(wanted)
        beside = os.path.dirname(candidate) == folder
        if (
            (named and (beside or not imported.isdisjoint(packages)))
            or (not imported.isdisjoint(modules) and (named or _mentions(_text(candidate, library.buffers), wanted)))
        ) and candidate != path:
            found.append(candidate)
    own = (f"test_{stem}.py", f"{stem}_test.py")
    return sorted(found, key=lambda item: (os.path.basename(item) not in own, not _is_test(item), item))


def _stem(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return os.path.basename(os.path.dirname(path)) if stem == "__init__" else stem


def _packages(folder: str, library: ModuleFinder) -> list[str]:
    """Return the names of the packages that a folder is in, itself among them."""
    found = []
    while library.stamp(os.path.join(folder, "__init__.py")) is not None:
        folder, name = os.path.split(folder)
        found.append(name)
    return found


def _is_test(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("test_") or name.endswith("_test.py")


def _files(path: str, library: ModuleFinder, folders: tuple[str, ...]) -> list[tuple[str, _Key]]:
    """Return the Python files of the project that `path` is in, and of further folders.

    Without a project these are the files beside it, and those of the folders with tests near it.
    """
    root = library.project(path, FOLDERS_UP) or os.path.dirname(path)
    if (root, folders) not in library.remembered:
        found = dict(_listed(path, library))
        for folder in folders:
            found |= dict(_in_folders([(folder, True)], library.buffers))
        library.remembered[root, folders] = list(found.items())
    listed: list[tuple[str, _Key]] = library.remembered[root, folders]
    return listed


def files_below(folder: str) -> Iterator[tuple[str, _Key]]:
    """Yield the Python files of a folder and of those inside it, each with its key."""
    return _in_folders([(folder, True)], {})


def uses_nki(key: _Key) -> bool:
    """Return whether the imports of a file name NKI."""
    return not _imported(key, {}).isdisjoint((b"nki", b"neuronxcc"))


def _listed(path: str, library: ModuleFinder) -> Iterator[tuple[str, _Key]]:
    root = library.project(path, FOLDERS_UP)
    if root:
        folders = [(root, True)]
    else:
        near = library.above(path, FOLDERS_UP)
        folders = [(near[0], False)] if near else []
        folders += [(os.path.join(place, name), True) for place in near for name in ("tests", "test")]
    return _in_folders(folders, library.buffers)


def _in_folders(folders: list[tuple[str, bool]], buffers: Mapping[str, Buffer]) -> Iterator[tuple[str, _Key]]:
    count = 0
    for entry in _walked(folders):
        count += 1
        if count > MOST_FILES:
            return
        if entry.is_symlink():
            continue  # the file that it leads to is found itself, if it is the project's
        try:
            found = entry.stat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES:
            buffer = buffers.get(entry.path)
            yield entry.path, (entry.path, *(buffer.stamp[:2] if buffer else (found.st_mtime_ns, found.st_size)))


def _walked(folders: list[tuple[str, bool]]) -> Iterator[os.DirEntry[str]]:
    """Yield the Python files of folders, by name, and of those inside of the ones that are marked so.

    Of hidden folders, environments and products of builds none.
    """
    pending, count = folders[::-1], 0
    while pending and count < MOST_FOLDERS:
        folder, deep = pending.pop()
        count += 1
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda item: item.name)
        except OSError:
            continue
        if any(item.name == "pyvenv.cfg" for item in entries):
            continue
        yield from (item for item in entries if item.name.endswith(".py"))
        inner = [item for item in entries if deep and item.is_dir(follow_symlinks=False)]
        named = [item.path for item in inner if item.name[0] != "." and item.name not in _PASSED_OVER]
        pending += [(path, True) for path in reversed(named)]


def _imported(key: _Key, buffers: Mapping[str, Buffer]) -> frozenset[bytes]:
    """Return the words in the imports of a file."""
    if key not in _imports:
        _imports[key] = _words(_text(key[0], buffers))
        while len(_imports) > KEPT:
            _imports.popitem(last=False)
    return _imports[key]


def _mentions(text: bytes, wanted: set[bytes]) -> bool:
    """Whether one of some names is a word of a text."""
    return any(word.group() in wanted for word in _WORD.finditer(text))


def _words(text: bytes) -> frozenset[bytes]:
    """Return the words in the imports of a text."""
    words: set[bytes] = set()
    at = text.find(b"import")
    while at >= 0:  # most lines have none
        start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if b"(" in text[at:end]:
            end = max(end, text.find(b")", at) + 1)
        for item in _IMPORT.finditer(text, start, end):
            words.update(word for part in item.groups() if part for word in _WORD.findall(part))
        at = text.find(b"import", end)
    return frozenset(words)


def _text(path: str, buffers: Mapping[str, Buffer]) -> bytes:
    try:
        buffer = buffers.get(path)
        return read_source(path, MOST_BYTES) if buffer is None else buffer.data
    except (OSError, ValueError):
        return b""
