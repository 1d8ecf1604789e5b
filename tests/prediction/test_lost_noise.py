"""Noise that a prediction would lose, or hold, without a word."""

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfvn


class InTrainingOnly(keras.Model):
    """A model that leaves its dropout out of inference itself, as examples on the web do."""

    def __init__(self):
        super().__init__()
        self.drop = layers.Dropout(0.5)
        self.last = layers.Dense(2)

    def call(self, inputs, training=False):
        if training:
            inputs = self.drop(inputs, training=training)
        return self.last(inputs)


class WithMoreNoise(InTrainingOnly):
    """The same, after noise that is there at inference."""

    def __init__(self):
        super().__init__()
        self.first = tfvn.VarianceDense(models.FEATURES)

    def call(self, inputs, training=False):
        return super().call(self.first(inputs), training=training)


class Traced(keras.Layer):
    """A layer whose noise is in a `tf.function` that was traced when the model was built."""

    def __init__(self):
        super().__init__()
        self.drop = layers.Dropout(0.5)

    @tf.function
    def call(self, inputs):
        return self.drop(inputs)


def predict(model, **kwargs):
    return tfvn.ensemble_predict(
        model, models.X, num_samples=3, outputs="regression", seed=1, **kwargs
    )


@pytest.mark.parametrize("make", [InTrainingOnly, lambda: models.sequential(Traced())])
def test_an_ensemble_without_any_noise_is_refused(make):
    model = make()
    for _ in range(2):
        with pytest.raises(ValueError, match="Received: layer 'dropout"):
            predict(model)


def test_lost_noise_beside_other_noise_is_warned_of():
    with pytest.warns(UserWarning, match="Received: layer 'dropout"):
        answer = predict(WithMoreNoise())
    assert (answer.std > 0).all()


class Always(keras.Layer):
    """Noise that nobody can know of."""

    def call(self, inputs):
        return inputs + tf.random.normal(tf.shape(inputs))


@pytest.mark.parametrize(
    "layer",
    [Always(), layers.Lambda(lambda x: keras.random.dropout(x, 0.5))],
    ids=["tensorflow", "keras"],
)
def test_unknown_noise_before_the_first_known_is_refused(layer):
    # It would be drawn once, and be the same in all draws.
    model = keras.Sequential(
        [keras.Input((models.FEATURES,)), layer, layers.Dropout(0.5)]
    )
    with pytest.raises(ValueError, match="SeedGenerator"):
        predict(model)


def test_unknown_noise_that_says_what_it_is():
    layer = Always()
    layer.noise_per_example = True
    model = keras.Sequential(
        [keras.Input((models.FEATURES,)), layer, layers.Dropout(1e-3)]
    )
    assert (predict(model).std > 0).all()


class OneMask(layers.Dropout):
    """A dropout of one's own, whose mask all examples of a batch share."""

    def call(self, inputs, training=False):
        if not training:
            return inputs
        shape = (1, inputs.shape[-1])
        return keras.random.dropout(
            inputs, self.rate, noise_shape=shape, seed=self.seed_generator
        )


@pytest.mark.parametrize("seed", [1, np.ones((len(models.X), 2), int)])
def test_a_call_of_ones_own_may_share_noise_between_examples(seed):
    model = keras.Sequential([keras.Input((models.FEATURES,)), OneMask(0.5)])
    answer = tfvn.ensemble_predict(
        model, models.X, num_samples=20, outputs="regression", seed=seed
    )
    assert (answer.std > 0).all()
