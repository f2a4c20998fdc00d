"""The file backend with the real pulumi: a backend of the user's own, and secrets in two clones."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.unit.toolchain.conftest import Machine, git, prepare
from toolchain.operating import environment

pytestmark = [
    pytest.mark.pulumi,
    pytest.mark.skipif(
        not shutil.which("pulumi", path=environment.path()), reason="no pulumi yet: `make up` sets one up"
    ),
]


@pytest.fixture
def clone(project: Machine) -> Machine:
    """The project with the real pulumi instead of the fake one."""
    (project.bin / "pulumi").unlink()
    (project.bin / "pulumi").symlink_to(str(shutil.which("pulumi", path=environment.path())))
    return project


def test_real_pulumi_makes_the_stack_in_the_users_backend(clone: Machine) -> None:
    place = clone.home / "backend"
    place.mkdir()
    ours = prepare(clone)
    clone.variables.update(PULUMI_BACKEND_URL=place.as_uri(), PULUMI_CONFIG_PASSPHRASE="theirs")
    assert prepare(clone) != ours
    keep_a_secret(clone)
    assert json.loads(pulumi(clone, "stack", "output", "--json", "--show-secrets")) == {"it": "hidden"}
    assert (place / ".pulumi" / "stacks" / "trainstack" / "dev.json").exists()
    clone.variables.clear()
    assert prepare(clone) == ours
    assert json.loads(pulumi(clone, "stack", "output", "--json")) == {}, "our own backend holds nothing of it"
    assert git(clone.root, "status", "--porcelain") == ""


def test_real_pulumi_keeps_secrets_in_two_clones_with_passphrases_of_their_own(clone: Machine) -> None:
    second = Machine(clone.root.parent / "second", clone.home, clone.bin, clone.calls)
    prepare(clone)
    git(clone.root, "clone", "--quiet", str(clone.root), str(second.root))
    for one in (clone, second):
        prepare(one)
        keep_a_secret(one)
        assert git(one.root, "status", "--porcelain") == ""
        git(one.root, "checkout", "--quiet", "--force", "--", "stacks")
    passphrases = {(one.root / ".trainstack" / "passphrase").read_text() for one in (clone, second)}
    assert len(passphrases) == 2
    # First with the salt gone from the stack file, then with it there again.
    prepare(second)
    for one in (clone, second):
        assert json.loads(pulumi(one, "stack", "output", "--json", "--show-secrets")) == {"it": "hidden"}


def pulumi(clone: Machine, *arguments: str) -> str:
    code = f"""
import os
from toolchain.operating import environment
os.execvpe("pulumi", ["pulumi", *{arguments!r}], environment.for_child(environment.for_stack({{}}, "dev")))
"""
    done = clone.python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def keep_a_secret(clone: Machine) -> None:
    """Put a secret output into the stack's state, as a program would."""
    state = json.loads(pulumi(clone, "stack", "export"))
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": '"hidden"'}
    state["deployment"]["resources"] = [
        {
            "urn": "urn:pulumi:dev::trainstack::pulumi:pulumi:Stack::trainstack-dev",
            "type": "pulumi:pulumi:Stack",
            "custom": False,
            "outputs": {"it": secret},
        }
    ]
    (clone.root / ".trainstack" / "state.json").write_text(json.dumps(state))
    pulumi(clone, "stack", "import", "--file", ".trainstack/state.json")
