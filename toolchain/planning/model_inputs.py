"""The model's inputs, from stack file, last run and the user's own figures, with the assumptions behind them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolchain.planning import fabrics, last_run, loopback
from toolchain.planning.last_run import Measured
from toolchain.planning.model import Fabric, Link, Training, exchanged
from toolchain.planning.stack_job import Job
from toolchain.steps import SetupError

# As trainer/networks.py and docs/trainer.md have them; a test compares.
PARAMETERS = {"lenet": 431_080, "convnet": 1_199_882, "fast": 23_554}
# Images a second of one replica where nothing has been measured: of a GPU, and of one thread of a processor.
ASSUMED_GPU, ASSUMED_THREAD = 50_000.0, 2_500.0


@dataclass(frozen=True)
class Given:
    """The user's own figures; None where there is none.

    Parameters:
        link: name of a fabric.
        latency_us: of a message, in microseconds.
        bandwidth_gbs: of a link one way, in GB a second.
        images_per_s: of one replica alone.
        parameters: of the network.
        batch: images of a step, of each replica.
        fixed_ms: milliseconds of a step that do not depend on its images.
        cores: that all replicas share; 0: each has its own.
    """

    link: str | None = None
    latency_us: float | None = None
    bandwidth_gbs: float | None = None
    images_per_s: float | None = None
    parameters: int | None = None
    batch: int | None = None
    fixed_ms: float | None = None
    cores: int | None = None


@dataclass(frozen=True)
class ModelInputs:
    """What is modelled, on what, and the assumptions, a sentence each."""

    training: Training
    fabric: Fabric
    assumptions: tuple[str, ...]


def model_inputs(stack: str, job: Job, given: Given) -> ModelInputs:
    """All inputs of the model. Raises SetupError for one that is not known."""
    run = last_run.last(stack, job.name)
    size, of_size = _size(stack, job, run, given)
    batch, per_replica = _batch(job, run, given)
    fabric, of_fabric = _fabric(job, given)
    cores = loopback.cores() if given.cores is None and job.here else given.cores or None
    fixed_s = (given.fixed_ms or 0.0) / 1e3
    bare = Training(size, 0.0, batch, per_replica, fixed_s, cores, job.threads)
    image_s, of_speed = _image_s(job, run, given, bare, fabric)
    node = f"all replicas share {cores} cores" if cores else "every replica has cores of its own, or a GPU"
    assumptions = (
        of_size,
        of_speed,
        f"a step takes {1e3 * fixed_s:g} ms besides its images (--fixed-ms)"
        if fixed_s
        else "a step costs nothing besides its images (--fixed-ms): small shares are slower than shown",
        of_fabric,
        node,
        "nothing overlaps: the trainer exchanges when the last gradient is there",
        "no replica is slower than the others, and nobody else uses cores and network",
    )
    return ModelInputs(replace(bare, image_s=image_s), fabric, assumptions)


def _size(stack: str, job: Job, run: Measured | None, given: Given) -> tuple[int, str]:
    """Bytes of a step's all-reduce, and where they are from."""
    if given.parameters:
        return exchanged(given.parameters), f"{given.parameters:,} parameters, as given"
    if run and run.size and job.network in (None, run.network):
        return run.size, f"the network is that of run {run.run}, whose checkpoint has the size"
    if job.network in PARAMETERS:
        return exchanged(
            PARAMETERS[job.network]
        ), f"network {job.network} has {PARAMETERS[job.network]:,} parameters"
    unknown = f"how much a step of job {job.name} exchanges cannot be known"
    if job.network is None:
        raise SetupError(
            f"{unknown}: its image has a program of its own", "say it: --parameters, with --batch-size"
        )
    raise SetupError(
        f"{unknown}: no finished run of network {job.network} has left a checkpoint here",
        f"make up STACK={stack}, or say how many parameters there are: --parameters",
    )


def _batch(job: Job, run: Measured | None, given: Given) -> tuple[int, bool]:
    """Images of a step, and whether they are those of each replica."""
    if given.batch:
        return given.batch, True
    if job.batch:
        return job.batch, job.per_replica
    if run:
        return run.batch // run.replicas, True
    raise SetupError(f"how many images a step of job {job.name} has cannot be known", "say it: --batch-size")


def _fabric(job: Job, given: Given) -> tuple[Fabric, str]:
    """What connects the replicas, and where its figures are from."""
    if given.latency_us is not None and given.bandwidth_gbs is not None:
        found = Fabric("given", Link(given.latency_us / 1e6, given.bandwidth_gbs * 1e9), "as given")
    elif given.latency_us is not None or given.bandwidth_gbs is not None:
        raise SetupError("a link has both figures", "give --latency-us and --bandwidth-gbs")
    elif given.link in fabrics.ALL:
        found = fabrics.ALL[given.link]
    elif given.link == loopback.NAME or (job.here and job.backend != "nccl"):
        found = loopback.measure()
    else:
        found = fabrics.ALL[fabrics.BY_BACKEND[job.backend]]
    return replace(
        found, trees=job.backend == "nccl"
    ), f"link {found.name}: {link_figures(found)}; {found.source}"


def link_figures(fabric: Fabric) -> str:
    """Latency and bandwidth of the links of `fabric`, as text."""
    inside = f"{_figures(fabric.within)} among {fabric.per_node} of a node, " if fabric.within else ""
    return f"{inside}{_figures(fabric.between)}{' between nodes' if inside else ''}"


def _figures(link: Link) -> str:
    return f"{1e6 * link.latency_s:.3g} us and {link.bandwidth / 1e9:.3g} GB/s"


def _image_s(
    job: Job, run: Measured | None, given: Given, bare: Training, fabric: Fabric
) -> tuple[float, str]:
    """Seconds of one replica for an image, and where they are from.

    Of a run's step, what the exchange and the fixed costs take is subtracted.
    """
    if given.images_per_s:
        return 1 / given.images_per_s, f"one replica computes {given.images_per_s:,.0f} images/s, as given"
    if run and job.network in (None, run.network):
        fixed_s = bare.crowding(run.replicas) * bare.fixed_s
        left = run.step_s - fixed_s - bare.exchange_s(run.replicas, fabric)
        if left <= 0:
            raise SetupError(
                f"a step of run {run.run} took {1e3 * run.step_s:.3g} ms, less than its exchange would by link "
                f"{fabric.name}: it ran on another",
                "name the link: --link, or --latency-us with --bandwidth-gbs; or the speed: --images-per-s",
            )
        image_s = left / bare.crowding(run.replicas) / (run.batch / run.replicas)
        return image_s, (
            f"one replica computes {1 / image_s:,.0f} images/s: run {run.run} had {run.images_per_s:,.0f} with "
            f"{run.replicas} replicas, {run.batch} images a step, on this link"
        )
    assumed = job.gpus * ASSUMED_GPU or job.threads * ASSUMED_THREAD
    return 1 / assumed, (
        f"one replica computes {assumed:,.0f} images/s: ASSUMED, as no finished run of this job is here; "
        "--images-per-s names another"
    )
