"""An NFS export where nothing can be mounted: the server takes the volume, and `make up` says why no pod gets it.

A bare machine's kernel has no NFS. Where another has, nobody exports anything at the address: minutes pass until then.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.run import job_status
from tests.e2e.beside import stack_beside
from tests.e2e.images import pulled
from tests.e2e.project import Project

pytestmark = pytest.mark.slow(reason="one more stack on the shared cluster, which waits for a volume")
NFS = {"kind": "nfs", "nfsServer": "127.0.0.1", "nfsPath": "/exports/models"}


def test_make_up_says_that_the_node_cannot_mount_it(project: Project, up: dict[str, str]) -> None:
    with stack_beside(project, "exported", pulled(project), {"name": "exported"}, NFS) as stack:
        done = stack.make("up")
        assert done.returncode != 0
        assert "cannot run: pod exported-" in done.stdout
        assert f"FailedMount: on node {project.cluster}-control-plane: " in done.stdout
        if "nfs" not in Path("/proc/filesystems").read_text():
            assert job_status.CLIENT in done.stdout
        assert "Traceback" not in done.stdout
        volume = project.get("pv", "trainstack-exported-models")
        assert volume["spec"]["nfs"] == {"server": NFS["nfsServer"], "path": NFS["nfsPath"]}
        assert volume["status"]["phase"] == "Bound"
