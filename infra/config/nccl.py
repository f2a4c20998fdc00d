"""Section `job.nccl`: how GPUs of several pods exchange gradients."""

from __future__ import annotations

from enum import StrEnum

from infra.config.section import Section, setting


class NcclDebug(StrEnum):
    """NCCL's own log levels."""

    VERSION = "VERSION"
    WARN = "WARN"
    INFO = "INFO"
    TRACE = "TRACE"


class Nccl(Section):
    """NCCL's own settings, by its environment variables."""

    socket_interface: str | None = setting(
        about="Network interface between the pods, NCCL_SOCKET_IFNAME.",
        default=None,
        min_length=1,
        allowed="an interface's name",
        examples=["eth0"],
    )
    debug: NcclDebug | None = setting(about="Log level of NCCL, NCCL_DEBUG.", default=None)
    disable_infiniband: bool = setting(
        about="Do without InfiniBand, NCCL_IB_DISABLE.",
        default=False,
        allowed="true or false",
        examples=["true"],
    )
    disable_peer_to_peer: bool = setting(
        about="Do without copies from GPU to GPU, NCCL_P2P_DISABLE.",
        default=False,
        allowed="true or false",
        examples=["true"],
    )

    def environment(self) -> dict[str, str]:
        """Variable -> value, of what is set."""
        chosen = {
            "NCCL_SOCKET_IFNAME": self.socket_interface,
            "NCCL_DEBUG": self.debug.value if self.debug else None,
            "NCCL_IB_DISABLE": "1" if self.disable_infiniband else None,
            "NCCL_P2P_DISABLE": "1" if self.disable_peer_to_peer else None,
        }
        return {name: value for name, value in chosen.items() if value is not None}
