"""The loss of `tfvn.Model`, computed by hand, and the number of examples in it."""

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from training_models import DATA, MODES, SIZE, kl_of, sequential, still

import tfvn
from tfvn.training import train_size


class TestLoss:
    """The loss is mean NLL + weight * KL / N + regularizers, computed by hand."""

    @pytest.mark.parametrize(
        ("weight", "mode"), [(0.0, "eager"), (0.5, "jit"), (3.0, "graph")]
    )
    def test_value(self, mode, weight):
        x, y = DATA
        model = still(
            tfvn.Sequential(
                [
                    keras.Input((4,)),
                    tfvn.MeanFieldDense(2, bias_regularizer=keras.regularizers.L2(0.1)),
                ]
            )
        )
        layer = model.layers[0]
        layer.bias.assign([1.0, 2.0])
        model.compile("sgd", "mse", kl_schedule=weight, train_size=500, **MODES[mode])
        nll = np.mean((model(x).numpy() - y) ** 2)
        expected = nll + weight * float(layer.kl_divergence()) / 500 + 0.1 * 5
        assert model.test_on_batch(x, y) == pytest.approx(expected, rel=1e-5)
        assert model.train_on_batch(x, y) == pytest.approx(expected, rel=1e-5)

    def test_factor_of_a_layer(self):
        x, y = DATA
        model = still(
            tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(2, kl_weight=0.1)])
        )
        model.compile("sgd", "mse", train_size=SIZE)
        logs = model.evaluate(x, y, verbose=0, return_dict=True)
        kl = float(model.layers[0].kl_divergence())
        assert logs["kl"] == pytest.approx(kl, rel=1e-5)
        assert logs["loss"] == pytest.approx(logs["nll"] + 0.1 * kl / SIZE, rel=1e-5)

    def test_shared_and_nested_layers_count_once(self):
        shared = tfvn.MeanFieldDense(4)
        inner = tfvn.Sequential([keras.Input((4,)), shared, tfvn.KTiedDense(4)])
        inputs = keras.Input((4,))
        outputs = keras.layers.Dense(2)(inner(shared(inputs)))
        model = still(tfvn.Model(inputs, outputs))
        model.compile("sgd", "mse", train_size=SIZE)
        logs = model.evaluate(*DATA, verbose=0, return_dict=True)
        assert logs["kl"] == pytest.approx(kl_of(model), rel=1e-5)

    def test_two_replicas_count_it_once(self, two_replicas):
        with two_replicas.scope():
            model = still(sequential())
            model.compile("sgd", "mse", train_size=SIZE)
        x, y = DATA
        found = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
        alone = still(sequential())
        alone.set_weights(model.get_weights())
        alone.compile("sgd", "mse", train_size=SIZE)
        expected = alone.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
        assert found == pytest.approx(expected, rel=1e-5)
        model.fit(x, y, batch_size=16, verbose=0)
        alone.fit(x, y, batch_size=16, verbose=0)

    def test_mixed_precision(self):
        # The other policy, bfloat16, has no scale of the loss.
        keras.config.set_dtype_policy("mixed_float16")
        model = sequential()
        model.compile({"mean": "adam", "scale": "adam"}, "mse")
        history = model.fit(*DATA, epochs=2, verbose=0).history
        assert np.all(np.isfinite(history["loss"]))
        assert "learning_rate_scale" in history


class Batches(keras.utils.PyDataset):
    def __init__(self, size):
        super().__init__()
        self.size = size

    @property
    def num_batches(self):
        return -(-SIZE // self.size)

    def __getitem__(self, index):
        start = self.size * index
        return tuple(part[start : start + self.size] for part in DATA)


class TestSize:
    def size(self, model, *args, **kwargs):
        model.compile("sgd", "mse", **kwargs.pop("compile", {}))
        model.fit(*args, verbose=0, **kwargs)
        return model._elbo.size

    def test_of_arrays(self):
        assert self.size(sequential(), *DATA) == SIZE

    def test_of_arrays_of_which_some_are_held_back(self):
        assert self.size(sequential(), *DATA, validation_split=0.25) == 36

    @pytest.mark.parametrize("repeats", [1, 2])
    def test_of_batches_that_are_mapped_to_other_rows(self, repeats):
        x, y = (part[:24].reshape(4, 6, -1) for part in DATA)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
        data = data.map(
            lambda x, y: (
                tf.reshape(x, (-1, x.shape[-1])),
                tf.reshape(y, (-1, y.shape[-1])),
            )
        )
        assert self.size(sequential(), data.repeat(repeats)) == 24

    def test_no_rows_on_one_side(self):
        with pytest.raises(ValueError, match=r"at least one example.*Received: none"):
            self.size(sequential(), *DATA, validation_split=0.99)

    def test_of_sparse_rows_of_which_some_are_held_back(self):
        x, y = DATA
        rows = tf.sparse.from_dense(x)
        model = tfvn.Sequential(
            [keras.Input((4,), sparse=True), tfvn.MeanFieldDense(2)]
        )
        assert self.size(model, rows, y, validation_split=0.25) == 36

    def test_of_a_data_set(self):
        batches = tf.data.Dataset.from_tensor_slices(DATA).batch(16)
        assert self.size(sequential(), batches) == SIZE
        fixed = tf.data.Dataset.from_tensor_slices(DATA).batch(16, drop_remainder=True)
        assert self.size(sequential(), fixed.prefetch(2)) == SIZE

    def test_of_steps(self):
        endless = tf.data.Dataset.from_tensors(DATA).flat_map(
            lambda *data: tf.data.Dataset.from_tensor_slices(data).repeat()
        )
        size = self.size(sequential(), endless.batch(16), steps_per_epoch=5)
        assert size == 80

    @pytest.mark.parametrize(
        "repeated",
        [
            lambda x: x.batch(16).repeat(3),
            lambda x: x.batch(20).repeat().prefetch(2),
            lambda x: x.repeat(3).shuffle(8).batch(20),
            lambda x: x.repeat().batch(20, drop_remainder=True).map(lambda *d: d),
            lambda x: x.repeat(2).batch(1).repeat(2),
            lambda x: x.take(SIZE).batch(16).repeat(2),
            lambda x: tf.data.Dataset.from_tensors(DATA).repeat(4),
            lambda x: tf.data.Dataset.zip(x, x).padded_batch(7).cache().repeat(4),
        ],
    )
    def test_of_a_repeated_data_set(self, repeated):
        """An example that comes again is no other example."""
        batches = repeated(tf.data.Dataset.from_tensor_slices(DATA))
        assert train_size.measure(batches, None, 2)[1:3] == (SIZE, 2)
        assert train_size.measure(batches).size in (SIZE, None)

    @pytest.mark.parametrize(
        "repeated",
        [
            lambda x: x.batch(16).repeat(3).take(2),
            lambda x: x.repeat(3).skip(1).batch(16),
            lambda x: tf.data.Dataset.zip(x.repeat(2), x.repeat(2)).batch(16),
            lambda x: x.repeat(2).concatenate(x).batch(16),
            lambda x: x.batch(4).repeat(2).unbatch().batch(4),
            lambda x: x.batch(4).repeat(2).batch(4),
        ],
    )
    def test_of_a_repeated_data_set_that_hides_it(self, repeated):
        batches = repeated(tf.data.Dataset.from_tensor_slices(DATA[0]))
        assert train_size.measure(batches, None, 2).size is None

    def test_of_a_data_set_that_is_not_read(self):
        """Whoever begins to read a seeded shuffle changes the order of the next epoch."""
        read = []

        def note(x):
            read.append(x)
            return x

        examples = tf.data.Dataset.from_tensor_slices(DATA[0])
        noted = examples.map(lambda x: tf.numpy_function(note, [x], tf.float32))
        assert train_size.measure(noted.batch(16).prefetch(1)).size == SIZE
        assert not read

    def test_of_many_batches_of_which_the_last_is_small(self):
        batches = tf.data.Dataset.from_tensor_slices(np.zeros((101, 2))).batch(2)
        assert train_size.measure(batches).size == 101

    def test_of_what_is_zipped_with_something_repeated(self):
        """As `keras.utils.timeseries_dataset_from_array` does within."""
        series = keras.utils.timeseries_dataset_from_array(
            np.zeros((50, 2)), np.zeros(50), sequence_length=3, batch_size=16
        )
        assert train_size.measure(series).size == 48
        assert train_size.measure(series.repeat(), None, 9).size == 48

    def test_of_a_repeated_data_set_in_fit(self):
        batches = tf.data.Dataset.from_tensor_slices(DATA).batch(16)
        assert self.size(sequential(), batches.repeat(3), steps_per_epoch=3) == SIZE
        with pytest.raises(ValueError, match="train_size"):
            self.size(sequential(), batches.repeat(3).take(2))

    def test_of_a_generator_with_steps(self):
        x, y = DATA
        batches = ((x[:8], y[:8]) for _ in range(100))
        assert self.size(sequential(), batches, steps_per_epoch=5) == 40

    def test_of_a_py_dataset(self):
        assert self.size(sequential(), Batches(16)) == SIZE

    def test_of_a_py_dataset_whose_last_batch_is_small(self):
        assert self.size(sequential(), Batches(20)) == SIZE

    def test_of_a_py_dataset_of_many_batches_of_which_the_last_is_small(self):
        class Many(keras.utils.PyDataset):
            num_batches = 20

            def __getitem__(self, index):
                return np.zeros((1 if index == 19 else 5, 2))

        assert train_size.measure(Many()).size == 96

    def test_of_a_py_dataset_of_unequal_batches(self):
        class Unequal(Batches):
            bounds = (0, 4, 30, SIZE)
            num_batches = 3

            def __getitem__(self, index):
                start, stop = self.bounds[index : index + 2]
                return tuple(part[start:stop] for part in DATA)

        assert self.size(sequential(), Unequal(0)) == SIZE

    def test_of_known_length_with_steps(self):
        """An epoch of some batches is not all the data."""
        batches = tf.data.Dataset.from_tensor_slices(DATA).batch(4)
        assert self.size(sequential(), batches, steps_per_epoch=2) == SIZE
        assert self.size(sequential(), Batches(4), steps_per_epoch=2) == SIZE

    def test_of_a_data_set_whose_last_batch_is_small(self):
        batches = tf.data.Dataset.from_tensor_slices(DATA).batch(40)
        assert self.size(sequential(), batches) == SIZE

    def test_of_a_py_dataset_without_end(self):
        class Endless(Batches):
            num_batches = None

            def __getitem__(self, index):
                return super().__getitem__(index % 3)

        size = self.size(
            sequential(), Endless(16), steps_per_epoch=3, compile={"train_size": 900}
        )
        assert size == 900
        assert self.size(sequential(), Endless(16), steps_per_epoch=3) == SIZE

    def test_of_sparse_data(self):
        x, y = DATA
        for sparse in (scipy.sparse.csr_matrix(x), tf.sparse.from_dense(x)):
            inputs = keras.Input((4,), sparse=True)
            model = tfvn.Model(inputs, tfvn.MeanFieldDense(2)(inputs))
            assert self.size(model, sparse, y) == SIZE

    def test_of_strings(self):
        lookup = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")
        model = tfvn.Sequential(
            [keras.Input((), dtype="string"), lookup, tfvn.MeanFieldDense(2)]
        )
        x = tf.constant(["a", "b"] * (SIZE // 2))
        assert self.size(model, x, DATA[1]) == SIZE

    def test_given(self):
        size = self.size(sequential(), *DATA, compile={"train_size": 1_000})
        assert size == 1_000

    def test_unknown(self):
        batches = tf.data.Dataset.from_tensor_slices(DATA).repeat().batch(16)
        model = sequential()
        model.compile("sgd", "mse")
        with pytest.raises(
            ValueError, match=r"`compile\(train_size=\.\.\.\)`.*Received"
        ):
            model.fit(batches, verbose=0)
        with pytest.raises(ValueError, match=r"not known here.*train_size"):
            model.evaluate(*DATA, verbose=0)

    @pytest.mark.filterwarnings("ignore:Your input ran out of data")
    def test_unknown_where_no_kl_is_added(self):
        batches = ((DATA[0][:8], DATA[1][:8]) for _ in range(3))
        model = tfvn.Sequential([keras.Input((4,)), tfvn.VarianceDense(2)])
        model.compile("sgd", "mse")
        model.fit(batches, verbose=0)
