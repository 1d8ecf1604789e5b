"""The curve of accuracy against the share of pruned weights."""

import keras
import numpy as np
import pytest

import tfvn
from tfvn.analysis import PruningCurve

FRACTIONS = [0.0, 0.9, 0.5]


def digits():
    """A small trained classifier, and data to test it."""
    (x, y), test = tfvn.datasets.load("digits")
    layers = [
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        tfvn.VarianceDense(64, name="variance"),
        keras.layers.BatchNormalization(),
        keras.layers.Activation("relu"),
        keras.layers.Dense(10),
    ]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    model.fit(x, y, batch_size=64, epochs=15, verbose=0)
    return model, *test


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    return digits()


def test_is_what_pruned_models_predict(trained):
    model, x, y = trained
    curve = tfvn.pruning_curve(model, x, y, FRACTIONS, num_samples=5, seed=3)
    np.testing.assert_array_equal(curve.fractions, FRACTIONS)
    assert curve.num_samples == 5
    for i, fraction in enumerate(FRACTIONS):
        pruned = tfvn.prune(model, fraction)
        mean = tfvn.ensemble_predict(pruned, x, num_samples=5, seed=3).mean
        likelihood = mean[np.arange(len(y)), y]
        assert curve.accuracy[i] == pytest.approx(np.mean(mean.argmax(1) == y))
        assert curve.nll[i] == pytest.approx(-np.mean(np.log(likelihood)), rel=1e-4)
    assert tfvn.sparsity(model).total == 0.0
    # Half of the variances carry next to nothing.
    assert curve.accuracy[0] > 0.9
    assert curve.accuracy[2] > curve.accuracy[0] - 0.05


def test_one_hot_labels_and_fresh_seeds(trained):
    model, x, y = trained
    x, y = x[:50], y[:50]
    options = {"fractions": [0.0], "num_samples": 2}
    keras.utils.set_random_seed(1)
    one = tfvn.pruning_curve(model, x, y, **options)
    keras.utils.set_random_seed(1)
    hot = tfvn.pruning_curve(model, x, keras.utils.to_categorical(y, 10), **options)
    np.testing.assert_array_equal(one.nll, hot.nll)
    assert tfvn.pruning_curve(model, x, y, **options).nll != one.nll


def test_refusals(trained):
    model, x, y = trained
    for fractions in ([], [0.5, 1.0], [-0.1]):
        with pytest.raises(ValueError, match=r"`fractions` must.*Received: fractions="):
            tfvn.pruning_curve(model, x, y, fractions)
    pruned = tfvn.prune(model, 0.5)
    with pytest.raises(ValueError, match=r"stay pruned.*Received: fractions="):
        tfvn.pruning_curve(pruned, x, y, [0.0, 0.9])
    assert tfvn.pruning_curve(pruned, x[:9], y[:9], [0.5], 2).accuracy.shape == (1,)
    with pytest.raises(ValueError, match=r"a classifier with one output.*Received:"):
        tfvn.pruning_curve(model, x[:9], y[:9], [0.5], 2, outputs="regression")


class TestLargestFraction:
    def curve(self, accuracy, fractions=(0.0, 0.5, 0.9, 0.99)):
        arrays = (np.asarray(values) for values in (fractions, accuracy, accuracy))
        return PruningCurve(*arrays, num_samples=20)

    @pytest.mark.parametrize(
        ("accuracy", "expected"),
        [
            ([0.99, 0.99, 0.988, 0.5], 0.9),
            ([0.99, 0.991, 0.992, 0.993], 0.99),
            ([0.99, 0.98, 0.99, 0.99], 0.0),  # it has to hold all the way
        ],
    )
    def test_is_the_last_before_the_accuracy_falls(self, accuracy, expected):
        assert self.curve(accuracy).largest_fraction() == expected

    def test_sorts_the_shares(self):
        curve = self.curve([0.988, 0.99, 0.5, 0.99], (0.9, 0.0, 0.99, 0.5))
        assert curve.largest_fraction(0.002) == 0.9

    def test_prints_a_table(self):
        lines = repr(self.curve([0.99, 0.98, 0.97, 0.5])).splitlines()
        assert lines[0].split() == ["pruned", "accuracy", "NLL"]
        assert lines[3].split() == ["90.00%", "97.00%", "0.9700"]


def test_inputs_that_are_nan_are_named():
    model = keras.Sequential([keras.Input((4,)), tfvn.VarianceDense(3, "softmax")])
    x = np.ones((5, 4))
    x[[1, 3], 2] = np.nan
    words = "NaN and infinite values in `x`.* Received: x with 2 rows"
    with pytest.raises(ValueError, match=words):
        tfvn.pruning_curve(model, x, np.zeros(5), [0.5], num_samples=2)


@pytest.mark.parametrize("y", [None, np.zeros(0)])
def test_no_labels(y):
    model = keras.Sequential([keras.Input((4,)), tfvn.VarianceDense(3, "softmax")])
    with pytest.raises(ValueError, match="Argument `y` must have a label"):
        tfvn.pruning_curve(model, np.ones((0, 4)), y)
