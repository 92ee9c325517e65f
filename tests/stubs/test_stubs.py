"""The stubs say what the modules have: names, parameters, members, documentation, deprecations."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from nki_lab import cli
from nki_lab.dialects import beta1, current
from nki_lab.isa.spec import REQUIRED, TABLE
from nki_lab.stubs import MARK, stubs

MODULES = current.modules() | beta1.modules()


@functools.cache
def made() -> dict[str, str]:
    """The stubs, made once."""
    return stubs()


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax trees of the stubs by the module's name."""
    found = {}
    for path, text in made().items():
        if path.endswith(".pyi"):
            name = path.removesuffix(".pyi").removesuffix("/__init__").replace("-stubs", "", 1).replace("/", ".")
            found[name] = ast.parse(text)
    return found


def defined(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a stub exports, with their statements; imports count where they rename nothing."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        elif isinstance(node, ast.Assign):
            yield from ((item.id, node) for item in node.targets if isinstance(item, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            yield from ((item.asname, node) for item in node.names if item.asname == item.name)


def function(tree: ast.Module, name: str) -> ast.FunctionDef:
    found = dict(defined(tree))[name]
    assert isinstance(found, ast.FunctionDef)
    return found


def arguments(node: ast.FunctionDef) -> list[str]:
    own = node.args
    return [item.arg for item in (*own.posonlyargs, *own.args, *own.kwonlyargs)]


def marks(node: ast.FunctionDef) -> str:
    return " ".join(ast.unparse(item) for item in node.decorator_list)


def test_stubs_have_the_names_of_their_modules(trees: dict[str, ast.Module]) -> None:
    def same(name: str) -> None:
        module = MODULES[name]
        own = {key for key in vars(module) if not key.startswith("__")} | ({"__version__"} & vars(module).keys())
        names = {key for key, _ in defined(trees[name])} - {"__getattr__"}
        # What Beta 1 has and nki_lab refuses is a name, too.
        assert own <= names, sorted(own - names)
        assert not [key for key in names - own if "not modelled" not in ast.unparse(trees[name])]

    for name in MODULES:
        same(name)
    assert trees.keys() == MODULES.keys() | {
        f"{root}._{part}" for root in ("nki", "neuronxcc.nki") for part in ("types", "annotations")
    }


def test_an_instruction_has_its_operands(trees: dict[str, ast.Module]) -> None:
    def same(name: str) -> None:
        node = function(trees["nki.isa"], name)
        own = TABLE[name]
        assert set(arguments(node)) == {*own.arguments, *own.tolerated, "name"}
        optional = len(node.args.defaults) + sum(item is not None for item in node.args.kw_defaults)
        needed = [key for key, operand in own.arguments.items() if operand.default is REQUIRED]
        assert len(arguments(node)) - optional == len(needed)
        text = ast.get_docstring(node) or ""
        assert all(f"{key}" in text for key in own.arguments)
        assert own.summary in text
        assert all(item.annotation is not None for item in (*node.args.args, *node.args.kwonlyargs))

    for name in TABLE:
        same(name)


def test_a_function_has_the_parameters_of_its_signature(trees: dict[str, ast.Module]) -> None:
    def same(module: str, name: str, value: Any) -> None:
        node = dict(defined(trees[module]))[name]
        if not isinstance(node, ast.FunctionDef) or hasattr(value, "nki_kernel") or hasattr(value, "nki_instruction"):
            return
        wanted = [
            key
            for key, item in inspect.signature(value).parameters.items()
            if item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
        ]
        assert arguments(node) == wanted
        assert ast.get_docstring(node) or not value.__doc__

    for module, own in MODULES.items():
        for name, value in vars(own).items():
            if inspect.isfunction(value) and not name.startswith("__"):
                same(module, name, value)


def test_an_enumeration_has_its_members(trees: dict[str, ast.Module]) -> None:
    for root in ("nki", "neuronxcc.nki"):
        classes = {node.name: node for node in trees[f"{root}._types"].body if isinstance(node, ast.ClassDef)}
        for name, value in vars(MODULES[f"{root}.isa"]).items():
            if isinstance(value, type) and issubclass(value, enum.Enum):
                members = [node.targets[0] for node in classes[name].body if isinstance(node, ast.Assign)]
                assert [item.id for item in members if isinstance(item, ast.Name)] == [*value.__members__]


def test_deprecated_names_say_what_to_write(trees: dict[str, ast.Module]) -> None:
    language = trees["nki.language"]
    assert "write range" in marks(function(language, "affine_range"))
    assert "nl.fori_loop" in marks(function(language, "dynamic_range"))
    assert not marks(function(trees["neuronxcc.nki.language"], "affine_range"))
    jit = [node for node in trees["nki"].body if isinstance(node, ast.FunctionDef) and node.name == "jit"]
    assert [bool("deprecated" in marks(node)) for node in jit] == [False, True, True, False]


def test_removed_names_are_missing(trees: dict[str, ast.Module]) -> None:
    assert "arange" not in dict(defined(trees["nki.language"]))
    assert "arange" in dict(defined(trees["neuronxcc.nki.language"]))
    assert "baremetal" not in dict(defined(trees["nki"]))


def test_modules_of_other_packages_are_open(trees: dict[str, ast.Module]) -> None:
    opened = {name for name, tree in trees.items() if "__getattr__" in dict(defined(tree))}
    assert {name for name in opened if not name.endswith("._annotations")} == {
        name for name in MODULES if name.startswith("neuronxcc.nki.kernels")
    }


def test_both_packages_are_partial() -> None:
    files = made()
    assert {path: text for path, text in files.items() if not path.endswith(".pyi")} == {
        "neuronxcc-stubs/py.typed": "partial\n",
        "nki-stubs/py.typed": "partial\n",
    }
    assert all(text.startswith(f"{MARK}\n") for path, text in files.items() if path.endswith(".pyi"))


def test_stubs_do_not_depend_on_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made()
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert stubs() == before


def test_modules_of_stubs_are_modules(trees: dict[str, ast.Module]) -> None:
    assert all(isinstance(module, ModuleType) for module in MODULES.values())
    assert not [
        name
        for name, tree in trees.items()
        if "nki_lab" in "".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom))
    ]


# -- nki-lab stubs -------------------------------------------------------------------------------------------------------


def test_the_command_writes_packages(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "typings"
    assert cli.main(["stubs", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(folder / "nki"), str(folder / "neuronxcc")]
    written = {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in folder.rglob("*.pyi")}
    assert written == {path.replace("-stubs", "", 1): text for path, text in made().items() if path.endswith(".pyi")}


def test_the_command_replaces_what_it_has_written(tmp_path: Any) -> None:
    assert cli.main(["stubs", str(tmp_path)]) == 0
    old = tmp_path / "nki" / "gone" / "__init__.pyi"
    old.parent.mkdir()
    old.write_text(f"{MARK}\nx: int\n", encoding="utf-8")
    assert cli.main(["stubs", str(tmp_path)]) == 0
    assert not old.exists()


@pytest.mark.parametrize("name", ["nki/__init__.py", "nki/language/__init__.pyi", "neuronxcc/nki/note.txt"])
def test_the_command_keeps_foreign_files(tmp_path: Any, capsys: pytest.CaptureFixture[str], name: str) -> None:
    mine = tmp_path / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n", encoding="utf-8")
    assert cli.main(["stubs", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "NKI021" in said
    assert str(mine) in said
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [mine]


def test_the_command_follows_no_link(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "typings").mkdir()
    (tmp_path / "typings" / "nki").symlink_to(tmp_path / "elsewhere")
    assert cli.main(["stubs", str(tmp_path / "typings")]) == 1
    assert "NKI021" in capsys.readouterr().err
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_a_folder_that_is_a_file_is_refused(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "typings").write_text("mine", encoding="utf-8")
    assert cli.main(["stubs", str(tmp_path / "typings")]) == 1
    assert "NKI021" in capsys.readouterr().err
