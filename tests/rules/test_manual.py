"""Every name under which AWS's manual and guides know a mistake is explained, and shown where it can be seen.

The names are those of the error manual of Beta 1, of its earlier releases, and of the rules that the migration guides
and the language guide state.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nki_lab import codes, query
from nki_lab.cli import report
from tests.snippets import Snippet, expectations, snippets

MANUAL = [
    "err_1d_arange_not_supported",
    "err_activation_bias_invalid_type",
    "err_activation_scale_invalid_type",
    "err_activation_scale_scalar_or_vector",
    "err_ambiguous_tensor_truth_value",
    "err_annotation_shape_mismatch",
    "err_bias_tensor_must_be_specified_in_allocation",
    "err_cannot_assign_to_index",
    "err_cannot_update_immutable_parameter",
    "err_control_flow_condition_depending_on_arange",
    "err_copy_dynamic_indirect_indices_not_natively_supported",
    "err_dynamic_control_flow_not_supported",
    "err_exceed_max_supported_dimension",
    "err_failed_to_infer_tile_from_local_tensor",
    "err_hbm_tensor_with_init_value_not_supported",
    "err_indirect_indices_are_not_supported_with_nki_api",
    "err_indirect_indices_free_dim",
    "err_leading_dimension_of_tensor_must_be_partition",
    "err_local_variable_used_out_of_scope",
    "err_mutable_parameter_not_returned",
    "err_nested_kernel_with_spmd_grid",
    "err_nki_api_outside_of_nki_kernel",
    "err_num_partition_exceed_arch_limit",
    "err_num_partition_mismatch",
    "err_shared_hbm_must_in_kernel_level",
    "err_size_of_dimension_exceed_arch_limit",
    "err_store_dst_shape_smaller_than_other_shape",
    "err_tensor_access_out_of_bound",
    "err_tensor_creation_on_scratchpad_with_init_value_not_supported",
    "err_tensor_output_not_written_to",
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
    "err_unexpected_output_dependencies",
    "err_unsupported_expression_in_mask",
    "err_unsupported_memory",
    "err_unsupported_mixing_basic_advanced_tensor_indexing",
    "err_while_loop_requires_unconditional_entry",
]

EARLIER = [
    "err_read_modify_write_on_kernel_parameter",
    "err_tensor_creation_on_scratchpad_with_init_value_not_allowed",
]

RULES = [
    "rule_neuronxcc_namespace",
    "rule_arange_removed",
    "rule_mask_removed",
    "rule_block_dim_removed",
    "rule_dst_required",
    "rule_nested_slicing",
    "rule_subkernel_decorator",
    "rule_dict_string_keys",
    "rule_dynamic_index_syntax",
    "rule_psum_bank_alignment",
    "rule_class_inherits_nkiobject",
    "rule_unsupported_python",
    "rule_no_read_of_tensor_value",
    "rule_loop_var_frozen",
    "rule_register_load_shape",
    "rule_kernel_purity",
    "rule_enum_operators",
    "rule_partition_stride_ap",
    "rule_indirect_view_reuse",
    "rule_jit_mode",
    "rule_jit_platform_target",
    "rule_dma_from_psum",
    "rule_hwdge_dtype",
    "rule_dma_rmw",
    "rule_memset_type",
    "rule_memset_x4",
    "rule_reduce_axis",
    "rule_dma_compute_order",
    "rule_sendrecv_bool",
    "rule_affine_select_offset",
    "rule_register_move_imm",
    "rule_num_channels",
    "rule_output_shared_hbm",
    "rule_int_enum",
    "rule_string_buffer",
    "rule_kwonly_star",
    "rule_is_operator",
    "rule_list_argument",
    "rule_range_select_false",
    "rule_dma_transpose_rank",
    "rule_tensor_copy_dynamic_removed",
    "rule_total_available_sbuf_size",
    "rule_psum_fmax",
    "rule_rsqrt_psum",
    "rule_reshape_count",
    "rule_lnc_grid",
    "rule_dynamic_range",
    "rule_static_range",
    "rule_fori_body",
    "rule_gen2_matmul_dst",
    "removed_toplevel",
]

NOT_APPLICABLE = {
    "err_while_loop_requires_unconditional_entry": "nt.scalar, which such a loop tests, is not modelled (NKI010)",
    "rule_nested_slicing": "views chain again since NKI 0.5",
}
"""Names without a code, and why."""

NOT_SHOWN = {
    "err_nki_api_outside_of_nki_kernel": "outside-kernel.md: at module level",
    "err_tensor_creation_on_scratchpad_with_init_value_not_allowed": "the same under its earlier name",
    "rule_subkernel_decorator": "nested-kernel.md",
    "rule_num_channels": "the collectives are not modelled: a call of one is NKI010",
}
"""Names with a code and without a heading of their own, and why."""

NAMES = [*MANUAL, *EARLIER, *RULES]
EVERY = pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_APPLICABLE])


def shown() -> dict[str, list[Snippet]]:
    """The fences of all documents by the heading above them."""
    found: dict[str, list[Snippet]] = {}
    for document in sorted(Path(__file__).parent.glob("*.md")):
        for snippet in snippets(document.read_text(encoding="utf-8")):
            found.setdefault(snippet.heading, []).append(snippet)
    return found


SHOWN = shown()


def test_the_lists_are_whole() -> None:
    assert (len(MANUAL), len(EARLIER), len(RULES)) == (36, 2, 51)
    assert len(set(NAMES)) == len(NAMES)
    assert set(NOT_APPLICABLE) | set(NOT_SHOWN) <= set(NAMES)


@EVERY
def test_a_name_is_explained(name: str) -> None:
    code = codes.find(name)
    assert code is not None
    assert report.explain(name) == report.explain(code.code)
    assert name in report.explain(name).partition("\n")[0]
    assert code.body.strip() in report.explain(name)


def test_aliases_are_these_names() -> None:
    aliases = {alias for code in codes.all_codes() for alias in code.aliases}
    assert aliases == set(NAMES) - set(NOT_APPLICABLE)


@pytest.mark.parametrize("name", NOT_APPLICABLE)
def test_what_has_no_code_is_not_explained(name: str) -> None:
    assert query.explain(name) is None


@EVERY
def test_a_name_is_shown_by_a_kernel_that_triggers_it(name: str) -> None:
    if name in NOT_SHOWN:
        assert name not in SHOWN
        return
    code = codes.find(name)
    assert code is not None
    expected = {item.code for snippet in SHOWN[name] for item in expectations(snippet.source)}
    assert code.code in expected


@pytest.mark.parametrize("name", [name for name in MANUAL if name not in {**NOT_APPLICABLE, **NOT_SHOWN}])
def test_each_code_of_the_manual_is_shown_good_as_well(name: str) -> None:
    code = codes.find(name)
    assert code is not None
    quiet = [item for item in SHOWN[name] if code.code not in {found.code for found in expectations(item.source)}]
    assert quiet or name in WHOLE_DOCUMENTS


WHOLE_DOCUMENTS = {
    "err_cannot_update_immutable_parameter",
    "err_mutable_parameter_not_returned",
    "err_shared_hbm_must_in_kernel_level",
    "err_local_variable_used_out_of_scope",
}
"""Names whose good kernels stand under other headings of their document."""


def test_headings_are_names_or_words() -> None:
    named = {heading for heading in SHOWN if re.fullmatch(r"(err|rule|removed)_\w+", heading)}
    assert named <= set(NAMES)
