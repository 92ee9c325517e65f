"""The columns of a sweep's table, declared once: for the table, its file and its text."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

Row = dict[str, Any]
"""The values of a point by column; missing ones are None."""

Status = Literal["ok", "wrong", "rejected", "failed", "lost"]
STATUSES: Final[dict[str, str]] = {
    "ok": "done",
    "wrong": "the outputs differ from the reference",
    "rejected": "the device compiler would refuse the kernel",
    "failed": "the kernel, its arguments or its reference raised an error",
    "lost": "the worker ended twice while it had the point",
}


class Column(NamedTuple):
    """A column beside those of the parameters: its type in Arrow's words, and its meaning."""

    kind: str
    text: str


COLUMNS: Final[dict[str, Column]] = {
    "key": Column("string", "a digest of all that the row depends on"),
    "status": Column("string", "ok, wrong, rejected, failed or lost"),
    "target": Column("string", "trn1, trn2 or trn3"),
    "shapes": Column("string", "the arguments"),
    "latency_ns": Column("float64", "the time of the kernel on the device"),
    "latency_low_ns": Column("float64", "the lower bound of its interval"),
    "latency_high_ns": Column("float64", "the upper bound of its interval"),
    "sbuf_peak_bytes": Column(
        "int64", "the bytes that live tensors need in the fullest partition of SBUF, in program order"
    ),
    "psum_peak_bytes": Column("int64", "the same of PSUM"),
    "instructions": Column("int64", "instructions of all cores"),
    "flops": Column("int64", "operations of matrix products"),
    "dma_bytes": Column("int64", "bytes that DMA moves"),
    "hbm_read_bytes": Column("int64", "bytes read from HBM"),
    "hbm_write_bytes": Column("int64", "bytes written to HBM"),
    "mfu": Column("float64", "the share of the Tensor Engine's peak that is used"),
    "mbu": Column("float64", "the share of the HBM bandwidth that is used"),
    "max_error": Column("float64", "the largest error of an output, by what is allowed there"),
    "allowed_error": Column("float64", "the error that is allowed there"),
    "code": Column("string", "the code of the finding that ended the point"),
    "message": Column("string", "its message"),
    "file": Column("string", "its file"),
    "line": Column("int64", "its line"),
    "seconds": Column("float64", "seconds of this computer"),
}
