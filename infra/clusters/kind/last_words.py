"""What the nodes of a cluster that could not be made have said, for whoever has to mend it."""

from __future__ import annotations

import re

from infra.clusters.kind import ownership
from infra.process import CommandError, output

LINES = 8
COLOURS = re.compile(r"\x1b\[[0-9;]*m|\r")
# A word of systemd's or the kubelet's -> what to do. Instances of inotify are counted for each user, and every node is
# root's: https://kind.sigs.k8s.io/docs/user/known-issues/#pod-errors-due-to-too-many-open-files
FIXES = {
    "Too many open files": "sudo sysctl -w fs.inotify.max_user_instances=512, or take another cluster down",
    "no space left on device": "free some space on the disk of the container engine",
}


def of(nodes: list[ownership.Node]) -> str:
    """The last lines of each node, and how to mend what is known; empty where there is no node."""
    told, whole = [], ""
    for node in nodes:
        name = ownership.node_name(node)
        try:
            said = COLOURS.sub("", output("docker", "logs", name))
        except CommandError:
            continue
        whole += said
        last = [line for line in said.splitlines() if line.strip()][-LINES:]
        told += [f"node {name} said last:", *(f"  | {line}" for line in last)]
    told += [f"  fix: {fix}" for word, fix in FIXES.items() if word.lower() in whole.lower()]
    return "\n".join(told)
