"""The tables of Neuron Explorer that a recording maps to: names and types of their fields.

Source: the profile schema that `neuron-explorer --show-profile-schema` prints, version 7.4.0 (Neuron SDK 2.31). Times
are nanoseconds. `!` marks fields that are always there; the others may be null.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final, NamedTuple

from nki_lab.kernel_runtime import vocabulary
from nki_lab.kernel_runtime.vocabulary import EDGE_KINDS, KINDS

VERSION: Final = "7.4.0"


class Field(NamedTuple):
    """A field; `kind` is int32, int64, float, double, string or bool."""

    name: str
    kind: str
    required: bool


_TEXT: Final = {
    "ActiveTime": """
        start_ts:int64! end_ts:int64! engine:string! pcore_idx:int64! duration_ns:int64!
    """,
    "DmaPacket": """
        start_ts:int64! end_ts:int64! duration_ns:int64! pcore_idx:int64 id:int64! packet_idx:int32!
        packet_aggregation_id:int64! engine_idx:int64 read_bytes:int64! write_bytes:int64! transfer_bytes:int64!
        throughput:float! queue_type:string! variable:string queue_name:string queue_idx:int64 crc:int64!
    """,
    "DmaPacketAggregated": """
        start_ts:int64! end_ts:int64! duration_ns:int64! id:int64! pcore_idx:int64 block_id:int32!
        queue_idx:int64! queue_name:string! queue_type:string op:string! variable:string! read_bytes:int64!
        write_bytes:int64! transfer_bytes:int64! throughput:float! source:string! dest:string!
        semaphore_id:string! modular_flow_function:string read_sbuf_partitions:string!
        read_num_sbuf_partitions:int32! read_shape:string! read_offset:string! read_steps:string!
        write_sbuf_partitions:string! write_num_sbuf_partitions:int32! write_shape:string! write_offset:string!
        write_steps:string! is_transpose_mode:bool transpose_element_size:string transpose_shape:string
        transpose_from_shape:string transpose_to_shape:string transpose_unroll_factor:string trigger:int64
        completion:int64
    """,
    "DmaQueuesInfo": """
        name:string! type:string! pcore_idx:int64! idx:int64! engine_idx:int64! axi_port:int64!
        dram_channel:int64!
    """,
    "DmaUsage": """
        timestamp:int64! current_throughput:float! total_transfer_bytes:int64! pcore_idx:int64
    """,
    "Flow": """
        in_id:int64! out_id:int64! in_table:string! out_table:string! dependency_type:string gap_time:int64
    """,
    "Instruction": """
        start_ts:int64! end_ts:int64! duration_ns:int64! engine:string! timeline_track:string pcore_idx:int64
        opcode:string! operands:string! compiler_opcode:string compiler_operands:string id:int64! pc:int64!
        compiler_pc:int64 penguin_id:string raw_penguin_id:int64 bir_id:string! raw_bir_id:int64
        bir_instruction_name:string kernel_instruction_name:string crc_in:int64 crc_out:int64
        evt_wait_time_ns:int64 hlo_attrs:string hlo_name:string raw_hlo_id:int64 raw_framework_id:int64
        layer:string stack_frame_ids:string nki_source_location:string bir_debug_info_source_location:string
        dma_trigger_start_ts:int64 dma_trigger_end_ts:int64 dma_wait_time_ns:int64 instruction_chain:string
        hbm_read_bytes:int64 hbm_write_bytes:int64 sbuf_read_bytes:int64 sbuf_write_bytes:int64
        spill_save_bytes:int64 spill_reload_bytes:int64 psum_read_bytes:int64 psum_write_bytes:int64
        psum_read_sbuf_write_bytes:int64 input_queue_bytes:int64 output_queue_bytes:int64
        weight_queue_bytes:int64 performance_mode:string tensor_instruction_type:string tensor_elements:int64
        raw_flops:int64 adjusted_flops:int64 tensor_elements_transpose:int64 flops_transpose:int64
        adjusted_flops_transpose:int64 scalar_activation_fn:string
    """,
    "Metadata": """
        profile_schema_version:string! ntff_version:int32! num_physical_cores:int32! vnc_enabled:bool!
        first_hw_timestamp:int64! last_hw_timestamp:int64! first_ts:string! last_ts:string!
        dma_ddr_bandwidth:float! num_dma_engines_per_neuroncore:int32! hbm_ddr_bandwidth:float!
        tensor_engine_num_rows:int64! tensor_engine_num_cols:int64! tensor_engine_clock_freq:float!
        vector_engine_clock_freq:float! vector_engine_num_channels:int64! scalar_engine_clock_freq:float!
        scalar_engine_num_channels:int64! gpsimd_engine_clock_freq:float! gpsimd_engine_num_channels:int64!
        neuroncore_clock_freq:float! ticks_per_nanosec:int64! instance_type:string runtime_version:string
        collectives_version:string driver_version:string explorer_version:string compiler_version:string
        neuroncore_idx:int64 neuron_device_idx:int64 ultraserver_id:int64 ultraserver_type:string
        ultraserver_size:int32 ultraserver_instance_index:int32 s3_bucket_path:string profile_name:string
        explorer_build_time:string is_simulation:bool
    """,
    "OpcodeSummary": """
        engine:string! opcode:string! instruction_count:int64! instruction_time_ns:int64! active_time_ns:int64!
        active_time_percent:float!
    """,
    "PsumUsage": """
        timestamp:int64! avg_util_percent:float bank_0_util_percent:float bank_1_util_percent:float
        bank_2_util_percent:float bank_3_util_percent:float bank_4_util_percent:float bank_5_util_percent:float
        bank_6_util_percent:float bank_7_util_percent:float pcore_idx:int64
    """,
    "SbufAllocation": """
        start_ts:int64! end_ts:int64! start_address:int64! end_address:int64! partition:int64!
        op_source_type:string opcode:string operands:string queue_name:string block_id:int64 tensor_name:string
        hlo_name:string pcore_idx:int64
    """,
    "SbufUsage": """
        timestamp:int64! avg_util_percent:float partition_0_util_percent:float partition_32_util_percent:float
        partition_64_util_percent:float partition_96_util_percent:float pcore_idx:int64
    """,
    "SchemaFields": """
        table_name:string! table_description:string! field_name:string! field_description:string!
        field_example:string field_type:string! field_required:bool! field_format:string field_unit:string
        field_minimum:float field_maximum:float field_enum_values:string
    """,
    "Summary": """
        total_time:float neuroncore_cycle_count:int64 model_flops:int64 hardware_flops:int64
        transpose_flops:int64 adjusted_hardware_flops:int64 adjusted_transpose_flops:int64
        mm_arithmetic_intensity:float peak_flops_bandwidth_ratio:float trace_count:int64 event_count:int64
        total_row_count:int64 dma_active_cycles:int64 dma_active_time:float dma_active_time_percent:float
        static_dma_active_time:float dynamic_dma_active_time_percent:float static_dma_active_time_percent:float
        dma_transfer_average_bytes:float dma_packet_time:float dma_transfer_time:float dma_transfer_count:int64
        dma_transfer_total_bytes:int64 dma_queue_count:int64 inputs_and_weights_size_bytes:int64
        inputs_outputs_weights_size_bytes:int64 weight_size_bytes:int64 static_dma_packet_count:int64
        static_dma_size:int64 dynamic_dma_packet_percent:float static_dma_packet_percent:float
        dynamic_dma_size_percent:float static_dma_size_percent:float mbu_estimated_percent:float
        mbu_min_read_util_percent:float hbm_write_bytes:int64 hbm_read_bytes:int64 sbuf_write_bytes:int64
        sbuf_read_bytes:int64 spill_save_bytes:int64 spill_reload_bytes:int64 psum_write_bytes:int64
        psum_read_bytes:int64 psum_read_sbuf_write_count:int64 psum_read_sbuf_write_bytes:int64
        input_queue_bytes:int64 output_queue_bytes:int64 weight_queue_bytes:int64
        software_dynamic_dma_active_time:float software_dynamic_dma_active_time_percent:float
        software_dynamic_dma_packet_count:int64 software_dynamic_dma_size:int64
        software_dynamic_dma_packet_percent:float software_dynamic_dma_size_percent:float
        hardware_dynamic_dma_active_time:float hardware_dynamic_dma_active_time_percent:float
        hardware_dynamic_dma_packet_count:int64 hardware_dynamic_dma_size:int64
        hardware_dynamic_dma_packet_percent:float hardware_dynamic_dma_size_percent:float
        tensor_engine_instruction_time:float tensor_engine_active_time:float
        tensor_engine_active_time_percent:float tensor_engine_instruction_count:int64
        matmul_instruction_count:int64 mfu_estimated_percent:float mfu_max_achievable_estimated_percent:float
        mfu_hlo_estimated_percent:float mfu_hlo_max_achievable_estimated_percent:float
        mfu_inst_estimated_percent:float mfu_inst_max_achievable_estimated_percent:float
        hfu_estimated_percent:float vector_engine_instruction_time:float vector_engine_active_time:float
        vector_engine_active_time_percent:float vector_engine_instruction_count:int64
        scalar_engine_instruction_time:float scalar_engine_active_time:float
        scalar_engine_active_time_percent:float scalar_engine_instruction_count:int64
        activate_instruction_time:float activate_instruction_count:int64 sync_engine_instruction_time:float
        sync_engine_active_time:float sync_engine_active_time_percent:float sync_engine_instruction_count:int64
        gpsimd_engine_instruction_time:float gpsimd_engine_active_time:float
        gpsimd_engine_active_time_percent:float gpsimd_engine_instruction_count:int64 cc_op_time:float
        cc_op_active_time:float cc_op_active_time_percent:float cc_op_count:int64
        cc_cores_instruction_time:float cc_cores_instruction_active_time:float
        cc_cores_instruction_active_time_percent:float cc_cores_instruction_count:int64 total_exec_time:float
        total_active_time:float total_active_time_percent:float
    """,
    "TensorInfo": """
        variable_name:string type:string format:string shape:string size:int64 node:int64 pcore_idx:int64
        load_to_sbuf_avg_size_bytes:int64 load_to_sbuf_total_size_bytes:int64 load_to_sbuf_dma_count:int64
        load_to_sbuf_repeat_factor:float
    """,
}


def _fields(text: str) -> tuple[Field, ...]:
    parts = [word.partition(":") for word in text.split()]
    out = [Field(name, kind.removesuffix("!"), kind.endswith("!")) for name, _, kind in parts]
    return tuple(out)


TABLES: Final = MappingProxyType({name: _fields(text) for name, text in _TEXT.items()})

ENGINES: Final = MappingProxyType({name: KINDS[name] for name in vocabulary.ENGINES})
"""Lanes that are engines, and how profiles spell them."""

_FLOW: Final = {
    "flow": "FLOW_DEPENDENCE", "anti": "ANTI_DEPENDENCE", "output": "OUTPUT_DEPENDENCE", "reuse": "ANTI_DEPENDENCE",
}  # fmt: skip
DEPENDENCIES: Final = tuple(_FLOW.get(kind, "ORDERED") for kind in EDGE_KINDS)
"""The names of the kinds of edges in the table Flow. Taking over another tensor's memory is an anti-dependence."""

INSTRUCTION: Final = "instruction"
TRANSFER: Final = "dma_block"
"""The names in the table Flow of the tables Instruction and DmaPacketAggregated."""


def arrow_schema(table: str) -> Any:
    """The Arrow schema of a table."""
    import pyarrow as pa

    kinds = {
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
    }
    return pa.schema([pa.field(f.name, kinds[f.kind], nullable=not f.required) for f in TABLES[table]])
