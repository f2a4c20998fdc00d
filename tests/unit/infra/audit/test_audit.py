"""What `make audit` lists, and that it says what it does not know in place of guessing."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, docker, paths
from infra.audit import images, sbom, trusted
from infra.audit.trusted import Kind, Trusted, Unknown
from infra.process import CommandError

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
LOCK = f"""\
pyyaml=={metadata.version("pyyaml")} \\
    --hash={A} \\
    --hash={B}
    # via trainstack
not-here==1.0 ; sys_platform == 'win32' \\
    --hash={A}
"""
GO_MOD = """\
module trainstack/tools/kind

go 1.25.0

require (
\tgithub.com/BurntSushi/toml v1.4.0 // indirect
\tk8s.io/api v0.0.0
\texample.com/odd v1.0.0
)

require example.com/nosum v2.0.0

replace k8s.io/api => k8s.io/api v0.34.4
"""
GO_SUM = """\
github.com/BurntSushi/toml v1.4.0 h1:toml=
github.com/BurntSushi/toml v1.4.0/go.mod h1:other=
k8s.io/api v0.34.4 h1:api=
example.com/odd v1.0.0 h1:odd=
"""
LOCKS = {
    **{
        f"of-{name}": f"requirements-{name}.lock"
        for name in ("board", "browser", "plots", "site", "sweep", "workflows")
    },
    "of-cuda": "toolchain/images/gpu-base.lock",
}
MIT = "MIT License\n\nPermission is hereby granted, free of charge, to any\nperson obtaining a copy"
APACHE = "Apache License\n    Version 2.0, January 2004"
BSD2 = "Redistribution and use in source and binary forms, with or without modification"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with nine Python packages, four Go modules and two bases."""
    folder = tmp_path / "toolchain" / "tools" / "go" / "kind"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text(GO_SUM)
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "toolchain" / "images").mkdir()
    for package, lock in LOCKS.items():
        (tmp_path / lock).write_text(f"{package}==1.0 \\\n    --hash={B}")
    (tmp_path / "Dockerfile_training").write_text(
        f"ARG CPU_BASE=debian:slim@{A}\nARG GPU_BASE=r.io:5000/gpu\nFROM x\n"
    )
    for name, line in {"clusters/kind/component": "REGISTRY", "training_operator/patches": "INIT"}.items():
        file = tmp_path / "infra" / f"{name}.py"
        file.parent.mkdir(parents=True)
        file.write_text(f'{line}_IMAGE = "{line.lower()}:3"\n')
    cache = tmp_path / "cache"
    for module, text in (("github.com/!burnt!sushi/toml@v1.4.0", MIT), ("example.com/odd@v1.0.0", "Ask me.")):
        (cache / module).mkdir(parents=True)
        (cache / module / "LICENSE").write_text(text)
    monkeypatch.setattr(trusted, "module_cache", lambda: cache)
    return tmp_path


def by_name(found: Any) -> dict[str, Trusted]:
    return {each.name: each for each in found}


def test_python_packages_have_the_locks_checksums_and_their_own_words(root: Path) -> None:
    found = by_name(trusted.locked(root))
    assert found["pyyaml"].checksums == (A, B)
    assert found["pyyaml"].licence == "MIT"
    assert found["not-here"].checksums == (A,)
    assert found["not-here"].gaps() == ["licence"]
    assert {name: found[name].place for name in LOCKS} == LOCKS


def test_every_package_of_our_own_locks_is_found() -> None:
    locks = sorted([*paths.ROOT.glob("*.lock"), *(paths.ROOT / "toolchain").rglob("*.lock")])
    lines = [line for lock in locks for line in lock.read_text().splitlines()]
    assert len(locks) > 2
    pinned = [line for line in lines if "==" in line and not line.startswith((" ", "#"))]
    found = list(trusted.locked(paths.ROOT))
    assert len(found) == len(pinned)
    assert all(each.checksums for each in found)


def test_another_version_than_the_locked_one_says_nothing_of_it() -> None:
    assert trusted.licence("pyyaml", "0.1") == ""


def test_go_modules_have_gos_checksum_and_the_licence_of_their_source(root: Path) -> None:
    found = by_name(trusted.modules(root))
    assert set(found) == {"github.com/BurntSushi/toml", "k8s.io/api", "example.com/odd", "example.com/nosum"}
    toml, api = found["github.com/BurntSushi/toml"], found["k8s.io/api"]
    assert (toml.checksums, toml.licence) == (("h1:toml=",), "MIT")
    assert (api.version, api.checksums) == ("v0.34.4", ("h1:api=",)), "what replaces it is what is built"
    assert found["example.com/odd"].gaps() == ["licence"]
    assert found["example.com/nosum"].gaps() == ["checksum", "licence"]


def test_no_module_of_our_own_tools_is_missed() -> None:
    found = {(each.name, each.version) for each in trusted.modules(paths.ROOT)}
    for file in (paths.ROOT / trusted.TOOLS).glob("*/go.mod"):
        lines = file.read_text().splitlines()
        replaced = {line.split()[-4] for line in lines if " => " in line and len(line.split()) > 3}
        wanted = [line.split() for line in lines if line[0:1] == "\t" and " v" in line and "=>" not in line]
        assert [words for words in wanted if words[0] not in replaced and tuple(words[:2]) not in found] == []


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        (MIT, "MIT"),
        (APACHE, "Apache-2.0"),
        (BSD2, "BSD-2-Clause"),
        (f"{BSD2}. Neither name may be used to endorse or promote products", "BSD-3-Clause"),
        ("Mozilla Public License Version 2.0", "MPL-2.0"),
        ("Permission to use, copy, modify, and/or distribute this software", "ISC"),
        (f"{MIT}\n{APACHE}", ""),
        ("All rights reserved.", ""),
    ],
)
def test_a_licence_is_named_only_by_its_own_words(text: str, licence: str) -> None:
    assert trusted.licence_of_text(text) == licence


def test_an_image_without_a_digest_is_a_gap(root: Path) -> None:
    found = by_name(images.published(root, f"kindest/node:v1@{B}"))
    assert (found["debian"].version, found["debian"].checksums) == ("slim", (A,))
    assert found["r.io:5000/gpu"].version == ""
    assert found["r.io:5000/gpu"].gaps() == ["version", "checksum", "licence"]
    assert found["kindest/node"].checksums == (B,)
    assert "checksum" in found["registry"].gaps()


DPKG = "ii \tbash\t5.2\nrc \tgone\t1.0\nii \tzlib1g\t1:1.3\n"
COPYRIGHT = "bash/copyright:License: GPL-3+\nbash/copyright:License: GFDL\n"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An engine with one image; programs that are in what is returned are in none."""
    missing: list[str] = []

    def output(*command: str) -> str:
        if set(missing) & set(command):
            raise CommandError("no such program")
        if command[:3] == ("docker", "image", "inspect"):
            return f"{B}\n"
        return "1.21" if "--version" in command else COPYRIGHT if "sh" in command else DPKG

    for module in (trusted, images):
        monkeypatch.setattr(module, "output", output)
    monkeypatch.setattr(docker, "has_image", lambda name: name == "trainstack/node:1")
    monkeypatch.setattr(docker, "ensure_answers", lambda: None)
    return missing


def test_an_images_debian_packages(engine: list[str]) -> None:
    found = [each for each in trusted.in_image("trainstack/node:1") if isinstance(each, Trusted)]
    assert [(each.name, each.version, each.licence) for each in found] == [
        ("bash", "5.2", "GFDL, GPL-3+"),
        ("zlib1g", "1:1.3", ""),
    ]
    assert found[1].gaps() == ["checksum", "licence"]


def test_an_image_without_dpkg_has_none_and_one_that_is_away_is_unknown(engine: list[str]) -> None:
    engine.append("dpkg-query")
    assert list(trusted.in_image("trainstack/node:1")) == []
    (away,) = trusted.in_image("elsewhere:1")
    assert isinstance(away, Unknown)


def test_on_the_host_only_what_we_installed_counts(engine: list[str], tmp_path: Path) -> None:
    assert list(trusted.on_host({agreed.MACHINE: str(tmp_path)})) == []
    (tmp_path / "packages").write_text("bash\nremoved-since\n")
    assert [each.name for each in trusted.on_host({agreed.MACHINE: str(tmp_path)})] == ["bash"]


def test_the_list_names_every_gap_and_the_bill_has_all(
    root: Path, engine: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bill = root / "audit" / "bill.json"
    environment = {"TRAINSTACK_NODE_IMAGE": "trainstack/node:1", agreed.MACHINE: str(root)}
    sbom.write(root, "audit/bill.json", environment, f"kindest/node:v1@{B}")
    said = capsys.readouterr().out
    for line in (
        "     9  Python packages",
        "     4  Go modules",
        "     2  Debian packages",
        "     6  images",
        "gap: 8 Python packages without a licence: "
        "not-here, of-board, of-browser, of-plots, of-site, of-sweep and 2 more",
        "gap: 1 Go modules without a checksum: example.com/nosum",
        "gap: 2 Debian packages without a checksum: bash, zlib1g",
        "gap: 1 images without a version: r.io:5000/gpu",
        "written: audit/bill.json",
    ):
        assert line in said.splitlines()
    written = json.loads(bill.read_text())
    assert (written["bomFormat"], written["specVersion"]) == ("CycloneDX", "1.6")
    assert len(written["components"]) == 21
    (node,) = (each for each in written["components"] if each["name"] == "kindest/node")
    assert node["hashes"] == [{"alg": "SHA-256", "content": "b" * 64}]
    (pyyaml,) = (each for each in written["components"] if each["name"] == "pyyaml")
    assert pyyaml["purl"] == f"pkg:pypi/pyyaml@{metadata.version('pyyaml')}"
    assert pyyaml["licenses"] == [{"license": {"id": "MIT"}}]
    assert "hashes" not in pyyaml, "they are of several files"
    assert [each["value"] for each in pyyaml["properties"] if each["name"] == "trainstack:checksum"] == [A, B]
    (odd,) = (each for each in written["components"] if each["name"] == "example.com/odd")
    assert "licenses" not in odd, "nothing is invented"


def test_without_an_engine_the_rest_is_listed_and_the_engine_named(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise docker.EngineError("no")

    monkeypatch.setattr(docker, "ensure_answers", away)
    found = list(sbom.collect(root, {agreed.MACHINE: str(root)}, []))
    assert {each.kind for each in found if isinstance(each, Trusted)} == {Kind.PYTHON, Kind.GO, Kind.IMAGE}
    assert "gap: images of this machine: no container engine answers" in list(sbom.lines(found))


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_name_in_the_bill(kind: Kind) -> None:
    text = sbom.document([Trusted(kind=kind, name="group/thing", version="1", place="here")])
    (component,) = json.loads(text)["components"]
    assert component["purl"].startswith(f"pkg:{sbom.PURL[kind]}/")
    assert "hashes" not in component
