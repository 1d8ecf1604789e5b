"""Stateful recurrent layers: each draw carries states of its own."""

import functools

import keras
import numpy as np
import pytest
from keras import layers

import tfvn

ROWS, STEPS = 2, 3
SEQUENCES = np.random.default_rng(0).normal(size=(ROWS, 2 * STEPS, 4)).astype("float32")
# The first half of all sequences, and then the other.
HALVES = np.concatenate([SEQUENCES[:, :STEPS], SEQUENCES[:, STEPS:]])


def model_of(layer, *, stateful, **kwargs):
    first = layer(3, stateful=stateful, **kwargs)
    noise = layers.GaussianNoise(0.5) if layer is layers.LSTM else layers.Identity()
    inputs = keras.Input((None, 4), batch_size=ROWS if stateful else None)
    return keras.Model(inputs, layers.Dense(2)(noise(first(inputs))))


def states_of(model):
    return [state.numpy().copy() for state in model.layers[1].states]


@pytest.mark.parametrize("batch_size", [32, 1])
def test_draws_go_on_where_they_were(batch_size):
    spread = {"scale_initializer": 0.5, "estimator": "weights"}
    stateful = model_of(tfvn.MeanFieldLSTM, stateful=True, **spread)
    plain = model_of(tfvn.MeanFieldLSTM, stateful=False, **spread)
    stateful.layers[1].reset_state()
    for mine, other in zip(plain.layers[1:], stateful.layers[1:], strict=True):
        for variable, value in zip(
            mine.trainable_variables, other.trainable_variables, strict=True
        ):
            variable.assign(value)
    kwargs = {"num_samples": 4, "seed": 3, "return_samples": True}
    kwargs["outputs"] = "regression"
    expected = tfvn.ensemble_predict(plain, SEQUENCES, **kwargs).samples
    answer = tfvn.ensemble_predict(stateful, HALVES, batch_size=batch_size, **kwargs)
    np.testing.assert_allclose(answer.samples[ROWS:], expected, atol=1e-5)
    assert answer.samples.std(1).min() > 1e-3
    np.testing.assert_array_equal(states_of(stateful)[0], np.zeros((ROWS, 3)))
    # And they start from the states that the model has.
    tfvn.mean_predict(stateful, SEQUENCES[:, :STEPS])
    later = tfvn.ensemble_predict(stateful, SEQUENCES[:, STEPS:], **kwargs).samples
    first = tfvn.ensemble_predict(plain, SEQUENCES[:, STEPS:], **kwargs).samples
    assert np.abs(later - first).max() > 1e-3


def test_states_before_the_noise_are_carried_too():
    stateful = model_of(layers.LSTM, stateful=True)
    noise = stateful.layers[2]
    noise.stddev = 1e-9
    expected = stateful.predict(HALVES, batch_size=ROWS, verbose=0)
    after = states_of(stateful)
    stateful.layers[1].reset_state()
    received = tfvn.ensemble_predict(stateful, HALVES, 3, outputs="regression").mean
    np.testing.assert_allclose(received, expected, atol=1e-5)
    # A prediction by mean weights leaves the states as `predict` does.
    mean = tfvn.mean_predict(stateful, HALVES)
    np.testing.assert_allclose(mean, expected, atol=1e-5)
    np.testing.assert_allclose(states_of(stateful), after, atol=1e-6)


def test_rows_must_fill_the_batches():
    model = model_of(layers.LSTM, stateful=True)
    ensemble = functools.partial(tfvn.ensemble_predict, outputs="regression")
    for predict in (ensemble, tfvn.mean_predict):
        with pytest.raises(ValueError, match="must be a multiple of 2") as error:
            predict(model, HALVES[:3])
        assert "Received: x with 1 rows" in str(error.value)
    unbuilt = keras.Sequential([tfvn.MeanFieldLSTM(3, stateful=True)])
    with pytest.raises(ValueError, match="with a `batch_size`"):
        tfvn.mean_predict(unbuilt, HALVES)


def test_an_export_is_refused_with_the_remedy(tmp_path):
    stateful = model_of(tfvn.MeanFieldLSTM, stateful=True)
    with pytest.raises(ValueError, match="with `stateful=False` and load") as error:
        tfvn.export_ensemble(stateful, tmp_path / "model", outputs="regression")
    assert "\n" not in str(error.value)
    assert f"stateful layers ['{stateful.layers[1].name}']" in str(error.value)
    assert not (tmp_path / "model").exists()
    # The weights of the one fit the other.
    stateful.save_weights(tmp_path / "model.weights.h5")
    plain = model_of(tfvn.MeanFieldLSTM, stateful=False)
    plain.load_weights(tmp_path / "model.weights.h5")
    for mine, its in zip(plain.get_weights(), stateful.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)
