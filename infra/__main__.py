"""Read the stack file, look at the cluster, decide, register, follow the jobs: in this order."""

import pulumi

from infra import decision, program, registration, stack_plan
from infra.agreed import ProgramError
from infra.clusters import selection
from infra.clusters.kind import data_folders
from infra.image.component import Image
from infra.objects import owner
from infra.run import finished
from infra.training_operator.plan import plan


def main() -> None:
    """Nothing is registered before it is decided that everything may be. Raises pulumi.RunError."""
    try:
        stack = program.stack_config()
        owned = program.ownership(stack)
        look = selection.look(stack)
        contents = selection.examine(stack, owned.is_ours, look)
        parts, datasets = plan(stack, contents), program.datasets(stack)
        planned = stack_plan.of(stack, parts, datasets, queued=owned.held.queued)
        folders = data_folders.contents(stack)
        left = finished.left(stack, look, owned.held)
        only_cluster = decision.decide(stack, look, owned, contents, planned)
        program.keep_unfollowed(stack, owned.held, is_there=look.is_there)
        owner.mark_objects(stack.name)
        cluster = selection.provide(stack)
    except ProgramError as error:
        raise pulumi.RunError(str(error)) from None
    image = Image(stack=stack, cluster=cluster)
    if not only_cluster:
        runs = registration.provide(stack, cluster, image, planned, folders, datasets, contents.nodes, left)
        program.export(stack, cluster, image, runs)


main()
