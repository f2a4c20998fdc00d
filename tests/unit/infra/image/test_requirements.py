"""What a project requires: which words uv gets, and what the image has already."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra import process
from infra.image import requirements
from infra.process import CommandError

PACKAGED = '[project]\nname = "mine"\nversion = "1"\n[build-system]\nrequires = ["setuptools"]\n'
LISTED = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["einops"]\n'
ASKED = "--requirement"
HAS = requirements.Contents("3.13", "x86_64", {"torch": "2.6.0+cpu", "Jinja2": "3.1.6", "odd": "1:2~deb"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"train__py": ""}, []),
        ({"requirements__txt": "einops"}, ["--requirement requirements.txt"]),
        ({"pyproject__toml": PACKAGED}, ["."]),
        ({"setup__py": ""}, ["."]),
        ({"setup__py": "", "requirements__txt": "einops"}, [".", "--requirement requirements.txt"]),
        ({"pyproject__toml": LISTED}, ["--requirement pyproject.toml"]),
        (
            {"pyproject__toml": LISTED, "requirements__txt": "Mine[gpu]>=1"},
            [".", f"{ASKED} requirements.txt"],
        ),
        (
            {"pyproject__toml": LISTED, "requirements__txt": "mine-too"},
            [f"{ASKED} pyproject.toml", f"{ASKED} requirements.txt"],
        ),
        ({"pyproject__toml": "[tool.ruff]\n"}, []),
    ],
)
def test_what_a_folder_declares(folder: Path, files: dict[str, str], wanted: list[str]) -> None:
    write(folder, **files)
    said = " ".join(requirements.sources(folder)).replace(f"{folder}/", "").replace(str(folder), ".")
    assert said == " ".join(wanted)


class Uv:
    """Answers in uv's place; `calls` are its command lines, `held` what it was told that the image has."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.held: list[str] = []
        self.wheels: dict[str, str] = {}
        self.failure = ""

    def output(self, *command: str) -> str:
        self.calls.append(command)
        if self.failure:
            raise CommandError(self.failure)
        if command[1] == "build":
            made = Path(after(command, "--out-dir"))
            made.mkdir()
            (made / "mine-1-py3-none-any.whl").touch()
            return ""
        self.held = Path(after(command, "--constraint")).read_text().split()
        for wheel in Path(after(command, "--find-links")).glob("*.whl"):
            with zipfile.ZipFile(wheel) as opened:
                [metadata] = [name for name in opened.namelist() if name.endswith("METADATA")]
                self.wheels[wheel.name] = opened.read(metadata).decode()
        target = Path(after(command, "--target"))
        for name in ("einops", "torch-2.6.0+image.dist-info", "bin"):
            (target / name).mkdir()
        return ""


def after(command: tuple[str, ...], option: str) -> str:
    return command[command.index(option) + 1]


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> Uv:
    made = Uv()
    monkeypatch.setattr(requirements, "output", made.output)
    monkeypatch.setattr(requirements, "contents", lambda image: HAS)
    return made


def test_the_images_python_and_packages_decide(folder: Path, tmp_path: Path, uv: Uv) -> None:
    write(folder, requirements__txt="einops\n")
    requirements.install(folder, tmp_path / "packages", "trainer:1")
    [call] = uv.calls
    assert after(call, "--python-version") == "3.13"
    assert after(call, "--python-platform") == "x86_64-unknown-linux-gnu"
    assert after(call, "--only-binary") == ":all:"
    assert uv.held == ["jinja2==3.1.6+image", "torch==2.6.0+image"], "no version that an index does not know"
    assert [path.name for path in (tmp_path / "packages").iterdir()] == ["einops"]
    assert "Name: torch\nVersion: 2.6.0+image" in uv.wheels["torch-2.6.0+image-py3-none-any.whl"]
    assert all("Requires-Dist" not in text for text in uv.wheels.values()), "what it requires is in the image"


def test_a_project_that_can_be_built_is_a_package_itself(folder: Path, tmp_path: Path, uv: Uv) -> None:
    write(folder, pyproject__toml=PACKAGED, requirements__txt="einops\n")
    requirements.install(folder, tmp_path / "packages", "trainer:1")
    build, install = uv.calls
    assert build[:2] == ("uv", "build")
    assert build[-1] == str(folder)
    assert install[-3].endswith("built-0/mine-1-py3-none-any.whl")
    assert install[-2:] == ("--requirement", str(folder / "requirements.txt"))


@pytest.mark.parametrize("line", [".", "-e .", "--editable .", "./lib", "-e ./lib  # ours", "./lib[extra]"])
def test_a_folder_that_requirements_name_is_built(folder: Path, tmp_path: Path, uv: Uv, line: str) -> None:
    """In the image there is no other place that it could be imported from."""
    (folder / "lib").mkdir()
    write(folder, requirements__txt=f"einops\n{line}\n./wheels/x-1-py3-none-any.whl\n")
    requirements.install(folder, tmp_path / "packages", "trainer:1")
    build, install = uv.calls
    assert build[:2] == ("uv", "build")
    assert Path(build[-1]).resolve() == (folder / "lib" if "lib" in line else folder)
    kept, built, wheel = (folder / "requirements.txt").read_text().splitlines()
    assert (kept, wheel) == ("einops", "./wheels/x-1-py3-none-any.whl")
    assert built.endswith("mine-1-py3-none-any.whl[extra]" if "extra" in line else "mine-1-py3-none-any.whl")
    assert after(install, "--directory") == str(folder), "where ./wheels is looked for"


@pytest.mark.parametrize("line", [".", "-e .", "../project", ".[gpu]", "mine", "Mine[gpu]==1"])
@pytest.mark.parametrize("declared", [PACKAGED, LISTED])
def test_a_project_that_names_itself_is_built_once(
    folder: Path, tmp_path: Path, uv: Uv, declared: str, line: str
) -> None:
    """uv takes two wheels of one package for a conflict, and an index may have another package of that name."""
    write(folder, pyproject__toml=declared, requirements__txt=f"{line}\n-e .\n")
    requirements.install(folder, tmp_path / "packages", "trainer:1")
    assert [call[1] for call in uv.calls if call[1] == "build"] == ["build"]
    asked = [*uv.calls[-1], *(folder / "requirements.txt").read_text().splitlines()]
    assert len({each.partition("[")[0] for each in asked if ".whl" in each}) == 1


def test_a_plain_folder_needs_no_uv(folder: Path, tmp_path: Path, uv: Uv) -> None:
    requirements.install(folder, tmp_path / "packages", "trainer:1")
    assert uv.calls == []
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("you require torch>=2.8 and torch==2.6.0+image", "fix: let the requirement allow"),
        ("uv is not on PATH", "uv is not on PATH"),
    ],
)
def test_a_failure_says_what_to_do(folder: Path, tmp_path: Path, uv: Uv, failure: str, said: str) -> None:
    write(folder, requirements__txt="torch>=2.8\n")
    uv.failure = failure
    with pytest.raises(CommandError, match=said) as refused:
        requirements.install(folder, tmp_path / "packages", "trainer:1")
    assert ("let the requirement" in str(refused.value)) is ("+image" in failure)


def test_a_missing_uv_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match=r"uv is not on PATH: run .*make -s env.*, or install it"):
        process.output("uv", "pip", "install")


def test_the_image_is_asked_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the image runs is run here, on this test's Python."""
    asked: list[Any] = []

    def output(*command: str) -> str:
        asked.append(command)
        here = [sys.executable, *command[command.index("-c") :]]
        return subprocess.run(here, capture_output=True, text=True, check=True).stdout

    monkeypatch.setattr(requirements, "output", output)
    found = requirements.contents("trainer:1")
    assert found.packages["pydantic"]
    assert found.python.count(".") == 1
    assert "--network none" in " ".join(asked[0])
