"""Names in texts: scopes as Python has them, renames that change nothing but a name."""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.interpreter import Stopped
from nki_lab.query import Document, EvaluationRequest, Examination
from nki_lab.query.configuration import NONE
from nki_lab.query.navigation import references, renames, structure, symbols, workspace
from nki_lab.query.navigation.meaning import Resolver
from nki_lab.query.navigation.reading import Mention, Reading, Source, reading_of
from nki_lab.query.navigation.renamed import applied
from nki_lab.query.navigation.workspace import Workspace
from nki_lab.source.occurrences import NameScope
from tests.every import for_each
from tests.scale import scaled

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted([*(ROOT / "tests" / "kernels").glob("*.py"), *(ROOT / "examples" / "kernels").glob("*.py")])
NKI = "import nki\n"
WRAPS = "import functools\ndef d(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k)\n    return g\n"


def marked(text: str) -> tuple[str, int, int]:
    """Return a text without its mark ⟦⟧, and the line and column that it stood at."""
    before, _, after = text.partition("⟦⟧")
    return before + after, before.count("\n") + 1, len(before) - before.rfind("\n")


def asked(text: str, **files: str) -> tuple[Resolver, Reading, Mention]:
    """Return what a rename or search at the mark of a text needs."""
    plain, line, column = marked(NKI + text)
    texts = {"/p/main.py": plain} | {f"/p/{name}.py": NKI + source for name, source in files.items()}
    return about(texts, "/p/main.py", line, column)


def about(texts: dict[str, str], file: str, line: int, column: int) -> tuple[Resolver, Reading, Mention]:
    workspace = Memory(texts)
    reading = workspace.reading(file)
    assert reading is not None
    mention = reading.mention(line, column)
    assert mention is not None
    return Resolver(workspace), reading, mention


class Memory(Workspace):
    """Open texts only, all in one folder."""

    def __init__(self, texts: dict[str, Source] | dict[str, str]) -> None:
        super().__init__(NONE.library(), dict(texts), ["/p"])

    def module(self, level: int, name: str, importer: str) -> str | None:
        path = f"/p/{name}.py"
        return path if path in self.texts else super().module(level, name, importer) if not level else None


def renamed(text: str, new: str, **files: str) -> dict[str, str]:
    """Return the texts after a rename at the mark, without the line that all begin with."""
    resolver, reading, mention = asked(text, **files)
    edits = renames.rename(resolver, reading, mention, new)
    found = {}
    for file, changes in edits.items():
        before = resolver.workspace.reading(file)
        assert before is not None
        found[Path(file).stem] = "\n".join(applied(before.facts.lines, changes)).removeprefix(NKI)
    return found


def refused(text: str, new: str, **files: str) -> str:
    resolver, reading, mention = asked(text, **files)
    with pytest.raises(NkiError) as caught:
        renames.rename(resolver, reading, mention, new)
    (item,) = caught.value.diagnostics
    assert item.code == "NKI033"
    assert item.help
    return item.message


# -- scopes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("def f(⟦⟧x):\n    return [x for x in x]\n", "def f(y):\n    return [x for x in y]\n"),
        ("def f(x):\n    return [⟦⟧x for x in x]\n", "def f(x):\n    return [y for y in x]\n"),
        (
            "def f(⟦⟧x):\n    def g():\n        nonlocal x\n        x = 1\n    return g\n",
            "def f(y):\n    def g():\n        nonlocal y\n        y = 1\n    return g\n",
        ),
        ("⟦⟧x = 1\ndef f():\n    global x\n    x = 2\n", "y = 1\ndef f():\n    global y\n    y = 2\n"),
        ("⟦⟧x = 1\nclass C:\n    x = 2\n    def m(self): return x\n", "y = 1\nclass C:\n    x = 2\n    def m(self): return y\n"),
        ("def f():\n    if (⟦⟧x := 1): return [x for _ in [x]]\n", "def f():\n    if (y := 1): return [y for _ in [y]]\n"),
        ("def f():\n    [(⟦⟧x := i) for i in [1]]\n    return x\n", "def f():\n    [(y := i) for i in [1]]\n    return y\n"),
        ("def f(⟦⟧x): pass\nf(x=1)\nf(2)\n", "def f(y): pass\nf(y=1)\nf(2)\n"),
        ("def f(x=0, *, ⟦⟧k=x): return lambda k=k: k\n", "def f(x=0, *, y=x): return lambda k=y: k\n"),
        ("try: pass\nexcept E as ⟦⟧x: print(x)\n", "try: pass\nexcept E as y: print(y)\n"),
        (
            "match v:\n    case [a, *⟦⟧x] if x: x\n    case {1: 2, **z}: z\n",
            "match v:\n    case [a, *y] if y: y\n    case {1: 2, **z}: z\n",
        ),
        ("match v:\n    case {1: 2, **⟦⟧x}: x\n", "match v:\n    case {1: 2, **y}: y\n"),
        ("import numpy as ⟦⟧x\nx.zeros(1)\n", "import numpy as y\ny.zeros(1)\n"),
        ("⟦⟧x = 1\n__all__ = ['x']\nt.x\n", "y = 1\n__all__ = ['y']\nt.x\n"),
        ("⟦⟧x = 1\n__all__ = []\n__all__.extend(['x', 'z'])\n", "y = 1\n__all__ = []\n__all__.extend(['y', 'z'])\n"),
        ("⟦⟧x = 1\n__all__ = ['z'] + ['x']\n__all__.append('x')\n", "y = 1\n__all__ = ['z'] + ['y']\n__all__.append('y')\n"),
        ("[lambda: (⟦⟧x := 1) for y in z]\n", "[lambda: (y := 1) for y in z]\n"),
        (f"{WRAPS}@d\n@functools.cache\ndef f(⟦⟧x): pass\nf(x=1)\n", f"{WRAPS}@d\n@functools.cache\ndef f(y): pass\nf(y=1)\n"),
        ("jit = nki.jit(mode='x')\n@jit\ndef f(⟦⟧x): pass\nf(x=1)\n", "jit = nki.jit(mode='x')\n@jit\ndef f(y): pass\nf(y=1)\n"),
        ("async def ⟦⟧x(): return f'{x!r:>{x}} x'\n", "async def y(): return f'{y!r:>{y}} x'\n"),
        ("@nki.jit\ndef ⟦⟧x(a): pass\nnki.simulate(x)(a=1)\nx[2](a=1)\n", "@nki.jit\ndef y(a): pass\nnki.simulate(y)(a=1)\ny[2](a=1)\n"),
        ("@nki.jit\ndef k(⟦⟧x): pass\nnki.simulate(k)(x=1)\nk[2](x=1)\n", "@nki.jit\ndef k(y): pass\nnki.simulate(k)(y=1)\nk[2](y=1)\n"),
        ("from functools import partial\ndef k(a, ⟦⟧x): pass\nh = partial(k, x=1)\n", "from functools import partial\ndef k(a, y): pass\nh = partial(k, y=1)\n"),
    ],
)  # fmt: skip
def test_a_rename_follows_the_scopes_of_python(text: str, new: str) -> None:
    assert renamed(text, "y") == {"main": new}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(⟦⟧x, y): pass\n", "is bound in the same scope"),
        ("def f(⟦⟧x):\n    def g(y): return x\n", "line 3 would mean another thing"),
        ("y = 1\ndef f(⟦⟧x): return y\n", "would mean another thing"),
        ("⟦⟧x = 1\ndef f():\n    y = 2\n    return x\n", "would mean another thing"),
        ("⟦⟧x = 1\nclass C:\n    x = x\n", "body of the class C"),
        ("class C:\n    def ⟦⟧x(self): pass\n", "member of the class C"),
        ("class C:\n    x = 1\nc = C()\nc.⟦⟧x\n", "member of the class C"),
        ("def f(a): return a.⟦⟧x\n", "not known here"),
        ("def f(⟦⟧x): pass\nf(**{'x': 1})\n", "unpacks a mapping"),
        ("def f(⟦⟧x, **more): pass\nf(y=1)\n", "passes y already"),
        ("class C:\n    def m(self, ⟦⟧x): pass\ndef g(c): c.m(x=1)\n", "function that is not known"),
        ("def f(⟦⟧x): pass\ndef g(h): h(x=1)\n", "function that is not known"),
        ("def f(⟦⟧x): pass\nd = {1: f}\nd[1](x=1)\n", "function that is not known"),
        ("⟦⟧len(1)\n", "len is a builtin of Python"),
        ("import ⟦⟧os\n", "os is a name of os"),
        ("from os import ⟦⟧path\n", "os.path is a name of os"),
        ("nki.⟦⟧jit\n", "nki.jit is a name of NKI"),
        ("any((⟦⟧x := y) > 2 for y in z)\n", "would mean another thing"),
        ("any((y := ⟦⟧x) > 2 for x in z)\n", "would mean another thing"),
        ("{v: y for v, y in z if (⟦⟧x := v) > 0}\n", "would mean another thing"),
        ("{v: ⟦⟧x for v, x in z if (y := v) > 0}\n", "would mean another thing"),
        ("[[(⟦⟧x := 1) for v in w] for y in z]\n", "would mean another thing"),
        ("def d(f): return lambda **k: f(k['x'])\n@d\ndef f(⟦⟧x=1): pass\nf(x=2)\n", "passes x through @d"),
        ("def d(f): return lambda x: f(x)\n@d\ndef f(⟦⟧x=1): pass\nf(x=2)\n", "passes x through @d"),
        ("def e(): return lambda f: lambda **k: f(k['x'])\nd = e()\n@d\ndef f(⟦⟧x=1): pass\nf(x=2)\n", "through @d"),
        ("def g(d):\n    @d(1)\n    def f(⟦⟧x=1): pass\n    f(x=2)\n", "passes x through @d(1)"),
        ("missing(⟦⟧missing)\n", "no file of the workspace binds"),
        ("def f():\n    __⟦⟧x = 1\n    class C:\n        def m(self): return __x\n", "mangles"),
    ],
)
def test_a_rename_that_is_not_safe_is_refused(text: str, reason: str) -> None:
    assert reason in refused(text, "y")


@pytest.mark.parametrize("new", ["", "1a", "a b", "for", "None", "len", "ValueError", "a-b", "x\n"])
def test_a_name_that_is_none_is_refused(new: str) -> None:
    if new == "x\n":  # blanks around it are no part of it
        assert renamed("⟦⟧a = 1\n", new) == {"main": "x = 1\n"}
    else:
        assert refused("⟦⟧a = 1\n", new)


def test_a_rename_reaches_the_files_that_import() -> None:
    other = {
        "plain": "from main import x\nx()\n__all__ = ['x']\n",
        "alias": "from main import x as z\nz()\n",
        "whole": "import main as m\nm.x()\nobject.x\n",
        "star": "from main import *\nx()\n",
        "onward": "from plain import x\nx\n",
        "own": "x = 3\n",
    }
    assert renamed("def ⟦⟧x(): pass\n", "y", **other) == {
        "main": "def y(): pass\n",
        "plain": "from main import y\ny()\n__all__ = ['y']\n",
        "alias": "from main import y as z\nz()\n",
        "whole": "import main as m\nm.y()\nobject.x\n",
        "star": "from main import *\ny()\n",
        "onward": "from plain import y\ny\n",
    }


def test_a_rename_from_an_import_reaches_the_definition() -> None:
    found = renamed("from helpers import x\nx⟦⟧()\n", "y", helpers="def x(): pass\n")
    assert found == {"main": "from helpers import y\ny()\n", "helpers": "def y(): pass\n"}


def test_an_import_of_another_name_keeps_it() -> None:
    text = "try:\n    from one import ⟦⟧x\nexcept ImportError:\n    from two import x\nx()\n"
    found = renamed(text, "y", one="def x(): pass\n", two="def x(): pass\n")
    main = "try:\n    from one import y\nexcept ImportError:\n    from two import x as y\ny()\n"
    assert found == {"main": main, "one": "def y(): pass\n"}


def test_a_collision_in_another_file_is_found() -> None:
    assert "is bound in the same scope" in refused("def ⟦⟧x(): pass\n", "y", other="from main import x\ny = 1\n")


@pytest.mark.parametrize(
    "use",
    ["import y\nfrom main import *\ny.z\n", "from main import *\nfrom other import *\ny\n", "from middle import *\ndef y(): pass\n"],
)  # fmt: skip
def test_a_name_that_a_star_import_would_hide_is_found(use: str) -> None:
    files = {"use": use, "middle": "from main import *\n", "other": "y = 1\n"}
    assert "`import *` would bring y to a module that uses it already: /p/use.py" in refused("⟦⟧x = 1\n", "y", **files)
    assert renamed("__all__ = []\ndef f(⟦⟧x): pass\n", "y", **files)  # no name of the module


def test_a_name_that_a_star_import_would_leave_out_is_found() -> None:
    assert "`import *` leaves out _y" in refused("⟦⟧x = 1\n", "_y", use="from main import *\nx\n")
    found = renamed("⟦⟧x = 1\n__all__ = ['x']\n", "_y", use="from main import *\nx\n")
    assert found == {"main": "_y = 1\n__all__ = ['_y']\n", "use": "from main import *\n_y\n"}


def test_keywords_of_a_parameter_are_renamed_in_other_files() -> None:
    found = renamed("def f(⟦⟧x): pass\n", "y", other="import main\nmain.f(x=1)\nprint(x=2)\n")
    assert found == {"main": "def f(y): pass\n", "other": "import main\nmain.f(y=1)\nprint(x=2)\n"}


# -- properties --------------------------------------------------------------------------------------------------------


def names_in(reading: Reading) -> Iterator[tuple[NameScope, str]]:
    """Yield the names that functions bind, each once."""
    for scope in reading.scope.subtree():
        if scope.kind == "function":
            yield from ((scope, name) for name in sorted(scope.bound) if scope.binder(name) is scope)


def examined(text: str, file: str) -> Examination:
    document = Document(file)
    document.update(text)
    return document.examine(EvaluationRequest(arch=arch_of("trn2")))


def summary(text: str, file: str, old: str, new: str) -> list[str]:
    """Return findings, and what calls came to, with the old name in place of the new one."""
    known = examined(text, file)
    findings = [f"{item.code} {item.line} {item.message}" for item in known.findings]
    issued = [f"{line} {value}" for (line, _), value in sorted(known.issued.items())]
    return [re.sub(rf"\b{new}\b", old, item) for item in (*findings, *issued)]


@settings(max_examples=scaled(60), deadline=None)
@given(st.data())
def test_a_renamed_kernel_is_the_same_program_and_can_be_renamed_back(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(KERNELS))
    text = path.read_text(encoding="utf-8")
    file = f"/p/{path.name}"
    reading = reading_of(text, file)
    assert reading is not None
    scope, name = data.draw(st.sampled_from(list(names_in(reading)) or [(reading.scope, "")]))
    if not name:
        return
    span = reading.first(scope.bindings(name)[0])
    assert span is not None
    try:
        edits = renames.rename(*about({file: text}, file, span.line, span.column), "renamed_here")
    except NkiError as error:
        assert error.diagnostics[0].code == "NKI033"
        return
    after = "\n".join(applied(text.split("\n"), edits[file]))
    assert ast.dump(ast.parse(after)).replace("renamed_here", name) == ast.dump(ast.parse(text))
    assert summary(after, file, name, "renamed_here") == summary(text, file, name, "renamed_here")
    back = renames.rename(*about({file: after}, file, span.line, span.column), name)
    assert "\n".join(applied(after.split("\n"), back[file])) == text


@for_each(KERNELS)
def test_scopes_are_those_of_pythons_compiler(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    reading = reading_of(text, str(path))
    assert reading is not None
    ours = {}
    for scope in reading.scope.subtree():
        if scope.kind in ("function", "class") and not isinstance(scope.node, ast.Lambda):
            local = frozenset(name for name in scope.bound if scope.binder(name) is scope)
            ours[scope.node.lineno, scope.node.name] = local, _of_comprehensions(scope.node)  # type: ignore[attr-defined]
    pending = [symtable.symtable(text, str(path), "exec")]
    while pending:
        table = pending.pop()
        pending += table.get_children()
        key = next((key for key in ours if key[1] == table.get_name() and _starts(text, key[0], table)), None)
        if key is not None:
            bound = (item for item in table.get_symbols() if item.is_local() and not item.get_name().startswith("."))
            local, inner = ours[key]  # since Python 3.15 the names of comprehensions are told with those around them
            assert local | inner == frozenset(item.get_name() for item in bound) | inner


def _of_comprehensions(node: ast.AST) -> frozenset[str]:
    targets = (part.target for item in ast.walk(node) for part in getattr(item, "generators", ()))
    return frozenset(item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name))


def _starts(text: str, line: int, table: symtable.SymbolTable) -> bool:
    """Whether a scope of Python's, which counts from its first decorator, is the one defined on a line."""
    lines = text.split("\n")
    start = table.get_lineno()
    return start == line or (start < line and lines[start - 1].lstrip().startswith("@") and line - start < 6)


@settings(max_examples=scaled(40), deadline=None)
@given(st.data())
def test_an_incremental_reading_is_that_of_the_whole_text(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(KERNELS))
    lines = path.read_text(encoding="utf-8").split("\n")
    ours: Reading | None = None
    for _ in range(4):
        at = data.draw(st.integers(0, len(lines) - 1))
        new = data.draw(
            st.sampled_from(["", "    x = (", "    tile = nl.load(x)", "def g(tile):", "    return tile", "'''"])
        )
        lines[at : at + data.draw(st.integers(0, 1))] = [new]
        text = "\n".join(lines)
        ours, whole = reading_of(text, "/p/a.py", ours), reading_of(text, "/p/a.py")
        assert (ours is None) == (whole is None)
        if ours is not None and whole is not None and ours.facts.parsed.unread == whole.facts.parsed.unread:
            assert places(ours) == places(whole)
            assert structure.folds(ours) == structure.folds(whole)


def places(reading: Reading) -> set[tuple[str, int, int, int]]:
    """Return all mentions, with the line of the scope that binds them."""
    found = set()
    for scope in reading.scope.subtree():
        for name, items in scope.occurrences.items():
            binder = scope.binder(name)
            line = -1 if binder is None else getattr(binder.node, "lineno", 0)
            found |= {(name, span.line, span.column, line) for item in items for span in reading.spans(item)}
    return found


@for_each(KERNELS)
def test_every_mention_has_a_place(path: Path) -> None:
    reading = reading_of(path.read_text(encoding="utf-8"), str(path))
    assert reading is not None
    for scope in reading.scope.subtree():
        for items in scope.occurrences.values():
            assert all(reading.first(item) is not None for item in items)


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_self_and_annotated_parameters_lead_to_members() -> None:
    text = "class C:\n    size: int = 1\n    def m(self):\n        self.n = 2\n        return self.⟦⟧size\n"
    resolver, reading, mention = asked(text)
    assert [span.line for span in references.definitions(resolver, reading, mention)] == [3]
    text = "class C:\n    def __init__(self):\n        self.n = 2\ndef f(c: C | None):\n    return c.⟦⟧n\n"
    resolver, reading, mention = asked(text)
    assert [span.line for span in references.definitions(resolver, reading, mention)] == [4]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("import nki.language as nl\nnl.⟦⟧load(x)\n", "nki-stubs/language/__init__.pyi def load("),
        ("import nki.isa as nisa\nnisa.nc_matmul(⟦⟧dst=1)\n", "nki-stubs/isa/__init__.pyi def nc_matmul("),
        ("from nki.isa import ⟦⟧nc_matmul\n", "nki-stubs/isa/__init__.pyi def nc_matmul("),
        ("import nki.language as nl\nnl.⟦⟧float32\n", "nki-stubs/language/__init__.pyi float32:"),
        ("import nki.language as nl\nnl.⟦⟧NkiTensor\n", "nki-stubs/_types.pyi class NkiTensor"),
        ("import neuronxcc.nki.language as nl\nnl.⟦⟧load(x)\n", "neuronxcc-stubs/nki/language/__init__.pyi def load("),
        ("import nki.⟦⟧language as nl\n", "nki-stubs/language/__init__.pyi # GENERATED"),
        ("import nki.language as nl\nnl.⟦⟧nothing\n", ""),
        ("import numpy as np\nnp.⟦⟧zeros(1)\n", ""),
        ("import ⟦⟧numpy\n", ""),
    ],
)
def test_names_of_nki_lead_to_their_declarations(text: str, place: str) -> None:
    resolver, reading, mention = asked(text)
    found = references.definitions(resolver, reading, mention)
    if not place:
        assert found == []
        return
    file, _, start = place.partition(" ")
    assert found[0].file.endswith(f"/{file}")
    assert Path(found[0].file).read_text(encoding="utf-8").split("\n")[found[0].line - 1].lstrip().startswith(start)


def test_names_of_nki_are_highlighted() -> None:
    resolver, reading, mention = asked("import nki.language as nl\nnl.⟦⟧load(nl.load, x.load)\n")
    assert [use.span.column for use in references.highlights(resolver, reading, mention)] == [4, 12]


def test_folds_know_blocks_comments_and_texts() -> None:
    text = 'import nki\n# a\n# b\ndef f():\n    """A\n    # no comment\n    """\n    if 1:\n        a\n    elif 2:\n        b\n    else:\n        c\n        d\n'
    reading = reading_of(text, "/p/a.py")
    assert reading is not None
    found = [(item.start, item.end, item.kind) for item in structure.folds(reading)]
    assert found == [(2, 3, "comment"), (4, 14, ""), (5, 7, "comment"), (8, 9, ""), (10, 11, ""), (12, 14, "")]


@pytest.mark.parametrize("better", ["load", "loaded", "reload"])
def test_symbols_fit_by_their_letters(better: str) -> None:
    assert symbols.fitness(better, "load") is not None
    assert symbols.fitness(better, "lod") is not None
    assert symbols.fitness(better, "dol") is None


def test_a_search_that_is_stopped_reads_no_further_file(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"k{number}.py").write_text(
            f"import nki\n\n\ndef stopped_{number}():\n    pass\n", encoding="utf-8"
        )
    asked_for: list[int] = []

    def stop() -> bool:
        asked_for.append(1)
        return len(asked_for) > 3

    with pytest.raises(Stopped):
        symbols.workspace_symbols(Workspace(NONE.library(), {}, [str(tmp_path)], stop), "stopped")
    assert len(asked_for) == 4
    assert len(symbols.workspace_symbols(Workspace(NONE.library(), {}, [str(tmp_path)]), "stopped")) == 9


def test_of_a_text_that_is_edited_the_newest_names_are_kept_only(tmp_path: Path) -> None:
    path = str(tmp_path / "edited.py")
    for number in range(5):
        Workspace(NONE.library(), {path: f"import nki\n\n\ndef f_{number}():\n    pass\n"}).reading(path)
    assert len([key for key in workspace._readings if key[0] == path]) == 1
