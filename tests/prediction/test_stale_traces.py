"""A prediction sees what was changed since the last one, and traces for no other reason."""

import keras
import models
import numpy as np
import pytest
from keras import layers
from models import CLASSES, FEATURES, X

import tfvn
from tfvn.prediction.ensemble import MEAN_WEIGHTS
from tfvn.prediction.sampler import AS_IT_IS, sampler_of


def classifier(*middle):
    """A model whose noise follows, or is at, the last of the given layers."""
    last = tfvn.MeanFieldDense(CLASSES, activation="softmax")
    return keras.Sequential([keras.Input((FEATURES,)), *middle, last])


def predict(model, x=X):
    return tfvn.ensemble_predict(model, x, 5, seed=1, outputs="probabilities").mean


def changed_activation(model):
    model.layers[0].activation = keras.activations.sigmoid


def changed_lambda(model):
    # The function before it is gone, and this one may be where it was.
    model.layers[0].activation = lambda x: 5.0 * x


def changed_statistics(model):
    model.layers[0].adapt(3.0 + 2.0 * X)


def changed_rate(model):
    model.layers[0].rate = 0.9


def changed_own_state(model):
    model.layers[0].factors["scale"] = [3.0]


def adapted_weights(model):
    model.layers[0].enable_lora(2)
    model.layers[0].lora_kernel_b.assign(np.ones((2, 5)))


def changed_precision(model):
    model.layers[0].dtype_policy = "mixed_bfloat16"


class Scaled(keras.Layer):
    """A layer with state that is no variable."""

    def __init__(self):
        super().__init__()
        self.factors = {"scale": [1.0]}

    def call(self, inputs):
        return inputs * self.factors["scale"][0]


CHANGES = [
    (lambda: layers.Dense(5, "tanh"), changed_activation),
    (lambda: layers.Dense(5, lambda x: x), changed_lambda),
    (lambda: layers.Normalization(), changed_statistics),
    (lambda: layers.Dropout(0.1), changed_rate),
    (lambda: layers.Dense(5, "tanh"), adapted_weights),
    (Scaled, changed_own_state),
    (lambda: layers.Dense(5, lambda x: 5.0 * x), changed_precision),
]


@pytest.mark.parametrize(
    ("make", "change"), CHANGES, ids=[change.__name__ for _, change in CHANGES]
)
def test_what_was_changed_is_seen(make, change):
    model = classifier(make())
    if isinstance(model.layers[0], layers.Normalization):
        model.layers[0].adapt(X)
    before = predict(model)
    change(model)
    after = predict(model)
    fresh = classifier(model.layers[0])
    fresh.layers[1].set_weights(model.layers[1].get_weights())
    assert np.abs(before - after).max() > 1e-3
    np.testing.assert_allclose(after, predict(fresh), atol=1e-5)


def test_mean_predictions_see_it_too():
    model = classifier(layers.Dense(5, "tanh"))
    tfvn.mean_predict(model, X)
    changed_activation(model)
    mean = model.layers[1].posterior.mean()
    expected = keras.ops.softmax(model.layers[0](X) @ mean + model.layers[1].bias)
    np.testing.assert_allclose(tfvn.mean_predict(model, X), expected, atol=1e-5)


def test_loaded_statistics_are_seen(tmp_path):
    model, other = (classifier(layers.Normalization()) for _ in range(2))
    model.layers[0].adapt(X)
    other.layers[0].adapt(5.0 * X + 2.0)
    other.save_weights(tmp_path / "other.weights.h5")
    before = predict(model)
    model.load_weights(tmp_path / "other.weights.h5")
    assert np.abs(predict(model) - before).max() > 1e-3
    np.testing.assert_allclose(predict(model), predict(other), atol=1e-5)


class Tempered(models.Subclassed):
    """A model that is no graph, with state that is no variable."""

    temperature = 1.0

    def call(self, inputs, training=None):
        return super().call(inputs, training=training) / self.temperature


def test_state_of_a_subclassed_model_is_seen():
    model = Tempered(models.mean_field("local"))
    before = predict(model)
    model.temperature = 4.0
    np.testing.assert_allclose(predict(model), before / 4.0, atol=1e-6)


def traces(model):
    return [
        function
        for what in (AS_IT_IS, MEAN_WEIGHTS)
        for function in sampler_of(model, what)._functions.values()
    ]


@pytest.mark.filterwarnings("ignore:A stochastic layer without")
@pytest.mark.parametrize("make", [models.recurrent_flipout, models.subclassed])
def test_training_and_other_predictions_trace_nothing_anew(make):
    model = make()
    model.compile("sgd", "mse", run_eagerly=True)
    y = np.zeros((len(X), CLASSES))
    model.fit(X, y, verbose=0)
    predict(model), tfvn.mean_predict(model, X)
    before = traces(model)
    model.fit(X, y, verbose=0)
    model.evaluate(X, y, verbose=0), model.predict(X, verbose=0), model(X)
    predict(model), tfvn.mean_predict(model, X)
    assert len(before) == 2
    assert all(map(lambda a, b: a is b, traces(model), before))


def test_compiling_traces_anew_and_answers_the_same():
    model = models.mc_dropout()
    answer, before = predict(model), traces(model)
    model.compile("sgd", "mse")
    np.testing.assert_array_equal(predict(model), answer)
    assert traces(model)[0] is not before[0]


def test_noise_that_was_turned_on_or_off_is_seen():
    noise = layers.GaussianNoise(0.5)
    model = models.sequential(noise)
    for _ in range(2):
        noise.stddev = 0.0
        with pytest.raises(ValueError, match="must have a layer that draws noise"):
            predict(model)
        noise.stddev = 0.5
        answer = tfvn.ensemble_predict(model, X, 5, outputs="probabilities")
        assert answer.std.min() > 0


def test_a_rate_that_was_raised_from_zero_is_refused():
    dropout = layers.Dropout(0.0)
    model = models.sequential(dropout)
    with pytest.raises(ValueError, match="must have a layer that draws noise"):
        predict(model)
    dropout.rate = 0.5
    with pytest.raises(ValueError, match="make the layer with the rate") as error:
        predict(model)
    assert "\n" not in str(error.value)
    assert "Received: layer 'dropout" in str(error.value)
