"""Training on several replicas gives what one device gives; what can't work is refused."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.training import replicas
from tfvn.training.data_order import DataOrder

FAMILIES = ("MeanField", "Variance", "GaussianDropout", "KTied")

# The last of 9 batches of 4 is a single example, so that a replica has none.
SIZE = 33


@pytest.fixture
def still(monkeypatch):
    """Makes the noise of an output depend on its column alone."""

    def constant(shape, seed, dtype="float32"):
        waves = tf.sin(1.0 + tf.range(tf.shape(tf.zeros(shape))[-1], dtype=tf.float32))
        return tf.cast(tf.broadcast_to(waves, shape), dtype)

    monkeypatch.setattr(tfvn.random, "normal", constant)


def data(size=SIZE):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size, 3)).astype("float32")
    return x, np.sin(x[:, :2])


def compiled(family="MeanField", loss="mse", **options):
    keras.utils.set_random_seed(1)
    layer = getattr(tfvn, f"{family}Dense")
    model = tfvn.Sequential([keras.Input((3,)), layer(4, activation="tanh"), layer(2)])
    rates = {"mean": 0.05, "scale": 0.02, "default": 0.05}
    optimizer = {group: keras.optimizers.SGD(rate) for group, rate in rates.items()}
    model.compile(optimizer, loss, metrics=["mae"], **{"jit_compile": False, **options})
    return model


def trained(model, size=SIZE, batch_size=4):
    """Returns history and weights after a training without shuffling."""
    x, y = data(size)
    history = model.fit(
        x,
        y,
        batch_size=batch_size,
        epochs=2,
        shuffle=False,
        validation_data=data(7),
        verbose=0,
    ).history
    return history, model.get_weights()


def assert_equal(one, two):
    assert one[0].keys() == two[0].keys()
    for name, values in one[0].items():
        np.testing.assert_allclose(two[0][name], values, atol=1e-5, err_msg=name)
    for weight, other in zip(one[1], two[1], strict=True):
        np.testing.assert_allclose(other, weight, atol=1e-5)


class TestEqualOneDevice:
    @pytest.mark.one_in(8)
    @pytest.mark.parametrize("batch_size", [4, 5])
    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.usefixtures("still")
    def test_history_and_weights(self, family, batch_size, two_replicas):
        one = trained(compiled(family), batch_size=batch_size)
        with two_replicas.scope():
            model = compiled(family, jit_compile="auto")
        assert_equal(one, trained(model, batch_size=batch_size))

    @pytest.mark.exhaustive
    @pytest.mark.usefixtures("still")
    def test_not_if_replicas_count_alike(self, two_replicas, monkeypatch):
        one = trained(compiled())

        def as_in_keras(rows):
            return None

        monkeypatch.setattr("tfvn.training.bound_loss.part_of_batch", as_in_keras)
        with two_replicas.scope():
            two = trained(compiled())
        with pytest.raises(AssertionError):
            assert_equal(one, two)

    @pytest.mark.exhaustive
    @pytest.mark.usefixtures("still")
    @pytest.mark.filterwarnings("ignore:A loss that is summed over a batch")
    def test_of_sums(self, two_replicas):
        loss = keras.losses.MeanSquaredError(reduction="sum")
        one = trained(compiled(loss=loss))
        with two_replicas.scope():
            model = compiled(loss=loss)
        # A sum over a batch grows with it, so rounding does too.
        assert_equal(one, trained(model))

    @pytest.mark.exhaustive
    @pytest.mark.usefixtures("still")
    def test_of_several_draws(self, two_replicas):
        options = {"num_samples": 2, "sample_reduction": "log_mean_exp"}
        one = trained(compiled(**options))
        with two_replicas.scope():
            model = compiled(**options)
        assert_equal(one, trained(model))

    @pytest.mark.usefixtures("still")
    def test_of_masks(self, two_replicas):
        # Each replica has another number of entries that are not masked.
        x = np.array([[1, 2, 2], [1, 0, 0], [2, 1, 0], [0, 0, 0], [1, 1, 1]])
        y = np.sin(np.arange(30.0)).reshape(5, 3, 2)

        def fitted():
            keras.utils.set_random_seed(1)
            embedding = keras.layers.Embedding(3, 3, mask_zero=True)
            layers = [keras.Input((3,)), embedding, tfvn.MeanFieldDense(2)]
            model = tfvn.Sequential(layers)
            model.compile("sgd", "mse", metrics=["mae"], jit_compile=False)
            history = model.fit(x, y, shuffle=False, verbose=0).history
            return history, model.get_weights()

        one = fitted()
        with two_replicas.scope():
            two = fitted()
        assert_equal(one, two)

    @pytest.mark.usefixtures("still")
    @pytest.mark.filterwarnings("ignore:A loss that is summed over a batch")
    def test_of_several_outputs(self, two_replicas):
        """One loss is summed, and one is divided by the sum of the sample weights."""
        x, y = data(5)
        weights = np.array([0.1, 2.0, 1.0, 3.0, 0.5])

        def fitted():
            keras.utils.set_random_seed(1)
            inputs = keras.Input((3,))
            outputs = {name: tfvn.MeanFieldDense(2, name=name)(inputs) for name in "ab"}
            model = tfvn.Model(inputs, outputs)
            reductions = {"a": "mean_with_sample_weight", "b": "sum"}
            losses = {
                name: keras.losses.MeanSquaredError(reduction=reduction)
                for name, reduction in reductions.items()
            }
            model.compile("sgd", losses, loss_weights={"a": 1.0, "b": 0.1})
            history = model.fit(
                x,
                {"a": y, "b": -y},
                sample_weight={"a": weights, "b": weights},
                batch_size=3,
                shuffle=False,
                verbose=0,
            ).history
            assert {"a_loss", "b_loss"} <= history.keys()
            return history, model.get_weights()

        one = fitted()
        with two_replicas.scope():
            two = fitted()
        assert_equal(one, two)

    @pytest.mark.usefixtures("still")
    def test_of_synchronized_normalization(self, two_replicas):
        """Replicas take turns within the pass, and the last batch leaves one without rows."""

        def fitted():
            keras.utils.set_random_seed(1)
            shared = tfvn.MeanFieldDense(3)
            norm = keras.layers.BatchNormalization(synchronized=True)
            layers = [keras.Input((3,)), shared, norm, shared, tfvn.MeanFieldDense(2)]
            model = tfvn.Sequential(layers)
            model.compile("sgd", "mse", jit_compile=False)
            x, y = data(5)
            fit = model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
            return fit.history, model.get_weights()

        one = fitted()
        with two_replicas.scope():
            two = fitted()
        assert_equal(one, two)

    @pytest.mark.usefixtures("still")
    def test_of_a_layer_that_averages(self, two_replicas):
        """In the last batch, one replica averages over no rows."""

        class Averages(keras.layers.Layer):
            def call(self, inputs):
                self.add_loss(0.1 * tf.reduce_mean(tf.square(inputs)))
                return inputs

        def averaging():
            keras.utils.set_random_seed(1)
            regular = keras.layers.Dense(2, kernel_regularizer="l2")
            layers = [keras.Input((3,)), tfvn.MeanFieldDense(3), Averages(), regular]
            model = tfvn.Sequential(layers)
            model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False)
            return model

        with two_replicas.scope():
            model = averaging()
        x, y = data(1)
        history = model.fit(x, y, verbose=0).history
        regularizer = 0.01 * np.square(model.layers[-1].kernel.numpy()).sum()
        added = history["loss"][0] + history["elbo"][0] - regularizer
        hidden = model.layers[0](x)
        np.testing.assert_allclose(
            added, 0.05 * np.square(hidden).mean(), rtol=1e-4, atol=1e-6
        )

    @pytest.mark.parametrize("reduction", [None, "none"])
    def test_refuses_a_loss_that_is_not_reduced(self, reduction, two_replicas):
        with two_replicas.scope():
            model = compiled(loss=keras.losses.MeanSquaredError(reduction=reduction))
        with pytest.raises(
            ValueError, match=r"to one number.*'mean_squared_error' with reduction="
        ):
            model.fit(*data(4), verbose=0)

    def test_refuses_a_loss_with_a_call_of_its_own(self, two_replicas):
        class Doubled(keras.losses.MeanSquaredError):
            def __call__(self, *args):
                return 2.0 * super().__call__(*args)

        with two_replicas.scope():
            model = compiled(loss=Doubled())
        with pytest.raises(
            ValueError, match=r"On several replicas.*class Doubled, which overrides"
        ):
            model.fit(*data(4), verbose=0)

    def test_refuses_a_loss_of_a_batch(self, two_replicas):
        def of_batch(y, y_pred):
            return tf.reduce_mean(tf.square(y - y_pred))

        with two_replicas.scope():
            model = compiled(loss=of_batch)
        with pytest.raises(
            ValueError, match=r"loss 'of_batch', which returns one numb"
        ):
            model.fit(*data(4), verbose=0)

    def test_refuses_joint_sums_beside_means(self, two_replicas):
        inputs = keras.Input((3,))
        with two_replicas.scope():
            outputs = [tfvn.MeanFieldDense(2)(inputs) for _ in range(2)]
            model = tfvn.Model(inputs, outputs)
            losses = ["mse", keras.losses.MeanSquaredError(reduction="sum")]
            options = {"num_samples": 2, "sample_reduction": "log_mean_exp"}
            model.compile("sgd", losses, **options)
        x, y = data(4)
        with (
            pytest.warns(UserWarning, match="summed over a batch"),
            pytest.raises(ValueError, match=r"or all summed.*\['mean', 'sum'\]"),
        ):
            model.fit(x, [y, y], verbose=0)


class TestLogs:
    def test_of_a_step_of_ones_own(self, two_replicas):
        """Metrics of an epoch are those of all its rows, as in Keras."""

        class Own(tfvn.Sequential):
            def train_step(self, data):
                logs = super().train_step(data)
                return {name: logs[name] for name in ("loss", "mae")}

        with two_replicas.scope():
            model = Own([keras.Input((3,)), keras.layers.Dense(2)])
            model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
        x, y = data(3)
        history = model.fit(x, y, epochs=2, verbose=0).history
        assert history.keys() == {"loss", "mae"}
        expected = np.abs(model.predict(x, verbose=0) - y).mean()
        np.testing.assert_allclose(history["mae"], expected, rtol=1e-5)

    def test_of_a_batch(self, two_replicas):
        with two_replicas.scope():
            model = compiled(train_size=4)
        logs = model.train_on_batch(*data(4), return_dict=True)
        assert set(logs) >= {"loss", "nll", "kl", "elbo", "mae"}
        assert all(np.isfinite(value) for value in logs.values())

    def test_of_any_shape(self):
        vector = replicas.LogVector()
        logs = {"loss": 2.0, "table": tf.ones((2, 3), tf.int32), "nested": {"a": [1.0]}}
        packed = vector.pack(logs)
        assert packed.shape == (1, 8)
        for returned in (packed, packed[0]):
            unpacked = vector.unpack(returned)
            assert unpacked.keys() == logs.keys()
            np.testing.assert_array_equal(unpacked["table"], np.ones((2, 3)))
            assert float(unpacked["nested"]["a"][0]) == 1.0

    def test_of_nothing(self):
        vector = replicas.LogVector()
        assert vector.unpack(vector.pack({})) == {}


class TestSymbolicBuild:
    def unbuilt(self):
        model = tfvn.Sequential([tfvn.MeanFieldDense(2)])
        model.compile("sgd", "mse", metrics=["mae"], train_size=8)
        return model

    def test_takes_nothing_from_the_data(self, two_replicas):
        starts = []

        def batches():
            starts.append(None)
            for _ in range(2):
                yield data(4)

        spec = tuple(tf.TensorSpec((None, size)) for size in (3, 2))
        batches = tf.data.Dataset.from_generator(batches, output_signature=spec)
        with two_replicas.scope():
            model = self.unbuilt()
        with pytest.warns(UserWarning, match="ran out of data"):
            model.fit(batches, verbose=0)
        assert len(starts) == 1


class TestOrder:
    def epochs(self, seed, count):
        x = np.arange(SIZE)
        batches = iter(DataOrder(seed).endless_batches((x, None), 4, SIZE - 1))
        return [
            np.concatenate([next(batches)[0] for _ in range(8)]) for _ in range(count)
        ]

    def test_has_every_row_once_an_epoch(self):
        first, second = self.epochs(1, 2)
        assert sorted(first) == sorted(second) == list(range(SIZE - 1))
        assert any(first != second)

    def test_depends_on_the_seed_alone(self):
        np.testing.assert_array_equal(self.epochs(1, 2), self.epochs(1, 2))
        assert np.any(self.epochs(1, 1)[0] != self.epochs(2, 1)[0])

    def test_one_seed_for_all(self, two_replicas):
        keras.utils.set_random_seed(3)
        seeds = [replicas.shared_seed(two_replicas) for _ in range(2)]
        keras.utils.set_random_seed(3)
        assert replicas.shared_seed(two_replicas) == seeds[0] != seeds[1]


class TestRefusals:
    def test_several_steps_with_several_workers(self, two_replicas, monkeypatch):
        with two_replicas.scope():
            model = compiled(steps_per_execution=2)
        monkeypatch.setattr(replicas, "has_several_workers", lambda strategy: True)
        for method in (model.fit, model.evaluate):
            with pytest.raises(
                ValueError, match=r"=1`\. Received: steps_per_execut.*2"
            ):
                method(*data())

    def test_compiled_steps_on_cpus(self, two_replicas):
        with two_replicas.scope():
            model = compiled(jit_compile=True)
        for call in (model.fit, model.evaluate, lambda x, y: model.predict(x)):
            with pytest.raises(ValueError, match="jit_compile=True with 2 replicas"):
                call(*data())

    def test_several_steps_at_once_on_cpus(self, two_replicas):
        with two_replicas.scope():
            model = compiled(steps_per_execution=2, train_size=4)
        for method in (model.fit, model.evaluate):
            with pytest.raises(
                ValueError, match=r"CPUs.*=1`\. Received: steps_per_exe"
            ):
                method(*data(4))

    def test_accumulated_gradients(self, two_replicas):
        with two_replicas.scope():
            model = compiled()
            optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
            model.compile(optimizer, "mse")
        with pytest.raises(
            ValueError, match="gradient_accumulation_steps=2 with 2 rep"
        ):
            model.fit(*data(4))

    def test_weights_overwritten_with_averages(self, two_replicas):
        with two_replicas.scope():
            model = compiled()
            optimizer = keras.optimizers.SGD(
                0.1, use_ema=True, ema_overwrite_frequency=2
            )
            model.compile({"mean": "sgd", "default": optimizer}, "mse")
        with pytest.raises(ValueError, match="ema_overwrite_frequency=2 with 2 rep"):
            model.fit(*data(4))

    def test_a_parameter_server(self, monkeypatch):
        class Servers(tf.distribute.experimental.ParameterServerStrategy):
            def __init__(self):
                pass

        model = compiled()
        monkeypatch.setattr(type(model), "distribute_strategy", Servers())
        with pytest.raises(ValueError, match=r"MultiWorker.* Received: .*=Servers"):
            model.fit(*data())

    def test_batch_normalization_of_no_rows(self, two_replicas):
        with two_replicas.scope():
            layers = [tfvn.MeanFieldDense(2), keras.layers.BatchNormalization()]
            model = tfvn.Sequential([keras.Input((3,)), *layers])
            model.compile("sgd", "mse")
        with pytest.raises(ValueError, match="last batch has 1 of 33 rows for 2 rep"):
            model.fit(*data(), batch_size=4)

    @pytest.mark.parametrize("kind", ["sparse", "batches"])
    def test_shuffling_other_data_than_arrays(self, kind, two_replicas, monkeypatch):
        class Batches(keras.utils.PyDataset):
            num_batches = 1

            def __getitem__(self, index):
                return data(4)

        x, y = data(4)
        arguments = (tf.sparse.from_dense(x), y) if kind == "sparse" else (Batches(),)
        with two_replicas.scope():
            model = compiled()
        monkeypatch.setattr(replicas, "has_several_workers", lambda strategy: True)
        with pytest.raises(ValueError, match=r"`shuffle=False`.* and shuffle=True"):
            model.fit(*arguments)

    def test_warns_of_orders_without_a_seed(self, two_replicas, monkeypatch):
        tf.random.set_seed(None)  # as in a script that sets no seed
        batches = tf.data.Dataset.from_tensor_slices(data(4)).shuffle(4)
        with two_replicas.scope():
            model = compiled()
        monkeypatch.setattr(replicas, "has_several_workers", lambda strategy: True)
        with pytest.warns(UserWarning, match="pass the same `seed` to `shuffle`"):
            model.fit(batches.batch(2), verbose=0)
