"""Weights that are held along a sequence: the kernel of each example, written out."""

import numpy as np
import pytest
import tensorflow as tf

from tfvn.estimators.sequence_weights import FlippedWeights, HeldWeights

EXAMPLES, ROWS, COLUMNS = 5, 4, 6
INPUTS = np.random.default_rng(0).normal(size=(EXAMPLES, ROWS)).astype("float32")


class Parts:
    """The parts of flipped weights, and the kernel that they make for each example."""

    def __init__(self, bias_shape=(COLUMNS,), zero_mean=False):
        rng = np.random.default_rng(1)
        shapes = {"kernel": (ROWS, COLUMNS), "bias": bias_shape}
        self.deltas = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        self.means = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        self.rows = rng.choice([-1.0, 1.0], (EXAMPLES, ROWS))
        self.columns = rng.choice([-1.0, 1.0], (EXAMPLES, COLUMNS))
        if zero_mean:
            self.means = {}

    def held(self, dtype="float32"):
        return FlippedWeights(
            {name: tf.constant(mean) for name, mean in self.means.items()},
            {name: tf.constant(delta) for name, delta in self.deltas.items()},
            {"kernel": tf.constant(self.rows, dtype)},
            tf.constant(self.columns, dtype),
            dtype,
        )

    def kernel(self, example):
        signs = np.outer(self.rows[example], self.columns[example])
        return self.means.get("kernel", 0.0) + self.deltas["kernel"] * signs

    def bias(self, example):
        return self.means.get("bias", 0.0) + self.deltas["bias"] * self.columns[example]


@pytest.mark.parametrize("zero_mean", [False, True])
class TestFlipped:
    @pytest.mark.parametrize("columns", [None, slice(0, 2), slice(4, 6)])
    def test_product(self, zero_mean, columns):
        parts = Parts(zero_mean=zero_mean)
        found = parts.held().product("kernel", tf.constant(INPUTS), columns)
        chosen = slice(None) if columns is None else columns
        expected = [x @ parts.kernel(i)[:, chosen] for i, x in enumerate(INPUTS)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    # A GRU has one bias for the inputs and one for the state.
    @pytest.mark.parametrize("shape", [(COLUMNS,), (2, COLUMNS)])
    def test_bias(self, zero_mean, shape):
        parts = Parts(shape, zero_mean)
        expected = np.stack([parts.bias(i) for i in range(EXAMPLES)], axis=-2)
        np.testing.assert_allclose(parts.held().bias(), expected, rtol=1e-5)

    def test_computes_in_the_type_of_the_steps(self, zero_mean):
        held = Parts(zero_mean=zero_mean).held("float16")
        assert held.product("kernel", tf.cast(INPUTS, "float16")).dtype == "float16"
        assert held.bias().dtype == "float16"

    def test_no_weight_is_shared_nor_known_to_the_kl(self, zero_mean):
        held = Parts(zero_mean=zero_mean).held()
        assert held.weight("kernel") is None
        assert held.drawn == {}


WEIGHTS = {"kernel": np.array([[1.0, 1 / 3]], "float32")}


class TestHeld:
    def test_steps_get_their_type_and_the_kl_all_digits(self):
        held = HeldWeights(WEIGHTS, "float16")
        assert held.weight("kernel").dtype == "float16"
        assert held.weight("bias") is None
        np.testing.assert_array_equal(held.drawn["kernel"], [[1.0, np.float32(1 / 3)]])

    def test_weights_that_were_not_drawn_are_no_sample(self):
        held = HeldWeights(WEIGHTS, "float32", are_drawn=False)
        assert held.drawn == {}
        np.testing.assert_array_equal(held.weight("kernel"), WEIGHTS["kernel"])
