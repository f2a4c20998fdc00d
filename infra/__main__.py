"""Reads the stack file, reads the cluster, decides, registers, follows the jobs: in this order."""

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
    """All decisions come before the first registration. Raises pulumi.RunError."""
    try:
        stack = program.stack_config()
        owned = program.ownership(stack)
        look = selection.look(stack)
        contents = selection.examine(stack, owned.is_ours, look)
        parts, datasets = plan(stack, contents), program.datasets(stack)
        planned = stack_plan.of(stack, parts, datasets, queued=owned.held.queued)
        folders = data_folders.contents(stack)
        left = finished.left(stack, look, owned.held)
        needs_two_passes = decision.decide(stack, look, owned, contents, planned)
        program.keep_unfollowed(stack, owned.held, is_there=look.is_there)
        program.end_left(stack, owned.held, planned, is_there=look.is_there)
        owner.mark_objects(stack.name)
        cluster = selection.register(stack)
    except ProgramError as error:
        raise pulumi.RunError(str(error)) from None
    image = Image(stack=stack, cluster=cluster)
    if not needs_two_passes:
        runs = registration.register_plan(
            stack, cluster, image, planned, folders, datasets, contents.nodes, left
        )
        program.export(stack, cluster, image, runs)


main()
