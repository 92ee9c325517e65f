"""Modules that an open file imports, as they are on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.client import PULLING, codes, connect

HEAD = "import nki.isa as nisa\nimport nki.language as nl\n\n"
HELPERS = f"{HEAD}def narrowed(t):\n    nisa.tensor_copy(dst=t, src=t[:, 0:32])\n"
KERNEL = f"""import nki
{HEAD}from .helpers import narrowed

@nki.jit
def kernel(x: nki.typing.tensor[128, 64]):
    t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    narrowed(t)
    return x
"""


@pytest.mark.parametrize("asks", [False, True], ids=["told", "asking"])
def test_a_finding_in_a_helper_stands_at_the_call_and_goes_with_its_cause(tmp_path: Path, asks: bool) -> None:
    (tmp_path / "helpers.py").write_text(HELPERS, encoding="utf-8")
    uri = (tmp_path / "kernel.py").as_uri()
    client = connect()
    client.initialize(PULLING) if asks else client.initialize()
    client.open(uri, KERNEL)
    found = [item for item in client.pulled(uri)["items"] if item["severity"] == 1]
    assert codes(found) == ["NKI203"]
    assert found[0]["range"]["start"] == {"line": 10, "character": 4}
    assert "helpers.py, line 5" in found[0]["message"]
    (tmp_path / "helpers.py").write_text(HELPERS.replace("t[:, 0:32]", "t"), encoding="utf-8")
    client.change(uri, (0, 0, 0, 0, "\n"))
    assert not [item for item in client.pulled(uri)["items"] if item["severity"] == 1]
    assert client.leave() == 0


def test_a_finding_stands_in_the_helpers_file_while_that_is_open(tmp_path: Path) -> None:
    helper, kernel = tmp_path / "helpers.py", tmp_path / "kernel.py"
    (tmp_path / "pyproject.toml").write_text("")
    helper.write_text(HELPERS, encoding="utf-8")
    kernel.write_text(KERNEL, encoding="utf-8")
    client = connect()
    client.initialize()
    client.open(kernel.as_uri(), KERNEL)
    assert "helpers.py, line 5" in client.until(kernel.as_uri(), ["NKI203"])[0]["message"]
    client.open(helper.as_uri(), HELPERS)
    (found,) = client.until(helper.as_uri(), ["NKI203"])
    assert found["range"]["start"]["line"] == 4
    assert client.until(kernel.as_uri(), []) == []
    client.shut(helper.as_uri())
    client.until(kernel.as_uri(), ["NKI203"])
    assert client.leave() == 0
