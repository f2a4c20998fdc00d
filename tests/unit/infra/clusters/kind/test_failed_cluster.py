"""A cluster that kind cannot make: what its nodes have said is told before they go."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths
from infra.clusters.kind import kind_cli
from infra.clusters.kind.config import KindConfig
from infra.process import CommandError
from tests.unit.infra.clusters.kind.standin import Engine, node

SAID = {
    # As systemd says it where root has no instance of inotify left, with its colours.
    "\x1b[0;1;31mFailed to create control group inotify object: Too many open files\x1b[0m\r\nExiting PID 1...\n": (
        "sysctl -w fs.inotify.max_user_instances"
    ),
    "write /var/lib/containerd/x: no space left on device\n": "disk of the container engine",
    "Reached target Multi-User System.\n": "",
}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """Every `kind create` leaves a node and fails."""
    made = Engine(monkeypatch, tmp_path)
    made.finished = False
    return made


@pytest.mark.parametrize("said", SAID)
def test_the_error_has_the_nodes_last_words_and_the_fix(engine: Engine, said: str) -> None:
    engine.logs = lambda: "first\n" + "more\n" * 20 + said
    with pytest.raises(CommandError) as failed:
        kind_cli.create(KindConfig(name="c", stack="dev"), "image")
    text = str(failed.value)
    assert "no /etc/kubernetes/admin.conf" in text, "kind's own words"
    assert "the last lines of node c-control-plane:" in text
    assert said.splitlines()[0].replace("\x1b[0;1;31m", "").replace("\x1b[0m", "").strip() in text
    assert "first" not in text
    assert "\x1b" not in text
    assert SAID[said] in text if SAID[said] else "fix:" not in text
    assert engine.called("kind") == ["kind create cluster", "kind delete cluster"]
    assert engine.nodes == []


def test_nodes_whose_words_cannot_be_had_go_too(engine: Engine) -> None:
    def fail() -> str:
        raise CommandError("the engine is gone")

    engine.logs = fail
    with pytest.raises(CommandError, match=r"admin\.conf"):
        kind_cli.create(KindConfig(name="c", stack="dev"), "image")
    assert engine.nodes == []


QUICKER = {
    "another clone": lambda: node("c-control-plane", Path("/another/clone/c.json")),
    "another run of this clone": lambda: node("c-control-plane", paths.marker("c"), uid="another"),
}


@pytest.mark.parametrize("who", QUICKER)
def test_nodes_that_this_creation_did_not_make_are_not_touched(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Somebody was quicker, with the same name."""
    run = engine.run

    def too_late(*command: str, stdin: str | None = None) -> str:
        try:
            return run(*command, stdin=stdin)
        finally:
            engine.nodes = [QUICKER[who]()]

    monkeypatch.setattr(kind_cli, "output", too_late)
    with pytest.raises(CommandError, match=r"admin\.conf"):
        kind_cli.create(KindConfig(name="c", stack="dev"), "image")
    assert engine.called("kind") == ["kind create cluster"]
    assert paths.marker("c").exists()
