"""Runs Beta 1 kernels through the session, without the `neuronxcc` doors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nki_lab import session
from nki_lab.kernel_runtime.beta1 import DEFAULT_PRECISE
from nki_lab.kernel_runtime.ir import verify
from nki_lab.kernel_runtime.options import Options


def execute(
    kernel: Callable[..., Any],
    *args: Any,
    grid: tuple[int, ...] = (),
    precise: bool = DEFAULT_PRECISE,
    target: str = "trn2",
    **kwargs: Any,
) -> session.Execution:
    options = Options(precise=precise)
    done = session.execute(session.Launch(kernel, target, options=options, grid=grid, dialect="beta1"), args, kwargs)
    verify(done.program)
    return done


@pytest.fixture(name="execute", scope="session")
def execute_fixture() -> Callable[..., session.Execution]:
    """`execute(kernel, *arrays, grid=(), precise=False, target="trn2", **kwargs)`: the Execution, its IR verified."""
    return execute


def names_of(done: session.Execution) -> list[str]:
    return [op.variant.instruction.name for op in done.program.ops()]


@pytest.fixture(name="names_of", scope="session")
def names_of_fixture() -> Callable[..., list[str]]:
    """The instructions of an Execution's program, in order."""
    return names_of
