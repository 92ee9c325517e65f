"""Hostile source is bounded: it ends in time, in memory, and with a finding that says what was not looked at."""

from __future__ import annotations

import textwrap
import tracemalloc
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import query, spec
from nki_lab.kernel_runtime.interpreter import UNKNOWN, Budget
from nki_lab.kernel_runtime.interpreter.values import has_unknown

HEAD = "import math\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n"
BUDGET = Budget(steps=100_000)
SECONDS = 9.0  # on a busy machine
MEMORY = 300 * 2**20  # bytes


def checked(body: str, budget: Budget = BUDGET, module: str = "") -> set[str]:
    """The codes found in a kernel with this body, in bounded time and memory."""
    text = f"{HEAD}{module}\n@nki.jit\ndef k(x):\n{textwrap.indent(body, '    ')}\n    return x\n"
    start = perf_counter()
    found = query.check(source=text, function="k", args=[spec((128, 64), "float32")], target="trn2", budget=budget)
    assert perf_counter() - start < SECONDS
    codes = {item.code for item in found}
    assert "NKI901" not in codes
    return codes


ENDLESS = """
while True: pass
while True: x[0:1]
while 1: nl.ndarray((1, 1), nl.float32)
for i in range(10**12): pass
list(range(10**12))
tuple(range(10**12))
set(range(10**12))
sum(range(10**12))
max(range(10**12))
sorted(range(10**12))
any(False for i in range(10**12))
[i for i in range(10**12)]
[0 for i in range(10**6) for j in range(10**6)]
{i: i for i in range(10**12)}
list(map(str, range(10**12)))
list(zip(range(10**12), range(10**12)))
list(enumerate(range(10**12)))
list(reversed(range(10**12)))
[*range(10**12)]
max(*range(10**12))
a, b = range(10**12)
*a, b = range(10**12)
a = [1]; a[0:1] = range(10**12)
a = []; a.extend(range(10**12))
a = []; a += range(10**12)
a = set(); a.update(range(10**12))
a = dict(zip(range(10**12), range(10**12)))
"".join(str(i) for i in range(10**12))
math.prod(range(1, 10**12))
math.fsum(range(10**12))
math.lcm(*range(1, 10**5))
np.multiply(10**400, 10**400)
nl.zeros((10**10, 1), nl.uint8, buffer=nl.shared_hbm)
list(nl.ndarray((10**10, 1), nl.uint8, buffer=nl.shared_hbm))
for row in nl.ndarray((10**10, 1), nl.uint8, buffer=nl.shared_hbm): pass
10**10**10
2**2**20
1 << 10**12
pow(10, 10**10)
round(5, -10**9)
"a" * 10**12
[0] * 10**12
(0,) * 10**12
10**12 * [0]
f"{1:1000000000}"
f"{1:{10**9}}"
"%1000000000d" % 1
"%*d" % (10**9, 1)
format(1, "1000000000")
"a".ljust(10**12)
"a".zfill(10**12)
("a" * 1000).replace("a", "b" * 900000)
""".strip().split("\n")

LOOPS = """
a = 2
while True: a = a * a
---
a = 2
while True: a **= a
---
a = 1
while True: a <<= 100
---
a = [0]
while True: a = a + a
---
a = [0]
while True: a += a
---
a = (0,)
while True: a = a * 3
---
a = "x"
while True: a += a
---
a = "x"
while True: a = f"{a}{a}"
---
b = []
while True: b.append([0] * 90000)
---
b = []
while True: b.append("x" * 90000 + str(len(b)))
---
d = {}
while True: d[len(d)] = [0] * 1000
---
a = set(range(1000))
while True: b = a | a
---
a = list(range(9000))
while True: b = a.copy(), a[:], a == a, max(a), a.index(5), 8999 in a, sorted(a)
---
t = nl.load(x)
while True: nisa.tensor_copy(t, t)
---
def f(n): return f(n - 1) + f(n - 2)
f(60)
---
b = []
while True: b.append(nl.ndarray((128, 512), nl.float32))
""".strip().split("\n---\n")


@pytest.mark.parametrize("value", ["np.power(2**70, 10**9)", "np.add(2**900, 1)", "np.tri(10**12)", "np.eye(10**6)"])
def test_numpy_computes_numbers_of_fixed_width_and_small_arrays_only(value: str) -> None:
    assert "NKI122" in checked(f"if {value} > 1: nl.load(x)")


@pytest.mark.parametrize("statement", [*ENDLESS, *LOOPS])
def test_endless_work_ends_with_a_finding(statement: str) -> None:
    assert "NKI120" in checked(statement)


QUIET = """
0.5 in range(10**12)
range(10**12).index(0.5)
pow(10, 10**10, 7)
math.factorial(10**9)
np.zeros((10**6, 10**6))
np.arange(10**12)
5 in zip(range(10**12))
bytes(10**12)
bytearray(10**12)
""".strip().split("\n")


@pytest.mark.parametrize("statement", QUIET)
def test_what_is_not_computed_costs_nothing(statement: str) -> None:
    start = perf_counter()
    assert not checked(statement) - {"NKI120", "NKI130"}  # NKI130: kernels compute nothing with NumPy
    assert perf_counter() - start < SECONDS


DEEP = """
def f(n): return f(n + 1)
f(0)
---
def f(n): return g(n)
def g(n): return f(n)
f(0)
---
f = lambda s: s(s)
f(f)
---
class A(nl.NKIObject):
    @property
    def p(self): return self.p
    def __getitem__(self, k): return self[k]
    def __call__(self): return self()
a = A()
a.p
a[0]
a()
""".strip().split("\n---\n")


@pytest.mark.parametrize("statements", DEEP)
def test_endless_recursion_ends_with_a_finding(statements: str) -> None:
    assert "NKI120" in checked(statements)


TWICE = "a = {start}\nfor i in range(60):\n    a = {pair}\nb = {start}\nfor i in range(60):\n    b = {pair_b}\n"


@pytest.mark.parametrize("kind", ["[]", "()"])
@pytest.mark.parametrize(
    "use",
    ["a == b", "str(a)", "f'{a}'", "a in [b]", "sorted([a, b])", "max(a, b)", "{a: 1}", "{a}", "set([a])", "hash(a)",
     "{}.get(a)", "'%s' % a", "nl.load(a)", "nl.ndarray(a, nl.float32)", "nl.ndarray((1, a), nl.float32)", "x[a]",
     "x.reshape(a)", "nl.ndarray((1, 1), nl.float32, name=a)", "print(a)", "[a].index(b)", "repr(a)", "a < b"],
)  # fmt: skip
def test_containers_that_share_parts_do_not_explode(kind: str, use: str) -> None:
    """Sixty lists, each holding the one before twice, have 2**60 paths through them."""
    pair, pair_b = ("[a, a]", "[b, b]") if kind == "[]" else ("(a, a)", "(b, b)")
    checked(TWICE.format(start=kind, pair=pair, pair_b=pair_b) + use)


@pytest.mark.parametrize("value", ["[]\na.append(a)", "(x,)\nfor i in range(60): a = (a, a)", "{}\na['a'] = a"])
def test_a_result_without_end_is_not_walked(value: str) -> None:
    assert "NKI120" in checked(f"a = {value}\nreturn a")


@pytest.mark.parametrize(
    "source",
    ["a = " + "(" * 90 + "1" + ")" * 90, "a = " + "+".join("1" * 20000), "a = " + "-" * 5000 + "1",
     "a = x" + ".b" * 3000, "a = x" + "[0]" * 900, "a = " + "[" * 90 + "]" * 90, "a = " + "f(" * 90 + ")" * 90,
     "a = " + "1 if x else " * 500 + "2", "a = " + " and ".join(["x"] * 2000), "a = " + " < ".join(["1"] * 2000),
     "a = [" + ",".join(map(str, range(20000))) + "]", "a = '" + "x" * 10**6 + "'", "a = " + "9" * 4000,
     "if 0: pass\n" + "".join(f"elif {i} == -1: pass\n" for i in range(500))],
    ids=range(14),
)  # fmt: skip
def test_deep_and_giant_expressions_are_survived(source: str) -> None:
    checked(source)


def test_deep_blocks_are_survived() -> None:
    checked("".join("    " * i + "if 1:\n" for i in range(80)) + "    " * 80 + "pass")


@pytest.mark.parametrize("module", ["while True: pass", "a = [0]\nwhile True: a = a + a", "def f(): f()\nf()"])
def test_a_module_that_does_not_end_is_bounded(module: str) -> None:
    assert "NKI120" in checked("pass", module=module)


def test_findings_before_the_end_of_the_budget_are_kept() -> None:
    assert checked("nl.load(x[0:500])\nwhile True: pass") == {"NKI303", "NKI120"}


@pytest.mark.slow
def test_memory_stays_bounded() -> None:
    tracemalloc.start()
    try:
        for body in LOOPS[3:12]:
            checked(body, Budget(steps=500_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY


@pytest.mark.parametrize(
    "text", ["a\0b", 'a = "\ud800"', "", "\n", "\f", "if 1:\n\tx\n        y", "\ufeffx = 1", "'''"]
)
def test_odd_texts_are_survived(text: str) -> None:
    query.check(source=text, function="k")
    query.hover(text, 1, 1)


WORDS = ["x", "nl", "nisa", "k", "f", "a", "0", "1", "3.5", "'s'", "None", "[", "]", "(", ")", "{", "}", ":", ",", ".",
         "=", "+", "*", "**", "//", "%", "-", "<", "in", "not", "and", "or", "if", "else", "for", "while", "break",
         "return", "def", "lambda", "class", "import", "del", "assert", "raise", "try", "except", "with", "as",
         "load", "shape", "append", "range", "list", "len", "ndarray", "\n", "\n    ", "\n        "]  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_no_text_makes_it_fail(words: list[str]) -> None:
    text = f"{HEAD}@nki.jit\ndef k(x):\n    a = [1]\n    def f(y): return y\n    {' '.join(words)}\n"
    found = query.check(source=text, function="k", args=[spec((128, 64), "float32")], budget=BUDGET)
    assert "NKI901" not in {item.code for item in found}


@given(st.text(max_size=80))
def test_no_characters_make_it_fail(text: str) -> None:
    query.check(source=text, function="k", args=[spec((4, 4), "float32")], budget=BUDGET)
    query.hover(text, 1, 1)


NESTED = "[[[0] * 1000] * 1000] * 1000"
LARGE = (NESTED, f"C({NESTED})", "C.itself()", "['x' * 10**5] * 9999", "{'a': " + NESTED + "}", f"({NESTED},)[0][:5]")
OBJECTS = """
class C:
    def __init__(self, value=None):
        self.value = value
    @staticmethod
    def itself():
        made = C()
        made.value = made
        return made
"""


@pytest.mark.parametrize(
    "call", ["k(np.zeros((128, 64)), {})", "k(np.zeros((128, 64)), b={})", "k[{}](np.zeros((128, 64)), 1)"]
)
@pytest.mark.parametrize("value", LARGE)
def test_large_arguments_of_a_launch_count_as_unknown(value: str, call: str) -> None:
    text = f"{HEAD}{OBJECTS}@nki.jit\ndef k(x, b):\n    return x\n{call.format(value)}\n"
    start = perf_counter()
    found = query.check(source=text, target="trn2", budget=BUDGET)
    assert perf_counter() - start < SECONDS
    assert "NKI901" not in {item.code for item in found}


@pytest.mark.parametrize("value", LARGE)
def test_large_defaults_end_with_the_budget(value: str) -> None:
    text = f"{HEAD}{OBJECTS}@nki.jit\ndef k(x, b={value}):\n    return x\nk(np.zeros((128, 64)))\n"
    start = perf_counter()
    found = query.check(source=text, target="trn2", budget=BUDGET)
    assert perf_counter() - start < SECONDS
    assert "NKI901" not in {item.code for item in found}


def test_an_argument_that_holds_itself_is_told() -> None:
    class C:
        me: object = None

    itself = C()
    itself.me = itself
    text = f"{HEAD}class C: pass\n@nki.jit\ndef k(x, b):\n    return x\n"
    found = query.check(source=text, function="k", args=[spec((128, 64), "float32"), itself])
    assert [(item.code, item.message) for item in found] == [("NKI120", "the arguments are nested too deeply")]


PARTS = st.recursive(
    st.sampled_from([1, "x", UNKNOWN]),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.just("k"), inner),
    max_leaves=8,
)


@given(PARTS)
def test_what_containers_hold_is_looked_at_four_deep(value: object) -> None:
    def holds(value: object, depth: int) -> bool:
        if isinstance(value, list | tuple | dict) and depth:
            parts = value.values() if isinstance(value, dict) else value
            return any(part is UNKNOWN or holds(part, depth - 1) for part in parts)
        return value is UNKNOWN

    assert has_unknown(value) is holds(value, 4)
    assert has_unknown([value] * 2) is (value is UNKNOWN or holds(value, 3))


def test_members_of_an_enumeration_with_equal_values_are_one() -> None:
    module = """
from enum import Enum, auto
class E(Enum):
    a = [1]
    b = [1]
    c = -5
    d = auto()
    e = (1, 2)
    f = (1, 2)
"""
    right = "assert E.a == E.b and E.e == E.f and E.d.value == -4 and len(list(E)) == 4"
    assert checked(right, module=module) == set()
    assert checked("assert E.a != E.b", module=module) == {"NKI007"}


def test_an_enumeration_of_many_members_is_made_in_time() -> None:
    members = "\n".join(f"    m{i} = {i}" for i in range(20_000))
    assert (
        checked("assert len(list(E)) == 20_000", module=f"from enum import Enum\nclass E(Enum):\n{members}\n") == set()
    )
