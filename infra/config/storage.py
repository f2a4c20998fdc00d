"""Section `storage`: the volume that keeps the models."""

from __future__ import annotations

import stat
from enum import StrEnum

from pydantic import field_validator, model_validator

from infra.config.names import AbsolutePath, DnsName, Host, LabelKey, LabelValue, Quantity, quantity
from infra.config.section import Count, Natural, Outcome, Section, every_key, refusal, setting
from infra.config.storage_kinds import StorageKind, ensure_keys_fit

# With the sticky bit nobody could replace the latest model of another user.
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
    """A run of our trainer that succeeds removes finished runs of its job that exceed a limit; a run in use stays."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, note="Its run goes on under its id.")

    number: Count | None = setting(
        about="How many finished runs of a job stay, the last one among them; without it any number.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[10],
    )
    days: Natural | None = setting(
        about="How many days older than the last one a finished run may be; without it any age.",
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
        """The trainer's variables."""
        limits = {"TRAINER_KEEP_RUNS": self.number, "TRAINER_KEEP_DAYS": self.days}
        return {name: str(limit) for name, limit in limits.items() if limit is not None}


class StorageConfig(Section):
    """Where the models are kept: by default a folder on the node, as a PersistentVolume and its claim."""

    kind: StorageKind = setting(
        about="Whose volume it is: a folder on the node; one that a storage class provisions; that of a claim which "
        "somebody else made; or an NFS export, which nodes without an NFS client (a bare machine's) cannot mount.",
        default=StorageKind.HOST_PATH,
        changing=Outcome.VOLUME_REPLACED,
        note="No file is moved. A claim of kind class or claim is never deleted.",
    )
    volume: DnsName | None = setting(
        about="Name of the PersistentVolume; without it trainstack-<stack>-models.",
        default=None,
        allowed="a PersistentVolume's name",
        examples=["traindb-models-volume"],
        changing=Outcome.VOLUME_REPLACED,
        note="Outside kind the folder has this name: give hostPath, too, to keep the old one.",
    )
    claim: DnsName | None = setting(
        about="Name of the claim; without it the volume's, with the class's name behind it for kind class.",
        default=None,
        allowed="a PersistentVolumeClaim's name",
        examples=["traindb-models-claim"],
        changing=Outcome.VOLUME_REPLACED,
        note="With kind claim only the job is replaced.",
    )
    labels: dict[LabelKey, LabelValue] = setting(
        about="Labels of the volume; its claim selects it by type and name.",
        default_factory=dict,
        allowed="a mapping of text to text",
        examples=["{type: traindb}"],
        changing=Outcome.IN_PLACE,
        note="`type` and `name` replace job, claim and volume: the claim selects by them.",
    )
    storage_class: DnsName = setting(
        about="Storage class of volume and claim; only kind class needs a provisioner that serves it.",
        default="manual",
        allowed="a storage class's name",
        examples=["manual"],
        changing=Outcome.VOLUME_REPLACED,
        note="With kind class the old claim stays with its files.",
    )
    capacity: Quantity = setting(
        about="Size that the volume states; neither hostPath nor nfs enforces it.",
        default="10Gi",
        allowed="a quantity, at least the request",
        examples=["10Gi"],
        changing=Outcome.IN_PLACE,
    )
    request: Quantity = setting(
        about="Size that the claim asks for.",
        default="3Gi",
        allowed="a quantity, at most the capacity",
        examples=["3Gi"],
        changing=Outcome.VOLUME_REPLACED,
        note="With kind class in place, where the class lets a claim grow.",
    )
    access_mode: AccessMode = setting(
        about="Access mode of volume and claim.",
        default=AccessMode.READ_WRITE_MANY,
        changing=Outcome.VOLUME_REPLACED,
        note="With kind class refused: the claim has files.",
    )
    reclaim_policy: ReclaimPolicy = setting(
        about="What becomes of the volume when its claim goes; the policies allow nothing but Retain.",
        default=ReclaimPolicy.RETAIN,
        changing=Outcome.REFUSED,
        note="Only Retain passes the policies: with Delete the files would go with the claim.",
    )
    host_path: AbsolutePath | None = setting(
        about="Folder on the node that holds the models; without it /var/lib/trainstack/volumes/<volume>, "
        "with kind models/<stack> of this clone.",
        default=None,
        allowed="an absolute path below one of allowedRoots",
        examples=["/var/lib/trainstack/models"],
        changing=Outcome.VOLUME_REPLACED,
        note="With kind the cluster is replaced: its nodes mount the folder.",
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
        about="Folder that the server exports; the trainer has to be allowed to write there.",
        default=None,
        allowed="an absolute path",
        examples=["/exports/models"],
        changing=Outcome.VOLUME_REPLACED,
    )
    mount_path: AbsolutePath = setting(
        about="Where the pods see the volume.",
        default="/opt/mnist/models",
        allowed="an absolute path",
        examples=["/opt/mnist/models"],
        changing=Outcome.JOB_REPLACED,
    )
    allowed_roots: tuple[AbsolutePath, ...] = setting(
        about="Folders on the nodes below which hostPath and folders of job.data may lie.",
        default=("/var/lib/trainstack",),
        allowed="a list of absolute paths",
        examples=["[/var/lib/trainstack]"],
        changing=Outcome.NOTHING,
    )
    keep_runs: KeepRuns | None = setting(
        about="Which finished runs stay below runs/ on the volume; without it all of them; only for a folder (nfsPath, "
        "hostPath, claim) of the stack's own, since runs of another stack's job of that name would be removed, too.",
        default=None,
        allowed="a mapping with number, days or both",
        examples=["{number: 10}"],
    )
    node: DnsName | None = setting(
        about="The only node that has the folder, where nodes share none; the pods are placed there.",
        default=None,
        allowed="a node's name",
        examples=["worker-1"],
        changing=Outcome.VOLUME_REPLACED,
    )
    shared: bool = setting(
        about="Say that all nodes see the same folder there, for example a network file system; kind's nodes do; "
        "before a job starts, one node writes a file into hostPath, and each other node has to see it.",
        default=False,
        examples=["true"],
        changing=Outcome.IN_PLACE,
    )
    prepare: bool | None = setting(
        about="Set owner, group and mode of the volume's folder; a Job does it as root, except for hostPath on kind; "
        "without it true for hostPath and class, and false for claim and nfs, whose folders are others'.",
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
        about="Group id of the folder; the pods are in it, and in group 0.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[0],
        changing=Outcome.JOB_REPLACED,
        note="Its run goes on under its id.",
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
            fix = "remove node where all nodes see the folder, and shared where one node has it"
            raise refusal("node, or shared: true", fix, "node", self.node)
        return self

    @property
    def prepares(self) -> bool:
        """Whether owner, group and mode of the volume's folder are the stack's to set."""
        ours = self.kind in (StorageKind.HOST_PATH, StorageKind.CLASS)
        return ours if self.prepare is None else self.prepare

    def claim_for(self, volume: str) -> str:
        """The claim's name. Claims of two classes have two: each has files of its own.

        Parameters:
            volume: name of the stack's volume.
        """
        of_class = f"{volume}-{self.storage_class}" if self.kind is StorageKind.CLASS else volume
        return self.claim or of_class
