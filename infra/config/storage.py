"""Section `storage`: the volume that keeps the models."""

from __future__ import annotations

import stat
from enum import StrEnum

from pydantic import field_validator, model_validator

from infra.config.names import AbsolutePath, DnsName, Host, LabelKey, LabelValue, Quantity, quantity
from infra.config.section import Count, Natural, Outcome, Section, every_key, refusal, setting
from infra.config.storage_kinds import StorageKind, ensure_keys_fit

# With the sticky bit, no user could replace the latest model of another user.
WRITABLE = "a mode in octal with all rights for owner and group, without the sticky bit"
ALL_OF_BOTH = stat.S_IRWXU | stat.S_IRWXG


class AccessMode(StrEnum):
    """Access modes of a PersistentVolume."""

    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"


class ReclaimPolicy(StrEnum):
    """Reclaim policies of a PersistentVolume."""

    RETAIN = "Retain"
    DELETE = "Delete"


class KeepRuns(Section):
    """After each successful run, our trainer removes older finished runs of the same job that exceed these limits.

    A run that is not finished, or that somebody continues, stays.
    """

    model_config = every_key(changing=Outcome.JOB_REPLACED, note="The run continues with the same id.")

    number: Count | None = setting(
        about="How many finished runs of a job stay, including the newest one; default: all.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[10],
    )
    days: Natural | None = setting(
        about=(
            "Maximum age of a finished run in days, counted back from the job's newest finished run; default: no "
            "limit."
        ),
        default=None,
        allowed="a whole number of at least 0",
        examples=[30],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> KeepRuns:
        if self.number is None and self.days is None:
            raise refusal(
                "number, days or both", "write `number: 10`, or remove keepRuns", "number", "(absent)"
            )
        return self

    def environment(self) -> dict[str, str]:
        """The environment variables for the trainer."""
        limits = {"TRAINER_KEEP_RUNS": self.number, "TRAINER_KEEP_DAYS": self.days}
        return {name: str(limit) for name, limit in limits.items() if limit is not None}


class StorageConfig(Section):
    """Where the models are kept: by default a folder on the node, as a PersistentVolume and its claim."""

    kind: StorageKind = setting(
        about=(
            "Type of the volume: a folder on the node; a volume of a storage class; an existing claim; or an NFS "
            "export, which needs an NFS client on the nodes (a bare machine has none)."
        ),
        default=StorageKind.HOST_PATH,
        changing=Outcome.VOLUME_REPLACED,
        note="No file is moved. The stack never deletes a claim with `kind: class` or `kind: claim`.",
    )
    volume: DnsName | None = setting(
        about="Name of the PersistentVolume; default: trainstack-<stack>-models.",
        default=None,
        allowed="a PersistentVolume's name",
        examples=["traindb-models-volume"],
        changing=Outcome.VOLUME_REPLACED,
        note=(
            "In a cluster that is not kind, the default folder has the volume's name: to keep the old folder, also set "
            "`hostPath`."
        ),
    )
    claim: DnsName | None = setting(
        about="Name of the claim; default: `<volume>`; for `kind: class`, `<volume>-<storageClass>`.",
        default=None,
        allowed="a PersistentVolumeClaim's name",
        examples=["traindb-models-claim"],
        changing=Outcome.VOLUME_REPLACED,
        note="With `kind: claim`, only the job is replaced.",
    )
    labels: dict[LabelKey, LabelValue] = setting(
        about="Labels of the volume; the claim selects the volume by the labels `type` and `name`.",
        default_factory=dict,
        allowed="a mapping of text to text",
        examples=["{type: traindb}"],
        changing=Outcome.IN_PLACE,
        note="A change of `type` or `name` replaces job, claim and volume: the claim selects by these labels.",
    )
    storage_class: DnsName = setting(
        about="Storage class of volume and claim; only `kind: class` needs a provisioner for it.",
        default="manual",
        allowed="a storage class's name",
        examples=["manual"],
        changing=Outcome.VOLUME_REPLACED,
        note="With `kind: class`, the old claim and its files stay.",
    )
    capacity: Quantity = setting(
        about="Size of the volume; hostPath and nfs do not enforce it.",
        default="10Gi",
        allowed="a quantity, at least the request",
        examples=["10Gi"],
        changing=Outcome.IN_PLACE,
    )
    request: Quantity = setting(
        about="Size that the claim requests.",
        default="3Gi",
        allowed="a quantity, at most the capacity",
        examples=["3Gi"],
        changing=Outcome.VOLUME_REPLACED,
        note="With `kind: class`, in place if the storage class allows a larger claim; a smaller request is refused.",
    )
    access_mode: AccessMode = setting(
        about="Access mode of volume and claim.",
        default=AccessMode.READ_WRITE_MANY,
        changing=Outcome.VOLUME_REPLACED,
        note=(
            "With `kind: class`, refused: the stack does not replace a claim that contains files. To change it, also "
            "name another `claim`."
        ),
    )
    reclaim_policy: ReclaimPolicy = setting(
        about=(
            "What happens to the volume when its claim is deleted. Write Retain: the stack's "
            "[policies](review.md#policies) refuse Delete."
        ),
        default=ReclaimPolicy.RETAIN,
        changing=Outcome.REFUSED,
        note="Delete breaks a policy, because it would delete the files together with the claim.",
    )
    host_path: AbsolutePath | None = setting(
        about=(
            "Folder on the node for the models; default: `/var/lib/trainstack/volumes/<volume>`; in a kind cluster, "
            "`models/<stack>` of this clone."
        ),
        default=None,
        allowed="an absolute path below one of allowedRoots",
        examples=["/var/lib/trainstack/models"],
        changing=Outcome.VOLUME_REPLACED,
        note="A kind cluster is replaced, because its nodes mount the folder.",
        on_kind=Outcome.CLUSTER_REPLACED,
    )
    nfs_server: Host | None = setting(
        about="Host name or address of the NFS server.",
        default=None,
        allowed="a host name or an IP address",
        examples=["nfs.example.org"],
        changing=Outcome.VOLUME_REPLACED,
    )
    nfs_path: AbsolutePath | None = setting(
        about="Folder that the server exports; the trainer must be able to write there.",
        default=None,
        allowed="an absolute path",
        examples=["/exports/models"],
        changing=Outcome.VOLUME_REPLACED,
    )
    mount_path: AbsolutePath = setting(
        about="Path of the volume in the pods.",
        default="/opt/mnist/models",
        allowed="an absolute path",
        examples=["/opt/mnist/models"],
        changing=Outcome.JOB_REPLACED,
    )
    allowed_roots: tuple[AbsolutePath, ...] = setting(
        about="Folders on the nodes; `hostPath` and the folders in `job.data` must be below one of them.",
        default=("/var/lib/trainstack",),
        allowed="a list of absolute paths",
        examples=["[/var/lib/trainstack]"],
        changing=Outcome.NOTHING,
    )
    keep_runs: KeepRuns | None = setting(
        about=(
            "Limits for the finished runs in the folder runs/ of the volume; default: all stay. With a limit, give the "
            "stack its own folder (`nfsPath`, `hostPath` or `claim`): a job also removes the runs of a job with the "
            "same name in another stack."
        ),
        default=None,
        allowed="a mapping with number, days or both",
        examples=["{number: 10}"],
    )
    node: DnsName | None = setting(
        about="The node that has the folder, if the nodes do not share it; the pods run on this node.",
        default=None,
        allowed="a node's name",
        examples=["worker-1"],
        changing=Outcome.VOLUME_REPLACED,
    )
    shared: bool = setting(
        about=(
            "Write true if all nodes see the same folder, for example a network file system; not needed in a kind "
            "cluster. Before a job starts, the stack checks it: one node writes a file into `hostPath`, and every "
            "other node must see the file."
        ),
        default=False,
        examples=["true"],
        changing=Outcome.IN_PLACE,
    )
    prepare: bool | None = setting(
        about=(
            "Set owner, group and mode of the volume's folder. A Job does it as root; for `kind: hostPath` in a kind "
            "cluster, `make up` does it in the node's container. Default: true for hostPath and class; false for claim "
            "and nfs, because their folders belong to others."
        ),
        default=None,
        examples=["false"],
        changing=Outcome.IN_PLACE,
    )
    owner: Natural = setting(
        about="User id of the folder's owner.",
        default=1000,
        allowed="a whole number of at least 0",
        examples=[1000],
        changing=Outcome.IN_PLACE,
    )
    group: Natural = setting(
        about="Group id of the folder; the pods are in this group and in group 0.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[0],
        changing=Outcome.JOB_REPLACED,
        note="The run continues with the same id.",
    )
    mode: str = setting(
        about="Permissions of the folder.",
        default="2775",
        pattern=r"^[0-7]{3,4}$",
        allowed=f"{WRITABLE}, quoted",
        examples=['"2775"'],
        changing=Outcome.IN_PLACE,
    )

    @field_validator("mode")
    @classmethod
    def _writable(cls, mode: str) -> str:
        bits = int(mode, 8)
        if bits & ALL_OF_BOTH != ALL_OF_BOTH or bits & stat.S_ISVTX:
            raise refusal(WRITABLE, 'write for example mode: "2775"')
        return mode

    @model_validator(mode="after")
    def _fits_the_volume(self) -> StorageConfig:
        ensure_keys_fit(self, self.kind)
        if self.kind is not StorageKind.CLASS and quantity(self.request) > quantity(self.capacity):
            raise refusal(
                f"a request ({self.request}) of at most the capacity ({self.capacity})",
                f"set `request: {self.capacity}` or raise capacity",
                "request",
                self.request,
            )
        if self.node and self.shared:
            fix = "remove node if all nodes see the folder; remove shared if only one node has it"
            raise refusal("either node or `shared: true`", fix, "node", self.node)
        return self

    @property
    def prepares(self) -> bool:
        """Whether the stack sets owner, group and mode of the volume's folder."""
        ours = self.kind in (StorageKind.HOST_PATH, StorageKind.CLASS)
        return ours if self.prepare is None else self.prepare

    def claim_for(self, volume: str) -> str:
        """The claim's name. With `kind: class`, each storage class has its own claim, with its own files.

        Parameters:
            volume: name of the stack's volume.
        """
        of_class = f"{volume}-{self.storage_class}" if self.kind is StorageKind.CLASS else volume
        return self.claim or of_class
