"""A real Prometheus scrapes what `make status --metrics` writes: every query of the dashboard finds something."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.processes import kill
from tests.e2e.waiting import HANG_S, wait_until
from tests.monitoring import examples
from toolchain.operating.status import Part

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "monitoring" / "grafana-dashboard.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
LOOPBACK = "127.0.0.1"


class Scraped:
    """A textfile behind HTTP, and the Prometheus that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = ""
        self.address = f"http://{LOOPBACK}:{_free_port()}"

    def configuration(self, port: int) -> dict[str, Any]:
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ROOT / "monitoring" / "alerts.yaml")],
            # As with node_exporter's textfile collector: the job is a label of the metrics' own.
            "scrape_configs": [
                {
                    "job_name": "textfile",
                    "honor_labels": True,
                    "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}],
                }
            ],
        }

    def ask(self, path: str, **parameters: str) -> Any:
        address = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=HANG_S) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def firing(self) -> set[str]:
        return {
            each["labels"]["alertname"] for each in self.ask("alerts")["alerts"] if each["state"] == "firing"
        }


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def scraped(prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    made = Scraped(folder)
    with pytest.MonkeyPatch.context() as patch:
        made.text = examples.whole(folder / "models", patch)

    class Textfile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(made.text.encode())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Textfile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(made.configuration(server.server_address[1])))
    command = [
        str(prometheus / "prometheus"),
        "--config.file",
        "prometheus.yaml",
        "--storage.tsdb.path",
        "data",
    ]
    command += ["--web.listen-address", made.address.removeprefix("http://")]
    log = folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(command, cwd=folder, stdout=sink, stderr=subprocess.STDOUT)
    try:

        def has_scraped() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return bool(made.query("trainstack_status_timestamp_seconds"))
            except urllib.error.URLError:
                return False

        wait_until("Prometheus has scraped the textfile", has_scraped)
        yield made
    finally:
        kill(process)
        server.shutdown()
        server.server_close()


def filled_in(expression: str) -> str:
    """`expression` as Grafana asks it, with every stack chosen."""
    return expression.replace("$stack", ".*")


def test_the_dashboard_has_queries() -> None:
    assert len(QUERIES) > 8
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize(("title", "expression"), QUERIES)
def test_every_query_of_the_dashboard_finds_a_series(scraped: Scraped, title: str, expression: str) -> None:
    assert "$" not in filled_in(expression)
    assert scraped.query(filled_in(expression))


def test_the_dashboard_offers_the_stacks(scraped: Scraped) -> None:
    (asked,) = [each["definition"] for each in DASHBOARD["templating"]["list"] if each["name"] == "stack"]
    (parts,) = re.findall(r"^label_values\((\w+), (\w+)\)$", asked)
    assert {each["metric"][parts[1]] for each in scraped.query(parts[0])} == {"dev"}


def test_every_metric_is_on_the_dashboard_or_in_an_alert(scraped: Scraped) -> None:
    shown = json.dumps(DASHBOARD) + (ROOT / "monitoring" / "alerts.yaml").read_text()
    told = set(re.findall(r"^# TYPE (\w+)", scraped.text, re.MULTILINE))
    assert len(told) > 12
    assert {name for name in told if not re.search(rf"\b{name}\b", shown)} == {
        "trainstack_job_created_timestamp_seconds",
        "trainstack_last_run_finished",
    }


def test_the_values_arrive_as_they_were_told(scraped: Scraped) -> None:
    found = scraped.query("trainstack_last_run_accuracy_ratio")
    told = {each["metric"]["job"]: float(each["value"][1]) for each in found}
    assert told == dict(examples.RUNS)


def test_an_alert_fires_in_a_real_prometheus(
    scraped: Scraped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until("the failed job is told of", lambda: "TrainstackJobFailed" in scraped.firing())
    scraped.text = examples.whole(tmp_path, monkeypatch, down=[Part.OPERATOR])

    def is_pending() -> bool:
        return any(
            each["labels"]["alertname"] == "TrainstackOperatorDown"
            for each in scraped.ask("alerts")["alerts"]
        )

    wait_until("the operator is missed", is_pending)
