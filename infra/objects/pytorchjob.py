"""The PyTorchJob as a kind of the Kubernetes API, and how its operator is recognized in a cluster."""

from __future__ import annotations

GROUP = "kubeflow.org"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "PyTorchJob"
PLURAL = "pytorchjobs"
CRD = f"{PLURAL}.{GROUP}"
# Selects the training-operator's Deployment, whoever installed it.
OPERATOR_SELECTOR = "control-plane=kubeflow-training-operator"
