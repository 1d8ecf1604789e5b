"""Whatever data `keras.Model.predict` takes, an ensemble takes, and answers alike."""

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
from as_keras import assert_as_keras, one_input, predict, quiet
from keras import layers
from models import FEATURES, X
from scipy import sparse

import tfvn

# Keras warns of names and of data without a length, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore:.*(structure of|ran out of data)")

Y = np.zeros(len(X))
OTHER = np.arange(2.0 * len(X), dtype="float32").reshape(-1, 2)


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


def test_rows_keep_their_noise_in_every_form():
    model = models.local()
    expected = tfvn.ensemble_predict(model, X, seed=2).mean
    for x in (Batches(X), sparse.csr_matrix(X)):
        received = tfvn.ensemble_predict(model, x, seed=2).mean
        np.testing.assert_allclose(received, expected, atol=1e-5)
