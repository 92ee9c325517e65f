"""A kernel that is handed to a function with its arguments is called with these, where they bind completely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.interpreter import ModuleSource, launches

HEAD = """import dataclasses
import functools
import inspect
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import torch
from third_party import Framework, Job, run_kernel, simulate, test_manager

@nki.jit
def k(a, b, eps=1.0):
    return a

x = np.zeros((4, 3))
y = np.zeros((4, 1), np.float16)
"""


def known(text: str, name: str = "k") -> list[str]:
    found = launches(ModuleSource.parse(HEAD + text, "k.py"), ["k"], helpers=[name]).own[name]
    assert all(item.assumed for item in found)
    return [str(item) for item in found]


BOUND = "(a=float32[4,3], b=float16[4,1])"


@pytest.mark.parametrize(
    "text",
    [
        "run_kernel(k, inputs={'a': x, 'b': y})",
        "run_kernel(kernel=k, inputs=dict(a=x, b=y))",
        "run_kernel(k, {'a': x, 'b.output': y})",
        "run_kernel(nki.jit(k), a=x, b=y, tolerance=1e-3)",
        "test_manager.execute(Job(kernel_func=k, kernel_input={'a': x, 'b': y}, output={'out': x}))",
        "@dataclasses.dataclass\nclass Work:\n    kernel: object\n    inputs: dict\ntest_manager.execute(Work(k, {'a': x, 'b': y}))",
        (
            "class Work:\n    def __init__(self, kernel, **inputs):\n        self.kernel, self.inputs = kernel, inputs\n"
            "test_manager.execute(Work(k, a=x, b=y))"
        ),
        "Framework(kernel=k, make=lambda config: {'a': x, 'b': y}).run()",
        "def make(config, *, seed=0):\n    return {'a': x, 'b': y}\nFramework(kernel=k, make=make)",
    ],
)
def test_arguments_by_name_are_found(text: str) -> None:
    assert known(text) == [f"[?]{BOUND}"]


@pytest.mark.parametrize(
    "text",
    [
        "simulate(k, x, y)",
        "Framework.validate(kernel_entry=k, kernel_args=(x, y))",
        "Framework.validate(k, [x, y])",
        "run_kernel('k', k, x, y)",
    ],
)
def test_arguments_in_order_are_found(text: str) -> None:
    assert known(text) == ["[?](float32[4,3], float16[4,1])"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("simulate(functools.partial(k, eps=1e-5), x, y)", "[?](float32[4,3], float16[4,1], eps=1e-05)"),
        ("simulate(functools.partial(k, x), y)", "[?](float32[4,3], float16[4,1])"),
        ("simulate(k[2], x, y)", "[2](float32[4,3], float16[4,1])"),
        ("run_kernel(k, inputs={'a': x, 'b': y}, grid=2)", f"[2]{BOUND}"),
        ("run_kernel(k, inputs={'a': x, 'b': y}, grid=(2,))", f"[2]{BOUND}"),
        ("run_kernel(k, inputs={'a': x, 'b': y}, grid=third)", f"[?]{BOUND}"),
        ("run_kernel(k, inputs={'a': x, 'b': y, 'eps': third})", "[?](a=float32[4,3], b=float16[4,1], eps=<unknown>)"),
    ],
)
def test_partial_arguments_and_grids_are_kept(text: str, shown: str) -> None:
    assert known(text) == [shown]


@pytest.mark.parametrize(
    "text",
    [
        "run_kernel(k, inputs={'a': x})",
        "run_kernel(k, inputs={'a': x, 'b': y, 'c': x})",
        "run_kernel(k, {'a': 1, 'b': 2})",
        "simulate(k, x)",
        "simulate(k, x, y, 3, 4)",
        "Framework(kernel=k, make=lambda config: {'out': x})",
        "Framework(kernel=k, reference=lambda a, b: a)",
        "print(k, x, y)",
        "import pytest\nwith pytest.raises(ValueError):\n    run_kernel(k, inputs={'a': x, 'b': y})",
    ],
)
def test_what_does_not_bind_completely_is_no_call(text: str) -> None:
    assert not known(text)


def test_a_helper_that_calls_nki_is_a_kernel_where_it_is_handed_over() -> None:
    helper = "def h(a, b):\n    nisa.tensor_copy(dst=a, src=b)\ndef ref(a, b):\n    return a\n"
    assert known(f"{helper}Framework(kernel=h, ref=ref, inputs={{'a': x, 'b': y}})", "h") == [f"[?]{BOUND}"]
    assert not known(f"{helper}Framework(kernel=h, ref=ref, inputs={{'a': x, 'b': y}})", "ref")


@pytest.mark.parametrize("maker", ["nki.jit(functools.partial(h, c=3))", "functools.partial(nki.jit(h), c=3)"])
def test_a_kernel_of_partial_arguments_is_called_with_all_of_them(maker: str) -> None:
    text = f"def h(a, b, c):\n    nisa.tensor_copy(dst=a, src=b)\n{maker}(x, y)\n"
    (found,) = launches(ModuleSource.parse(HEAD + text, "k.py"), ["h"]).own["h"]
    assert (str(found), found.assumed) == ("(float32[4,3], float16[4,1], c=3)", False)


def test_a_call_that_the_source_shows_comes_before_one_that_it_does_not() -> None:
    text = "def check(kernel, a, b):\n    kernel(a, b, 2.0)\ncheck(k, x, y)\n"
    (found,) = launches(ModuleSource.parse(HEAD + text, "k.py"), ["k"]).own["k"]
    assert (str(found), found.assumed) == ("(float32[4,3], float16[4,1], 2.0)", False)


def test_what_a_function_loses_is_found_where_it_is_called() -> None:
    text = "def check(kernel, **arrays):\n    kernel(*third(arrays))\ncheck(kernel=k, a=x, b=y)\n"
    assert known(text) == [f"[?]{BOUND}"]


FRAMEWORK = """
class Runner:
    def __init__(self, kernel, make):
        self.kernel = kernel
        self.make = make

    def run(self, config):
        given = self.make(config)
        names = set(inspect.signature(self.kernel).parameters.keys())
        wrong = [key for key in given if key not in names]
        if wrong:
            raise ValueError(wrong)
        for name, parameter in inspect.signature(self.kernel).parameters.items():
            if parameter.default is inspect.Parameter.empty and name not in given:
                raise ValueError(name)
        test_manager.execute(Job(self.kernel, {key: given[key] for key in given if key in names}))

Runner(k, lambda config: {'a': x, 'b': y}).run(None)
"""


def test_a_framework_of_the_project_is_followed() -> None:
    assert known(FRAMEWORK) == [f"[?]{BOUND}"]


def test_a_framework_that_refuses_the_arguments_calls_nothing() -> None:
    assert not known(FRAMEWORK.replace("'b': y", "'c': y"))


@given(
    names=st.lists(st.sampled_from(["a", "b", "eps", "c"]), unique=True),
    partial=st.booleans(),
)
def test_accepted_arguments_are_those_of_a_possible_call(names: list[str], partial: bool) -> None:
    kernel = "functools.partial(k, eps=2.0)" if partial else "k"
    inputs = ", ".join(f"'{name}': x" for name in names)
    possible = {"a", "b"} <= set(names) <= {"a", "b", "eps"}
    assert bool(known(f"run_kernel({kernel}, inputs={{{inputs}}})")) == possible
