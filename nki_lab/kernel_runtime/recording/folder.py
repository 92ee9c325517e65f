"""A recording on disk: Parquet tables under names of their own, and a manifest that says which of them count.

A save writes all tables again, then replaces the manifest in one step. Whoever reads follows the manifest, so that a
save that breaks off leaves the old recording as it was. The next save removes what an earlier manifest names, or the
draft of one that a killed save has left; it touches no other file.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.file_system import locked, made_folder, refusal, remove_files, sync, write_new, write_whole
from nki_lab.kernel_runtime.recording import check, results, schema
from nki_lab.kernel_runtime.recording.columns import Columns, Json
from nki_lab.kernel_runtime.recording.stored import (
    MOST_DECODED,
    Checksums,
    ChunkCache,
    StoredColumns,
    checksums_of,
    unreadable,
    write,
)
from nki_lab.source_files import read_source

MANIFEST: Final = "nki_lab.json"
FORMAT: Final = "nki_lab recording"
_MANIFEST_BYTES: Final = 1 << 26
_PINS: Final = "pins"  # of the manifest: messages of tiles in the zlib format, in base64
_PIN_BYTES: Final = 1 << 24
_PINS_BYTES: Final = 1 << 26  # all of them, as they are when they are read
_DRAFT: Final = "writing"  # of a draft of the manifest: the names of the tables that its save writes or removes
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_TABLE_NAME: Final = re.compile(r"nki_lab_[a-z_]+\.[0-9a-f]{16}\.parquet")
_WORKED_OUT: Final = {"lane_sums", "lane_sum_levels", "triggers", "changes", "exchanges"}  # where a folder has none
_ATTEMPTS: Final = 5


def store(tables: Mapping[str, Columns], path: str | os.PathLike[str], pins: Sequence[bytes] = ()) -> None:
    """Write the tables, and pictures of tiles, into the folder `path`, in place of what its manifest names. Raises
    NKI021.
    """
    folder = Path(path)
    if not os.fspath(path) or "\0" in str(folder):
        raise coded_error("NKI021", f"not saved: {os.fspath(path)!r} is no path", help="name a folder: run.nkirec")
    try:
        with made_folder(folder), locked(folder) as alone:
            _store(tables, folder, alone, pins)
    except NkiError:
        raise
    except OSError as error:
        reason, remedy = refusal(folder, error)
        raise coded_error(
            "NKI021", f"{folder}: not saved: {reason}", help=f"{remedy}; what was there before is unchanged"
        ) from error


def _store(tables: Mapping[str, Columns], folder: Path, alone: bool, pins: Sequence[bytes]) -> None:
    """Write tables of new names, then the manifest that names them.

    Before that, a draft of the manifest lists what is about to be written and what is to be removed. A save that is
    killed leaves it, so that the next one knows; all other files stay, whatever their names are.
    """
    token = secrets.token_hex(8)
    files = {name: folder / f"nki_lab_{name}.{token}.parquet" for name in tables}
    draft, renamed = folder / f"{MANIFEST}.{token}", folder / f"{MANIFEST}.{token}.new"
    before = _named_before(folder)
    if alone:  # without the lock somebody else may be writing
        before |= _left_behind(folder)
    try:
        told = {"format": FORMAT, _DRAFT: sorted({*before, *(file.name for file in files.values())})}
        write_new(draft, json.dumps(told).encode())
        for name, table in tables.items():
            write(table, files[name])
            sync(files[name])
        entries = {name: {"file": file.name, **_entry(checksums_of(file))} for name, file in files.items()}
        kept = {_PINS: [base64.b64encode(zlib.compress(pin)).decode() for pin in pins]} if pins else {}
        manifest = {"format": FORMAT, "version": list(schema.VERSION), "tables": entries, **kept}
        sync(folder)
        write_whole(folder / MANIFEST, f"{json.dumps(manifest, indent=1)}\n".encode(), renamed)
    except BaseException:
        remove_files(folder, (*(file.name for file in files.values()), renamed.name, draft.name))
        raise
    # Lists go after what they list, in case that this is killed too.
    old = sorted(before - {file.name for file in files.values()}, key=lambda name: name.startswith(MANIFEST))
    remove_files(folder, (*old, draft.name))


def _named_before(folder: Path) -> set[str]:
    """Return the tables that the manifest of a folder names; none where it has no manifest, or a damaged one."""
    with contextlib.suppress(OSError, ValueError):
        names = {entry["file"] for entry in _manifest(folder)["tables"].values()}
        return {name for name in names if _TABLE_NAME.fullmatch(name)}
    return set()


def _left_behind(folder: Path) -> set[str]:
    """Return the drafts of manifests that saves have left which were killed, and the tables that these name."""
    found: set[str] = set()
    for draft in folder.glob(f"{MANIFEST}.*"):
        token = draft.name.removeprefix(f"{MANIFEST}.")
        with contextlib.suppress(OSError, ValueError, RecursionError):
            text = read_source(draft, _MANIFEST_BYTES)
            if not _TOKEN.fullmatch(token):
                continue
            content = json.loads(text) if text else {"format": FORMAT, _DRAFT: []}  # killed before it wrote
            names = content.get(_DRAFT) if isinstance(content, dict) and content.get("format") == FORMAT else None
            if isinstance(names, list):
                ours = [name for name in names if isinstance(name, str) and _TABLE_NAME.fullmatch(name)]
                found |= {draft.name, f"{draft.name}.new", *ours}
    return found


def load(path: str | os.PathLike[str]) -> dict[str, Columns]:
    """The tables of the recording in the folder `path`. Raises NKI018, NKI019, NKI020."""
    folder = require_folder(path)
    for _ in range(_ATTEMPTS):
        manifest = _manifest(folder)
        try:
            return _open(folder, manifest)
        except NkiError:
            # A save may have come between: then there is another manifest, and its tables are there.
            if _manifest(folder) == manifest:
                raise
    with locked(folder):  # somebody saves again and again
        return _open(folder, _manifest(folder))


def require_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder `path`; NKI018 where there is none."""
    text = os.fspath(path)
    folder = Path(text)
    try:
        if text and folder.is_dir():
            return folder
        what = "a recording is a folder, this is a file" if text and folder.exists() else "no such folder"
        names = [item.name for item in folder.parent.iterdir() if item.is_dir()] if text else []
    except FileNotFoundError:
        names = []
    except OSError as error:
        what, names = os.strerror(error.errno) if error.errno else str(error), []
    from nki_lab.isa.spelling import did_you_mean

    raise coded_error(
        "NKI018",
        f"{folder}: {what}" if text else "the path of the recording is empty",
        help=did_you_mean(folder.name, names) or "name the folder that a run was saved into",
    )


def pins(path: str | os.PathLike[str]) -> tuple[bytes, ...]:
    """The pictures of tiles in the folder `path`; those that are damaged are left out. Raises NKI019, NKI020."""
    found: list[bytes] = []
    entries, left = _manifest(Path(path)).get(_PINS), _PINS_BYTES
    for text in entries if isinstance(entries, list) else []:
        with contextlib.suppress(ValueError, TypeError, zlib.error):
            packed = zlib.decompressobj()
            pin = packed.decompress(base64.b64decode(text, validate=True), max(1, min(_PIN_BYTES, left)))
            left -= len(pin)
            if packed.eof:
                found.append(pin)
    return tuple(found)


def _manifest(folder: Path) -> dict[str, Json]:
    file = folder / MANIFEST
    try:
        found = json.loads(read_source(file, _MANIFEST_BYTES))
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
    tables = {
        name: StoredColumns(spec, folder / entry["file"], _checksums(entry), cache)
        for name, spec in schema.TABLES.items()
        if (entry := manifest["tables"].get(name)) is not None
    }
    if (decoded := sum(table.decoded for table in tables.values())) > MOST_DECODED:
        raise unreadable(folder, f"its tables decode to {decoded} bytes, at most {MOST_DECODED} are read")
    with refusing(folder):
        check.check_ranges(tables)
        _check_lengths(tables)
        _check_summary(tables)
    return dict(tables)


@contextlib.contextmanager
def refusing(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Raise NKI019 where a check of the tables in a folder fails."""
    try:
        yield
    except NkiError:
        raise
    except ValueError as error:
        raise unreadable(Path(folder), f"damaged: {error}") from error


def check_whole(folder: str | os.PathLike[str], tables: Mapping[str, Columns]) -> None:
    """Hold every value of opened tables against the schema, as those of a built recording are. Raises NKI019."""
    with refusing(folder):
        check.check_rows(tables)
        makespan = _check_summary(tables)
        check.check_end(tables["rows"], makespan)
        check.check_indices(tables, makespan)


def _check_lengths(tables: Mapping[str, Columns]) -> None:
    """ValueError where an index does not belong to its table."""
    rows = len(tables["rows"])
    for name, expected in {"steps": rows, "lane_rows": rows, "lane_spans": len(tables["lanes"])}.items():
        if len(tables[name]) != expected:
            raise ValueError(f"{name} has {len(tables[name])} rows, expected {expected}")
    if not len(tables["stalls"]) or not len(tables["names"]):
        raise ValueError("stalls or names are empty")


def _check_summary(tables: Mapping[str, Columns]) -> int:
    """ValueError where the summary is none; return the end of the run in picoseconds."""
    found = results.loaded(tables["summary"].texts("name"), tables["summary"].texts("json"))
    return int(found[results.MAKESPAN])
