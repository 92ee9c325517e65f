"""Steps are paid for what an evaluation costs: long texts, arrays and messages use them up as loops do."""

from __future__ import annotations

import textwrap

import pytest

from nki_lab import query, spec
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.interpreter import UNKNOWN, Budget
from nki_lab.kernel_runtime.interpreter.array_shapes import array, resized

STEPS = 40_000
TIMES = 100
HEAD = "import functools\nimport nki\nimport nki.language as nl\nimport numpy as np\n"
VALUES = "s = 'x' * 500_000\nv = np.ones(65536)\nw = np.ones(1000)\n"


def reasons(body: str, module: str = "", steps: int = STEPS) -> list[str]:
    """Return why an evaluation of a kernel with this body leaves something out, as NKI120 says it."""
    text = f"{HEAD}{module}\n@nki.jit\ndef k(x):\n{textwrap.indent(body, '    ')}\n    return x\n"
    budget = Budget(steps=steps)
    found = query.check(source=text, function="k", args=[spec((128, 64), "float32")], target="trn2", budget=budget)
    assert "NKI901" not in {item.code for item in found}
    return [item.message for item in found if item.code == "NKI120"]


PAID = """
s.upper()
s.isprintable()
s.count("xx")
s.strip("x")
s.find("y")
"y" in s
s < s + "y"
float(s)
int(s)
"%s" % s
v + v
-v
v < v
abs(v)
divmod(v, v)
np.power(v, v)
np.median(v)
v.cumsum()
v.tolist()
v[::-1]
v[:] = 1
sum([v, v])
f"{w}"
"%s" % [w, w]
""".strip().split("\n")


@pytest.mark.parametrize("line", PAID)
def test_what_takes_long_uses_up_the_steps(line: str) -> None:
    looped = f"{VALUES}for i in range({TIMES}):\n    {line}"
    short = looped.replace("500_000", "500").replace("65536", "64").replace("1000", "1")
    assert f"evaluated up to {STEPS} steps: the rest is not checked" in reasons(looped)
    assert not any("steps" in reason for reason in reasons(short))


ENDLESS = """
{1}.union(range(2_000_000))
{-1}.intersection(range(2_000_000))
{-1}.difference(range(2_000_000))
{-1}.issubset(range(2_000_000))
{-1}.isdisjoint(range(2_000_000))
{1}.issuperset(enumerate(range(2_000_000)))
{'a': 1}.keys() | range(2_000_000)
{'a': 1}.keys() & enumerate(range(2_000_000))
{'a': 1}.items() - zip(range(2_000_000))
range(2_000_000) ^ {'a': 1}.keys()
""".strip().split("\n")


@pytest.mark.parametrize("line", ENDLESS)
def test_sets_and_views_walk_no_further_than_the_budget(line: str) -> None:
    assert reasons(line, steps=4_000_000)


LARGE = """
np.zeros((4_000_000, 0))
np.zeros(0).reshape(4_000_000, 0).sum(axis=1)
np.zeros((2, 2))[np.zeros(2000, np.int64)[:, None], np.zeros(2000, np.int64)]
np.zeros((256, 256))[[0] * 9999]
divmod(v[:, None], v[:64])
sum([v[:, None], v[:64]])
""".strip().split("\n")


@pytest.mark.parametrize("line", LARGE)
def test_arrays_that_are_large_are_not_built(line: str) -> None:
    text = f"{HEAD}\n@nki.jit\ndef k(x):\n{textwrap.indent(VALUES, '    ')}    assert len({line}) < 0\n    return x\n"
    found = query.check(source=text, function="k", args=[spec((128, 64), "float32")], target="trn2")
    assert not {"NKI007", "NKI901"} & {item.code for item in found}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("np.ones((4, 4))[[0, 1], 1:].shape[1]", 3),
        ("np.ones((1000, 2))[np.zeros(500, np.int64)].shape[0]", 500),
        ("np.ones((4, 4))[np.ones((4, 4)) > 0].shape[0]", 16),
        ("int(sum([np.ones(3), np.ones(3)])[0])", 2),
        ("len({1, 2}.union([3], (4,)))", 4),
        ("int({1, 2}.issubset(range(9)))", 1),
        ("len({'a': 1, 'b': 2}.keys() & {'a', 'c'})", 1),
        ("len({'a': 1, 'b': 2}.keys() | ['a', 'c'])", 3),
        ("len(['a', 'c', 'd'] - {'a': 1}.keys())", 2),
        ("len(({'a': 1} | {'b': 2}).keys())", 2),
        ("len(np.zeros((0, 5)))", 0),
        ("int(divmod(np.arange(5), 2)[0][4])", 2),
    ],
)
def test_what_is_small_is_computed(line: str, found: int) -> None:
    text = f"{HEAD}\n@nki.jit\ndef k(x):\n    n = {line}\n    assert n == {found} + 1, n\n    return x\n"
    items = query.check(source=text, function="k", args=[spec((128, 64), "float32")], target="trn2")
    assert any(item.code == "NKI007" and item.message.endswith(f"AssertionError: {found}") for item in items)


def test_integers_in_arrays_of_objects_do_not_grow() -> None:
    assert reasons("b = np.full(3, 9).astype('O')\nfor i in range(4):\n    b = b * b")[:1] == [
        "an array of objects is not built"
    ]


def test_host_arrays_have_sizes_that_numpy_has() -> None:
    assert resized((10**18,), DTYPES["float32"]) is not UNKNOWN
    assert resized((10**19,), DTYPES["float32"]) is UNKNOWN
    assert array((10**19, 2), "float32") is UNKNOWN


def test_long_messages_of_caught_exceptions_are_paid_for() -> None:
    body = (
        f"{VALUES}for i in range({TIMES}):\n    try:\n        raise ValueError(s)\n    except ValueError:\n        pass"
    )
    assert any("steps" in reason for reason in reasons(body))


def test_names_that_nobody_types_are_compared_with_nothing() -> None:
    assert did_you_mean("affine_rang", ["affine_range"])
    assert did_you_mean("x" * 201, ["x" * 200]) == ""
