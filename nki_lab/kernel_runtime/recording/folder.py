"""A recording on disk: Parquet tables under names of their own, and a manifest that says which of them count.

A save writes all tables again, then replaces the manifest in one step. Whoever reads follows the manifest, so that a
save that breaks off leaves the old recording as it was. Tables that no manifest names are removed by the next save.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import secrets
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import locked, rename_over, sync
from nki_lab.kernel_runtime.recording import check, schema
from nki_lab.kernel_runtime.recording.build import MAKESPAN
from nki_lab.kernel_runtime.recording.columns import Columns, Json
from nki_lab.kernel_runtime.recording.stored import (
    Checksums,
    ChunkCache,
    StoredColumns,
    checksums_of,
    unreadable,
    write,
)

MANIFEST: Final = "nki_lab.json"
FORMAT: Final = "nki_lab recording"
_MANIFEST_BYTES: Final = 1 << 26
_PINS: Final = "pins"  # of the manifest: messages of tiles in the zlib format, in base64
_PIN_BYTES: Final = 1 << 24
_WORKED_OUT: Final = {"lane_sums", "lane_sum_levels", "triggers", "exchanges"}  # where a folder has none
_ATTEMPTS: Final = 20
_FULL: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quotas of this name


def store(tables: Mapping[str, Columns], path: str | os.PathLike[str], pins: Sequence[bytes] = ()) -> None:
    """Write the tables, and pictures of tiles, into the folder `path`, in place of what its manifest names. Raises
    NKI021.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder) as alone:
            _store(tables, folder, alone, pins)
    except NkiError:
        raise
    except OSError as error:
        full = error.errno in _FULL
        remedy = "make room or choose another disk" if full else "choose a folder that you may write to"
        raise coded_error(
            "NKI021",
            f"{folder}: not saved: {os.strerror(error.errno) if error.errno else error}",
            help=f"{remedy}; what was there before is unchanged",
        ) from error


def _store(tables: Mapping[str, Columns], folder: Path, alone: bool, pins: Sequence[bytes]) -> None:
    token = secrets.token_hex(8)
    files = {name: folder / f"nki_lab_{name}.{token}.parquet" for name in tables}
    draft = folder / f"{MANIFEST}.{token}"
    before = _named_before(folder)
    try:
        for name, table in tables.items():
            write(table, files[name])
            sync(files[name])
        entries = {name: {"file": file.name, **_entry(checksums_of(file))} for name, file in files.items()}
        kept = {_PINS: [base64.b64encode(zlib.compress(pin)).decode() for pin in pins]} if pins else {}
        manifest = {"format": FORMAT, "version": list(schema.VERSION), "tables": entries, **kept}
        text = json.dumps(manifest, indent=1)
        draft.write_text(text + "\n", encoding="utf-8")
        sync(draft)
        sync(folder)
        rename_over(draft, folder / MANIFEST)
    except BaseException:
        for file in (*files.values(), draft):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        raise
    sync(folder)
    # Without the lock somebody else may be writing: only what the manifest named before is surely out of use.
    ours = chain(folder.glob("nki_lab_*.*.parquet"), folder.glob(f"{MANIFEST}.*"))
    for name in ({file.name for file in ours} if alone else before) - {file.name for file in files.values()}:
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def _named_before(folder: Path) -> set[str]:
    with contextlib.suppress(OSError, ValueError):
        return {entry["file"] for entry in _manifest(folder)["tables"].values()}
    return set()


def load(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The tables of the recording in the folder `path`. Raises NKI018, NKI019, NKI020."""
    folder = Path(path)
    if not folder.is_dir():
        raise coded_error(
            "NKI018",
            f"{folder}: {'a recording is a folder, this is a file' if folder.exists() else 'no such folder'}",
            help="name the folder that a run was saved into",
        )
    for attempt in range(_ATTEMPTS):
        manifest = _manifest(folder)
        try:
            return _open(folder, manifest)
        except NkiError:
            # A save may have come between: then there is another manifest, and its tables are there.
            if attempt == _ATTEMPTS - 1 or _manifest(folder) == manifest:
                raise
    raise AssertionError("unreachable")


def pins(path: str | os.PathLike[str]) -> tuple[bytes, ...]:
    """The pictures of tiles in the folder `path`; those that are damaged are left out. Raises NKI019, NKI020."""
    found: list[bytes] = []
    entries = _manifest(Path(path)).get(_PINS)
    for text in entries if isinstance(entries, list) else []:
        with contextlib.suppress(ValueError, TypeError, zlib.error):
            packed = zlib.decompressobj()
            pin = packed.decompress(base64.b64decode(text, validate=True), _PIN_BYTES)
            if packed.eof:
                found.append(pin)
    return tuple(found)


def _manifest(folder: Path) -> dict[str, Json]:
    file = folder / MANIFEST
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_MANIFEST_BYTES))
    except FileNotFoundError:
        raise _foreign(folder) from None
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(file, f"damaged: {error}") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise unreadable(file, "not the manifest of a recording")
    version = found.get("version")
    if not (isinstance(version, list) and len(version) == 2 and all(type(number) is int for number in version)):
        raise unreadable(file, f"damaged: the version is {version!r}")
    if version[0] != schema.VERSION[0]:
        raise coded_error(
            "NKI020",
            f"{folder}: saved in format {version[0]}.{version[1]}, this nki_lab reads {schema.VERSION[0]}.x",
            limit="a recording is read by the nki_lab that wrote it and by later ones of the same format",
            help="update nki_lab" if version[0] > schema.VERSION[0] else "record the run again",
        )
    entries = found.get("tables")
    if not isinstance(entries, dict) or not all(_is_entry(entry) for entry in entries.values()):
        raise unreadable(file, "damaged: the list of tables")
    if missing := schema.TABLES.keys() - entries.keys() - _WORKED_OUT:
        raise unreadable(file, f"the tables {', '.join(sorted(missing))} are not listed")
    return found


def _is_entry(entry: Json) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("file"), str)
        and Path(entry["file"]).name == entry["file"]  # a table lies in the folder itself
        and all(type(entry.get(name)) is int for name in ("rows", "bytes", "footer"))
        and isinstance(entry.get("chunks"), str)
    )


def _entry(sums: Checksums) -> dict[str, Json]:
    """Return a table's checksums as the manifest has them."""
    chunks = base64.b64encode(sums.chunks).decode()
    return {"rows": sums.rows, "bytes": sums.size, "footer": sums.footer, "chunks": chunks}


def _checksums(entry: Mapping[str, Json]) -> Checksums:
    """Return an entry's checksums; such as fit nothing where they are damaged."""
    try:
        chunks = base64.b64decode(entry["chunks"], validate=True)
    except ValueError:
        chunks = b"?"
    return Checksums(rows=entry["rows"], size=entry["bytes"], footer=entry["footer"], chunks=chunks)


def _foreign(folder: Path) -> NkiError:
    if (folder / "Instruction.parquet").exists():
        return unreadable(
            folder,
            "holds the tables of Neuron Explorer, not a recording",
            "nki_lab.open(folder) opens them as a run",
        )
    return unreadable(folder, f"not a recording: there is no {MANIFEST}", "name the folder that a run was saved into")


def _open(folder: Path, manifest: Mapping[str, Json]) -> dict[str, Columns]:
    cache = ChunkCache()
    tables: dict[str, Columns] = {
        name: StoredColumns(spec, folder / entry["file"], _checksums(entry), cache)
        for name, spec in schema.TABLES.items()
        if (entry := manifest["tables"].get(name)) is not None
    }
    try:
        check.check_ranges(tables)
        _check_lengths(tables)
    except NkiError:
        raise
    except ValueError as error:
        raise unreadable(folder, f"damaged: {error}") from error
    return tables


def _check_lengths(tables: Mapping[str, Columns]) -> None:
    """ValueError where an index does not belong to its table."""
    rows = len(tables["rows"])
    for name, expected in {"steps": rows, "lane_rows": rows, "lane_spans": len(tables["lanes"])}.items():
        if len(tables[name]) != expected:
            raise ValueError(f"{name} has {len(tables[name])} rows, expected {expected}")
    if not len(tables["stalls"]) or not len(tables["names"]):
        raise ValueError("stalls or names are empty")
    summary = dict(zip(tables["summary"].texts("name"), tables["summary"].texts("json"), strict=True))
    if not summary.get(MAKESPAN, "").isdecimal():
        raise ValueError(f"the summary has no {MAKESPAN}")
