"""What the stack reports is what rank 0 printed last."""

from infra.run.metrics import is_progress, metrics

CLOSING = "{metricName: accuracy, metricValue: 0.9912};{metricName: loss, metricValue: 0.0312}"


def test_the_last_epoch_counts() -> None:
    lines = [
        "accuracy=0.5",
        "loss=1.25",
        "Train Epoch: 2 [0/10 (0%)]\tloss=9.0",
        "accuracy=0.75",
        "loss=0.5e0",
    ]
    assert metrics(lines) == {"accuracy": 0.75, "loss": 0.5}


def test_a_run_resumed_at_its_end_prints_the_closing_line_alone() -> None:
    assert metrics(["resumed at epoch 2, image 0", CLOSING]) == {"accuracy": 0.9912, "loss": 0.0312}


def test_a_step_is_progress_and_no_result_and_an_epoch_the_other_way() -> None:
    step = "Train Epoch: 1 [640/60000 (1%)]\tloss=2.2975"
    assert metrics([step, "accuracy=0.9912", "loss=3.1e-2"]) == {"accuracy": 0.9912, "loss": 0.031}
    assert metrics([step]) == {}
    assert is_progress(step)
    assert not is_progress("accuracy=0.9912")
