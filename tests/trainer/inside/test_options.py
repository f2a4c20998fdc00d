import pytest

from trainer import options
from trainer.recipes import RECIPES, Optimizer, Schedule, learning_rate


def test_every_published_option_is_taken() -> None:
    arguments = (
        "--batch-size 32 --test-batch-size 500 --epochs 15 --lr 0.5 --momentum 0.9 --gamma 0.8 --no-cuda --seed 7 "
        "--log-interval 256 --save-model --dir /tmp/logs --backend gloo"
    )
    config = options.parse(arguments.split(), {})
    assert (config.batch_size, config.test_batch_size, config.epochs, config.seed) == (32, 500, 15, 7)
    assert (config.settings.lr, config.settings.momentum, config.settings.gamma) == (0.5, 0.9, 0.8)
    assert config.no_cuda
    assert config.save_model
    assert (config.log_interval, str(config.log_dir), config.backend) == (256, "/tmp/logs", "gloo")


def test_an_unknown_option_is_warned_about_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.parse(["--epochs=2", "--cuda-streams", "4"], {"RANK": "0"}).epochs == 2
    assert "unknown options are ignored: --cuda-streams 4" in capsys.readouterr().err
    options.parse(["--cuda-streams", "4"], {"RANK": "1"})
    assert capsys.readouterr().err == ""


def test_both_batch_sizes_are_an_error() -> None:
    with pytest.raises(options.OptionError, match="leave one of them out"):
        options.parse(["--batch-size", "64", "--global-batch-size", "128"], {})


def test_batch_size_is_per_replica_and_recipes_state_a_global_batch() -> None:
    assert options.parse(["--batch-size", "64"], {}).global_batch(3) == 192
    assert options.parse([], {}).global_batch(3) == 64
    assert options.parse(["--global-batch-size", "96"], {}).global_batch(3) == 96


def test_defaults_are_the_published_ones() -> None:
    config = options.parse([], {})
    assert (config.network, config.recipe, config.epochs) == ("lenet", "published-sgd", 1)
    assert (config.settings.lr, config.settings.momentum, config.settings.global_batch) == (0.01, 0.5, 64)


@pytest.mark.parametrize(
    ("preset", "network", "recipe", "backend"),
    [
        ("pytorch-simple", "lenet", "published-sgd", None),
        ("traindb", "lenet", "published-sgd", None),
        ("convnet", "convnet", "published-adadelta", None),
        ("nccl", "lenet", "published-sgd", "nccl"),
    ],
)
def test_the_preset_of_the_image_sets_the_defaults(
    preset: str, network: str, recipe: str, backend: str | None
) -> None:
    config = options.parse([], {"TRAINER_PRESET": preset})
    assert (config.network, config.recipe, config.backend) == (network, recipe, backend)


@pytest.mark.parametrize(("name", "value"), [("TRAINER_PRESET", "simple"), ("TRAINER_DATASET", "cifar")])
def test_a_wrong_default_in_the_environment_is_an_error(name: str, value: str) -> None:
    with pytest.raises(options.OptionError, match=f"{name}={value} is not allowed; use one of: "):
        options.parse([], {name: value})


def test_an_option_without_effect_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    options.parse(["--gamma", "0.7", "--momentum", "0.5"], {})
    assert "without effect with this optimizer and schedule: --gamma\n" in capsys.readouterr().err
    options.parse(["--preset", "convnet", "--gamma", "0.7", "--momentum", "0.5"], {})
    assert "without effect with this optimizer and schedule: --momentum\n" in capsys.readouterr().err


def test_a_preset_prefers_the_data_that_was_published() -> None:
    assert options.parse([], {}).preferred[0] == "fashion-mnist"
    assert options.parse(["--preset", "convnet"], {}).preferred[0] == "mnist"


@pytest.mark.parametrize("name", ["..", ".", "a/b", "/tmp", "../a"])
def test_a_run_is_one_folder_below_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, environ in ((["--run", name], {}), ([], {"TRAINER_RUN": name})):
        with pytest.raises(SystemExit):
            options.parse(arguments, environ)
        assert f"{name} is not the name of one folder below runs/" in capsys.readouterr().err


def test_an_option_overrides_the_environment() -> None:
    environ = {"TRAINER_DATASET": "mnist", "TRAINER_RUN": "a"}
    assert options.parse([], environ).dataset == "mnist"
    assert options.parse(["--dataset", "digits", "--run", "b"], environ).dataset == "digits"
    assert options.parse(["--dataset", "digits", "--run", "b"], environ).run == "b"


def test_a_network_may_have_a_learning_rate_of_its_own_in_a_recipe() -> None:
    wide = ["--recipe", "fast", "--network", "convnet"]
    assert options.parse(["--recipe", "fast"], {}).settings.lr == 0.01
    assert options.parse(wide, {}).settings.lr == 0.004
    assert options.parse([*wide, "--lr", "0.1"], {}).settings.lr == 0.1


@pytest.mark.parametrize("optimizer", [*Optimizer, "AdamW"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_another_optimizer_than_the_recipe_s_has_torch_s_momentum(recipe: str, optimizer: str) -> None:
    def momentum(*given: str) -> float:
        return options.parse(["--recipe", recipe, *given], {}).settings.momentum

    assert momentum("--optimizer", optimizer, "--momentum", "0.3") == 0.3
    if optimizer == RECIPES[recipe].optimizer:
        assert momentum("--optimizer", optimizer) == momentum() == RECIPES[recipe].momentum
    elif optimizer in (Optimizer.SGD, Optimizer.ADAM):
        assert momentum("--optimizer", optimizer) == {"sgd": 0, "adam": 0.9}[optimizer]


@pytest.mark.parametrize("momentum", sorted({0.0, 0.9, *(recipe.momentum for recipe in RECIPES.values())}))
@pytest.mark.parametrize("optimizer", [*Optimizer, "AdamW"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_training_again_has_the_same_momentum(recipe: str, optimizer: str, momentum: float) -> None:
    """Also where it is the recipe's own, but not that of the other optimizer."""
    given = ["--recipe", recipe, "--optimizer", optimizer, "--momentum", str(momentum)]
    config = options.parse(given, {})
    assert options.parse(config.again(world_size=1), {}).settings == config.settings


@pytest.mark.parametrize("decay", [[], ["--weight-decay", "0"], ["--weight-decay", "0.1"]], ids=" ".join)
@pytest.mark.parametrize("optimizer", [*Optimizer, "AdamW"])
def test_training_again_has_the_same_weight_decay(optimizer: str, decay: list[str]) -> None:
    """None at all is another thing than 0: AdamW then has torch's own."""
    config = options.parse(["--optimizer", optimizer, *decay], {})
    assert config.settings.weight_decay == (float(decay[1]) if decay else None)
    assert options.parse(config.again(world_size=1), {}).settings == config.settings


def test_bfloat16_is_the_recipes_choice_unless_the_user_says() -> None:
    assert not options.parse([], {}).settings.bf16
    assert options.parse(["--bf16"], {}).settings.bf16
    assert options.parse(["--recipe", "fast"], {}).settings.bf16
    assert not options.parse(["--recipe", "fast", "--no-bf16"], {}).settings.bf16


def test_adadelta_steps_its_learning_rate_down_after_each_epoch() -> None:
    recipe = RECIPES["published-adadelta"]
    assert (recipe.optimizer, recipe.schedule) == (Optimizer.ADADELTA, Schedule.STEP)
    assert [learning_rate(recipe, done, 14) for done in (0, 0.99, 1, 2.5)] == pytest.approx([1, 1, 0.7, 0.49])


def test_one_cycle_rises_and_falls() -> None:
    recipe = RECIPES["fast"]
    rates = [learning_rate(recipe, done / 100, 1) for done in range(101)]
    top = rates.index(max(rates))
    assert rates[top] == pytest.approx(recipe.lr, rel=0.05)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert min(rates) >= 0


OVERRIDES = {
    "lr": "0.123",
    "momentum": "0.4",
    "gamma": "0.6",
    "global_batch_size": "96",
    "batch_size": "48",
    "label_smoothing": "0.05",
    "optimizer": "Adagrad",
    "optimizer_args": '{"lr_decay": 0.1}',
    "schedule": "ExponentialLR",
    "schedule_args": '{"gamma": 0.9}',
    "warm_up": "0.2",
    "beta2": "0.9",
    "weight_decay": "0.01",
    "clip": "1.5",
    "accumulate": "2",
    "network": "convnet",
    "epochs": "7",
    "seed": "9",
    "patience": "3",
    "test_batch_size": "77",
    "from": "/models/first one.pt",
    "dataset": "kmnist",
    "data": "own.data:load",
}
SWITCHES = ("--bf16", "--no-bf16", "--validation")


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    "given",
    [
        [],
        *([f"--{name.replace('_', '-')}", value] for name, value in OVERRIDES.items()),
        *([each] for each in SWITCHES),
    ],
)
def test_the_options_for_training_again_train_the_same(recipe: str, given: list[str]) -> None:
    config = options.parse(["--recipe", recipe, *given], {})
    again = options.parse(config.again(world_size=1), {})
    differing = {
        key for key, value in config.outcome().items() if again.outcome().get(key, value) != value
    } - {"batch_size"}
    assert differing == set()
    for world in (1, 3):
        assert options.parse(config.again(world), {}).global_batch(1) == config.global_batch(world)
    assert (again.epochs, again.test_batch_size) == (config.epochs, config.test_batch_size)


def test_every_part_of_the_outcome_is_tried_with_another_value() -> None:
    given = [
        word
        for name, value in OVERRIDES.items()
        if name not in ("batch_size", "data")
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    other = options.parse([*given, "--bf16", "--validation"], {}).outcome()
    assert {key for key, value in options.parse([], {}).outcome().items() if other.get(key) == value} == {
        "recipe",
        "batch_size",
    }
