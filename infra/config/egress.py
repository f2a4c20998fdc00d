"""Section `job.egress`: what a job's replicas may reach besides each other and DNS."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, model_validator

from infra.config.api_paths import outside
from infra.config.names import DnsLabel
from infra.config.section import Outcome, Section, Whole, every_key, refusal, setting


class Protocol(StrEnum):
    """Protocols of a NetworkPolicy."""

    TCP = "TCP"
    UDP = "UDP"


def _network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        allowed = "a network in CIDR notation, with zeros for all bits of the host"
        raise refusal(allowed, "write for example 192.0.2.0/24") from None


class Egress(Section):
    """One port that replicas may reach: at every address, in one network or in one namespace."""

    model_config = every_key(
        changing=Outcome.IN_PLACE,
        paths=outside("A separate NetworkPolicy, the same in both."),
    )

    port: Whole = setting(
        about="Port that the replicas may reach.",
        ge=1,
        le=65535,
        allowed="a port, 1 to 65535",
        examples=[443],
    )
    protocol: Protocol = setting(about="Protocol of the port.", default=Protocol.TCP)
    cidr: Annotated[str, AfterValidator(_network)] | None = setting(
        about=(
            "Network whose addresses the replicas may reach at this port; without `cidr` and `namespace`, "
            "every address."
        ),
        default=None,
        allowed="a network in CIDR notation",
        examples=["192.0.2.0/24"],
    )
    namespace: DnsLabel | None = setting(
        about="Namespace whose pods the replicas may reach at this port.",
        default=None,
        allowed="a namespace's name",
        examples=["storage"],
    )

    @model_validator(mode="after")
    def _names_one_place(self) -> Egress:
        if self.cidr and self.namespace:
            fix = "write one entry with cidr, and another with namespace"
            raise refusal("cidr or namespace, not both", fix, "namespace", self.namespace)
        return self
