"""Values for arguments that nobody gave, so that a function can be evaluated without a call of it.

A run of a function assumes sizes, numbers, dtypes and memories. One run shows nothing but what holds for its own
values; what several runs with different values find in the same words does not depend on them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.kernel_runtime.interpreter.calls import call
from nki_lab.kernel_runtime.interpreter.classes import ENUMS, fields_of
from nki_lab.kernel_runtime.interpreter.compiler import compile_expression
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.parameter_uses import TENSORS, Use, uses_of
from nki_lab.kernel_runtime.interpreter.values import MISSING, UNKNOWN, Field, Instance, Names, UserClass, Value
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.source.trees import last_name

VARIANTS: Final = 6
"""Sets of values. Even and odd ones share no value, so that what both find depends on none of these."""

_LAST: Final = (1024, 1536, 64, 96, 512, 640)
_PARTITIONS: Final = (128, 96, 64, 32, 16, 48)
_LEADING: Final = (2, 3, 1, 4, 6, 5)
_NUMBERS: Final = (2, 3, 1024, 1536, 8, 5)
_DTYPES: Final = ("bfloat16", "float32", "float16", "int32", "uint8", "uint32")
OTHER_DTYPES: Final = tuple(name for name in DTYPES if name not in _DTYPES)
"""Dtypes that no variant assumes."""
_SPACES: Final = ("sbuf", "hbm", "psum")
_REGIONS: Final = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": MemoryRegion.shared_hbm}
_DEPTH: Final = 4
"""Objects inside of objects that are made, and tuples inside of tuples that are remembered."""
_WIDTH: Final = 64
"""Tests of a call, and parts of a compared tuple, that are remembered."""


class Demand(NamedTuple):
    """Two values that a function wants to be equal, or the first `at_most` the second."""

    at_most: bool
    left: int
    right: int


def _demanded(kind: type[ast.cmpop], left: Value, right: Value, result: Value) -> Iterator[Demand]:
    """Yield the demands that turn the result of a comparison."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            if one != other:
                yield from _demanded(kind, one, other, result)
        return
    if kind is ast.In and result is False and type(left) is int and isinstance(right, tuple | list):
        yield from (Demand(False, left, item) for item in right if type(item) is int)
        return
    if type(left) is not int or type(right) is not int:
        return
    kind = kind if result is False else _OPPOSITE.get(kind, kind)
    if kind is ast.Eq:
        yield Demand(False, left, right)
    elif kind in (ast.LtE, ast.Lt):
        yield Demand(True, left, right - (kind is ast.Lt))
    elif kind in (ast.GtE, ast.Gt):
        yield Demand(True, right, left - (kind is ast.Gt))


_OPPOSITE: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.NotEq: ast.Eq,
    ast.Eq: ast.NotEq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


Comparison = tuple[type[ast.cmpop], Value, Value, Value]
"""A comparison that was evaluated: its operator, its operands, its result."""


class DecidedTest(NamedTuple):
    """A test that was decided: its answer, None where that is unknown, and the way that it went."""

    test: ast.expr
    text: str
    answer: bool | None
    way: bool
    local: bool


class Decided(NamedTuple):
    """The part of a call in the decisions of a run: its tests, and its last comparison."""

    tests: tuple[DecidedTest, ...] = ()
    compared: Comparison | None = None


@dataclass(slots=True)
class Assumptions:
    """The values of one run.

    `values` are sizes and numbers by symbol: `x.0` is the first dimension of the argument x, `n` a number, `config.n`
    a field. Others are made by `variant`, and entered into `used`. `taken` has, by test, the ways that
    all runs went, those of even and of odd variants apart: a test of local values goes the way that none of these
    went, whatever its value is, so that both see every branch. Equal tests of unknown values go one way in a run.
    `ways` are those of the tests that may depend on what is assumed, by text, `answers` those that are given. In a
    `settled` run no test is turned. `tests` are all that were decided.

    `is_open` says that the memory of some tensor is assumed, by the variant: the likely one in even ones, another
    in 1 and 5. `draw` makes the value of a symbol, given whether that is a number. Where the function refuses what
    is assumed (an assert, a raise), that is counted in `refused`, what it demands instead in `demands`; it goes on
    all the same.
    """

    variant: int = 0
    values: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    taken: dict[ast.expr, set[tuple[bool, bool]]] = field(default_factory=dict)
    settled: bool = False
    ways: dict[str, bool] = field(default_factory=dict)
    answers: dict[str, bool] = field(default_factory=dict)
    draw: Callable[[str, bool], int] | None = None
    demands: list[Demand] = field(default_factory=list)
    refused: int = 0
    is_open: bool = False
    compared: Comparison | None = None
    tests: list[DecidedTest] = field(default_factory=list)
    dtype: str = ""

    def but(self, test: str) -> Assumptions:
        """Return the assumptions of the same run in which one test goes the other way."""
        answers = self.answers | {test: not self.ways[test]}
        return Assumptions(self.variant, self.values, settled=True, answers=answers, draw=self.draw)

    def in_dtype(self, dtype: str) -> Assumptions:
        """Return the assumptions of the same run in which all tensors have one dtype."""
        return Assumptions(self.variant, self.values, settled=True, answers=self.answers, draw=self.draw, dtype=dtype)

    def number(self, symbol: str, defaults: tuple[int, ...] = _NUMBERS) -> int:
        """Return the value of a symbol."""
        if symbol not in self.used:
            value = self.values.get(symbol)
            if value is None and self.draw is not None:
                value = self.draw(symbol, defaults is _NUMBERS)
            self.used[symbol] = defaults[self.variant % len(defaults)] if value is None else value
        return self.used[symbol]

    def refuse(self) -> None:
        """Enter what the function demands where it refuses the assumptions."""
        self.refused += 1
        if self.compared is not None:
            self.demands += _demanded(*self.compared)

    def choose(self, test: ast.expr, answer: bool | None, *, local: bool) -> bool:
        """Return the way that a test goes; `answer` is its value, None where that is unknown."""
        text = _text(test)
        way = self._way(test, text, answer, self.answers, self.taken, local=local)
        if answer is None or local:
            self.ways.setdefault(text, way)
        self.tests.append(DecidedTest(test, text, answer, way, local))
        return way

    def _way(
        self,
        test: ast.expr,
        text: str,
        answer: bool | None,
        answers: dict[str, bool],
        taken: dict[ast.expr, set[tuple[bool, bool]]],
        *,
        local: bool,
    ) -> bool:
        """Return the way of a test, and enter it into `answers` and `taken`."""
        way = answers.get(text)
        if way is not None:
            return way
        odd = self.variant % 2 == 1
        way = not odd if answer is None else answer
        ways = taken.setdefault(test, set())
        if not self.settled and (way, odd) in ways and (not way, odd) not in ways:
            way = way if answer is not None and not local else not way
        if answer is None or way is not answer:
            answers[text] = way
        ways.add((way, odd))
        return way

    def decided_since(self, number: int, compared: Comparison | None) -> Decided | None:
        """Return what was decided from a test on, by its number; None where that cannot be decided again.

        `compared` was the last comparison before it.
        """
        tests = tuple(self.tests[number:])
        if self.settled:
            tests = tuple(dict.fromkeys(tests))  # an answer that was taken once is taken again
        if len(tests) > _WIDTH:
            return None
        if self.compared is None or self.compared is compared:
            return Decided(tests)
        kind, left, right, result = self.compared
        if _may_change(left) or _may_change(right):
            return None
        return Decided(tests, (kind, _numbers(left), _numbers(right), result is not False))

    def decide_again(self, decided: Decided) -> bool:
        """Decide the same once more; False, and nothing, where a test goes another way by now."""
        if decided.tests:
            texts = {item.text for item in decided.tests}
            answers = {text: self.answers[text] for text in texts if text in self.answers}
            taken = {item.test: set(self.taken.get(item.test, ())) for item in decided.tests}
            for test, text, answer, way, local in decided.tests:
                if self._way(test, text, answer, answers, taken, local=local) is not way:
                    return False
            self.answers |= answers
            self.taken |= taken
            self.tests += decided.tests
            for _, text, answer, way, local in decided.tests:
                if answer is None or local:
                    self.ways.setdefault(text, way)
        if decided.compared is not None:
            kind, left, right, result = decided.compared
            self.compared = (kind, left, right, result)  # another object: a comparison was made
        return True


def _may_change(value: Value, depth: int = 0) -> bool:
    """Return whether a compared value is one whose numbers may be others later, or a large one."""
    if isinstance(value, tuple):
        return depth == _DEPTH or len(value) > _WIDTH or any(_may_change(item, depth + 1) for item in value)
    return isinstance(value, list)


def _numbers(value: Value) -> Value:
    """Return a compared value as far as a demand depends on it."""
    if isinstance(value, tuple):
        return tuple(map(_numbers, value))
    return value if type(value) is int else None


_texts: Final[MutableMapping[ast.expr, str]] = WeakKeyDictionary()  # of tests whose module is still there


def _text(test: ast.expr) -> str:
    """Return the text of a test."""
    found = _texts.get(test)
    if found is None:
        found = _texts[test] = ast.unparse(test)
    return found


def assumed_arguments(
    frame: Frame, function: Function, builder: Builder, assumptions: Assumptions, *, kernel: bool
) -> Names:
    """Return values for the parameters of a function by name, in the order of the parameters.

    Parameters with defaults keep them in the first variant, and in the even ones where a number or a dtype is one. Even
    variants assume the memories that the text speaks for, those of a function that may be launched (`kernel`) in HBM;
    odd ones assume others.
    """
    return _Maker(frame, builder, assumptions, kernel).arguments(function)


class _Maker:
    """Makes the arguments of one run."""

    def __init__(self, frame: Frame, builder: Builder, assumptions: Assumptions, kernel: bool) -> None:
        self.frame = frame
        self.builder = builder
        self.assumptions = assumptions
        self.kernel = kernel

    def arguments(self, function: Function, prefix: str = "", depth: int = 0, *, skip: int = 0) -> Names:
        arguments = function.node.args
        uses = uses_of(function)
        made: Names = {}
        for arg in [*arguments.posonlyargs, *arguments.args][skip:] + arguments.kwonlyargs:
            default = function.defaults.get(arg.arg, MISSING)
            first = self.assumptions.variant == 0 or depth > 0
            if default is not MISSING and (first or (default is not None and type(default) is not bool)):
                made[arg.arg] = self.varied(default, prefix + arg.arg)
                continue
            use = uses.get(arg.arg, Use())
            made[arg.arg] = self.value(arg.annotation, prefix + arg.arg, use, function.closure, depth)
        if arguments.vararg is not None:
            made[arguments.vararg.arg] = ()
        if arguments.kwarg is not None:
            made[arguments.kwarg.arg] = {}
        return made

    def value(self, annotation: ast.expr | None, name: str, use: Use, frame: Frame, depth: int) -> Value:
        """Return a value of the annotated type; without an annotation, of the type that its uses tell."""
        if annotation is None:
            if use.is_ambiguous or (use.is_tensor and use.is_number):
                return UNKNOWN
            return self.tensor(name, use) if use.is_tensor else self.number(name) if use.is_number else UNKNOWN
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return UNKNOWN
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                none = isinstance(left, ast.Constant)
                return self.value(right if none else left, name, use, frame, depth)
            case ast.Subscript(value=base, slice=inner):
                return self._generic(last_name(base), inner, name, use, frame, depth)
        kind = last_name(annotation)
        if kind in TENSORS:
            return self.tensor(name, use)
        plain = {"int": self.number, "float": lambda _: 0.5 + self.assumptions.variant, "bool": self._truth}.get(kind)
        if plain is not None:
            return plain(name)
        cls = compile_expression(annotation, frame.module.source.scope)(frame)
        return self.instance(cls, name, depth) if isinstance(cls, UserClass) and depth < _DEPTH else UNKNOWN

    def _generic(self, kind: str, inner: ast.expr, name: str, use: Use, frame: Frame, depth: int) -> Value:
        if kind == "Optional":
            return self.value(inner, name, use, frame, depth)
        if depth > 2 * _DEPTH:  # each list in lists holds two
            return UNKNOWN
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if kind in ("tuple", "Tuple"):
            if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
                parts = [parts[0]] * 2
            return tuple(self.value(part, f"{name}.{n}", Use(), frame, depth + 1) for n, part in enumerate(parts))
        if kind in ("list", "List", "Sequence"):
            return [self.value(parts[0], f"{name}.{n}", Use(), frame, depth + 1) for n in range(2)]
        return self.tensor(name, use) if kind in TENSORS else UNKNOWN

    def varied(self, default: Value, name: str) -> Value:
        """Return a default in even variants; in odd ones another number or dtype instead of one."""
        variant = self.assumptions.variant
        if variant % 2 == 0:
            return default
        if isinstance(default, np.dtype):
            others = [known for known in (DTYPES[item].host for item in _DTYPES) if known != default]
            return others[variant % len(others)]
        if type(default) is int:
            return self.assumptions.number(name, tuple(number + (number == default) for number in _NUMBERS))
        return default + variant if type(default) is float else default

    def _truth(self, name: str) -> bool:
        return self.assumptions.variant % 2 == 0

    def number(self, name: str) -> int:
        return self.assumptions.number(name)

    def tensor(self, name: str, use: Use) -> Value:
        """Return an input tensor."""
        assumptions, rank = self.assumptions, use.rank
        variant = assumptions.variant
        usual = use.space or _named_space(name) or ("hbm" if self.kernel else _SPACES[0])
        others = [space for space in _SPACES if space != usual]
        assumptions.is_open |= not use.space
        fits = variant % 2 == 0 or (use.space and assumptions.draw is not None)
        space = usual if fits else others[variant // 2 % 2]
        sizes = [(_LEADING if dim < rank - 2 else _LAST) for dim in range(rank)]
        if usual in ("sbuf", "psum") and (use.space or _named_space(name)):
            sizes[0] = _PARTITIONS
        shape = tuple(assumptions.number(f"{name}.{dim}", known) for dim, known in enumerate(sizes))
        known = _DTYPES[: len(_DTYPES) if assumptions.draw is None else 2]
        dtype: DType = DTYPES[assumptions.dtype or known[variant % len(known)]]
        tensor = self.builder.allocate(shape, dtype, _REGIONS[space], name=name, kind="input")
        self.builder.program.inputs.append(tensor._buffer)
        return tensor

    def instance(self, cls: UserClass, name: str, depth: int) -> Value:
        """Return an object of a class of the user's: a member of an enumeration, or one with assumed fields."""
        if cls.kind in ENUMS:
            members = list(cls.members.values())
            mine = members[self.assumptions.variant % 2 :: 2] or members
            return mine[self.assumptions.variant // 2 % len(mine)] if mine else UNKNOWN
        if cls.inherits("unknown"):
            return UNKNOWN
        node = self.frame.meter.node or ast.Constant(None, lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
        make = cls.find("__init__")
        if isinstance(make, Function):
            given = self.arguments(make, f"{name}.", depth + 1, skip=1)
            variadic = {arg.arg for arg in (make.node.args.vararg, make.node.args.kwarg) if arg is not None}
            return call(self.frame, node, cls, [], {key: item for key, item in given.items() if key not in variadic})
        fields = fields_of(cls) if cls.kind != "nki" else {key: cls.find(key) for key in cls.annotations}
        made: Names = {}
        for key, default in fields.items():
            text = next((item.annotations[key] for item in cls.mro if key in item.annotations), "")
            if default is not MISSING and default is not None and not isinstance(default, Field):
                made[key] = self.varied(default, f"{name}.{key}")
                continue
            try:
                annotation = ast.parse(text, mode="eval").body if text else None
            except SyntaxError:
                annotation = None
            made[key] = self.value(annotation, f"{name}.{key}", Use(), self.frame, depth + 1)
        return Instance(cls, made)


def _named_space(name: str) -> str:
    """Return the memory that a name speaks of, as authors mark tensors by it."""
    parts = name.lower().replace(".", "_").split("_")
    names = {"sb": "sbuf", "sbuf": "sbuf", "psum": "psum", "hbm": "hbm", "dram": "hbm"}
    return next((names[part] for part in reversed(parts) if part in names), "")
