"""Models of the tests of pruning."""

import keras
import numpy as np
from layer_moments import POSTERIORS

import tfvn
from tfvn.layers.base import stochastic_layers


def scatter(model, seed=0):
    """Moves all trainable variables far from where they start."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(rng.uniform(-1.5, 1.5, variable.shape))
    return model


def dense(posterior="mean_field", units=4, inputs=10, **kwargs):
    posterior = POSTERIORS.get(posterior, posterior)
    layer = tfvn.layers.Dense(
        units, posterior=posterior, kl_weight=0.01, name="random", **kwargs
    )
    return scatter(keras.Sequential([keras.Input((inputs,)), layer]))


def mask_of(model, index=0, weight="kernel"):
    return stochastic_layers(model)[index].posteriors[weight].mask.numpy()
