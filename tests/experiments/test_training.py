"""The training that experiments share: what it logs, saves and continues."""

import keras
import numpy as np
import pytest

import tfvn
from tfvn.experiments.experiment import Piece
from tfvn.experiments.training import ConstantThenFalling, falling, falling_late, train

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = np.arange(20) % 2


def piece(tmp_path, epochs=2):
    settings = {"epochs": epochs, "batch_size": 5}
    backup, model = tmp_path / "backup", tmp_path / "models" / "net.keras"
    return Piece("net", 0, settings, folder=backup, model=model)


def network(optimizer):
    model = tfvn.Sequential(
        [keras.Input((3,)), tfvn.GaussianDropoutDense(2, "softmax", name="last")]
    )
    loss = "sparse_categorical_crossentropy"
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    return model


def test_trained_network_is_saved(tmp_path):
    part = piece(tmp_path)
    model = network({"scale": falling_late(0.1, (X, Y), part), "default": "adam"})
    train(model, (X, Y), part)
    loaded = keras.models.load_model(part.model)
    expected = tfvn.ensemble_predict(model, X, 3, seed=1).mean
    found = tfvn.ensemble_predict(loaded, X, 3, seed=1).mean
    np.testing.assert_array_equal(found, expected)


def test_line_of_an_epoch_shows_log_alpha(tmp_path, capsys):
    part = piece(tmp_path)
    watch = tfvn.callbacks.PhaseTransition((X, Y), num_samples=2)
    logs = train(network("adam"), (X, Y), part, [watch])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1/2", "2/2"]
    for name in ("nll", "kl", "accuracy", "accuracy_mean", "accuracy_ensemble"):
        assert f"  {name} " in lines[0]
    assert "accuracy_zero_mean" not in lines[0]
    assert f"log_alpha_last {logs['log_alpha_last'][1]:.5g}" in lines[1]


@pytest.mark.parametrize(
    ("make", "rates"), [(falling, (0.4, 0.2, 0.1)), (falling_late, (0.4, 0.4, 0.4))]
)
def test_rates_fall_to_zero(tmp_path, make, rates):
    # Four batches in each of five epochs.
    optimizer = make(0.4, (X, Y), piece(tmp_path, epochs=5))
    schedule = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(optimizer)
    )._learning_rate
    found = [float(schedule(step)) for step in (0, 10, 15, 20)]
    np.testing.assert_allclose(found, [*rates, 0.0], atol=1e-6)


def test_constant_rate_falls_at_the_end():
    schedule = ConstantThenFalling(0.1, steps=100, share=0.2)
    found = [float(schedule(step)) for step in (79, 85, 95, 101)]
    np.testing.assert_allclose(found, [0.1, 0.075, 0.025, 0.0], atol=1e-6)
