"""Objects that several tests need."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"


def obj(api_version: str, kind: str, namespace: str = "", **fields: Any) -> Object:
    """An object; named `it` where it gets a namespace, else without a name."""
    metadata = {"name": "it", "namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def config_map(namespace: str, **data: str) -> Object:
    return obj("v1", "ConfigMap", namespace, data=data)


def annotated(given: Object, **annotations: str) -> Object:
    """The object with annotations of Pulumi's: `waitFor="..."` is `pulumi.com/waitFor: ...`."""
    named = {f"pulumi.com/{name}": value for name, value in annotations.items()}
    named |= given["metadata"].get("annotations", {})
    return {**given, "metadata": {**given["metadata"], "annotations": named}}


def pod_template(outcome: str = "run", **spec: Any) -> Object:
    """For outcomes see kubelet.py."""
    return {
        "metadata": {"labels": {"app": "it"}, "annotations": {"test/outcome": outcome}},
        "spec": {"containers": [{"name": "c", "image": "example/app:1"}], **spec},
    }


def workload(kind: str, namespace: str, outcome: str = "run", **spec: Any) -> Object:
    """A Deployment, StatefulSet or DaemonSet."""
    whole = {"selector": {"matchLabels": {"app": "it"}}, "template": pod_template(outcome), **spec}
    return obj("apps/v1", kind, namespace, spec=whole)


def job(namespace: str, outcome: str, **spec: Any) -> Object:
    template = pod_template(outcome, restartPolicy="Never")
    return obj("batch/v1", "Job", namespace, spec={"template": template, **spec})


def pod(namespace: str, outcome: str, **spec: Any) -> Object:
    template = pod_template(outcome, **spec)
    made = obj("v1", "Pod", namespace, spec=template["spec"])
    return {**made, "metadata": {**template["metadata"], **made["metadata"]}}


def service(namespace: str, app: str = "it", **spec: Any) -> Object:
    return obj("v1", "Service", namespace, spec={"selector": {"app": app}, "ports": [{"port": 80}], **spec})


def definition(group: str) -> Object:
    """A CRD of kind Thing that takes any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    made = obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec=spec)
    return {**made, "metadata": {"name": f"things.{group}"}}
