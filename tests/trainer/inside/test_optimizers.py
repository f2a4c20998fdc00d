"""One buffer for all parameters changes nothing about what is computed."""

import json
from dataclasses import replace
from inspect import signature

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.inside.conftest import trainer
from trainer import networks, options
from trainer.optimizers import OPTIMIZERS, Flat, build
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
    flat, theirs = Flat(network), PLAIN[recipe](plain.parameters())
    ours = OPTIMIZERS[settings.optimizer](settings, flat.values)
    x, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
    for count in range(3):
        flat.exchanged.zero_()
        functional.cross_entropy(network(x), labels).backward()
        ours.step(flat.values, flat.gradients, 0.01, count)
        theirs.zero_grad()
        functional.cross_entropy(plain(x), labels).backward()
        theirs.step()
    for one, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


NAMED = {
    name: kind
    for name, kind in vars(torch.optim).items()
    if isinstance(kind, type) and name not in ("Optimizer", "LBFGS", "SparseAdam")  # these need other steps
}


def trained(network: nn.Linear, recipe: Recipe) -> nn.Linear:
    """After three steps."""
    flat = Flat(network)
    optimizer = build(recipe, network, flat.values)
    for count in range(3):
        flat.exchanged.zero_()
        network(torch.ones(2, 4)).square().sum().backward()
        optimizer.step(flat.values, flat.gradients, 0.01, count)
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
    assert Flat(network).exchanged.nbytes == 4 * (parameters + 1)


def test_a_run_never_imports_the_compiler() -> None:
    code = (
        "import sys; from trainer.__main__ import main; main(['--dataset', 'digits']); "
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    assert trainer(script=code).stdout.splitlines()[-1] == "[]"


def test_parameters_and_gradients_live_in_the_buffers() -> None:
    network = networks.build("fast", seed=1)
    flat = Flat(network)
    network(torch.randn(2, 1, 28, 28)).sum().backward()
    assert flat.gradients.abs().sum() > 0
    flat.values.zero_()
    assert all(parameter.abs().sum() == 0 for parameter in network.parameters())
