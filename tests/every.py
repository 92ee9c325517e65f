"""Cheap claims about each of many values as one test: a test of its own per value costs more than the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def for_each(values: Sequence[T]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Make a claim with one parameter a test of all `values`; a failure names the value."""
    assert values

    def made(claim: Callable[[T], None]) -> Callable[[], None]:
        def test() -> None:
            for value in values:
                try:
                    claim(value)
                except BaseException as error:
                    error.add_note(f"for {value!r}")
                    raise

        test.__name__, test.__doc__ = claim.__name__, claim.__doc__
        return test

    return made
