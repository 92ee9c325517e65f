import logging
import os
import warnings

import nki.isa as nisa
import nki.language as nl

logger = logging.getLogger(__name__)
DEBUG = os.environ.get("KERNEL_DEBUG", "0") == "1"
SIZES = {nl.float32: 4, nl.bfloat16: 2, nl.float16: 2, nl.int32: 4, nl.uint8: 1}


def kernel_assert(condition, message):
    assert condition, f"[kernel] {message}"


def size_of(dtype):
    kernel_assert(dtype in SIZES, f"{dtype} has no known size")
    return SIZES[dtype]


def log(message, *values):
    logger.debug(message, *values)
    if DEBUG:
        warnings.warn(message)


def newer_chip():
    return nisa.get_nc_version() >= nisa.nc_version.gen3
