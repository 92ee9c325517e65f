"""The loop that gives the tensors of one memory their bytes, in the part of Python that both the interpreter and numba
run.

`arrange` works on columns of numbers only, which `placing` lays out: lists for the interpreter, arrays for compiled
code. So there is one algorithm, and the two cannot differ.

A memory is seen part by part: partitions that are always occupied together. Interval i of a part goes from `starts[i]`
to the next start and belongs to `owners[i]`: the number of a tensor, FREE, or (-2, -3, ...) a group of placed tensors
that share the bytes. A tensor has left when its last access lies before now. Groups are chains of `Group.member`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

FREE: Final = -1

AUTOMATIC: Final = -1
"""In the place of a byte: to be found."""
NOWHERE: Final = -2
"""In the place of a byte: there is none."""

Numbers = Sequence[int]


class Memory(NamedTuple):
    """The sizes of a memory in bytes of a partition, and the policy: `rotates`, or takes the lowest free bytes.

    `bank` is 0 without banks; automatic tensors end at `usable` where there is room, else at `capacity`.
    """

    capacity: int
    usable: int
    bank: int
    parts: int
    rotates: bool


class Tensors(NamedTuple):
    """The tensors by their first access. `byte` is where each lies, AUTOMATIC or NOWHERE.

    They take bytes `taken` from a multiple of `step` on, live from op `first` to op `last`, and may lie as their `kind`
    of choices has it. Those that `stay` do not rotate. `spans`: the row of their first choice in `Spans`; -1: none.
    """

    first: Numbers
    last: Numbers
    taken: Numbers
    step: Numbers
    byte: Numbers
    kind: Numbers
    stay: Numbers
    spans: Numbers


class Choices(NamedTuple):
    """Kind k of tensors may lie in choices `first[k]` to before `first[k + 1]`, the preferred one first; choice c in
    the parts `part[start[c]]` to before `part[start[c + 1]]`.
    """

    first: Numbers
    start: Numbers
    part: Numbers


class Spans(NamedTuple):
    """Bytes that are taken later in a tensor's life: for row r spans `start[r]` to before `start[r + 1]`, sorted and
    apart, each from byte `low` to before `high`.
    """

    start: Numbers
    low: Numbers
    high: Numbers


class Groups(NamedTuple):
    """Owner -2 - n is the group that begins with link n: tensor `member[n]`, and those of link `after[n]`; -1: none."""

    member: list[int]
    after: list[int]


def arrange(
    memory: Memory, tensors: Tensors, choices: Choices, spans: Spans, chosen: list[int], byte: list[int]
) -> tuple[list[int], list[int]]:
    """Set the choice and the byte of each tensor, -1 where it has none; return (earlier, later) tensors of the same
    bytes, of which the earlier one had left: pairs may come more than once.
    """
    # Lists that begin with a number, so that numba knows what is in them.
    starts = [[0, memory.capacity] for _ in range(memory.parts)]
    owners = [[FREE, FREE] for _ in range(memory.parts)]
    groups = Groups([0], [-1])
    earlier, later = [0], [0]
    earlier.pop()
    later.pop()
    first, last, taken = tensors.first, tensors.last, tensors.taken
    kinds, begins, part = choices.first, choices.start, choices.part
    cursor = 0
    for number in range(len(first)):
        at, choice = tensors.byte[number], kinds[tensors.kind[number]]
        if at == AUTOMATIC:
            choice, at, cursor = first_fit(memory, tensors, choices, spans, starts, owners, groups, cursor, number)
        if at < 0:
            chosen[number] = byte[number] = -1
            continue
        chosen[number], byte[number] = choice, at
        now, end = first[number], at + taken[number]
        for place in range(begins[choice], begins[choice + 1]):
            bounds, names = starts[part[place]], owners[part[place]]
            row = bisect_right(bounds, at, 0, len(bounds)) - 1
            after = bisect_left(bounds, end, row, len(bounds))
            before = names[row:after]
            everybody_left = True
            for owner in before:
                if owner >= 0:
                    if last[owner] < now:
                        earlier.append(owner)
                        later.append(number)
                    else:
                        everybody_left = False
                elif owner != FREE:
                    link = -2 - owner
                    while link >= 0:
                        member = groups.member[link]
                        if last[member] < now:
                            earlier.append(member)
                            later.append(number)
                        else:
                            everybody_left = False
                        link = groups.after[link]
            if everybody_left:  # one interval takes the place of all, with what remains of the outer two
                cuts, given = [at], [number]
            else:
                cuts, given = bounds[row:after], [number] * len(before)
                cuts[0] = max(cuts[0], at)
                for index in range(len(before)):
                    if is_busy(before[index], last, groups, now):
                        given[index] = joined(before[index], number, last, groups, now)
            if bounds[row] < at:
                cuts.insert(0, bounds[row])
                given.insert(0, before[0])
            if bounds[after] > end:
                cuts.append(end)
                given.append(before[-1])
            bounds[row:after] = cuts
            names[row:after] = given
    return earlier, later


def first_fit(
    memory: Memory,
    tensors: Tensors,
    choices: Choices,
    spans: Spans,
    starts: list[list[int]],
    owners: list[list[int]],
    groups: Groups,
    cursor: int,
    number: int,
) -> tuple[int, int, int]:
    """Return (choice, byte, cursor) for an automatic tensor at its first access: below the lowest limit that works, in
    the first choice with room; byte -1 without room.
    """
    bank, size, now = memory.bank, tensors.taken[number], tensors.first[number]
    kind, last, row = tensors.kind[number], tensors.last, tensors.spans[number]
    rotates = memory.rotates and not tensors.stay[number]
    begin = 0 if tensors.stay[number] else cursor
    step = tensors.step[number]
    first = choices.first[kind]
    limit = memory.usable
    while True:
        for choice in range(first, choices.first[kind + 1]):
            low, high = choices.start[choice], choices.start[choice + 1]
            span = end_span = 0
            if row >= 0:
                span, end_span = spans.start[row + choice - first], spans.start[row + choice - first + 1]
            found = -1
            if size <= bank:
                # In rotation the next free bank, else the next one with room.
                for alone in range(1 if rotates else 0, -1, -1):
                    length, unit = (bank, bank) if alone else (size, step)
                    for turn in range(limit // bank):
                        place = (begin // bank + turn) % (limit // bank) * bank
                        found = fit(starts, owners, last, groups, choices.part, low, high, place, length, now,
                                    place + bank, unit, spans, span, end_span)  # fmt: skip
                        if found >= 0:
                            break
                    if found >= 0:
                        break
            else:
                unit = bank if bank else step
                found = fit(starts, owners, last, groups, choices.part, low, high, begin, size, now, limit, unit,
                            spans, span, end_span)  # fmt: skip
                if found < 0 and begin:
                    found = fit(starts, owners, last, groups, choices.part, low, high, 0, size, now, limit, unit,
                                spans, span, end_span)  # fmt: skip
            if found >= 0:
                if rotates:
                    cursor = found + size
                    if bank:
                        cursor = -(-cursor // bank) * bank % limit
                return choice, found, cursor
        if limit == memory.capacity:
            return first, -1, cursor
        limit = memory.capacity


def fit(
    starts: list[list[int]],
    owners: list[list[int]],
    last: Numbers,
    groups: Groups,
    part: Numbers,
    low: int,
    high: int,
    begin: int,
    size: int,
    now: int,
    limit: int,
    step: int,
    spans: Spans,
    span: int,
    end_span: int,
) -> int:
    """Return the `gap` that all of some parts have, outside of some spans; -1 without one."""
    at, agreed, place = begin, 0, low
    while True:
        found = gap(starts[part[place]], owners[part[place]], last, groups, at, size, now, limit, step)
        if found < 0:
            return -1
        agreed = agreed + 1 if found == at else 1
        at = found
        place += 1
        if place == high:
            place = low
        if agreed == high - low:
            row = bisect_right(spans.high, at, span, end_span)
            while row < end_span and spans.low[row] < at + size:
                at, agreed = spans.high[row], 0
                row += 1
            if agreed:
                return at


def gap(
    starts: list[int],
    owners: list[int],
    last: Numbers,
    groups: Groups,
    begin: int,
    size: int,
    now: int,
    limit: int,
    step: int,
) -> int:
    """Return the lowest multiple of `step` from `begin` on with `size` free bytes that end by `limit`; -1 without one.

    `limit` is at most the size of the memory.
    """
    at = -(-begin // step) * step
    if at + size > limit:
        return -1
    row = bisect_right(starts, at, 0, len(starts)) - 1
    while True:
        owner = owners[row]
        row += 1
        end = starts[row]
        if last[owner] >= now if owner >= 0 else (owner != FREE and is_busy(owner, last, groups, now)):
            if end > at:
                at = -(-end // step) * step
                if at + size > limit:
                    return -1
        elif end >= at + size:
            return at


def is_busy(owner: int, last: Numbers, groups: Groups, now: int) -> bool:
    """Whether somebody among an owner is still there."""
    if owner >= 0:
        return last[owner] >= now
    link = -2 - owner
    while link >= 0:
        if last[groups.member[link]] >= now:
            return True
        link = groups.after[link]
    return False


def joined(owner: int, number: int, last: Numbers, groups: Groups, now: int) -> int:
    """Return the group of a tensor and those of an owner who are still there."""
    head = -1
    link = -2 - owner
    while link >= 0 or owner >= 0:
        member = owner if owner >= 0 else groups.member[link]
        if last[member] >= now:
            groups.member.append(member)
            groups.after.append(head)
            head = len(groups.member) - 1
        if owner >= 0:
            break
        link = groups.after[link]
    groups.member.append(number)
    groups.after.append(head)
    return -1 - len(groups.member)


def search_right(values: Numbers, value: int, low: int, high: int) -> int:
    """`bisect.bisect_right` for compiled code."""
    while low < high:
        middle = (low + high) // 2
        if value < values[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def search_left(values: Numbers, value: int, low: int, high: int) -> int:
    """`bisect.bisect_left` for compiled code."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
