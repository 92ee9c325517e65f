"""Registers: scalars that exist only while the kernel runs on the chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

from nki_lab.diagnostic import coded_error


def refused_use(use: str) -> Callable[..., NoReturn]:
    """Return the method of a register or a tensor that refuses a use in Python."""

    def refuse_use(self: Any, *operands: object) -> NoReturn:
        needed: Callable[[str], NoReturn] = self._needed
        needed(use)

    return refuse_use


@dataclass(slots=True, eq=False, repr=False)
class VirtualRegister:
    """A 32-bit scalar in an engine's register; its value is unknown while the kernel is specialised.

    Usable as `scalar_offset` of `ap`, index of `select`, start of `nl.ds`, bound of a dynamic loop. Registers of loop
    variables are `frozen`: instructions may not write them. `state` belongs to the executor, as does `owner`, which
    defines `while register:`. Any other use that needs the value now (arithmetic, comparison with a number,
    `if`, `int()`, `range()`) raises NKI017.
    """

    state: Any = None
    frozen: bool = False
    _: KW_ONLY
    id: int = -1
    owner: Any = None
    name: str = ""

    def __repr__(self) -> str:
        return f"<{'loop variable' if self.frozen else 'register'} {self.name or self.id}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        if other is not None and not isinstance(other, VirtualRegister | str):
            self._needed("compared")
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _needed(self, use: str) -> NoReturn:
        what = f"the {'loop variable' if self.frozen else 'register'}{f' {self.name}' if self.name else ''}"
        raise coded_error(
            "NKI017",
            f"{what} is {use} in Python, but its value exists only on the chip",
            limit="a register is used as scalar_offset, select index, nl.ds start or loop bound",
            help="compute with instructions on a (1, 1) SBUF tensor and register_load the result; "
            "loop with nl.fori_loop or nl.while_loop",
        )

    def __bool__(self) -> bool:
        goes_on: bool | None = None if self.owner is None else self.owner.condition(self)
        if goes_on is None:
            self._needed("tested")
        return goes_on

    __int__ = refused_use("converted to int")
    __float__ = refused_use("converted to float")
    __index__ = refused_use("used as an integer (index, range or slice bound)")
    _arithmetic = refused_use("used in arithmetic")
    _ordering = refused_use("compared")

    __lt__ = __le__ = __gt__ = __ge__ = _ordering
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _arithmetic
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _arithmetic
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _arithmetic
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _arithmetic
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = __trunc__ = __floor__ = __ceil__ = _arithmetic
