"""Tests of kernels are called as pytest and unittest call them: with rows of values, fixtures and what sets them up."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.interpreter import ModuleFinder, ModuleSource, launches

HEAD = """import nki
import nki.language as nl
import numpy as np
import pytest
import unittest
import third_party
"""
KERNEL = "@nki.jit\ndef k(x, n=1):\n    return x\n"


def known(text: str) -> list[str]:
    return [str(item) for item in launches(ModuleSource.parse(f"{HEAD}{KERNEL}{text}", "k.py"), ["k"]).own["k"]]


def on_disk(folder: Path, text: str) -> list[str]:
    file = folder / "test_k.py"
    file.write_text(f"{HEAD}{KERNEL}{text}")
    module = ModuleSource.parse(file.read_text(), str(file))
    return [str(item) for item in launches(module, ["k"], library=ModuleFinder()).own["k"]]


TEST = "def test_k(m, n):\n    k(np.zeros((m, n)))\n"


@pytest.mark.parametrize(
    "marks",
    [
        "@pytest.mark.parametrize('m, n', [(4, 3), (8, 8)])",
        "@pytest.mark.parametrize('m,n', [(4, 3), (8, 8)], ids=['small', 'large'])",
        "@pytest.mark.parametrize(['m', 'n'], [[4, 3], [8, 8]], ids=str)",
        "@pytest.mark.parametrize(('m', 'n'), ((4, 3), pytest.param(8, 8, id='large', marks=pytest.mark.slow)))",
        "@pytest.mark.parametrize(argnames='m, n', argvalues=[(4, 3), (8, 8)], scope='module')",
        "@pytest.mark.parametrize('m', [4, 8])\n@pytest.mark.parametrize('n', [3, 8])",
        "@third_party.logged\n@pytest.mark.parametrize('m, n', [(4, 3), (8, 8)])\n@pytest.mark.fast",
        "rows = [(4, 3), (8, 8)]\n@pytest.mark.parametrize('m, n', [row for row in rows])",
    ],
)
def test_rows_of_a_parametrized_test_are_followed(marks: str) -> None:
    assert known(f"{marks}\n{TEST}") == ["(float32[4,3])", "(float32[8,8])"]


CLASS = "class TestK:\n    def test_k(self, m, n):\n        k(np.zeros((m, n)))\n"


@pytest.mark.parametrize(
    "text",
    [
        f"@pytest.mark.parametrize('m, n', [(4, 3)])\n{CLASS}",
        f"pytestmark = pytest.mark.parametrize('m, n', [(4, 3)])\n{CLASS}",
        f"pytestmark = [pytest.mark.slow, pytest.mark.parametrize('m, n', [(4, 3)])]\n{TEST}",
        CLASS.replace("class TestK:\n", "class TestK:\n    pytestmark = pytest.mark.parametrize('m, n', [(4, 3)])\n"),
        "class Base:\n    size = 4\n    def test_k(self):\n        k(np.zeros((self.size, 3)))\nclass TestK(Base):\n    pass\n",
        "class TestK:\n    @staticmethod\n    def test_k():\n        k(np.zeros((4, 3)))\n",
        (
            "class TestK(unittest.TestCase):\n    def setUp(self):\n        self.x = np.zeros((4, 3))\n"
            "    def test_k(self):\n        k(self.x)\n"
        ),
        (
            "class TestK(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        cls.x = np.zeros((4, 3))\n"
            "    def test_k(self):\n        k(self.x)\n"
        ),
        (
            "class TestK:\n    def setup_method(self):\n        self.x = np.zeros((4, 3))\n"
            "    def test_k(self):\n        k(self.x)\n"
        ),
    ],
)
def test_methods_are_followed_with_the_rows_and_attributes_of_their_classes(text: str) -> None:
    assert known(text) == ["(float32[4,3])"]


@pytest.mark.parametrize(
    "fixture",
    [
        "@pytest.fixture\ndef x():\n    return np.zeros((4, 3))",
        "@pytest.fixture(scope='module')\ndef x():\n    return np.zeros((4, 3))",
        "@pytest.fixture\ndef x():\n    made = np.zeros((4, 3))\n    yield made\n    made.close()",
        "@pytest.fixture(name='x')\ndef made():\n    return np.zeros((4, 3))",
        "@pytest.fixture\ndef rows():\n    return 4\n@pytest.fixture\ndef x(rows):\n    return np.zeros((rows, 3))",
        "@pytest.fixture(params=[4])\ndef x(request):\n    return np.zeros((request.param, 3))",
    ],
)
def test_fixtures_give_their_values(fixture: str) -> None:
    assert known(f"{fixture}\ndef test_k(x, tmp_path):\n    k(x)\n") == ["(float32[4,3])"]


def test_each_parameter_of_a_fixture_is_followed() -> None:
    fixture = "@pytest.fixture(params=[4, 8], ids=['a', 'b'])\ndef m(request):\n    return request.param\n"
    assert known(f"{fixture}def test_k(m):\n    k(np.zeros((m, 3)))\n") == ["(float32[4,3])", "(float32[8,3])"]


def test_fixtures_of_the_folders_above_are_seen(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    inner = tmp_path / "tests" / "unit"
    inner.mkdir(parents=True)
    fixture = "import pytest\n@pytest.fixture\ndef rows():\n    return {}\n"
    (tmp_path / "tests" / "conftest.py").write_text(fixture.format(4))
    (tmp_path.parent / "conftest.py").write_text(fixture.format(9))
    assert on_disk(inner, "def test_k(rows):\n    k(np.zeros((rows, 3)))\n") == ["(float32[4,3])"]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.parametrize('m', third_party.ROWS)\ndef test_k(m):\n    k(np.zeros((4, 3)), m)\n",
        "@pytest.mark.parametrize('m', [4], indirect=True)\ndef test_k(m):\n    k(np.zeros((4, 3)), m)\n",
        "@pytest.mark.parametrize('m', [third_party.M])\ndef test_k(m):\n    k(np.zeros((4, 3)), m)\n",
        "@pytest.fixture\ndef m():\n    return third_party.M\ndef test_k(m):\n    k(np.zeros((4, 3)), m)\n",
        "@pytest.fixture\ndef m(m):\n    return m\ndef test_k(m):\n    k(np.zeros((4, 3)), m)\n",
    ],
)
def test_an_unknown_parameter_is_unknown_by_itself(text: str) -> None:
    assert known(text) == ["(float32[4,3], <unknown>)"]


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.skip\ndef test_k():\n    k(np.zeros((4, 3)))\n",
        "@pytest.mark.skip(reason='slow')\ndef test_k():\n    k(np.zeros((4, 3)))\n",
        (
            "@pytest.mark.parametrize('m', [pytest.param(4, marks=pytest.mark.xfail)])\n"
            "def test_k(m):\n    k(np.zeros((m, 3)))\n"
        ),
        (
            "@pytest.mark.parametrize('m', [pytest.param(4, marks=[pytest.mark.xfail(reason='no')])])\n"
            "def test_k(m):\n    k(np.zeros((m, 3)))\n"
        ),
    ],
)
def test_what_is_skipped_or_fails_is_not_followed(text: str) -> None:
    assert not known(text)


def test_a_mark_that_names_parameters_may_parametrize() -> None:
    text = "@pytest.mark.sweep(m=[4, 8], n=[3], coverage='pairs')\n"
    module = ModuleSource.parse(f"{HEAD}{KERNEL}{text}{TEST}", "k.py")
    found = launches(module, ["k"]).own["k"]
    assert [str(item) for item in found] == ["(float32[4,3])", "(float32[8,3])"]
    assert all(item.assumed for item in found)


def test_a_long_test_does_not_keep_others_from_being_followed() -> None:
    endless = "def test_a():\n    n = 0\n    while True:\n        n += 1\n"
    assert known(f"{endless}def test_k():\n    k(np.zeros((4, 3)))\n") == ["(float32[4,3])"]


@given(
    rows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40, unique=True),
    split=st.booleans(),
)
def test_every_call_is_one_of_the_product(rows: list[tuple[int, int]], split: bool) -> None:
    marks = f"@pytest.mark.parametrize('m, n', {rows})\n"
    if split:
        firsts, seconds = [m for m, _ in rows], [n for _, n in rows]
        marks = f"@pytest.mark.parametrize('m', {firsts})\n@pytest.mark.parametrize('n', {seconds})\n"
    found = known(marks + TEST)
    product = {f"(float32[{m},{n}])" for m, _ in rows for _, n in rows} if split else set()
    assert found
    assert set(found) <= product | {f"(float32[{m},{n}])" for m, n in rows}
