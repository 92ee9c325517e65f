"""Arguments that no caller means neither end the checker nor cost it time or memory."""

from __future__ import annotations

import ast
import os
import signal
from typing import Any

import pytest

from nki_lab import query
from tests.fuzz import hostile_calls
from tests.fuzz.hostile_calls import Process, drawn, smallest, text_of

pytestmark = pytest.mark.extended

# Lines of kernels that crashed, hung or exhausted memory once, or ended in NKI901.
LINES = (
    "v = nl.static_cast('x', nl.bfloat16)",
    "for i in nl.sequential_range(2**63): v = i",
    "for i in range(np.uint64(2**63)): v = i",
    "for i in nl.dynamic_range(1 << 1000): v = i",
    "v = np.eye(3) ^ Nested",
    "v = (np.eye(3)) // (np.float32)",
    "v = np.float32(1) * Nested",
    "v = np.arange(3) ** (10**30)",
    "v = np.int64(3) ** (10**30)",
    "v = np.eye(3).astype('U99999999')",
    "v = np.full(60000, 'x' * 10**5)",
    "v = np.ones((1000, 1)) + np.zeros(65536)",
    "nisa.tensor_tensor(dst=t, data1=nl.zeros(shape=t[0:1, 0:1], dtype='bfloat16'), data2=t, op=nl.add)",
    "v = np.zeros(10**12)", "v = 10**10**10", "v = 'x' * 10**12", "v = [0] * 10**12", "v = 1 << 10**12",
    "v = f'{1:>10000000000}'", "v = np.arange(10**12)", "v = '%1000000000d' % 1", "v = f(*[f(*[0] * 10**9)])",
    "v = nl.ndarray((10**9, 10**9), nl.float32, buffer=nl.shared_hbm)",
    "v = nl.NkiTensor(shape=set(), dtype=t.dtype, storage=(2,) * 31)", "m = nl.par_dim(size=np.array(1))", "v = m.conjugate(10**20)",
    "v = Nested == Nested", "np.zeros(0)[Nested] = []", "np.zeros(3)[0] = Nested", "v = np.zeros(0)[Nested]", "t[Nested] = t",
    "t[0:64] = Nested", "(t[:, 0:1])[(1,)] = Nested", "v = Nested & p", "v = t + Nested", "t *= Nested", "v = t < Nested", "v = Nested == t",
    "v = np.eye(20000)", "v = np.arange(1e9)", "v = np.arange(0, 10, 1e-9)", "v = np.ones(np.int64(10**9))",
    "v = np.ones((np.int32(30000), np.int32(30000)))", "v = np.linspace(0, 1, np.int64(10**9))", "v = np.tri(20000, M=20000)",
    "v = np.array([[[0] * 1000] * 1000] * 1000)", "v = np.array(['x' * 10**6] * 10**4)", "v = np.asarray([[1.0] * 60000] * 60000)",
    "m = C()", "m.me = m", "kernel(m)", "kernel([Nested])", "kernel(np.zeros((4, 4)), [[[0] * 1000] * 1000] * 1000)",
    "kernel(np.zeros((4, 4)), x={'a': [['x' * 10**5] * 1000] * 1000})", "kernel(np.zeros((4, 4)), C([[[0] * 1000] * 1000] * 1000))",
    "v = ['x' * 10**5] * 9999", "nisa.memset(dst=v, value=v)", "t[v] = v", "v = t + v", "v = v // 2", "nl.load(v)", "print(v)",
    "u[v:v:v]", "v = ((1,) * 9999) < np.arange(60000)[:, None]",
    "v = np.ones(7, dtype=Nested)", "v = torch.zeros(7, dtype=D(Nested))", "v = np.zeros((4, 4)).view(dtype={'a': Nested})",
    "v = [0] * np.int64(10**9)", "v = np.int64(10**9) * [0]", "v = (0,) * np.int32(10**9)",
)  # fmt: skip


# Others, behind which nothing is executed.
LAST = ("assert False, Nested", "raise ValueError(Nested)", "raise E(Nested)", "assert False, {1: Nested}")


@pytest.fixture(scope="module")
def process() -> Any:
    with Process() as made:
        yield made


@pytest.mark.parametrize("module", ["nki", "neuronxcc.nki"])
def test_what_hurt_once_does_not_hurt_again(process: Process, module: str) -> None:
    head = hostile_calls._HEAD.format(module=module)
    assert not process.check(text_of(head, (), LINES))
    assert not process.check(text_of(head, [line for line in LINES if "nisa" not in line], ()))


@pytest.mark.parametrize("line", LAST)
def test_failures_that_cannot_be_printed_do_not_hurt(process: Process, line: str) -> None:
    head = hostile_calls._HEAD.format(module="nki")
    assert not process.check(text_of(head, (), [line]))
    assert not process.check(text_of(head, [line], ()))


def test_members_of_enumerations_that_cannot_be_printed_do_not_hurt(process: Process) -> None:
    head = hostile_calls._HEAD.format(module="nki") + "\nclass Endless(enum.Enum):\n    one = Nested\n"
    lines = [
        "v = f'{Endless.one!r}'",
        "v = repr(Endless.one)",
        "v = str(Endless.one)",
        "print([Endless.one])",
        "raise ValueError(Endless.one)",
    ]
    assert not process.check(text_of(head, (), lines))


def test_a_few_texts_pass() -> None:
    assert hostile_calls.main(["--kernels", "12", "--seed", "50000"]) == 0


def test_a_text_is_drawn_again_from_its_number() -> None:
    assert drawn(7) == drawn(7)
    assert len({text_of(*drawn(seed)) for seed in range(20)}) == 20
    for seed in range(50):
        ast.parse(text_of(*drawn(seed)))


def test_a_process_that_ends_is_noticed_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crashing(Process):
        def check(self, text: str) -> str:
            harm = super().check(text)
            if "bad" in text and self._process is not None:
                os.kill(self._process.pid, signal.SIGKILL)
                harm = super().check(text)
            return harm

    with Crashing() as process:
        assert process.check("import nki\nbad = 1") == "crashes: the process ended with -9"
        assert process.check("import nki") == ""
        found = smallest(process, ("", ["a = 1", "bad = 1"], ["b = 1", "c = 1"]), "crashes: the process end")
    assert found == (["bad = 1"], [])


@pytest.mark.parametrize(
    ("does", "said"), [(MemoryError("no"), "MemoryError: no"), (TypeError("an int"), "TypeError: an int")]
)
def test_an_exception_is_noticed(does: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: Any, **__: Any) -> None:
        raise does

    monkeypatch.setattr(query, "check", raises)
    assert hostile_calls._harm("import nki").startswith(said)
