"""Changes saved recordings and profiles, seals them again, and has every reader read them.

    make fuzz N=100000
    python tests/fuzz/recordings.py --mutations 5000 --seed 7

A mutation changes values, columns, rows, texts, types or the form of a table, or the manifest, and makes checksums
right again, as somebody would who forges a recording. Whatever the folder then holds, it opens and every reader reads
it, or the refusal is NKI019 (NKI018, NKI020): never another exception, nor more time or memory than the honest one
needs, many times over. Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.recording import folder, recording, stored
from nki_lab.kernel_runtime.recording.results import RESULTS
from nki_lab.plots.columns import FRAMES
from nki_lab.result.recorded import SavedRun
from nki_lab.wire import Messages
from tests.fuzz import recorded

CODES: Final = ("NKI018", "NKI019", "NKI020")
SECONDS: Final = 20
"""Processor time of a mutation, in which an honest recording is read fifty times."""
GROWTH: Final = 600 * 2**20
"""Bytes by which one mutation may raise the most memory that the process ever had."""


class TooLongError(BaseException):
    """Ends what takes more than its time; no reader catches it."""


@contextlib.contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TooLongError in what takes more processor time than that."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# -- what is changed ---------------------------------------------------------------------------------------------------

_TEXTS: Final = (
    "",
    "x",
    "\0",
    "a\nb",
    "\u202ebidi",
    "9" * 5000,
    "x" * 2**21,
    "dma",
    "kernel.py",
    "[",
    "%s%n",
    "é" * 300,
)
_VALUES: Final = (
    "null", "true", "-1", "0", "1e308", "-1e308", "1e999", "NaN", "-Infinity", "9" * 400, "9" * 5000, '""', '"x"',
    '"\\ud800"', "[]", "[1]", "[1,2]", '["a","b"]', "[[[]]]", "{}", '{"a":1}', '{"a":-1}', '{"dma":1e300}', '[{"code":3}]',
    '[{"gain":0.5,"line":1,"file":"nowhere.py"}]', '[{"gain":0.5,"line":"x","file":"k.py","code":"NKI701"}]',
    '[{"severity":"awful","outcome":1,"related":[{"message":1}],"file":"k.py","line":-5,"column":1}]',
    '[{"code":"NKI213","message":"m","severity":"error","file":"k.py","line":99999999999,"column":-3,"related":3}]',
    "[" * 5000 + "]" * 5000, "[" * 60 + "]" * 60, "{", "", "1" * 18, "4611686018427387904", "0.5", '{"a":{"b":[1,{"c":null}]}}',
)  # fmt: skip


def _numbers(draw: random.Random, values: Any, dtype: np.dtype[Any]) -> Any:
    """Return a changed copy of whole numbers."""
    out = values.copy()
    if not len(out):
        return out
    limits = np.iinfo(dtype)
    some = slice(None) if draw.random() < 0.2 else draw.randrange(len(out))
    match draw.randrange(6):
        case 0:
            choices = (
                limits.min,
                limits.max,
                0,
                1,
                -1,
                limits.max // 2,
                len(out),
                len(out) - 1,
                2**31 - 1,
                2**40,
                2**62 - 1,
            )
            out[some] = np.array(draw.choice(choices)).astype(dtype)
        case 1:
            with np.errstate(over="ignore"):
                out[some] += np.array(draw.choice((-1, 1, 7, -100, 1000))).astype(dtype)
        case 2:
            out = out[::-1].copy()
        case 3:
            order = list(range(len(out)))
            draw.shuffle(order)
            out = out[order]
        case 4:
            out[some] = out[draw.randrange(len(out))]
        case _:
            out[some] = np.array(draw.getrandbits(64) % (int(limits.max) + 1)).astype(dtype)
    return out


def _changed_texts(draw: random.Random, values: list[Any], given: Sequence[str]) -> list[Any]:
    out = list(values)
    if out:
        place = draw.randrange(len(out))
        out[place] = draw.choice(given)
        if draw.random() < 0.2:
            out[place] = out[draw.randrange(len(out))]
    return out


def _column(draw: random.Random, table: pa.Table, name: str, texts: Sequence[str] = _TEXTS) -> pa.Table:
    """Change the values of a column."""
    place = table.column_names.index(name)
    field = table.schema.field(place)
    column = table.column(place).combine_chunks()
    if pa.types.is_integer(field.type):
        column = column.fill_null(0)
        values = pa.array(
            _numbers(draw, column.to_numpy(zero_copy_only=False), field.type.to_pandas_dtype()), field.type
        )
    elif pa.types.is_floating(field.type):
        numbers = column.to_numpy(zero_copy_only=False).copy()
        if len(numbers):
            numbers[draw.randrange(len(numbers))] = draw.choice((np.nan, np.inf, -np.inf, 1e30, -1.0))
        values = pa.array(numbers, field.type)
    elif pa.types.is_string(field.type):
        try:
            changed = _changed_texts(draw, column.to_pylist(), texts)
        except ValueError:  # changed before
            return table
        values = pa.array(changed, field.type)
        if draw.random() < 0.1 and len(changed):  # bytes that are no text
            raw = [b"\xff\xfe\xc0" if draw.random() < 0.5 else (text or "").encode() for text in changed]
            buffers = pa.array(raw, pa.binary()).buffers()
            values = pa.StringArray.from_buffers(len(raw), buffers[1], buffers[2])
    else:
        return table
    return table.set_column(place, field, values)


def _shape(draw: random.Random, table: pa.Table) -> pa.Table:
    """Change rows or columns of a table."""
    count = len(table)
    match draw.randrange(8):
        case 0:
            return table.slice(0, 0)
        case 1:
            return table.slice(0, draw.randrange(count + 1))
        case 2:
            return table.slice(draw.randrange(count + 1))
        case 3:
            return pa.concat_tables([table] * draw.choice((2, 3, 50))).combine_chunks()
        case 4:
            return table.drop_columns([draw.choice(table.column_names)]) if table.num_columns > 1 else table
        case 5:
            place = draw.randrange(table.num_columns)
            name, kind = table.column_names[place], draw.choice((pa.string(), pa.int8(), pa.float64(), pa.uint64()))
            with contextlib.suppress(pa.ArrowException):
                return table.set_column(place, name, table.column(place).cast(kind, safe=False))
            return table
        case 6:
            place = draw.randrange(table.num_columns)
            values = []
            with contextlib.suppress(ValueError):
                values = table.column(place).to_pylist()
            if values:
                values[draw.randrange(len(values))] = None
                return table.set_column(
                    place, table.column_names[place], pa.array(values, table.schema.field(place).type)
                )
            return table
        case _:
            order = list(range(count))
            draw.shuffle(order)
            return table.take(pa.array(order, pa.int64()))


def _bomb(draw: random.Random, table: pa.Table) -> pa.Table:
    """Repeat the rows of a table until few bytes stand for very many."""
    if not len(table):
        return table
    count = draw.choice((10**5, 3 * 10**6))
    columns = []
    for column in table.columns:
        first = column.combine_chunks().slice(0, 1)
        if pa.types.is_string(first.type):
            columns.append(pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), first.fill_null("")))
        else:
            columns.append(first.take(pa.array(np.zeros(count, np.int64))))
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _write(draw: random.Random, table: pa.Table, path: Path) -> None:
    pq.write_table(
        table,
        path,
        compression=draw.choice(("none", "snappy", "zstd", "gzip")),
        use_dictionary=draw.random() < 0.5,
        write_statistics=draw.random() < 0.95,
        row_group_size=draw.choice((None, None, 3, 17)),
        data_page_version=draw.choice(("1.0", "2.0")),
    ) if len(table) < 10**5 else pq.write_table(table, path, compression="zstd", use_dictionary=True)


def _changed_json(draw: random.Random, value: Any) -> Any:
    """Change one place of data."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        name = draw.choice(list(value))
        if draw.random() < 0.1:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: _changed_json(draw, value[name])}
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        return [*value[:place], _changed_json(draw, value[place]), *value[place + 1 :]]
    return draw.choice(
        (None, True, -1, 0, 2**70, "", "x", "../x", "nki_lab.json", [], {}, 1.5, [1], [1, 99], "AAAA", -(2**40))
    )


def _tables_of(where: Path) -> dict[str, Path]:
    manifest = json.loads((where / folder.MANIFEST).read_text(encoding="utf-8"))
    return {name: where / entry["file"] for name, entry in manifest["tables"].items()}


def _seal(where: Path, name: str, path: Path) -> None:
    """Make the manifest agree with a table."""
    manifest = json.loads((where / folder.MANIFEST).read_text(encoding="utf-8"))
    manifest["tables"][name] |= folder._entry(stored.checksums_of(path))
    (where / folder.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def mutate(draw: random.Random, where: Path) -> str:
    """Change a saved recording in one to three places; return what was done."""
    told = []
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        kind = draw.choices(
            ("values", "summary", "shape", "form", "bomb", "manifest", "bytes"), (60, 16, 10, 4, 3, 4, 3)
        )[0]
        tables = _tables_of(where)
        name = "summary" if kind == "summary" else draw.choice(list(tables))
        path = tables[name]
        if kind == "manifest":
            manifest = _changed_json(draw, json.loads((where / folder.MANIFEST).read_text(encoding="utf-8")))
            (where / folder.MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
            return f"{', '.join([*told, kind])}"
        if kind == "bytes":
            content = bytearray(path.read_bytes())
            for _ in range(draw.randrange(1, 4)):
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
            try:
                _seal(where, name, path)
            except Exception:  # noqa: BLE001 - whatever Parquet says of the bytes
                return f"{', '.join([*told, f'{kind} of {name}'])}"
            told.append(f"{kind} of {name}")
            continue
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError, ValueError):
            return f"{', '.join(told)}"
        column = draw.choice(table.column_names) if table.num_columns else ""
        if kind == "summary":
            table, column = _summary(draw, table), "json"
        elif kind == "values" and column:
            table = _column(draw, table, column)
        elif kind == "shape" and table.num_columns:
            table = _shape(draw, table)
        elif kind == "bomb":
            table = _bomb(draw, table)
        _write(draw, table, path)
        _seal(where, name, path)
        told.append(f"{kind} of {name}.{column}" if kind in ("values", "summary") else f"{kind} of {name}")
    return ", ".join(told)


def _summary(draw: random.Random, table: pa.Table) -> pa.Table:
    """Change or add a result of the summary."""
    try:
        names, texts = table.column("name").to_pylist(), table.column("json").to_pylist()
    except (KeyError, ValueError):  # changed before
        return table
    if draw.random() < 0.4:
        names, texts = [*names, draw.choice((*RESULTS, "x", "fault_after", "profile"))], [*texts, draw.choice(_VALUES)]
    elif texts:
        place = draw.randrange(len(texts))
        changed = draw.choice(_VALUES)
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            if draw.random() < 0.5:
                changed = json.dumps(_changed_json(draw, json.loads(texts[place])))
        texts[place] = changed
    return pa.table({"name": pa.array(names, pa.string()), "json": pa.array(texts, pa.string())})


def mutate_profile(draw: random.Random, where: Path) -> str:
    """Change the tables of a Neuron Explorer profile in one to three places; return what was done."""
    told = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        path = draw.choice(sorted(where.glob("*.parquet")))
        kind = draw.choices(("values", "shape", "bytes", "bomb"), (75, 15, 5, 2))[0]
        if kind == "bytes":
            content = bytearray(path.read_bytes())
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
            told.append(f"{kind} of {path.stem}")
            continue
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError, ValueError):
            break
        column = draw.choice(table.column_names) if table.num_columns else ""
        if kind == "values" and column:
            table = _column(
                draw, table, column, (*_TEXTS, "trn2.48xlarge", "['/a/b.py:" + "9" * 5000 + "']", "q" + "1" * 5000)
            )
        elif kind == "shape" and table.num_columns:
            table = _shape(draw, table)
        elif kind == "bomb":
            table = _bomb(draw, table)
        _write(draw, table, path)
        told.append(f"{kind} of {path.stem}.{column}")
    return ", ".join(told)


# -- what reads it -----------------------------------------------------------------------------------------------------

Reader = Callable[[SavedRun, SavedRun, Path], object]


def _window(run: SavedRun, _: SavedRun, __: Path) -> None:
    recording = run.recording
    end = max(recording.makespan, 1)
    for begin, until in ((0, end), (end // 3, end // 2 + 1)):
        recording.sums(begin, until, 64)
    for step in range(0, len(recording), max(1, len(recording) // 7)):
        row = recording.step(step)
        recording.row(row), recording.accesses(row), recording.predecessors(row), recording.successors(row)
        recording.step_of(row), recording.at(end // (step + 1))
    recording.lane_times, recording.waits(), recording.usage_by_core(), recording.nbytes


def _messages(run: SavedRun, _: SavedRun, __: Path) -> None:
    messages = Messages(run.recording, fault=run.fault)
    messages.opening(), messages.rows(0, 5), messages.rows(len(messages) // 2, 9)
    list(messages)


def _comparison(run: SavedRun, other: SavedRun, into: Path) -> None:
    for found in (run.compare(other), other.compare(run)):
        found.report(), found.sentence, found.notes, found.as_dict(), found._repr_mimebundle_()
        for table in ("lines", "engines", "stalls", "memory", "edits", "instructions"):
            found.to_frame(table)
        found.to_html(into / "compared.html")


def _frames(run: SavedRun, _: SavedRun, __: Path) -> None:
    for plot in FRAMES:
        run.to_frame(plot)


READERS: Final[dict[str, Reader]] = {
    "texts": lambda run, other, into: run._texts(),  # of a large recording before it is checked as a whole
    "report": lambda run, other, into: (str(run), repr(run), run.report(), run.summary, run.diagnostics, run.pins),
    "window": _window,
    "hash": lambda run, other, into: run.recording.hash(),
    "messages": _messages,
    "cell": lambda run, other, into: run._repr_mimebundle_(),
    "html": lambda run, other, into: run.to_html(into / "run.html"),
    "perfetto": lambda run, other, into: run.to_perfetto(into / "run.pftrace"),
    "csv": lambda run, other, into: run.to_csv(into / "csv"),
    "explorer": lambda run, other, into: run.to_explorer(into / "explorer"),
    "frames": _frames,
    "comparison": _comparison,
    "save": lambda run, other, into: nki_lab.open(run.save(into / "again.nkirec")).recording.hash(),
}


counts: Counter[str] = Counter()
"""The mutations that are read by every reader, and those that are refused, by the reader that did."""


def problem_of(where: Path, honest: SavedRun, into: Path) -> str:
    """Return the first fault of a reader of a folder; empty where there is none."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    name = "open"
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("error")
            run = nki_lab.open(where)
            for reader, read in READERS.items():
                name = reader
                read(run, honest, into)
    except NkiError as error:
        code = error.diagnostics[0].code
        if code not in CODES:
            return f"{name}: {code} {error}"
        if str(where) not in error.diagnostics[0].message:
            return f"{name}: {code} does not name the folder: {error.diagnostics[0].message}"
        counts[f"refused by {name}"] += 1
    except TooLongError:
        return f"{name}: more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001 - each is a finding
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if "/nki_lab/" in frame.filename), frames[-1])
        return f"{name}: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:200]}"
    else:
        counts["read by all"] += 1
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return f"{name}: {grown >> 20} MiB more" if grown > GROWTH else ""


@contextlib.contextmanager
def opened_as_large() -> Iterator[None]:
    """Open recordings as those of millions of rows: they are checked as a whole when somebody reads all of a table."""
    before = recording.CHECKED_AT_ONCE
    recording.CHECKED_AT_ONCE = -1
    try:
        yield
    finally:
        recording.CHECKED_AT_ONCE = before


class Bench:
    """Honest folders and a place for changed copies of them."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self.honest = recorded.save_all(where / "honest")
        self._opened: dict[Path, SavedRun] = {}

    def attempt(self, seed: int) -> tuple[str, str]:
        """Change a folder as `seed` says: return what was done, and the fault that it led to."""
        draw = random.Random(seed)
        source = draw.choice(self.honest)
        changed, into = self._where / "changed.nkirec", self._where / "written"
        for folder_ in (changed, into):
            shutil.rmtree(folder_, ignore_errors=True)
        shutil.copytree(source, changed)
        into.mkdir()
        is_recording = (changed / folder.MANIFEST).exists()
        done = (mutate if is_recording else mutate_profile)(draw, changed)
        if source not in self._opened:
            self._opened[source] = nki_lab.open(source)
        with opened_as_large() if seed % 2 else contextlib.nullcontext():
            problem = problem_of(changed, self._opened[source], into)
        return f"{source.name}: {done}", problem


Attempt = tuple[int, str, str]
"""A seed, what was done, and the fault that it led to."""


def _attempts(seeds: range, told: Connection) -> None:
    """Attempt some seeds: tell each before, then what became of it, and in the end how readers took what they read."""
    with tempfile.TemporaryDirectory(prefix="nki-lab-fuzz-") as name:
        bench = Bench(Path(name))
        for seed in seeds:
            told.send(seed)
            told.send((seed, *bench.attempt(seed)))
    told.send(counts)


def attempts(seeds: range) -> Iterator[Attempt]:
    """Attempt some seeds in a process of their own, another one after each that ends it."""
    spawning = multiprocessing.get_context("spawn")
    while seeds:
        told, telling = spawning.Pipe(duplex=False)
        worker = spawning.Process(target=_attempts, args=(seeds, telling), daemon=True)
        worker.start()
        telling.close()
        at = seeds.start
        try:
            while worker.is_alive() or told.poll():
                item = told.recv()
                if isinstance(item, Counter):
                    counts.update(item)
                    return
                if isinstance(item, int):
                    at = item
                else:
                    yield item
        except EOFError:
            pass
        finally:
            worker.terminate()
            worker.join()
        yield at, "what its seed says", f"process: it ended with exit code {worker.exitcode}"
        seeds = range(at + 1, seeds.stop)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--mutations", type=int, default=2000, help="mutations to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; mutation i has seed + i")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    given = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    start, tried = time.perf_counter(), 0
    for seed, done, problem in attempts(range(given.seed, given.seed + given.mutations)):
        tried += 1
        if problem:
            sort = problem.partition(": ")[0] + problem.partition(" at ")[2].partition(": ")[0]
            found[sort] += 1
            if found[sort] == 1:
                print(f"seed {seed}, {done}\n    {problem}", flush=True)
            if len(found) >= given.failures:
                break
    print(f"{tried} mutations in {time.perf_counter() - start:.1f} s, "
          f"{found.total()} failed in {len(found)} places; "
          f"{', '.join(f'{number} {name}' for name, number in counts.most_common())}")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
