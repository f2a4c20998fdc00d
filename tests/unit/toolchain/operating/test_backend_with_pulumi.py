"""The file backend with the real pulumi: the user's own, secrets in two clones, and two people on one at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.toolchain.conftest import PATIENCE_S, Machine, git, prepare
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


STACK = "urn:pulumi:dev::trainstack::pulumi:pulumi:Stack::trainstack-dev"
EDITS, REFRESHES = 2, 3
# No test fails for want of speed: each waits for its turn as long as it takes.
PATIENT = f"from toolchain.operating import stack_locks\nstack_locks.WAIT_S = {PATIENCE_S}\n"
EDIT = """
import sys
from toolchain.operating import environment, pulumi_cli

def add(name):
    urn = f"urn:pulumi:dev::trainstack::pulumi:pulumi:Stack$test:it:It::{name}"
    made = {"urn": urn, "type": "test:it:It", "custom": False, "parent": STACK}

    def edit(deployment):
        if urn not in [each["urn"] for each in deployment["resources"]]:
            deployment["resources"].append(made)

    return edit

for number in range(EDITS):
    pulumi_cli.edit_state(environment.for_stack({}, "dev"), "dev", add(f"{sys.argv[1]}-{number}"))
"""
EDIT = f"{PATIENT}STACK, EDITS = {STACK!r}, {EDITS}\n{EDIT}"
REFRESH = f"""{PATIENT}import sys
from toolchain.operating import environment, pulumi_cli

for number in range(int(sys.argv[1])):
    words = ("refresh", "--yes", "--skip-preview", "--non-interactive", "--stack", "dev")
    status = pulumi_cli.stream(environment.for_stack({{}}, "dev"), *words)
    assert status == 0, status
"""


@pytest.fixture
def two(clone: Machine) -> Iterator[tuple[Machine, Machine]]:
    """Two people with a clone each, on one backend of files, in which the stack has a resource."""
    place = clone.home / "a backend"
    place.mkdir()
    second = Machine(clone.root.parent / "second", clone.home, clone.bin, clone.calls)
    git(clone.root, "clone", "--quiet", str(clone.root), str(second.root))
    for one in (clone, second):
        one.variables.update(PULUMI_BACKEND_URL=place.as_uri(), PULUMI_CONFIG_PASSPHRASE="theirs")
        prepare(one)
    keep_a_secret(clone)
    yield clone, second
    assert not list(place.rglob("locks/**/*.json")), "nobody leaves a lock behind"
    assert not list(place.rglob("*.attrs")), "a file that the other one may read half written"


def begin(clone: Machine, code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a piece of Python of the clone's beside others."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            *arguments,
            "toolchain",
        ],  # as `python -m toolchain`, which a lock looks for
        cwd=clone.root,
        env=clone.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(*running: subprocess.Popen[str]) -> list[str]:
    """What each has printed; all have ended well."""
    try:
        said = [each.communicate(timeout=PATIENCE_S)[0] for each in running]
    finally:
        for each in running:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
    assert [each.returncode for each in running] == [0] * len(running), "\n".join(said)
    return said


def test_two_who_edit_a_state_while_both_refresh_it_lose_nothing(two: tuple[Machine, Machine]) -> None:
    first, second = two
    refreshing = [begin(each, REFRESH, str(REFRESHES)) for each in two]
    ended(begin(first, EDIT, "a"), begin(second, EDIT, "b"), *refreshing)
    kept = json.loads(pulumi(first, "stack", "export"))["deployment"]["resources"]
    names = {each["urn"].rpartition("::")[2] for each in kept}
    assert names == {"trainstack-dev", *(f"{who}-{number}" for who in "ab" for number in range(EDITS))}
    assert json.loads(pulumi(second, "stack", "output", "--json", "--show-secrets")) == {"it": "hidden"}
    assert len(updates(first)) == len(updates(second)) == 2 * REFRESHES, "each has waited for its turn"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["just made", "just removed"])
def test_a_lock_that_another_writes_or_removes_meanwhile_is_waited_for(
    two: tuple[Machine, Machine], kind: str
) -> None:
    """Pulumi itself ends with an error then: it lists the locks, and reads each afterwards."""
    place = Path(two[0].home, "a backend", ".pulumi", "locks", "organization", "trainstack", "dev")
    lock = place / "it.json.18ab.tmp"
    if kind == "just made":
        lock.touch()
    else:
        lock.symlink_to("gone")
    working = begin(two[0], f"{REFUSED}{REFRESH}", "1")
    said = working.stdout and working.stdout.readline()
    while said and "refused" not in said:
        said = working.stdout and working.stdout.readline()
    assert said, "it did not meet the lock"
    lock.unlink()
    ended(working)
    assert len(updates(two[0])) == 1


REFUSED = """
from toolchain.operating import pulumi_cli, stack_locks
told = stack_locks.is_refusal

def is_refusal(said):
    refused = told(said)
    print("refused" if refused else "", flush=True)
    return refused

stack_locks.is_refusal = is_refusal
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(3))
def test_a_run_waits_for_a_living_one_and_says_whose_it_is(two: tuple[Machine, Machine], number: int) -> None:
    """The first is stopped in the middle of its work, so that it holds the lock for long."""
    first, second = two
    place = Path(first.home, "a backend", ".pulumi", "locks")
    pid, tries = None, 0
    while pid is None:
        working = begin(first, REFRESH, "1")
        pid = stopped_at_work(place, working)
        tries += 1
    waiting = begin(second, WAIT)
    said = waiting.stdout and waiting.stdout.readline()
    while said and f"waiting for process {pid} of " not in said:
        said = waiting.stdout and waiting.stdout.readline()
    assert said, "the second did not wait"
    assert list(place.rglob("*.json")), "nor took the lock away"
    os.kill(pid, signal.SIGCONT)
    ended(working, waiting)
    assert len(updates(first)) == tries + 1


WAIT = f"{PATIENT}stack_locks.release('dev')\n{REFRESH.replace('int(sys.argv[1])', '1')}"


def stopped_at_work(place: Path, working: subprocess.Popen[str]) -> int | None:
    """Stop the pulumi that has a lock in this folder; its process id, or None where `working` has ended before."""
    while working.poll() is None:
        for file in place.rglob("*.json"):
            with suppress(OSError, ValueError):
                pid = int(json.loads(file.read_text())["pid"])
                os.kill(pid, signal.SIGSTOP)
                while " T " not in Path(f"/proc/{pid}/stat").read_text():
                    time.sleep(0.001)
                if file.exists():
                    return pid
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.002)
    ended(working)
    return None


def updates(clone: Machine) -> list[str]:
    """The results of all updates that the stack's history has; each has succeeded."""
    told = json.loads(pulumi(clone, "stack", "history", "--json", "--page-size", "1000"))
    found = [each["result"] for each in told]
    assert set(found) <= {"succeeded"}
    return found


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
            "urn": STACK,
            "type": "pulumi:pulumi:Stack",
            "custom": False,
            "outputs": {"it": secret},
        }
    ]
    (clone.root / ".trainstack" / "state.json").write_text(json.dumps(state))
    pulumi(clone, "stack", "import", "--file", ".trainstack/state.json")
