"""The alert rules, as promtool reads them: each fires when it should, and only then."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import examples

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "alerts.yaml"
CASES = Path(__file__).with_name("alerts_test.yaml")


def promtool(prometheus: Path, *arguments: str, given: str = "") -> str:
    done = subprocess.run([prometheus / "promtool", *arguments], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_promtool_takes_the_rules(prometheus: Path) -> None:
    assert f"{len(rules())} rules found" in promtool(prometheus, "check", "rules", "--lint=all", str(RULES))


def test_each_alert_fires_when_it_should(prometheus: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.yaml"
    cases.write_text(CASES.read_text().replace("RULES", str(RULES)))
    assert "SUCCESS" in promtool(prometheus, "test", "rules", str(cases))


@pytest.mark.parametrize(
    "changed", [("== 1", "== 2"), ("< 0.1", "< 0.01"), ("> 900", "> 90000"), ("== 0", "== 3")]
)
def test_a_changed_rule_fails_its_cases(prometheus: Path, tmp_path: Path, changed: tuple[str, str]) -> None:
    """The cases themselves can fail."""
    (tmp_path / "rules.yaml").write_text(RULES.read_text().replace(*changed))
    cases = tmp_path / "cases.yaml"
    cases.write_text(CASES.read_text().replace("RULES", "rules.yaml"))
    done = subprocess.run([prometheus / "promtool", "test", "rules", cases], capture_output=True, text=True)
    assert "FAILED" in done.stdout + done.stderr
    assert done.returncode


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tried: dict[str, set[bool]] = {}
    for test in yaml.safe_load(CASES.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            tried.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    assert tried == {rule["alert"]: {True, False} for rule in rules()}


def test_every_alert_names_a_page_that_there_is() -> None:
    for rule in rules():
        assert (ROOT / rule["annotations"]["runbook"]).is_file(), rule["alert"]


def test_promtool_has_nothing_against_the_metrics(
    prometheus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = examples.whole(tmp_path, monkeypatch)
    assert promtool(prometheus, "check", "metrics", given=told) == ""
