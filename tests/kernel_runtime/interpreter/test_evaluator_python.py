"""The evaluator's Python is Python: each snippet runs in a kernel under the tracer and is evaluated, with one outcome.

Values meet in the name of a tensor, which both programs show.
"""

from __future__ import annotations

import pytest

from tests.verdicts import agreed

SHOW = "nl.ndarray((1, 1), nl.float32, name=repr(v))\nreturn x"


EXPRESSIONS = """
1 + 2 * 3 - 4 // 3 % 2 ** 3
-7 // 2, -7 % 3, 7.5 // 2, 2 ** -1, 1e3
[1, 2, 3][1:], (1, 2, 3)[::-1], "abc"[-1], "abcdef"[1:4:2]
{"a": 1, **{"b": 2}}
[*range(3), *(4, 5)]
1 < 2 < 3, 1 < 2 > 3, 1 == 1.0, "a" in "abc", 3 not in [1, 2], None is None
not [], not 0, bool("a"), 0 or "x", 1 and 2, None or 0
1 if n > 2 else 2
len([1, 2]), sum([1, 2], 3), max(1, 5, 3), min([4, 2]), abs(-3.5), round(2.567, 2), sorted([3, 1, 2], reverse=True)
int("12"), float("1.5"), str(3.0), bool(0), list("abc"), tuple([1]), dict(a=1), set([1, 1]), divmod(7, 2), pow(2, 5)
list(zip([1, 2], "ab")), list(enumerate("ab", 1))
list(reversed([1, 2])), list(map(str, [1, 2])), list(filter(None, [0, 1]))
any([0, 1]), all([1, 0]), any(i > 1 for i in range(3)), all([])
[i * j for i in range(3) for j in range(i) if i != j], {i: i * i for i in range(3)}, {i % 2 for i in range(4)}
isinstance(1, int), isinstance("a", (int, str))
isinstance(x, nl.NkiTensor), isinstance(None, type(None)), isinstance(True, int)
f"{1:03d}|{2.5:.2f}|{'a':>4}|{n!r}|{[1, 'a']}|{{}}"
"a,b".split(","), "-".join(["a", "b"]), " x ".strip()
"abc".upper(), "a{}".replace("{}", "b"), "abc".startswith("ab"), "x".zfill(3)
math.ceil(2.1), math.floor(-2.1), math.sqrt(16), math.log2(8), math.pi, math.prod([2, 3]), math.gcd(12, 8), math.inf
int(np.prod((2, 3))), int(np.ceil(2.1)), float(np.sqrt(4)), np.float32(1.5), np.int32(3), np.prod(x.shape), np.inf
x.shape, x.shape[0], x.ndim, x.size, x.dtype, str(x.dtype), x.buffer == nl.shared_hbm, x.strides, x.offset
x.shape == (128, 64), x.dtype == nl.float32, x.dtype in (nl.float32, nl.bfloat16), nl.bfloat16
nl.tile_size.pmax, nl.tile_size.psum_fmax
nl.tile_size.gemm_moving_fmax, nisa.get_nc_version() >= nisa.nc_version.gen3
nl.program_id(0), nl.num_programs(0), nl.program_ndim()
(lambda a, b=2, *c, d=4, **e: (a, b, c, d, e))(1, 3, 5, d=6, f=7)
[1, 2] + [3], [0] * 3, "ab" * 2, (1,) + (2,), [1, 2] == [1, 2], (1, 2) < (1, 3)
[1, 2, 3].index(2), [1, 1].count(1), {"a": 1}.get("b", 5), {"a": 1}.items(), list({"a": 1}.keys()), (1, 2).index(2)
1 << 4, 255 >> 2, 6 & 3, 6 | 1, 6 ^ 3, ~5, +3, --3
3 .bit_length(), (2.0).is_integer(), range(5).stop, slice(1, 2).start
nl.ds(3, 4), nl.add, nisa.engine.vector, nisa.engine.vector.name, nl.sbuf.value, nl.psum
getattr(x, "shape"), getattr(x, "nope", 3), hasattr(x, "shape"), hasattr(x, "nope"), callable(len)
[[1, 2], [3]][0][1], {"a": {"b": 1}}["a"]["b"], ((1, 2), 3)
chr(65), ord("A"), hex(255), bin(5), repr("a"), format(3.14159, ".2f")
max([1, 2], key=None), sorted(["b", "a"]), sorted([1, -2], key=lambda v: abs(v)), min("abc"), sum(range(5))
True + 1, 1.0 == True, "%d-%s" % (1, "a"), "%5.2f" % 3.14159
nisa.nc_version.gen2 < nisa.nc_version.gen3, nisa.dge_mode.none, nl.float8_e4m3, np.dtype("float32")
list(nisa.reduce_cmd)[0], nisa.reduce_cmd.reset.value, len(list(nisa.engine))
type(1), type("a") == str, type(n) is int, type([]) == list
np.finfo(np.float32).max, np.iinfo(np.int8).min, np.maximum(1, 2), np.log2(8), np.pi
""".strip().split("\n")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_have_python_s_values(expression: str) -> None:
    assert not agreed(f"v = {expression}\n{SHOW}").code


LONG = range(-40, 60)  # longer than what is compiled item by item
TABLES = {
    "numbers": f"[{', '.join(map(str, LONG))}]",
    "signs of other kinds": f"[{', '.join(map(str, LONG))}, +1, -2.5, ~3, -True, -(1)]",
    "texts": f"[{', '.join(repr(str(i)) for i in LONG)}, -1]",
    "huge": f"[{', '.join(map(str, LONG))}, {1 << 900}, -{1 << 900}]",
    "keys again": f"{{{', '.join(f'{i % 50}: {i}' for i in LONG)}, **{{1: 2}}}}",
    "names": f"{{{', '.join(f'{i}: n' for i in LONG)}}}",
    "lists": f"{{{', '.join(f'{i}: [{i}]' for i in LONG)}}}",
    "set": f"{{{', '.join(map(str, LONG))}}}",
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_have_python_s_values_each_time(kind: str) -> None:
    text = f"v = []\nfor i in range(2):\n    t = {TABLES[kind]}\n    v.append(t)\n    v.append(len(t))\n    t."
    text += "add(i)" if kind == "set" else "update({'i': i})" if "{" in TABLES[kind] else "append(i)"
    assert not agreed(f"{text}\n{SHOW}").code


STATEMENTS = """
a, (b, *c), d = 1, (2, 3, 4), 5
v = a, b, c, d
---
a = b = [1]
a += [2]
b.append(3)
v = a, b, a is b
---
v = 0
for i in range(5):
    if i == 1:
        continue
    if i == 4:
        break
    v += i
else:
    v = -1
---
v = []
i = 0
while i < 3:
    i += 1
    v.append(i)
else:
    v.append("end")
---
def f(a, b=2, *rest, c=3, **more):
    return a, b, rest, c, more
v = f(1), f(1, 2, 3, 4, c=5, d=6), f(b=1, a=2), f(*[1, 2], **{"c": 3})
---
def outer():
    count = 0
    def inner():
        nonlocal count
        count += 1
        return count
    inner()
    return inner() + count
v = outer()
---
def fact(k):
    return 1 if k < 2 else k * fact(k - 1)
v = fact(6), [fact(i) for i in range(4)]
---
fs = []
for i in range(3):
    def f(j=i):
        return i, j
    fs.append(f)
v = [f() for f in fs]
---
d = {}
d["a"] = 1
d["a"] += 2
d.update(b=3)
d.setdefault("c", []).append(4)
v = d, d.pop("a"), "a" in d, len(d), sorted(d)
---
l = [1, 2, 3, 4]
l[1:3] = [9]
l.insert(0, 7)
l.reverse()
del l[0]
l.sort()
v = l, l.pop(), l
---
try:
    v = [1][5]
except (IndexError, KeyError) as error:
    v = "caught"
finally:
    w = 2
v = v, w
---
try:
    v = int("x")
except ValueError:
    v = 1
else:
    v = 2
---
try:
    x[200]
    v = 1
except IndexError:
    v = 2
---
try:
    raise KeyError("a")
except Exception:
    v = 3
---
if (k := 5) > 3:
    v = k
---
v = [k for k in range(3)]
k = 7
v = v, k
---
g = partial(max, 3)
v = g(2), g(5)
---
v = ""
for a, (b, c) in [(1, (2, 3)), (4, (5, 6))]:
    v += f"{a}{b}{c}"
---
x1 = x[0:64]
v = x1.shape, x1[3].shape, x1.reshape((64, 8, 8)).shape, x1.permute((1, 0)).strides, x1.get_pattern()
---
t = nl.load(x)
u = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
u[...] = t
u[:, 0:4] = 1.5
v = (t + u).shape, (t * 2).dtype, (t > u).shape, (-t).shape
---
t = nl.load(x)
t += 1
t *= t
v = t.shape
---
v = 1,
for _ in range(4):
    v = v, len(v)
---
global G
G = 5
v = G
---
assert n == 3, "no"
assert x.shape[0] % 128 == 0
v = 1
---
lst = [i for i in range(10)]
v = lst[2:8:3], lst[-3:], lst[:], lst[::-2]
---
v = sum(a * b for a, b in zip([1, 2, 3], [4, 5, 6]))
---
a = [1, 2, 3]
for i, e in enumerate(a):
    a[i] = e * 2
v = a
---
v = {"x": x, "y": [1]}["x"].shape
""".strip("\n").split("\n---\n")


@pytest.mark.parametrize("statements", STATEMENTS)
def test_statements_do_what_python_s_do(statements: str) -> None:
    assert not agreed(f"{statements}\n{SHOW}").code


MODULES = """
class A(nl.NKIObject):
    a: int
    b: int = 2
    c = 3
    def total(self, k=1):
        return self.a + self.b * k
    @staticmethod
    def s(v):
        return v * 2
    @property
    def p(self):
        return self.c
    @classmethod
    def make(cls, a):
        return cls(a=a)
||o = A(1)
q = A(a=4, c=5)
v = (
    o.total(), o.total(k=3), A.s(4), o.p, q.p, A.make(7).a, A(1, 2,
    3).c, A().a, isinstance(o, A), isinstance(o, nl.NKIObject)
)
---
@dataclass
class D:
    a: int
    b: tuple = (1, 2)
    l: list = field(default_factory=list)
    def __post_init__(self):
        self.c = self.a + 1
||o = D(3)
o.l.append(4)
p = D(a=3, l=[4])
v = o.c, o.b, o.l, o == p, o != D(4), replace(o, a=9).c
---
class E(Enum):
    A = 1
    B = 2
    C = auto()
class F(IntEnum):
    X = 1
    Y = 2
||
v = (
    E.A.value, E.B.name, E(2) is E.B, E["A"] == E.A, E.A != E.B, [e.name for e in E],
    E.C.value, F.X + 1, F.Y > F.X, F.X == 1, E.A in (E.A,), len(E)
)
---
class Base:
    def __init__(self, a):
        self.a = a
    def hello(self):
        return "base"
class Derived(Base):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b
    def hello(self):
        return "derived " + super().hello()
    def __call__(self, c):
        return self.a + self.b + c
    def __getitem__(self, k):
        return self.a * k
    def __len__(self):
        return 5
    def __add__(self, o):
        return self.a + o
    def __eq__(self, o):
        return self.a == o.a
||d = Derived(1, 2)
v = (
    d.hello(), d(3), d[4], len(d), d + 5, d == Derived(1, 9), isinstance(d,
    Base), bool(d), getattr(d, "b"), hasattr(d, "zz"), d.a
)
d.a = 8
v = v, d.a, d(1)
---
CONST = 3
TABLE = {"a": 1}
TABLE["b"] = CONST * 2
LIST = [i for i in range(3)]
LIST.append(9)
if CONST > 2:
    MODE = "big"
else:
    MODE = "small"
try:
    import nonexistent_module
except ImportError:
    nonexistent_module = None
def helper(a=CONST, *, b=TABLE):
    return a, b
for I in range(3):
    LAST = I
||v = CONST, TABLE, LIST, MODE, helper(), LAST, I
---
@nki.jit
def other(t, k):
    return nl.load(t[0:k])
||v = other(x, 32).shape
---
@functools.lru_cache
def pure(a):
    return a * 2
||v = pure(4)
""".strip("\n").split("\n---\n")


@pytest.mark.parametrize("snippet", MODULES)
def test_classes_and_constants_of_the_module_work(snippet: str) -> None:
    module, _, body = snippet.partition("||")
    assert not agreed(f"{body}\n{SHOW}", module).code
