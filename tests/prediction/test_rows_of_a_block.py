"""The noise of a row is the same whichever rows follow it."""

import functools

import keras
import models
import numpy as np
import pytest
from keras import layers
from models import CLASSES, FEATURES, MODELS

import tfvn

X = np.random.default_rng(3).normal(size=(16, FEATURES)).astype("float32")


def noise_layer(law):
    return models.sequential(tfvn.MultiplicativeNoise(law))


def noisy_lstm():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2)),
            tfvn.NoisyLSTM(4, noise="gaussian", gates="untied"),
            layers.Dense(CLASSES, "softmax"),
        ]
    )


def convolution():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2, 1)),
            tfvn.MeanFieldConv2D(3, 1, **models.SPREAD),
            layers.Flatten(),
            layers.Dense(CLASSES, "softmax"),
        ]
    )


class BatchLast(models.OwnNoise):
    """A layer of unknown kind whose noise does not have the rows first."""

    def call(self, inputs):
        shape = keras.ops.shape(inputs)
        noise = keras.random.normal((shape[1], shape[0]), seed=self.generator)
        return inputs + keras.ops.transpose(noise)


def batch_last():
    return models.sequential(BatchLast())


LAWS = ["bernoulli", "gaussian", "rayleigh", "inverse_nakagami", "half_cauchy"]
MAKERS = [
    models.local,
    models.flipout,
    models.noise_family,
    models.recurrent_flipout,
    noisy_lstm,
    batch_last,
]
# The rest takes long, and is no other code.
OTHERS = [convolution, *(make for make in MODELS if make not in MAKERS)]
OTHERS += [functools.partial(noise_layer, law) for law in LAWS]
CASES = [
    *MAKERS,
    *(pytest.param(make, marks=pytest.mark.exhaustive) for make in OTHERS),
]


@pytest.mark.parametrize(
    "make", CASES, ids=lambda make: getattr(make, "__name__", "noise_layer")
)
def test_rows_do_not_depend_on_those_after_them(make):
    model = make()

    def predict(x):
        return tfvn.ensemble_predict(
            model, x, 5, seed=1, outputs="probabilities", return_samples=True
        ).samples

    expected = predict(X)
    assert expected.std(1).max() > 1e-3
    for rows in (10, 1):
        np.testing.assert_allclose(predict(X[:rows]), expected[:rows], atol=1e-5)


@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_rows_of_all_blocks_and_batches_have_noise_of_their_own(estimator):
    layer = tfvn.MeanFieldDense(3, estimator=estimator, scale_initializer=0.5)
    model = keras.Sequential([keras.Input((FEATURES,)), layer])

    def predict(**kwargs):
        return tfvn.ensemble_predict(
            model,
            np.ones((100, FEATURES)),
            num_samples=10,
            seed=1,
            outputs="regression",
            return_samples=True,
            **kwargs,
        ).samples

    samples = predict(batch_size=32)
    assert len(np.unique(samples.reshape(100, -1), axis=0)) == 100
    # A block of 16 rows has its seed, whatever the batch that it is in.
    np.testing.assert_allclose(predict(batch_size=16), samples, atol=1e-5)
