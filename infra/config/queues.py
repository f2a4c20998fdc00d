"""Section `cluster.queue`: the share of a cluster that Kueue gives to a team's jobs."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from enum import StrEnum

from pydantic import model_validator

from infra.config.names import DnsLabel, LabelKey, LabelValue, Quantity, quantity
from infra.config.resources import GPU
from infra.config.section import Count, Outcome, Section, Whole, every_key, refusal, setting

USUAL_FLAVOR = "default-flavor"
# Kueue puts each job of the namespace that names no queue into one of this name (its feature LocalQueueDefaulting).
DEFAULTING = "default"


class WithinQueue(StrEnum):
    """Which jobs of its own queue a waiting job may preempt, as Kueue spells it."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"


class WithinCohort(StrEnum):
    """Which jobs of queues that use more than their own quota may be preempted, as Kueue spells it."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    ANY = "Any"


class Amounts(Section):
    """Amounts, compared with the sum of `resources.requests` of all replicas of all admitted jobs."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    cpu: Quantity | None = setting(
        about="CPU.",
        default=None,
        allowed="a quantity of CPUs",
        examples=[8],
    )
    memory: Quantity | None = setting(
        about="Memory.",
        default=None,
        allowed="a quantity of bytes",
        examples=["32Gi"],
    )
    gpu: Count | None = setting(
        about=(
            "Number of GPUs. Each GPU resource that jobs use gets this amount (`nvidia.com/gpu`, `amd.com/gpu`)."
        ),
        default=None,
        allowed="a whole number of at least 1",
        examples=[4],
    )
    pods: Count | None = setting(
        about="Number of replicas.",
        default=None,
        allowed="a whole number of at least 1",
        examples=[20],
    )

    def given(self) -> dict[str, str]:
        """Key -> amount, of the keys that are given."""
        return {
            name: str(value) for name in type(self).model_fields if (value := getattr(self, name)) is not None
        }

    def by_resource(self, gpu_resources: Collection[str] = (GPU,)) -> dict[str, str]:
        """Resource -> amount. `gpu_resources`: the names of the jobs' GPU resources."""
        found = self.given()
        gpus = found.pop("gpu", None)
        return found | (dict.fromkeys(sorted(gpu_resources), gpus) if gpus else {})


class Flavor(Section):
    """Nodes of one kind, and the queue's quota of these nodes."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    name: DnsLabel = setting(
        about="Name of the ResourceFlavor; if somebody else created it, it is used unchanged.",
        default=USUAL_FLAVOR,
        allowed="a DNS label",
        examples=["a100"],
    )
    node_labels: dict[LabelKey, LabelValue] = setting(
        about="Labels of the nodes on which the flavor's jobs run; default: all nodes.",
        default_factory=dict,
        allowed="a mapping of labels to values",
        examples=["{gpu: a100}"],
    )
    nominal_quota: Amounts = setting(
        about=(
            "The queue's own quota of the flavor; a cohort lends more. The keys cpu and memory are required; gpu is "
            "needed if jobs use GPUs."
        ),
        allowed="a mapping with cpu, memory, gpu, pods",
        examples=["{cpu: 8, memory: 32Gi}"],
    )
    borrowing_limit: Amounts = setting(
        about=(
            "How much the queue's jobs may borrow from the cohort, beyond `nominalQuota` of the flavor; default: all "
            "unused quota."
        ),
        default=Amounts(),
        allowed="a mapping with keys of nominalQuota",
        examples=["{cpu: 4}"],
    )

    @model_validator(mode="after")
    def _counts_what_jobs_ask_for(self) -> Flavor:
        given = self.nominal_quota.given()
        for name, example in (("cpu", "8"), ("memory", "32Gi")):
            if name not in given:
                allowed = "cpu and memory: each job requests both, and Kueue admits only requests that the quota counts"
                fix = f"write for example `{name}: {example}`"
                raise refusal(allowed, fix, f"nominalQuota.{name}", None)
        for name, value in self.borrowing_limit.given().items():
            if name not in given:
                allowed = f"keys that nominalQuota has: {', '.join(given)}"
                fix = f"add {name} to nominalQuota, or remove it from borrowingLimit"
                raise refusal(allowed, fix, f"borrowingLimit.{name}", value)
        return self


class Preemption(Section):
    """When Kueue preempts an admitted job. The job waits again, then continues from its last checkpoint."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    within_cluster_queue: WithinQueue = setting(
        about="Which jobs of this queue are preempted for a job that waits in the same queue.",
        default=WithinQueue.NEVER,
    )
    reclaim_within_cohort: WithinCohort = setting(
        about=(
            "Which jobs of the cohort's other queues are preempted for a job that fits into the nominalQuota of this "
            "queue; only queues that use more than their own nominalQuota lose jobs."
        ),
        default=WithinCohort.NEVER,
    )


class QueueConfig(Section):
    """A ClusterQueue for the namespace of the jobs, with its LocalQueues, flavors and priorities."""

    model_config = every_key(changing=Outcome.IN_PLACE)

    name: DnsLabel | None = setting(
        about="Name of the ClusterQueue; default: trainstack-<stack>.",
        default=None,
        allowed="a DNS label",
        examples=["team-a"],
        note="The LocalQueues are created again.",
    )
    local_queues: tuple[DnsLabel, ...] = setting(
        about="LocalQueues that jobs of the namespace may name (`job.queue`); all share one quota.",
        min_length=1,
        allowed="a list of names",
        examples=["[training]"],
    )
    cohort: DnsLabel | None = setting(
        about="Name of the cohort; its queues lend each other the unused quota of common flavors.",
        default=None,
        allowed="a DNS label",
        examples=["research"],
    )
    flavors: tuple[Flavor, ...] = setting(
        about="The quota, by kind of node; Kueue tries a job on the first flavor, then on the next.",
        min_length=1,
        allowed="a list of mappings with nominalQuota",
        examples=["[{nominalQuota: {cpu: 8, memory: 32Gi}}]"],
    )
    preemption: Preemption = setting(
        about="When Kueue preempts an admitted job for another one.", default=Preemption()
    )
    priorities: dict[DnsLabel, Whole] = setting(
        about=(
            "WorkloadPriorityClasses that jobs may name (`job.priority`), with their values; if somebody else "
            "created a class, it is used unchanged."
        ),
        default_factory=dict,
        allowed="a mapping of names to whole numbers; the highest goes first",
        examples=["{urgent: 100}"],
    )

    @model_validator(mode="after")
    def _fits_together(self) -> QueueConfig:
        for key, names in (
            ("localQueues", self.local_queues),
            ("flavors", [each.name for each in self.flavors]),
        ):
            for name in names:
                if list(names).count(name) > 1:
                    raise refusal("different names", "rename one of the two", key, name)
        if DEFAULTING in self.local_queues:
            allowed = f"names other than {DEFAULTING}: Kueue puts jobs of the namespace without a queue into this queue"
            raise refusal(allowed, "write for example `localQueues: [training]`", "localQueues", DEFAULTING)
        first = self.flavors[0].nominal_quota.given()
        for place, each in enumerate(self.flavors):
            if each.nominal_quota.given().keys() != first.keys():
                found = ", ".join(each.nominal_quota.given())
                allowed = f"the same keys in each flavor: {', '.join(first)}"
                raise refusal(
                    allowed, "write all these keys in each flavor", f"flavors[{place}].nominalQuota", found
                )
            if self.cohort is None and (limits := each.borrowing_limit.given()):
                fix = "add `cohort: NAME`, or remove borrowingLimit"
                allowed = "no value without cohort: there is no other queue to borrow from"
                raise refusal(allowed, fix, f"flavors[{place}].borrowingLimit", str(limits))
        if self.cohort is None and self.preemption.reclaim_within_cohort is not WithinCohort.NEVER:
            allowed = f"{WithinCohort.NEVER} without cohort: no other queue borrows"
            value = self.preemption.reclaim_within_cohort.value
            raise refusal(
                allowed,
                "add `cohort: NAME`, or remove reclaimWithinCohort",
                "preemption.reclaimWithinCohort",
                value,
            )
        return self

    @property
    def shared(self) -> list[str]:
        """Titles of the objects that all queues of the cluster share: somebody else may have created them."""
        return [
            *(f"ResourceFlavor/{each.name}" for each in self.flavors),
            *(f"WorkloadPriorityClass/{name}" for name in self.priorities),
        ]

    @property
    def counted(self) -> list[str]:
        """The keys of nominalQuota that each flavor has."""
        return [*self.flavors[0].nominal_quota.given()]

    def most(self, amount: str) -> Decimal | None:
        """The most that one job can ever get from all flavors together; None if the quota does not count `amount`.

        Parameters:
            amount: a key of nominalQuota.
        """
        if amount not in self.counted:
            return None
        total = Decimal()
        for each in self.flavors:
            limit = each.borrowing_limit.given().get(amount, "0" if self.cohort is None else "")
            total += quantity(each.nominal_quota.given()[amount]) + (
                quantity(limit) if limit else Decimal("Infinity")
            )
        return total

    def name_for(self, stack: str) -> str:
        """The name of the ClusterQueue of `stack`: the given name, else trainstack-<stack>."""
        return self.name or f"trainstack-{stack}"
