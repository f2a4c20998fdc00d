"""Nodes that kwok simulates in a real cluster: scheduler and controllers use them, and their pods end by themselves."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.e2e.waiting import wait_until
from toolchain.machine.processes import end_with_parent
from toolchain.tools import build

STAGES = Path(__file__).with_name("stages.yaml")
LABELS = {"type": "kwok"}
"""Not `kubernetes.io/os`: kube-proxy would want a pod on each."""
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
TOLERATED = [{"key": TAINT["key"], "operator": "Exists"}]
CHOSEN: dict[str, Any] = {"job.pod": {"spec": {"nodeSelector": LABELS, "tolerations": TOLERATED}}}
"""Keys of a stack whose jobs run on simulated nodes."""


@contextmanager
def running(kubeconfig: Path, count: int, log: Path) -> Iterator[int]:
    """`count` nodes, ready; kwok's process id. The nodes stay in the cluster, where nobody answers for them later."""
    command = [str(build.build("kwok") / "kwok"), f"--kubeconfig={kubeconfig}"]
    command += [f"--config={STAGES}", "--manage-nodes-with-label-selector=type=kwok"]
    with log.open("wb") as output:
        kwok = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=partial(end_with_parent, signal.SIGKILL),
        )
    try:
        connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        core: Any = client.CoreV1Api(connection)
        # There are not as many ranges in the cluster's network, and the controller manager would ask again and again.
        (real,) = core.list_node(label_selector="type!=kwok").items
        for number in range(count):
            core.create_node(node(number, real.spec.pod_cidr))

        def are_ready() -> bool:
            assert kwok.poll() is None, log.read_text()[-5000:]
            return sum(map(is_ready, core.list_node(label_selector="type=kwok").items)) == count

        wait_until("the simulated nodes are ready", are_ready)
        yield kwok.pid
    finally:
        kwok.terminate()
        kwok.wait()


def node(number: int, pod_cidr: str) -> dict[str, Any]:
    """The manifest of one node, whose pods' addresses are said to be in `pod_cidr`."""
    return {
        "metadata": {"name": f"kwok-{number}", "labels": LABELS},
        "spec": {"taints": [TAINT], "podCIDR": pod_cidr, "podCIDRs": [pod_cidr]},
    }


def is_ready(found: Any) -> bool:
    conditions = found.status.conditions or []
    return any(each.type == "Ready" and each.status == "True" for each in conditions)
