"""Draws hostile arguments for everything that the checker computes, in processes of their own, and leaves none that hurts.

    python tests/fuzz/hostile_calls.py --kernels 2000

Each text calls builtins, functions of NumPy and of the standard library, methods, operators, constructors and functions
of NKI with values that no caller means: huge and negative numbers, texts, bytes, nested and endless containers. Checking
it must neither end the process nor take more than SECONDS of processor time or MEGABYTES of memory, nor end in NKI901.
Each failure is printed as the smallest text that still fails. Exit status 1 on failures.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import random
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nki_lab import query
from nki_lab.kernel_runtime.beta1 import MODULES as BETA1
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.interpreter.builtins import launching_libraries, methods, numpy_functions
from nki_lab.kernel_runtime.interpreter.interpreter import MODELLED
from nki_lab.kernel_runtime.interpreter.limits import Budget
from nki_lab.kernel_runtime.interpreter.namespaces import SPECIALS
from nki_lab.kernel_runtime.language import namespaces

SECONDS: Final = 4.0
"""Processor time for one text: the budget below takes about one second of it."""
MEGABYTES: Final = 400
"""Growth of the largest resident size by one text."""
PATIENCE: Final = 30.0
"""Seconds for making a failure small."""
STEPS: Final = 20_000
LINES: Final = 10
_ADDRESS_SPACE: Final = 4 << 30

_VALUES: Final = (
    "0", "1", "-1", "2", "7", "128", "512", "65536", "65537", "10**6", "10**9", "10**12", "10**20", "-10**20", "2**63", "2**64",
    "1 << 1000", "10**300", "0.5", "-0.0", "1e308", "float('inf')", "float('nan')", "True", "None", "1j", "...",
    "''", "'x'", "'a' * 999", "'%s' * 50", "'{:9}'", "'%999d'", "'\\0'", "'\\ud800'", "b''", "b'x'", "'float32'", "'f4,f4'", "'O'",
    "'S999999999'", "'V2147483647'", "'(65536,65536)f8'", "'U99999999'", "'M8[ns]'", "'bfloat16'", "'x' * 10**5",
    "()", "(1,)", "(128, 512)", "(10**9, 10**9)", "(-1, 4)", "(1,) * 65", "(1,) * 9999", "(2,) * 31", "('x',)", "(None, 3)",
    "[]", "[1, 2]", "[[1], [2, 3]]", "[0] * 99999", "[[0] * 300] * 300", "['x', 1]", "[None]",
    "{}", "{1: 2}", "{'x': [1]}", "set()", "{1, 'x'}", "slice(None)", "slice(0, 10**12, 3)", "slice('x')",
    "range(10)", "range(10**12)", "range(0, -5, -1)", "iter([1, 2])", "enumerate([1])", "zip([1], [2])", "map(str, [1, 2])",
    "np.float32(1)", "np.int8(-1)", "np.uint64(2**63)", "np.zeros((4, 4))", "np.arange(10)", "np.ones(3, bool)", "np.zeros(0)",
    "np.float32", "np.dtype('int8')", "np.eye(3)", "np.array(['x'])", "np.array([None])", "np.array(1)", "np.newaxis", "np.nan",
    "np.zeros((65536,))", "np.array([10**30])", "np.array(2.5)",
    "nl.float32", "nl.bfloat16", "nl.float8_e4m3", "nl.tfloat32", "nl.int32", "nl.sbuf", "nl.psum", "nl.hbm", "nl.add", "nl.maximum",
    "int", "float", "str", "list", "len", "print", "max", "lambda *a: a", "lambda a, b=1: a", "object", "type", "ValueError", "ValueError(1)",
    "20000", "30000.0", "1e9", "1e-9", "np.int64(10**9)", "np.int32(30000)", "np.int64(10**12)", "(20000, 20000)",
    "(np.int32(30000), np.int32(30000))", "[np.int64(10**9)]", "[[[0] * 300] * 300] * 300", "((1,) * 999,) * 999",
    "['x' * 10**5] * 9999", "[[['x']] * 999] * 999", "{i: [0] * 9999 for i in range(99)}", "np.arange(60000)",
    "np.arange(60000)[:, None]", "'S99999'", "np.dtype('S99999')",
    "f", "C", "C()", "E", "E.one", "D(1)", "Nested", "math", "np", "nl",
)  # fmt: skip
_TENSORS: Final = (
    "t", "t", "u", "p", "x", "t[0:64]", "t[:, 0:1]", "t.shape", "t.dtype", "t[0:1, 0:1]", "t[0:128:2]",
    "nl.ds(0, 64)", "nl.ds(0, 10**12)", "nl.arange(128)[:, None]", "i",
)  # fmt: skip
_BINARY: Final = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "@",
    "<",
    "==",
    "in",
    "is",
    "and",
    "!=",
    "not in",
)
_KEYWORDS: Final = (
    "key", "dtype", "axis", "shape", "base", "reverse", "start", "default", "repeat", "strict", "mod", "out", "where", "k",
)  # fmt: skip
_HEAD: Final = """
import abc, collections, copy, dataclasses, enum, functools, inspect, itertools, math, operator, os, typing
import numpy as np, torch, pytest, unittest, ml_dtypes, neuron_dtypes
import jax.numpy as jnp
import {module} as nki
import {module}.language as nl
import {module}.isa as nisa

def f(*a, **k):
    return a

class C:
    def __init__(self, *a): self.a = a
    def __iter__(self): return iter([1, 2])
    def __len__(self): return 10**12
    def __index__(self): return 10**12

class E(enum.IntEnum):
    one = 1

@dataclasses.dataclass
class D:
    n: int = 0

Nested = [0]
for _ in range(40):
    Nested = [Nested, Nested]
"""


@cache
def _offered(beta1: bool) -> tuple[tuple[str, Any], ...]:
    """Return what can be called, by the text that names it."""
    numpy = numpy_functions.numpy_namespace({}).names
    named = [(f"np.{name}", item) for name, item in sorted(numpy.items()) if callable(item)]
    named += [(name, getattr(MODELLED[name], "kind", MODELLED[name])) for name in sorted(MODELLED)]
    named += [(f"math.{name}", item) for name, item in sorted(vars(__import__("math")).items()) if callable(item)]
    named += [(name, None) for name in sorted(SPECIALS) if name.partition(".")[0] not in ("nki", "nki_lab")]
    for module, short in (("torch", "torch"), ("jax.numpy", "jnp"), ("neuron_dtypes", "neuron_dtypes")):
        names = launching_libraries.host_modules()[module].names
        named += [(f"{short}.{name}", None) for name in sorted(names)]
    known = {
        "nl": namespaces.language_names(),
        "nisa": namespaces.instruction_names(),
        "nki.collectives": collective_names(),
    }
    if beta1:
        known = {"nl": BETA1["language"](), "nisa": BETA1["isa"]()}
    # NKI's names as often as all the others.
    own = [
        (f"{short}.{name}", item)
        for short, names in known.items()
        for name, item in sorted(names.items())
        if callable(item)
    ]
    return tuple(named + own * max(1, len(named) // len(own)))


@cache
def _methods() -> tuple[str, ...]:
    families = [names for _, names in methods._FAMILIES.values()]
    plain = {name for names in (*methods.PLAIN.values(), *families) for name in names}
    own = {
        "ap",
        "reshape",
        "permute",
        "broadcast_to",
        "view",
        "expand_dim",
        "select",
        "slice",
        "rearrange",
        "as_tile",
        "astype",
    }
    return tuple(sorted(plain | {name for _, name in methods.GUARDED} | own))


@cache
def _parameters(name: str, beta1: bool) -> tuple[str, ...]:
    function = dict(_offered(beta1))[name]
    try:
        return tuple(inspect.signature(function).parameters) if function is not None else ()
    except (TypeError, ValueError):
        return ()


class Draw:
    """Draws the lines of one text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.beta1 = self.random.random() < 0.3
        self.names: list[str] = []

    def value(self, tensors: bool, depth: int = 0) -> str:
        roll = self.random.random()
        if self.names and roll < 0.2:
            return self.random.choice(self.names)
        if tensors and roll < 0.45:
            return self.random.choice(_TENSORS)
        if depth < 2 and roll > 0.93:
            return self.expression(tensors, depth + 1)
        return self.random.choice(_VALUES)

    def expression(self, tensors: bool, depth: int = 0) -> str:
        def value() -> str:
            return self.value(tensors, depth)

        def quiet() -> str:
            """A value for the inside of an f-string, which holds no quotes and backslashes before Python 3.12."""
            found = value()
            return "i" if {*'"\\{:'} & {*found} else found

        match self.random.randrange(14):
            case 0 | 1:
                return f"({value()}) {self.random.choice(_BINARY)} ({value()})"
            case 2 | 3 | 4:
                given = ", ".join(value() for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3))))
                return f"({value()}).{self.random.choice(_methods())}({given})"
            case 5:
                return self.random.choice((
                    f"({value()})[{value()}]", f"f\"{{{quiet()}!r:{{{quiet()}}}}}\"", f"[a for a in {value()}]", f"sorted({value()}, key={value()})",
                    f"'{{:>{self.random.choice(('9', '99999999999', '.999'))}}}'.format({value()})", f"'%{self.random.choice(('s', '.99999f', '*d', '1000000000s'))}' % ({value()},)",
                    f"({value()})[{value()}:{value()}:{value()}]", f"-({value()})", f"~({value()})", f"[*{value()}]", f"f(*{value()}, **{value()})",
                ))  # fmt: skip
            case _:
                return self.call(tensors, depth)

    def call(self, tensors: bool, depth: int) -> str:
        name, _ = self.random.choice(_offered(self.beta1))
        names = _parameters(name, self.beta1)
        if name.partition(".")[0] in ("nl", "nisa") and names and self.random.random() < 0.9:
            most = self.random.choice((len(names), min(len(names), 4)))
            chosen = self.random.sample(names, self.random.randint(0, most))
            given = [f"{parameter}={self.value(tensors, depth)}" for parameter in chosen]
            if self.random.random() < 0.7:
                given = [
                    f"{parameter}={self.value(tensors, depth)}"
                    for parameter in names[:3]
                    if not any(item.startswith(f"{parameter}=") for item in given)
                ] + given
        else:
            given = [self.value(tensors, depth) for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
            if self.random.random() < 0.25:
                given.append(f"{self.random.choice(_KEYWORDS)}={self.value(tensors, depth)}")
        return f"{name}({', '.join(given)})"

    def lines(self, count: int, tensors: bool) -> list[str]:
        found = []
        for number in range(count):
            roll = self.random.random()
            name = f"{'v' if tensors else 'm'}{number}"
            if roll < 0.08 and tensors:
                found.append(
                    f"for i in {self.random.choice(('range', 'nl.affine_range', 'nl.static_range', 'nl.sequential_range', 'nl.dynamic_range'))}({self.value(tensors)}): {name} = {self.expression(tensors)}"
                )
            elif roll < 0.14:
                found.append(f"({self.value(tensors)})[{self.value(tensors)}] = {self.value(tensors)}")
            elif roll < 0.16 and tensors:
                found.append(f"while {self.value(tensors)}: {name} = {self.expression(tensors)}")
            elif roll < 0.22 and self.names:
                found.append(
                    f"{self.random.choice(self.names)} {self.random.choice(('+', '*', '**', '<<', '|'))}= {self.value(tensors)}"
                )
            else:
                found.append(f"{name} = {self.expression(tensors)}")
                self.names.append(name)
        return found


def drawn(seed: int) -> tuple[str, list[str], list[str]]:
    """Return the head of text number `seed`, its lines in the module and those in the kernel."""
    draw = Draw(seed)
    module = "neuronxcc.nki" if draw.beta1 else "nki"
    head = _HEAD.format(module=module)
    return head, draw.lines(LINES, tensors=False), draw.lines(LINES, tensors=True)


def text_of(head: str, outside: Sequence[str], inside: Sequence[str]) -> str:
    """Return the text with these lines in the module, and those in a kernel that is launched."""
    body = ["t = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)", "u = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)",
            "p = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)", "i = 3", *inside, "return x"]  # fmt: skip
    kernel = "\n".join(f"    {line}" for line in body)
    tests = "\n".join(f"    {line}" for line in (*outside, "kernel(np.zeros((128, 512), np.float32))"))
    return "\n".join([head, *outside, "@nki.jit", "def kernel(x):", kernel, "", "def test_kernel():", tests, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kernels", type=int, default=1000, help="texts to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        return _work()
    start, failures = time.perf_counter(), 0
    with Process() as process:
        for seed in range(given.seed, given.seed + given.kernels):
            head, outside, inside = drawn(seed)
            problem = process.check(text_of(head, outside, inside))
            if problem:
                failures += 1
                parts = smallest(process, drawn(seed), _sort(problem))
                print(f"text {seed}: {problem}", flush=True)
                for where, part in zip(("module", "kernel"), parts, strict=True):
                    print("".join(f"  {where}: {line}\n" for line in part), end="", flush=True)
                if failures >= given.failures:
                    break
    print(f"{seed + 1 - given.seed} texts, {failures} failed; {time.perf_counter() - start:.1f} s")
    return 1 if failures else 0


def _sort(problem: str) -> str:
    """Return the kind of a problem: a smaller text must have one of the same kind."""
    return problem[:24]


def smallest(
    process: Process, text: tuple[str, Sequence[str], Sequence[str]], sort: str
) -> tuple[list[str], list[str]]:
    """Return the fewest lines that still fail in the same way."""
    head, outside, inside = text
    parts = [list(outside), list(inside)]
    deadline = time.monotonic() + PATIENCE

    def fails(outside: Sequence[str], inside: Sequence[str]) -> bool:
        return _sort(process.check(text_of(head, outside, inside))) == sort

    if fails(parts[0], []):
        parts[1] = []
    elif fails([], parts[1]):
        parts[0] = []
    for part in parts:
        number = 0
        while number < len(part) and time.monotonic() < deadline:
            line = part.pop(number)
            if not fails(parts[0], parts[1]):
                part.insert(number, line)
                number += 1
    return parts[0], parts[1]


# -- the process that checks -------------------------------------------------------------------------------------------


class Process:
    """A process that checks texts, started again when one ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def check(self, text: str) -> str:
        """Return the harm that checking a text does; "" for none."""
        if self._process is None:
            command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--work"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        data = text.encode()
        with contextlib.suppress(BrokenPipeError):  # it has ended already: reading tells
            self._process.stdin.write(len(data).to_bytes(4, "big") + data)
            self._process.stdin.flush()
        answer = self._process.stdout.readline().decode(errors="replace")
        if not answer:
            status = self._process.wait()
            self._end()
            return (
                "hangs: it took more than the time limit"
                if status == -24
                else f"crashes: the process ended with {status}"
            )
        return answer.rstrip("\n")

    def _end(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            assert process.stdin is not None and process.stdout is not None
            process.kill()
            with contextlib.suppress(BrokenPipeError):  # what the process has not read
                process.stdin.close()
            process.stdout.close()
            process.wait()


def _texts() -> Iterator[str]:
    source = sys.stdin.buffer
    while len(head := source.read(4)) == 4:
        yield source.read(int.from_bytes(head, "big")).decode()


def _work() -> int:
    """Check the texts of standard input; whoever takes more processor time than SECONDS three times is ended."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    _harm("import nki\n")
    for text in _texts():
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + 3 * SECONDS) + 1, resource.RLIM_INFINITY))
        print(" ".join(_harm(text).split())[:400], file=output, flush=True)
    return 0


def _harm(text: str) -> str:
    before, start = _peak(), time.process_time()
    try:
        found = query.check("hostile.py", source=text, budget=Budget(steps=STEPS))
    except Exception as error:  # noqa: BLE001 - the last frame says where
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} at {Path(frame.filename).name}:{frame.lineno}"
    took, grew = time.process_time() - start, _peak() - before
    for item in found:
        if item.code == "NKI901":
            return f"NKI901: {item.message} at line {item.line}"
        if "MemoryError" in item.message:
            return f"memory: {item.message}"
    if took > SECONDS:
        return f"slow: {took:.1f} s"
    return f"memory: {grew} MB more" if grew > MEGABYTES else ""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


if __name__ == "__main__":
    raise SystemExit(main())
