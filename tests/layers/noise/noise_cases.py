"""The layers of the noise family: how each structure is made, and its Keras twin."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

import tfvn

NOISE = tfvn.distributions.noise_law("gaussian", stddev=0.5)


@dataclasses.dataclass(frozen=True)
class Case:
    """A structure: makes the layer, makes its twin, and the shape of its inputs."""

    layer: Callable
    twin: Callable
    input_shape: tuple
    per_example: bool = True

    def make(self, noise=NOISE, **kwargs):
        return self.layer(noise=noise, **{"seed": 7, **kwargs})

    def data(self):
        generator = np.random.default_rng(0)
        return generator.normal(size=self.input_shape).astype("float32")

    def model(self, layer=None, library=keras):
        """Returns the layer between two others, with one number for each example."""
        return library.Sequential(
            [
                keras.Input(self.input_shape[1:]),
                self.make() if layer is None else layer,
                keras.layers.Flatten(),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )


def _residual(structure):
    def make(**kwargs):
        block = keras.layers.Dense(4, activation="tanh", name="block")
        return tfvn.NoisyResidual(block, structure=structure, **kwargs)

    def twin():
        start = keras.Input((4,))
        block = keras.layers.Dense(4, activation="tanh")
        return keras.Model(start, keras.layers.Add()([start, block(start)]))

    return Case(make, twin, (8, 4))


def _dense(structure):
    return Case(
        lambda **kwargs: tfvn.NoisyDense(
            3, "relu", structure=structure, bias_initializer="ones", **kwargs
        ),
        lambda: keras.layers.Dense(3, "relu"),
        (8, 4),
        per_example=structure == "ard",
    )


def _convolution(structure, **options):
    return Case(
        lambda **kwargs: tfvn.NoisyConv2D(
            4, 2, structure=structure, activation="tanh", **options, **kwargs
        ),
        lambda: keras.layers.Conv2D(4, 2, activation="tanh", **options),
        (8, 4, 5, 2),
        per_example=False,
    )


def _lstm(gates):
    return Case(
        lambda **kwargs: tfvn.NoisyLSTM(
            3, gates=gates, return_sequences=True, **kwargs
        ),
        lambda: keras.layers.LSTM(3, return_sequences=True),
        (8, 5, 2),
    )


CASES = {
    "MultiplicativeNoise": Case(
        tfvn.MultiplicativeNoise, keras.layers.Identity, (8, 4)
    ),
    "NoisyDense-ard": _dense("ard"),
    "NoisyDense-dropconnect": _dense("dropconnect"),
    "NoisyConv2D-channels": _convolution("channels", groups=2),
    "NoisyConv2D-filters": _convolution("filters", strides=2, padding="same"),
    "NoisyConv2D-channels_and_filters": _convolution("channels_and_filters"),
    "NoisyLSTM-tied": _lstm("tied"),
    "NoisyLSTM-untied": _lstm("untied"),
    "NoisyLSTMCell": Case(
        lambda **kwargs: keras.layers.RNN(tfvn.NoisyLSTMCell(3, **kwargs)),
        lambda: keras.layers.LSTM(3),
        (8, 5, 2),
    ),
    "NoisyResidual-depth": _residual("depth"),
    "NoisyResidual-ard": _residual("ard"),
    "NoisyResidual-depth_and_ard": _residual("depth_and_ard"),
}
