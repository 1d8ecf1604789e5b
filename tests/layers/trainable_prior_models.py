"""A model whose layers share a prior with variables in it."""

import keras
import numpy as np

import tfvn

X = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(16, 1)).astype("float32")


def frozen(optimizer):
    """Optimizers that train the prior alone."""
    still = {name: keras.optimizers.SGD(0.0) for name in ("mean", "scale", "default")}
    return {**still, "prior": optimizer}


def make_model(prior, optimizer=None, **kwargs):
    keras.utils.set_random_seed(0)
    model = tfvn.Sequential(
        [
            keras.Input((4,)),
            tfvn.MeanFieldDense(8, prior=prior, activation="tanh"),
            tfvn.MeanFieldDense(1, prior=prior),
        ]
    )
    options = {"jit_compile": False, **kwargs}
    model.compile(frozen(optimizer or keras.optimizers.Adam(0.01)), "mse", **options)
    return model


def prior_variables(model):
    return tfvn.variable_groups(model)["prior"]
