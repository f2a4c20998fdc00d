"""A real Prometheus with a real node_exporter, set up as docs/monitoring.md says, and the dashboard's queries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from infra.atomic_file import write_whole
from tests import containers
from tests.containers import GIVEN
from tests.e2e import clones
from tests.e2e.waiting import wait_until
from toolchain.machine.engine import Engine
from toolchain.steps import SetupError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "monitoring.md"
ALERTS = ROOT / "monitoring" / "alerts.yaml"
DASHBOARD = json.loads((ROOT / "monitoring" / "grafana-dashboard.json").read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
SERVER = "http://127.0.0.1:9090"


class Scraped:
    """A container with a Prometheus that is set up as docs/monitoring.md says, and with the text that it scrapes.

    Parameters:
        folder: what the container finds as GIVEN.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.text = ""
        self.container = ""

    def start(self, label: str, text: str) -> None:
        """Start it with this text to scrape; `label` is of the container."""
        inside = HERE / "inside" / "serve.sh"
        containers.give(
            self.folder, {"alerts.yaml": ALERTS, "prometheus.yaml": configuration(), inside.name: inside}
        )
        self.tell(text)
        mount = ("--volume", f"{self.folder}:{GIVEN}:ro", "--label", label)
        image = containers.image(self.engine, HERE.name)
        command = ("sh", f"{GIVEN}/{inside.name}", GIVEN)
        self.container = self.engine.output("run", "--detach", *containers.ALONE, *mount, image, *command)

    def tell(self, text: str) -> None:
        """Put `text` in the place of the one before, as `make status ARGS=--metrics` does."""
        write_whole(self.folder / "trainstack.prom", text)
        self.text = text

    def ends(self) -> str:
        """What it has said, where it does not run any more; else nothing."""
        if self.engine.output("inspect", "--format", "{{.State.Running}}", self.container) == "true":
            return ""
        return self.engine.output("logs", self.container)

    def query(self, expression: str) -> list[dict[str, Any]]:
        command = ("promtool", "query", "instant", "--format=json", SERVER, expression)
        found: list[dict[str, Any]] = json.loads(self.engine.output("exec", self.container, *command))
        return found

    def alerts(self, state: str) -> set[str]:
        """The names of those that are `pending` or `firing`."""
        return {each["metric"]["alertname"] for each in self.query(f'ALERTS{{alertstate="{state}"}}')}


def configuration() -> str:
    """The page's own, but that it scrapes each second, and that the clone is where the container has it."""
    (shown,) = re.findall(r"^ *```yaml\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    settings = yaml.safe_load(shown.replace("/srv/trainstack/monitoring/", f"{GIVEN}/"))
    return yaml.safe_dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, **settings})


def filled_in(expression: str) -> str:
    """`expression` as Grafana asks it, with every stack chosen."""
    return expression.replace("$stack", ".*")


@contextmanager
def scraping(engine: Engine, text: str) -> Iterator[Scraped]:
    """A Prometheus that has scraped `text`, in a container that goes with the block."""
    with clones.owned("prometheus") as folder:
        made = Scraped(engine, folder / "given")
        made.folder.mkdir()
        made.start(f"{clones.PROJECT_LABEL}={folder}", text)

        def has_scraped() -> bool:
            assert not (said := made.ends()), said
            try:
                return bool(made.query("trainstack_status_timestamp_seconds"))
            except SetupError:  # it does not answer yet
                return False

        wait_until("Prometheus has scraped the textfile", has_scraped)
        yield made
