"""Kernels as production libraries write them, several idioms in each, against float64 references."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab import spec
from tests.production import (
    blockwise,
    experts,
    flash_causal,
    mx_layer,
    norm_projection,
    paged_attention,
    quantised_mlp,
    ring_attention,
    scan_pool,
)
from tests.verdicts import evaluated, missed, traced

BF16 = ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3
HERE = Path(__file__).parent / "production"


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(kernel: Any, *args: Any, target: str = "trn2", expected: tuple[str, ...] = (), **kwargs: Any) -> Any:
    """The only result, after a look at the findings: no errors, and those of the expected codes."""
    made = nki_lab.run(kernel, *args, target=target, **kwargs)
    assert not [item for item in made.diagnostics if item.severity == "error"]
    assert set(expected) <= {item.code for item in made.diagnostics}
    (result,) = made.outputs
    return wide(result)


def apart(actual: Any, expected: Any) -> float:
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


# -- an allocator and views of the library's own ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by_head", "scaled", "target"), [(True, True, "trn2"), (False, False, "trn3"), (False, True, "trn1")]
)
def test_norm_and_projection_from_a_stack_of_bytes(by_head: bool, scaled: bool, target: str) -> None:
    x, w, gamma = normal(0, 200, 256).astype(BF16), (normal(1, 256, 1152) / 16).astype(BF16), normal(2, 256)
    layout = norm_projection.Layout.NBSD if by_head else norm_projection.Layout.BSD
    config = norm_projection.Config(layout=layout, head_dim=64)
    result = run(norm_projection.norm_qkv, x, w, gamma if scaled else None, config=config, target=target)
    plain = wide(x) / np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-6) * (gamma if scaled else 1.0) @ wide(w)
    expected = plain.reshape(200, 18, 64).transpose(1, 0, 2) if by_head else plain
    assert result.shape == expected.shape
    assert apart(result, expected) < 1e-2


def test_a_full_stack_is_the_kernels_own_assertion() -> None:
    x, w = spec((128, 8192), "bfloat16"), spec((8192, 4096), "bfloat16")
    with pytest.raises(AssertionError, match="SBUF is full"):
        nki_lab.compile(norm_projection.norm_qkv, x, w, target="trn2")


# -- attention ----------------------------------------------------------------------------------------------------------


def test_decode_reads_the_blocks_of_its_table_and_leaves_the_others() -> None:
    sequences, heads, width, total, block, most = 3, 8, 64, 20, 16, 6
    rng = np.random.default_rng(0)
    q, k, v = (normal(n, *s).astype(BF16) for n, s in enumerate(((3, 8, 64), (20, 16, 64), (20, 16, 64))))
    lengths = np.array([[90], [40], [5]], np.float32)
    table = np.full((sequences, most), total + 5, np.int32)
    expected = np.zeros((sequences, heads, width))
    for s, length in enumerate(lengths[:, 0].astype(int)):
        used = rng.permutation(total)[: -(-length // block)]
        table[s, : len(used)] = used
        keys, values = (wide(cache)[used].reshape(-1, width)[:length] for cache in (k, v))
        power = np.exp(0.125 * wide(q[s]) @ keys.T)
        expected[s] = power / power.sum(1, keepdims=True) @ values
    result = run(paged_attention.paged_decode, q, k, v, table, lengths, scale=0.125, expected=("NKI606",))
    assert apart(result, expected) < 1e-2


def test_flash_attention_with_rotation_fills_the_cache_in_place() -> None:
    length, width = 512, 64
    q, k, v = (normal(n, length, width).astype(BF16) for n in range(3))
    angle = normal(3, length, width // 2)
    c, s, cache = np.cos(angle), np.sin(angle), np.zeros((1024, width), BF16)

    def turned(x: Any) -> Any:
        a, b = wide(x)[:, : width // 2], wide(x)[:, width // 2 :]
        return np.concatenate([a * c - b * s, b * c + a * s], 1)

    scores = turned(q) @ turned(k).T / 8
    power = np.exp(np.where(np.tri(length, dtype=bool), scores, -np.inf))
    result = run(flash_causal.flash, q, k, v, cache, c, s, np.array([[100]], np.int32))
    assert apart(result, power / power.sum(1, keepdims=True) @ wide(v)) < 1e-2
    assert apart(wide(cache[100:612]), turned(k)) < 1e-2
    assert not wide(cache[:100]).any()
    assert not wide(cache[612:]).any()


def test_keys_and_values_go_around_a_ring_of_ranks() -> None:
    q = [normal(n, 64, 64).astype(BF16) for n in range(4)]
    kv = [normal(n + 4, 2, 64, 64).astype(BF16) for n in range(4)]
    keys, values = (np.concatenate([wide(block[side]) for block in kv]) for side in (0, 1))
    made = nki_lab.run_ranks(ring_attention.ring_attention, list(zip(q, kv, strict=True)), target="trn2")
    for mine, run_of_rank in zip(q, made, strict=True):
        scores = wide(mine) @ keys.T
        power = np.exp(scores - scores.max(1, keepdims=True))
        assert apart(wide(run_of_rank.outputs[0]), power / power.sum(1, keepdims=True) @ values) < 1e-2


# -- mixtures of experts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affinity", list(experts.Affinity))
def test_tokens_go_through_the_experts_of_their_router(affinity: Any) -> None:
    tokens, hidden, count, inner = 3, 256, 16, 128
    x, router = normal(0, tokens, hidden).astype(BF16), (normal(1, hidden, count) / 16).astype(BF16)
    up, down = (
        (normal(2, count, hidden, 2, inner) / 16).astype(BF16),
        (normal(3, count, inner, hidden) / 11).astype(BF16),
    )
    expected = np.zeros((tokens, hidden))
    for t, logits in enumerate(wide(x) @ wide(router)):
        top = np.argsort(-logits)[:2]
        share = 1 / (1 + np.exp(-logits[top])) if affinity is experts.Affinity.SIGMOID else np.exp(logits[top])
        for n, part in zip(top, share / share.sum(), strict=True):
            gate, value = (wide(x[t]) @ wide(up[n, :, side]) for side in (0, 1))
            expected[t] += part * (silu(gate) * value @ wide(down[n]))
    chosen = experts.Router(affinity=affinity)
    assert apart(run(experts.experts_decode, x, router, up, down, chosen, expected=("NKI601",)), expected) < 1e-2


def test_positions_of_an_expert_are_counted() -> None:
    choice = np.random.default_rng(0).integers(0, 4, (1, 60)).astype(np.int32)
    result = run(blockwise.positions, choice, 2)[0]
    found = np.flatnonzero(choice[0] == 2)
    assert result[: len(found)].tolist() == found.tolist()
    assert set(result[len(found) : -1]) == {-1}
    assert result[-1] == len(found)


def test_rows_are_gathered_scaled_and_added_back() -> None:
    hidden, share, sums = normal(0, 300, 64).astype(BF16), normal(1, 64, 1), normal(2, 300, 64).astype(BF16)
    index, expected = np.full((64, 1), -1, np.int32), wide(sums)
    index[:50, 0] = np.random.default_rng(3).permutation(300)[:50]
    expected[index[:50, 0]] += wide((wide(hidden)[index[:50, 0]] * share[:50]).astype(BF16))
    assert apart(run(blockwise.gather_scale_scatter, hidden, index, share, sums), expected) < 1e-2


def test_rows_are_scaled_by_the_gate_of_their_segment() -> None:
    x, gates = normal(0, 128, 64), np.array([[0, 1.5, 2, -1, 0.5]], np.float32)
    segment = np.random.default_rng(1).integers(0, 5, (128, 1))
    gate = gates[0][segment]
    result = run(blockwise.dropless, x, segment.astype(np.float32), gates)
    np.testing.assert_array_equal(result, np.where(gate == 0, x, x * gate))


# -- quantised layers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "target", "codes"),
    [(1, "trn2", ("NKI604",)), (2, "trn2", ("NKI604",)), (2, "trn3", ("NKI604",)), (1, "trn1", ("NKI604", "NKI606"))],
)
def test_an_fp8_mlp_is_sharded_over_the_cores(cores: int, target: str, codes: tuple[str, ...]) -> None:
    rows, hidden, inner = 64, 256, 512

    def rounded(array: Any) -> tuple[Any, Any]:
        scale = np.abs(array).max(0) / 240
        return (array / scale).astype(FP8), scale.astype(np.float32)

    x = normal(0, rows, hidden).astype(BF16)
    (gate, gate_scale), (up, up_scale), (down, down_scale) = (
        rounded(normal(n, *shape) / 16)
        for n, shape in enumerate(((hidden, inner), (hidden, inner), (inner, hidden)), 1)
    )
    weights = quantised_mlp.Weights(gate=gate, up=up, down=down, gate_scale=gate_scale, up_scale=up_scale,
                                    down_scale=down_scale)  # fmt: skip
    kernel = quantised_mlp.quantised_mlp if cores == 1 else quantised_mlp.quantised_mlp[cores]
    expected = silu(wide(x) @ (wide(gate) * gate_scale)) * (wide(x) @ (wide(up) * up_scale)) @ (wide(down) * down_scale)
    assert apart(run(kernel, x, weights, target=target, expected=codes), expected) < 7e-2


def test_packed_weights_arrive_as_integers() -> None:
    tokens, columns = 64, 32
    x = normal(0, 128, 4 * tokens).astype(BF16)
    w = normal(1, 128, columns, 4).astype(ml_dtypes.float8_e4m3fn)
    scale = np.random.default_rng(2).integers(120, 130, (16, columns)).astype(np.uint8)
    result = run(mx_layer.mx_project, x, w.view(np.uint32)[..., 0], scale, target="trn3")
    full = wide(w) * 2.0 ** (np.repeat(scale, 8, 0)[..., None].astype(float) - 127)
    assert apart(result, np.einsum("pnj,ptj->nt", full, wide(x).reshape(128, tokens, 4))) < 7e-2


# -- scans, statistics, convolutions -----------------------------------------------------------------------------------------


def test_a_scan_carries_its_state_over_blocks() -> None:
    channels, length, states = 64, 512, 4
    delta, u, a = np.abs(normal(0, channels, length)), normal(1, channels, length), -np.abs(normal(2, channels, states))
    b, c = normal(3, states, length), normal(4, states, length)
    h, expected = np.zeros((channels, states)), np.zeros((channels, length))
    for t in range(length):
        h = np.exp(wide(delta[:, t : t + 1]) * a) * h + delta[:, t : t + 1] * b[:, t] * u[:, t : t + 1]
        expected[:, t] = (h * c[:, t]).sum(1)
    assert apart(run(scan_pool.selective_scan, delta, u, a, b, c), expected) < 1e-5


def test_layer_norm_aggregates_its_statistics() -> None:
    x, gamma, beta = normal(0, 100, 1200), normal(1, 1200), normal(2, 1200)
    centred = wide(x) - wide(x).mean(1, keepdims=True)
    expected = centred / np.sqrt(wide(x).var(1, keepdims=True) + 1e-5) * gamma + beta
    assert apart(run(scan_pool.layer_norm, x, gamma, beta), expected) < 1e-5


def test_taps_are_added_in_overlapping_windows_of_a_bank() -> None:
    x, w = normal(0, 64, 100).astype(BF16), normal(1, 5, 64, 32).astype(BF16)
    expected = np.zeros((32, 104))
    for k in range(5):
        expected[:, k : k + 100] += wide(w[k]).T @ wide(x)
    assert apart(run(scan_pool.conv1d, x, w), expected) < 1e-5


# -- the editor sees the same ---------------------------------------------------------------------------------------------------

F, B, I32 = "float32", "bfloat16", "int32"
READ: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (paged_attention.paged_decode,
     (spec((3, 8, 64), B), spec((20, 16, 64), B), spec((20, 16, 64), B), spec((3, 6), I32), spec((3, 1), F)), "trn2"),
    (flash_causal.flash,
     (*[spec((512, 64), B)] * 3, spec((1024, 64), B), *[spec((512, 32), F)] * 2, spec((1, 1), I32)), "trn2"),
    (blockwise.positions, (spec((1, 60), I32), 2), "trn2"),
    (blockwise.gather_scale_scatter, (spec((300, 64), B), spec((64, 1), I32), spec((64, 1), F), spec((300, 64), B)), "trn2"),
    (blockwise.dropless, (spec((128, 64), F), spec((128, 1), F), spec((1, 5), F)), "trn2"),
    (scan_pool.selective_scan,
     (*[spec((64, 512), F)] * 2, spec((64, 4), F), *[spec((4, 512), F)] * 2), "trn2"),
    (scan_pool.layer_norm, (spec((100, 1200), F), *[spec((1200,), F)] * 2), "trn2"),
    (scan_pool.conv1d, (spec((64, 100), B), spec((5, 64, 32), B)), "trn2"),
    (ring_attention.ring_attention, (spec((64, 64), B), spec((2, 64, 64), B)), "trn2"),
    (mx_layer.mx_project, (spec((128, 256), B), spec((128, 32), "uint32"), spec((16, 32), "uint8")), "trn3"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "arguments", "target"), READ, ids=[case[0].__name__ for case in READ])
def test_the_editor_sees_the_program_that_runs(kernel: Any, arguments: tuple[Any, ...], target: str) -> None:
    file = Path(kernel.function.__code__.co_filename)
    seen, made = evaluated(file.read_text(encoding="utf-8"), file, arguments, target, name=kernel.__name__)
    assert seen == traced(kernel, arguments, target)
    assert not missed(made)


FOLLOWED = [
    (norm_projection.norm_qkv, (spec((200, 256), B), spec((256, 1152), B))),
    (
        experts.experts_decode,
        (spec((3, 256), B), spec((256, 16), B), spec((16, 256, 2, 128), B), spec((16, 128, 256), B)),
    ),
]


@pytest.mark.parametrize(("kernel", "arguments"), FOLLOWED, ids=[case[0].__name__ for case in FOLLOWED])
def test_the_editor_follows_helpers_in_other_modules(kernel: Any, arguments: tuple[Any, ...]) -> None:
    found = nki_lab.check(function=kernel, args=arguments, target="trn2")
    assert not [item for item in found if item.severity == "error" or item.code in ("NKI120", "NKI121", "NKI122")]
