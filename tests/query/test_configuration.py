"""`[tool.nki-lab]` in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.kernel_runtime.issue.arguments import spec
from nki_lab.query.configuration import NONE, Configuration, configuration_of, read

NINES = "9" * 5000


def settings(folder: Path, text: str) -> Configuration:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    found = read(folder / "pyproject.toml")
    assert found is not None
    return found


def faults(folder: Path, text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(NkiError) as caught:
        settings(folder, text)
    assert {item.code for item in caught.value.diagnostics} == {"NKI024"}
    return caught.value.diagnostics


def test_every_key_is_read(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        """
[tool.nki-lab]
target = "gen3"
select = ["NKI2", "capacity"]
ignore = ["NKI213"]
exclude = ["old", "a/b.py"]
[tool.nki-lab.shapes]
add = { a = "bfloat16[128, 512]", n = 4, dtype = "float32", name = "x", pads = [1, 2], fast = true }
"kernels/mm.py::mm" = [{ a = "float32[4,3]" }, { a = "float32[8,3]" }]
""",
    )
    assert (found.target, found.select, found.ignore) == ("trn2", ("NKI2", "NKI315"), ("NKI213",))
    assert found.folder == tmp_path
    (signature,) = found.signatures(tmp_path / "any.py")["add"]
    assert signature.kwargs == {
        "a": spec((128, 512), "bfloat16"), "n": 4, "dtype": np.dtype("float32"), "name": "x", "pads": (1, 2),
        "fast": True,
    }  # fmt: skip
    assert "mm" not in found.signatures(tmp_path / "any.py")
    assert len(found.signatures(tmp_path / "kernels" / "mm.py")["mm"]) == 2


@pytest.mark.parametrize(
    ("pattern", "path", "is_out"),
    [
        ("old", "old", True), ("old", "a/old", True), ("old", "old/k.py", True), ("old", "older/k.py", False),
        ("old/", "old/k.py", True), ("a/b.py", "a/b.py", True), ("a/b.py", "c/a/b.py", False), ("*_gen.py", "x/y_gen.py", True),
        ("a/*.py", "a/c.py", True), ("a/*", "b/a/c.py", False), ("../x.py", "x.py", False),
    ],
)  # fmt: skip
def test_what_is_excluded(tmp_path: Path, pattern: str, path: str, is_out: bool) -> None:
    found = settings(tmp_path, f'[tool.nki-lab]\nexclude = ["{pattern}"]\n')
    assert found.excludes(tmp_path / path) is is_out
    assert not found.excludes(tmp_path.parent / path)


def test_the_nearest_file_with_settings_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert settings(tmp_path, '[tool.nki-lab]\ntarget = "trn1"\n').target == "trn1"
    (tmp_path / "a" / "pyproject.toml").write_text('[tool.other]\ntarget = "trn9"\n', encoding="utf-8")
    assert configuration_of(inner).target == "trn1"
    (inner / "pyproject.toml").write_text("[tool.nki-lab]\n", encoding="utf-8")
    assert configuration_of(inner).target is None


def test_modules_are_looked_for_where_the_project_says(tmp_path: Path) -> None:
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "edited.pth").write_text(f"{tmp_path / 'elsewhere'}\nimport something\n", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.nki-lab]\npaths = ["lib"]\npython = "env"\n', encoding="utf-8")
    library = configuration_of(tmp_path).library()
    assert library.paths == (str(tmp_path / "lib"),)
    assert library.site == (str(packages), str(tmp_path / "elsewhere"))


def test_without_settings_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 3\n", encoding="utf-8")
    assert read(tmp_path / "pyproject.toml") is None
    assert not NONE.excludes(tmp_path)
    assert NONE.signatures(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[tool.nki-lab]\ntraget = 'trn2'\n", 2, "tool.nki-lab has no traget"),
        ("\n[tool.nki-lab]\nselect = ['NKI2']\ntarget = 'trn9'\n", 4, "trn9"),
        ("[tool.nki-lab]\ntarget = 3\n", 2, "target is no text"),
        ("[tool.nki-lab]\nselect = 'NKI2'\n", 2, "select is no list of texts"),
        ("[tool.nki-lab]\nignore = ['E501']\n", 2, "'E501', which no code begins with"),
        ("[tool.nki-lab]\nexclude = [1]\n", 2, "exclude is no list of texts"),
        ("[tool.nki-lab]\nshapes = 3\n", 2, "shapes is no table"),
        ("[tool.nki-lab.shapes]\nk = 3\n", 2, "the shapes of k are no table"),
        ("[tool.nki-lab.shapes]\nk = { a = 'bfloat[1]' }\n", 2, "bfloat"),
        ("[tool.nki-lab.shapes]\nk = { a = 'float32[0]' }\n", 2, "shape is"),
        ("[tool.nki-lab.shapes]\nk = { a = 'float32[128,64' }\n", 2, "a is 'float32[128,64': the value is neither"),
        ("[tool.nki-lab.shapes]\n\nk = { a = 'float32[-1,64]' }\n", 3, "'float32[-1,64]': the value is neither"),
        ("[tool.nki-lab.shapes]\nk = { a = ['x', 'sbuf float32[]'] }\n", 2, "'sbuf float32[]': the value is neither"),
        (f"[tool.nki-lab.shapes]\nk = {{ a = 'float32[{NINES}]' }}\n", 2, "a size has 5000 digits, at most 4300"),
        (f"[tool.nki-lab]\n\ntarget = {NINES}\n", 3, "an integer has 5000 digits, at most 4300"),
        ('[tool.nki-lab]\n\n"tar\\u001bget" = 3\n', 3, "tool.nki-lab has no tar\x1bget"),
        ("[tool.nki-lab.shapes.k]\na = 1979-05-27\n", 1, "neither a tensor nor a constant"),
        ("[tool]\nnki-lab = 3\n", 2, "tool.nki-lab is no table"),
        ("x = 1\ny =\n", 2, "it is no TOML"),
        ("x = '\0'\n", 1, "it is no TOML"),
        ("x = " + "[" * 100_000, 1, "it is"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    (found,) = faults(tmp_path, text)
    assert says in found.message
    assert (found.file, found.line) == (str(tmp_path / "pyproject.toml"), line)


def test_all_mistakes_are_told(tmp_path: Path) -> None:
    assert len(faults(tmp_path, "[tool.nki-lab]\ntarget = 'x'\nselect = ['x']\nfoo = 1\n")) == 3


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NkiError, match="it cannot be read"):
        configuration_of(tmp_path / "k.py")
