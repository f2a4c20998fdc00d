"""The alert rules, as promtool reads them: each fires when it should, and only then."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import containers
from tests.containers import GIVEN
from tests.monitoring import examples
from toolchain.machine.engine import Engine
from toolchain.operating import environment, prometheus_text
from toolchain.operating.status import Finding, Health, Part
from toolchain.runs import records

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "alerts.yaml"
SUITE = Path(__file__).parent.name
CASES = Path(__file__).with_name("alerts_test.yaml")


class Promtool:
    """Debian's promtool, in a container for each call; `files` by name -> file or text."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def run(
        self, *arguments: str, files: Mapping[str, Path | str], given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return containers.run(self.engine, SUITE, ["promtool", *arguments], files, given)

    def says(self, *arguments: str, files: Mapping[str, Path | str], given: str = "") -> str:
        done = self.run(*arguments, files=files, given=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def promtool(engine: Engine) -> Promtool:
    return Promtool(engine)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_promtool_takes_the_rules(promtool: Promtool) -> None:
    said = promtool.says("check", "rules", "--lint=all", f"{GIVEN}/{RULES.name}", files={RULES.name: RULES})
    assert f"{len(rules())} rules found" in said


def test_each_alert_fires_when_it_should(promtool: Promtool) -> None:
    said = promtool.says("test", "rules", f"{GIVEN}/cases.yaml", files=with_cases(RULES.read_text()))
    assert "SUCCESS" in said


@pytest.mark.parametrize(
    "changed", [("== 1", "== 2"), ("< 0.1", "< 0.01"), ("> 900", "> 90000"), ("== 0", "== 3")]
)
def test_a_changed_rule_fails_its_cases(promtool: Promtool, changed: tuple[str, str]) -> None:
    """The cases themselves can fail."""
    files = with_cases(RULES.read_text().replace(*changed))
    done = promtool.run("test", "rules", f"{GIVEN}/cases.yaml", files=files)
    assert "FAILED" in done.stdout + done.stderr
    assert done.returncode


def with_cases(text: str) -> dict[str, str]:
    """The files of the cases for rules of this text."""
    return {"cases.yaml": CASES.read_text().replace("RULES", RULES.name), RULES.name: text}


def test_a_look_that_ends_before_the_jobs_raises_an_alert(
    promtool: Promtool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever part cannot be told of: no job has a sample then, and no other rule has one to read."""
    monkeypatch.setattr(records, "MODELS", tmp_path)
    monkeypatch.setattr(environment, "cluster_access", lambda stack: None)
    asked = 'max by (stack) (ALERTS{alertstate="firing"})'
    expected = {"expr": asked, "eval_time": "10m", "exp_samples": [{"labels": '{stack="dev"}', "value": 1}]}
    tests = []
    for part in [each for each in Part if each not in (Part.JOB, Part.EVENT)]:
        told = prometheus_text.text("dev", [Finding(part, Health.UNKNOWN, "")])
        samples = [line.rpartition(" ") for line in told.splitlines() if not line.startswith("#")]
        series = [{"series": name, "values": f"{value}x20"} for name, _, value in samples]
        tests.append(
            {"name": part.value, "interval": "1m", "input_series": series, "promql_expr_test": [expected]}
        )
    cases = {"rule_files": [RULES.name], "evaluation_interval": "1m", "tests": tests}
    files: dict[str, Path | str] = {RULES.name: RULES, "cases.yaml": yaml.safe_dump(cases)}
    assert "SUCCESS" in promtool.says("test", "rules", f"{GIVEN}/cases.yaml", files=files)


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
    promtool: Promtool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = examples.whole(tmp_path, monkeypatch)
    assert promtool.says("check", "metrics", files={}, given=told) == ""
