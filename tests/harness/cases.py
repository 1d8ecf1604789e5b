"""A layer that is tested: how it is made, the model around it, and its noise."""

import dataclasses

import keras
import numpy as np


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer, its arguments, and the shape of the inputs, batch included."""

    layer_class: type
    init_kwargs: dict
    input_shape: tuple

    def make(self, **kwargs):
        """Returns an instance of the class."""
        defaults = {"kl_weight": 0.1, "seed": 7}
        return self.layer_class(**{**defaults, **self.init_kwargs, **kwargs})

    def layer(self):
        """Returns what a model is made of: of a cell, an `RNN` around it."""
        return in_rnn(self.make())

    def model(self, layer=None):
        """Returns the layer under a head that makes one number of its outputs."""
        return keras.Sequential(
            [
                keras.Input(self.input_shape[1:]),
                self.layer() if layer is None else layer,
                keras.layers.Flatten(),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )

    def data(self):
        generator = np.random.default_rng(0)
        inputs = generator.normal(size=self.input_shape).astype("float32")
        return inputs, np.full((len(inputs), 1), 5.0, "float32")


def in_rnn(layer):
    """Returns a layer, and for a cell an `RNN` around it."""
    cells = (keras.layers.LSTMCell, keras.layers.GRUCell)
    return keras.layers.RNN(layer) if isinstance(layer, cells) else layer


def owner(layer):
    """Returns what owns the random weights: the layer or, in an `RNN`, its cell."""
    return layer.cell if isinstance(layer, keras.layers.RNN) else layer


def own_config(layer):
    """Returns the config of a layer; of an `RNN`, that of its cell beside it."""
    # Keras writes the shape that a cell was built for as a tuple and reads a list.
    config = {k: v for k, v in layer.get_config().items() if k != "cell"}
    return config, owner(layer).get_config()


def reset_noise(model):
    """Sets the noise of a model back to where it starts."""
    for layer in model._flatten_layers():
        for generator in layer._seed_generators:
            generator.state.assign([generator._initial_seed, 0])


def outputs_from_the_start(model, inputs):
    """Returns a model's outputs with the noise that it starts with."""
    reset_noise(model)
    outputs = model(inputs).numpy()
    reset_noise(model)
    return outputs
