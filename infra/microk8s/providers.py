"""Dynamic providers under the import names that states made by release 0.1 hold."""

from infra.clusters.microk8s.providers import MicroK8sProvider
from infra.image.providers import ImportedImageProvider

__all__ = ["ImportedImageProvider", "MicroK8sProvider"]
