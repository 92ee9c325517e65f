"""The sentence that says how much slower or faster a run became, and which lines account for it.

Its amounts add up: those of the lines and of "everything else" are the change of the latency, rounded to the digits
that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nki_lab.comparison.compared import Compared, LineDifference, Side
from nki_lab.comparison.places import Place
from nki_lab.export.formatting import file_name
from nki_lab.kernel_runtime.vocabulary import reason
from nki_lab.quantities import THIN, bounds, decimal, duration, number, share, size, unit_of, whole

_MOST: Final = 3
"""Lines that a sentence names."""
_SMALL: Final = 0.1
"""Lines are named until the rest is less than this share of the change."""
_MAIN: Final = 0.9
"""A part of a line's change that is this share of it stands for the line; what is missing goes to everything else."""
_CODE: Final = 80  # characters of a source line
_NANOSECOND: Final = 1000  # picoseconds
_SHORT: Final = 32  # characters of a line in the sentence
_EDITS: Final = 3


def headline(found: Compared) -> str:
    """Return the sentence: "3.20 µs slower (+12 %): line 41 `nisa.dma_copy(…)` waits 2.90 µs longer for …"."""
    change = round(found.latency.change or 0)
    before, after = found.before, found.after
    names = "" if found.same_kernel else f"{before.kernel} and {after.kernel} are different kernels, compared by time: "
    if found.is_equal:
        return f"No difference: both take {duration(after.time)}."
    parts = _parts(found)
    quantum = _quantum(max(map(abs, [change, *(spent for _, spent in parts)])))
    if not _rounded(change, quantum):
        return (
            f"{names}the same latency, {duration(after.time)}."
            if names
            else f"The same latency, {duration(after.time)}."
        )
    rest = total = _rounded(change, quantum)
    clauses = []
    for item, spent in parts:
        shown = _rounded(spent, quantum)
        if shown:
            clauses.append(_clause(item, shown))
            rest -= shown
    if clauses and rest:
        clauses.append(f"everything else {duration(abs(rest))} {'more' if rest > 0 else 'less'}")
    percent = "" if found.latency.quotient is None else f" ({signed_share(found.latency.quotient)})"
    told = f": {'; '.join(clauses)}" if clauses else ""
    speed = "slower" if change > 0 else "faster"
    return f"{names}{duration(abs(total))} {speed}{percent}{told}{_error(found)}."


def _parts(found: Compared) -> list[tuple[tuple[LineDifference, str], int]]:
    """Return the lines that account for most of the change, each with the part of it that is named and its amount.

    The part is "work", a reason to wait, or empty: all of the line's time on the critical path.
    """
    out: list[tuple[tuple[LineDifference, str], int]] = []
    total = rest = round(found.latency.change or 0)
    for line in found.lines:
        spent = round(line.critical.change or 0)
        if len(out) == _MOST or not spent or abs(rest) < _SMALL * abs(total):
            break
        name, part = _main(line)
        if abs(part - spent) > (1 - _MAIN) * abs(spent) or 0 in (line.rows.before, line.rows.after):
            name, part = "", spent
        out.append(((line, name), part))
        rest -= part
    return out


def _main(line: LineDifference) -> tuple[str, int]:
    """Return the cause that most of a line's change comes from, "work" or a reason to wait, and its part of it."""
    causes = {"work": line.work, **line.waits}
    sign = 1 if (line.critical.change or 0) > 0 else -1
    name = max(causes, key=lambda cause: (sign * causes[cause], cause))
    return name, causes[name]


def _quantum(picoseconds: int) -> int:
    """Return the time that the last digit of a duration stands for: two decimals of its unit, or a nanosecond."""
    unit = unit_of(picoseconds)
    return unit // 100 if unit > _NANOSECOND else _NANOSECOND


def _rounded(picoseconds: int, quantum: int) -> int:
    part = (abs(picoseconds) + quantum // 2) // quantum * quantum
    return part if picoseconds > 0 else -part


def _clause(part: tuple[LineDifference, str], spent: int) -> str:
    line, cause = part
    amount, more = duration(abs(spent)), spent > 0
    what = "what has no line" if line.place is None else place_name(line.place)
    gone = line.place is not None and line.rows.after == 0
    new = line.place is not None and line.rows.before == 0
    if gone:
        return f"without {what} {amount} less"
    if new:
        return f"{what}, which is new, costs {amount}"
    if cause == "work":
        return f"{what} works {amount} {'longer' if more else 'less'}"
    if cause:
        return f"{what} waits {amount} {'longer' if more else 'less'} for {reason(cause)}"
    return f"{what} costs {amount} {'more' if more else 'less'}{_mostly(line, spent)}"


def _mostly(line: LineDifference, spent: int) -> str:
    """Return the part that is more than half of a line's change."""
    name, part = _main(line)
    if not abs(spent) / 2 < abs(part) <= abs(spent):
        return ""
    return ", mostly work" if name == "work" else f", mostly waits for {reason(name)}"


def _error(found: Compared) -> str:
    if found.latency.within_error is None:
        return ""
    kinds = {found.before.measured, found.after.measured}
    if kinds == {True}:
        return ""
    return (
        "; within the error of the prediction" if found.latency.within_error else "; more than the prediction's error"
    )


def place_name(place: Place) -> str:
    """Return a line with its code: "line 41 `nisa.dma_copy(…)`"; the later line where there is one."""
    line, file, text = (
        (place.other_line, place.other_file, place.other_text)
        if place.other_line
        else (place.line, place.file, place.text)
    )
    return f"line {line} {quoted(_call(text))}" if text else f"line {line} of {file_name(file)}"


def _call(text: str) -> str:
    """Return a long call without its arguments: "nisa.dma_copy(…)"."""
    name, bracket, _ = text.partition("(")
    return f"{name}(…)" if bracket and len(text) > _SHORT else text


def quoted(text: str) -> str:
    """Return a line of code in backquotes; a long one as far as there is room."""
    return f"`{text if len(text) <= _CODE else text[: _CODE - 1] + '…'}`"


def signed_share(part: float) -> str:
    """Return a change in percent with its sign; one that is hardly any has none."""
    text = share(abs(part))
    return text if text.startswith("<") else f"{'−' if part < 0 else '+'}{text}"


def notes(found: Compared) -> list[str]:
    """Return what else there is to know: the edit, other targets or options, and how far the runs can be compared."""
    return [text for text in (*_edits(found), *_conditions(found), *_pairing(found)) if text]


def _edits(found: Compared) -> Iterator[str]:
    if not found.same_kernel:
        return
    told = [_edit(place) for place in found.edits[:_EDITS]]
    more = len(found.edits) - len(told)
    told += [f"and {number(more)} more line{'s' * (more > 1)}"] if more else []
    if told:
        yield f"Edited: {'; '.join(told)}."


def _edit(place: Place) -> str:
    if not place.line:
        return f"line {place.other_line} {quoted(place.other_text)} is new"
    if not place.other_line:
        return f"line {place.line} {quoted(place.text)} is gone"
    if place.state == "moved":
        return f"line {place.other_line} {quoted(place.text)} moved, it was line {place.line}"
    return f"line {place.other_line} {quoted(place.text)} → {quoted(place.other_text)}"


def _conditions(found: Compared) -> Iterator[str]:
    before, after = found.before, found.after
    if before.target != after.target and before.target and after.target:
        yield f"Targets: {before.target} and {after.target}."
    if before.ranks != after.ranks:
        yield f"Ranks: {before.ranks} and {after.ranks}."
    elif before.cores != after.cores:
        yield f"Cores: {before.cores} and {after.cores}."
    for name in sorted({*before.options, *after.options}):
        values = [side.options.get(name, "its default") for side in (before, after)]
        if values[0] != values[1]:
            yield f"Option {name}: {values[0]} and {values[1]}."
    for side, label in ((before, "first"), (after, "second")):
        if side.stopped:
            yield f"The {label} run stopped at a fault: its times go up to there."
        if not side.instructions:
            yield f"The {label} run has no instructions."
    if before.measured != after.measured:
        yield f"The times of the {'first' if before.measured else 'second'} run are measured, the other ones predicted."


def _pairing(found: Compared) -> Iterator[str]:
    if not found.same_kernel:
        return
    counts = [len(rows) for rows in (found.rows.before, found.rows.only_before, found.rows.only_after)]
    if counts[1] or counts[2]:
        yield (
            f"Instructions: {number(counts[0])} paired, {number(counts[1])} only in the first run, "
            f"{number(counts[2])} only in the second."
        )
    if found.placeless:
        yield "A profile does not tell the lines of its transfers: in both runs they are part of what has no line."
    if found.by_number:
        yield "Lines are paired by their numbers where a run does not have the text of its source."


def side_name(side: Side) -> str:
    """Return a run in a few words: "double on trn2: 14.13 µs, 11.4 to 17.1"."""
    name = side.kernel or "kernel"
    where = f" on {side.target}" if side.target else ""
    time = f"{duration(side.time)}{bounds(side.interval, side.time)}"
    return f"{name}{where}: {time}{' measured' if side.measured else ''}"


def amount_text(value: float | None, unit: str) -> str:
    """Return an amount with its unit; "–" for an unknown one."""
    if value is None:
        return "–"
    match unit:
        case "ps":
            return duration(round(value))
        case "bytes":
            return size(whole(value))
        case "share":
            return share(value)
        case _:
            return number(whole(value))


def change_text(value: float | None, unit: str) -> str:
    """Return a change with its sign; "0" for none, and for one that has no digit which is written."""
    if value is None:
        return "–"
    text = f"{decimal(100 * abs(value))} points" if unit == "share" else amount_text(abs(value), unit)
    return f"{'−' if value < 0 else '+'}{text}" if float(text.split()[0].replace(THIN, "")) else "0"


def is_written(value: float | None, unit: str) -> bool:
    """Whether a change is written as one: it is not 0, and not unknown."""
    return value is not None and change_text(value, unit) != "0"
