"""Models of the tests of tying."""

import keras
import numpy as np
from keras import layers

import tfvn

FEATURES = 6
X = np.random.default_rng(0).normal(size=(8, FEATURES)).astype("float32")
Y = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")


def scales(layer, weight="kernel"):
    return layer.posterior_distribution(weight).stddev().numpy()


def trained(model):
    """Gives a model means, scales and biases that differ from weight to weight."""
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.3 * rng.normal(size=variable.shape))
    return model


def mlp(**kwargs):
    return trained(
        tfvn.Sequential(
            [
                keras.Input((FEATURES,)),
                tfvn.MeanFieldDense(5, "relu", name="first", **kwargs),
                layers.BatchNormalization(),
                tfvn.MeanFieldDense(4, name="last", **kwargs),
            ]
        )
    )


# Each op, with a kernel whose axes are in another order in each; the shape of the inputs;
# and how the kernel becomes a matrix.
OPS = {
    "Dense": ({"units": 4}, (5,), lambda k: k),
    "EinsumDense": (
        # Kernel (h, d, t), of which h is the output's.
        {"equation": "btd,hdt->bh", "output_shape": (4,), "bias_axes": "h"},
        (3, 2),
        lambda k: k.reshape(4, -1).T,
    ),
    "Conv1D": ({"filters": 4, "kernel_size": 3}, (7, 2), lambda k: k.reshape(-1, 4)),
    "Conv2D": (
        {"filters": 4, "kernel_size": 2, "groups": 2},
        (5, 5, 4),
        lambda k: k.reshape(-1, 4),
    ),
    "Conv3D": (
        {"filters": 3, "kernel_size": 2},
        (3, 3, 3, 1),
        lambda k: k.reshape(-1, 3),
    ),
    "Conv2DTranspose": (
        # Kernel (height, width, filters, channels).
        {"filters": 3, "kernel_size": 2},
        (3, 3, 2),
        lambda k: np.moveaxis(k, 2, 3).reshape(-1, 3),
    ),
    "DepthwiseConv2D": (
        {"kernel_size": 2, "depth_multiplier": 2},
        (4, 4, 3),
        lambda k: k.reshape(4, -1),
    ),
    "LSTM": ({"units": 3}, (3, 5), lambda k: k),
    "GRU": ({"units": 3}, (3, 5), lambda k: k),
}
