"""Section `storage`: the volume that keeps the models."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from infra.config.names import AbsolutePath, DnsName, Quantity, quantity
from infra.config.section import Natural, Section, refusal


class AccessMode(StrEnum):
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE = "ReadWriteOnce"


class ReclaimPolicy(StrEnum):
    RETAIN = "Retain"
    DELETE = "Delete"


class StorageConfig(Section):
    volume: DnsName | None = Field(
        default=None,
        description="the PersistentVolume's name, by default trainstack-<stack>-models",
        examples=["traindb-models-volume"],
    )
    claim: DnsName | None = Field(
        default=None,
        description="the PersistentVolumeClaim's name, by default the volume's",
        examples=["traindb-models-claim"],
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="labels of the volume, by which the claim finds it, text to text",
        examples=["{type: traindb}"],
    )
    storage_class: DnsName = Field(
        default="manual", description="a storage class's name", examples=["manual"]
    )
    capacity: Quantity = Field(default="10Gi", description="the volume's size", examples=["10Gi"])
    request: Quantity = Field(default="3Gi", description="what the claim asks for", examples=["3Gi"])
    access_mode: AccessMode = Field(default=AccessMode.READ_WRITE_MANY, description="an access mode")
    reclaim_policy: ReclaimPolicy = Field(default=ReclaimPolicy.RETAIN, description="a reclaim policy")
    host_path: AbsolutePath = Field(
        default="/var/lib/trainstack/models",
        description="the folder on the node, an absolute path",
        examples=["/var/lib/trainstack/models"],
    )
    mount_path: AbsolutePath = Field(
        default="/opt/mnist/models",
        description="where the pods see the volume",
        examples=["/opt/mnist/models"],
    )
    data_path: AbsolutePath | None = Field(
        default=None,
        description="a folder on the node with data sets, mounted read-only at /data; always there with kind",
        examples=["/var/lib/trainstack/data"],
    )
    allowed_roots: tuple[AbsolutePath, ...] = Field(
        default=("/var/lib/trainstack",),
        description="a list of folders on the nodes below which hostPath and dataPath may lie",
        examples=["[/var/lib/trainstack]"],
    )
    node: DnsName | None = Field(
        default=None,
        description="name of the only node that has the folder, where several nodes do not share it",
        examples=["worker-1"],
    )
    prepare: bool = Field(
        default=True,
        description="true or false: make the folder and set owner, group and mode; outside kind by a Job run as root",
        examples=["false"],
    )
    owner: Natural = Field(default=1000, description="uid of the folder's owner", examples=[1000])
    group: Natural = Field(default=0, description="gid of the folder's group", examples=[0])
    mode: str = Field(
        default="2775",
        pattern=r"^[0-7]{3,4}$",
        description="the folder's mode in octal, quoted",
        examples=['"2775"'],
    )

    @field_validator("mode")
    @classmethod
    def _writable(cls, mode: str) -> str:
        if not int(mode, 8) & 0o020:
            raise refusal("a mode in which the group may write", 'write for example mode: "2775"')
        return mode

    @model_validator(mode="after")
    def _fits_the_volume(self) -> StorageConfig:
        if quantity(self.request) > quantity(self.capacity):
            raise refusal(
                f"a request ({self.request}) of at most the capacity ({self.capacity})",
                f"set `request: {self.capacity}` or raise capacity",
                "request",
                self.request,
            )
        return self
