"""Single faults of 22 kinds, put into any file that uses NKI: mutations of its text at places that its syntax tree has.

Each kind reads the declarations only for what would be right, and knows nothing of the checker. A fault is certain from
the text of the function around it: no shapes are needed to see it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import EnumType
from functools import cached_property
from typing import Any, Final

import nki_lab.isa.ops  # noqa: F401 - fills the table
from nki_lab.isa import enums
from nki_lab.isa.activation import ACTIVATIONS
from nki_lab.isa.alu import ALU
from nki_lab.isa.spec import REQUIRED, TABLE, Instruction, Operand

Edit = tuple[int, int, str]
"""Two offsets in the UTF-8 text, and what stands between them from now on."""
SPACES: Final = {"sbuf": "sbuf", "psum": "psum", "hbm": "hbm", "private_hbm": "hbm", "shared_hbm": "hbm"}
MAKERS: Final = frozenset({"ndarray", "zeros", "ones"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A mutated text: an error must be reported at one of `lines`."""

    kind: str
    what: str
    text: str
    lines: frozenset[int]


class Source:
    """A text with its tree, and the names that it imports from NKI; `beta1` where these are of `neuronxcc`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bytes = text.encode()
        self.tree = ast.parse(text)
        starts = [0]
        for line in self.bytes.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        self.starts = starts
        self.names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                self.names |= {item.asname: item.name for item in node.names if item.asname}
                self.names |= {item.name: item.name for item in node.names if "." not in item.name}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                self.names |= {item.asname or item.name: f"{node.module}.{item.name}" for item in node.names}

    @cached_property
    def guarded(self) -> set[int]:
        """The lines of `try` statements, whose faults are expected."""
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Try):
                found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return found

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def extent(self, node: Any) -> tuple[int, int]:
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def edited(self, *edits: Edit) -> str:
        made = self.bytes
        for first, last, text in sorted(edits, reverse=True):
            made = made[:first] + text.encode() + made[last:]
        return made.decode()

    def dotted(self, node: ast.expr) -> str:
        """The full name that an expression spells through the imports; empty for others."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        return ".".join([self.names[node.id], *parts])

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls of functions of `nki.isa` and `nki.language`, in the order of the text."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted((node for node in found if self.home(node.func)), key=lambda node: (node.lineno, node.col_offset))

    def home(self, node: ast.expr) -> str:
        """`isa` or `language` for a name of these modules of the current dialect; empty for others."""
        head, _, _ = self.dotted(node).rpartition(".")
        return head.removeprefix("nki.") if head in ("nki.isa", "nki.language") else ""

    @cached_property
    def instructions(self) -> list[tuple[ast.Call, Instruction]]:
        """The calls of instructions without `*` and `**`."""
        found = []
        for node in self.calls:
            name = self.dotted(node.func).rpartition(".")[2]
            plain = not any(isinstance(item, ast.Starred) for item in node.args) and all(i.arg for i in node.keywords)
            if self.home(node.func) == "isa" and name in TABLE and plain:
                found.append((node, TABLE[name]))
        return found

    @cached_property
    def attributes(self) -> list[ast.Attribute]:
        """The names of NKI's modules that are read."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute) and self.home(node)]

    @cached_property
    def tensors(self) -> list[tuple[ast.AST, str, ast.Call]]:
        """Functions, their locals that are bound once, to a new tensor, and the call that makes it."""
        found: list[tuple[ast.AST, str, ast.Call]] = []
        for function in ast.walk(self.tree):
            if isinstance(function, ast.FunctionDef):
                stores: dict[str, list[ast.Call | None]] = {}
                for argument in ast.walk(function.args):
                    if isinstance(argument, ast.arg):
                        stores.setdefault(argument.arg, []).append(None)
                for node in ast.walk(function):
                    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                        stores.setdefault(node.id, []).append(None)
                    elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not function:
                        stores.setdefault(node.name, []).append(None)
                for node in ast.walk(function):
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                        name = node.targets[0].id
                        if len(stores[name]) == 1 and len(node.targets) == 1 and self._makes(node.value):
                            assert isinstance(node.value, ast.Call)
                            found.append((function, name, node.value))
        return found

    def _makes(self, node: ast.expr) -> bool:
        return (
            isinstance(node, ast.Call)
            and self.home(node.func) == "language"
            and self.dotted(node.func).rpartition(".")[2] in MAKERS
        )

    @cached_property
    def uses(self) -> list[tuple[ast.Call, ast.expr, ast.Call, Instruction, Operand]]:
        """The operands that are such a local, or a part of it: its making, the operand's expression and call."""
        made: dict[str, list[tuple[ast.AST, ast.Call]]] = {}
        for function, name, call in self.tensors:
            made.setdefault(name, []).append((function, call))
        found = []
        for call, instruction in self.instructions:
            for name, value in arguments(call, instruction).items():
                operand = instruction.arguments[name]
                base = value.value if isinstance(value, ast.Subscript) else value
                if isinstance(base, ast.Name) and operand.is_tensor:
                    for function, making in made.get(base.id, ()):
                        inside = function.lineno <= call.lineno <= (function.end_lineno or 0)  # type: ignore[attr-defined]
                        if inside and making.lineno <= call.lineno:
                            found.append((making, value, call, instruction, operand))
        return found


def arguments(call: ast.Call, instruction: Instruction) -> dict[str, ast.expr]:
    """The arguments of a call by name."""
    names = list(instruction.arguments)
    given = dict(zip(names, call.args, strict=False))
    return given | {item.arg: item.value for item in call.keywords if item.arg in names}


def misspelled(name: str) -> str:
    """A name with a letter doubled."""
    place = max(1, len(name) // 2)
    return name[:place] + name[place - 1] + name[place:]


def lines_of(*nodes: Any) -> frozenset[int]:
    return frozenset(line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


Site = tuple[str, str, frozenset[int]]
"""What is changed, the text after it, and the lines of the fault."""
Kind = Callable[[Source], Iterator[Site]]


def _attribute(source: Source, node: ast.Attribute, name: str) -> Site:
    last = source.extent(node)[1]
    text = source.edited((last - len(node.attr.encode()), last, name))
    return f"{node.attr} as {name}", text, lines_of(node)


def instruction_name(source: Source) -> Iterator[Site]:
    """A misspelled function of nki.isa."""
    for node, _ in source.instructions:
        if isinstance(node.func, ast.Attribute):
            yield _attribute(source, node.func, misspelled(node.func.attr))


def language_name(source: Source) -> Iterator[Site]:
    """A misspelled name of nki.language."""
    for node in source.attributes:
        if source.home(node) == "language":
            yield _attribute(source, node, misspelled(node.attr))


def removed_name(source: Source) -> Iterator[Site]:
    """A name that a release removed."""
    for node in source.attributes:
        if source.home(node) == "language":
            yield _attribute(source, node, "arange")


def import_module(source: Source) -> Iterator[Site]:
    """A misspelled module of NKI in an import."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name in ("nki.language", "nki.isa", "nki.collectives", "neuronxcc.nki.language"):
                    first = source.extent(item)[0]
                    text = source.edited((first, first + len(item.name), item.name + "z"))
                    yield f"{item.name}z", text, lines_of(item)


def import_name(source: Source) -> Iterator[Site]:
    """A misspelled name in an import from NKI."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("nki.language", "nki.isa", "nki.collectives"):
            for item in node.names:
                first = source.extent(item)[0]
                text = source.edited((first, first + len(item.name), misspelled(item.name)))
                yield misspelled(item.name), text, lines_of(node)


def keyword(source: Source) -> Iterator[Site]:
    """A misspelled keyword of an instruction."""
    for call, _ in source.instructions:
        for item in call.keywords:
            assert item.arg is not None
            first = source.extent(item)[0]
            text = source.edited((first, first + len(item.arg), misspelled(item.arg)))
            yield misspelled(item.arg), text, lines_of(call)


def language_keyword(source: Source) -> Iterator[Site]:
    """A misspelled keyword of a function of nki.language that makes a tensor."""
    for _, _, call in source.tensors:
        for item in call.keywords:
            if item.arg is not None:
                first = source.extent(item)[0]
                text = source.edited((first, first + len(item.arg), misspelled(item.arg)))
                yield misspelled(item.arg), text, lines_of(call)


def _appended(source: Source, call: ast.Call, text: str) -> str:
    """The text with another argument behind those of a call."""
    last = max([*call.args, *call.keywords], key=lambda node: source.extent(node)[1])
    end = source.extent(last)[1]
    while source.bytes[end : end + 1] == b")" and end < source.extent(call)[1] - 1:
        end += 1  # an argument in parentheses of its own
    return source.edited((end, end, f", {text}"))


def removed_keyword(source: Source) -> Iterator[Site]:
    """A keyword that a release removed."""
    for call, instruction in source.instructions:
        if "mask" not in instruction.arguments and (call.args or call.keywords):
            yield "mask=None", _appended(source, call, "mask=None"), lines_of(call)


def unknown_keyword(source: Source) -> Iterator[Site]:
    """A keyword that no release had."""
    for call, _ in source.instructions:
        if call.args or call.keywords:
            yield "seeded=1", _appended(source, call, "seeded=1"), lines_of(call)


def missing_argument(source: Source) -> Iterator[Site]:
    """A required argument left out."""
    for call, instruction in source.instructions:
        for number, item in enumerate(call.keywords):
            operand = instruction.arguments.get(item.arg or "")
            if operand is None or operand.default is not REQUIRED:
                continue
            first, last = source.extent(item)
            others = [*call.args, *call.keywords[:number]]
            if others:  # with the comma before it
                first = max(source.extent(node)[1] for node in others)
                while source.bytes[first : first + 1] != b",":
                    first += 1
            elif len(call.keywords) > 1:
                last = source.extent(call.keywords[1])[0]
            text = source.edited((first, last, ""))
            if _parses(text):
                yield f"without {item.arg}", text, lines_of(call)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def repeated_argument(source: Source) -> Iterator[Site]:
    """An argument given by position and by keyword."""
    for call, instruction in source.instructions:
        if call.args:
            name = next(iter(instruction.arguments))
            yield f"{name} twice", _appended(source, call, f"{name}=None"), lines_of(call)


def too_many(source: Source) -> Iterator[Site]:
    """More positional arguments than the instruction has."""
    for call, instruction in source.instructions:
        if call.args and not call.keywords:
            more = ", ".join(["None"] * (len(instruction.arguments) + 2 - len(call.args)))
            yield "too many", _appended(source, call, more), lines_of(call)


def _replaced(source: Source, call: ast.Call, value: ast.expr, text: str) -> Site:
    return f"{ast.unparse(value)[:30]} as {text}", source.edited((*source.extent(value), text)), lines_of(call)


def enumeration_member(source: Source) -> Iterator[Site]:
    """A misspelled member of an enumeration."""
    kinds = {name for name, kind in vars(enums).items() if isinstance(kind, EnumType)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            head, _, _ = source.dotted(node).rpartition(".")
            module, _, kind = head.rpartition(".")
            if module in ("nki.isa", "nki.isa.constants") and kind in kinds:
                yield _attribute(source, node, misspelled(node.attr))


def enumeration_value(source: Source) -> Iterator[Site]:
    """A number in the place of a member of an enumeration."""
    for call, instruction in source.instructions:
        for name, value in arguments(call, instruction).items():
            operand = instruction.arguments[name]
            if operand.enum in (enums.engine, enums.reduce_cmd, enums.oob_mode):
                yield _replaced(source, call, value, "17")


def _language(source: Source) -> str:
    return next((name for name, module in source.names.items() if module == "nki.language"), "")


def operator(source: Source) -> Iterator[Site]:
    """A function that is no operator of the arithmetic units, or no activation."""
    nl = _language(source)
    for call, instruction in source.instructions if nl else ():
        for name, value in arguments(call, instruction).items():
            wrong = {"alu": "exp", "activation": "bitwise_and"}.get(instruction.arguments[name].kind)
            if (
                wrong is not None
                and wrong not in {"alu": ALU, "activation": ACTIVATIONS}[instruction.arguments[name].kind]
            ):
                yield _replaced(source, call, value, f"{nl}.{wrong}")


def operator_value(source: Source) -> Iterator[Site]:
    """A number in the place of an operator."""
    for call, instruction in source.instructions:
        for name, value in arguments(call, instruction).items():
            if instruction.arguments[name].kind in ("alu", "activation"):
                yield _replaced(source, call, value, "3")


def tensor_attribute(source: Source) -> Iterator[Site]:
    """An attribute that tensors do not have."""
    for function, name, making in source.tensors:
        statement = next(node for node in ast.walk(function) if isinstance(node, ast.Assign) and node.value is making)
        end = source.extent(statement)[1]
        text = source.edited((end, end, f"; {name}.shapes"))
        yield f"{name}.shapes", text, frozenset({statement.end_lineno or 0})
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
                yield _attribute(source, node, misspelled(node.attr))


def tensor_operand(source: Source) -> Iterator[Site]:
    """A text in the place of a tensor."""
    for call, instruction in source.instructions:
        for name, value in arguments(call, instruction).items():
            if instruction.arguments[name].is_tensor and name not in instruction.groups:
                yield _replaced(source, call, value, "'tile'")


def _given(call: ast.Call, name: str, place: int) -> ast.expr | None:
    named = [item.value for item in call.keywords if item.arg == name]
    return named[0] if named else call.args[place] if len(call.args) > place else None


def buffer(source: Source) -> Iterator[Site]:
    """A tensor in a memory that an instruction does not access."""
    nl = _language(source)
    for making, _, call, _, operand in source.uses if nl else ():
        value = _given(making, "buffer", 2)
        space = SPACES.get(value.attr) if isinstance(value, ast.Attribute) else None
        if value is None or space not in operand.spaces:
            continue
        for wrong in ("hbm", "psum", "sbuf"):
            if wrong not in operand.spaces:
                what, text, _ = _replaced(source, making, value, f"{nl}.{wrong}")
                yield what, text, lines_of(call, making)
                break


def buffer_text(source: Source) -> Iterator[Site]:
    """The memory of a new tensor as a text."""
    for _, _, making in source.tensors:
        value = _given(making, "buffer", 2)
        if isinstance(value, ast.Attribute) and source.home(value):
            yield _replaced(source, making, value, f'"{value.attr}"')


def dtype(source: Source) -> Iterator[Site]:
    """A tensor of a dtype that an instruction does not take."""
    nl = _language(source)
    for making, _, call, _, operand in source.uses if nl else ():
        value = _given(making, "dtype", 1)
        known = {item.name for item in operand.dtypes}
        wrong = next((name for name in ("int32", "float32", "int8", "bfloat16") if name not in known), None)
        if known and wrong and value is not None:
            what, text, _ = _replaced(source, making, value, f"{nl}.{wrong}")
            yield what, text, lines_of(call, making)


def size(source: Source) -> Iterator[Site]:
    """A dimension that no memory on the chip holds, or that is not positive."""
    for _, _, making in source.tensors:
        shape, memory = _given(making, "shape", 0), _given(making, "buffer", 2)
        if isinstance(shape, ast.Tuple) and len(shape.elts) > 1 and isinstance(memory, ast.Attribute | None):
            on_chip = memory is None or memory.attr in ("sbuf", "psum")
            literal = all(isinstance(item, ast.Constant) for item in shape.elts[:-1])
            if on_chip and literal:
                yield _replaced(source, making, shape.elts[-1], "1000000")
            yield _replaced(source, making, shape.elts[-1], "0")


def partitions(source: Source) -> Iterator[Site]:
    """An operand of more partitions than the chip has."""
    for making, value, call, _, _ in source.uses:
        shape, memory = _given(making, "shape", 0), _given(making, "buffer", 2)
        on_chip = memory is None or (isinstance(memory, ast.Attribute) and memory.attr in ("sbuf", "psum"))
        if isinstance(shape, ast.Tuple) and on_chip and isinstance(value, ast.Name):
            what, text, _ = _replaced(source, making, shape.elts[0], "129")
            yield what, text, lines_of(call, making)


KINDS: Final[Mapping[str, Kind]] = {
    kind.__name__: kind
    for kind in (
        instruction_name, language_name, removed_name, import_module, import_name, keyword, language_keyword,
        removed_keyword, unknown_keyword, missing_argument, repeated_argument, too_many, enumeration_member,
        enumeration_value, operator, operator_value, tensor_attribute, tensor_operand, buffer, buffer_text, dtype,
        size, partitions,
    )
}  # fmt: skip


def faults(source: Source, most: int) -> Iterator[Fault]:
    """At most so many faults of each kind, from places all over the text; none inside `try`."""
    for name, kind in KINDS.items():
        sites = [site for site in kind(source) if not site[2] & source.guarded]
        for i in range(min(most, len(sites))):
            what, text, lines = sites[i * len(sites) // min(most, len(sites))]
            yield Fault(name, what, text, lines)
