"""Mark, cluster, operators, guard, storage, image, a look at shared folders, job, run: made in this order."""

import pulumi

from infra import (
    decision,
    folder_preparation,
    operators,
    paths,
    program,
    retained_claims,
)
from infra.clusters import namespaces, selection
from infra.clusters.kind import data_folders
from infra.guard import component as guard
from infra.image.component import Image
from infra.job.component import Job
from infra.job.context import context, held_by
from infra.objects import owner
from infra.review import rendering
from infra.run import finished
from infra.run.component import JobRun
from infra.shared_folder import component as shared_folder
from infra.training_operator.plan import plan


def main() -> None:
    """Register everything in the order of dependence."""
    try:
        stack = program.stack_config()
        owned = program.ownership(stack)
        selection.ensure_old_cluster_may_go(stack, owned.held)
        look = selection.look(stack)
        contents = selection.examine(stack, owned.is_ours, look)
        planned = plan(stack, contents)
        program.ensure_shown(stack, planned, owned.held, is_there=not contents.problem)
        objects = rendering.preview(stack, planned)
        folders = data_folders.contents(stack)
        datasets = program.datasets(stack)
        retained_claims.ensure_usable(stack, look, owned.held.objects)
        decision.ensure_free(stack, look, owned.held, planned)
        left = finished.left(stack, look, owned.held)
        only_cluster = program.only_cluster(stack, look, objects, owned)
        program.keep_unfollowed(stack, owned.held, is_there=look.is_there)
        owner.mark_objects(stack.name)
        cluster = selection.provide(stack)
    except program.REFUSALS as error:
        program.refuse(error)

    if only_cluster:
        Image(stack=stack, cluster=cluster)
        return
    spaces = namespaces.provide(stack, cluster, planned.namespaces)
    operator = operators.provide(stack, cluster, planned, spaces)
    guarded = guard.provide(stack, cluster, spaces)
    storage = program.storage(stack, cluster, folders, spaces)
    image = Image(stack=stack, cluster=cluster)
    prepared = folder_preparation.prepare(stack, cluster, storage, image.reference)
    pulled = [*prepared, *image.on_nodes]
    shared = shared_folder.provide(stack, cluster, image.reference, datasets, contents.nodes, pulled)

    runs: dict[str, JobRun] = {}
    for job in stack.jobs:
        reference = held_by(image.reference, storage.claims)
        given = context(stack, reference, datasets[job.name])
        depends_on = [*operator.ready, *guarded, *pulled, *shared, *program.ran_before(stack, runs)]
        held = owned.held.queued
        submitted = Job(
            job=job, context=given, cluster=cluster, depends_on=depends_on, queued=held, left=left
        )
        if job.name in stack.trials:
            continue
        model = program.model_path(stack, job, submitted.run)
        folder, here = paths.models(stack.name), stack.models_are_here
        runs[job.name] = JobRun(job=submitted, cluster=cluster, models=folder, is_volume=here, model=model)

    pulumi.export("kubeconfig", cluster.kubeconfig)
    pulumi.export("namespace", stack.cluster.namespace)
    pulumi.export("imageDigest", image.digest)
    program.export(stack, runs)


main()
