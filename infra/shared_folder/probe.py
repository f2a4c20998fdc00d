"""Checks with pods on several nodes whether all nodes have the same folder.

One pod writes a file into the folder. The others wait for the file.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from infra.clusters.node_folders import Placement, reached
from infra.objects.cluster_api import ClusterApi
from infra.objects.kinds import NODE, POD
from infra.objects.manifest import Manifest
from infra.objects.retry import Patience
from infra.run import reader_pod
from infra.run.reader_pod import DEADLINE_S, NAME_PREFIX, MountedClaim

FILE_PREFIX = ".trainstack-shared-"
LOOK_S = 1
ANSWER_S = 30
CONFLICT = 409
SEEN, NOT_SEEN = 0, 1
SEEN_S = 30
"""How long a reader waits for the file, in seconds: a network file system may show it to other nodes later."""
LEAVE_S = 10
"""How long the writer may take to remove its file, in seconds."""
# The file is deleted with the pod. `sleep` runs in the background: a shell handles a signal only between commands.
_WRITE = """
trap 'rm -f "$1"' EXIT
trap 'kill $! || true; exit 0' TERM
echo "this file is here while trainstack looks whether all nodes see this folder" > "$1"
sleep "$2" & wait
"""
_READ = 'i=0; until [ -e "$1" ]; do i=$((i + 1)); [ "$i" -le "$2" ] || exit 1; sleep 1; done'
Done = Callable[[Manifest], bool]


class NotSharedError(RuntimeError):
    """Some nodes have another folder, or gave no answer."""


@dataclass
class Probe:
    """One check of the folder of `volume`.

    Parameters:
        placements: of the jobs whose pods share the folder.
        show: gets each line for the user.
        limit_s: how long the pods of one round may take, in seconds; most of it is pulling the image.
    """

    volume: MountedClaim
    placements: Sequence[Placement]
    show: Callable[[str], None]
    limit_s: float = DEADLINE_S
    _made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._api = ClusterApi.at(self.volume.address, urllib3.Retry(0), ANSWER_S)
        self._patience = Patience(self.show)

    def run(self) -> list[str]:
        """Check all nodes on which the jobs' pods may run. Returns their names. Raises NotSharedError."""
        nodes = reached(self._patience.ask(lambda: self._api.listed(NODE)), self.placements)
        if len(nodes) < 2:
            return nodes
        self.show(f"checking whether {len(nodes)} nodes have the same folder: {', '.join(nodes)}")
        try:
            self._look(nodes)
        finally:
            for name in self._made:
                with suppress(ApiException):
                    self._delete(name)
        return nodes

    def _look(self, nodes: Sequence[str]) -> None:
        mark, (first, *others) = uuid.uuid4().hex[:8], nodes
        name, file = f"{NAME_PREFIX}{mark}", f"{FILE_PREFIX}{mark}"
        wrote = self._follow({first: writer(f"{name}-0", self.volume, first, file)}, _is_ready)[first]
        if not _is_ready(wrote):
            raise NotSharedError(f"node {first} gave no answer: {_why_not(wrote)}")
        readers = {
            node: reader(f"{name}-{place}", self.volume, node, file)
            for place, node in enumerate(others, start=1)
        }
        read = self._follow(readers, _has_ended)
        other = [node for node, pod in read.items() if _exit_code(pod) == NOT_SEEN]
        have = "have" if len(other) > 1 else "has"
        found = [f"{_listed(other)} {have} another folder than node {first}"] if other else []
        silent = {node: pod for node, pod in read.items() if _exit_code(pod) not in (SEEN, NOT_SEEN)}
        found += [f"node {node} gave no answer: {_why_not(pod)}" for node, pod in silent.items()]
        if found:
            raise NotSharedError("; ".join(found))

    def _follow(self, wanted: dict[str, Manifest], done: Done) -> dict[str, Manifest]:
        """Create the pods, and wait until all are done or have ended, at most `limit_s` seconds.

        Returns node -> its pod.
        """
        for pod in wanted.values():
            self._create(pod)
        names = {pod["metadata"]["name"]: node for node, pod in wanted.items()}
        end = time.monotonic() + self.limit_s
        while True:
            listed = self._patience.ask(lambda: self._api.listed(POD, self.volume.namespace))
            live = {pod["metadata"]["name"]: pod for pod in listed}
            found = {node: live.get(name, {}) for name, node in names.items()}
            if time.monotonic() > end or all(done(pod) or _has_ended(pod) for pod in found.values()):
                return found
            time.sleep(LOOK_S)

    def _create(self, pod: Manifest) -> None:
        self._made.append(pod["metadata"]["name"])
        try:
            self._patience.ask(lambda: self._api.create(POD, pod))
        except ApiException as error:
            if error.status != CONFLICT:  # the answer to the first request may have been lost
                raise

    def _delete(self, name: str) -> None:
        self._patience.ask(lambda: self._api.delete(POD, name, self.volume.namespace))


def writer(name: str, volume: MountedClaim, node: str, file: str) -> Manifest:
    """A pod that writes `file` in the volume's folder, is ready once the file exists, and deletes it at its end."""
    path = f"{volume.mount_path}/{file}"
    command = ["sh", "-ec", _WRITE, "write", path, str(DEADLINE_S)]
    pod = reader_pod.manifest(name, volume, command, node=node, writes=True)
    pod["spec"]["terminationGracePeriodSeconds"] = LEAVE_S
    (container,) = pod["spec"]["containers"]
    # The container's status then says what failed.
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    container["readinessProbe"] = {"exec": {"command": ["test", "-e", path]}, "periodSeconds": 1}
    return pod


def reader(name: str, volume: MountedClaim, node: str, file: str) -> Manifest:
    """A pod that ends with 0 when it sees `file`, and with 1 if it does not see it within SEEN_S seconds."""
    command = ["sh", "-ec", _READ, "read", f"{volume.mount_path}/{file}", str(SEEN_S)]
    return reader_pod.manifest(name, volume, command, node=node)


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _has_ended(pod: Manifest) -> bool:
    """Whether the pod has ended, or is not there."""
    return not pod or pod["status"]["phase"] in ("Succeeded", "Failed")


def _exit_code(pod: Manifest) -> int | None:
    """The exit code; None if the pod has not run to its end."""
    ended = next(_states(pod, "terminated"), None)
    return ended["exitCode"] if ended else None


def _why_not(pod: Manifest) -> str:
    """Why a pod did not do its work."""
    if not pod:
        return "its pod was deleted"
    if ended := next(_states(pod, "terminated"), None):
        return str(ended.get("message") or f"its pod ended with code {ended['exitCode']}").strip()
    for each in _states(pod, "waiting"):
        return ": ".join(filter(None, [each.get("reason"), each.get("message")]))
    unmet = [each for each in pod["status"].get("conditions") or [] if each["status"] == "False"]
    told = [each["message"] for each in unmet if each.get("message")]
    return str(pod["status"].get("message") or next(iter(told), f"its pod is {pod['status']['phase']}"))


def _states(pod: Manifest, state: str) -> Iterator[dict[str, Any]]:
    for each in (pod.get("status") or {}).get("containerStatuses") or []:
        if found := (each.get("state") or {}).get(state):
            yield found


def _listed(nodes: Sequence[str]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes)}"
