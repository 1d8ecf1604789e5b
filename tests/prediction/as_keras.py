"""What `keras.Model.predict` answers is what an ensemble without visible noise answers."""

import keras
import numpy as np
from keras import layers
from models import FEATURES

import tfvn


def quiet():
    """A layer that draws noise which nobody sees."""
    return layers.GaussianNoise(1e-9)


def one_input():
    return keras.Sequential(
        [keras.Input((FEATURES,)), layers.Dense(3, "tanh"), quiet(), layers.Dense(2)]
    )


def predict(model, x, **kwargs):
    """Predictions by an ensemble and by the mean weights, which must be the same."""
    answer = tfvn.ensemble_predict(model, x(), 2, outputs="regression", **kwargs)
    ensemble = keras.tree.map_structure(lambda part: part.mean, answer)
    mean = tfvn.mean_predict(model, x(), **kwargs)
    keras.tree.assert_same_structure(ensemble, mean)
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), ensemble, mean
    )
    return mean


def assert_as_keras(model, x, **kwargs):
    expected = model.predict(x(), verbose=0, **kwargs)
    received = predict(model, x, **kwargs)
    keras.tree.assert_same_structure(received, expected)
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), received, expected
    )
