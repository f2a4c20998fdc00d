"""`make watch`: follows the jobs of a stack to their end, whoever has applied it. It changes nothing in the cluster."""

from __future__ import annotations

import subprocess

from toolchain import stack_files
from toolchain.operating import environment, live_view, pulumi_output
from toolchain.operating.job_lines import JobLines
from toolchain.paths import MODELS, ROOT
from toolchain.runs import report_timeline
from toolchain.steps import say, step, stoppable, tell, wait
from toolchain.tools import venv

MODULE = "infra.watch"


def watch(stack: str) -> int:
    """Show what the jobs of `stack` do until they end; 0 when all ended well, 1 when one did not, 2 cannot tell.

    It takes no lock: `make up` may be at work meanwhile. Raises SetupError for a stack that does not exist.
    """
    stack_files.check(stack)
    venv.ensure()
    variables = environment.for_stack(environment.load() or {}, stack)
    with live_view.shown(), step(f"jobs of {stack}") as running:
        status = _follow({**variables, **pulumi_output.WANTED}, stack)
        if status:
            running.fail()
    report_timeline.complete(MODELS.glob(f"{stack}/runs/*"))
    return status


def _follow(variables: dict[str, str], stack: str) -> int:
    lines = JobLines(say, tell)
    child = subprocess.Popen(
        venv.program(MODULE, stack),
        cwd=ROOT,
        env=environment.for_child(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for us
    )
    with child, stoppable(child):
        assert child.stdout
        for line in child.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if not lines.take(text):
                say(text)
        status = wait(child)
    lines.flush()
    tell({"is": "quiet"})
    return status
