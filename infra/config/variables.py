"""Keys `job.env` and `job.envFrom`: where the container's environment variables come from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, SecretStr, Tag, model_validator

from infra.config.api_paths import in_container
from infra.config.names import DnsName
from infra.config.section import Outcome, Section, every_key, refusal, setting

# A name that is allowed for a container's variable and for a key of a Secret.
NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
KEY = r"^[-._a-zA-Z0-9]+$"
NAME_RULE = "letters, digits and the characters `-`, `_` and `.`; the first character is not a digit"
ITSELF = "the stack itself"
STACKS_OWN: Mapping[str, str] = {
    "TRAINER_RUN": ITSELF,
    "TRAINER_MODEL_DIR": "storage.mountPath",
    "TRAINER_TAKE_FINISHED": "job.runId",
}
"""Variables that the stack sets and needs -> the key with the value. Users may set the stack's other variables."""


def _name(value: str) -> str:
    if NAME.fullmatch(value) is None:
        raise refusal(NAME_RULE, "rename the variable, for example to TOKEN")
    return value


VariableName = Annotated[str, AfterValidator(_name)]


class SecretKey(Section):
    """A value in a Secret of the namespace; somebody else creates the Secret."""

    secret: DnsName = setting(
        about="Name of the Secret.",
        allowed="the name of a Secret in the namespace",
        examples=["registry-login"],
    )
    key: str = setting(
        about="Key of the Secret.", pattern=KEY, allowed="a key of that Secret", examples=["token"]
    )


class Encrypted(Section):
    """A value that Pulumi keeps encrypted: cipher text in a stack file, plain text in the program."""

    secure: SecretStr


TEXT, REFERENCE, ENCRYPTED = "[text]", "[reference]", "[encrypted]"


def _form(value: Any) -> str:
    if isinstance(value, Mapping):
        return ENCRYPTED if value.keys() == {"secure"} else REFERENCE
    if isinstance(value, SecretKey | Encrypted):
        return REFERENCE if isinstance(value, SecretKey) else ENCRYPTED
    return TEXT


Value = Annotated[
    Annotated[str, Tag(TEXT)] | Annotated[SecretKey, Tag(REFERENCE)] | Annotated[Encrypted, Tag(ENCRYPTED)],
    Discriminator(_form),
]


class EnvSource(Section):
    """All keys of one Secret or ConfigMap, each as a variable with the name of the key."""

    model_config = every_key(changing=Outcome.JOB_REPLACED, paths=in_container("envFrom"))

    secret: DnsName | None = setting(
        about="A Secret of the namespace; each key becomes a variable.",
        default=None,
        allowed="the name of a Secret in the namespace",
        examples=["registry-login"],
    )
    config_map: DnsName | None = setting(
        about="A ConfigMap of the namespace; each key becomes a variable.",
        default=None,
        allowed="the name of a ConfigMap in the namespace",
        examples=["training-settings"],
    )
    prefix: VariableName | None = setting(
        about="Prefix of the variables' names, before the key.",
        default=None,
        allowed=NAME_RULE,
        examples=["DB_"],
    )

    @model_validator(mode="after")
    def _one_source(self) -> EnvSource:
        if (self.secret is None) == (self.config_map is None):
            raise refusal(
                "one of secret and configMap in each entry",
                "write `- secret: NAME`, or `- configMap: NAME`",
                "secret",
                self.secret,
            )
        return self
