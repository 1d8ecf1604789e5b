"""Models of the tests of zero-mean layers."""

import keras
import numpy as np

import tfvn

FEATURES = 4
X = np.random.default_rng(0).normal(size=(5, FEATURES)).astype("float32")

ADDITIVE = {"parameterization": "additive"}
ALPHAS = [{"alpha": "layer"}, {"alpha": "neuron"}, {"alpha": "weight"}, ADDITIVE]


def dropout(units=3, log_alpha=8.0, **kwargs):
    return tfvn.GaussianDropoutDense(units, initial_log_alpha=log_alpha, **kwargs)


def model_of(*middle):
    return tfvn.Sequential([keras.Input((FEATURES,)), *middle])


def set_scales(layer, rng, log_alpha=8.0):
    """Gives a layer log alphas that differ, of about the same size."""
    for posterior in layer.posteriors.values():
        if isinstance(posterior, tfvn.posteriors.GaussianDropout):
            (scale,) = posterior.variable_groups["scale"]
            noise = rng.uniform(0.0, 2.0, size=scale.shape)
            means = np.asarray(posterior.mean())
            squares = np.log(means**2) if posterior.is_additive else 0.0
            scale.assign(log_alpha + noise + squares)
