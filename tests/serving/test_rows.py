"""Noise of rows with a seed each: no two are the same, whatever the seeds."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.prediction.sampler import Sampler

ROWS, DRAWS = 8, 5
# 2**32 divided by the golden ratio, by which many a hash goes.
GOLDEN = 0x9E3779B9


def two_noises():
    """Two layers that draw for each row, side by side."""
    inputs = keras.Input((2,))
    noises = [keras.layers.GaussianNoise(1.0)(inputs) for _ in range(2)]
    return keras.Model(inputs, keras.layers.concatenate(noises))


def kernels():
    """Layers of which each row and draw gets a kernel of its own."""
    layers = [tfvn.MeanFieldDense(2, estimator="weights", prior=None) for _ in range(2)]
    inputs = keras.Input((3, 2))
    outputs = keras.layers.concatenate([layer(inputs + 1.0) for layer in layers])
    return keras.Model(inputs, outputs[:, 0])


class Steps(keras.Layer):
    """A cell whose outputs are noise alone."""

    state_size = output_size = 2

    def __init__(self):
        super().__init__()
        self.noise = keras.layers.GaussianNoise(1.0)

    def call(self, inputs, states):
        return self.noise(inputs), states


def steps():
    return keras.Sequential(
        [keras.Input((3, 2)), keras.layers.RNN(Steps(), return_sequences=True)]
    )


@pytest.mark.parametrize("make", [two_noises, kernels, steps])
@pytest.mark.parametrize("stride", [1, GOLDEN])
def test_neighbouring_seeds_share_nothing(make, stride):
    model = make()
    sampler = Sampler(model, by_row=True)
    inputs = tf.zeros([ROWS, *model.input_shape[1:]])
    seconds = (np.arange(ROWS) * stride).astype("uint32").view("int32")
    seeds = np.stack([np.full(ROWS, 7, "int32"), seconds], axis=1)

    @tf.function(autograph=False)
    def draw(inputs, seeds):
        parts = DRAWS, ["regression"], ("samples",)
        summaries, _ = sampler.summarize(inputs, seeds, 0, [], *parts)
        return summaries[0]["samples"]

    samples = draw(inputs, tf.constant(seeds)).numpy()
    assert samples.shape[:2] == (ROWS, DRAWS)
    assert len(np.unique(samples)) == samples.size
