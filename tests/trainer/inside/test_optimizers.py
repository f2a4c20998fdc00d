"""The recipes' optimizers compute what torch's do; torch's own are taken as they are."""

import json
from dataclasses import replace
from inspect import signature

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.inside.conftest import trainer
from trainer import networks, options
from trainer.distributed import World
from trainer.exchange import Exchange
from trainer.optimizers import OPTIMIZERS, OTHERS, OptimizerError, build
from trainer.recipes import RECIPES, Recipe

PLAIN = {
    "published-sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.5),
    "published-adadelta": lambda parameters: torch.optim.Adadelta(parameters, lr=0.01),
    "fast": lambda parameters: torch.optim.Adam(parameters, lr=0.01, betas=(0.7, 0.9)),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_are_those_of_torch_optim(recipe: str) -> None:
    settings = RECIPES[recipe]
    network, plain = networks.build("lenet", seed=3), networks.build("lenet", seed=3)
    ours = build(settings, dict(network.named_parameters()))
    theirs = PLAIN[recipe](plain.parameters())
    x, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
    for count in range(3):
        network.zero_grad()
        theirs.zero_grad()
        functional.cross_entropy(network(x), labels).backward()
        functional.cross_entropy(plain(x), labels).backward()
        if count == 1:  # a layer that takes no part
            network.fc2.bias.grad = plain.fc2.bias.grad = None
        ours.step(0.01)
        theirs.step()
    for one, other in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("recipe", RECIPES)
def test_steps_over_other_numbers_are_those_of_torch_optim(recipe: str, dtype: torch.dtype) -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 12).to(dtype)) for _ in range(2))
    optimizers = build(RECIPES[recipe], {"weight": ours}), PLAIN[recipe]([theirs])
    for _ in range(3):
        for each in (ours, theirs):
            each.grad = None
            (each * each.conj()).real.float().square().sum().backward()
        optimizers[0].step(0.01)
        optimizers[1].step()
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype is torch.bfloat16 else {"rtol": 1e-6, "atol": 1e-7}
    torch.testing.assert_close(ours, theirs, **tolerance)


@pytest.mark.parametrize("name", OTHERS)
def test_what_takes_no_step_by_gradients_alone_is_refused_and_not_offered(name: str) -> None:
    with pytest.raises(OptimizerError, match=f"no {name} that steps by gradients alone; it has ") as refused:
        build(replace(RECIPES["fast"], optimizer=name), {"weight": nn.Parameter(torch.ones(1))})
    assert not any(other in str(refused.value).partition("it has")[2] for other in OTHERS)


def test_a_learning_rate_among_the_arguments_is_refused() -> None:
    settings = replace(RECIPES["fast"], optimizer="AdamW", optimizer_args='{"lr": 10}')
    with pytest.raises(OptimizerError, match="give --lr"):
        build(settings, {"weight": nn.Parameter(torch.ones(1))})


NAMED = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and name not in ("Optimizer", *OTHERS)
}


def trained(network: nn.Linear, recipe: Recipe) -> nn.Linear:
    """After three steps."""
    exchange = Exchange(network, World(0, 1, torch.device("cpu")))
    optimizer = build(recipe, exchange.parameters)
    for _ in range(3):
        exchange.begin()
        network(torch.ones(2, 4)).square().sum().backward()
        optimizer.step(0.01)
    return network


@pytest.mark.parametrize("name", [*OPTIMIZERS, *NAMED])
def test_what_is_frozen_stays(name: str) -> None:
    """Also where torch's optimizer takes weight decay, or decays by itself as ASGD does."""
    decays = name in NAMED and "weight_decay" in signature(NAMED[name]).parameters
    network = nn.Linear(4, 3)
    network.bias.requires_grad_(False)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    arguments = json.dumps({"weight_decay": 0.3}) if decays else ""
    after = trained(network, replace(RECIPES["fast"], optimizer=name, optimizer_args=arguments)).state_dict()
    assert torch.equal(after["bias"], before["bias"])
    assert not torch.equal(after["weight"], before["weight"])


@pytest.mark.parametrize("decay", [None, "0", "0.1"])
@pytest.mark.parametrize("name", NAMED)
def test_torch_s_weight_decay_is_left_to_the_trainer_where_it_is_given(name: str, decay: str | None) -> None:
    given = ["--optimizer", name, *(["--weight-decay", decay] if decay else [])]
    takes_decay = "weight_decay" in signature(NAMED[name]).parameters
    network, plain = nn.Linear(4, 3), nn.Linear(4, 3)
    plain.load_state_dict(network.state_dict())
    theirs = NAMED[name](
        plain.parameters(), lr=0.01, **({"weight_decay": 0.0} if decay and takes_decay else {})
    )
    for _ in range(3):
        theirs.zero_grad()
        plain(torch.ones(2, 4)).square().sum().backward()
        theirs.step()
    trained(network, options.parse(given, {}).settings)
    for one, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_gradients_and_the_loss_are_exchanged_in_float32(name: str) -> None:
    """As the formula of docs/plan.md says. Buffers come on top; these networks have none."""
    network = networks.build(name, seed=1)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    flags = len(list(network.parameters())) + 1
    assert Exchange(network, World(0, 2, torch.device("cpu"))).packed.nbytes == 4 * (parameters + 1 + flags)


def test_a_run_never_imports_the_compiler() -> None:
    code = (
        "import sys; from trainer.__main__ import main; main(['--dataset', 'digits']); "
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    assert trainer(script=code).stdout.splitlines()[-1] == "[]"
