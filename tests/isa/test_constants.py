"""Constants of a user's become values of a dtype in one function, which refuses what would end the process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DTYPES, constant_of

NUMBERS = [0, -3, 2.5, True, np.float32(1.5), np.int8(3), np.array(2), [1, 2], np.ones((2, 3)), float("nan")]
HOSTILE = [
    "'x'", "''", "'1.5'", "b'x'", "'\\x00'", "'\\ud800'", "'1' * 5000", "None", "[]", "{}", "object()", "1j",
    "10**400", "['x']", "[[1], [1, 2]]", "[None]", "np.datetime64('NaT')", "np.str_('x')", "np.array('x')", "np.void(b'x')",
    "np.array([object()])", "type('S', (str,), {})('x')", "type('F', (), {'__float__': lambda self: 1 / 0})()", "int", "...",
]  # fmt: skip
PROGRAM = f"""
import numpy as np
from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import DTYPES, constant_of
for dtype in dict.fromkeys(DTYPES.values()):
    for value in ({", ".join(HOSTILE)}):
        try:
            constant_of(value, dtype, "x")
        except NkiError as error:
            assert error.diagnostics[0].code == "NKI012", error
        else:
            assert isinstance(value, list) and not value, (dtype, value)
print("all refused")
"""
CHECKED = '''
import nki_lab
nki_lab.activate(force=True)
print([(item.code, item.message) for item in nki_lab.check(source="""
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
@nki.jit
def kernel(x):
    nl.store(x, nl.load(x) * nl.static_cast("x", nl.bfloat16))
""", function="kernel", args=[nki_lab.spec((128, 4), "float32")])])
'''


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers_become_values_of_the_dtype(value: object) -> None:
    found = constant_of(value, DTYPES["float32"], "x")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.asarray(value, np.float32))


@pytest.mark.parametrize("value", [300, -1, float("nan"), 10**30])
def test_a_number_that_an_integer_dtype_lacks_is_refused_and_not_wrapped(value: float) -> None:
    with pytest.raises(NkiError, match="NKI012"):
        constant_of(value, DTYPES["uint8"], "x")


@pytest.mark.parametrize("program", [PROGRAM, CHECKED], ids=["each_dtype", "check"])
def test_no_value_ends_the_process(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "all refused" in done.stdout or "NKI012" in done.stdout
