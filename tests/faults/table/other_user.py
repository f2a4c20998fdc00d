"""A clone of another user of this machine, who may use root's engine by the group of its socket, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e import clones
from tests.e2e.project import Project
from toolchain import paths

USER, GROUP, ENGINE_GROUP = "nobody", "nogroup", "docker"


@dataclass
class OthersProject(Project):
    """A project whose commands USER runs, at home in the folder `home`."""

    home: Path = field(kw_only=True)

    def words(self, *command: str) -> list[str]:
        identity = ("--reuid", USER, "--regid", GROUP, "--groups", ENGINE_GROUP)
        return ["setpriv", *identity, "env", "--unset", "XDG_CACHE_HOME", f"HOME={self.home}", *command]


@contextmanager
def standing(name: str) -> Iterator[OthersProject]:
    """A clone of USER, whose caches are a copy of ours: without root nothing can be built on a bare machine."""
    with clones.owned(name) as folder:
        made = clones.clone(folder / "trainstack", cluster=folder.name)
        home = folder / "home"
        shutil.copytree(paths.cache(), home / ".cache" / paths.cache().name, symlinks=True)
        subprocess.run(["chown", "--recursive", f"{USER}:{GROUP}", str(home), str(made.root)], check=True)
        # The log is this user's, and would make its folder so.
        project = OthersProject(made.root, made.cluster, logs=folder, home=home)
        with clones.standing(project):
            yield project
