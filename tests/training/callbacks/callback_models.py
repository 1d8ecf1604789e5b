"""Models and data that the tests of callbacks share."""

import keras
import numpy as np

import tfvn

# XLA takes seconds to compile what these tests run a few times.
OPTIONS = {"jit_compile": False}

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(32, 1)).astype("float32")


def make_model(scale_rate=0.1, **kwargs):
    model = tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1, name="last")])
    sgd = keras.optimizers.SGD
    model.compile(
        {"mean": sgd(0.1), "scale": sgd(scale_rate)}, "mse", **OPTIONS, **kwargs
    )
    return model


def state(model):
    variables = [*model.variables, *model.optimizer.variables]
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def assert_same(before, after):
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


class Script(keras.callbacks.Callback):
    """Puts prepared values into the logs, epoch by epoch."""

    def __init__(self, **values):
        super().__init__()
        self.values = values

    def on_epoch_end(self, epoch, logs=None):
        logs.update({name: values[epoch] for name, values in self.values.items()})
