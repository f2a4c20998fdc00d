"""A search as an Experiment of Katib's, for clusters that have Katib: it proposes, submits and judges there by itself.

Sources: pkg/apis/controller/experiments/v1beta1 of Katib 0.19, https://www.kubeflow.org/docs/components/katib/user-guides/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.config import ConfigError, Stack
from infra.config.errors import key_of, paragraph
from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.config.sweep import Objective
from infra.config.sweep_space import BELOW, Choice, Range
from infra.config.sweep_trials import Trial, job
from infra.config.training import TrainingConfig
from infra.image.component import rendered_reference
from infra.job.context import context
from infra.job.manifest import manifest, run_of
from infra.job.pod import CONTAINER
from infra.objects.manifest import Manifest
from infra.review.rendering import rendered_datasets
from infra.sweep.search import search_section

API_VERSION, KIND = "kubeflow.org/v1beta1", "Experiment"
TRIAL = "trial"
"""The parameter that every trial has: its own name, which Katib makes."""
ROLE, REPLICA, INDEX = (
    f"training.kubeflow.org/{each}" for each in ("job-role", "replica-type", "replica-index")
)
MOST_FAILED = 3
# Katib's conditions of a trial, GJSON paths into the job.
CONDITION = 'status.conditions.#(type=="{}")#|#(status=="True")#'


def experiment(stack: Stack) -> Manifest:
    """The Experiment of the stack's search. Raises ConfigError where there is none, or its jobs are TrainJobs."""
    sweep, template = search_section(stack), stack.jobs[0]
    if stack.operator.api is OperatorApi.V2:
        key, allowed = key_of(("operator", "api")), "v1 for Katib, which waits for PyTorchJobs"
        raise ConfigError(paragraph(stack.file, key, stack.operator.api.value, allowed, "write `api: v1`"))
    metric = sweep.objective.value
    others = [each.value for each in Objective if each is not sweep.objective]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": f"{template.name}-{sweep.name}", "namespace": stack.cluster.namespace},
        "spec": {
            "objective": {
                "type": sweep.objective.direction,
                "objectiveMetricName": metric,
                "additionalMetricNames": others,
                # The last epoch counts, as it does for `make sweep`; Katib's own choice is the best one.
                "metricStrategies": [{"name": each, "value": "latest"} for each in (metric, *others)],
            },
            "algorithm": {
                "algorithmName": "tpe",
                "algorithmSettings": [{"name": "random_state", "value": str(sweep.seed)}],
            },
            "metricsCollectorSpec": {"collector": {"kind": "StdOut"}},
            "maxTrialCount": sweep.trials,
            "parallelTrialCount": min(sweep.parallel, sweep.trials),
            "maxFailedTrialCount": min(MOST_FAILED, sweep.trials),
            "parameters": [_parameter(key, each) for key, each in sweep.space.items()],
            "trialTemplate": _template(stack, template),
        },
    }


def _parameter(key: str, option: Range | Choice) -> dict[str, Any]:
    if isinstance(option, Choice):
        space: dict[str, Any] = {"list": [str(each) for each in option.values]}
        return {"name": _name(key), "parameterType": "discrete", "feasibleSpace": space}
    space = {"min": str(option.low), "max": str(option.high)}
    if option.log:
        space["distribution"] = "logUniform"
    return {"name": _name(key), "parameterType": "int" if option.whole else "double", "feasibleSpace": space}


def _template(stack: Stack, template: JobConfig) -> dict[str, Any]:
    sweep = search_section(stack)
    values = {key: each.values[0] for key, each in sweep.space.items()}
    trial = job(template, sweep, stack.storage.mount_path, stack.file, Trial(0, values))
    made = manifest(trial, context(stack, rendered_reference(stack), rendered_datasets(stack)[template.name]))
    own = {trial.name: _reference(TRIAL), run_of(made): _reference(TRIAL)}
    spec = _replaced({"metadata": made["metadata"], "spec": made["spec"]}, own)
    del (
        spec["metadata"]["name"],
        spec["metadata"]["namespace"],
    )  # Katib names the job, and refuses a template that does
    for replica in spec["spec"]["pytorchReplicaSpecs"].values():
        for container in replica["template"]["spec"]["containers"]:
            for words in ("command", "args"):
                if words in container:
                    container[words] = _with_references(container[words], [_option(key) for key in values])
    has_master = bool(template.replicas.master)
    return {
        "primaryContainerName": CONTAINER,
        "primaryPodLabels": {ROLE: "master"} if has_master else {REPLICA: "worker", INDEX: "0"},
        "successCondition": CONDITION.format("Succeeded"),
        "failureCondition": CONDITION.format("Failed"),
        "trialParameters": [
            {
                "name": TRIAL,
                "description": "the run's folder on the volume",
                "reference": "${trialSpec.Name}",
            },
            *({"name": _name(key), "description": _about(key), "reference": _name(key)} for key in values),
        ],
        "trialSpec": {"apiVersion": made["apiVersion"], "kind": made["kind"], **spec},
    }


def _name(key: str) -> str:
    """`batchSize` of `training.batchSize`."""
    return key.removeprefix(BELOW)


def _option(key: str) -> str:
    """`batch-size`, as the trainer calls it."""
    names = {field.alias: name for name, field in TrainingConfig.model_fields.items()}
    return names[_name(key)].replace("_", "-")


def _about(key: str) -> str:
    fields = {field.alias: field for field in TrainingConfig.model_fields.values()}
    return str(fields[_name(key)].description)


def _reference(name: str) -> str:
    return f"${{trialParameters.{name}}}"


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    """`value` with each text in it that is a key of `texts`, whole, replaced."""
    if isinstance(value, dict):
        return {key: _replaced(each, texts) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, texts) for each in value]
    return texts.get(value, value) if isinstance(value, str) else value


def _with_references(words: list[str], names: list[str]) -> list[str]:
    """A command line whose options `names` have Katib's parameters as values: `--lr=…`, or `--lr` and a word."""
    by_option = {f"--{name}": _reference(_parameter_of(name)) for name in names}
    found = list(words)
    for place, word in enumerate(words):
        option, is_joined, _ = word.partition("=")
        if option in by_option and is_joined:
            found[place] = f"{option}={by_option[option]}"
        elif option in by_option:
            found[place + 1] = by_option[option]
    return found


def _parameter_of(option: str) -> str:
    fields = TrainingConfig.model_fields
    return str(fields[option.replace("-", "_")].alias)
