"""The kinds of Kubernetes' scheduler-plugins, and what names its scheduler and a pod's gang."""

from __future__ import annotations

from infra.objects.kinds import Kind

# Upstream's chart calls the Deployment so, and its scheduler; published examples of pods name it.
SCHEDULER = "scheduler-plugins-scheduler"
# Selects the Deployment of any second scheduler; the image tells whose.
SELECTOR = "component=scheduler"
IMAGE_PART = "scheduler-plugins/"
# PodGroupLabel in apis/scheduling/v1alpha1 of scheduler-plugins.
POD_GROUP = "scheduling.x-k8s.io/pod-group"
PODGROUP = Kind("PodGroup", "scheduling.x-k8s.io", "v1alpha1", "podgroups")
# Its controller reconciles both, and ends where one is missing.
KINDS = (PODGROUP, Kind("ElasticQuota", PODGROUP.group, PODGROUP.version, "elasticquotas"))
CRDS = tuple(each.crd for each in KINDS)
