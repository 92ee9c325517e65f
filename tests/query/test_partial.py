"""Variables of a function without shapes are described as far as they are known."""

from __future__ import annotations

from nki_lab import query
from nki_lab.isa.arch import arch_of

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"


def texts(code: str, head: str = HEAD) -> dict[str, str]:
    """What is said of each name of a module."""
    document = query.Document("/project/k.py")
    document.update(head + code)
    known = document.examine(query.EvaluationRequest(arch=arch_of("trn2")))
    return {item.name: item.text for item in known.variables.values()}


BOUNDED = """@nki.jit
def k(a, b, n=4):
    P, N = a.shape
    assert N <= 512
    t = nl.ndarray((128, N), dtype=nl.float32, buffer=nl.sbuf)
    half = nl.ndarray((128, N // 2), dtype=a.dtype, buffer=nl.psum)
    least = nl.ndarray((128, min(N, 100)), dtype=nl.float32, buffer=nl.sbuf)
    other = nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    fixed = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    for i in range(n):
        for j in range(3):
            nisa.dma_copy(dst=t[:, i:j], src=a)
    r = nisa.register_alloc(3)
    return a
"""


def test_sizes_of_arguments_have_their_names_and_bounds() -> None:
    found = texts(BOUNDED)
    assert found["N"] == "a.shape[1], N ≤ 512"
    assert found["t"] == "float32 in SBUF, 128 × N, N ≤ 512"
    assert found["half"] == "tensor in PSUM, 128 × N/2, N ≤ 512, dtype unknown"


def test_what_does_not_depend_on_arguments_is_known_whole() -> None:
    found = texts(BOUNDED)
    assert found["fixed"] == "bfloat16 in SBUF, 128 × 64"
    assert found["j"] == "0 to 2, 3 trips"
    assert found["r"] == "a register, which has its value in a run only"


def test_what_follows_no_size_is_unknown() -> None:
    found = texts(BOUNDED)
    assert found["least"] == "float32 in SBUF, 128 × ?"
    assert found["n"] == "a number that depends on the arguments"
    assert found["i"] == "the variable of a loop"


def test_sizes_of_two_arguments_are_told_apart() -> None:
    found = texts("""@nki.jit
def k(a, b):
    assert a.shape[1] <= 512
    assert b.shape[1] <= 512
    s = nl.ndarray((128, a.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    t = nl.ndarray((128, b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=0.0)
""")
    assert "b.shape" not in found["s"]
    assert "a.shape" not in found["t"]


def test_sizes_that_have_to_be_equal_share_a_name() -> None:
    found = texts("""@nki.jit
def k(a, b):
    K, M = a.shape
    K_, N = b.shape
    assert K == K_
    t = nl.ndarray((128, K), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(K // 128):
        nisa.dma_copy(dst=t, src=a)
""")
    assert found["t"] == "float32 in SBUF, 128 × K"
    assert found["i"] == "K/128 trips"
    assert found["b"].startswith("tensor, K × N")


def test_no_assumed_value_is_told_as_a_fact() -> None:
    found = texts("@nki.jit\ndef k(a, b):\n    P, N = a.shape\n    t = nl.load(a)\n    return t\n")
    assert not any(number in text for text in found.values() for number in ("1024", "1536", "bfloat16"))


def test_a_function_of_beta1_is_described_too() -> None:
    head = "from neuronxcc import nki\nimport neuronxcc.nki.language as nl\nimport neuronxcc.nki.isa as nisa\n\n\n"
    found = texts("@nki.jit\ndef k(a):\n    t = nl.zeros((128, a.shape[1]), nl.float32, buffer=nl.psum)\n", head)
    assert found["t"].startswith("float32 in PSUM, 128 × a.shape[1]")
