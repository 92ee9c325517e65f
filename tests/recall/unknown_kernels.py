"""Kernels whose sizes are parameters, legal for the sizes of a contract that not all of them state, and faults in them.

A kernel is one to three blocks and what these need. In the text of a block, `@` is its number, `T[m, n]` a tile in SBUF,
`P[m, n]` one in PSUM, `H[m, n]` a result in HBM; lines that start with `?` are left out of some kernels.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.draws import Choice

IMPORTS: Final = """from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl
"""
HELPERS: Final = {
    "Config": """@dataclass
class Config:
    rows: int
    width: int
    wide: bool = False
""",
    "tile": """def tile(rows, columns, dtype=nl.float32, space=nl.sbuf):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=space)
""",
    "load": """def load(dst, src, rows, columns):
    nisa.dma_copy(dst=dst[0:rows, 0:columns], src=src[0:rows, 0:columns])
""",
    "ceil_div": """def ceil_div(a, b):
    return (a + b - 1) // b
""",
    "check_equal": """def check_equal(a, b, what):
    assert a == b, f"{what}: {a} is not {b}"
""",
}


@dataclass(frozen=True, eq=False)
class Block:
    """Part of a kernel: the sizes of its contract, the parameters as functions of these, and the text.

    A parameter in brackets is a tensor, one in braces a `Config`, others are numbers.
    """

    sizes: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, str]
    text: str


def _block(sizes: str, parameters: str, text: str) -> Block:
    pairs = [part.split("=") for part in sizes.split()]
    given = [part.split("=") for part in parameters.split("; ")]
    return Block(
        {name: tuple(int(number) for number in numbers.split(",")) for name, numbers in pairs},
        {name.strip(): value.strip() for name, value in given},
        textwrap.dedent(text).strip(),
    )


BLOCKS: Final = (
    _block("M=1,96,128 N=64,130,512", "x@=[M, N]", """
        M, N = x@.shape
        ?assert M <= 128
        t = T[M, N]
        nisa.dma_copy(dst=t, src=x@)
        o = H[M, N]
        nisa.dma_copy(dst=o, src=t)
    """),
    _block("N=32,65,256", "x@=[128, 2 * N]; y@=[128, N]", """
        P, M = x@.shape
        N = y@.shape[1]
        ?assert M == 2 * N
        t = T[128, 2 * N]
        nisa.dma_copy(dst=t, src=x@)
        u = T[128, N]
        nisa.dma_copy(dst=u, src=y@)
        nisa.tensor_tensor(dst=u, data1=t[:, 0:N], data2=t[:, N : 2 * N], op=nl.add)
        o = H[128, N]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("B=1,2,3 N=64,512", "x@=[128 * B, N]", """
        K, N = x@.shape
        ?assert K % 128 == 0
        o = H[K, N]
        for k in range(K // 128):
            t = T[128, N]
            nisa.dma_copy(dst=t, src=x@[k * 128 : (k + 1) * 128, :])
            nisa.dma_copy(dst=o[k * 128 : (k + 1) * 128, :], src=t)
    """),
    _block("M=100,128,300 N=64,512", "x@=[M, N]", """
        M, N = x@.shape
        o = H[M, N]
        for i in range(ceil_div(M, 128)):
            rows = min(128, M - i * 128)
            t = T[128, N]
            nisa.dma_copy(dst=t[0:rows, :], src=x@[i * 128 : i * 128 + rows, :])
            nisa.dma_copy(dst=o[i * 128 : i * 128 + rows, 0:N], src=t[0:rows])
    """),
    _block("H=8,33,100", "x@=[128, 2 * H]", """
        N = x@.shape[1]
        h = N // 2
        ?assert N % 2 == 0
        t = T[128, N]
        nisa.dma_copy(dst=t, src=x@)
        u = T[128, h]
        nisa.tensor_tensor(dst=u, data1=t[:, 0:h], data2=t[:, h:N], op=nl.multiply)
        o = H[128, N // 2 * 2]
        nisa.dma_copy(dst=o[:, 0:h], src=u)
        nisa.dma_copy(dst=o[:, h : N - N % 2], src=u)
    """),
    _block("H=8,33,100", "x@=[128, 2 * H + 1]", """
        rows, n = x@.shape
        ?assert n % 2 == 1
        t = T[128, n // 2 * 2 + 1]
        nisa.dma_copy(dst=t, src=x@)
        u = T[128, n - n // 2]
        nisa.tensor_copy(dst=u[:, 0 : n // 2], src=t[:, n // 2 + 1 : n])
        nisa.tensor_copy(dst=u, src=t[:, n // 2 : n])
        o = H[rows, n // 2 + 1]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("F=256", "x@=[128, F]", """
        F = x@.shape[1]
        ?assert F == 256
        t = T[128, 256]
        nisa.dma_copy(dst=t, src=x@)
        u = T[128, F]
        nisa.tensor_copy(dst=u, src=t)
        o = H[128, F]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("K=64,128 M=32,128 N=128,512", "x@=[K, M]; y@=[K, N]", """
        K, M = x@.shape
        K2, N = y@.shape
        ?assert K == K2
        ?check_equal(K, K2, "contraction")
        ?assert M <= 128 and N <= 512
        s = T[K, M]
        m = T[K, N]
        nisa.dma_copy(dst=s, src=x@)
        nisa.dma_copy(dst=m, src=y@)
        p = P[M, N]
        nisa.nc_matmul(dst=p, stationary=s, moving=m)
        u = T[M, N]
        nisa.tensor_copy(dst=u, src=p)
        o = H[M, N]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("R=32,128 W=64,200", "c@={rows: R, width: W}; x@=[R, W]", """
        ?assert x@.shape == (c@.rows, c@.width)
        t = T[c@.rows, c@.width]
        nisa.dma_copy(dst=t, src=x@)
        if c@.wide:
            w = T[c@.rows, 2 * c@.width]
            nisa.tensor_copy(dst=w[:, 0 : c@.width], src=t)
            nisa.tensor_copy(dst=w[:, c@.width : 2 * c@.width], src=t)
            o = H[c@.rows, 2 * c@.width]
            nisa.dma_copy(dst=o, src=w)
        else:
            o = H[c@.rows, c@.width]
            nisa.dma_copy(dst=o, src=t)
    """),
    _block("N=64,512,600,1024", "x@=[128, N]", """
        N = x@.shape[1]
        o = H[128, N]
        if N > 512:
            for c in range(0, N, 512):
                w = min(512, N - c)
                t = T[128, w]
                nisa.dma_copy(dst=t, src=x@[:, c : c + w])
                nisa.dma_copy(dst=o[:, c : c + w], src=t)
        else:
            t = T[128, 512]
            nisa.dma_copy(dst=t[:, 0:N], src=x@)
            nisa.dma_copy(dst=o, src=t[:, 0:N])
    """),
    _block("n=1,2,4 w=16,65", "x@=[128, n * w]; n@=n", """
        width = x@.shape[1] // n@
        ?assert x@.shape[1] % n@ == 0
        tiles = []
        for _ in range(n@):
            t = T[128, width]
            tiles.append(t)
        o = H[128, n@ * width]
        for i in range(n@):
            nisa.dma_copy(dst=tiles[i], src=x@[:, i * width : (i + 1) * width])
        for i, t in enumerate(tiles):
            nisa.dma_copy(dst=o[:, i * width : (i + 1) * width], src=t)
    """),
    _block("M=64,128,256 N=32,100", "x@=[M, N]", """
        M, N = x@.shape
        p = min(M, 128)
        t = T[p, N]
        nisa.dma_copy(dst=t, src=x@[0:p])
        u = T[128, N]
        nisa.tensor_copy(dst=u[0:p], src=t)
        o = H[p, N]
        nisa.dma_copy(dst=o, src=u[0:p, :])
    """),
    _block("M=128,256 N=32,100", "x@=[M, N]", """
        p = min(x@.shape[0], 128)
        N = x@.shape[1]
        ?assert x@.shape[0] >= 128
        t = T[128, max(N, 64)]
        load(t, x@, p, N)
        u = T[p, N]
        nisa.tensor_copy(dst=u, src=t[:, 0:N])
        o = H[128, N]
        nisa.dma_copy(dst=o[0:p], src=u)
    """),
    _block("k=5,6,7,9", "x@=[128, 2 ** k]; k@=k", """
        N = 1 << k@
        ?assert x@.shape[1] == 2**k@
        t = T[128, N]
        nisa.dma_copy(dst=t, src=x@)
        w = N
        while w > 8:
            w //= 2
            nisa.tensor_tensor(dst=t[:, 0:w], data1=t[:, 0:w], data2=t[:, w : 2 * w], op=nl.add)
        o = H[128, 8]
        nisa.dma_copy(dst=o, src=t[:, 0:8])
    """),
    _block("n=4,7,16", "x@=[n, n * n]; n@=n", """
        a, b = x@.shape
        ?assert a == n@ and b == n@ * n@
        t = T[n@, n@ * n@]
        nisa.dma_copy(dst=t, src=x@)
        u = T[a, b]
        nisa.tensor_copy(dst=u, src=t)
        o = H[a, a * n@]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("A=2,3 S=64,128 D=64,128", "x@=[A, S, D]", """
        B, S, D = x@.shape
        ?assert D in (64, 128)
        ?assert S <= 128
        o = H[B, S, D]
        for b in range(B):
            t = T[S, D]
            nisa.dma_copy(dst=t, src=x@[b])
            r = T[S, 1]
            nisa.tensor_reduce(dst=r, op=nl.add, data=t, axis=1)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=r)
            nisa.dma_copy(dst=o[b, :, :], src=t)
    """),
    _block("M=128 N=40,256", "x@=[M, N]; y@=[M, N]", """
        assert x@.shape == y@.shape
        a = T[x@.shape[0], x@.shape[1]]
        b = T[y@.shape[0], y@.shape[1]]
        nisa.dma_copy(dst=a, src=x@)
        nisa.dma_copy(dst=b, src=y@)
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.add)
        s = P[a.shape[0], b.shape[1]]
        nisa.tensor_copy(dst=s, src=a)
        nisa.tensor_copy(dst=b, src=s)
        o = H[a.shape[0], b.shape[1]]
        nisa.dma_copy(dst=o, src=b)
    """),
    _block("N=64,128,512 n=16,33,64", "x@=[128, N]; n@=n", """
        N = x@.shape[1]
        ?assert n@ <= N
        t = T[128, n@]
        nisa.dma_copy(dst=t, src=x@[:, 0:n@])
        u = T[128, n@]
        nisa.tensor_copy(dst=u, src=t)
        nisa.activation(dst=u, op=nl.exp, data=t)
        o = H[128, n@]
        nisa.dma_copy(dst=o, src=u[:, :n@])
    """),
    _block("M=32,64,128 N=32,64,128", "x@=[M, N]", """
        M, N = x@.shape
        ?assert N <= 128
        t = T[M, N]
        nisa.dma_copy(dst=t, src=x@)
        p = P[N, M]
        nisa.nc_transpose(dst=p, data=t)
        u = T[N, M]
        nisa.tensor_copy(dst=u, src=p)
        o = H[N, M]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("A=2,4 w=8,32", "x@=[128, A * w]; y@=[128, w]; z@=[128, A]", """
        A = z@.shape[1]
        w = y@.shape[1]
        ?assert x@.shape[1] == A * w
        v = x@.reshape((128, A, w))
        t = T[128, w]
        s = T[128, A]
        nisa.dma_copy(dst=s, src=z@)
        o = H[128, A, w]
        for a in range(A):
            nisa.dma_copy(dst=t, src=v[:, a, :])
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=s[:, a : a + 1])
            nisa.dma_copy(dst=o[:, a, :], src=t)
    """),
    _block("N=64,96,128 S=16,64", "x@=[128, N]; start@=N - S; size@=S", """
        N = x@.shape[1]
        ?assert start@ + size@ <= N
        t = T[128, N]
        nisa.dma_copy(dst=t, src=x@)
        u = T[128, N - start@]
        nisa.tensor_copy(dst=u, src=t[:, start@ : start@ + size@])
        o = H[128, size@]
        nisa.dma_copy(dst=o, src=u)
    """),
    _block("H=1,2,4 G=1,2 D=32,64", "q@=[128, H * G * D]; k@=[128, H * D]; heads@=H", """
        d = k@.shape[1] // heads@
        g = q@.shape[1] // k@.shape[1]
        ?assert q@.shape[1] % k@.shape[1] == 0
        t = T[128, heads@ * g * d]
        nisa.dma_copy(dst=t, src=q@)
        u = T[128, heads@ * d]
        nisa.dma_copy(dst=u, src=k@)
        for h in range(heads@):
            for j in range(g):
                at = (h * g + j) * d
                nisa.tensor_tensor(
                    dst=t[:, at : at + d], data1=t[:, at : at + d], data2=u[:, h * d : (h + 1) * d], op=nl.multiply
                )
        o = H[128, q@.shape[1]]
        nisa.dma_copy(dst=o, src=t)
    """),
)  # fmt: skip


@dataclass(frozen=True)
class Unknown:
    """A kernel with a name for its fault, empty without one, and what its arguments are made of."""

    text: str
    fault: str
    blocks: tuple[Block, ...] = field(repr=False)

    def shapes(self, choice: Choice, *, loose: bool = False) -> dict[str, Any]:
        """Draw the arguments by name: a tuple for a tensor, a dict for a config, a number.

        With `loose` sizes may leave the contract, close to what it asks for.
        """
        made: dict[str, Any] = {}
        for number, block in enumerate(self.blocks):
            sizes = {name: choice.pick(some) for name, some in block.sizes.items()}
            if loose and choice.chance(50):
                sizes = {name: _near(choice, value) for name, value in sizes.items()}
            leaves: dict[str, int] = {}
            for name, value in block.parameters.items():
                for text in _leaves(value):
                    size = min(int(eval(text, {}, dict(sizes))), _LARGEST)
                    others = [*sizes.values(), *leaves.values()]
                    leaves[name + text] = _near(choice, choice.pick([size, *others])) if loose else size
            for name, value in block.parameters.items():
                given = [leaves[name + text] for text in _leaves(value)]
                key = name.replace("@", str(number))
                if value[0] == "[":
                    made[key] = tuple(given)
                elif value[0] == "{":
                    keys = [part.partition(":")[0].strip() for part in value[1:-1].split(",")]
                    made[key] = {**dict(zip(keys, given, strict=True)), "wide": choice.chance(50)}
                else:
                    made[key] = given[0]
        return made


_LARGEST: Final = 8192


def _near(choice: Choice, size: int) -> int:
    """A size that stands in a simple relation to another one, mostly the same."""
    others = (size, size, size, size * 2, size // 2, size + 1, size - 1, 128, 64, 256, 512, 1, size * 4, size // 4)
    return min(max(1, choice.pick(others)), _LARGEST)


def _leaves(value: str) -> list[str]:
    """The sizes of a parameter."""
    if value[0] == "{":
        return [part.partition(":")[2].strip() for part in value[1:-1].split(",")]
    return [part.strip() for part in value.strip("[]").split(",")]


def draw(choice: Choice) -> Unknown:
    """Draw a kernel; about half of them have a fault."""
    blocks = tuple(choice.pick(BLOCKS) for _ in range(1 + choice.integer(0, 5) // 4))
    names: list[str] = []
    body: list[str] = []
    for number, block in enumerate(blocks):
        names += [f"{name}: Config" if value[0] == "{" else f"{name}: int" if value[0] != "[" and choice.chance(50)
                  else name for name, value in block.parameters.items()]  # fmt: skip
        lines = _without_some(choice, block.text.splitlines())
        body += [_expanded(choice, line) for line in lines]
        body.append("results.append(o)")
        names = [name.replace("@", str(number)) for name in names]
        body = [line.replace("@", str(number)) for line in body]
    fault, lines = _spoiled(choice, body) if choice.chance(55) else ("", body)
    inner = textwrap.indent("\n".join(lines), "    ")
    kernel = f"@nki.jit\ndef kernel({', '.join(names)}):\n    results = []\n{inner}\n    return tuple(results)\n"
    helpers = [text for name, text in HELPERS.items() if re.search(rf"\b{name}\b", kernel)]
    text = "\n\n".join([IMPORTS, *helpers, kernel])
    return Unknown(text, fault, blocks)


def _without_some(choice: Choice, lines: list[str]) -> list[str]:
    return [line.removeprefix("?") for line in lines if not line.startswith("?") or choice.chance(60)]


def _expanded(choice: Choice, line: str) -> str:
    """The line with its allocations written out, or made by a helper."""

    def written(match: re.Match[str]) -> str:
        kind, shape = match.groups()
        space = {"T": "nl.sbuf", "P": "nl.psum", "H": "nl.shared_hbm"}[kind]
        if kind == "T" and shape.count(",") == 1 and choice.chance(25):
            return f"tile({shape})"
        return f"nl.ndarray(({shape}), dtype=nl.float32, buffer={space})"

    return re.sub(r"\b([TPH])\[([^\]]*(?:\[\d\][^\]]*)*)\](?= |$)", written, line)


_NAMES: Final = re.compile(r"\b[A-Za-z]\w*\b(?!\()")


def _spoiled(choice: Choice, body: list[str]) -> tuple[str, list[str]]:
    """The lines with one thing changed, and what that is."""
    kind = choice.pick(("number", "name", "buffer", "dtype", "slice", "swap", "plus", "operator"))
    pattern, change = {
        "number": (r"(?<![\w.])\d+(?!\w)", lambda text: str(_other(choice, int(text)))),
        "name": (r"(?<=[\[(:, ])[A-Za-z]\w?(?=[\]):, ])", lambda _: choice.pick(_sizes_in(body) or ["64"])),
        "buffer": (r"nl\.(sbuf|psum|shared_hbm)", lambda _: choice.pick(("nl.psum", "nl.sbuf", "nl.shared_hbm"))),
        "dtype": (r"nl\.float32", lambda _: choice.pick(("nl.bfloat16", "nl.int32", "nl.uint8", "nl.float16"))),
        "slice": (r"(?<=[\[ ])[\w@]+:[\w@]+", lambda text: _moved(choice, text)),
        "swap": (r"\(\((\w+), (\w+)\)|tile\((\w+), (\w+)\)", _swapped),
        "plus": (r"(?<=[:, ] )[\w@]+(?=\])|(?<=\()\w+(?=,)",
                 lambda text: text + choice.pick((" + 1", " * 2", " // 2", " - 1"))),
        "operator": (r" (\*|//|\+|-) ", lambda _: choice.pick((" * ", " // ", " + ", " - "))),
    }[kind]  # fmt: skip
    places = [
        (number, match)
        for number, line in enumerate(body)
        for match in re.finditer(pattern, line)
        if line[: match.start()].strip()
    ]
    if not places:
        return "", body
    number, match = choice.pick(places)
    line = body[number]
    changed = line[: match.start()] + change(match.group()) + line[match.end() :]
    spoiled = [*body[:number], changed, *body[number + 1 :]]
    try:
        ast.parse("\n".join(spoiled))
    except SyntaxError:
        return "", body
    return ("", body) if changed == line else (f"{kind}: {changed.strip()}", spoiled)


def _other(choice: Choice, number: int) -> int:
    return choice.pick((number * 2, number // 2, number + 1, max(0, number - 1), number * 4))


def _sizes_in(body: list[str]) -> list[str]:
    """The names that the lines assign sizes to."""
    return sorted({name for line in body if re.search(r"shape|//|min\(", line)
                   for name in re.findall(r"\w+", line.partition(" = ")[0]) if line.count(" = ") == 1})  # fmt: skip


def _moved(choice: Choice, text: str) -> str:
    start, _, end = text.partition(":")
    return choice.pick((f"{start}:{end} + 1", f"1:{end}", f"{start}:{end} - 1", f"{start}:{end} // 2", f"0:{end} * 2"))


def _swapped(text: str) -> str:
    return re.sub(r"(\w+), (\w+)\)", r"\2, \1)", text)


def arguments(module: Any, shapes: Mapping[str, Any], array: Callable[[tuple[int, ...], str], Any]) -> list[Any]:
    """The tensors, which `array` makes, configs and numbers of a call."""
    return [
        array(value, "float32") if isinstance(value, tuple) else module.Config(**value) if isinstance(value, dict) else value
        for value in shapes.values()
    ]  # fmt: skip
