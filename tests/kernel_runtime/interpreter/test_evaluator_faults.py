"""Faults of a kernel's own Python are found where a run finds them: the same code at the same place."""

from __future__ import annotations

import pytest

import nki_lab
from tests.verdicts import agreed

ONE_LINE = """
[1][2]
{"a": 1}["b"]
1 / 0
5 % 0
int("a")
1 + "a"
"a" + 1
None + 1
len(5)
x + undefined_thing
undefined()
undefined.attr
[1, 2].foo
x.foo
nl.foo
nisa.foo(1)
nl.tile_size.foo
nisa.engine.foo
n.shape
None.shape
(1)(2)
x()
"abc"()
[1][1:2:0]
[1]["a"]
n[0]
x[128]
nl.load(x[0:129])
x[0, 64]
x[0, 0, 0]
x[1.5]
x[None]
x["a"]
x[[1]]
x.reshape((3, 3))
x.permute((0, 0))
nl.load(x.slice(0, 5, 300))
x.select(3, 0)
nl.ndarray((0, 3), nl.float32)
nl.ndarray("a", nl.float32)
nl.ndarray((3, 3), "float99")
nl.ndarray((3, 3), nl.float32, buffer="sbuf")
nl.ndarray()
nl.ndarray((1, 1), nl.float32, nope=1)
nl.load(3)
nl.load(x, 1, 2, 3, 4)
nl.add(1, 2)
nl.exp(None)
nl.store(x, "a")
nl.load(x) + None
nl.load(x) @ 3
if nl.load(x)[0, 0]: pass
x[0, 0] and 1
not nl.load(x)[0, 0]
1 if nl.load(x)[0, 0] else 2
while nl.load(x): pass
for i in 5: pass
for i in nl.load(x): pass
for i in None: pass
a, b = 1, 2, 3
a, b = 5
a, *b, c = [1]
for a, b in [(1, 2, 3)]: pass
range(1.5)
range(nl.load(x))
range("a")
max()
max([])
min(1)
sum("ab")
sorted([1, "a"])
math.sqrt(-1)
math.log(0)
math.nope
int(nl.load(x))
float(nl.load(x))
bool(nl.load(x)[0, 0])
assert False
assert n == 4, f"n is {n}"
assert n < 1 or n > 5 and n == 3
assert not (n == 3)
assert all([False]), "all"
raise ValueError
raise ValueError("bad")
raise RuntimeError(f"x{n}") from None
f"{n:zz}"
f"{x:3}"
"%d" % "a"
(lambda a: a)()
(lambda a: a)(1, 2)
(lambda: undefined2)()
print(undefined3)
{[1]: 2}
{[1], 2}
[i for i in 5]
[undefined4 for i in range(3)]
[i / 0 for i in range(3)]
x.shape = 3
x.foo = 3
n.foo = 3
(1, 2)[0] = 3
"abc"[0] = "d"
[1][5] = 2
del undefined5
undefined6 += 1
n += "a"
n.foo += 1
x[0:200] = 1
x[0:10, 0:10] = "a"
[].pop()
[1].remove(2)
{}.pop("a")
[1].index(3)
nisa.tensor_copy(nl.load(x), nl.load(x[0:64]))
nisa.tensor_copy(nl.load(x))
nisa.tensor_copy(1, 2)
nisa.tensor_copy(dst=x, src=x)
nisa.memset(nl.load(x), "a")
nisa.memset(nl.load(x), 1, 2, 3, 4, 5, 6)
nisa.tensor_tensor(nl.load(x), nl.load(x), nl.load(x), op="nope")
nisa.tensor_scalar(dst=nl.load(x), data=nl.load(x), op0=nl.add, operand0=x)
nisa.dma_copy(dst=nl.load(x), src=5)
nisa.activation(dst=nl.load(x), op=nl.add, data=nl.load(x))
return 5 / 0
return undefined7
x.view(nl.int8).view("zzz")
x.ap([[1, 2]], offset="a")
x.broadcast(0, 5)
nl.load(x[nl.ds(100, 64)])
nl.load(x[nl.ds(0, 0)])
zip([1], [2], strict=True) if list(zip([1], [2, 3], strict=True)) else 0
isinstance(1, 5)
getattr(x, "nope")
getattr(n, "nope")
chr(-1)
"abc".index("z")
"abc".join([1])
[1, 2].sort(key=lambda v: undefined8)
abs("a")
round("a")
divmod(1, 0)
pow(0, -1)
2 ** "a"
-"a"
~1.5
1 < "a"
1 in 5
not_defined in [1]
x < "a"
np.nope
nki.nope
match_ = nl.load(x)[:, 100]
""".strip().split("\n")

SEVERAL_LINES = """
t = nl.load(x)
t[0:2] = "a"
---
def f(t):
    return t
f.shape
---
def f(t):
    return t
f[0]
---
class C:
    pass
c = C()
len(c)
---
class C:
    pass
C() < 3
---
class C:
    pass
nl.load(x) % C()
---
class C:
    pass
a, b = f"{C()}"
---
b = 1 if (x.shape[1][2] if (x.shape[1] * nl.load(x)) else 3) else 2
---
(x
    .reshape((128, 8, 8))
    .permute((0, 2, 1))
    .foo(1))
---
nl.add(
    nl.load(x),
    nl.load(
        x[0:200]
    ),
)
""".strip("\n").split("\n---\n")


@pytest.mark.parametrize("statement", [*ONE_LINE, *SEVERAL_LINES])
def test_faults_are_the_same_at_the_same_place(statement: str) -> None:
    verdict = agreed(f"{statement}\nreturn x")
    assert verdict.code
    assert verdict.span is not None


FAULTY_MODULES = """
@dataclass(frozen=True)
class C:
    a: int = 1
||c = C()
c.a = 3
---
class C(nl.NKIObject):
    a: int
||c = C(b=3)
---
@dataclass
class C:
    a: int
||c = C()
---
class C(Enum):
    A = 1
||c = C(7)
---
class C(Enum):
    A = 1
||c = C.B
---
class C:
    def f(self):
        return self.g
||c = C()
c.f()
---
class C:
    def f(self, a):
        return a
||c = C()
c.f()
---
class C:
    pass
||c = C(1)
---
def helper(t):
    assert t.shape[0] == 1, "one"
    return t
||helper(x)
---
def a(t):
    return b(t)
def b(t):
    return t[0:500]
||nl.load(a(x))
""".strip("\n").split("\n---\n")


@pytest.mark.parametrize("snippet", FAULTY_MODULES)
def test_faults_in_methods_and_helpers_are_the_same(snippet: str) -> None:
    module, _, body = snippet.partition("||")
    assert agreed(f"{body}\nreturn x", module).code


HALF_MADE = """
import nki
import nki.language as nl


class Sums(nl.NKIObject):
    def __init__(self, rows, columns):
        self.total = nl.zeros((rows, columns), dtype=nl.float32)

    def add(self, tile):
        return nl.add(self.total, tile)


@nki.jit
def kernel(x):
    sums = Sums(x.shape[0])
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, sums.add(nl.load(x)))
    return out
"""


def test_nothing_is_said_of_an_object_whose_arguments_do_not_fit() -> None:
    (found,) = nki_lab.check(source=HALF_MADE, function="kernel", args=[nki_lab.spec((128, 64), "float32")])
    assert (found.code, found.line) == ("NKI007", 16)
    assert "missing 1 required positional argument: 'columns'" in found.message
