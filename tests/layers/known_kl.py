"""A layer whose KL is known in closed form, and data to fit it to."""

import harness
import numpy as np
from tensorflow_probability import distributions as tfd

import tfvn

PRIOR = tfd.Normal(0.0, 1.0)
INPUTS = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
TARGETS = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")


def make_layer(units=4, **kwargs):
    options = {
        "prior": PRIOR,
        "scale_initializer": 0.5,
        "kl_weight": 1.0,
        "estimator": "mean",
    }
    return tfvn.MeanFieldDense(units, **{**options, **kwargs})


def closed_form(layer):
    """The KL to a standard normal, written out anew."""
    total = 0.0
    for posterior, _ in harness.random_parts(layer):
        mean = posterior.mean().numpy().astype("float64")
        scale = posterior.scale().numpy().astype("float64")
        terms = 0.5 * (scale**2 + mean**2 - 1.0) - np.log(scale)
        total += terms.sum()
    return total


def assert_losses(model, expected):
    """Checks the number of losses, and their sum, however often they are read."""
    for _ in range(3):
        assert len(model.losses) == len(expected)
        np.testing.assert_allclose(
            sorted(float(loss) for loss in model.losses), sorted(expected), rtol=1e-5
        )
