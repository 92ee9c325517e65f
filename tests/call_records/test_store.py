"""The file of a project's recorded calls."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.call_records import store
from nki_lab.call_records.store import CallRecord, chosen, merged, place_of, read, text_of, update


def call(number: int, origin: str = "a", **more: Any) -> CallRecord:
    return CallRecord(arguments={"x": {"tensor": f"float32[{number}]"}} | more, target="trn2", origins=(origin,))


def add(folder: Path, table: store.Table) -> store.Contents:
    return update(folder, lambda before: merged(before, table))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    table = {("a/b.py", "f"): (call(1),), ("c.py", "g"): (CallRecord(arguments={"n": 1}, inner=True, grid=(2,)),)}
    add(tmp_path, table)
    assert read(tmp_path).table == table
    assert not read(tmp_path).problems
    assert sorted(item.name for item in place_of(tmp_path).parent.iterdir()) == ["signatures.json"]


def test_a_file_that_does_not_change_is_not_written_again(tmp_path: Path) -> None:
    add(tmp_path, {("a.py", "f"): (call(1),)})
    before = place_of(tmp_path).stat()
    add(tmp_path, {("a.py", "f"): (call(1),)})
    assert place_of(tmp_path).stat().st_ino == before.st_ino


def test_nothing_is_made_where_nothing_is_recorded(tmp_path: Path) -> None:
    add(tmp_path, {})
    assert not place_of(tmp_path).exists()


@given(st.permutations(range(30)), st.integers(1, 29))
def test_the_text_depends_on_the_calls_alone(order: list[int], cut: int) -> None:
    calls = [call(number, more=number % 3 == 0) for number in order]
    at_once = merged({}, {("a.py", "f"): tuple(calls)})
    in_parts = merged({("a.py", "f"): tuple(calls[:cut])}, {("a.py", "f"): tuple(calls[cut:])})
    sorted_first = merged({}, {("a.py", "f"): tuple(call(n, more=n % 3 == 0) for n in range(30))})
    assert text_of(at_once) == text_of(in_parts) == text_of(sorted_first)
    assert len(at_once["a.py", "f"]) == store.MOST_CALLS


def test_calls_of_every_kind_stay() -> None:
    kinds = [call(1, flag=flag) for flag in ("a", "b", "c", True, False, None, [])]
    kept = chosen([*(call(number, flag="a") for number in range(2, 200)), *kinds])
    assert len(kept) == store.MOST_CALLS
    assert {item.kind for item in kinds} <= {item.kind for item in kept}


def test_equal_calls_share_their_origins() -> None:
    (found,) = merged(
        {("a.py", "f"): (call(1, "b"),)}, {("a.py", "f"): (call(1, "a"), call(1, "c"), call(1, "d"))}
    ).values()
    assert [item.origins for item in found] == [("a", "b", "c")]


def test_a_large_table_is_cut(tmp_path: Path) -> None:
    long = {("a.py", f"f{number}"): tuple(call(n, text="x" * 300) for n in range(16)) for number in range(250)}
    add(tmp_path, long)
    assert place_of(tmp_path).stat().st_size <= store.MOST_BYTES
    assert len(read(tmp_path).table) == 250


GOOD = '"a.py::f": [{"arguments": {}, "grid": [], "target": "", "from": []}]'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "\x00\xff",
        "[" * 100_000,
        '{"version": 2, "functions": {}}',
        '{"version": 1, "functions": []}',
        '{"version": 1}',
        '{"version": 1, "functions": {"a.py::f": [{"arguments": {"x": NaN}}]}}',
        '{"version": 1, "functions": {"a.py::f": ' + "9" * 10_000 + "}}",
    ],
    ids=range(11),
)
def test_a_file_that_is_none_is_refused_and_stays(tmp_path: Path, text: str) -> None:
    place = place_of(tmp_path)
    place.parent.mkdir()
    place.write_bytes(text.encode("latin-1"))
    found = read(tmp_path)
    assert found.refused
    assert found.problems
    assert not found.table
    assert add(tmp_path, {("a.py", "f"): (call(1),)}).refused
    assert place.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize(
    "part",
    [
        '"/etc/passwd::f": []',
        '"../a.py::f": [1]',
        '"a.py": []',
        '"a.py::f()": []',
        '"a.py::f": {}',
        '"a.py::f": [1]',
        '"a.py::f": [{"arguments": []}]',
        '"a.py::f": [{"arguments": {"not a name": 1}}]',
        '"a.py::f": [{"arguments": {}, "grid": [0]}]',
        '"a.py::f": [{"arguments": {}, "grid": [true]}]',
        '"a.py::f": [{"arguments": {}, "from": [1]}]',
        '"a.py::f": [{"arguments": {"x": ' + "[" * 900 + "]" * 900 + "}}]",
        '"a\\u0007.py::f": []',
    ],
    ids=range(13),
)
def test_a_part_that_is_not_understood_is_left_out(tmp_path: Path, part: str) -> None:
    place = place_of(tmp_path)
    place.parent.mkdir()
    place.write_text(f'{{"version": 1, "functions": {{"b.py::g": [{{"arguments": {{}}}}], {part}}}}}')
    found = read(tmp_path)
    assert [*found.table] == [("b.py", "g")]
    assert len(found.problems) == 1
    assert not found.refused


def test_a_pipe_and_a_folder_are_not_read(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.parent.mkdir()
    os.mkfifo(place)
    assert read(tmp_path).refused
    place.unlink()
    place.mkdir()
    assert read(tmp_path).refused


def test_a_folder_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".nki-lab").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="a link"):
        add(tmp_path, {("a.py", "f"): (call(1),)})
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_link_in_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim.json"
    victim.write_text('{"version": 1, "functions": {}}')
    place = place_of(tmp_path)
    place.parent.mkdir()
    place.symlink_to(victim)
    add(tmp_path, {("a.py", "f"): (call(1),)})
    assert not place.is_symlink()
    assert json.loads(victim.read_text())["functions"] == {}


def _write(folder: str, writer: int) -> None:
    for number in range(8):
        add(Path(folder), {(f"{writer}.py", f"f{number}"): (call(number),)})


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(str(tmp_path), writer)) for writer in range(3)]
    for item in writers:
        item.start()
    for item in writers:
        item.join()
    assert [item.exitcode for item in writers] == [0, 0, 0]
    assert len(read(tmp_path).table) == 24
    assert [item.name for item in place_of(tmp_path).parent.iterdir()] == ["signatures.json"]
