"""Where the volumes of a replica are mounted: Kubernetes refuses a pod that has two in one place."""

from __future__ import annotations

from infra.config.errors import ConfigError, paragraph
from infra.config.job import JobConfig
from infra.config.pod_template import CONTAINER
from infra.config.storage import StorageConfig

TMP = "/tmp"


def ensure_apart(job: JobConfig, storage: StorageConfig, file: str, key: str, *, has_data: bool) -> None:
    """Raises ConfigError where models or data would be mounted over another volume of the pods of `job`.

    The data folder is mounted read-only, so that nothing can be mounted in a new folder of it either.

    Parameters:
        key: how the stack file calls the job's datasetsPath.
        has_data: whether the pods mount the data folder.
    """
    mine, own = "trainstack:storage.mountPath", {TMP: "the pods' own /tmp"}
    for each in job.pod_spec.get("containers") or []:
        if each["name"] == CONTAINER:
            own |= {mount["mountPath"]: "a volume of job.pod" for mount in each.get("volumeMounts") or []}
    data, models = job.datasets_path, storage.mount_path
    if has_data and data in own:
        raise ConfigError(_refused(file, key, data, own[data], "write for example `datasetsPath: /data`"))
    fix = f"write for example `mountPath: {StorageConfig.model_fields['mount_path'].default}`"
    if models in own:
        raise ConfigError(_refused(file, mine, models, own[models], fix))
    if has_data and f"{models}/".startswith(f"{data}/"):
        what = f"the data folder ({key} = '{data}')"
        raise ConfigError(_refused(file, mine, models, what, f"{fix}, or another datasetsPath"))


def _refused(file: str, key: str, path: str, what: str, fix: str) -> str:
    return paragraph(
        file, key, path, f"a path where the pods have nothing else: {what} is mounted there", fix
    )
