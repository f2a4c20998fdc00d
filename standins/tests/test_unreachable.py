"""What happens while a cluster cannot be reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from standins.tests.apiserver import ApiServer, free_ports
from standins.tests.driver import CallError, Driver
from standins.tests.flaky import changed_config
from standins.tests.project import CommandError, Project
from standins.tests.samples import annotated, config_map, obj

pytestmark = pytest.mark.apiserver

DriverWith = Callable[..., Driver]


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what does not come back."""
    monkeypatch.setenv("PULUMI_STANDINS_PATIENCE", "0.5")


@pytest.fixture
def nowhere(api_server: ApiServer) -> str:
    """A kubeconfig whose server has gone."""
    (port,) = free_ports(1)
    return changed_config(api_server, cluster={"server": f"https://127.0.0.1:{port}"})


def test_previews_go_on_and_updates_say_why_not(
    driver_with: DriverWith, nowhere: str, namespace: str
) -> None:
    made = driver_with().create(config_map(namespace, a="1"))
    driver = driver_with(kubeconfig=nowhere)
    assert driver.plan(made, config_map(namespace, a="2")).changes == {"data.a": "UPDATE_REPLACE"}
    assert driver.create(config_map(namespace, a="2"), preview=True).outputs["data"] == {"a": "2"}
    wanted = annotated(config_map(namespace, a="1"), replaceUnready="true")
    assert driver.update(made, wanted, preview=True).outputs["data"] == {"a": "1"}
    assert driver.plan(made, wanted).action == "update"
    assert "warning: Cluster is unreachable, skipping replaceUnready check" in driver.log
    changes: list[Callable[[], object]] = [
        lambda: driver.create(config_map(namespace)),
        lambda: driver.update(made, wanted),
    ]
    for change in changes:
        with pytest.raises(CallError, match="configured Kubernetes cluster is unreachable: unable to load"):
            change()


def test_refresh_and_destroy_say_what_can_be_done(
    driver_with: DriverWith, nowhere: str, namespace: str
) -> None:
    made = driver_with().create(config_map(namespace))
    driver = driver_with(kubeconfig=nowhere)
    for end in (driver.read, driver.delete):
        with pytest.raises(CallError, match=r"unreachable cluster|cluster is unreachable") as refused:
            end(made)
        assert "PULUMI_K8S_DELETE_UNREACHABLE" in str(refused.value)
    assert any("warning: configured Kubernetes cluster is unreachable" in line for line in driver.log)


def test_what_cannot_be_reached_can_be_given_up(
    driver_with: DriverWith, nowhere: str, namespace: str
) -> None:
    made = driver_with().create(config_map(namespace))
    driver = driver_with(kubeconfig=nowhere, deleteUnreachable="true")
    assert driver.read(made) is None
    driver.delete(made)
    said = [line for line in driver.log if "Deleting the unreachable resource from Pulumi state" in line]
    assert len(said) == 2


def test_a_cluster_that_goes_during_an_update_can_be_given_up(
    driver_with: DriverWith, api_server: ApiServer, namespace: str
) -> None:
    state_outputs, giving_up = driver_with(), driver_with(deleteUnreachable="true")
    first, second = (
        state_outputs.create(config_map(namespace)),
        state_outputs.create(obj("v1", "Secret", namespace)),
    )
    api_server.stop_server()
    try:
        with pytest.raises(CallError, match="refused"):
            state_outputs.delete(first)
        giving_up.delete(first)
        giving_up.delete(second)
    finally:
        api_server.start_server()
        api_server.wait_until_ready(time.monotonic() + 600)
    said = [line for line in giving_up.log if "Deleting the unreachable resource from Pulumi state" in line]
    assert len(said) == 2


PROGRAM = """
import pulumi, pulumi_kubernetes as k8s
p = k8s.Provider("cluster", kubeconfig="kubeconfig.yaml", cluster_identifier="same")
k8s.core.v1.ConfigMap("it", metadata={"name": "it", "namespace": "NAMESPACE"}, opts=pulumi.ResourceOptions(provider=p))
"""


def test_the_engine_keeps_or_gives_up_as_told(project: Project, nowhere: str, namespace: str) -> None:
    project.environment["PULUMI_STANDINS_PATIENCE"] = "2"
    project.write(PROGRAM.replace("NAMESPACE", namespace))
    project.up()
    Path(project.folder / "kubeconfig.yaml").write_text(nowhere)
    with pytest.raises(CommandError, match="unreachable") as refreshed:
        project.refresh()
    assert "PULUMI_K8S_DELETE_UNREACHABLE" in refreshed.value.output
    with pytest.raises(CommandError, match="configured Kubernetes cluster is unreachable"):
        project.destroy()
    assert "waiting for it for" in refreshed.value.output
    del project.environment["PULUMI_STANDINS_PATIENCE"]
    given_up = project.pulumi("destroy", "--yes", "--skip-preview", PULUMI_K8S_DELETE_UNREACHABLE="true")
    assert "waiting for it for" not in given_up, "this run says that it is gone"
    assert "Deleting the unreachable resource from Pulumi state" in given_up
