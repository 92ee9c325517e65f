"""Faults put into kernels one at a time, with the code and the lines at which a checker must report each.

What is wrong is drawn from the declarations (`tests.illegal`: a call that a declared limit forbids, inserted between
two statements of the kernel), or is a change to the kernel's own text: a keyword or name misspelled, an argument left
out, the statement that fills a tile removed, a construct outside the language.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.spec import REQUIRED, TABLE
from tests.calls import Case, Memory, argument_text
from tests.draws import Choice
from tests.strategies import draw_illegal, instructions_of


@dataclass(frozen=True, slots=True)
class Seeded:
    """A kernel's text with one fault in it: one of `codes` must be reported at a line from `first` to `last`."""

    text: str
    kind: str
    what: str
    codes: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where statements can be inserted: in front of `line`, at `indent` characters; `inside` is the function."""

    line: int
    indent: int
    inside: ast.FunctionDef


class Kernel:
    """A kernel's text, read for seeding."""

    def __init__(self, text: str, name: str, target: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.arch: Arch = arch_of(target)
        self.tree = ast.parse(text)
        self.modules = dict(_imported(self.tree))
        found = [item for item in self.tree.body if isinstance(item, ast.FunctionDef) and item.name == name]
        self.function = found[-1]

    @property
    def places(self) -> list[Place]:
        """Between the statements of the kernel; also inside its loops, where something runs in them."""
        return list(_places(self.function, self.function.body))

    def calls(self) -> list[ast.Call]:
        """The instructions that the kernel's own text calls, outside branches."""
        nodes = [node for statement in _straight(self.function.body) for node in _expressions(statement)]
        return [node for node in nodes if isinstance(node, ast.Call) and self.instruction(node)]

    def instruction(self, node: ast.Call) -> str:
        """The instruction that a call names; empty where it is none."""
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            module = self.modules.get(function.value.id, "")
            return function.attr if module == "nki.isa" and function.attr in TABLE else ""
        return ""

    def insert(self, place: Place, lines: list[str]) -> str:
        """The text with lines in front of a place."""
        made = [" " * place.indent + line for line in lines]
        return "\n".join([*self.lines[: place.line - 1], *made, *self.lines[place.line - 1 :]])

    def replace(self, node: ast.AST, text: str) -> str:
        """The text with a node of one line replaced."""
        line, start, end = node.lineno, node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        row = self.lines[line - 1].encode()
        changed = (row[:start] + text.encode() + row[end:]).decode()
        return "\n".join([*self.lines[: line - 1], changed, *self.lines[line:]])

    def without(self, statement: ast.stmt) -> str:
        """The text with a statement turned into `pass`; the lines keep their numbers."""
        last = statement.end_lineno or statement.lineno
        kept = [" " * statement.col_offset + "pass", *[""] * (last - statement.lineno)]
        return "\n".join([*self.lines[: statement.lineno - 1], *kept, *self.lines[last:]])


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                yield item.asname or item.name, item.name
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                yield item.asname or item.name, f"{node.module}.{item.name}"


def _places(function: ast.FunctionDef, body: list[ast.stmt]) -> Iterator[Place]:
    for number, statement in enumerate(body):
        documented = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if number or not documented:
            yield Place(statement.lineno, statement.col_offset, function)
        if (isinstance(statement, ast.For) and not _leaves(statement)) or isinstance(statement, ast.With):
            yield from _places(function, statement.body)


def _leaves(statement: ast.For | ast.With) -> bool:
    """A loop whose later statements may be skipped."""
    return any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in ast.walk(statement))


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that every run passes, the simple ones and heads of loops."""
    for statement in body:
        if isinstance(statement, ast.For | ast.With):
            yield from _straight(statement.body)
        elif not isinstance(statement, ast.If | ast.While | ast.FunctionDef | ast.ClassDef | ast.Try):
            yield statement


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement; columns inside f-strings are not true before Python 3.12."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        stack += [item for item in ast.iter_child_nodes(node) if not isinstance(item, ast.Lambda | ast.JoinedStr)]


# -- seeders -----------------------------------------------------------------------------------------------------------

Seeder = Callable[[Kernel, Choice], Seeded | None]


def declared_limit(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A call that a declaration forbids, between two statements."""
    if "nki.isa" not in kernel.modules.values():
        return None
    instruction = choice.pick(instructions_of(kernel.arch))
    illegal = draw_illegal(choice, instruction, kernel.arch)
    case = illegal.case
    if case.options:
        return None
    place = choice.pick(kernel.places)
    names = {module: name for name, module in kernel.modules.items()}
    lines = _call_lines(case, names["nki.isa"], names.get("nki.language", "nl"))
    head = [] if "nki.language" in names else ["import nki.language as nl"]
    numpy = "numpy" in names or not any("np." in line for line in lines)
    if head or not numpy:
        return None
    text = kernel.insert(place, lines)
    return Seeded(text, "declared limit", f"{instruction.name}: {illegal.what}", illegal.codes, place.line,
                  place.line + len(lines) - 1)  # fmt: skip


def _call_lines(case: Case, isa: str, language: str) -> list[str]:
    """Statements that make the tensors of a case, filled by nothing, and issue its last call."""
    lines = [_tile(number, memory, language) for number, memory in enumerate(case.memories)]
    call = case.call
    groups = TABLE[call.name].groups
    listed = {name: group for group, names in groups.items() for name in names}
    given: list[str] = []
    for name, value in call.arguments.items():
        group = listed.get(name)
        if group is None:
            given.append(f"{name}={_text(value, language, isa)}")
        elif name == groups[group][0]:
            inner = [_text(call.arguments[item], language, isa) for item in groups[group] if item in call.arguments]
            given.append(f"{group}=[{', '.join(inner)}]")
    return [*lines, f"{isa}.{call.name}({', '.join(given)})"]


def _text(value: object, language: str, isa: str) -> str:
    text = argument_text(value)
    for name, module in (("nl", language), ("nisa", isa)):
        text = text if name == module else text.replace(f"{name}.", f"{module}.")
    return text


def _tile(number: int, memory: Memory, language: str) -> str:
    space = "shared_hbm" if memory.space == "hbm" else memory.space
    place = f", address={memory.address}" if memory.address is not None else ""
    kind = f"{language}.{memory.dtype}"
    return f"t{number} = {language}.ndarray({memory.shape}, {kind}, buffer={language}.{space}{place})"


def misspelled_keyword(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A keyword of an instruction with two letters exchanged."""
    found = [(call, word) for call in kernel.calls() for word in call.keywords if word.arg and len(word.arg) > 2]
    if not found:
        return None
    call, word = choice.pick(found)
    assert word.arg is not None
    wrong = word.arg[:-2] + word.arg[-1] + word.arg[-2] + "x"
    row = kernel.lines[word.lineno - 1].encode()
    at = word.col_offset
    changed = (row[:at] + wrong.encode() + row[at + len(word.arg) :]).decode()
    text = "\n".join([*kernel.lines[: word.lineno - 1], changed, *kernel.lines[word.lineno :]])
    codes = ("NKI002", "NKI003", "NKI602")
    return Seeded(text, "misspelled keyword", f"{word.arg} as {wrong}", codes, call.lineno, call.end_lineno or 0)


def missing_argument(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A call without an argument that it needs."""
    found: list[tuple[ast.Call, ast.keyword]] = []
    for call in kernel.calls():
        arguments = TABLE[kernel.instruction(call)].arguments
        for word in call.keywords:
            operand = arguments.get(word.arg or "")
            same_line = word.lineno == word.value.end_lineno
            if operand is not None and operand.default is REQUIRED and same_line:
                found.append((call, word))
    if not found:
        return None
    call, word = choice.pick(found)
    row = kernel.lines[word.lineno - 1].encode()
    after = row[word.value.end_col_offset or 0 :].lstrip()
    before = row[: word.col_offset]
    if after.startswith(b","):
        after = after[1:].lstrip()
    changed = (before + after).decode()
    text = "\n".join([*kernel.lines[: word.lineno - 1], changed, *kernel.lines[word.lineno :]])
    codes = ("NKI003", "NKI013", "NKI012")
    return Seeded(text, "missing argument", f"without {word.arg}", codes, call.lineno, call.end_lineno or 0)


def misspelled_name(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A name of an NKI module that does not exist."""
    found = [
        node for statement in _straight(kernel.function.body) for node in _expressions(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        and kernel.modules.get(node.value.id, "") in ("nki.isa", "nki.language") and node.lineno == node.end_lineno
    ]  # fmt: skip
    if not found:
        return None
    node = choice.pick(found)
    assert isinstance(node.value, ast.Name)
    text = kernel.replace(node, f"{node.value.id}.{node.attr}z")
    return Seeded(text, "misspelled name", f"{node.attr}z", ("NKI006",), node.lineno, node.lineno)


def undefined_name(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A variable of the kernel under a name that nothing defines."""
    found = [
        node for statement in _straight(kernel.function.body) for node in _expressions(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in kernel.modules
    ]  # fmt: skip
    if not found:
        return None
    node = choice.pick(found)
    text = kernel.replace(node, f"{node.id}_zz")
    return Seeded(text, "undefined name", f"{node.id}_zz", ("NKI102",), node.lineno, node.lineno)


def unfilled_tile(kernel: Kernel, choice: Choice) -> Seeded | None:
    """The only statement that writes a tile removed; the first line that reads it must be reported."""
    statements = list(_straight(kernel.function.body))
    writers: dict[str, list[ast.stmt]] = {}
    for statement in ast.walk(kernel.function):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            for name in _written(kernel, statement.value):
                writers.setdefault(name, []).append(statement)
    made = _on_chip_tiles(kernel)
    found: list[tuple[str, ast.stmt, list[ast.stmt]]] = []
    for name, places in writers.items():
        alone = len(places) == 1 and places[0] in statements and name in made
        readers = [item for item in statements if _reads(kernel, item, name)]
        if alone and readers and readers[0].lineno > places[0].lineno and not _escapes(kernel, name):
            found.append((name, places[0], readers))
    if not found:
        return None
    name, statement, readers = choice.pick(found)
    text = kernel.without(statement)
    first = readers[0]
    codes = ("NKI301", "NKI302")
    return Seeded(text, "unfilled tile", f"{name} never written", codes, first.lineno, first.end_lineno or 0)


def _on_chip_tiles(kernel: Kernel) -> set[str]:
    """Names that are only ever one `ndarray` in SBUF or PSUM."""
    made: dict[str, list[bool]] = {}
    for node in ast.walk(kernel.function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = node.value
            good = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
            text = ast.unparse(value)
            good = good and ".ndarray(" in text and (".sbuf" in text or ".psum" in text)
            made.setdefault(node.targets[0].id, []).append(good)
    return {name for name, all_good in made.items() if all_good == [True]}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _written(kernel: Kernel, call: ast.Call) -> Iterator[str]:
    """Names of the tensors that an instruction writes."""
    name = kernel.instruction(call)
    if not name:
        return
    outputs = [key for key, operand in TABLE[name].operands.items() if operand.role == "out"]
    for word in call.keywords:
        if word.arg in outputs:
            yield _root(word.value)
    if call.args and outputs and next(iter(TABLE[name].arguments)) in outputs:
        yield _root(call.args[0])


def _reads(kernel: Kernel, statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    call = statement.value
    if not kernel.instruction(call):
        return False
    used = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)].count(name)
    return used > list(_written(kernel, call)).count(name)


def _escapes(kernel: Kernel, name: str) -> bool:
    """Whether a tile is named outside instructions and its own making: passed on, aliased, kept."""
    inside = {
        id(node) for call in ast.walk(kernel.function) if isinstance(call, ast.Call) and kernel.instruction(call)
        for node in ast.walk(call)
    }  # fmt: skip
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and id(node) not in inside
        for node in ast.walk(kernel.function)
    )


def out_of_bounds(kernel: Kernel, choice: Choice) -> Seeded | None:
    """An assignment to columns that the tensor does not have."""
    tiles = _on_chip_tiles(kernel)
    found = [(name, place) for name, place in _after_making(kernel.function, kernel.function.body) if name in tiles]
    if not found:
        return None
    name, place = choice.pick(found)
    text = kernel.insert(place, [f"{name}[0:1, 0:1000000] = 0.0"])
    return Seeded(text, "out of bounds", f"{name} to column 1000000", ("NKI303", "NKI304"), place.line, place.line)


def _after_making(function: ast.FunctionDef, body: list[ast.stmt]) -> Iterator[tuple[str, Place]]:
    """Names that statements outside branches bind, each with the place behind the statement."""
    for statement, following in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, Place(following.lineno, following.col_offset, function)
    for statement in body:
        if isinstance(statement, ast.For | ast.With) and not _leaves(statement):
            yield from _after_making(function, statement.body)


# Constructs that the language does not have; `{tile}` is the name of some tensor.
CONSTRUCTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("try:\n    pass\nexcept ValueError:\n    pass", ("NKI105",)),
    ("double = lambda value: value * 2", ("NKI104",)),
    ("global seeded_state", ("NKI107",)),
    ("match 3:\n    case 3:\n        pass", ("NKI108",)),
    ("if (walrus := 3) > 2:\n    pass", ("NKI108",)),
    ("table = {1: 2}", ("NKI111",)),
    ("bag = {1, 2}", ("NKI108",)),
    ("words = (item for item in (1, 2))", ("NKI103", "NKI106")),
    ("with open('file') as handle:\n    pass", ("NKI113",)),
    ("yield 3", ("NKI106",)),
    ("if 3 is 4:\n    pass", ("NKI110",)),
    ("tile_of_none = nl.ndarray((0, 4), nl.float32, buffer=nl.sbuf)", ("NKI307",)),
    ("wide = nl.ndarray((128, 4000000), nl.float32, buffer=nl.sbuf)", ("NKI313",)),
    ("bank = nl.ndarray((128, 20000), nl.float32, buffer=nl.psum)", ("NKI313",)),
    ("nl.arange(128)", ("NKI603", "NKI605", "NKI601", "NKI604", "NKI606", "NKI602")),
)


def construct(kernel: Kernel, choice: Choice) -> Seeded | None:
    """A statement that is not in the language, or makes a tensor that cannot be."""
    code, wanted = choice.pick(CONSTRUCTS)
    names = {module: name for name, module in kernel.modules.items()}
    if "nl." in code:
        if "nki.language" not in names:
            return None
        code = code.replace("nl.", f"{names['nki.language']}.")
    place = choice.pick(kernel.places)
    lines = textwrap.dedent(code).split("\n")
    text = kernel.insert(place, lines)
    return Seeded(text, "construct", code.split("\n")[0], wanted, place.line, place.line + len(lines) - 1)


# Instructions that are legal one by one; the finding belongs to the lines with an arrow.
WHOLE: tuple[tuple[str, str], ...] = (
    (
        "NKI414",
        """
        lost = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=lost, value=0.0)  # <-
        """,
    ),
    (
        "NKI301",
        """
        empty = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=empty, op=nl.exp, data=empty)  # <-
        """,
    ),
    (
        "NKI302",
        """
        half = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=half[:, 0:32], value=1.0)
        nisa.activation(dst=half, op=nl.exp, data=half)  # <-
        """,
    ),
    (
        "NKI416",
        """
        left = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
        right = nl.ndarray((128, 256), nl.bfloat16, buffer=nl.sbuf)
        total = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)
        early = nl.ndarray((128, 256), nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=left, value=0.0)
        nisa.memset(dst=right, value=0.0)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        nisa.tensor_copy(dst=early, src=total)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)  # <-
        nisa.tensor_copy(dst=early, src=total)
        """,
    ),
    (
        "NKI501",
        """
        narrow = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
        ones = nl.ndarray((128, 64), nl.bfloat16, buffer=nl.sbuf)
        nisa.memset(dst=narrow, value=0.0)
        nisa.memset(dst=ones, value=1.0)
        for turn in nl.sequential_range(64):
            nisa.tensor_tensor(dst=narrow, data1=narrow, data2=ones, op=nl.add)  # <-
        """,
    ),
)


def whole_kernel(kernel: Kernel, choice: Choice) -> Seeded | None:
    """Instructions that are legal one by one and not together."""
    code, block = choice.pick(WHOLE)
    names = {module: name for name, module in kernel.modules.items()}
    if not {"nki.isa", "nki.language"} <= set(names):
        return None
    lines = textwrap.dedent(block).strip("\n").split("\n")
    marked = [number for number, line in enumerate(lines) if line.endswith("# <-")]
    for name, module in (("nl", "nki.language"), ("nisa", "nki.isa")):
        lines = [re.sub(rf"\b{name}\.", f"{names[module]}.", line) for line in lines]
    place = choice.pick(kernel.places)
    first, last = place.line + marked[0], place.line + marked[-1]
    return Seeded(kernel.insert(place, lines), "whole kernel", code, (code,), first, last)


SEEDERS: tuple[Seeder, ...] = (
    declared_limit, declared_limit, declared_limit, declared_limit, misspelled_keyword, missing_argument,
    misspelled_name, undefined_name, unfilled_tile, out_of_bounds, construct, construct, whole_kernel,
    whole_kernel,
)  # fmt: skip


def seed(kernel: Kernel, choice: Choice) -> Seeded:
    """The kernel with one fault."""
    start = choice.integer(0, len(SEEDERS) - 1)
    for step in range(len(SEEDERS)):
        made = SEEDERS[(start + step) % len(SEEDERS)](kernel, choice)
        if made is not None:
            return made
    raise AssertionError("nothing can be wrong with this kernel")
