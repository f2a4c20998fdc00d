"""Kinds of text in the stack file: names, quantities, paths, image references."""

from __future__ import annotations

import posixpath
import re
from decimal import Decimal
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from infra.config.section import refusal

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
HOST = re.compile(SUBDOMAIN.pattern, re.IGNORECASE | re.ASCII)
JOB_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Pods are called <job>-worker-<n>, and the operator gives each a Service of that name: 63 characters at most.
JOB_NAME_LENGTH = 50
JOB_NAME_RULE = (
    "lower-case letters, digits and -, beginning with a letter, ending with a letter or digit, at most "
    f"{JOB_NAME_LENGTH} characters"
)
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_LENGTH = 63
LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
# A batch/v1 Job's name is a label of its pods.
BATCH_NAME_LENGTH = 63

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/, without a sign
QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:(n|u|m|k|[MGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?")
FACTORS = {
    **{unit: Decimal(1000) ** (n - 3) for n, unit in enumerate(["n", "u", "m", "", *"kMGTPE"])},
    **{f"{unit}i": Decimal(1024) ** n for n, unit in enumerate("KMGTPE", start=1)},
}

# distribution's grammar: [host[:port]/]path[:tag][@sha256:...]
REFERENCE = re.compile(
    r"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


# Resources of a container without a domain: IsStandardContainerResourceName in pkg/apis/core/helper/helpers.go of 1.34.
OWN_RESOURCES = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES = "hugepages-"
EXTENDED = "a resource of the nodes, with its domain: example.org/device"


def quantity(text: str) -> Decimal:
    """Value of a Kubernetes quantity (`500m`, `2Gi`). Raises ValueError for any other text."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return Decimal(match[1]).scaleb(int(match[3] or 0)) * FACTORS[match[2] or ""]


def _text(value: Any) -> Any:
    """`cpu: 2` is a number in YAML and a quantity in Kubernetes."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    if not _is_quantity(value):
        raise refusal(
            "a Kubernetes quantity above zero: a number, also with a unit (m, k, M, G, T, Ki, Mi, Gi, Ti and so on)",
            "write for example 500m for half a CPU, or 2Gi for memory",
        )
    return value


def _label(value: str) -> str:
    if LABEL.fullmatch(value) is None:
        raise refusal(
            "a DNS label: lower-case letters, digits and `-`, at most 63 characters, no `-` at the beginning and end",
            f"write for example {_nearest(value, 63)}",
        )
    return value


def _subdomain(value: str) -> str:
    if SUBDOMAIN.fullmatch(value) is None or len(value) > 253:
        raise refusal(
            "a DNS name: lower-case letters, digits, `-` and `.`, at most 253 characters",
            f"write for example {_nearest(value, 63)}",
        )
    return value


def _label_key(value: str) -> str:
    prefix, slash, name = value.rpartition("/")
    known_prefix = not slash or (SUBDOMAIN.fullmatch(prefix) and len(prefix) <= 253)
    if not known_prefix or LABEL_NAME.fullmatch(name) is None:
        raise refusal(
            "a name of letters, digits, `-`, `_` and `.`, at most 63 characters; a DNS name and / may precede it",
            "write for example gpu, or example.org/gpu",
        )
    return value


def is_resource(name: str) -> bool:
    """Whether a container may ask for `name`: a resource of Kubernetes, or a resource with a domain in its name."""
    if name.startswith(HUGE_PAGES):
        return _is_quantity(name.removeprefix(HUGE_PAGES))
    return name in OWN_RESOURCES or _has_domain(name)


def _has_domain(name: str) -> bool:
    prefix, _, end = name.rpartition("/")
    is_domain = SUBDOMAIN.fullmatch(prefix) is not None and len(prefix) <= 253
    return is_domain and "kubernetes.io" not in prefix and LABEL_NAME.fullmatch(end) is not None


def _extended(value: str) -> str:
    if not _has_domain(value):
        fix = "write the name as the node has it, for example amd.com/gpu or nvidia.com/mig-1g.5gb"
        raise refusal(EXTENDED, fix)
    return value


def _is_quantity(value: str) -> bool:
    return QUANTITY.fullmatch(value) is not None and bool(quantity(value))


def _label_value(value: str) -> str:
    if value and LABEL_NAME.fullmatch(value) is None:
        raise refusal(
            "letters, digits, `-`, `_` and `.`, at most 63 characters; the first and the last are letters or digits",
            "write for example vision-team",
        )
    return value


def _host(value: str) -> str:
    try:
        return value if HOST.fullmatch(value) else str(ip_address(value))
    except ValueError:
        raise refusal(
            "a host name, or an IPv4 or IPv6 address", "write for example nfs.example.org or 192.0.2.7"
        ) from None


def _job_name(value: str) -> str:
    if JOB_NAME.fullmatch(value) is None or len(value) > JOB_NAME_LENGTH:
        raise refusal(
            JOB_NAME_RULE,
            f"write for example {_nearest(value, JOB_NAME_LENGTH)}",
        )
    return value


def _nearest(value: str, length: int) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", value.lower()).lstrip("-0123456789")
    return plain[:length].strip("-") or "mnist"


def _absolute(value: str) -> str:
    if (
        not value.startswith("/")
        or ".." in value.split("/")
        or posixpath.normpath(value) != value
        or value == "/"
    ):
        raise refusal(
            "an absolute path below /, without .. and without a / at the end",
            f"write for example {posixpath.normpath('/' + value.replace('..', '').strip('/')) or '/models'}",
        )
    return value


def _reference(value: str) -> str:
    if REFERENCE.fullmatch(value) is None:
        raise refusal(
            "an image reference: [host[:port]/]path, in lower case, then :tag, @sha256:<64 hex digits> or both",
            "write for example ghcr.io/you/trainer@sha256:… with the digest that `docker push` printed",
        )
    return value


Quantity = Annotated[str, BeforeValidator(_text), AfterValidator(_quantity)]
DnsLabel = Annotated[str, AfterValidator(_label)]
DnsName = Annotated[str, AfterValidator(_subdomain)]
JobName = Annotated[str, AfterValidator(_job_name)]
Host = Annotated[str, AfterValidator(_host)]
AbsolutePath = Annotated[str, AfterValidator(_absolute)]
Reference = Annotated[str, AfterValidator(_reference)]
LabelKey = Annotated[str, AfterValidator(_label_key)]
ExtendedResource = Annotated[str, AfterValidator(_extended)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
