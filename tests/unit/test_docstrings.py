"""What is public in the program, the trainer, the volume and the stand-ins says what it does, takes and raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "infra": ROOT / "infra",
    "storage": ROOT / "storage",
    "trainer": ROOT / "trainer",
    "pulumi_standins": ROOT / "standins" / "pulumi_standins",
}
Definition = ast.FunctionDef | ast.ClassDef
# Functions of infra.process and infra.docker that run a program.
COMMANDS = {"output", "pipe", "docker.execute"}
# Parameters that are numbers with a unit, and the words by which a docstring names it.
UNITS = re.compile(r"seconds|timeout|bytes|limit|interval|deadline")
NAMED = re.compile(r"second|byte|MiB|\bCPUs?\b|\bs\b")


def _trees(package: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGES[package].rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text())


def _public(package: str) -> Iterator[tuple[str, Definition]]:
    """`path: name` and syntax tree of each public class, function and method that overrides none."""
    trees = list(_trees(package))
    classes = {
        node.name: node for _, tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    for path, tree in trees:
        for node in tree.body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                yield f"{path}: {node.name}", node
                if isinstance(node, ast.ClassDef):
                    for method in _methods(node):
                        if not method.name.startswith("_") and not _overrides(method.name, node, classes):
                            yield f"{path}: {node.name}.{method.name}", method


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef)]


def _overrides(name: str, node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a base class says what the method `name` does. Of classes of other packages we take it to be so."""
    for base in node.bases:
        known = classes.get(ast.unparse(base).rpartition(".")[2].partition("[")[0])
        if known is None or name in {method.name for method in _methods(known)}:
            return True
        if _overrides(name, known, classes):
            return True
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_says_what_it_is(package: str) -> None:
    found = list(_public(package))
    assert len(found) > 5
    assert [name for name, node in found if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_number_has_its_unit(package: str) -> None:
    assert [
        f"{name}({parameter.arg})"
        for name, node in _public(package)
        if isinstance(node, ast.FunctionDef)
        for parameter in (*node.args.args, *node.args.kwonlyargs)
        if UNITS.search(parameter.arg) and not NAMED.search(ast.get_docstring(node) or "")
    ] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_an_error_that_is_raised_is_named(package: str) -> None:
    """Those that the function raises itself; what it calls says its own."""
    assert [
        f"{name} raises {error}"
        for name, node in _public(package)
        if isinstance(node, ast.FunctionDef)
        for error in sorted(_raised(node))
        if error not in (ast.get_docstring(node) or "")
    ] == []


def test_a_function_that_runs_a_command_names_its_error() -> None:
    """Whoever calls it has to expect that the program is missing or fails."""
    assert [
        name
        for name, node in _public("infra")
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(each, ast.Call) and ast.unparse(each.func) in COMMANDS for each in _statements(node)
        )
        and not _catches(node, "CommandError")
        and "CommandError" not in (ast.get_docstring(node) or "")
    ] == []


def _catches(node: ast.FunctionDef, error: str) -> bool:
    handled = [
        ast.unparse(each.type)
        for each in _statements(node)
        if isinstance(each, ast.ExceptHandler) and each.type
    ]
    suppressed = [
        ast.unparse(each.context_expr) for each in _statements(node) if isinstance(each, ast.withitem)
    ]
    return any(error in text for text in (*handled, *suppressed, *map(ast.unparse, node.decorator_list)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, without the functions in it."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.FunctionDef | ast.Lambda):
            yield each
            yield from _statements(each)


def _raised(node: ast.FunctionDef) -> set[str]:
    caught = {
        ast.unparse(kind)
        for each in _statements(node)
        if isinstance(each, ast.Try)
        for handler in each.handlers
        if handler.type
        for kind in (handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type])
    }
    names = {
        ast.unparse(each.exc).partition("(")[0].rpartition(".")[2]
        for each in _statements(node)
        if isinstance(each, ast.Raise) and each.exc
    }
    return (
        {name for name in names if name.endswith("Error") and name[0].isupper()} - caught - {"AssertionError"}
    )
