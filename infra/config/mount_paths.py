"""Where the volumes of a replica are mounted: Kubernetes refuses a pod with two volumes at one path."""

from __future__ import annotations

from infra.config.errors import ConfigError, paragraph
from infra.config.job import JobConfig
from infra.config.pod_template import CONTAINER
from infra.config.storage import StorageConfig

TMP = "/tmp"


def ensure_apart(job: JobConfig, storage: StorageConfig, file: str, key: str) -> None:
    """Raises ConfigError if models or data would be mounted over another volume of the job's pods.

    Data are mounted read-only, so nothing can be mounted in a new folder inside the data either.

    Parameters:
        key: the key of the job's data in the stack file.
    """
    mine, own = "trainstack:storage.mountPath", {TMP: "the pods' own /tmp"}
    for each in job.pod_spec.get("containers") or []:
        if each["name"] == CONTAINER:
            own |= {mount["mountPath"]: "a volume of job.pod" for mount in each.get("volumeMounts") or []}
    models, data = (
        storage.mount_path,
        {f"{key}[{n}].path": each.path for n, each in enumerate(job.data or ())},
    )
    for name, path in data.items():
        others = own | {other: f"data ({each})" for each, other in data.items() if each != name}
        outer = [
            other for other in others if path == other or (other in data.values() and _is_in(path, other))
        ]
        if outer:
            raise ConfigError(_refused(file, name, path, others[outer[0]], "write for example `path: /data`"))
    fix = f"write for example `mountPath: {StorageConfig.model_fields['mount_path'].default}`"
    if models in own:
        raise ConfigError(_refused(file, mine, models, own[models], fix))
    for name, path in data.items():
        if _is_in(models, path):
            what = f"data ({name} = '{path}')"
            raise ConfigError(_refused(file, mine, models, what, f"{fix}, or another path for the data"))


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _refused(file: str, key: str, path: str, what: str, fix: str) -> str:
    return paragraph(
        file, key, path, f"a path at which the pods have no other volume; this path has {what}", fix
    )
