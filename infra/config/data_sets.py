"""Key `job.data`: data sets that the pods of a job see, read-only."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, model_validator

from infra import agreed
from infra.cluster_kinds import USUAL as USUAL_KIND
from infra.cluster_kinds import ClusterKind
from infra.config.api_paths import in_container, in_pod
from infra.config.names import AbsolutePath, DnsName, Host
from infra.config.section import Outcome, Section, every_key, refusal, setting

OURS = "data"
"""The folder of the clone that kind's nodes mount, as a `folder` names it."""
SOURCES = ("claim", "folder", "nfs", "configMap")
DIGITS = 8


def _folder(value: str) -> str:
    is_plain = posixpath.normpath(value) == value and not value.startswith(("~", "//"))
    if not is_plain or value in ("/", ".", "..") or (value.startswith("/") and ".." in value.split("/")):
        allowed = (
            "an absolute path without .. and without a / at the end; "
            "in a kind cluster also a path relative to the clone"
        )
        raise refusal(allowed, f"write for example /srv/photos, or in a kind cluster `folder: {OURS}`")
    return value


class Nfs(Section):
    """A folder that an NFS server exports. The nodes need an NFS client."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, paths=in_pod("spec.volumes"))

    server: Host = setting(
        about="Host name or address of the NFS server.",
        allowed="a host name or an IP address",
        examples=["nfs.example.org"],
    )
    path: AbsolutePath = setting(
        about="Folder that the server exports; the pods' user must be able to read it.",
        allowed="an absolute path",
        examples=["/exports/data"],
    )


class DataSet(Section):
    """One data set, from a claim, folder, NFS export or ConfigMap. It is read-only."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, paths=in_pod("spec.volumes"))

    path: AbsolutePath = setting(
        about="Path in the pods; the trainer reads its data from the path of the first entry.",
        allowed="an absolute path",
        examples=["/data"],
        note="The run continues with the same id.",
        paths=in_container("volumeMounts", "env"),
    )
    claim: DnsName | None = setting(
        about="A PersistentVolumeClaim in the namespace; the stack does not create it.",
        default=None,
        allowed="the name of a PersistentVolumeClaim in the namespace",
        examples=["images"],
    )
    folder: Annotated[str, AfterValidator(_folder)] | None = setting(
        about=(
            "A folder of the nodes, below one of `storage.allowedRoots`. In a kind cluster, a folder of this machine: "
            "`make up` links or copies its files into data/ of the clone."
        ),
        default=None,
        allowed="an absolute path; in a kind cluster also a path relative to the clone",
        examples=["/var/lib/trainstack/data"],
    )
    nfs: Nfs | None = setting(
        about="An NFS export.", default=None, examples=["{server: nfs.example.org, path: /exports/data}"]
    )
    config_map: DnsName | None = setting(
        about="A ConfigMap of the namespace; each key is a file; 1 MiB at most.",
        default=None,
        allowed="the name of a ConfigMap in the namespace",
        examples=["word-lists"],
    )

    @model_validator(mode="after")
    def _one_source(self) -> DataSet:
        given = list(self.source)
        if len(given) != 1:
            fix = (
                f"write one entry for each: {' and '.join(given)}"
                if given
                else "write `claim: NAME`, or another of these keys"
            )
            found = " and ".join(given) or "(absent)"
            raise refusal(
                f"one of {', '.join(SOURCES)} in each entry", fix, given[-1] if given else "claim", found
            )
        return self

    @property
    def source(self) -> dict[str, Any]:
        """The key of SOURCES that is given, with its value."""
        return {key: value for key, value in self.manifest().items() if key in SOURCES}

    @property
    def has_volume(self) -> bool:
        """Whether the stack creates a volume and a claim for the data set."""
        return self.folder is not None or self.nfs is not None

    @property
    def is_usual(self) -> bool:
        """Whether it is the clone's data/, which is mounted in every node of a kind cluster."""
        return self.folder == OURS

    def volume(self, stack: str) -> str:
        """The name of volume and claim that stack `stack` creates for it: equal sources have equal names."""
        digest = hashlib.sha256(json.dumps(self.source, sort_keys=True).encode()).hexdigest()[:DIGITS]
        return f"trainstack-{stack}-data{'' if self.is_usual else f'-{digest}'}"

    def below_data(self, stack: str) -> str:
        """The path below data/ for the files of another folder, on this machine and on the nodes of kind."""
        return f"{agreed.FOLDERS}/{stack}/{self.volume(stack)}"


USUAL = DataSet(path="/data", folder=OURS)
"""The data set of a job without `data` in a kind cluster."""
WITH_OUR_NODES = [kind for kind in ClusterKind if kind.has_our_nodes]


def ensure_none_is_moved(given: Any) -> Any:
    """`given`, the sections of a stack file, unchanged.

    Raises a refusal with the lines to write if a section has `storage.dataPath` or `job.datasetsPath`: `job.data`
    has replaced both.
    """
    storage, jobs = _mapping(_mapping(given).get("storage")), _jobs(given)
    moved = {"storage.dataPath": storage["dataPath"]} if "dataPath" in storage else {}
    moved |= {
        f"{key}.datasetsPath": job["datasetsPath"] for key, job in jobs.items() if "datasetsPath" in job
    }
    if not moved:
        return given
    folder = (
        OURS
        if _mapping(_mapping(given).get("cluster")).get("kind", USUAL_KIND) in WITH_OUR_NODES
        else storage.get("dataPath")
    )
    lines = {
        key: [{"path": job.get("datasetsPath") or USUAL.path, "folder": folder}]
        for key, job in jobs.items()
        if folder and (folder != OURS or job.get("datasetsPath", USUAL.path) != USUAL.path)
    }
    written = [
        f"below {key} `data: {yaml.safe_dump(each, default_flow_style=True, sort_keys=False, width=10**6).strip()}`"
        for key, each in lines.items()
    ]
    fix = f"remove {' and '.join(moved)}" + (f", and write {', '.join(written)}" if written else "")
    first = next(iter(moved))
    raise refusal("no value: job.data has replaced this key", fix, first, moved[first])


def _jobs(given: Any) -> dict[str, Mapping[str, Any]]:
    """The name of each job in the stack file, `job` or `jobs[0]` -> the job's keys."""
    sections = _mapping(given)
    several = sections.get("jobs")
    found = {
        f"jobs[{place}]": each for place, each in enumerate(several if isinstance(several, list) else ())
    }
    return {key: _mapping(each) for key, each in {"job": sections.get("job"), **found}.items() if each}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
