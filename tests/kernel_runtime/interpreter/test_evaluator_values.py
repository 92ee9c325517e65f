"""Python as production kernels use it for their sizes and settings: the evaluator computes what a run computes."""

from __future__ import annotations

import pytest

from tests.verdicts import agreed

KERNEL = """t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
nisa.dma_copy(dst=t, src=x)
nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float({}))
out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=out, src=t)
return out"""

# A value, and what the module defines for it.
VALUES = [
    (
        "P(1, 2).end",
        """from typing import NamedTuple
class P(NamedTuple):
    a: int
    b: int = 3
    @property
    def end(self):
        return self.a + self.b
""",
    ),
    (
        "sum(P(1)) + len(P(1)) + P(4)[0] + (P(1) == (1, 3)) + P(1)._replace(a=7).a",
        """from typing import NamedTuple
class P(NamedTuple):
    a: int
    b: int = 3
""",
    ),
    (
        "sum(Q(1, 2))",
        """from collections import namedtuple
Q = namedtuple('Q', 'a b')
""",
    ),
    (
        "(F.A | F.B).value + bool(F.A & F.B)",
        """from enum import Flag
class F(Flag):
    N = 0
    A = auto()
    B = auto()
""",
    ),
    (
        "D().go(3)",
        """from abc import ABC, abstractmethod
class B(ABC):
    @abstractmethod
    def f(self, a): ...
    def go(self, a):
        return self.f(a) + 1
class D(B):
    def f(self, a):
        return a * 2
""",
    ),
    ("functools.reduce(lambda a, b: a * b, [1, 2, 3])", ""),
    (
        "sum(a * b for a, b in itertools.product(range(2), range(3)))",
        """import itertools
""",
    ),
    (
        "len(list(itertools.chain([1], (2, 3))))",
        """import itertools
""",
    ),
    (
        "w(2)",
        """def deco(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        return f(*args, **kwargs) + 1
    return inner
@deco
def w(a):
    return a
""",
    ),
    (
        "list(C(3))[1]",
        """class C:
    def __init__(self, n):
        self.n = n
    def __iter__(self):
        return iter(range(self.n))
""",
    ),
    ("sum(v for k, v in {'a': 1, 'b': 2}.items() if k != 'a')", ""),
    ("len({i % 3 for i in range(10)}) + len({'a': 1} | {'b': 2})", ""),
    ("'{} {:>4}'.format(1, 2).count(' ') + len('%s-%d' % ('a', 3))", ""),
    (
        "E.B.label() + len(E) + [e.value for e in E][0]",
        """class E(Enum):
    A = 1
    B = 2
    def label(self):
        return len(self.name)
""",
    ),
    (
        "len(f'{E.A}') + len(f'{E.A!r}') + len(str(E.A)) + len(repr(E.A))",
        """class E(Enum):
    A = 1
""",
    ),
    (
        "V(1, 2) < V(1, 3)",
        """@dataclass(order=True)
class V:
    a: int
    b: int
""",
    ),
    ("next(iter([4, 5]))", ""),
    ("next((i for i in range(9) if i > 3), None)", ""),
    (
        "C.make(2).total",
        """class C:
    K = 3
    def __init__(self, a):
        self._a = a
    @classmethod
    def make(cls, a):
        return cls(a * cls.K)
    @property
    def total(self):
        return self._a
    @total.setter
    def total(self, v):
        self._a = v
""",
    ),
    (
        "f()",
        """class C:
    def __init__(self):
        self._a = 1
    @property
    def a(self):
        return self._a
    @a.setter
    def a(self, v):
        self._a = v * 2
def f():
    c = C()
    c.a = 5
    return c.a
""",
    ),
    (
        "len(type(C()).__name__) + len(C().__class__.__name__)",
        """class Base: pass
class C(Base): pass
""",
    ),
    ("np.prod([2, 3]) + np.ceil(2.5) + int(np.log2(8))", ""),
    ("np.hypot(3, 4) + np.median([1, 2, 9]) + np.bitwise_xor(6, 3) + np.add(2, np.int8(3))", ""),
    ("math.cbrt(8.0) + math.remainder(7, 4) + math.fsum(range(3)) + math.lcm(4, 6)", ""),
    ("'abab'.rindex('b') + '12'.isdecimal() + len('a-b'.title())", ""),
    ("np.array([1, 2, 3])[1] + np.array([[1, 2], [3, 4]]).shape[1]", ""),
    ("np.arange(4).sum() + np.arange(0, 8, 2)[-1]", ""),
    ("sum(int(v) for v in np.linspace(0, 4, 5))", ""),
    ("sorted([3, 1], key=lambda v: -v)[0] + max([1, 5], key=lambda v: -v)", ""),
    ("sum(i * v for i, v in enumerate([1, 2], start=1)) + list(zip([1], [2], strict=True))[0][1]", ""),
    ("range(10)[::-1][0] + list(reversed(range(3)))[0] + [1, 2, 3][::2][1]", ""),
    (
        "f(*[1, 2], c=3, **{'d': 4})",
        """def f(a, b, *rest, c, d=0, **more):
    return a + b + c + d + len(rest) + len(more)
""",
    ),
    (
        "a(1) + a(1)",
        """_cache = {}
def a(k):
    if k not in _cache:
        _cache[k] = len(_cache) + 10
    return _cache[k]
""",
    ),
    (
        "g()",
        """def g():
    n = 5
    while n > 0:
        n -= 2
    else:
        n += 10
    return n
""",
    ),
    ("divmod(7, 2)[1] + round(2.567, 1) + bin(5).count('1') + abs(-2) + pow(2, 3)", ""),
    (
        "Cfg(1).cols + Cfg(1, extra=None).n",
        """from typing import Optional, Union
@dataclass
class Cfg:
    n: int
    extra: Optional[dict] = None
    cols: 'int | None' = 4
    def __post_init__(self):
        if self.extra is None:
            self.extra = {}
""",
    ),
    (
        "sum(x.bytes for x in [K(1)])",
        """class K:
    def __init__(self, n):
        self.n = n
    def __getattr__(self, name):
        return 3
""",
    ),
    (
        "OrderedDict([('a', 1)])['a']",
        """from collections import OrderedDict
""",
    ),
    (
        "C(2) + C(3) == C(5) and 4",
        """class C:
    def __init__(self, n):
        self.n = n
    def __add__(self, o):
        return C(self.n + o.n)
    def __eq__(self, o):
        return self.n == o.n
    __hash__ = None
""",
    ),
    (
        "K.B.scale",
        """class K(Enum):
    A = (1, 2.0)
    B = (2, 4.0)
    def __init__(self, code, scale):
        self.code = code
        self.scale = scale
""",
    ),
    (
        "K(2) is K.B and K['A'].value + (K.A in K)",
        """class K(Enum):
    A = 1
    B = 2
""",
    ),
    ("len([1] * 3 + [[0] * 2 for _ in range(2)])", ""),
    ("int('12') + float('1.5') + len(str(12.5)) + int(True) + ord('a')", ""),
    ("(lambda a, b=2: a * b)(3) + partial(lambda a, b: a - b, b=1)(5)", ""),
    ("1 if None is None else 2", ""),
    ("sum(1 for c in 'hello' if c.isalpha()) + 'a,b'.split(',').index('b') + len('x'.join(['a', 'b']))", ""),
    ("dict(a=1, **{'b': 2})['b'] + {**{'a': 1}, 'c': 3}['c'] + dict(zip('ab', [1, 2]))['a']", ""),
    (
        "f(3)",
        """def f(n):
    return 1 if n <= 1 else n * f(n - 1)
""",
    ),
    ("[*range(2), *(5, 6)][2] + (lambda *a: len(a))(1, 2)", ""),
    (
        "S.X == 'x' and len(S.X + 'y')",
        """from enum import StrEnum
class S(StrEnum):
    X = 'x'
""",
    ),
    (
        "S.X == 'x' and len(S.X.upper())",
        """class S(str, Enum):
    X = 'x'
""",
    ),
    (
        "hasattr(C(), 'a') + getattr(C(), 'b', 4) + isinstance(C(), (C, int)) + callable(len) + issubclass(C, object)",
        """class C:
    a = 1
""",
    ),
    (
        "replace(A(1, B(2)), b=B(5)).b.v",
        """@dataclass(frozen=True)
class B:
    v: int
@dataclass(frozen=True)
class A:
    n: int
    b: B
""",
    ),
    ("len(list(map(str, [1, 2]))) + len(list(filter(None, [0, 1]))) + all([]) + any([1])", ""),
]


@pytest.mark.parametrize(("value", "module"), VALUES)
def test_a_value_is_what_a_run_computes(value: str, module: str) -> None:
    assert not agreed(KERNEL.replace("{}", value), module).code


@pytest.mark.parametrize("call", ["len(1, 2)", "isinstance(1)", "sorted()", "[].sort(1)", "'a'.join()", "abs(1, 2)"])
def test_builtins_refuse_wrong_arguments_in_the_words_of_a_run(call: str) -> None:
    assert agreed(f"{call}\nreturn x").program == ""
