"""A user's project as an image: which files go in, and what its tag and the run's identity follow."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from infra import docker, paths
from infra.config import shell_variables
from infra.config.image import ImageConfig
from infra.image import engine_image, ignored, inputs, project, push, requirements
from infra.image.project_image import ProjectImageProvider
from infra.process import CommandError
from tests.unit.conftest import Fake


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of our Dockerfile."""
    ours = {"Dockerfile_training": "FROM x AS cpu\n", "trainer/train.py": "pass\n"}
    return written(tmp_path / "clone", ours)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's project."""
    theirs = {"net/model.py": "pass\n", "requirements.txt": "einops==0.8.2\n", "Dockerfile": "FROM x\n"}
    return written(tmp_path / "project", theirs)


@pytest.mark.parametrize(
    ("lines", "left_out", "kept"),
    [
        ("data", {"data", "data/a.bin", "data/b/c.bin"}, {"src/data", "data.py"}),
        ("/data/", {"data/a.bin"}, {"src/data"}),
        ("*.bin", {"a.bin"}, {"src/a.bin"}),
        ("**/*.bin", {"a.bin", "src/a.bin", "src/b/a.bin"}, {"a.bin.py"}),
        ("src/**", {"src/a.py", "src/b/c.py"}, {"srcs/a.py"}),
        ("src/**/c.py", {"src/c.py", "src/a/b/c.py"}, {"c.py"}),
        ("a?.p[yx]", {"ab.py", "ab.px"}, {"a.py", "a/.py", "ab.pz"}),
        ("*\n!src", {"a.py", "docs/a.md"}, {"src/a.py"}),
        ("*\n!src\nsrc/big", {"src/big/a"}, {"src/a.py"}),
        ("# data\n\n  tmp  \n", {"tmp/a"}, {"data", "# data"}),
        ("a+b.(c)", {"a+b.(c)"}, {"aab.c"}),
        (r"\*", {"*"}, {"a"}),
        ("./a/../b", {"b"}, {"a"}),
    ],
)
def test_docker_ignores_so(lines: str, left_out: set[str], kept: set[str]) -> None:
    given = ignored.rules(lines)
    assert {path for path in left_out | kept if ignored.is_ignored(PurePosixPath(path), given)} == left_out


def test_links_go_in_as_links_and_caches_never(folder: Path) -> None:
    for name in sorted(ignored.ALWAYS):
        (folder / "net" / name).mkdir()
        (folder / "net" / name / "file").write_text("")
    (folder / "linked").symlink_to("net")
    names = {str(path) for path in ignored.files(folder)}
    assert names == {"net/model.py", "requirements.txt", "Dockerfile", "linked"}


def test_the_copy_is_what_is_hashed_and_may_be_read_by_everybody(folder: Path, tmp_path: Path) -> None:
    written(folder, {".dockerignore": "requirements.txt\n", "run.sh": ""})
    (folder / "net" / "model.py").chmod(0o600)
    (folder / "run.sh").chmod(0o700)
    (folder / "linked").symlink_to("net")
    copied = tmp_path / "copied"
    project.copy(folder, copied)
    assert ignored.files(copied) == ignored.files(folder)
    assert not (copied / "requirements.txt").exists()
    assert (copied / "net").stat().st_mode & 0o777 == 0o775, "group 0, which jobs run as, may write there"
    assert (copied / "net" / "model.py").stat().st_mode & 0o777 == 0o644
    assert (copied / "run.sh").stat().st_mode & 0o777 == 0o755
    assert os.readlink(copied / "linked") == "net"
    assert tag_of(copied) == tag_of(folder)


@pytest.mark.parametrize("hidden", ["trainer.py", "trainer/__init__.py", "random.py", "json/__init__.py"])
def test_a_project_that_hides_a_module_is_refused(root: Path, folder: Path, hidden: str) -> None:
    written(folder, {hidden: ""})
    with pytest.raises(CommandError, match=rf"{hidden} hides .*\n  fix: rename it"):
        tags(root, context=str(folder))
    tags(root, dockerfile=str(folder / "Dockerfile"))
    (folder / ".dockerignore").write_text(hidden)
    tags(root, context=str(folder))


@pytest.mark.parametrize("allowed", ["train.py", "net/random.py", "random/notes.txt", "test/__init__.py"])
def test_a_project_may_use_other_names(root: Path, folder: Path, allowed: str) -> None:
    written(folder, {allowed: ""})
    tags(root, context=str(folder))


@pytest.mark.parametrize("name", [".", "net", "net/model.py", ".dockerignore"])
def test_what_this_user_may_not_read_is_named(
    root: Path, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the tests may be root, who reads everything."""
    (folder / ".dockerignore").write_text("data\n")
    (folder / "data").mkdir()
    closed = {folder / name, folder / "data"}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) not in closed)
    with pytest.raises(CommandError, match=f"you may not read {folder / name}\n  fix: "):
        tags(root, context=str(folder))


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"caf\xe9/net.py"])
def test_a_name_that_is_not_utf_8_is_named(root: Path, folder: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    told = r"caf\\xe9.*is not UTF-8\n  fix: rename it, or name it in .docker"
    with pytest.raises(CommandError, match=told):
        tags(root, context=str(folder))
    (folder / ".dockerignore").write_bytes(name + b"\n")
    tags(root, context=str(folder))


def test_a_copy_without_its_dockerignore_is_what_is_hashed(folder: Path, tmp_path: Path) -> None:
    (folder / ".dockerignore").write_text(".dockerignore\nnet\n")
    copied = tmp_path / "copied"
    project.copy(folder, copied)
    assert tag_of(copied) == tag_of(folder)


def tag_of(folder: Path) -> str:
    return project.build(folder, None, {}, "trainer").tag


def tags(root: Path, **config: Any) -> dict[str, str]:
    """The image's tag and the run's identity."""
    given = ImageConfig.model_validate(config)
    return {"tag": inputs.tag(given, root, {}), "identity": inputs.identity(given, root, {})}


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file": lambda folder: (folder / "net" / "model.py").write_text("pass  # changed\n"),
    "the requirements": lambda folder: (folder / "requirements.txt").write_text("einops==0.8.1\n"),
    "a new file": lambda folder: (folder / "new.py").write_text(""),
    "another name": lambda folder: (folder / "net").rename(folder / "nets"),
    "an executable": lambda folder: (folder / "net" / "model.py").chmod(0o755),
    "a link": lambda folder: (folder / "linked").symlink_to("net"),
    "what is ignored": lambda folder: (folder / ".dockerignore").write_text("net\n"),
    "the Dockerfile": lambda folder: (folder / "Dockerfile").write_text("FROM y\n"),
}


@pytest.mark.parametrize("key", ["context", "dockerfile"])
@pytest.mark.parametrize("change", CHANGES)
def test_tag_and_identity_follow_what_goes_in(root: Path, folder: Path, change: str, key: str) -> None:
    config = {"context": str(folder)} if key == "context" else {"dockerfile": str(folder / "Dockerfile")}
    before = tags(root, **config)
    assert tags(root, **config) == before
    CHANGES[change](folder)
    after = tags(root, **config)
    assert [name for name in before if before[name] == after[name]] == []


def test_what_is_ignored_makes_no_other_image(root: Path, folder: Path) -> None:
    written(folder, {".dockerignore": "data\n"})
    before = tags(root, context=str(folder))
    written(folder, {"data/a.bin": ""})
    assert tags(root, context=str(folder)) == before


def test_the_same_project_elsewhere_is_the_same_image(root: Path, folder: Path) -> None:
    before = tags(root, context=str(folder))
    moved = folder.rename(folder.with_name("moved"))
    assert tags(root, context=str(moved)) == before


def test_our_own_files_count_where_the_project_builds_on_our_image(root: Path, folder: Path) -> None:
    onto_ours = folder / "onto-ours"
    onto_ours.write_text("ARG TRAINER_IMAGE\nFROM ${TRAINER_IMAGE}\n")
    kinds = {
        "context": {"context": str(folder)},
        "own": {"dockerfile": str(folder / "Dockerfile")},
        "onto ours": {"dockerfile": str(onto_ours)},
    }
    before = {kind: tags(root, **config) for kind, config in kinds.items()}
    (root / "trainer" / "train.py").write_text("pass  # changed\n")
    after = {kind: tags(root, **config) for kind, config in kinds.items()}
    assert [kind for kind in kinds if before[kind] == after[kind]] == ["own"]
    preset = {**kinds["onto ours"], "preset": "convnet"}
    assert tags(root, **preset) != after["onto ours"]


def test_our_dockerfile_for_projects_counts(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tags(root, context=str(folder))
    monkeypatch.setattr(project, "DOCKERFILE", project.DOCKERFILE + "USER 1001:0\n")
    assert tags(root, context=str(folder))["tag"] != before["tag"]


def test_a_base_counts_where_the_dockerfile_declares_it(
    root: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_variables, "RECORD", tmp_path / "env.json")
    shell_variables.RECORD.write_text('{"TRAINSTACK_CPU_BASE": "trainstack/debian"}')
    config = ImageConfig(dockerfile=str(folder / "Dockerfile"))
    mine, stand_in = {"TRAINSTACK_CPU_BASE": "mine"}, {"TRAINSTACK_CPU_BASE": "trainstack/debian"}
    assert inputs.tag(config, root, mine) == inputs.tag(config, root, {})
    (folder / "Dockerfile").write_text("ARG CPU_BASE=debian\nFROM ${CPU_BASE}\n")
    assert inputs.tag(config, root, mine) != inputs.tag(config, root, {})
    assert inputs.identity(config, root, mine) != inputs.identity(config, root, {})
    assert inputs.identity(config, root, stand_in) == inputs.identity(config, root, {})


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `docker build` was asked for, and the files that it saw."""
    seen: dict[str, Any] = {}

    def docker_build(
        folder: Path, dockerfile: Path, arguments: dict[str, str], image: str, *_: str, theirs: bool = False
    ) -> None:
        seen.update(arguments=arguments, image=image, dockerfile=dockerfile.read_text(), theirs=theirs)
        seen["files"] = {str(path) for path in ignored.files(folder)}

    monkeypatch.setattr(push, "docker_build", docker_build)
    monkeypatch.setattr(docker, "has_image", lambda image: image == "trainstack/trainer:there")
    monkeypatch.setattr(docker, "ensure_answers", lambda: None)
    monkeypatch.setattr(
        requirements,
        "install",
        lambda folder, target, image: (target / "einops").mkdir(parents=True),
    )
    return seen


def properties(root: Path, **config: Any) -> dict[str, Any]:
    """What the program hands to ProjectImage for a stack's section `image`."""
    given = ImageConfig.model_validate(config)
    environment = {"TRAINSTACK_CPU_BASE": "x"}
    ours = inputs.build(given, root, environment).tag
    own = inputs.project_build(given, ours, inputs.bases(environment))
    assert own
    trainer = f"trainstack/trainer:{own.trainer}" if own.trainer else None
    named = {"context": given.context, "dockerfile": given.dockerfile}
    return {**named, "arguments": dict(own.arguments), "trainer": trainer, "tag": own.tag}


def test_a_project_is_put_onto_our_image(root: Path, folder: Path, built: dict[str, Any]) -> None:
    props = properties(root, context=str(folder))
    made = ProjectImageProvider().create(props).outs or {}
    assert made["image"] == built["image"] == f"trainstack/trainer:{props['tag']}"
    assert built["arguments"] == {"TRAINER_IMAGE": props["trainer"]}
    assert {"project/net/model.py", "project/requirements.txt"} < built["files"]
    assert not [name for name in built["files"] if name.startswith("source")], (
        "a build may have written there"
    )
    assert built["dockerfile"] == project.DOCKERFILE
    assert not built["theirs"]


@pytest.mark.parametrize(("theirs", "given"), [(True, "1"), (False, "")])
def test_only_the_users_own_dockerfile_is_built_by_the_builder_that_they_chose(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: bool, given: str
) -> None:
    fake("docker", f'printf %s "$DOCKER_BUILDKIT" > {tmp_path}/given')
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")
    push.docker_build(tmp_path, tmp_path / "Dockerfile", {}, "image", theirs=theirs)
    assert (tmp_path / "given").read_text() == given


def test_a_dockerfile_gets_its_folder_or_the_context(root: Path, folder: Path, built: dict[str, Any]) -> None:
    (folder / "Dockerfile").write_text("ARG CPU_BASE\nFROM ${CPU_BASE}\n")
    dockerfile = str(folder / "Dockerfile")
    ProjectImageProvider().create(properties(root, dockerfile=dockerfile))
    assert built["files"] == {"Dockerfile", "net/model.py", "requirements.txt"}
    assert built["arguments"] == {"CPU_BASE": "x"}
    assert built["theirs"]
    ProjectImageProvider().create(properties(root, dockerfile=dockerfile, context=str(folder / "net")))
    assert built["files"] == {"model.py"}
    assert built["dockerfile"] == "ARG CPU_BASE\nFROM ${CPU_BASE}\n"


CHANGES_AND_LOSSES: dict[str, Callable[[Path], object]] = {
    **CHANGES,
    "a file gone": lambda folder: (folder / "net" / "model.py").unlink(),
    "the Dockerfile gone": lambda folder: (folder / "Dockerfile").unlink(),
    "the folder gone": lambda folder: folder.rename(folder.with_name("gone")),
}


@pytest.mark.parametrize("key", ["context", "dockerfile"])
@pytest.mark.parametrize("change", CHANGES_AND_LOSSES)
def test_a_project_that_changed_since_its_tag_was_made_is_not_built(
    root: Path, folder: Path, built: dict[str, Any], change: str, key: str
) -> None:
    named = folder if key == "context" else folder / "Dockerfile"
    props = properties(root, **{key: str(named)})
    CHANGES_AND_LOSSES[change](folder)
    with pytest.raises(CommandError, match="sources changed during its build; run the same command"):
        ProjectImageProvider().create(props)
    assert built == {}, "an image of that tag would be kept for ever"


@pytest.mark.parametrize("key", ["context", "dockerfile"])
def test_a_project_that_changes_while_it_is_copied_is_not_built(
    root: Path, folder: Path, built: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    props = properties(root, **{key: str(folder if key == "context" else folder / "Dockerfile")})
    listed = ignored.files

    def files(place: Path) -> list[Path]:
        found = listed(place)
        if place == folder:
            (folder / "net" / "model.py").unlink()
        return found

    monkeypatch.setattr(ignored, "files", files)
    with pytest.raises(CommandError, match="sources changed during its build"):
        ProjectImageProvider().create(props)
    assert built == {}


KNOWN: dict[str, Any] = {"context": "gone", "dockerfile": None, "arguments": {}, "trainer": "ours:1"}


def test_what_the_engine_has_is_not_built_again(built: dict[str, Any]) -> None:
    props = KNOWN | {"tag": "there"}
    assert ProjectImageProvider().create(props).outs
    assert built == {}
    for tag, id_ in (("there", "x"), ("lost", "")):
        assert ProjectImageProvider().read("x", {**props, "image": f"trainstack/trainer:{tag}"}).id == id_


@pytest.mark.parametrize("kind", ["ours", "onto ours", "own"])
def test_what_is_fetched_is_what_the_program_builds(
    root: Path, folder: Path, built: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "ROOT", root)
    named = {
        "ours": {},
        "onto ours": {"context": str(folder)},
        "own": {"dockerfile": str(folder / "Dockerfile")},
    }
    config = ImageConfig.model_validate(named[kind])
    image = engine_image.build(config)
    assert image == built["image"] == f"trainstack/trainer:{inputs.tag(config, root)}"
    trainer = f"trainstack/trainer:{inputs.build(config, root).tag}"
    assert built["arguments"] == ({"TRAINER_IMAGE": trainer} if kind == "onto ours" else {})


def test_another_tag_alone_builds_anew() -> None:
    known = KNOWN | {"tag": "1"}
    assert not ProjectImageProvider().diff("x", known, {**known, "context": "moved"}).changes
    assert ProjectImageProvider().diff("x", known, {**known, "tag": "2"}).changes
