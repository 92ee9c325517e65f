"""The source of an assignment tells whether its value was computed there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.kernel_runtime.beta1.user_code import computes_what_it_assigns


class Probe:
    """Records the answer at each store or in-place addition."""

    def __init__(self) -> None:
        self.answers: list[bool] = []
        self.probe = self
        self.items = [1]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.answers.append(ask())

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iadd__(self, other: Any) -> Any:
        self.answers.append(ask())
        return self


def ask() -> bool:
    """The answer for the frame that ran the statement: the probe's own methods count as ours."""
    from nki_lab.kernel_runtime.issue import source_location

    own = (Probe.__setitem__.__code__, Probe.__iadd__.__code__, ask.__code__)
    source_location._ours |= {id(code): (True, code) for code in own}
    return bool(computes_what_it_assigns())


def make() -> int:
    return 1


def computed(x: Any, y: Any, n: int, things: list[int]) -> None:
    x[...] = make()
    x[1, n : n + 2] = make() + n
    x[things[0], make()] = -y
    x[n:3] = y < 2
    x.probe[make(), ...] = make()
    x += make()
    x += y * 2
    x[
        0,
        make(),
    ] = make(
    )  # fmt: skip
    x[...]: Any = make()
    x[...] = (make())  # fmt: skip


def named(x: Any, y: Any, n: int, things: list[int]) -> None:
    value = make()
    x[...] = value
    x[n + 1, 0:n] = y
    x[0] = things[0]
    x[n:3] = x.answers
    x[make(), n] = value
    z = x[...] = make()
    x[0], x[1] = make(), make()
    [x[0]] = [make()]
    x[0] = (value := make())
    for x[0] in [make()]:
        pass
    x += y
    x += things[0]


@pytest.mark.parametrize(("function", "answer"), [(computed, True), (named, False)])
def test_values_of_calls_and_operators_are_temporary(function: Any, answer: bool) -> None:
    probe = Probe()
    function(probe, 3, 1, [0])
    assert len(probe.answers) >= 7
    assert set(probe.answers) == {answer}


def test_outside_of_an_assignment_nothing_is_temporary() -> None:
    assert computes_what_it_assigns() is False


def test_without_source_text_values_are_copied() -> None:
    import nki_lab

    source = """
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((nl.par_dim(128), 8), dtype=a.dtype, buffer=nl.sbuf)
    tile[...] = nl.add(nl.load(a), 1.0)
    tile[...] = nl.multiply(tile, 2.0)
    tile += nl.add(tile, 1.0)
    nl.store(out, tile)
    return out
"""
    from neuronxcc import nki
    from neuronxcc.nki import language as nl

    names: dict[str, Any] = {"nl": nl}
    exec(source, names)
    run = nki_lab.run(nki.jit(names["kernel"]), np.ones((128, 8), np.float32), target="trn1")
    assert (run.outputs[0] == 9).all()
