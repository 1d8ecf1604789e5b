"""Metrics of a `tfvn.Model` see means in place of parameters of distributions."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfvn
from tfvn.training.metric_inputs import metric_inputs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype("float32")
Y = RNG.normal(size=6).astype("float32")


def difference(y_true, y_pred):
    """A metric that would broadcast."""
    return y_true - y_pred


def evaluated(model, y, loss, **kwargs):
    kwargs = {"metrics": ["mae", difference], "run_eagerly": True, **kwargs}
    model.compile("sgd", loss, **kwargs)
    return model.evaluate(X, y, verbose=0, return_dict=True)


@pytest.mark.parametrize("y", [Y, Y[:, None]], ids=["(n,)", "(n, 1)"])
@pytest.mark.parametrize(
    ("loss", "last"),
    [
        (tfvn.losses.GaussianNLL(), layers.Dense(2)),
        (tfvn.losses.GaussianNLL(scale=0.5), layers.Dense(1)),
        # Another loss: the last layer says it.
        (lambda y, p: keras.ops.sum(p, -1), tfvn.layers.NormalHead(1)),
    ],
    ids=["predicted", "known", "head"],
)
def test_errors_are_those_of_the_mean(loss, last, y):
    model = tfvn.Sequential([keras.Input((4,)), last])
    found = evaluated(model, y, loss)
    mean = model(X).numpy()[:, 0]
    assert found["mae"] == pytest.approx(np.abs(mean - Y).mean(), rel=1e-5)
    assert found["difference"] == pytest.approx((Y - mean).mean(), rel=1e-4, abs=1e-6)


def test_weights_of_examples_count():
    model = tfvn.Sequential([keras.Input((4,)), tfvn.layers.NormalHead(1)])
    loss, weight = tfvn.losses.GaussianNLL(), np.arange(6.0)
    model.compile("sgd", loss, weighted_metrics=["mae"], run_eagerly=True)
    found = model.evaluate(X, Y, sample_weight=weight, verbose=0, return_dict=True)
    expected = np.average(np.abs(model(X).numpy()[:, 0] - Y), weights=weight)
    assert found["mae"] == pytest.approx(expected, rel=1e-5)


def test_rates_of_counts():
    model = tfvn.Sequential([keras.Input((4,)), layers.Dense(1)])
    counts = np.arange(6.0)
    found = evaluated(model, counts, tfvn.losses.PoissonNLL())
    rate = np.exp(model(X).numpy()[:, 0])
    assert found["mae"] == pytest.approx(np.abs(rate - counts).mean(), rel=1e-5)


@pytest.mark.parametrize("form", ["list", "dictionary", "targets by name"])
def test_several_outputs(form):
    inputs = keras.Input((4,))
    size = tfvn.layers.NormalHead(1, name="size")(inputs)
    kind = layers.Dense(3, "softmax", name="kind")(inputs)
    labels = np.array([0, 1, 2, 0, 1, 2])
    outputs, y = [size, kind], [Y, labels]
    losses = [tfvn.losses.GaussianNLL(), "sparse_categorical_crossentropy"]
    metrics = [["mae"], ["accuracy"]]
    names = ("size", "kind")
    if form != "list":
        y, losses, metrics = (
            dict(zip(names, part, strict=True)) for part in (y, losses, metrics)
        )
    if form == "dictionary":
        outputs = dict(zip(names, outputs, strict=True))
    model = tfvn.Model(inputs, outputs)
    found = evaluated(model, y, losses, metrics=metrics)
    predicted = model(X)
    first, second = (
        predicted[key].numpy() for key in (names if form == "dictionary" else (0, 1))
    )
    error = np.abs(first[:, 0] - Y).mean()
    assert found["size_mae"] == pytest.approx(error, rel=1e-5)
    accuracy = np.mean(second.argmax(-1) == labels)
    assert found["kind_accuracy"] == pytest.approx(accuracy)


def test_in_a_graph_and_under_jit():
    for jit in (False, True):
        model = tfvn.Sequential([keras.Input((4,)), tfvn.layers.NormalHead(1)])
        found = evaluated(
            model,
            Y,
            tfvn.losses.GaussianNLL(),
            metrics=["mae"],
            run_eagerly=False,
            jit_compile=jit,
        )
        expected = np.abs(model(X).numpy()[:, 0] - Y).mean()
        assert found["mae"] == pytest.approx(expected, rel=1e-5)


def test_labels_of_no_known_shape_are_left_as_they_are():
    """The number of a class need not have the shape of its probabilities."""
    inputs = keras.Input((4,))
    digit = keras.layers.Dense(3, "softmax", name="digit")(inputs)
    size = tfvn.layers.NormalHead(1, name="size")(inputs)
    model = tfvn.Model(inputs, {"digit": digit, "size": size})
    nll = tfvn.losses.GaussianNLL()
    model.compile("sgd", {"digit": "sparse_categorical_crossentropy", "size": nll})
    spec = tf.TensorSpec((None, None))

    @tf.function(input_signature=[{"digit": spec, "size": spec}, tf.TensorSpec((6, 4))])
    def seen(y, x):
        return metric_inputs(model, y, model(x))[0]

    labels = np.arange(6.0)[:, None]
    found = seen({"digit": labels, "size": labels + 1.0}, np.zeros((6, 4)))
    np.testing.assert_array_equal(found["digit"], labels)
    np.testing.assert_array_equal(found["size"], labels + 1.0)
