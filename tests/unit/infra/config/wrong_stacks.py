"""Wrong stack files, each with what its error has to say: one table for the program and for real previews."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.unit.infra.samples import JOB

REFERENCE = "ghcr.io/you/trainer@sha256:" + "0" * 64


def job(**changes: Any) -> dict[str, Any]:
    return {"job": {**JOB, **changes}}


def with_job(**sections: Any) -> dict[str, Any]:
    return {"job": JOB, **sections}


def with_storage(**changes: Any) -> dict[str, Any]:
    return with_job(storage=changes)


def training(**changes: Any) -> dict[str, Any]:
    return job(training=changes)


def search(option: Any, key: str = "training.lr", **changes: Any) -> dict[str, Any]:
    return with_job(sweep={"options": {key: option}, **changes})


AMOUNTS = {"nominalQuota": {"cpu": 8, "memory": "32Gi"}}
QUOTA = {"localQueues": ["training"], "flavors": [AMOUNTS]}


def quota(job: Any = JOB, **changes: Any) -> dict[str, Any]:
    return {"job": job, "operator": {"queue": "kueue"}, "cluster": {"queue": {**QUOTA, **changes}}}


def flavor(job: Any = JOB, cohort: str | None = None, **changes: Any) -> dict[str, Any]:
    return quota(job, flavors=[{**AMOUNTS, **changes}], cohort=cohort)


EXISTING = {"kind": "existing"}


class Case(NamedTuple):
    """A wrong stack file and what its error has to say.

    `sections` are the file's; `key` is without its prefix; `value` as it is shown; `allowed` a word of what is
    allowed; `fix` a word of the fix, or several that will do, parted by |.
    """

    sections: dict[str, Any]
    key: str
    value: str
    allowed: str
    fix: str

    def check(self, text: str) -> None:
        """Assert that the error `text`, which begins with the file's name, says all that a user needs."""
        first, *rest = text.splitlines()
        assert first.startswith("stacks/Pulumi.dev.yaml: "), f"the file is named: {text}"
        named = self.key if self.key.startswith("policy") else f"trainstack:{self.key} = "
        assert named in first, f"the key is named: {text}"
        assert self.value in first, f"the bad value is shown: {text}"
        assert self.allowed in text, f"what is allowed is said: {text}"
        fixes = [line for line in rest if line.lstrip().startswith("fix: ")]
        assert any(word in "\n".join(fixes) for word in self.fix.split("|")), f"the fix is said: {text}"


CASES: dict[str, Case] = {
    "no job": Case({}, "job", "(absent)", "one job", "add `trainstack:job"),
    "job and jobs": Case({"job": JOB, "jobs": [JOB]}, "job", "(present", "one job", "into the list jobs"),
    "two jobs of one name": Case(
        {"jobs": [JOB, JOB]},
        "jobs[1].name",
        "'pytorch-simple'",
        "differ",
        "pytorch-simple-2",
    ),
    "a matrix beside a list": Case(
        {"jobs": [JOB], "matrix": {"options": {"training.seed": [1]}}},
        "matrix",
        "(present beside jobs)",
        "matrix beside job",
        "in place of jobs",
    ),
    "an unknown key in a matrix": Case(
        with_job(matrix={"options": {"training.sed": [1]}}),
        "matrix.options.training.sed",
        "(unknown)",
        "the keys of job.training",
        "did you mean training.seed",
    ),
    "a bad value in a matrix": Case(
        with_job(matrix={"options": {"training.lr": [0.1, -1]}}),
        "matrix.options.training.lr[1]",
        "-1",
        "above 0",
        "0.01",
    ),
    "names of a matrix too long": Case(
        with_job(matrix={"options": {"env.A": ["x" * 60]}}),
        "matrix.options",
        "(makes pytorch-simple-a-xxx",
        "at most 50 characters; this one has 77",
        "shorten job.name",
    ),
    "unknown section": Case(with_job(clutser={}), "clutser", "{}", "cluster, image", "did you mean cluster"),
    "unknown key": Case(job(comand=["x"]), "job.comand", "['x']", "command", "did you mean command"),
    "unknown nested key": Case(training(epoch=3), "job.training.epoch", "3", "epochs", "did you mean epochs"),
    "snake case": Case(
        job(restart_policy="Never"),
        "job.restart_policy",
        "'Never'",
        "restartPolicy",
        "did you mean",
    ),
    "section is no mapping": Case(with_job(cluster="kind"), "cluster", "'kind'", "mapping", "cluster:"),
    "name is missing": Case({"job": {"args": []}}, "job.name", "(absent)", "name", "add `name:"),
    "name with capitals": Case(job(name="MNIST_1"), "job.name", "'MNIST_1'", "lower-case", "mnist-1"),
    "name too long": Case(job(name="m" * 60), "job.name", "mmm", "at most 50", "mmm"),
    "name starts with a digit": Case(job(name="1st"), "job.name", "'1st'", "a letter first", "st"),
    "bad namespace": Case(
        with_job(cluster={"namespace": "Kube.Flow"}),
        "cluster.namespace",
        "Kube.Flow",
        "DNS",
        "kube-flow",
    ),
    "epochs are negative": Case(
        training(epochs=-1), "job.training.epochs", "-1", "at least 1", "`epochs: 1`"
    ),
    "epochs are text": Case(
        training(epochs="3"),
        "job.training.epochs",
        "'3'",
        "whole number",
        "without quotes|itself",
    ),
    "epochs are broken": Case(training(epochs=1.5), "job.training.epochs", "1.5", "whole number", "1"),
    "no learning rate": Case(training(lr=0), "job.training.lr", "0", "above 0", "0.01"),
    "unknown data set": Case(
        training(dataset="cifar"),
        "job.training.dataset",
        "'cifar'",
        "fashion-mnist",
        "dataset:",
    ),
    "unknown backend": Case(training(backend="ncl"), "job.training.backend", "'ncl'", "gloo, nccl", "nccl"),
    "option given twice": Case(
        job(args=["--epochs=3"], training={"epochs": 1}),
        "job.training.epochs",
        "'1'",
        "one place",
        "out of command and args",
    ),
    "nccl without GPUs": Case(training(backend="nccl"), "job.resources.gpu", "0", "at least 1", "gpu: 1"),
    "nccl by argument": Case(
        job(args=["--backend", "nccl"]), "job.resources.gpu", "0", "at least 1", "gpu: 1"
    ),
    "no workers": Case(job(replicas={"worker": 0}), "job.replicas.worker", "0", "at least 1", "worker: 1"),
    "two masters": Case(job(replicas={"master": 2}), "job.replicas.master", "2", "1", "master: 1"),
    "workers alone": Case(
        job(replicas={"master": None}),
        "job.replicas.master",
        "None",
        "elasticPolicy",
        "master: 1",
    ),
    **{
        f"{key} with a bad {part}": Case(
            with_storage(labels=labels)
            if key == "storage.labels"
            else job(**{key.rpartition(".")[2]: labels}),
            f"{key}.{next(iter(labels))}",
            shown,
            allowed,
            "write for example",
        )
        for key in ("job.labels", "storage.labels")
        for part, labels, shown, allowed in (
            ("key", {"gpu type": "a100"}, "'gpu type'", "a name of letters"),
            ("prefix", {"NVIDIA.com/gpu": "a100"}, "'NVIDIA.com/gpu'", "a DNS name and /"),
            ("value", {"gpu": "NVIDIA A100"}, "'NVIDIA A100'", "letters, digits"),
            ("long value", {"gpu": "x" * 64}, "xxx", "at most 63 characters"),
        )
    },
    "a bad annotation": Case(
        job(annotations={"a/b/c": "x"}), "job.annotations.a/b/c", "'a/b/c'", "a DNS name and /", "example.org"
    ),
    "a user id too high": Case(job(user=2**31), "job.user", "2147483648", "at most 2147483647", "user: 1000"),
    "a cluster's name too long for its nodes": Case(
        with_job(cluster={"name": "c" * 60}), "cluster.name", "ccc", "at most 49 characters", "name: ccc"
    ),
    "a volume's name too long for a label": Case(
        with_storage(volume="v" * 64, claim="models"), "storage.volume", "vvv", "at most 63", "volume: vvv"
    ),
    "bad quantity": Case(
        job(resources={"memory": "2 GB"}), "job.resources.memory", "'2 GB'", "quantity", "2Gi"
    ),
    "request over limit": Case(
        job(resources={"cpu": 1, "requests": {"cpu": 2}}),
        "job.resources.requests.cpu",
        "'2'",
        "at most the limit",
        "lower requests.cpu",
    ),
    "a resource's name that is none": Case(
        job(resources={"ephemeral_storage": "8Gi"}),
        "job.resources.ephemeral_storage",
        "'8Gi'",
        "cpu, memory, gpu, gpuResource, requests, ephemeral-storage, hugepages-2Mi, or",
        "did you mean ephemeral-storage?",
    ),
    "a request for what has a limit alone": Case(
        job(resources={"requests": {"gpu": 1}}), "job.resources.requests.gpu", "1", "cpu, memory", "remove"
    ),
    "a resource with no quantity": Case(
        job(resources={"amd.com/gpu": "two"}), "job.resources.amd.com/gpu", "'two'", "quantity", "example"
    ),
    "a part of a device": Case(
        job(resources={"amd.com/gpu": "1500m"}),
        "job.resources.amd.com/gpu",
        "'1500m'",
        "whole",
        "amd.com/gpu: 1",
    ),
    "a part of a huge page": Case(
        job(resources={"hugepages-2Mi": "3Mi"}), "job.resources.hugepages-2Mi", "'3Mi'", "pages of 2Mi", "2Mi"
    ),
    "GPUs counted twice": Case(
        job(resources={"gpu": 1, "nvidia.com/gpu": 1}),
        "job.resources.nvidia.com/gpu",
        "'1'",
        "gpu, which counts nvidia.com/gpu",
        "write `gpu: 1`",
    ),
    "a vendor for a resource": Case(
        job(resources={"gpu": 1, "gpuResource": "amd"}),
        "job.resources.gpuResource",
        "'amd'",
        "domain",
        "amd.com/gpu",
    ),
    "a request for a device without its limit": Case(
        job(resources={"requests": {"amd.com/gpu": 1}}),
        "job.resources.requests.amd.com/gpu",
        "'1'",
        "beside a limit",
        "write amd.com/gpu",
    ),
    "fewer devices requested than limited": Case(
        job(resources={"amd.com/gpu": 2, "requests": {"amd.com/gpu": 1}}),
        "job.resources.requests.amd.com/gpu",
        "'1'",
        "the limit itself (2)",
        "remove requests.amd.com/gpu",
    ),
    "more ephemeral storage requested than limited": Case(
        job(resources={"ephemeral-storage": "1Gi", "requests": {"ephemeral-storage": "2Gi"}}),
        "job.resources.requests.ephemeral-storage",
        "'2Gi'",
        "at most the limit (1Gi)",
        "lower requests.ephemeral-storage",
    ),
    "a resource at two places": Case(
        job(
            resources={"ephemeral-storage": "1Gi"},
            pod={
                "spec": {
                    "containers": [{"name": "pytorch", "resources": {"limits": {"ephemeral-storage": "2Gi"}}}]
                }
            },
        ),
        "job.pod.spec.containers[pytorch].resources.limits.ephemeral-storage",
        "'2Gi'",
        "resources that job.resources does not have",
        "take it out of pod",
    ),
    "claim over volume": Case(
        with_job(storage={"request": "20Gi"}),
        "storage.request",
        "'20Gi'",
        "10Gi",
        "`request: 10Gi`",
    ),
    "claim too long for its preparation": Case(
        with_job(storage={"kind": "class", "storageClass": "fast" * 20}),
        "storage.claim",
        "(absent, so trainstack-dev-models-fast",
        "at most 55 characters",
        "`claim: trainstack-dev-models-",
    ),
    "relative hostPath": Case(
        with_job(storage={"hostPath": "models"}),
        "storage.hostPath",
        "'models'",
        "absolute",
        "/models",
    ),
    "hostPath with ..": Case(
        with_job(storage={"hostPath": "/var/../etc"}),
        "storage.hostPath",
        "'/var/../etc'",
        "without ..",
        "/var",
    ),
    "mode that shuts the group out": Case(
        with_job(storage={"mode": "0755"}),
        "storage.mode",
        "'0755'",
        "all rights for owner and group",
        "2775",
    ),
    "mode in which the group may write and not enter": Case(
        with_job(storage={"mode": "0760"}),
        "storage.mode",
        "'0760'",
        "all rights for owner and group",
        "2775",
    ),
    "mode that shuts the owner out": Case(
        with_job(storage={"mode": "0075"}),
        "storage.mode",
        "'0075'",
        "all rights for owner and group",
        "2775",
    ),
    "mode with the sticky bit": Case(
        with_job(storage={"mode": "3775"}),
        "storage.mode",
        "'3775'",
        "without the sticky bit",
        "2775",
    ),
    "unknown access mode": Case(
        with_job(storage={"accessMode": "RWX"}),
        "storage.accessMode",
        "'RWX'",
        "ReadWriteMany",
        "accessMode: ReadWrite",
    ),
    "a limit of runs without a number": Case(
        with_job(storage={"keepRuns": {}}),
        "storage.keepRuns.number",
        "(absent)",
        "number, days or both",
        "`number: 10`",
    ),
    "no run kept": Case(
        with_job(storage={"keepRuns": {"number": 0}}),
        "storage.keepRuns.number",
        "0",
        "at least 1",
        "number: 10",
    ),
    "models may be deleted": Case(
        with_job(storage={"reclaimPolicy": "Delete"}),
        "policy: PersistentVolume",
        "Delete",
        "may delete the models",
        "reclaimPolicy: Retain",
    ),
    "hostPath elsewhere": Case(
        with_job(storage={"hostPath": "/etc/x"}),
        "policy: PersistentVolume",
        "/etc/x",
        "below",
        "allowedRoots",
    ),
    "unknown kind of cluster": Case(
        with_job(cluster={"kind": "minikube"}),
        "cluster.kind",
        "'minikube'",
        "microk8s",
        "kind:",
    ),
    "workers elsewhere": Case(
        with_job(cluster={**EXISTING, "workers": 2}, image={"reference": REFERENCE}),
        "cluster.workers",
        "2",
        "only where kind is kind",
        "remove workers",
    ),
    "port out of range": Case(
        with_job(cluster={"apiServerPort": 70000}),
        "cluster.apiServerPort",
        "70000",
        "65535",
        "6443",
    ),
    "bad channel": Case(
        with_job(cluster={"kind": "microk8s", "channel": "latest"}),
        "cluster.channel",
        "'latest'",
        "<version>/<risk>",
        "1.34/stable",
    ),
    "no image for a cluster elsewhere": Case(
        with_job(cluster=EXISTING),
        "image.repository",
        "(absent)",
        "image.reference",
        "repository:",
    ),
    "bad image reference": Case(
        with_job(image={"reference": "Trainer:::"}),
        "image.reference",
        "Trainer:::",
        "lower case",
        "sha256",
    ),
    "image without digest": Case(
        with_job(image={"reference": "ghcr.io/you/trainer:1"}),
        "policy: PyTorchJob",
        "trainer:1",
        "no digest",
        "unpinned: true",
    ),
    "repository with a tag": Case(
        with_job(image={"repository": "ghcr.io/you/trainer:1"}),
        "image.repository",
        "trainer:1",
        "without tag",
        "`repository: ghcr.io/you/trainer`",
    ),
    "reference and target": Case(
        with_job(image={"reference": REFERENCE, "target": "gpu"}),
        "image.reference",
        "ghcr.io",
        "either reference",
        "remove reference",
    ),
    "reference and context": Case(
        with_job(image={"reference": REFERENCE, "context": "examples/own-network"}),
        "image.reference",
        "ghcr.io",
        "either reference",
        "remove reference",
    ),
    "reference and dockerfile": Case(
        with_job(image={"reference": REFERENCE, "dockerfile": "Dockerfile_training"}),
        "image.reference",
        "ghcr.io",
        "either reference",
        "remove reference",
    ),
    "no such project": Case(
        with_job(image={"context": "examples/nowhere"}),
        "image.context",
        "'examples/nowhere'",
        "a folder's path",
        "there is no folder",
    ),
    "a file for a project": Case(
        with_job(image={"context": "Makefile"}), "image.context", "'Makefile'", "a folder", "no folder"
    ),
    "no such dockerfile": Case(
        with_job(image={"dockerfile": "examples/Dockerfile"}),
        "image.dockerfile",
        "'examples/Dockerfile'",
        "a Dockerfile's path",
        "there is no file",
    ),
    "the clone as a project": Case(
        with_job(image={"context": "."}), "image.context", "'.'", "not hold the clone", "folder of its own"
    ),
    "the clone as a Dockerfile's folder": Case(
        with_job(image={"dockerfile": "Dockerfile_training"}),
        "image.dockerfile",
        "'Dockerfile_training'",
        "not hold the clone",
        "folder of its own",
    ),
    "a preset of no image of ours": Case(
        with_job(image={"dockerfile": "examples/own-script/Dockerfile", "preset": "convnet"}),
        "image.preset",
        "'convnet'",
        "nothing beside a Dockerfile",
        "ARG TRAINER_IMAGE",
    ),
    "a finished run of a job without a model": Case(
        job(runId="mnist-0a1b2c3d", model=None),
        "job.runId",
        "'mnist-0a1b2c3d'",
        "nothing where job.model is null",
        "remove it",
    ),
    "a run that is no id": Case(
        job(runId="Mnist 1"), "job.runId", "'Mnist 1'", "id of a finished run", "runId"
    ),
    "an operator that handles no job": Case(
        with_job(operator={"concurrency": 0}), "operator.concurrency", "0", "from 1 on", "8"
    ),
    "unknown install": Case(
        with_job(operator={"install": "maybe"}),
        "operator.install",
        "'maybe'",
        "auto, always",
        "install:",
    ),
    "env that is no text": Case(job(env={"A": 1}), "job.env.A", "1", "quote", "A:"),
    **{
        f"env with the stack's {name}": Case(
            job(env={name: "x"}), f"job.env.{name}", "'x'", f"{key} says it", fix
        )
        for name, key, fix in [
            ("TRAINER_RUN", "the stack itself", "take it out of env"),
            ("TRAINER_MODEL_DIR", "storage.mountPath", "set storage.mountPath"),
            ("TRAINER_TAKE_FINISHED", "job.runId", "set job.runId"),
        ]
    },
    "the stack's variable from a Secret": Case(
        job(env={"TRAINER_RUN": {"secret": "login", "key": "a"}}),
        "job.env.TRAINER_RUN",
        "(present)",
        "the stack itself says it",
        "take it out of env",
    ),
    "the stack's variable in a matrix": Case(
        with_job(matrix={"options": {"env.TRAINER_RUN": ["x"]}}),
        "matrix.options.env.TRAINER_RUN[0]",
        "'x'",
        "the stack itself says it",
        "take it out of env",
    ),
    "env with an odd name": Case(job(env={"A B": "1"}), "job.env.A B", "'A B'", "letters, digits", "rename"),
    "env from a Secret without a key": Case(
        job(env={"A": {"secret": "login"}}), "job.env.A.key", "(absent)", "a key of that Secret", "add `key:"
    ),
    "env from an unknown source": Case(
        job(env={"A": {"secret": "login", "key": "a", "map": "b"}}),
        "job.env.A.map",
        "'b'",
        "key, secret",
        "remove the key|did you mean",
    ),
    "envFrom without a source": Case(
        job(envFrom=[{"prefix": "A_"}]), "job.envFrom[0].secret", "None", "one of secret", "- secret: NAME"
    ),
    "envFrom with two sources": Case(
        job(envFrom=[{"secret": "a", "configMap": "b"}]),
        "job.envFrom[0].secret",
        "'a'",
        "one of secret",
        "- secret: NAME",
    ),
    "an encrypted word of the command": Case(
        job(args=["--token", {"secure": "v1:cipher"}]),
        "job.args[1]",
        "(secret)",
        "job.env alone",
        "pulumi config set --secret --path",
    ),
    "an encrypted section": Case(
        with_job(image={"secure": "v1:cipher"}), "image", "(secret)", "job.env alone", "plain text"
    ),
    "command that is no list": Case(
        job(command="python3 x.py"),
        "job.command",
        "python3 x.py",
        "list of words",
        "[",
    ),
    "unknown restart policy": Case(
        job(restartPolicy="Sometimes"),
        "job.restartPolicy",
        "Sometimes",
        "OnFailure",
        "restartPolicy:",
    ),
    "unknown cleanPodPolicy": Case(
        job(runPolicy={"cleanPodPolicy": "Some"}),
        "job.runPolicy.cleanPodPolicy",
        "'Some'",
        "Running, All",
        "cleanPodPolicy:",
    ),
    "root in a job": Case(job(user=0), "job.user", "0", "at least 1", "1000"),
    "no deadline": Case(
        job(runPolicy={"activeDeadlineSeconds": 0}),
        "job.runPolicy.activeDeadlineSeconds",
        "0",
        "at least 1",
        "3600",
    ),
    "suspended in a queue": Case(
        job(queue="team-a", runPolicy={"suspend": True}),
        "job.runPolicy.suspend",
        "True",
        "false beside queue",
        "remove suspend, or queue",
    ),
    "two queues": Case(
        job(queue="team-a", labels={"kueue.x-k8s.io/queue-name": "team-b"}),
        "job.labels",
        "team-b",
        "without Kueue's",
        "remove kueue.x-k8s.io/queue-name",
    ),
    "a queue that is no name": Case(job(queue="Team A"), "job.queue", "'Team A'", "a DNS name", "team-a"),
    "a queue that no label can name": Case(
        job(queue="q" * 64), "job.queue", "qqq", "at most 63 characters", "team-a"
    ),
    "a priority without a queue": Case(
        job(priority="urgent"), "job.priority", "'urgent'", "nothing without queue", "add `queue: NAME`"
    ),
    "two priorities": Case(
        job(queue="team-a", priority="urgent", labels={"kueue.x-k8s.io/priority-class": "low"}),
        "job.labels",
        "low",
        "without Kueue's beside priority",
        "remove kueue.x-k8s.io/priority-class",
    ),
    "a gang": Case(
        with_job(operator={"gang": "scheduler-plugins"}),
        "operator.gang",
        "'scheduler-plugins'",
        "no such key",
        "write `operator: {queue: kueue}`",
    ),
    "a quota without Kueue": Case(
        with_job(cluster={"queue": QUOTA}),
        "cluster.queue",
        "(present)",
        "operator.queue is none",
        "queue: kueue",
    ),
    "a quota without queues": Case(
        quota(localQueues=[]), "cluster.queue.localQueues", "[]", "a list of names", "[training]"
    ),
    "a quota for every job of the namespace": Case(
        quota(localQueues=["default"]), "cluster.queue.localQueues", "'default'", "other names", "[training]"
    ),
    "a queue twice": Case(
        quota(localQueues=["a", "a"]), "cluster.queue.localQueues", "'a'", "differ", "rename"
    ),
    "a flavor twice": Case(
        quota(flavors=2 * [AMOUNTS]), "cluster.queue.flavors", "default", "differ", "rename"
    ),
    "a quota without memory": Case(
        flavor(nominalQuota={"cpu": 8}),
        "cluster.queue.flavors[0].nominalQuota.memory",
        "None",
        "cpu and memory",
        "memory: 32Gi",
    ),
    "a quota of nothing": Case(
        flavor(nominalQuota={"cpu": 0, "memory": "1Gi"}),
        "cluster.queue.flavors[0].nominalQuota.cpu",
        "0",
        "above zero",
        "500m",
    ),
    "flavors that count differently": Case(
        quota(flavors=[AMOUNTS, {"name": "b", "nominalQuota": {"cpu": 8, "memory": "8Gi", "pods": 2}}]),
        "cluster.queue.flavors[1].nominalQuota",
        "cpu, memory, pods",
        "the same keys",
        "all of them",
    ),
    "borrowing what is not counted": Case(
        flavor(cohort="all", borrowingLimit={"gpu": 1}),
        "cluster.queue.flavors[0].borrowingLimit.gpu",
        "1",
        "cpu, memory",
        "add gpu to nominalQuota",
    ),
    "borrowing from nobody": Case(
        flavor(borrowingLimit={"cpu": 1}),
        "cluster.queue.flavors[0].borrowingLimit",
        "cpu",
        "nothing without cohort",
        "add `cohort",
    ),
    "reclaiming from nobody": Case(
        quota(preemption={"reclaimWithinCohort": "Any"}),
        "cluster.queue.preemption.reclaimWithinCohort",
        "'Any'",
        "Never without cohort",
        "add `cohort",
    ),
    "a job that its quota never has room for": Case(
        quota(job={**JOB, "queue": "training", "resources": {"cpu": 8, "requests": {"cpu": 5}}}),
        "job.resources.requests.cpu",
        "'5'",
        "at most 8 cpu",
        "lower resources.requests.cpu or replicas",
    ),
    "a job with more pods than its quota": Case(
        flavor(nominalQuota={"cpu": 8, "memory": "32Gi", "pods": 1}, job={**JOB, "queue": "training"}),
        "job.replicas",
        "2",
        "at most 1 pods",
        "nominalQuota.pods",
    ),
    "GPUs that no quota counts": Case(
        quota(job={**JOB, "queue": "training", "resources": {"gpu": 1}}),
        "job.resources.gpu",
        "'1'",
        "cpu, memory",
        "add `gpu` to nominalQuota",
    ),
    "a disk that no quota counts": Case(
        quota(job={**JOB, "queue": "training", "resources": {"ephemeral-storage": "1Gi"}}),
        "job.resources.requests.ephemeral-storage",
        "1Gi",
        "cpu, memory",
        "a queue of somebody else's",
    ),
    "a priority that the quota has not": Case(
        quota(priorities={"urgent": 1}, job={**JOB, "queue": "training", "priority": "high"}),
        "job.priority",
        "'high'",
        "urgent",
        "priority: urgent",
    ),
    "elastic range upside down": Case(
        job(elasticPolicy={"minReplicas": 3, "maxReplicas": 1}),
        "job.elasticPolicy.maxReplicas",
        "1",
        "at least minReplicas",
        "maxReplicas: 3",
    ),
    **{
        f"elastic workers, {what}": Case(
            job(replicas={"master": None, "worker": 2}, elasticPolicy=policy),
            f"job.elasticPolicy.{key}",
            value,
            allowed,
            fix,
        )
        for what, policy, key, value, allowed, fix in [
            ("of more alone", {"maxReplicas": 3}, "maxReplicas", "3", "at most the pods", "minReplicas: 2"),
            (
                "fewer than there have to be",
                {"minReplicas": 3, "maxReplicas": 4},
                "minReplicas",
                "3",
                "at most the pods",
                "minReplicas: 2",
            ),
            (
                "more than there may be",
                {"minReplicas": 1, "maxReplicas": 1},
                "maxReplicas",
                "1",
                "at least replicas.worker, 2",
                "maxReplicas: 2",
            ),
            (
                "of fewer alone",
                {"minReplicas": 1},
                "maxReplicas",
                "None",
                "unless it is set",
                "maxReplicas: 2",
            ),
        ]
    },
    **{
        f"standalone pods, {what}": Case(
            job(replicas=replicas, elasticPolicy={"standalone": True, **policy}),
            "job.elasticPolicy.standalone",
            "True",
            "false in a job of several pods",
            "master: null, worker: 1",
        )
        for what, replicas, policy in [
            ("with a master", {"master": 1, "worker": 1}, {}),
            ("two workers", {"master": None, "worker": 2}, {}),
            ("more later", {"master": None, "worker": 1}, {"minReplicas": 1, "maxReplicas": 2}),
        ]
    },
    "a search without options": Case(
        with_job(sweep={}), "sweep.options", "(absent)", "a mapping of keys", "options: {training.lr"
    ),
    "a search of no option": Case(
        with_job(sweep={"options": {}}), "sweep.options", "{}", "at least one key", "training.lr"
    ),
    "a search beside a matrix": Case(
        {**search([0.1, 0.2]), "matrix": {"options": {"training.seed": [1, 2]}}},
        "sweep",
        "(present beside matrix)",
        "sweep beside job alone",
        "a stack of its own",
    ),
    "a search beside jobs": Case(
        {"jobs": [JOB], "sweep": {"options": {"training.lr": [0.1, 0.2]}}},
        "sweep",
        "(present beside jobs)",
        "sweep beside job alone",
        "a stack of its own",
    ),
    "an unknown option": Case(
        search([1, 2], "training.lrr"),
        "sweep.options.training.lrr",
        "(unknown)",
        "training.batchSize",
        "did you mean training.lr",
    ),
    "an option beyond training": Case(
        search([1, 2], "nprocPerNode"), "sweep.options.nprocPerNode", "(unknown)", "training.lr", "remove"
    ),
    "an option that changes the data": Case(
        search(["mnist", "digits"], "training.dataset"),
        "sweep.options.training.dataset",
        "(unknown)",
        "training.lr",
        "keep it in job.training",
    ),
    "an option with one number": Case(
        search(0.1), "sweep.options.training.lr", "0.1", "a list of numbers, or {min", "training.lr: [0.01]"
    ),
    "an option with a list of one": Case(
        search([0.1]), "sweep.options.training.lr", "[0.1]", "at least two values", "job.training"
    ),
    "an option with a value twice": Case(
        search([0.1, "1e-1"]), "sweep.options.training.lr[1]", "0.1", "values that differ", "remove one"
    ),
    "an option with a word": Case(
        search([0.1, "fast"]), "sweep.options.training.lr[1]", "'fast'", "a number above 0", "0.01"
    ),
    "an option with a value that no job takes": Case(
        search([0.1, 0]), "sweep.options.training.lr[1]", "0", "a number above 0", "0.01"
    ),
    "an option with a fraction where whole numbers are": Case(
        search({"min": 1.5, "max": 64}, "training.batchSize"),
        "sweep.options.training.batchSize.min",
        "1.5",
        "a whole number",
        "64",
    ),
    "an option with true": Case(
        search([True, 0.1]), "sweep.options.training.lr[0]", "True", "a number above 0", "0.01"
    ),
    "an option without an end": Case(
        search({"min": 0.1}), "sweep.options.training.lr.max", "(absent)", "both min and max", "add `max"
    ),
    "an option upside down": Case(
        search({"min": 0.3, "max": 0.1}), "sweep.options.training.lr.max", "0.1", "above min, 0.3", "exchange"
    ),
    "an option with a step": Case(
        search({"min": 0.1, "max": 0.3, "step": 0.1}),
        "sweep.options.training.lr.step",
        "0.1",
        "min, max and log",
        "remove the key",
    ),
    "an option with log as a text": Case(
        search({"min": 0.1, "max": 0.3, "log": "yes"}),
        "sweep.options.training.lr.log",
        "'yes'",
        "true or false",
        "log: true",
    ),
    "an option with the logarithm of nothing": Case(
        search({"min": 0, "max": 0.9, "log": True}, "training.momentum"),
        "sweep.options.training.momentum.min",
        "0",
        "above 0 where log is true",
        "raise min",
    ),
    "an option that stands in the command, too": Case(
        {
            "job": {**JOB, "command": ["python3", "x.py", "--lr=0.1"]},
            "sweep": {"options": {"training.lr": [0.1, 0.2]}},
        },
        "sweep.options.training.lr",
        "0.1",
        "--lr in one place",
        "out of command",
    ),
    "a search's name": Case(search([0.1, 0.2], name="My search"), "sweep.name", "'My search'", "20", "sweep"),
    "a search whose jobs' names are too long": Case(
        {
            "job": {**JOB, "name": "m" * 40},
            **{"sweep": {"options": {"training.lr": [0.1, 0.2]}, "name": "s" * 12}},
        },
        "sweep.name",
        "ssss",
        "at most 50 characters",
        "shorten",
    ),
    "a search of no trials": Case(
        search([0.1, 0.2], trials=0), "sweep.trials", "0", "1 to 1000", "trials: 20"
    ),
    "a search of too many trials": Case(
        search([0.1, 0.2], trials=1001), "sweep.trials", "1001", "1 to 1000", "trials: 20"
    ),
    "a search without a place for a trial": Case(
        search([0.1, 0.2], parallel=0), "sweep.parallel", "0", "1 to 100", "parallel: 2"
    ),
    "a search for something else": Case(
        search([0.1, 0.2], objective="f1"), "sweep.objective", "'f1'", "accuracy, loss", "objective:"
    ),
    "a search's unknown key": Case(
        search([0.1, 0.2], pruner="median"), "sweep.pruner", "'median'", "parallel", "prune"
    ),
    "a search with a job that takes a run": Case(
        {**job(runId="pytorch-simple-0a1b2c3d"), "sweep": {"options": {"training.lr": [0.1, 0.2]}}},
        "job.runId",
        "pytorch-simple-0a1b2c3d",
        "nothing beside sweep",
        "remove runId",
    ),
    "a search with a suspended job": Case(
        {**job(runPolicy={"suspend": True}), "sweep": {"options": {"training.lr": [0.1, 0.2]}}},
        "job.runPolicy.suspend",
        "True",
        "nothing beside sweep",
        "remove runPolicy.suspend",
    ),
    "a search with a program that tells no accuracy": Case(
        {**search([0.1, 0.2]), "image": {"dockerfile": "examples/own-script/Dockerfile"}},
        "sweep",
        "(present)",
        "our trainer tells",
        "remove sweep",
    ),
    "a protected stack on a cluster that nobody names": Case(
        with_job(cluster=EXISTING, image={"reference": REFERENCE}, protected=True),
        "cluster.context",
        "(absent)",
        "where protected is true",
        "context: NAME",
    ),
    "a server that is no URL": Case(
        with_job(cluster={**EXISTING, "server": "10.0.0.1"}), "cluster.server", "10.0.0.1", "URL", "https://"
    ),
    "an id that is none": Case(
        with_job(cluster={**EXISTING, "id": "prod"}), "cluster.id", "'prod'", "kube-system", "3f8a1c52"
    ),
    "a server of a kind cluster": Case(
        with_job(cluster={"server": "https://a"}), "cluster.server", "https://a", "existing", "remove server"
    ),
    "an id of a kind cluster": Case(
        with_job(cluster={"id": "3f8a1c52-7d4e-4b09-9c61-2f5e8d7a0b13"}),
        "cluster.id",
        "3f8a1c52",
        "existing",
        "remove id",
    ),
}
