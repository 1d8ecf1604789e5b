"""Whatever a model takes and returns, an ensemble of it takes, and answers as Keras does."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from as_keras import assert_as_keras, one_input, predict, quiet
from keras import layers
from models import FEATURES, X
from scipy import sparse

import tfvn

# Keras warns of names, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore:.*structure of")


class OfDictionaries(keras.Model):
    """A model that is no graph, with dictionaries for inputs and outputs."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.noise = layers.Dense(3), layers.Dense(2), quiet()

    def call(self, inputs, training=None):
        hidden = self.noise(self.first(inputs["a"]), training=training)
        return {"z": self.last(hidden), "y": [inputs["b"][:, None] * 2.0, (hidden,)]}


def several_outputs(wrap):
    inputs = keras.Input((FEATURES,))
    hidden = quiet()(layers.Dense(3)(inputs))
    outputs = wrap(layers.Dense(2)(hidden), layers.Dense(1)(inputs))
    return keras.Model(inputs, outputs)


def optional_input():
    class AddIfThere(keras.Layer):
        def call(self, x, y=None):
            return x if y is None else x + y

        def compute_output_shape(self, shape):
            return shape

    first = keras.Input((FEATURES,), name="first")
    second = keras.Input((FEATURES,), name="second", optional=True)
    hidden = AddIfThere()(first, second)
    return keras.Model([first, second], layers.Dense(2)(quiet()(hidden)))


def texts():
    words = layers.TextVectorization(output_sequence_length=3)
    words.adapt(["a b c", "b c d", "e"])
    return keras.Sequential(
        [
            keras.Input((), dtype="string"),
            words,
            layers.Embedding(10, 4, mask_zero=True),
            quiet(),
            layers.LSTM(3),
        ]
    )


def categories():
    lookup = layers.StringLookup(vocabulary=["x", "y"], output_mode="one_hot")
    inputs = keras.Input((1,), dtype="string")
    return keras.Model(inputs, quiet()(layers.Dense(2)(lookup(inputs))))


def nested_of_other_rank():
    """A model that is called with one axis less, and one that is with one more."""
    noisy = keras.Sequential([keras.Input((FEATURES, 1)), quiet(), layers.Flatten()])
    flat = keras.Sequential([keras.Input((FEATURES,)), quiet(), layers.Dense(2)])
    inputs = keras.Input((FEATURES,))
    hidden = layers.Reshape((FEATURES, 1))(noisy(inputs))
    return keras.Model(inputs, flat(hidden))


def nested_of_whole_numbers():
    inner = keras.Sequential(
        [keras.Input((2,), dtype="int32"), layers.Embedding(9, 2), quiet()]
    )
    inputs = keras.Input((2,))
    return keras.Model(inputs, layers.Flatten()(inner(quiet()(inputs) + 0.5)))


def sparse_input():
    inputs = keras.Input((FEATURES,), sparse=True)
    return keras.Model(inputs, layers.Dense(2)(quiet()(layers.Dense(3)(inputs))))


class OfSparse(keras.Model):
    """A model that is no graph and takes nothing but sparse tensors."""

    def __init__(self):
        super().__init__()
        self.noise = quiet()
        self.kernel = self.add_weight(shape=(FEATURES, 2))

    def call(self, inputs, training=None):
        product = tf.sparse.sparse_dense_matmul(inputs, self.kernel.value)
        return self.noise(product, training=training)


class OfRagged(keras.Model):
    """A model that is no graph and takes ragged tensors."""

    def __init__(self):
        super().__init__()
        self.noise, self.last = quiet(), layers.Dense(2)

    def call(self, inputs, training=None):
        means = tf.reduce_sum(inputs, axis=1) / tf.cast(
            inputs.row_lengths()[:, None], "float32"
        )
        return self.last(self.noise(means, training=training))


def ragged():
    return tf.RaggedTensor.from_row_lengths(
        tf.random.stateless_normal((10, 3), (1, 2)), [1, 4, 2, 3]
    )


def series():
    return pytest.importorskip("pandas").Series(["x", "y", "z"])


CASES = {
    "dictionaries": (OfDictionaries, lambda: {"a": X, "b": X[:, 0]}),
    "list of outputs": (lambda: several_outputs(lambda a, b: [a, b]), lambda: X),
    "one output in a list": (lambda: several_outputs(lambda a, b: [a]), lambda: X),
    "dict of outputs": (
        lambda: several_outputs(lambda a, b: {"z": a, "a": b}),
        lambda: X,
    ),
    "nested outputs": (
        lambda: several_outputs(lambda a, b: {"z": a, "a": [b, (a, b)]}),
        lambda: X,
    ),
    "optional, given": (optional_input, lambda: [X, 2.0 * X]),
    "optional, left out": (optional_input, lambda: [X, None]),
    "texts": (texts, lambda: tf.constant(["a b", "e f g", "c"])),
    "categories": (categories, lambda: tf.constant([["x"], ["y"], ["z"]])),
    "series": (categories, series),
    "nested of other rank": (nested_of_other_rank, lambda: X),
    "nested of whole numbers": (
        nested_of_whole_numbers,
        lambda: np.array([[1.0, 2.0], [3.0, 0.0]]),
    ),
    "sparse input": (sparse_input, lambda: sparse.csr_matrix(X * (X > 0))),
    "sparse model": (OfSparse, lambda: tf.sparse.from_dense(X * (X > 0))),
    "sparse model of scipy": (OfSparse, lambda: sparse.csr_matrix(X * (X > 0))),
    "ragged model": (OfRagged, ragged),
    "ragged dataset": (
        OfRagged,
        lambda: tf.data.Dataset.from_tensor_slices(ragged()).batch(3),
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", CASES)
def test_models(case):
    make, x = CASES[case]
    assert_as_keras(make(), x)


def scipy_with_duplicates(columns, values):
    """Rows whose entries are not in order, and of which one occurs twice."""
    ends = np.arange(len(values) + 1) * len(columns)
    entries = (values.ravel(), np.tile(columns, len(values)), ends)
    return sparse.csr_matrix(entries, (len(values), FEATURES))


def tensor_out_of_order(columns, values):
    dense = scipy_with_duplicates(columns, values).toarray()
    indices = np.argwhere(dense)[::-1]
    return tf.SparseTensor(indices, dense[tuple(indices.T)], dense.shape)


@pytest.mark.parametrize("make", [scipy_with_duplicates, tensor_out_of_order])
def test_sparse_rows_in_several_batches(make):
    columns = [2, 0, 2]
    values = np.random.default_rng(4).normal(size=(50, 3)).astype("float32")
    model, x = OfSparse(), make(columns, values)
    received = predict(model, lambda: x, batch_size=8)
    dense = np.zeros((50, FEATURES), "float32")
    np.add.at(dense, (slice(None), columns), values)
    np.testing.assert_allclose(received, dense @ model.kernel.numpy(), atol=1e-5)


def test_a_scipy_matrix_stays_as_it_is():
    x = scipy_with_duplicates([2, 0, 2], np.ones((4, 3), "float32"))
    before = x.copy()
    tfvn.mean_predict(one_input(), x)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(x, name), getattr(before, name))


def test_arrays_of_strings():
    """Which Keras takes as tensors only."""
    model = categories()
    array = np.array([["x"], ["z"], ["y"]])
    expected = model.predict(tf.constant(array), verbose=0)
    for x in (array, array.astype(object)):
        np.testing.assert_allclose(predict(model, lambda x=x: x), expected, atol=1e-5)
