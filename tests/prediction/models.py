"""Models that are predicted with: each draws noise in another way, or another place."""

import keras
import numpy as np
from keras import layers

import tfvn

FEATURES = 4
CLASSES = 3
X = np.random.default_rng(0).normal(size=(6, FEATURES)).astype("float32")

# Scales that are seen in the outputs; they start much smaller.
SPREAD = {"scale_initializer": 0.5}


def sequential(*middle, activation="softmax"):
    """A deterministic layer, the given ones, and a deterministic end."""
    first, last = layers.Dense(5, "tanh"), layers.Dense(CLASSES, activation)
    return keras.Sequential([keras.Input((FEATURES,)), first, *middle, last])


def mean_field(estimator, units=5, **kwargs):
    return tfvn.MeanFieldDense(units, estimator=estimator, **SPREAD, **kwargs)


def local():
    return sequential(mean_field("local", activation="relu"))


def weights():
    return sequential(mean_field("weights", activation="relu"))


def flipout():
    return sequential(mean_field("flipout", activation="relu"))


def two_estimators():
    """A layer whose moments are shared, before one that a batch shares."""
    return sequential(mean_field("local"), mean_field("weights", activation="relu"))


def random_bias():
    return sequential(
        tfvn.KTiedDense(5, bias_posterior="mean_field"), tfvn.VarianceDense(5)
    )


def mc_dropout():
    """Noise of Keras's own, beside a layer that must not believe it is being trained."""
    model = sequential(layers.BatchNormalization(), layers.Dropout(0.5))
    model.layers[1].set_weights(
        [np.full(5, v, "float32") for v in (2.0, 1.0, 0.5, 3.0)]
    )
    return model


def noise_family():
    return sequential(
        layers.GaussianNoise(0.3), layers.GaussianDropout(0.3), layers.AlphaDropout(0.3)
    )


def shared_dropout():
    """A mask that all examples of a batch share."""
    return sequential(layers.Dropout(0.5, noise_shape=(1, 5)))


def recurrent_dropout():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2)),
            layers.LSTM(4, dropout=0.4, recurrent_dropout=0.4),
            layers.Dense(CLASSES, "softmax"),
        ]
    )


def recurrent(estimator):
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2)),
            tfvn.MeanFieldLSTM(4, estimator=estimator, **SPREAD),
            layers.Dense(CLASSES, "softmax"),
        ]
    )


def recurrent_weights():
    return recurrent("weights")


def recurrent_flipout():
    return recurrent("flipout")


def attention_dropout():
    inputs = keras.Input((FEATURES,))
    x = layers.Reshape((2, 2))(inputs)
    x = layers.MultiHeadAttention(2, 3, dropout=0.4)(x, x)
    outputs = layers.Dense(CLASSES, "softmax")(layers.Flatten()(x))
    return keras.Model(inputs, outputs)


def branches():
    """One branch without noise, two with, a layer that they share, and a merge."""
    inputs = keras.Input((FEATURES,))
    plain = layers.Dense(5, "relu")(inputs)
    noisy = mean_field("local", name="noisy")(plain)
    shared = layers.Dense(5, "relu", name="shared")
    dropped = layers.Dropout(0.5)(plain)
    merged = layers.concatenate([shared(noisy), shared(dropped), shared(plain)])
    return keras.Model(inputs, layers.Dense(CLASSES, "softmax")(merged))


def shared_stochastic():
    """A random layer that is called twice draws twice."""
    inputs = keras.Input((FEATURES,))
    layer = mean_field("local")
    first = layer(layers.Dense(5, "tanh")(inputs))
    second = layer(layers.Dense(5, "tanh")(inputs))
    outputs = layers.Dense(CLASSES, "softmax")(first * second + 1.0)
    return keras.Model(inputs, outputs)


def nested():
    """Noise in the middle of a model that is a layer of another, twice."""
    inner_inputs = keras.Input((5,))
    hidden = layers.Dense(5, "relu")(inner_inputs)
    hidden = mean_field("local")(hidden)
    inner = keras.Model(inner_inputs, layers.Activation("relu")(hidden))
    inputs = keras.Input((FEATURES,))
    x = inner(inner(layers.Dense(5)(inputs)))
    x = keras.Sequential([keras.Input((5,)), layers.Dropout(0.2), layers.Dense(4)])(x)
    return keras.Model(inputs, layers.Dense(CLASSES, "softmax")(x))


class Subclassed(keras.Model):
    """A model that is no graph."""

    def __init__(self, layer):
        super().__init__()
        self.first = layers.Dense(5, "relu")
        self.noisy = layer
        self.drop = layers.Dropout(0.3)
        self.last = layers.Dense(CLASSES, "softmax")

    def call(self, inputs, training=None):
        hidden = self.noisy(self.first(inputs), training=training)
        return self.last(self.drop(hidden, training=training))


def subclassed():
    return Subclassed(mean_field("local"))


def subclassed_weights():
    return Subclassed(mean_field("weights"))


class OwnNoise(keras.Layer):
    """A layer of unknown kind that draws at inference, from a generator of Keras's."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.generator = keras.random.SeedGenerator(1)

    def call(self, inputs):
        noise = keras.random.normal(keras.ops.shape(inputs), seed=self.generator)
        return inputs + noise


def unknown_noise():
    return sequential(OwnNoise())


class NoiseOfTraining(OwnNoise):
    """The same, which draws in training only."""

    def call(self, inputs, training=False):
        return super().call(inputs) if training else inputs


def unknown_noise_of_training():
    return sequential(NoiseOfTraining())


class NoisyCell(OwnNoise):
    """A cell that draws in every step, and adds it all up."""

    state_size = output_size = 2

    def call(self, inputs, states):
        total = states[0] + super().call(inputs)
        return total, [total]


def noise_in_a_loop():
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            layers.Reshape((2, 2)),
            layers.RNN(NoisyCell()),
            layers.Dense(CLASSES, "softmax"),
        ]
    )


MODELS = [
    local,
    weights,
    flipout,
    two_estimators,
    random_bias,
    mc_dropout,
    noise_family,
    shared_dropout,
    recurrent_dropout,
    recurrent_weights,
    recurrent_flipout,
    attention_dropout,
    branches,
    shared_stochastic,
    nested,
    subclassed,
    subclassed_weights,
    unknown_noise,
    unknown_noise_of_training,
    noise_in_a_loop,
]
