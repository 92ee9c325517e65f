"""Every name of NKI has a text, and `explain`, hovers and the command line show the same one.

The page of an instruction goes on behind what hovers show of it.
"""

from __future__ import annotations

from nki_lab import codes, query
from nki_lab.cli import report
from nki_lab.cli.coverage import functions
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.query.entries import TEXTS
from nki_lab.query.names import documentation, instruction_of
from tests.every import for_each

FUNCTIONS = [f"{module}.{name}" for module, names in functions().items() for name in names]
REMOVED = [f"{module}.{name}" for module, gone in nki_api_names.REMOVED.items() for name in gone]
MEMBERS = [f"nki.language.NkiTensor.{name}" for name in dir(NkiTensor) if not name.startswith("_")]


@for_each([*FUNCTIONS, *MEMBERS])
def test_every_function_and_member_has_one_text(name: str) -> None:
    text = query.explain(name)
    assert text
    known = documentation(name)
    assert known
    assert text.startswith(known)
    assert (text == known) == (instruction_of(name) is None)
    assert report.explain(name) == text.rstrip()
    assert name.rpartition(".")[2] in text.partition("\n\n")[0]


@for_each(REMOVED)
def test_every_removed_name_says_what_replaced_it(name: str) -> None:
    text = query.explain(name)
    assert text
    assert "was removed (NKI603)" in text


@for_each([name for name in TEXTS if name not in REMOVED])
def test_entry_points_and_memories_have_texts(name: str) -> None:
    text = query.explain(f"neuronxcc.{name}" if name.startswith("nki.compiler.") else name)
    assert text == TEXTS[name]


def test_what_the_modules_have_has_a_text() -> None:
    names = [
        *(f"nl.{name}" for name in namespaces.language_names()),
        *(f"nisa.{name}" for name in namespaces.instruction_names()),
    ]
    assert not [name for name in names if not query.explain(name)]


def test_a_hover_shows_the_same() -> None:
    source = "import nki.isa as nisa\nimport nki.language as nl\nnisa.nc_matmul\nnl.load\nnl.shared_hbm\n"
    for line, name in ((3, "nki.isa.nc_matmul"), (4, "nki.language.load"), (5, "nki.language.shared_hbm")):
        found = query.hover(source, line, len(source.split("\n")[line - 1]))
        assert found is not None
        text = documentation(name)
        assert text is not None
        assert text in str(query.explain(name))
        assert text.split("\n\n")[-1] in found


@for_each(codes.all_codes())
def test_a_code_has_one_text_by_all_of_its_names(code: codes.Code) -> None:
    texts = {query.explain(name) for name in (code.code, code.slug, *code.aliases)}
    (text,) = texts
    assert text is not None
    assert code.body in text
