"""The file backend: its secrets stay out of git, and a second clone has secrets of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.unit.toolchain.conftest import ROOT, STACK, Machine, git, prepare


def test_the_passphrase_is_made_once_for_the_user_alone(project: Machine) -> None:
    prepare(project)
    passphrase = project.root / ".trainstack" / "passphrase"
    first = passphrase.read_text()
    assert passphrase.stat().st_mode & 0o777 == 0o600
    assert len(first.strip()) >= 32
    prepare(project)
    assert passphrase.read_text() == first


def test_the_salt_is_added_and_nothing_else_changes(project: Machine) -> None:
    text = prepare(project)
    assert text.startswith(STACK)
    assert text.removeprefix(STACK).startswith("encryptionsalt: v1:salt-of:")
    assert text.count("encryptionsalt") == 1
    assert prepare(project) == text


def test_a_file_with_other_line_ends_keeps_them(project: Machine) -> None:
    file = project.root / "stacks" / "Pulumi.dev.yaml"
    before = STACK.replace("\n", "\r\n").encode()
    file.write_bytes(before)
    prepare(project)
    assert file.read_bytes().startswith(before + b"encryptionsalt: v1:")


def test_git_sees_no_change_and_commits_no_salt(project: Machine) -> None:
    prepare(project)
    assert git(project.root, "status", "--porcelain") == ""
    with (project.root / "stacks" / "Pulumi.dev.yaml").open("a") as stack:
        stack.write("# an edit of the user's\n")
    assert git(project.root, "status", "--porcelain").split() == ["M", "stacks/Pulumi.dev.yaml"]
    git(project.root, "commit", "--quiet", "--all", "--message", "edit")
    assert git(project.root, "show", "HEAD:stacks/Pulumi.dev.yaml") == STACK + "# an edit of the user's\n"


def test_the_salt_of_encrypted_values_is_committed_with_them(project: Machine) -> None:
    prepare(project)
    stack = project.root / "stacks" / "Pulumi.dev.yaml"
    stack.write_text(stack.read_text() + "  trainstack:token:\n    secure: v1:abc\n")
    git(project.root, "commit", "--quiet", "--all", "--message", "a secret")
    assert "encryptionsalt" in git(project.root, "show", "HEAD:stacks/Pulumi.dev.yaml")


def test_a_checkout_that_takes_the_salt_away_gets_the_same_one_back(project: Machine) -> None:
    text = prepare(project)
    stack = project.root / "stacks" / "Pulumi.dev.yaml"
    stack.unlink()
    git(project.root, "checkout", "--quiet", "--", "stacks")
    assert stack.read_text() == STACK
    assert prepare(project) == text


def test_a_new_passphrase_gets_a_new_salt(project: Machine) -> None:
    old = prepare(project)
    (project.root / ".trainstack" / "passphrase").unlink()
    new = prepare(project)
    assert new != old
    assert new.startswith(STACK)
    assert new.count("encryptionsalt") == 1


def theirs(project: Machine) -> dict[str, str]:
    """A backend and a passphrase of the user's own."""
    file = project.home / "passphrase"
    file.write_text("theirs\n")
    return {"PULUMI_BACKEND_URL": "s3://bucket", "PULUMI_CONFIG_PASSPHRASE_FILE": str(file)}


def test_in_a_backend_of_the_users_nothing_of_ours_is_made(project: Machine) -> None:
    project.variables.update(theirs(project))
    text = prepare(project)
    assert text.startswith(STACK)
    assert text.removeprefix(STACK) == "encryptionsalt: v1:salt-of:theirs\n"
    assert {path.name for path in (project.root / ".trainstack").iterdir()} == {"logs"}
    assert git(project.root, "status", "--porcelain") == ""


def test_a_service_gets_no_salt_of_ours(project: Machine) -> None:
    assert "encryptionsalt" in prepare(project)
    project.variables["PULUMI_BACKEND_URL"] = "https://api.pulumi.com"
    assert prepare(project) == STACK
    assert project.called("pulumi")[-1] == "stack select --create --non-interactive dev"


def test_nothing_but_our_filter_is_added_to_gits_configuration(project: Machine) -> None:
    before = set(git(project.root, "config", "--local", "--list").splitlines())
    prepare(project)
    added = set(git(project.root, "config", "--local", "--list").splitlines()) - before
    assert {line.split("=")[0] for line in added} == {
        "filter.trainstack-salt.clean",
        "filter.trainstack-salt.smudge",
    }
    assert project.python("from toolchain.operating import backend; backend.forget_filter()").returncode == 0
    assert set(git(project.root, "config", "--local", "--list").splitlines()) == before


def test_a_folder_without_git_works_too(project: Machine) -> None:
    shutil.rmtree(project.root / ".git")
    assert "encryptionsalt" in prepare(project)


def test_no_salt_of_a_clones_own_passphrase_is_committed() -> None:
    for name in git(ROOT, "ls-tree", "-r", "--name-only", "HEAD", "stacks").split():
        if Path(name).match("stacks/Pulumi.*.yaml"):
            text = git(ROOT, "show", f"HEAD:{name}")
            assert "secure:" in text or not re.search(r"^encryptionsalt:", text, re.MULTILINE), name
