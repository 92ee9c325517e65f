"""Calls with one thing wrong: a legal call of any instruction, and a change that its declaration must refuse.

The changes are drawn from the declaration alone (operands, letters, memories, dtypes, kinds of attributes), so that a
new instruction is attacked as soon as it is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import REQUIRED, Instruction, Operand
from tests.calls import Call, Case, Memory, Part, Word
from tests.draws import Choice, row_major


@dataclass(frozen=True, slots=True)
class Illegal:
    """A case that must be refused: with one of `codes`, at `operand`, for the reason `what`.

    `numbers` are texts of which the message must contain one.
    """

    case: Case
    codes: tuple[str, ...]
    operand: str
    what: str
    numbers: tuple[str, ...] = ()


class Attack:
    """One legal case under change; tensors that a change adds are never filled, for nothing runs."""

    def __init__(self, choice: Choice, instruction: Instruction, case: Case, arch: Arch) -> None:
        self.choice = choice
        self.instruction = instruction
        self.case = case
        self.arch = arch
        self.call = case.call
        self.memories: list[Memory] = []

    def fresh(self, space: str, dtype: str, shape: Sequence[int], text: str = "", part: Sequence[int] = (),
              index: Part | None = None) -> Part:  # fmt: skip
        """A new tensor, and the view of it that `text` makes, of shape `part`."""
        number = len(self.case.memories) + len(self.memories)
        self.memories.append(Memory(space, dtype, tuple(shape), flavour="none"))
        kept = tuple(part or shape)
        return Part(number, text, dtype, 0, kept, tuple(row_major(kept)), index)

    def space(self, part: Part) -> str:
        return self.case.memories[part.memory].space

    def operand(self, test: Callable[[Operand, Part], bool] = lambda _o, _p: True) -> str:
        """The name of a tensor operand of the call that passes the test; empty where there is none."""
        names = [name for name, part in self.call.parts.items() if test(self.instruction.operands[name], part)]
        return self.choice.pick(names) if names else ""

    def refused(self, call: Call, codes: Sequence[str], operand: str, what: str, numbers: Sequence[object] = (),
                ) -> Illegal:  # fmt: skip
        case = self.case.with_call(call, *self.memories)
        return Illegal(case, tuple(codes), operand, what, tuple(str(number) for number in numbers))


def _on_chip(_operand: Operand, part: Part) -> bool:
    return part.index is None and len(part.shape) > 1


def unknown_keyword(attack: Attack) -> Illegal:
    name = attack.choice.pick(("bogus", "dts", "mask", "psumAccumulateFlag", "num_channels"))
    codes = ["NKI602"] if name in ("mask", "psumAccumulateFlag", "num_channels") else ["NKI002"]
    return attack.refused(attack.call.but(**{name: 1}), codes, name, f"unknown keyword {name}")


def missing_argument(attack: Attack) -> Illegal | None:
    given = attack.instruction.arguments  # lists are left out whole elsewhere
    names = [n for n in attack.call.arguments if n in given and given[n].default is REQUIRED]
    name = attack.choice.pick(names)
    return attack.refused(attack.call.without(name), ["NKI003"], name, f"{name} is missing")


def not_a_tensor(attack: Attack) -> Illegal | None:
    name = attack.operand(lambda operand, _: not operand.scalar)
    if not name:
        return None
    values: list[Any] = [Word("np.zeros((2, 2), np.float32)"), Word("'x'"), Word("[1, 2]"), Word("1j"), Word("nl")]
    operand = attack.instruction.operands[name]
    if not operand.optional and operand.default is not None:
        values += [Word("None"), Word("1.5")]
    value = attack.choice.pick(values)
    return attack.refused(attack.call.but(**{name: value}), ["NKI013"], name, f"{name}={value.text}")


def wrong_memory(attack: Attack) -> Illegal | None:
    def movable(operand: Operand, part: Part) -> bool:
        return part.index is None and len(set(operand.spaces) & {"sbuf", "psum", "hbm"}) < 3

    name = attack.operand(movable)
    if not name:
        return None
    operand, part = attack.instruction.operands[name], attack.call.parts[name]
    space = attack.choice.pick([s for s in ("hbm", "psum", "sbuf") if s not in operand.spaces])
    shape = part.shape if len(part.shape) > 1 else (1, *part.shape)
    if (space == "psum" and shape[0] > 128) or _row_bytes(shape, part.dtype) > attack.arch.psum_partition_bytes:
        shape = (1, 1)
    made = attack.fresh(space, part.dtype, shape)
    return attack.refused(attack.call.but(**{name: made}), ["NKI201"], name, f"{name} in {space}", [space.upper()])


def _row_bytes(shape: Sequence[int], dtype: str) -> int:
    count = DTYPES[dtype].nbytes
    for size in shape[1:]:
        count *= size
    return count


def wrong_dtype(attack: Attack) -> Illegal | None:
    name = attack.operand(lambda operand, part: bool(operand.dtypes) and part.index is None)
    if not name:
        return None
    operand, part = attack.instruction.operands[name], attack.call.parts[name]
    names = [n for n, d in DTYPES.items() if d not in operand.dtypes and d.since <= attack.arch.generation]
    kind = attack.choice.pick([n for n in names if DTYPES[n].kind != "packed"])
    if not _can_be_allocated(attack, part, kind):
        return None
    made = attack.fresh(attack.space(part), kind, part.shape)
    return attack.refused(attack.call.but(**{name: made}), ["NKI202"], name, f"{name} as {kind}", [kind])


def newer_dtype(attack: Attack) -> Illegal | None:
    newer = [n for n, d in DTYPES.items() if d.since > attack.arch.generation]
    name = attack.operand(lambda operand, part: not operand.dtypes and _on_chip(operand, part))
    if not newer or not name:
        return None
    part = attack.call.parts[name]
    made = attack.fresh(attack.space(part), attack.choice.pick(newer), part.shape)
    return attack.refused(attack.call.but(**{name: made}), ["NKI221"], name, f"{name} as {made.dtype}", [made.dtype])


def _can_be_allocated(attack: Attack, part: Part, kind: str) -> bool:
    """Whether an operand can be allocated with elements of another kind."""
    return attack.space(part) != "psum" or _row_bytes(part.shape, kind) <= attack.arch.psum_partition_bytes


def packed_arithmetic(attack: Attack) -> Illegal | None:
    """Packed elements in an instruction that computes, or casts."""
    name = attack.operand(lambda operand, part: not operand.dtypes and _on_chip(operand, part))
    packed = [n for n, d in DTYPES.items() if d.kind == "packed" and d.since <= attack.arch.generation]
    kinds = {part.dtype for part in attack.call.parts.values()}
    careless = attack.instruction.name in ("memset", "core_barrier")  # the latter reads no element
    if not name or not packed or careless or any(DTYPES[k].kind == "packed" for k in kinds):
        return None
    part, kind = attack.call.parts[name], attack.choice.pick(packed)
    if not _can_be_allocated(attack, part, kind):
        return None
    made = attack.fresh(attack.space(part), kind, part.shape)
    codes = ["NKI202", "NKI207", "NKI222"]
    return attack.refused(attack.call.but(**{name: made}), codes, "", f"{name} as {made.dtype}", [made.dtype])


def _letters(attack: Attack, position: int) -> dict[str, list[str]]:
    """The operands of the call by the letter they have at a position."""
    found: dict[str, list[str]] = {}
    for name in attack.call.parts:
        dims = attack.instruction.operands[name].dims
        if len(dims) > 1:
            found.setdefault(dims[position], []).append(name)
    return found


def other_partitions(attack: Attack) -> Illegal | None:
    """One operand with a partition more or less than those that share its letter."""
    shared = [name for names in _letters(attack, 0).values() if len(names) > 1 for name in names]
    shared = [name for name in shared if attack.call.parts[name].index is None]
    if not shared:
        return None
    name = attack.choice.pick(shared)
    part = attack.call.parts[name]
    rows = part.shape[0] + 1 if part.shape[0] < 128 else 127
    made = attack.fresh(attack.space(part), part.dtype, (rows, *part.shape[1:]))
    return attack.refused(attack.call.but(**{name: made}), ["NKI203"], "", f"{name} of {rows} partitions", [rows])


def other_columns(attack: Attack) -> Illegal | None:
    """One operand with an element per partition more than its letter says."""
    shared = [n for letter, names in _letters(attack, -1).items() for n in names if letter == "1" or len(names) > 1]
    shared = [name for name in shared if attack.call.parts[name].index is None]
    if not shared:
        return None
    name = attack.choice.pick(shared)
    part = attack.call.parts[name]
    columns = _row_bytes(part.shape, "uint8") + 1
    if columns * DTYPES[part.dtype].nbytes > attack.arch.psum_partition_bytes or columns > 4096:
        return None
    made = attack.fresh(attack.space(part), part.dtype, (part.shape[0], columns))
    codes = ["NKI203", "NKI225"] if attack.instruction.name == "nc_transpose" else ["NKI203"]
    return attack.refused(attack.call.but(**{name: made}), codes, "", f"{name} of {columns} columns", [columns])


def too_many_partitions(attack: Attack) -> Illegal | None:
    """All operands that share the first letter of one, with 129 partitions; or one beyond the last partition."""
    groups = [names for names in _letters(attack, 0).values() if all(_plain(attack, name) for name in names)]
    if not groups:
        return None
    names = attack.choice.pick(groups)
    beyond = attack.choice.chance(30)
    call = attack.call
    for name in names:
        part = call.parts[name]
        rows = part.shape[0] if beyond else 129
        # Tensors of more partitions than there are may be made; instructions refuse what lies beyond.
        text = f"[{129 - rows}:129]" if beyond else ""
        call = call.but(**{name: attack.fresh(attack.space(part), part.dtype, (129, *part.shape[1:]), text,
                                              (rows, *part.shape[1:]))})  # fmt: skip
    codes = ["NKI204", "NKI211", "NKI225", "NKI203", "NKI212"]
    return attack.refused(call, codes, "", f"{names} beyond 128 partitions", ["128", "129"])


def _plain(attack: Attack, name: str) -> bool:
    part = attack.call.parts[name]
    return part.index is None and attack.space(part) != "hbm"


def _elementwise(attack: Attack) -> list[str]:
    """The operands of [P, F], where there is nothing else but columns; else none."""
    dims = {name: attack.instruction.operands[name].dims for name in attack.call.parts}
    fine = all(d in (("P", "F"), ("P", "1")) for d in dims.values())
    names = [name for name, d in dims.items() if d == ("P", "F")]
    return names if fine and all(_plain(attack, name) for name in names) else []


def too_many_dimensions(attack: Attack) -> Illegal | None:
    """Five free dimensions that cannot be merged."""
    names = _elementwise(attack)
    if not names or "pattern" in attack.call.arguments:
        return None
    strange = attack.choice.pick(names)
    call = attack.call
    for name in names:
        part = call.parts[name]
        rows = part.shape[0]
        if name == strange:
            cut = ", ".join([":"] + ["0:2"] * 5)
            made = attack.fresh(attack.space(part), part.dtype, (rows, 3, 3, 3, 3, 3), f"[{cut}]", (rows, *(2,) * 5))
        else:
            made = attack.fresh(attack.space(part), part.dtype, (rows, 32))
        call = call.but(**{name: made})
    return attack.refused(call, ["NKI205"], strange, f"{strange} in five free dimensions", ["5"])


def too_many_elements(attack: Attack) -> Illegal | None:
    """More elements per partition than an access reaches: 4096 in PSUM, 65536 in SBUF."""
    names = _elementwise(attack)
    if not names or "pattern" in attack.call.arguments:
        return None
    narrow = {"float8_e5m2": 1, "uint8": 1, "int8": 1}
    in_psum = any(attack.space(attack.call.parts[name]) == "psum" for name in names)
    columns = 4097 if in_psum else 65537
    call = attack.call
    for name in names:
        part = call.parts[name]
        kind = part.dtype if DTYPES[part.dtype].nbytes == 1 and part.dtype in narrow else ""
        integer = DTYPES[part.dtype].is_integer
        kind = kind or ("uint8" if integer else "float8_e5m2")
        call = call.but(**{name: attack.fresh(attack.space(part), kind, (part.shape[0], columns))})
    if "value" in call.arguments:
        call = call.but(value=0)
    codes = ["NKI220", "NKI207"]
    return attack.refused(call, codes, "", f"{columns} elements per partition", [columns])


def strided_partitions(attack: Attack) -> Illegal | None:
    names = [name for name, part in attack.call.parts.items() if _plain(attack, name) and 1 < part.shape[0] <= 64]
    if not names or attack.instruction.engines == ("dma",):
        return None
    name = attack.choice.pick(names)
    part = attack.call.parts[name]
    rows = part.shape[0]
    made = attack.fresh(attack.space(part), part.dtype, (2 * rows, *part.shape[1:]), f"[0:{2 * rows}:2]", part.shape)
    # The view may be refused where it is made: strided partitions are not a view that instructions take.
    return attack.refused(attack.call.but(**{name: made}), ["NKI219", "NKI305", "NKI312"], "", f"{name} strided")


def run_time_address(attack: Attack) -> Illegal | None:
    """Columns that a list chooses at run time, where the instruction or the target takes none."""
    lists = attack.arch.generation >= 4

    def takes_none(operand: Operand, part: Part) -> bool:
        return _on_chip(operand, part) and attack.space(part) != "hbm" and not (operand.indirect and lists)

    name = attack.operand(takes_none)
    if not name:
        return None
    part = attack.call.parts[name]
    columns = _row_bytes(part.shape, "uint8")
    if (columns + 2) * DTYPES[part.dtype].nbytes > attack.arch.psum_partition_bytes:
        return None
    rows = part.shape[0]
    index = attack.fresh("sbuf", "uint16", (rows, columns))
    text = f".indirect(INDEX, {columns})"
    made = attack.fresh(attack.space(part), part.dtype, (rows, columns + 2), text, (rows, columns), index)
    codes = ["NKI309", "NKI226"]
    return attack.refused(attack.call.but(**{name: made}), codes, name, f"{name} with columns from a list")


_JUNK: dict[str, tuple[str, ...]] = {
    "alu": ("'bogus'", "nl.ndarray", "3", "len", "nl.tanh"),
    "activation": ("'bogus'", "None", "3", "nl.add"),
    "enum": ("'bogus'", "None", "1.5", "nl.add"),
    "bool": ("'yes'", "None", "[]"),
    "number": ("'1'", "None", "[1]", "1j", "nl.add"),
    "pattern": ("[1, 2]", "None", "[[1, 0]]", "[[1, -3]]", "[[1.5, 2]]", "'ab'", "7"),
    "pair": ("(1, 2, 3)", "'ab'", "7", "(1.5, 2)"),
    "register": ("7", "None", "'r0'", "nl.add"),
    "register_out": ("7", "None", "'r0'", "nl.add"),
    "register_or_int": ("1.5", "None", "'r0'", "True", "nl.add"),
    "axis": ("1.5", "None", "'1'", "[1.5]", "True"),
}


def bad_attribute(attack: Attack) -> Illegal | None:
    names = [n for n, o in attack.instruction.operands.items() if not o.is_tensor and o.kind in _JUNK]
    if not names:
        return None
    name = attack.choice.pick(names)
    operand = attack.instruction.operands[name]
    options = [text for text in _JUNK[operand.kind] if text != "None" or operand.default is not None]
    if operand.enum is not None and operand.enum.__name__ in ("dge_mode", "matmul_perf_mode"):
        options.remove("None") if "None" in options else None
    text = attack.choice.pick(options)
    if name == "op0" and text == "None":
        return None
    return attack.refused(attack.call.but(**{name: Word(text)}), ["NKI012"], name, f"{name}={text}")


def bad_choice(attack: Attack) -> Illegal | None:
    names = [n for n, o in attack.instruction.operands.items() if o.choices]
    if not names:
        return None
    name = attack.choice.pick(names)
    return attack.refused(attack.call.but(**{name: Word("'maybe'")}), ["NKI012"], name, f"{name}='maybe'")


ATTACKS: tuple[Callable[[Attack], Illegal | None], ...] = (
    unknown_keyword, missing_argument, not_a_tensor, wrong_memory, wrong_dtype, newer_dtype, packed_arithmetic,
    other_partitions, other_columns, too_many_partitions, too_many_dimensions, too_many_elements, strided_partitions,
    run_time_address, bad_attribute, bad_choice,
)  # fmt: skip


def draw_change(choice: Choice, instruction: Instruction, case: Case, arch: Arch) -> Illegal:
    """A change to the last call of a legal case that must be refused."""
    one = Case(case.target, case.memories, (case.call,))
    start = choice.integer(0, len(ATTACKS) - 1)
    for step in range(len(ATTACKS)):
        made = ATTACKS[(start + step) % len(ATTACKS)](Attack(choice, instruction, one, arch))
        if made is not None:
            return made
    raise AssertionError(f"nothing can be wrong with {instruction.name}")
