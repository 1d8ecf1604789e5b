"""Trained models of all kinds, to be converted: what they are made of is what matters."""

import keras
import numpy as np
from keras import layers


def set_weights(model):
    """Gives all weights values that no initializer gives, also biases and averages."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        values = rng.normal(size=variable.shape) * 0.3
        is_variance = "variance" in variable.path
        variable.assign(np.abs(values) + 0.5 if is_variance else values)
    return model


def rows(model_or_shape, count=3):
    shape = getattr(
        model_or_shape, "input_shape", (None, *np.atleast_1d(model_or_shape))
    )
    return np.random.default_rng(1).normal(size=(count, *shape[1:])).astype("float32")


def functional(inputs, outputs):
    return set_weights(keras.Model(inputs, outputs))


def dense():
    regularizer, norm = keras.regularizers.L2(1e-3), keras.constraints.MaxNorm(2.0)
    first = layers.Dense(
        5,
        "relu",
        kernel_regularizer=regularizer,
        kernel_constraint=norm,
        name="first",
    )
    last = layers.Dense(3, name="head")
    model = keras.Sequential([keras.Input((4,)), first, layers.Dropout(0.3), last])
    model.add(layers.Softmax())
    return set_weights(model)


def residual():
    """A small ResNet, with a convolution that is used twice, and a nested stem."""
    image = keras.Input((8, 8, 2))
    stem = keras.Sequential(
        [keras.Input((8, 8, 2)), layers.Conv2D(4, 3, padding="same")]
    )
    x = layers.BatchNormalization()(stem(image))
    shared = layers.Conv2D(4, 3, padding="same", use_bias=False, name="shared")
    x = layers.Add()([x, shared(shared(x))])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
    return functional(image, layers.Dense(3, "softmax", name="head")(x))


def operations():
    """One layer of each kind that convolves."""
    image = keras.Input((6, 6, 2))
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, name="depthwise")(image)
    x = layers.Conv2DTranspose(3, 3, strides=2, name="transposed")(x)
    x = layers.Conv3D(2, 2, name="volume")(x[..., None])
    x = layers.Reshape((-1, 4))(x)
    x = layers.Conv1D(4, 3, groups=2, name="steps")(x)
    x = layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d", name="einsum")(x)
    return functional(image, x)


def recurrent():
    steps = keras.Input((4, 3))
    both = layers.Bidirectional(layers.LSTM(3, return_sequences=True))
    cells = layers.RNN([layers.GRUCell(3), layers.LSTMCell(2)], return_sequences=True)
    x = layers.TimeDistributed(layers.Dense(3))(cells(both(steps)))
    return functional(steps, layers.GRU(2, reset_after=False)(x))


def attention():
    steps = keras.Input((4, 6))
    masked = layers.Masking()(steps)
    x = layers.MultiHeadAttention(2, 3, dropout=0.1, name="attention")(masked, masked)
    x = layers.LayerNormalization()(x + steps)
    return functional(steps, layers.Dense(2, name="head")(x))


def grouped_attention():
    steps = keras.Input((4, 6))
    x = layers.GroupQueryAttention(3, 4, 2)(steps, steps)
    return functional(steps, x)


@keras.saving.register_keras_serializable("tests")
class Block(layers.Layer):
    """A layer as users write them: layers in attributes, lists and dictionaries."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.attention = layers.MultiHeadAttention(2, 4)
        self.mlp = keras.Sequential([layers.Dense(units, "relu"), layers.Dense(6)])
        self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]
        self.more = {"first": layers.Dense(6), "second": (layers.Dense(6),)}
        self.same = self.more["first"]
        self.gain = self.add_weight(name="gain", shape=(6,))

    def build(self, input_shape):
        self.attention.build(input_shape, input_shape)
        self.mlp.build(input_shape)
        for layer in (*self.norms, self.same, *self.more["second"]):
            layer.build(input_shape)

    def call(self, inputs, training=None):
        x = self.norms[0](inputs + self.attention(inputs, inputs, training=training))
        x = self.norms[1](x + self.mlp(x)) * self.gain
        return self.more["second"][0](self.same(self.more["first"](x)))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def written_layers():
    steps = keras.Input((4, 6))
    return functional(steps, layers.Dense(2)(Block(7)(Block(5)(steps))))


@keras.saving.register_keras_serializable("tests")
class Written(keras.Model):
    """A model as users write them, whose constructor takes nothing."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(6, "relu")
        self.block = Block(5)
        self.last = layers.Dense(2)

    def call(self, inputs):
        return self.last(self.block(self.first(inputs)))


def written_model():
    model = Written()
    model(rows((4, 6)))
    return set_weights(model)


MODELS = [
    dense,
    residual,
    operations,
    recurrent,
    attention,
    grouped_attention,
    written_layers,
    written_model,
]


def data(model):
    return rows(
        model if isinstance(getattr(model, "input_shape", None), tuple) else (4, 6)
    )
