"""A real Prometheus scrapes what `make status --metrics` writes, and the alerts fire in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.waiting import wait_until
from tests.monitoring import examples
from tests.monitoring.scraped import ALERTS, DASHBOARD, QUERIES, Scraped, scraping
from toolchain.machine.engine import Engine
from toolchain.operating.status import Part


@pytest.fixture(scope="module")
def scraped(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    with pytest.MonkeyPatch.context() as patch:
        text = examples.whole(tmp_path_factory.mktemp("prometheus") / "models", patch)
    with scraping(engine, text) as made:
        yield made


def test_the_dashboard_has_queries() -> None:
    assert len(QUERIES) > 8
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_dashboard_offers_the_stacks(scraped: Scraped) -> None:
    (asked,) = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["name"] == "stack"]
    (parts,) = re.findall(r"^label_values\((\w+), (\w+)\)$", asked)
    assert {each["metric"][parts[1]] for each in scraped.query(parts[0])} == {"dev"}


def test_every_metric_is_on_the_dashboard_or_in_an_alert(scraped: Scraped) -> None:
    shown = json.dumps(DASHBOARD) + ALERTS.read_text()
    told = set(re.findall(r"^# TYPE (\w+)", scraped.text, re.MULTILINE))
    assert len(told) > 12
    assert {name for name in told if not re.search(rf"\b{name}\b", shown)} == {
        "trainstack_job_created_timestamp_seconds",
        "trainstack_last_run_finished",
    }


def test_an_alert_fires_in_a_real_prometheus(
    scraped: Scraped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until("the failed job is told of", lambda: "TrainstackJobFailed" in scraped.alerts("firing"))
    scraped.tell(examples.whole(tmp_path, monkeypatch, down=[Part.OPERATOR]))
    wait_until("the operator is missed", lambda: "TrainstackOperatorDown" in scraped.alerts("pending"))
