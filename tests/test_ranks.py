"""Collectives: what one rank does alone, and what several exchange."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.collectives import ReplicaGroup

import nki_lab
from nki_lab import NkiError, spec
from tests.verdicts import agreed

RANKS = 4
ALL = ReplicaGroup([list(range(RANKS))])
HALVES = ReplicaGroup([[0, 2], [3, 1]])
X = [np.random.default_rng(n).standard_normal((8, 16)).astype(np.float32) for n in range(RANKS)]


def output(shape: tuple[int, ...], dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype, buffer=nl.shared_hbm)


def reduced(x, group=ALL, op=nl.add):
    out = output(x.shape, x.dtype)
    ncc.all_reduce([x], [out], group, op)
    return out


def gathered(x, group=ALL, ranks=RANKS):
    out = output((ranks * x.shape[0], *x.shape[1:]), x.dtype)
    ncc.all_gather(srcs=[x], dsts=[out], replica_group=group, collective_dim=0, name="gather")
    return out


def scattered(x, group=ALL, ranks=RANKS):
    out = output((x.shape[0] // ranks, *x.shape[1:]), x.dtype)
    ncc.reduce_scatter([x], [out], group, 0, nl.add)
    return out


def swapped(x, group=ALL):
    out = output(x.shape, x.dtype)
    ncc.all_to_all([x], [out], group, 0)
    return out


def shifted(x, group=ALL):
    out = output(x.shape, x.dtype)
    ncc.collective_permute_implicit([[x]], [[out]], group)
    return out


def results(kernel: Any, arguments: Any = X, **keywords: Any) -> list[Any]:
    return [made.outputs[0] for made in nki_lab.run_ranks(kernel, list(arguments), target="trn2", **keywords)]


# -- several ranks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "function"), [("add", np.sum), ("maximum", np.max), ("minimum", np.min)])
def test_all_ranks_get_the_reduction(op: str, function: Any) -> None:
    for result in results(reduced, op=getattr(nl, op)):
        np.testing.assert_allclose(result, function(X, axis=0), rtol=1e-6, atol=1e-6)


def test_groups_reduce_apart() -> None:
    made = results(reduced, group=HALVES)
    for rank, (a, b) in enumerate(((0, 2), (3, 1), (0, 2), (3, 1))):
        np.testing.assert_array_equal(made[rank], X[a] + X[b])


def test_integers_are_reduced_exactly() -> None:
    given = [np.full((4, 4), 2**24 + 1 + n, np.int32) for n in range(RANKS)]
    assert (results(reduced, given)[0] == 4 * 2**24 + 10).all()


def test_low_precision_is_rounded_once() -> None:
    given = [x.astype(ml_dtypes.bfloat16) for x in X]
    expected = np.sum([x.astype(np.float32) for x in given], axis=0, dtype=np.float32).astype(ml_dtypes.bfloat16)
    assert np.array_equal(results(reduced, given)[3], expected)


def test_ranks_gather_in_the_order_of_their_group() -> None:
    made = results(gathered, group=HALVES, ranks=2)
    np.testing.assert_array_equal(made[2], np.concatenate([X[0], X[2]]))
    np.testing.assert_array_equal(made[1], np.concatenate([X[3], X[1]]))


def test_each_rank_gets_its_part_of_the_reduction() -> None:
    total = np.sum(X, axis=0, dtype=np.float32)
    for rank, result in enumerate(results(scattered)):
        np.testing.assert_allclose(result, total[2 * rank : 2 * rank + 2], rtol=1e-6, atol=1e-6)


def test_parts_change_places() -> None:
    for rank, result in enumerate(results(swapped)):
        np.testing.assert_array_equal(result, np.concatenate([x[2 * rank : 2 * rank + 2] for x in X]))


def test_data_goes_around_the_ring() -> None:
    for rank, result in enumerate(results(shifted)):
        np.testing.assert_array_equal(result, X[rank - 1])


def test_reduced_data_goes_around_the_ring() -> None:
    def kernel(x):
        out = output(x.shape)
        ncc.collective_permute_implicit_reduce([[x]], [[x]], [[out]], ALL, nl.add)
        return out

    for rank, result in enumerate(results(kernel)):
        np.testing.assert_array_equal(result, 2 * X[rank - 1])


def test_pairs_say_who_sends_to_whom_and_others_keep_theirs() -> None:
    def kernel(x):
        out = output(x.shape)
        nl.store(out, nl.zeros(x.shape, nl.float32))
        ncc.collective_permute([x], [out], [(0, 1), (1, 2)])
        return out

    expected = (0 * X[0], X[0], X[1], 0 * X[0])
    for result, wanted in zip(results(kernel), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_ring_adds_up_what_it_passes_on() -> None:
    def kernel(x):
        """Each rank adds what arrives to its sum, and enters it where the sender's row is."""
        total, table = nl.load(x), output((RANKS, 1), nl.int32)
        here = x
        for _ in range(1, RANKS):
            there = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
            ncc.collective_permute_implicit([[here]], [[there]], ALL)
            nisa.tensor_tensor(total, total, nl.load(there), nl.add)
            here = there
        for step in range(RANKS):
            sender = ncc.collective_permute_implicit_current_processing_rank_id(step, ALL)
            mark = nl.full((1, 1), step, nl.int32)
            nisa.dma_copy(table.ap([[1, 1], [1, 1]], scalar_offset=sender, indirect_dim=0), mark)
        out = output(x.shape)
        nl.store(out, total)
        return out, table

    for rank, made in enumerate(nki_lab.run_ranks(kernel, X, target="trn2")):
        np.testing.assert_allclose(made.outputs[0], np.sum(X, axis=0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(made.outputs[1][:, 0], [(rank - r) % RANKS for r in range(RANKS)])


def test_tiles_are_exchanged_too() -> None:
    def kernel(x):
        tile, all_of_them = nl.load(x), nl.ndarray((8, 4 * 16), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        ncc.all_gather([tile], [all_of_them], ALL, 1)
        out = output((8, 64))
        nl.store(out, all_of_them)
        return out

    np.testing.assert_array_equal(results(kernel)[1], 2 * np.concatenate(X, 1))


def test_several_tensors_go_in_one_call() -> None:
    def kernel(x, y):
        outs = [output(x.shape), output(y.shape)]
        ncc.all_reduce([x, y], outs, ALL, nl.add)
        return outs

    made = nki_lab.run_ranks(kernel, [(x, x[:2]) for x in X], target="trn2")
    np.testing.assert_allclose(made[0].outputs[1], np.sum(X, axis=0)[:2], rtol=1e-6, atol=1e-6)


def test_ranks_take_keywords_of_their_own() -> None:
    def kernel(x, scale):
        tile, out = nl.load(x), output(x.shape)
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
        nl.store(out, tile)
        return out

    made = nki_lab.run_ranks(kernel, [{"x": X[0], "scale": 2.0}, {"x": X[1], "scale": 3.0}], target="trn2")
    np.testing.assert_array_equal(made[1].outputs[0], 3 * X[1])


def test_a_register_holds_the_rank() -> None:
    def kernel(x):
        out = output((1, 1), nl.int32)
        nisa.register_store(out, ncc.rank_id())
        return out

    assert [int(result[0, 0]) for result in results(kernel)] == [0, 1, 2, 3]
    assert int(nki_lab.run(kernel, X[0], target="trn2").outputs[0][0, 0]) == 0


# -- ranks of two cores --------------------------------------------------------------------------------------------------


def tiled(x, group=ALL, ranks=RANKS, twice=-1, meet=False):
    """Gather rows of x in tiles, which the cores share out; one core of a rank may do so once more, or wait first."""
    rows = x.shape[0] // nl.num_programs(0)
    first = nl.program_id(0) * rows
    out = output((x.shape[0], ranks * x.shape[1]), x.dtype)
    tile, wide = nl.ndarray((rows, x.shape[1]), x.dtype), nl.ndarray((rows, ranks * x.shape[1]), x.dtype)
    nisa.dma_copy(dst=tile, src=x[first : first + rows])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(1 + nl.program_id(0)))
    if meet:
        nisa.core_barrier(out, (0, 1))
    for _ in range(2 if nl.program_id(0) == twice else 1):
        ncc.all_gather(srcs=[tile], dsts=[wide], replica_group=group, collective_dim=1)
    nisa.dma_copy(dst=out[first : first + rows], src=wide)
    return out


def test_each_core_of_a_rank_exchanges_with_the_same_core_of_the_others() -> None:
    made = nki_lab.run_ranks(nki.jit(tiled)[2], X, target="trn2")
    want = np.concatenate(X, axis=1) * np.repeat([1, 2], 4)[:, None].astype(np.float32)
    for rank in made:
        np.testing.assert_array_equal(rank.outputs[0], want)
        assert not [item for item in rank.diagnostics if item.severity == "error"]


def test_cores_that_call_different_numbers_of_collectives_are_told_so() -> None:
    given = [{"x": x, "twice": 1 if number == 2 else -1} for number, x in enumerate(X)]
    with pytest.raises(NkiError, match="rank 3 has come to its end") as caught:
        nki_lab.run_ranks(nki.jit(tiled)[2], given, target="trn2")
    assert caught.value.diagnostics[0].code == "NKI241"
    given = [{"x": x, "twice": 0 if number == 2 else -1} for number, x in enumerate(X)]
    with pytest.raises(NkiError, match=r"on core [01].*on core [01]") as caught:
        nki_lab.run_ranks(nki.jit(tiled)[2], given, target="trn2")
    assert caught.value.diagnostics[0].code == "NKI241"


def test_cores_that_have_met_exchange_nothing_with_other_ranks() -> None:
    with pytest.raises(NkiError, match="after the cores have waited") as caught:
        nki_lab.run_ranks(nki.jit(tiled)[2], [{"x": x, "meet": True} for x in X], target="trn2")
    assert caught.value.diagnostics[0].code == "NKI017"


# -- what goes wrong -----------------------------------------------------------------------------------------------------


def refused(kernel: Any, *args: Any, **keywords: Any) -> Any:
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel, *args, target="trn2", **keywords)
    return caught.value.diagnostics[0]


def test_a_rank_alone_cannot_exchange() -> None:
    found = refused(reduced, X[0])
    assert found.code == "NKI240"
    assert "run_ranks" in found.help


def test_a_rank_outside_of_its_groups_is_refused() -> None:
    assert refused(reduced, X[0], group=ReplicaGroup([[1, 2]])).code == "NKI240"


def test_ranks_that_do_not_meet_are_told_so() -> None:
    def kernel(x, skip):
        return x if skip else reduced(x)

    with pytest.raises(NkiError, match="rank 3 has come to its end") as caught:
        nki_lab.run_ranks(kernel, [(x, n == 3) for n, x in enumerate(X)], target="trn2")
    assert caught.value.diagnostics[0].code == "NKI241"


def test_ranks_that_call_different_collectives_are_told_so() -> None:
    def kernel(x, other):
        return gathered(x) if other else reduced(x)

    with pytest.raises(NkiError, match="calls all_gather") as caught:
        nki_lab.run_ranks(kernel, [(x, n == 3) for n, x in enumerate(X)], target="trn2")
    assert caught.value.diagnostics[0].code == "NKI241"


def test_the_fault_of_one_rank_is_the_one_that_is_raised() -> None:
    def kernel(x, bad):
        assert not bad, "this rank fails"
        return reduced(x)

    with pytest.raises(AssertionError, match="this rank fails"):
        nki_lab.run_ranks(kernel, [(x, n == 2) for n, x in enumerate(X)], target="trn2")


_MADE = "nl.ndarray({}, buffer=nl.shared_hbm)"
_COUNTS = _MADE.format("(3, 1), nl.uint32")
WRONG = [
    ("ncc.all_reduce(x, [x], GROUP, nl.add)", "NKI013"),
    ("ncc.all_reduce([x], [x], [[0]], nl.add)", "NKI012"),
    ("ncc.all_reduce([x], [x], GROUP, nl.multiply)", "NKI012"),
    ("ncc.all_reduce([x], [x[0:1]], GROUP, nl.add)", "NKI203"),
    ("ncc.all_gather([x], [x], GROUP, 1)", "NKI012"),
    ("ncc.all_reduce([x], [nl.load(x)], GROUP, nl.add)", "NKI201"),
    ("ncc.all_to_all([nl.load(x)], [nl.load(x)], GROUP, 0)", "NKI201"),
    ("ncc.all_reduce([x], [x], GROUP, nl.add, priority=1)", "NKI222"),
    ("ncc.all_reduce([x], [x], GROUP, nl.add, prio=1)", "NKI002"),
    ("ncc.collective_permute_implicit([[x]], [[x]], GROUP, channel_ids=[1])", "NKI012"),
    ("ncc.collective_permute([x], [x], [(0, 0), (0, 1)])", "NKI012"),
    ("ncc.collective_permute([x], [x], [0, 1])", "NKI012"),
    ("ncc.collective_permute([x, x], [x, x], [(0, 0)])", "NKI012"),
    ("ncc.collective_permute_implicit([x], [x], GROUP)", "NKI013"),
    ("ncc.collective_permute_implicit([[x]], [[x]], GROUP, channel_ids=0)", "NKI012"),
    ("ncc.ReplicaGroup([0, 1])", "NKI012"),
    ("ncc.all_gather_v([x], [x], [[0]], x)", "NKI202"),
    (f"ncc.all_to_all_v([x], [x], GROUP, {_MADE.format('(3, 2), nl.uint32')})", "NKI203"),
    (f"ncc.all_to_all_v([x], [{_MADE.format('(4,), nl.int8')}], GROUP, {_COUNTS})", "NKI207"),
    (f"ncc.all_to_all_v([x], [{_MADE.format('(8, 16), x.dtype')}[:, 0:4]], GROUP, {_COUNTS})", "NKI201"),
]


@pytest.mark.parametrize(("call", "code"), WRONG)
def test_what_is_wrong_with_a_call_is_said_by_run_and_editor_alike(call: str, code: str) -> None:
    head = "import nki.collectives as ncc\nGROUP = ncc.ReplicaGroup([[0]])\n"
    assert agreed(call, head).code == code


@pytest.mark.parametrize(
    "call",
    [
        "ncc.all_reduce([t], [t], GROUP, nl.add)",
        "ncc.all_gather([t], [t], GROUP, 0)",
        "ncc.reduce_scatter([t], [t], GROUP, 0, nl.add)",
        "ncc.collective_permute_implicit([[t]], [[t]], GROUP)",
        "ncc.collective_permute_implicit_reduce([[t]], [[t]], [[t]], GROUP, nl.add)",
    ],
)
def test_tiles_that_ranks_exchange_have_one_free_dimension(call: str) -> None:
    head = "import nki.collectives as ncc\nGROUP = ncc.ReplicaGroup([[0]])\n"
    body = "t = nl.load(x).reshape((128, 4, 16))\n"
    found = agreed(body + call, head)
    assert found.code == "NKI205"
    assert agreed(body.replace("4, 16", "64") + call, head).code == ""


def test_what_is_no_replica_group_is_said_of_collectives_of_any_length() -> None:
    def kernel(x):
        out, counts = output((8, 16)), nl.ndarray((3, 4), nl.uint32, buffer=nl.shared_hbm)
        ncc.all_gather_v([x], [out], [[0, 1, 2, 3]], counts)
        return out

    found = refused(nki.jit(kernel)[2], X[0])
    assert (found.code, found.operand) == ("NKI012", "replica_group")


@pytest.mark.parametrize(
    ("permutes", "limit"), [(True, "one tensor"), (False, "one tensor, or several that are in HBM")]
)
def test_how_many_tensors_go_at_once_depends_on_the_collective(permutes: bool, limit: str) -> None:
    def kernel(x):
        if permutes:
            ncc.collective_permute([x, x], [x, x], [(0, 0)])
        else:
            tile = nl.load(x)
            ncc.all_reduce([tile, tile], [tile, tile], ReplicaGroup([[0]]), nl.add)
        return x

    found = refused(kernel, X[0])
    assert (found.limit, found.help) == (limit, "call it once for each tensor")


# -- one rank --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [reduced, gathered, scattered, swapped, shifted])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_group_of_one_rank_is_a_copy(kernel: Any, cores: int) -> None:
    keywords = {"ranks": 1} if kernel in (gathered, scattered) else {}
    jitted = nki.jit(kernel)
    made = nki_lab.run(jitted if cores == 1 else jitted[2], X[0], ReplicaGroup([[0]]), target="trn2", **keywords)
    np.testing.assert_array_equal(made.outputs[0], X[0])
    assert not [item for item in made.diagnostics if item.severity == "error"]
    assert "NKI242" in {item.code for item in made.diagnostics}


def test_times_need_no_other_ranks() -> None:
    made = nki_lab.profile(gathered, spec((8, 16), "float32"), target="trn2")
    assert made.summary.dma_bytes > 0
