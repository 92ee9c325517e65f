"""Plans: a second call of a kernel gives what a call in full gives, whatever has changed between the two."""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy import loadtxt

from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.numerics import repeating
from nki_lab.kernel_runtime.options import Options
from nki_lab.session import arrays, plans

Array = np.ndarray[Any, Any]
SCALE = 2.0


@pytest.fixture(autouse=True, params=["copied", "bound"])
def _fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with arguments that are copied, as small ones are, and with some that stay in their memory."""
    if request.param == "bound":
        monkeypatch.setattr(repeating, "SMALL", 0)
    session.forget()


def execute(function: Any, *args: Any, **how: Any) -> session.Execution:
    return session.execute(session.Launch(function, "trn2", **how), args, {})


def planned(execution: session.Execution) -> bool:
    """Whether a result is that of a plan: nothing was checked again."""
    return execution.cached and execution.timings.check == 0.0


def ones(*shape: int, value: float = 1.0, dtype: Any = np.float32) -> Array:
    return np.full(shape, value, np.float32).astype(dtype)


def factor(tile):
    return nl.multiply(tile, SCALE)


def scaled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, factor(nl.load(a)))
    return out


def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


def increment(a, by=1.0):
    tile = nl.load(a)
    nl.store(a, nl.add(tile, by))
    return a


def test_the_second_call_has_a_plan() -> None:
    first = execute(add, ones(128, 64), ones(128, 64))
    second = execute(add, ones(128, 64, value=3), ones(128, 64))
    assert not planned(first) and planned(second)
    assert (second.outputs == 4).all() and (first.outputs == 2).all()
    assert second.diagnostics == first.diagnostics and second.program is first.program


SCALES = [2.0]


@functools.wraps(nl.add)
def named_as_ours(tile):
    return nl.multiply(tile, SCALE)


@functools.wraps(np.add)
def named_as_numpys(tile):
    return nl.multiply(tile, SCALES[0])


def by_ours(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, named_as_ours(nl.load(a)))
    return out


def by_numpys(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, named_as_numpys(nl.load(a)))
    return out


def test_a_helper_that_bears_the_name_of_a_library_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """`functools.wraps` gives a function the `__module__` of another."""
    a = ones(128, 64)
    assert [execute(kernel, a).outputs[0, 0] for kernel in (by_ours, by_numpys) * 2] == [2, 2, 2, 2]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    monkeypatch.setattr(sys.modules[__name__], "SCALES", [7.0])
    assert [execute(kernel, a).outputs[0, 0] for kernel in (by_ours, by_numpys) * 2] == [5, 7, 5, 7]


looked_up = np.frompyfunc(lambda value: SCALES[0] * value, 1, 1)


def by_python(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), float(looked_up(1.0))))
    return out


def test_a_ufunc_may_call_python(monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(128, 64)
    assert [execute(by_python, a).outputs[0, 0] for _ in range(2)] == [2, 2]
    monkeypatch.setattr(sys.modules[__name__], "SCALES", [5.0])
    assert [execute(by_python, a).outputs[0, 0] for _ in range(2)] == [5, 5]


class Factor:
    """A helper with a state."""

    value = 2.0

    def __call__(self, tile):
        return nl.multiply(tile, self.value)

    def method(self, tile):
        return nl.multiply(tile, self.value)


@pytest.mark.parametrize("which", ["object", "method", "partial"])
def test_a_kernel_of_an_object_has_its_state(which: str) -> None:
    factor = Factor()
    bound = functools.partial(nl.multiply, y=2.0)
    inner = nki.jit({"object": factor, "method": factor.method, "partial": bound}[which])

    def outer(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, inner(nl.load(a)))
        return out

    a = ones(128, 64)
    assert [execute(outer, a).outputs[0, 0] for _ in range(2)] == [2, 2]
    factor.value = bound.keywords["y"] = 5.0
    assert [execute(outer, a).outputs[0, 0] for _ in range(2)] == [5, 5]


def test_an_object_without_a_hash_is_a_kernel() -> None:
    @dataclasses.dataclass
    class Scaled:
        factor: float

        def __call__(self, a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.multiply(nl.load(a), self.factor))
            return out

    kernel = Scaled(2.0)
    assert [execute(kernel, ones(128, 64)).outputs[0, 0] for _ in range(2)] == [2, 2]
    kernel.factor = 5.0
    assert execute(kernel, ones(128, 64)).outputs[0, 0] == 5


def test_what_comes_from_numpy_over_a_closure_a_default_or_an_argument_counts() -> None:
    def made(module: Any) -> Any:
        def by_closure(a):
            return increment(a, float(module.random.randint(1, 2**20)))

        return by_closure

    def by_default(a, module=np):
        return increment(a, float(module.random.randint(1, 2**20)))

    def drawn(module):
        return float(module.random.randint(1, 2**20))

    def by_argument(a):
        return increment(a, drawn(np))

    for kernel in (made(np), by_default, by_argument):
        found = [execute(kernel, ones(128, 64)) for _ in range(4)]
        assert len({item.outputs[0, 0] for item in found}) > 1 and not any(map(planned, found))


def by_file(a, path):
    return increment(a, float(loadtxt(path)))


def by_pattern(a, path):
    return increment(a, float(np.fromregex(path, r"(\d)", [("value", np.float32)])["value"][0]))


def by_print_options(a, path):
    return increment(a, float(np.get_printoptions()["precision"]))


@pytest.mark.parametrize("kernel", [by_file, by_pattern, by_print_options])
def test_what_numpy_reads_counts(kernel: Any, tmp_path: Path) -> None:
    path = tmp_path / "number.txt"
    path.write_text("2")
    with np.printoptions(precision=2):
        assert [execute(kernel, ones(128, 64), str(path)).outputs[0, 0] for _ in range(2)] == [3, 3]
    path.write_text("5")
    with np.printoptions(precision=5):
        assert [execute(kernel, ones(128, 64), str(path)).outputs[0, 0] for _ in range(2)] == [6, 6]


def by_member(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.added_to_nki(nl.load(a), nl.ADDED_TO_NKI))
    return out


def test_what_is_put_into_a_module_of_nki_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(128, 64)
    for function, number, result in (
        (nl.add, 1.0, 2),
        (nl.add, 3.0, 4),
        (nl.multiply, 3.0, 3),
        (nl.subtract, 3.0, -2),
        (nl.add, 1.0, 2),
    ):
        monkeypatch.setattr(nl, "added_to_nki", function, raising=False)
        monkeypatch.setattr(nl, "ADDED_TO_NKI", number, raising=False)
        assert [execute(by_member, a).outputs[0, 0] for _ in range(3)] == [result] * 3


def test_a_global_of_a_helper_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(128, 64)
    assert [execute(scaled, a).outputs[0, 0] for _ in range(2)] == [2, 2]
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    changed = execute(scaled, a)
    assert not planned(changed) and changed.outputs[0, 0] == 5
    assert planned(execute(scaled, a))


def test_a_helper_that_is_edited_in_place_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(128, 64)
    execute(scaled, a)

    def other(tile):
        return nl.add(tile, 10.0)

    monkeypatch.setattr(factor, "__code__", other.__code__)
    assert execute(scaled, a).outputs[0, 0] == 11


def test_closures_and_defaults_count() -> None:
    by = 1.0

    def shifted(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(a), by))
        return out

    a = ones(128, 64)
    assert [execute(shifted, a).outputs[0, 0] for _ in range(2)] == [2, 2]
    by = 7.0
    assert execute(shifted, a).outputs[0, 0] == 8
    assert execute(increment, a).outputs[0, 0] == 2
    increment.__defaults__ = (4.0,)
    try:
        assert execute(increment, a).outputs[0, 0] == 6
    finally:
        increment.__defaults__ = (1.0,)


def test_a_closure_that_captures_an_array_has_no_plan() -> None:
    table = [1.0]

    def shifted(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(a), table[0]))
        return out

    a = ones(128, 64)
    execute(shifted, a)
    table[0] = 9.0
    found = execute(shifted, a)
    assert not planned(found) and found.outputs[0, 0] == 10


def test_constants_count_with_their_types() -> None:
    a = ones(128, 64)
    values = [execute(increment, a.copy(), by) for by in (1.0, 1, True, 1.0, -0.0, 0.0, 1.0)]
    assert [planned(item) for item in values] == [False, False, False, True, False, False, True]
    assert [item.outputs[0, 0] for item in values] == [2, 2, 2, 2, 1, 1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((128, 64, np.float32), (128, 32, np.float32)),
        ((128, 64, np.float32), (64, 64, np.float32)),
        ((128, 64, np.float32), (128, 64, ml_dtypes.bfloat16)),
        ((128, 64, np.float32), (128, 64, np.float16)),
    ],
)
def test_other_shapes_and_dtypes_have_other_plans(first: Any, second: Any) -> None:
    for rows, columns, dtype in (first, second, first):
        a = ones(rows, columns, dtype=dtype)
        assert execute(add, a, a + a).outputs.dtype == dtype


def test_options_grid_and_target_count() -> None:
    a = ones(128, 64, value=1 + 2**-12, dtype=np.float32).astype(ml_dtypes.bfloat16)
    for options in (Options(), Options(precise=False), Options()):
        for target in ("trn2", "trn3"):
            launch = session.Launch(add, target, options)
            want = session.execute(launch, (a, a.copy()), {})
            assert want.program.arch.name == session.execute(launch, (a, a.copy()), {}).program.arch.name
            assert want.program.options == options


def test_one_array_for_two_parameters_stays_one_tensor() -> None:
    a, b = ones(128, 64), ones(128, 64, value=2)
    execute(add, a, b)
    assert (execute(add, a, a).outputs == 2).all()
    assert (execute(add, a, b).outputs == 3).all()


def test_arrays_of_any_layout_repeat() -> None:
    wide = np.arange(128 * 256, dtype=np.float32).reshape(128, 256)
    layouts = [wide[:, ::2], np.asfortranarray(wide[:, :128]), wide[::-1, :128], wide[:, :128].astype(">f4")]
    execute(add, ones(128, 128), ones(128, 128))
    for array in layouts:
        assert (execute(add, array, ones(128, 128)).outputs == array + 1).all()


def test_the_caller_may_change_what_it_gave_and_got() -> None:
    a, b = ones(128, 64), ones(128, 64)
    first = execute(add, a, b).outputs
    a += 1
    second = execute(add, a, b).outputs
    second += 100
    third = execute(add, a, b).outputs
    assert [int(item[0, 0]) for item in (first, second, third)] == [2, 103, 3]


def test_an_argument_that_the_kernel_changes_is_changed_each_time() -> None:
    a = ones(128, 64)
    for count in range(1, 4):
        execute(increment, a)
        assert (a == 1 + count).all()


def test_a_read_only_argument_is_refused_as_in_a_first_call() -> None:
    def overwritten(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    a = ones(128, 64)
    execute(overwritten, a)
    a.flags.writeable = False
    with pytest.raises(NkiError) as caught:
        execute(overwritten, a)
    assert caught.value.diagnostics[0].code == "NKI001"


def gathered(table, index):
    rows = nl.ndarray((128, 1), nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(rows, index)
    tile = nl.ndarray((128, 64), table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, table.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=rows, indirect_dim=0))
    out = nl.ndarray((128, 64), table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def test_findings_that_depend_on_values_are_made_anew() -> None:
    table = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    index = np.arange(128, dtype=np.uint32).reshape(128, 1)
    execute(gathered, table, index)
    with pytest.raises(NkiError) as planned_fault:
        execute(gathered, table, index + 200)
    session.forget()
    with pytest.raises(NkiError) as fault:
        execute(gathered, table, index + 200)
    assert planned_fault.value.diagnostics == fault.value.diagnostics
    assert (execute(gathered, table, index + 100).outputs == table[100:228]).all()


def test_several_threads_may_call() -> None:
    wrong: list[int] = []

    def work(value: int) -> None:
        for _ in range(20):
            found = execute(add, ones(128, 64, value=value), ones(128, 64)).outputs
            if not (found == value + 1).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_arrays_are_let_go_and_plans_are_bounded() -> None:
    a = ones(128, 64)
    execute(add, a, ones(128, 64))
    reference = weakref.ref(a)
    del a
    assert reference() is None
    for columns in range(1, plans.KEPT + 20):
        execute(add, ones(2, columns), ones(2, columns))
    assert len(plans.plans._plans) == plans.KEPT


def test_a_debugger_reaches_the_kernel_in_each_call() -> None:
    a = ones(128, 64)
    execute(scaled, a)
    lines: list[str] = []

    def follow(frame: Any, event: str, argument: Any) -> Any:
        lines.append(frame.f_code.co_name)
        return None

    sys.settrace(follow)
    try:
        execute(scaled, a)
    finally:
        sys.settrace(None)
    assert "factor" in lines


def test_an_interrupted_plan_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    a = ones(128, 64)
    execute(add, a, a.copy())
    (plan,) = plans.plans._plans.values()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan.executor, "perform", interrupt)
    with pytest.raises(KeyboardInterrupt):
        execute(add, a, a.copy())
    assert not plans.plans._plans
    assert (execute(add, a, a.copy()).outputs == 2).all()


def both_doubled(a, b):
    first, second = nl.load(a), nl.load(b)
    nl.store(a, nl.multiply(first, 2.0))
    nl.store(b, nl.multiply(second, 2.0))
    return a


def test_an_interrupt_between_two_arguments_leaves_both_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    execute(both_doubled, ones(128, 64), ones(128, 64))
    changed = arrays.changed
    calls: list[int] = []

    def interrupted(*given: Any) -> bool:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return changed(*given)

    monkeypatch.setattr(arrays, "changed", interrupted)
    a, b = ones(128, 64), ones(128, 64)
    with pytest.raises(KeyboardInterrupt):
        execute(both_doubled, a, b)
    assert (a == 2).all() and (b == 2).all()
    assert not plans.plans._plans


def test_a_plan_without_room_for_its_results_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is made in full then, of arguments that are as they were."""
    execute(both_doubled, ones(128, 64), ones(128, 64))
    (plan,) = plans.plans._plans.values()
    read, (_, last) = plan.executor.read, plan.written[-1]

    def refused(tensor: Any) -> Array:
        if tensor is last:
            raise MemoryError
        return read(tensor)

    monkeypatch.setattr(plan.executor, "read", refused)
    a, b = ones(128, 64), ones(128, 64)
    found = execute(both_doubled, a, b)
    assert not planned(found)
    assert (a == 2).all() and (b == 2).all()


def test_a_plan_is_closed_once_where_two_threads_drop_it() -> None:
    closed: list[int] = []

    class Lock:
        """Calls `hook` when it is left for the first time."""

        def __init__(self) -> None:
            self.hook: Any = None

        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            hook, self.hook = self.hook, None
            if hook is not None:
                hook()

    cache, lock = plans.PlanCache(), Lock()
    cache._lock = lock  # type: ignore[assignment]
    fields = dict.fromkeys((item.name for item in dataclasses.fields(plans.Plan)), None)
    executor = SimpleNamespace(close=lambda: closed.append(1))
    plan = plans.Plan(**{**fields, "executor": executor, "nbytes": 0, "busy": False, "dropped": False})  # type: ignore[arg-type]
    cache.add(("key",), plan)
    assert cache.take(("key",)) is plan
    lock.hook = lambda: cache.drop(("key",), plan)  # the thread that has it drops it while another one forgets all
    cache.forget()
    assert closed == [1]
