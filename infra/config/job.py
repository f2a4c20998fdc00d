"""Section `job`, and each entry of `jobs`: one job."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from infra.config.api_paths import Counterpart, in_command, in_container, in_metadata, in_pod, in_run, outside
from infra.config.data_sets import DataSet
from infra.config.egress import Egress
from infra.config.names import JOB_NAME_RULE, DnsName, JobName, LabelKey, LabelValue
from infra.config.pod_template import CONTAINER, Pod, ensure_none_is_a_pods
from infra.config.resources import Replicas, ResourcesConfig
from infra.config.run_policies import ElasticPolicy, RestartPolicy, RunPolicy
from infra.config.section import Count, Natural, Outcome, Section, every_key, refusal, setting
from infra.config.strategic_merge import merged
from infra.config.training import Backend, TrainingConfig, options
from infra.config.variables import ITSELF, STACKS_OWN, Encrypted, EnvSource, Value, VariableName

TEXTS = "a mapping of text to text; quote numbers and true/false"
VALUES = (
    f"{TEXTS}. A value may be {{secret: NAME, key: KEY}}, or encrypted by `pulumi config set --secret --path`"
)
# Kubernetes refuses pods with a higher user id.
HIGHEST_ID = 2**31 - 1
# Names a job's LocalQueue to Kueue.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class JobConfig(Section):
    """One job: a PyTorchJob, or with `operator.api: v2` a TrainJob.

    Write the options of our trainer into `training`, not into `args`. A program of your own may have any `args`.
    """

    model_config = every_key(changing=Outcome.JOB_REPLACED)

    name: JobName = setting(
        about="Name of the job, and first part of its runs' ids.",
        allowed=JOB_NAME_RULE,
        examples=["mnist"],
        paths=Counterpart(
            "metadata.name",
            "metadata.name",
            "The runtime has the job's name. With v2, a name has at most 48 characters; with 11 to 100 replicas "
            "47, with more 46.",
        ),
    )
    replicas: Replicas = setting(
        about="How many pods train together.", default=Replicas(), allowed="a mapping with master and worker"
    )
    restart_policy: RestartPolicy = setting(
        about="When a container that has ended is started again.",
        default=RestartPolicy.ON_FAILURE,
        paths=Counterpart(
            "pytorchReplicaSpecs.*.restartPolicy",
            "TrainingRuntime: template.spec.failurePolicy",
            "v1 restarts the failed container, v2 restarts all replicas. With ExitCode, exit codes 1 to 127 end the "
            "job in both; v2 uses `podFailurePolicy`. Always is refused with v2.",
        ),
    )
    command: tuple[str, ...] = setting(
        about="Command of the container; the options of `training` follow it as --name=value.",
        default=(),
        allowed="a list of words",
        examples=["[python3, x.py]"],
        paths=in_command("command"),
    )
    args: tuple[str, ...] = setting(
        about=(
            "Arguments of the container. They come last: after `command`, if there is one, and the options of "
            "`training`."
        ),
        default=(),
        allowed="a list of words",
        examples=['["--no-cuda"]'],
        paths=in_command("args"),
    )
    training: TrainingConfig = setting(about="Options of the trainer.", default=TrainingConfig())
    env: dict[VariableName, Value] = setting(
        about=(
            "Environment variables of the container, sorted by name; encrypted values go through a Secret of the stack."
        ),
        default_factory=dict,
        allowed=VALUES,
        examples=["{OMP_NUM_THREADS: '1'}"],
        paths=in_container("env"),
    )
    env_from: tuple[EnvSource, ...] = setting(
        about="Secrets and ConfigMaps of the namespace whose keys become environment variables.",
        default=(),
        allowed="a list of mappings with secret or configMap",
        examples=["[{secret: registry-login}]"],
    )
    egress: tuple[Egress, ...] | None = setting(
        about=(
            "Ports that replicas may reach besides each other and DNS; a NetworkPolicy allows only these. Default: "
            "none in a cluster that the stack creates, everything in an existing cluster. A kind cluster does not "
            "enforce it if `make up` has built the node image: see [networks](security.md#the-replicas-network)."
        ),
        default=None,
        allowed="a list of ports, [] for none",
        examples=["[{port: 443}]"],
        changing=Outcome.IN_PLACE,
    )
    resources: ResourcesConfig = setting(
        about="What one replica may use, and what the scheduler reserves for it.",
        default=ResourcesConfig(),
        allowed="a mapping with cpu, memory, gpu",
    )
    run_policy: RunPolicy = setting(
        about="When the job counts as failed, and what stays after its end.", default=RunPolicy()
    )
    queue: DnsName | None = setting(
        about="Kueue LocalQueue of the namespace; the job waits there, suspended, until Kueue admits it.",
        default=None,
        max_length=63,
        allowed="a LocalQueue's name, at most 63 characters",
        examples=["team-a"],
        note="The new job waits for Kueue. The run continues with the same id.",
        paths=Counterpart(
            "metadata.labels, runPolicy.suspend",
            "metadata.labels, suspend",
            "Kueue takes `suspend` over: see [Queues](kueue.md).",
        ),
    )
    priority: DnsName | None = setting(
        about=(
            "WorkloadPriorityClass that decides the job's place in Kueue: one of `cluster.queue.priorities`; if the "
            "stack lists none, one of the cluster."
        ),
        default=None,
        allowed="a WorkloadPriorityClass's name, together with queue",
        max_length=63,
        examples=["urgent"],
        note="The new job waits for Kueue. The run continues with the same id.",
        paths=Counterpart("metadata.labels", "metadata.labels"),
    )
    elastic_policy: ElasticPolicy | None = setting(
        about="Let torchrun train with a changing number of workers.", default=None
    )
    nproc_per_node: Count = setting(
        about="Number of processes that torchrun starts in each pod.",
        default=1,
        allowed="a whole number of at least 1",
        examples=[1],
        paths=Counterpart(v2="trainer.numProcPerNode"),
    )
    annotations: dict[LabelKey, str] = setting(
        about="Annotations of the job and its pods.",
        default_factory=dict,
        allowed=TEXTS,
        examples=["{team: vision}"],
        paths=in_metadata("annotations"),
    )
    labels: dict[LabelKey, LabelValue] = setting(
        about="Labels of the job and its pods.",
        default_factory=dict,
        allowed=TEXTS,
        examples=["{team: vision}"],
        paths=in_metadata("labels"),
    )
    pod: Pod = setting(
        about=(
            "Any part of Kubernetes' pod template, merged over the template of each replica; the container is "
            "called pytorch."
        ),
        default_factory=dict,
        allowed="a part of a PodTemplateSpec: metadata with labels and annotations, and spec",
        examples=["{spec: {nodeSelector: {gpu: 'true'}}}"],
        paths=in_pod(note="In v2, the container pytorch is called node."),
    )
    user: Count = setting(
        about="User id of the container's processes; their group is 0; root is refused.",
        default=1000,
        le=HIGHEST_ID,
        allowed="a whole number of at least 1, at most 2147483647",
        examples=[1000],
        note="The run continues with the same id.",
        paths=in_pod("spec.securityContext.runAsUser"),
    )
    read_only_root: bool = setting(
        about="Make the image's files read-only; the volume and /tmp stay writable.",
        default=True,
        examples=["false"],
        paths=in_container("securityContext.readOnlyRootFilesystem"),
    )
    model: str | None = setting(
        about=(
            "File that the job writes into its run's folder; at the end of the run, it is copied to the top of the "
            "volume."
        ),
        default="mnist_cnn.pt",
        pattern=r"^[\w][\w.-]*$",
        allowed="a file name, or null for none",
        examples=["mnist_cnn.pt"],
        changing=Outcome.IN_PLACE,
        paths=outside("In neither: the stack expects this file on the volume."),
    )
    rerun: Natural = setting(
        about="A new number trains the same job again, as a new run.",
        default=0,
        allowed="a whole number of at least 0",
        examples=[1],
        paths=in_run("It is part of the run's id."),
    )
    run_id: str | None = setting(
        about=(
            "Id of a finished run. Instead of training, the job copies the model of that run to the top of the volume; "
            "`make use RUN=…` sets this key."
        ),
        default=None,
        pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$",
        allowed="the id of a finished run, or null",
        examples=["mnist-0a1b2c3d"],
        paths=in_run("It is the run's id. Such a job has one replica with one process."),
    )
    data: tuple[DataSet, ...] | None = setting(
        about=(
            "Data sets in the pods, read-only. Default: in a kind cluster the clone's data/ at /data, in other "
            "clusters none: see [Data](data.md)."
        ),
        default=None,
        allowed="a list of mappings with path and one of claim, folder, nfs, configMap; [] for none",
        examples=["[{path: /data, claim: images}]"],
        changing=Outcome.JOB_REPLACED,
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_job(cls, given: Any) -> Any:
        return ensure_none_is_a_pods(given, {str(field.alias) for field in cls.model_fields.values()})

    @model_validator(mode="after")
    def _consistent(self) -> JobConfig:
        given = self.training.backend or _option("--backend", self.command_line)
        if given == Backend.NCCL and not self.resources.gpu:
            raise refusal(
                "at least 1 with backend nccl",
                "set `resources: {gpu: 1}`, or `backend: gloo`",
                "resources.gpu",
                self.resources.gpu,
            )
        for name, value in options(self.training).items():
            if _option(f"--{name}", self.command_line) is not None:
                fix = f"keep it in training, and remove --{name} from command and args"
                raise refusal(f"--{name} in only one place", fix, f"training.{name}", value)
        self._ensure_kueue_alone_suspends()
        self._ensure_none_is_the_stacks()
        self._ensure_resources_stand_once()
        if self.elastic_policy and self.replicas.worker is None:
            raise refusal("at least 1 with elasticPolicy", "set `worker: 1`", "replicas.worker", None)
        elastic = self.elastic_policy
        if elastic and elastic.standalone and max(self.replicas.total, elastic.max_replicas or 0) > 1:
            raise refusal(
                "false in a job of several pods: each pod would train alone",
                "remove standalone, or set `replicas: {master: null, worker: 1}` and `maxReplicas: 1`",
                "elasticPolicy.standalone",
                True,
            )
        self._ensure_elastic_pods_meet()
        if not self.replicas.total:
            raise refusal("at least one replica", "set `master: 1`", "replicas.master", None)
        if self.replicas.master is None and self.elastic_policy is None:
            raise refusal("1; null only with elasticPolicy", "set `master: 1`", "replicas.master", None)
        return self

    def _ensure_kueue_alone_suspends(self) -> None:
        """Raises a refusal for a key that contradicts `queue` or `priority`: only Kueue suspends a job of a queue."""
        if self.queue and self.run_policy.suspend:
            allowed = "false with queue: the job is created suspended, and only Kueue decides when it runs"
            raise refusal(allowed, "remove suspend, or queue", "runPolicy.suspend", True)
        for key, label in (("queue", QUEUE_LABEL), ("priority", PRIORITY_LABEL)):
            if getattr(self, key) and label in self.labels:
                fix = f"remove {label} from labels"
                raise refusal(f"labels without {label}, which {key} sets", fix, "labels", self.labels)

    def _ensure_elastic_pods_meet(self) -> None:
        """Raises a refusal for an elastic policy with which pods would wait until the deadline.

        They would wait for missing pods, or because too many pods train already. If only one of minReplicas and
        maxReplicas is given, the operator uses it for both (setElasticPolicy in
        pkg/apis/kubeflow.org/v1/pytorch_defaults.go of training-operator 1.9.3). With metrics, an autoscaler keeps
        the number of workers between these two keys.
        """
        elastic, pods = self.elastic_policy, self.replicas.total
        if elastic is None or elastic.metrics is not None:
            return
        fewest, most = (
            elastic.min_replicas or elastic.max_replicas,
            elastic.max_replicas or elastic.min_replicas,
        )
        if fewest and fewest > pods:
            key = "minReplicas" if elastic.min_replicas else "maxReplicas"
            alone = "" if elastic.min_replicas else "without minReplicas, maxReplicas is also the minimum; "
            allowed = (
                f"at most {pods}, the number of pods in replicas: {alone}the pods would wait for more pods"
            )
            fix = f"write `minReplicas: {pods}`, or raise replicas.worker"
            raise refusal(allowed, fix, f"elasticPolicy.{key}", fewest)
        workers = self.replicas.worker or 0
        if most and most < workers:
            alone = "" if elastic.max_replicas else "without maxReplicas, minReplicas is also the maximum; "
            allowed = (
                f"at least {workers}, the number in replicas.worker: {alone}the other workers would not train"
            )
            fix = f"write `maxReplicas: {workers}`, or lower replicas.worker"
            raise refusal(allowed, fix, "elasticPolicy.maxReplicas", elastic.max_replicas)

    def _ensure_none_is_the_stacks(self) -> None:
        """Raises a refusal for a variable that the stack sets and relies on."""
        for name, value in self.env.items():
            if key := STACKS_OWN.get(name):
                shown = value if isinstance(value, str) else "(present)"
                fix = "remove it from env" + ("" if key == ITSELF else f"; set {key}")
                raise refusal(
                    f"variables that the stack does not set: {key} sets this one", fix, f"env.{name}", shown
                )

    def _ensure_resources_stand_once(self) -> None:
        """Raises a refusal for a resource of `pod` that `resources` has, too."""
        limits, requests = self.resources.limits(), self.resources.requests.quantities()
        for container in self.pod_spec.get("containers") or []:
            asked = container.get("resources") or {} if container["name"] == CONTAINER else {}
            for kind, own in (("limits", limits), ("requests", {**limits, **requests})):
                for name in sorted({*(asked.get(kind) or {})} & own.keys()):
                    where = f"pod.spec.containers[{CONTAINER}].resources.{kind}.{name}"
                    allowed = "resources that job.resources does not have"
                    raise refusal(
                        allowed, f"remove it from pod; set job.resources.{name}", where, asked[kind][name]
                    )

    @property
    def starts_suspended(self) -> bool:
        """Whether the job is created suspended, without pods: Kueue or a user starts it later."""
        return self.run_policy.suspend or self.queue is not None

    @property
    def encrypted(self) -> dict[str, Encrypted]:
        """The variables whose values Pulumi keeps encrypted."""
        return {name: value for name, value in self.env.items() if isinstance(value, Encrypted)}

    @property
    def pod_spec(self) -> dict[str, Any]:
        """The fields of the pods' spec in `pod`, without the directives of a patch."""
        return dict(merged({}, self.pod).get("spec") or {})

    @property
    def command_line(self) -> tuple[str, ...]:
        """The words of `command` and `args` in the stack file."""
        return (*self.command, *self.args)

    def with_one_process(self) -> JobConfig:
        """This job with one replica of one process: a job that takes a finished run (`runId`) needs no more.

        Nothing is trained, so no ranks meet. A second pod could even wait forever: its init container waits until rank
        0 listens, and rank 0 can end before that.
        """
        policy = self.run_policy
        if policy.scheduling_policy:
            gang = {"min_available": None, "min_resources": None}
            policy = policy.model_copy(
                update={"scheduling_policy": policy.scheduling_policy.model_copy(update=gang)}
            )
        one = {"replicas": Replicas(master=1, worker=None), "elastic_policy": None, "nproc_per_node": 1}
        return self.model_copy(update={**one, "run_policy": policy})


def _option(name: str, words: tuple[str, ...]) -> str | None:
    for place, word in enumerate(words):
        if word == name:
            return words[place + 1] if place + 1 < len(words) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None
