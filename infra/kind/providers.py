"""Dynamic providers under the import names that states made by release 0.1 hold."""

from infra.clusters.kind.providers import ClusterProvider, ConnectionProvider, RegistryProvider

__all__ = ["ClusterProvider", "ConnectionProvider", "RegistryProvider"]
