"""Copies of models with functions and classes that users have not registered with Keras."""

import keras
import numpy as np
import pytest

import tfvn

# Keras warns of every lambda in a config, whoever reads it.
pytestmark = pytest.mark.filterwarnings("ignore:The object being serialized includes a")

X = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
Y = np.array([0, 1, 2, 0, 1, 2, 0])


def relu(x):
    return 7.0 * x


def twice(x):
    return 2.0 * keras.ops.tanh(x)


def model_with(*layers):
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.add(keras.layers.Dense(3, activation="softmax"))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def random_model(activation):
    return tfvn.Sequential(
        [keras.Input((4,)), tfvn.MeanFieldDense(3, activation=activation)]
    )


FUNCTIONS = {
    # A function of Keras has this name too.
    "relu": relu,
    "twice": twice,
    "lambda": lambda x: 2.5 * x,
}
COPIERS = {
    "from_deterministic": tfvn.from_deterministic,
    "last_layer_laplace": lambda model: tfvn.last_layer_laplace(model, X, Y),
}
RANDOM_COPIERS = {
    "prune": lambda model: tfvn.prune(model, fraction=0.0),
    "tie": lambda model: tfvn.tie(model, rank=1),
    "to_deterministic": tfvn.to_deterministic,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("copier", COPIERS)
def test_activation(copier, name):
    layers = [
        keras.layers.Dense(4, activation=FUNCTIONS[name]),
        keras.layers.Activation(FUNCTIONS[name]),
    ]
    model = model_with(*layers)
    copy = COPIERS[copier](model)
    np.testing.assert_allclose(tfvn.mean_predict(copy, X), model(X), atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("copier", RANDOM_COPIERS)
def test_activation_of_random_layer(copier, name):
    model = random_model(FUNCTIONS[name])
    copy = RANDOM_COPIERS[copier](model)
    assert copy.layers[-1].activation is FUNCTIONS[name]


def test_recurrent_activation():
    layers = [keras.Input((2, 4)), keras.layers.LSTM(3, activation=relu)]
    model = keras.Sequential(layers)
    copy = tfvn.from_deterministic(model)
    assert copy.layers[0].activation is relu
    assert tfvn.to_deterministic(copy).layers[0].activation is relu


def test_lambda_layer():
    # Code in a config would not find `X`, which is a global name.
    layer = keras.layers.Lambda(lambda x: x * float(np.max(X)))
    model = model_with(keras.layers.Dense(4), layer)
    for copier in COPIERS.values():
        copy = copier(model)
        np.testing.assert_allclose(tfvn.mean_predict(copy, X), model(X), atol=1e-6)


def test_functions_without_registration():
    def penalty(weights):
        return keras.ops.sum(weights**2)

    layer = keras.layers.Dense(
        4,
        kernel_regularizer=penalty,
        kernel_initializer=lambda shape, dtype=None: keras.ops.ones(shape, dtype),
    )
    copy = tfvn.from_deterministic(model_with(layer))
    assert copy.layers[0].kernel_regularizer is penalty


def test_other_function_of_the_same_name():
    # A layer inside a wrapper is made from its config, which has the name alone.
    inside = keras.layers.Dense(3, activation=relu)
    model = model_with(keras.layers.Reshape((2, 2)))
    model.pop()
    model.add(keras.layers.TimeDistributed(inside))
    with pytest.raises(ValueError, match="expected a name that no other function has"):
        tfvn.from_deterministic(model)


@pytest.mark.filterwarnings("ignore:The KL is much larger")
def test_class_without_registration(tmp_path):
    class Block(keras.layers.Layer):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            self.units = units
            self.dense = keras.layers.Dense(units)

        def build(self, shape):
            self.dense.build(shape)

        def call(self, inputs):
            return self.dense(inputs)

    model = model_with(Block(4))
    copy = tfvn.from_deterministic(model)
    expected = np.asarray(model(X))
    for one in (copy, tfvn.prune(copy, fraction=0.0), tfvn.tie(copy, rank=1)):
        np.testing.assert_allclose(tfvn.mean_predict(one, X), expected, atol=1e-6)
    plain = tfvn.to_deterministic(copy)
    assert type(plain.layers[0]) is Block
    np.testing.assert_allclose(plain(X), expected, atol=1e-6)
    keras.models.clone_model(copy)
    copy.fit(X, Y, verbose=0)
    expected = tfvn.mean_predict(copy, X)
    copy.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"Block": Block}
    )
    np.testing.assert_allclose(tfvn.mean_predict(loaded, X), expected, atol=1e-6)


def test_scope_of_the_user_is_kept():
    cell = keras.layers.TimeDistributed(keras.layers.Dense(2, activation="linear"))
    with keras.saving.custom_object_scope({"twice": twice}):
        model = model_with(keras.layers.Reshape((2, 2)), cell, keras.layers.Flatten())
        cell.layer.activation = twice
        copy = tfvn.from_deterministic(model)
        np.testing.assert_allclose(tfvn.mean_predict(copy, X), model(X), atol=1e-6)


class TestCompiled:
    @pytest.mark.filterwarnings("ignore:The KL is much larger")
    @pytest.mark.parametrize("name", ["mine", "share"])
    def test_metric_of_function(self, name):
        def share(y, outputs):
            return keras.ops.mean(outputs)

        model = model_with()
        metric = keras.metrics.MeanMetricWrapper(share, name=name)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=[metric])
        if name == share.__name__:
            with pytest.raises(ValueError, match="which Keras cannot make again"):
                tfvn.from_deterministic(model)
        else:
            copy = tfvn.from_deterministic(model)
            assert name in copy.fit(X, Y, verbose=0).history

    def test_metric_without_config(self):
        class Count(keras.metrics.Mean):
            def __init__(self, classes):
                super().__init__(name="count")

        model = model_with()
        model.compile("adam", "sparse_categorical_crossentropy", metrics=[Count(3)])
        with pytest.raises(
            ValueError, match="'count' of type Count, which Keras cannot"
        ):
            tfvn.from_deterministic(model)
