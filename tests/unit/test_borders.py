"""The borders that import-linter's contracts in pyproject.toml do not cover, from the syntax trees.

That no arrow points the wrong way is checked by `lint-imports`, which test_sources.py runs.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import permutations
from pathlib import Path

import grimp

from infra.cluster_kinds import ClusterKind

ROOT = Path(__file__).resolve().parents[2]
STANDINS = ROOT / "standins"
SHIPPED = ("infra", "storage", "toolchain", "trainer", "pulumi_standins")
# Folders with modules that are no package of ours.
OTHERS = {"ci", "examples", "tests"}
# Functions that import what a text names.
BY_NAME = {"import_module", "__import__"}
# What the trainer image has.
IN_THE_IMAGE = {"torch", "torchvision", "PIL"}
# Modules of the program that the toolchain imports before any package is installed.
FOR_THE_TOOLCHAIN = {
    "infra.agreed",
    "infra.atomic_file",
    "infra.cluster_kinds",
    "infra.objects.kinds",
    "infra.objects.labels",
    "infra.paths",
    "infra.process",
}
# The block in which it imports the others.
WITH_PACKAGES = "venv.program("
STANDALONE = ROOT / "toolchain" / "machine" / "engine" / "oci_runtime.py"


def _modules(package: str) -> Iterator[tuple[str, Path]]:
    base = STANDINS if package == "pulumi_standins" else ROOT
    for path in sorted((base / package).rglob("*.py")):
        words = path.relative_to(base).with_suffix("").parts
        yield ".".join(words[:-1] if words[-1] == "__init__" else words), path


ALL = [(name, path) for package in SHIPPED for name, path in _modules(package)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def _imports(path: Path) -> list[tuple[str, str | None]]:
    """Module and name of every import in a file, also within functions and by a function; no name for a plain one."""
    return _imported(ast.walk(_tree(path)), path)


def _imported(nodes: Iterable[ast.AST], path: Path) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full, so that a border can be seen"
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
            values = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found += [(value, None) for value in values if isinstance(value, str)]
    return found


def _top(module: str) -> str:
    return module.partition(".")[0]


def _foreign(modules: Iterable[tuple[str, Path]], allowed: Callable[[str], bool]) -> list[str]:
    """`importer -> imported` for every import that is not allowed."""
    return [
        f"{name} -> {module}"
        for name, path in modules
        for module, _ in _imports(path)
        if not allowed(_top(module))
    ]


def test_nothing_is_imported_by_a_name_in_a_text() -> None:
    """import-linter would not see it."""
    plain = {node.name for _, path in ALL for node in ast.walk(_tree(path)) if isinstance(node, ast.alias)}
    hidden = {module for _, path in ALL for module, name in _imports(path) if name is None} - plain
    assert [module for module in hidden if _top(module) in SHIPPED] == []


def test_the_toolchain_itself_needs_the_standard_library_only() -> None:
    """It begins before any package is installed: `clean`, `doctor`, `env`, `--help` and completion need none.

    Other modules of the program are imported in a block that makes `.venv`, and that hands their errors on.
    """
    known = {"infra", "toolchain", *sys.stdlib_module_names}
    assert _foreign(_modules("toolchain"), known.__contains__) == []
    found = (_of_the_program(path, _without_packages(_tree(path))) for _, path in _modules("toolchain"))
    assert set().union(*found) == FOR_THE_TOOLCHAIN


def _without_packages(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes but for those in blocks WITH_PACKAGES, and those that are for the type checker alone."""
    if isinstance(node, ast.With) and any(WITH_PACKAGES in ast.unparse(each) for each in node.items):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for each in ast.iter_child_nodes(node):
        yield from _without_packages(each)


def test_what_the_toolchain_takes_of_the_program_needs_the_standard_library_only() -> None:
    """With the packages that are imported on the way, also where nothing is installed."""
    packages = {name.rpartition(".")[0] for name in FOR_THE_TOOLCHAIN}
    modules = [(name, path) for name, path in ALL if name in FOR_THE_TOOLCHAIN | packages]
    assert {name for name, _ in modules} == FOR_THE_TOOLCHAIN | packages
    assert _foreign(modules, {"infra", *sys.stdlib_module_names}.__contains__) == []
    assert {
        module for _, path in modules for module in _of_the_program(path, ast.walk(_tree(path)))
    } <= FOR_THE_TOOLCHAIN


def _of_the_program(path: Path, nodes: Iterable[ast.AST]) -> set[str]:
    """The modules of infra that these nodes of a file import, each by its whole name."""
    known = {name for name, _ in ALL}
    return {
        whole if whole in known else module
        for module, name in _imported(nodes, path)
        if _top(module) == "infra"
        for whole in [f"{module}.{name}"]
    }


def test_the_oci_runtime_is_copied_alone_and_imports_nothing_of_ours() -> None:
    assert _foreign([("oci_runtime", STANDALONE)], sys.stdlib_module_names.__contains__) == []


def test_the_trainer_needs_what_its_image_has() -> None:
    known = {"trainer", *IN_THE_IMAGE, *sys.stdlib_module_names}
    assert _foreign(_modules("trainer"), known.__contains__) == []


def test_the_stand_ins_and_their_tests_import_nothing_of_ours() -> None:
    """They are a distribution of their own."""
    ours = {"infra", "storage", "tests", "toolchain", "trainer"}
    tests = [(path.name, path) for path in (STANDINS / "tests").rglob("*.py")]
    assert len(tests) > 10
    assert _foreign([*_modules("pulumi_standins"), *tests], lambda package: package not in ours) == []


def test_the_stand_ins_have_no_cycle() -> None:
    """import-linter looks at the packages that lie in the clone's root only."""
    modules = dict(_modules("pulumi_standins"))
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        submodules = [(module, f"{module}.{imported}") for module, imported in _imports(path)]
        graph[name] = {each if each in modules else package for package, each in submodules} & modules.keys()
    assert len([*TopologicalSorter(graph).static_order()]) == len(modules), "a cycle raises CycleError"


def test_the_examples_import_nothing_of_ours() -> None:
    """They are projects as a user has them; the image brings the trainer, and `python -m` runs it."""
    examples = [(path.name, path) for path in (ROOT / "examples").rglob("*.py")]
    assert len(examples) > 2
    assert _foreign(examples, lambda package: package not in {*SHIPPED, "tests"}) == []


def test_no_shipped_module_imports_tests() -> None:
    assert _foreign(ALL, lambda package: package != "tests") == []


def test_no_private_name_is_used_outside_its_package() -> None:
    found = [
        f"{name} uses {other}"
        for name, path in ALL
        for other in (*_private_imports(name, path), *_private_attributes(name, path))
    ]
    assert found == []


def _private_imports(name: str, path: Path) -> Iterator[str]:
    for module, imported in _imports(path):
        words = [*module.split("."), *([imported] if imported else [])]
        for place, word in enumerate(words):
            if (
                _private(word)
                and _top(module) in SHIPPED
                and ".".join(words[:place]) not in _packages_of(name, path)
            ):
                yield ".".join(words)


def _private_attributes(name: str, path: Path) -> Iterator[str]:
    """`module._name` and `package.module._name`, where the module was imported from another package of ours."""
    tree = _tree(path)
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _top(node.module or "") in SHIPPED:
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _top(alias.name) in SHIPPED:
                    bound[alias.asname or _top(alias.name)] = alias.name if alias.asname else _top(alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _private(node.attr):
            first, _, rest = ast.unparse(node.value).partition(".")
            origin = f"{bound[first]}.{rest}".rstrip(".") if first in bound else ""
            if origin and origin.rpartition(".")[0] not in _packages_of(name, path):
                yield f"{origin}.{node.attr}"


def _packages_of(name: str, path: Path) -> set[str]:
    """The package of a module, the modules in it, and the module itself: where its private names may come from."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    beside = {f"{package}.{other.stem}" for other in path.parent.glob("*.py")}
    return {package, name, *beside}


def _private(word: str) -> bool:
    return word.startswith("_") and not word.startswith("__")


# Modules and packages of one name in several places, and why one name fits all of them.
NAMESAKES = {
    "adoption": "lost objects: the program finds them, make up puts them into the state",
    "cluster": "a section of the stack file, and what every kind of cluster offers",
    "commands": "what can be called: of the program microk8s, of our own command line",
    "component": "the Pulumi component of its room",
    "config": "configuration files: the stack's, kind's",
    "dynamic": "Pulumi's dynamic providers: the base of ours, and the entry point of the SDK's",
    "errors": "the package's exceptions and their texts",
    "image": "a section of the stack file, and the room that makes its objects",
    "images": "container images: those that the audit lists, those that the toolchain builds",
    "job": "a section of the stack file, and the room that makes its objects",
    "kubeconfig": "which kubeconfig is read, and how",
    "manifest": "the type of all manifests, and that of the job",
    "objects": "Kubernetes objects as data",
    "options": "options of a command line: the trainer's, the toolchain's",
    "patches": "changes to upstream's objects, one pure function each",
    "paths": "files and folders: those of a clone that its stacks have, and all that set-up makes",
    "provider": "providers that Pulumi calls",
    "providers": "dynamic providers of their room; the state holds their import names",
    "review": "the rendering of a stack, and the command that calls it",
    "state": "what a state holds: of a stack, of one object",
    "storage": "a section of the stack file, and the package that makes its objects",
    "sweep": "a section of the stack file, the search that it asks for, and the command that runs the search",
    "volumes": "volumes and claims: of the program, and when they are ready",
}


def test_no_two_modules_of_one_name_mean_different_things() -> None:
    places: dict[str, set[str]] = {}
    for name, _ in ALL:
        package, _, module = name.rpartition(".")
        if module != "__main__":
            places.setdefault(module, set()).add(package)
    namesakes = {module for module, found in places.items() if len(found) > 1}
    assert namesakes == set(NAMESAKES), "rename one of them, or say why the name fits both"


def test_the_unit_tests_lie_in_the_rooms_of_the_code() -> None:
    unit = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.glob("*/**/test_*.py")}
    assert len(folders) > 10
    assert [str(folder) for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []
    # A room of the program whose tests lie elsewhere would have to be searched for.
    rooms = {path.parent.relative_to(ROOT) for path in ROOT.glob("infra/*/__init__.py")}
    assert rooms <= folders


def test_every_shipped_package_has_its_borders() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/*.py")} - OTHERS
    assert all((ROOT / package / "__init__.py").exists() for package in packages)
    assert packages | {"pulumi_standins"} == set(SHIPPED)
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert packages == set(linter["root_packages"])
    forbidden = {
        source: set(contract["forbidden_modules"])
        for contract in linter["contracts"]
        if contract["type"] == "forbidden"
        for source in contract["source_modules"]
    }
    assert forbidden.keys() == packages
    used = {"infra": {"storage"}, "toolchain": {"infra"}}  # the only arrows between packages
    for package in packages:
        others = set(SHIPPED) - {package} - used.get(package, set())
        assert others <= forbidden[package], f"docs/internals/architecture.md: {package} may import too much"


def test_the_kinds_of_cluster_stand_side_by_side() -> None:
    graph = grimp.build_graph("infra", cache_dir=None)
    folders = [f"infra.clusters.{kind}" for kind in ClusterKind]
    assert graph.find_children("infra.clusters") >= {*folders}
    for one, other in permutations(folders, 2):
        chain = graph.find_shortest_chain(importer=one, imported=other, as_packages=True)
        assert chain is None, f"{one} imports {other}: {chain}"
