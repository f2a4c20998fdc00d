"""Variables that change what is applied: a review knows what set-up has set, and not what the shell has."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pulumi_kubernetes
import pytest

from infra import agreed, paths, program
from infra.config import shell_variables
from infra.config.errors import ConfigError
from infra.config.image import ImageConfig
from infra.config.load import Stack
from infra.config.shell_variables import CHANGES, IMAGES
from infra.image import inputs
from tests.unit.infra.config.test_sweep import of, under_way
from tests.unit.infra.samples import stack

OURS, THEIRS = "trainstack/made:here", "trainstack/made:elsewhere"
"""Both look like an image of set-up's: its record tells them apart, and not the value."""
NAMED = re.compile(r"TRAINSTACK_[A-Z_]*(?:IMAGE|BASE)\b")
SETTERS: dict[str, tuple[str | None, str | None, bool]] = {
    "nobody": (None, None, False),
    "set-up": (OURS, OURS, False),
    "set-up, not in this shell": (OURS, None, False),
    "the shell": (None, THEIRS, True),
    "both": (OURS, THEIRS, True),
    "nobody, but it is empty": (None, "", False),
}
"""Who has set it -> what set-up has recorded, what the variable holds, and whether no review has shown that."""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shell_variables, "RECORD", tmp_path / "env.json")
    return shell_variables.RECORD


def protected() -> Stack:
    return stack(protected=True)


def ensured(given: Stack, environment: dict[str, str]) -> list[str]:
    warned: list[str] = []
    shell_variables.ensure_reviewed(given, warned.append, environment)
    return warned


@pytest.mark.parametrize("setter", SETTERS)
@pytest.mark.parametrize("variable", CHANGES)
def test_what_the_shell_sets_is_refused_or_said(record: Path, variable: str, setter: str) -> None:
    recorded, value, is_unseen = SETTERS[setter]
    record.write_text(json.dumps({variable: recorded} if recorded else {}))
    environment = {} if value is None else {variable: value}
    warned = ensured(stack(), environment)
    assert bool(warned) is is_unseen
    if not is_unseen:
        assert ensured(protected(), environment) == []
        return
    with pytest.raises(ConfigError) as refused:
        ensured(protected(), environment)
    for said in (warned[0], str(refused.value)):
        assert variable in said
        assert THEIRS in said
        assert f"fix: unset {variable}" in said
        assert ("image.dockerfile" in said) is variable.endswith("_BASE")


@pytest.mark.parametrize("text", [None, "", "[]", "{", '"x"', "null"])
def test_without_a_record_nothing_counts_as_set_up(record: Path, text: str | None) -> None:
    if text is not None:
        record.write_text(text)
    assert shell_variables.of_shell(dict.fromkeys(CHANGES, OURS)) == dict.fromkeys(CHANGES, OURS)


@pytest.mark.parametrize("variable", inputs.BASES.values())
@pytest.mark.parametrize("setter", SETTERS)
def test_a_run_depends_on_a_base_of_the_shell_alone(record: Path, variable: str, setter: str) -> None:
    """ADR 19: one that set-up has made stands for the one that the Dockerfile names."""
    recorded, value, counts = SETTERS[setter]
    record.write_text(json.dumps({variable: recorded} if recorded else {}))
    config = ImageConfig.model_validate({"target": "gpu"})
    environment = {} if value is None else {variable: value}
    usual = inputs.identity(config, paths.ROOT, {})
    assert (inputs.identity(config, paths.ROOT, environment) != usual) is counts


def test_each_variable_that_names_an_image_is_in_the_table() -> None:
    files = [file for room in ("infra", "toolchain") for file in (paths.ROOT / room).rglob("*.py")]
    assert {name for file in files for name in NAMED.findall(file.read_text())} == set(IMAGES)


UNCHANGING = {
    "DELETE_UNREACHABLE": "the program takes it out, and `make` asks for it itself: infra/clusters/kind/component.py",
    "ENABLE_PATCH_FORCE": "the program says it itself: TAKES_FIELDS_BACK",
    "AWAIT_ALL": "waits longer for the same objects",
    **{f"CLIENT_{name}": "how fast the plugin asks" for name in ("BURST", "QPS", "TIMEOUT")},
    **{f"SUPPRESS_{name}_WARNINGS": "what it prints" for name in ("DEPRECATION", "HELM_HOOK")},
    **{
        f"HELM_{name}": "the program has no chart"
        for name in ("DRIVER", "PLUGINS_PATH", "REGISTRY_CONFIG_PATH")
    },
    **{f"HELM_REPOSITORY_{name}": "the program has no chart" for name in ("CACHE", "CONFIG_PATH")},
}
"""Variables of the Kubernetes plugin that change nothing that a stack applies, without `PULUMI_K8S_`, and why."""


def test_each_variable_of_the_kubernetes_plugin_is_in_one_class() -> None:
    sdk = Path(pulumi_kubernetes.__file__).parent
    files = [sdk / "provider.py", sdk / "_inputs.py", paths.ROOT / "standins/pulumi_standins/border.py"]
    text = "".join(file.read_text() for file in files)
    read = set(re.findall(r"['\"`](PULUMI_K8S_[A-Z0-9_]+)", text))
    changing = {name for name in CHANGES if name.startswith("PULUMI_K8S_")}
    assert read - changing == {f"PULUMI_K8S_{name}" for name in UNCHANGING}
    assert changing <= read


def test_trials_of_the_shell_are_no_part_of_a_protected_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(agreed.TRIALS, str(under_way(tmp_path, 1)))
    assert program.with_trials(of()).trials
    with pytest.raises(ConfigError, match=f"fix: unset {agreed.TRIALS}"):
        program.with_trials(replace(of(), protected=True))
