"""Whatever `keras.Model.predict` takes, an ensemble takes, and answers alike."""

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from models import FEATURES, X
from scipy import sparse

import tfvn

# Keras warns of names and of data without a length, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore:.*(structure of|ran out of data)")

Y = np.zeros(len(X))
OTHER = np.arange(2.0 * len(X), dtype="float32").reshape(-1, 2)


def quiet():
    """A layer that draws noise which nobody sees."""
    return layers.GaussianNoise(1e-9)


def one_input():
    return keras.Sequential(
        [keras.Input((FEATURES,)), layers.Dense(3, "tanh"), quiet(), layers.Dense(2)]
    )


def two_inputs(struct=list):
    first = keras.Input((FEATURES,), name="wide")
    second = keras.Input((2,), name="deep")
    hidden = layers.concatenate([layers.Dense(3)(first), layers.Dense(2)(second)])
    outputs = layers.Dense(2)(quiet()(hidden))
    inputs = {"wide": first, "deep": second} if struct is dict else [first, second]
    return keras.Model(inputs, outputs)


class Batches(keras.utils.PyDataset):
    """Some batches, in a form that `wrap` gives them."""

    def __init__(self, *arrays, wrap=lambda *arrays: arrays, **kwargs):
        super().__init__(**kwargs)
        self.arrays, self.wrap, self.ended = arrays, wrap, 0

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return self.wrap(*(array[2 * index : 2 * index + 2] for array in self.arrays))

    def on_epoch_end(self):
        self.ended += 1


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, index):
        return (X[index % 3 * 2 : index % 3 * 2 + 2],)


def by_batches(batches):
    yield from batches


def of_unknown_length():
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(4)
    return dataset.filter(lambda batch: True)


def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X.astype("float64"), columns=list("abcd"))


def predict(model, x, **kwargs):
    """Predictions by an ensemble and by the mean weights, which must be the same."""
    answer = tfvn.ensemble_predict(model, x(), 2, outputs="regression", **kwargs)
    ensemble = keras.tree.map_structure(lambda part: part.mean, answer)
    mean = tfvn.mean_predict(model, x(), **kwargs)
    keras.tree.assert_same_structure(ensemble, mean)
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), ensemble, mean
    )
    return mean


def assert_as_keras(model, x, **kwargs):
    expected = model.predict(x(), verbose=0, **kwargs)
    received = predict(model, x, **kwargs)
    keras.tree.assert_same_structure(received, expected)
    keras.tree.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), received, expected
    )


FORMS = {
    "lists of numbers as an array": lambda: np.asarray(X.tolist()),
    "tensor": lambda: tf.constant(X),
    "half precision": lambda: X.astype("float16"),
    "integers": lambda: X.astype("int64"),
    "bytes": lambda: np.abs(X).astype("uint8"),
    "truth values": lambda: X > 0,
    "frame": frame,
    "scipy": lambda: sparse.csr_matrix(X * (X > 0)),
    "sparse tensor": lambda: tf.sparse.from_dense(X * (X > 0)),
    "dataset": lambda: tf.data.Dataset.from_tensor_slices(X).batch(4),
    "dataset with labels": lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(4),
    "sparse dataset": lambda: tf.data.Dataset.from_tensor_slices(
        tf.sparse.from_dense(X)
    ).batch(4),
    "unknown length": of_unknown_length,
    "generator": lambda: by_batches([(X[:4],), (X[4:],)]),
    "PyDataset": lambda: Batches(X),
    "PyDataset with labels": lambda: Batches(X, Y),
    "PyDataset of lists": lambda: Batches(X, Y, wrap=lambda *arrays: list(arrays)),
    "PyDataset of arrays": lambda: Batches(X, wrap=lambda array: array),
    "PyDataset with workers": lambda: Batches(X, workers=2),
    "PyDataset with processes": lambda: Batches(X, Y, workers=1, max_queue_size=1),
}


class TestOneInput:
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls):
        return one_input()

    @pytest.mark.parametrize("form", FORMS)
    def test_forms(self, model, form):
        assert_as_keras(model, FORMS[form])

    def test_by_name(self, model):
        name = model.inputs[0].name
        assert_as_keras(model, lambda: {name: X})

    def test_lists_that_keras_refuses_in_generators_and_other_iterables(self, model):
        expected = model.predict(X, verbose=0)

        class Loader:
            def __iter__(self):
                return iter([[X[:4], Y[:4]], [X[4:], Y[4:]]])

        for source in (lambda: by_batches([[X, Y]]), Loader):
            np.testing.assert_allclose(predict(model, source), expected, atol=1e-5)

    def test_data_without_end(self, model):
        endless = [Endless, lambda: tf.data.Dataset.from_tensors(X).repeat()]
        for source in endless:
            assert_as_keras(model, source, steps=2)
            with pytest.raises(ValueError, match="never ends; pass `steps`") as error:
                tfvn.ensemble_predict(model, source())
            assert "Received: " in str(error.value)
        for steps in (0, 1.5):
            with pytest.raises(
                ValueError, match="`steps` must be `None` or an integer"
            ):
                tfvn.mean_predict(model, Endless(), steps=steps)

    @pytest.mark.parametrize(("batch_size", "steps"), [(2, 2), (None, 1), (4, 9)])
    def test_steps_of_arrays_are_their_first_rows(self, model, batch_size, steps):
        assert_as_keras(model, lambda: X, batch_size=batch_size, steps=steps)

    def test_a_data_set_is_told_when_it_ends(self, model):
        batches = Batches(X)
        tfvn.mean_predict(model, batches)
        assert batches.ended == 1

    def test_eager_functions(self, model):
        expected = model.predict(X, verbose=0)
        tf.config.run_functions_eagerly(run_eagerly=True)
        try:
            fresh = one_input()
            fresh.set_weights(model.get_weights())
            received = predict(fresh, lambda: X)
        finally:
            tf.config.run_functions_eagerly(run_eagerly=False)
        np.testing.assert_allclose(received, expected, atol=1e-5)


class TestTwoInputs:
    @pytest.fixture(scope="class", params=[list, dict])
    @classmethod
    def model(cls, request):
        return two_inputs(request.param)

    @pytest.mark.parametrize(
        "form",
        [
            lambda: {"wide": X, "deep": OTHER},
            lambda: {"deep": OTHER, "wide": X},
            lambda: {"deep": OTHER, "wide": frame()},
            lambda: tf.data.Dataset.from_tensor_slices(
                ({"deep": OTHER, "wide": X}, Y)
            ).batch(4),
            lambda: Batches(X, OTHER, wrap=lambda a, b: {"wide": a, "deep": b}),
            lambda: Batches(
                X, OTHER, Y, wrap=lambda a, b, y: ({"wide": a, "deep": b}, y)
            ),
        ],
        ids=["dict", "other order", "frame", "dataset", "PyDataset", "with labels"],
    )
    def test_by_name(self, model, form):
        assert_as_keras(model, form)

    @pytest.mark.parametrize(
        "form",
        [
            lambda: [X, OTHER],
            lambda: (X, OTHER),
            lambda: tf.data.Dataset.from_tensor_slices(((X, OTHER), Y)).batch(4),
            lambda: Batches(X, OTHER, Y, wrap=lambda a, b, y: ((a, b), y)),
        ],
        ids=["list", "tuple", "dataset", "PyDataset"],
    )
    def test_in_order(self, form):
        assert_as_keras(two_inputs(), form)

    def test_more_names_than_inputs(self, model):
        expected = model.predict({"wide": X, "deep": OTHER}, verbose=0)
        given = {"another": OTHER, "wide": X, "deep": OTHER}
        np.testing.assert_allclose(predict(model, lambda: given), expected, atol=1e-5)

    def test_missing_names(self, model):
        with pytest.raises(ValueError, match="a key for each input of the model") as e:
            tfvn.mean_predict(model, {"wide": X})
        assert "Received: x with keys ['wide']" in str(e.value)


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


class TestLengthsThatDiffer:
    """Batches of sequences of several lengths, from a generator."""

    shapes = ((3, 5, 2), (2, 5, 2), (4, 7, 2), (0, 9, 2), (1, 5, 2), (40, 5, 2))
    batches = tuple(map(np.random.default_rng(3).normal, [0] * 6, [1] * 6, shapes))

    def model(self, *noise, **kwargs):
        recurrent = layers.SimpleRNN(3, **kwargs)
        return keras.Sequential(
            [keras.Input((None, 2)), recurrent, *noise, layers.Dense(2)]
        )

    def test_as_keras(self):
        model = self.model(quiet())
        expected = np.concatenate([model(batch) for batch in self.batches])
        answer = tfvn.ensemble_predict(
            model, iter(self.batches), 2, outputs="regression"
        )
        np.testing.assert_allclose(answer.mean, expected, atol=1e-5)
        mean = tfvn.mean_predict(model, iter(self.batches))
        np.testing.assert_allclose(mean, expected, atol=1e-5)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_noise_of_rows_differs(self, estimator):
        model = self.model(tfvn.MeanFieldDense(4, estimator=estimator))
        same = [np.ones((3, 5, 2), "float32"), np.ones((3, 6, 2), "float32")] * 2
        answer = tfvn.ensemble_predict(
            model, iter(same), 4, seed=1, outputs="regression"
        )
        if estimator == "local":
            assert len(np.unique(answer.std[:, 0])) == 12
        again = tfvn.ensemble_predict(
            model, iter(same[:2]), 4, seed=1, outputs="regression"
        )
        np.testing.assert_allclose(answer.mean[:6], again.mean, atol=1e-6)

    def test_outputs_that_do_not_fit(self):
        model = self.model(quiet(), return_sequences=True)
        with pytest.raises(
            ValueError, match=r"same shape.*axis 1.*\(5, 2\) and \(7, 2\)"
        ):
            tfvn.mean_predict(model, iter(self.batches))


def test_arrays_of_strings():
    """Which Keras takes as tensors only."""
    model = categories()
    array = np.array([["x"], ["z"], ["y"]])
    expected = model.predict(tf.constant(array), verbose=0)
    for x in (array, array.astype(object)):
        np.testing.assert_allclose(predict(model, lambda x=x: x), expected, atol=1e-5)


def test_rows_keep_their_noise_in_every_form():
    model = models.local()
    expected = tfvn.ensemble_predict(model, X, seed=2).mean
    for x in (Batches(X), sparse.csr_matrix(X)):
        received = tfvn.ensemble_predict(model, x, seed=2).mean
        np.testing.assert_allclose(received, expected, atol=1e-5)
