"""Small models in each style of Keras, the modes they run in, and data to fit."""

import keras
import numpy as np

import tfvn

SIZE = 48


def _make_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 4)).astype("float32")
    return x, (x @ rng.normal(size=(4, 2))).astype("float32")


DATA = _make_data()


class Subclassed(tfvn.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tfvn.KTiedDense(8, activation="relu")
        self.head = tfvn.MeanFieldDense(2)

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def sequential():
    return tfvn.Sequential(
        [
            keras.Input((4,)),
            tfvn.KTiedDense(8, activation="relu"),
            tfvn.MeanFieldDense(2),
        ]
    )


def functional():
    inputs = keras.Input((4,))
    hidden = tfvn.KTiedDense(8, activation="relu")(inputs)
    return tfvn.Model(inputs, tfvn.MeanFieldDense(2)(hidden))


STYLES = {"sequential": sequential, "functional": functional, "subclassed": Subclassed}
MODES = {
    "eager": {"run_eagerly": True},
    "graph": {"jit_compile": False},
    "jit": {"jit_compile": True},
}


def still(model):
    """Takes the noise out of a model, so that losses are exact."""
    for layer in tfvn.layers.base.stochastic_layers(model):
        layer.estimator = tfvn.estimators.get("mean")
    return model


def kl_of(model):
    layers = tfvn.layers.base.stochastic_layers(model)
    return sum(float(layer.kl_divergence()) for layer in layers)
