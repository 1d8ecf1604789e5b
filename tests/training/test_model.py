"""`tfvn.Model` and `tfvn.Sequential`: what is minimised, and what is shown of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn.training.model import FunctionalModel

SIZE = 48


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 4)).astype("float32")
    return x, (x @ rng.normal(size=(4, 2))).astype("float32")


class Subclassed(tfvn.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tfvn.KTiedDense(8, activation="relu")
        self.head = tfvn.MeanFieldDense(2)

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def sequential():
    return tfvn.Sequential(
        [
            keras.Input((4,)),
            tfvn.KTiedDense(8, activation="relu"),
            tfvn.MeanFieldDense(2),
        ]
    )


def functional():
    inputs = keras.Input((4,))
    hidden = tfvn.KTiedDense(8, activation="relu")(inputs)
    return tfvn.Model(inputs, tfvn.MeanFieldDense(2)(hidden))


STYLES = {"sequential": sequential, "functional": functional, "subclassed": Subclassed}
MODES = {
    "eager": {"run_eagerly": True},
    "graph": {"jit_compile": False},
    "jit": {"jit_compile": True},
}


def still(model):
    """Takes the noise out of a model, so that losses are exact."""
    for layer in tfvn.layers.inside.stochastic_layers(model):
        layer.estimator = tfvn.estimators.get("mean")
    return model


def kl_of(model):
    layers = tfvn.layers.inside.stochastic_layers(model)
    return sum(float(layer.kl_divergence()) for layer in layers)


@pytest.mark.parametrize("style", STYLES)
class TestStyles:
    @pytest.mark.parametrize("mode", MODES)
    def test_history_adds_up(self, style, mode, data):
        model = STYLES[style]()
        model.compile("adam", "mse", metrics=["mae"], kl_schedule=0.25, **MODES[mode])
        x, y = data
        logs = model.fit(x, y, 16, 2, verbose=0, validation_data=(x, y)).history
        for prefix in ("", "val_"):
            nll, kl, loss, elbo, weight = (
                np.array(logs[prefix + name])
                for name in ("nll", "kl", "loss", "elbo", "kl_weight")
            )
            np.testing.assert_allclose(loss, nll + weight * kl / SIZE, rtol=1e-5)
            np.testing.assert_allclose(elbo, -(nll + kl / SIZE), rtol=1e-5)
            np.testing.assert_array_equal(weight, 0.25)
            assert prefix + "mae" in logs
        assert logs["val_kl"][-1] == pytest.approx(kl_of(model), rel=1e-5)

    def test_order_of_the_logs(self, style, data):
        model = STYLES[style]()
        model.compile("adam", "mse", metrics=["mae"])
        history = model.fit(*data, verbose=0).history
        assert list(history)[:5] != []
        assert set(history) == {"loss", "nll", "kl", "kl_weight", "elbo", "mae"}

    def test_no_advice_about_the_weight(self, style, data, recwarn):
        model = STYLES[style]()
        model.compile("adam", "mse")
        model.fit(*data, verbose=0)
        assert not [w for w in recwarn if "kl_weight" in str(w.message)]

    def test_saved_and_loaded(self, style, data, tmp_path):
        if style == "subclassed":
            pytest.skip("Keras loads a subclassed model only where its class is known")
        model = STYLES[style]()
        model.compile(
            {"mean": "adam", "scale": keras.optimizers.SGD(0.01)},
            "mse",
            kl_schedule=tfvn.schedules.LinearAnnealing(steps=100),
        )
        model.fit(*data, batch_size=16, epochs=2, verbose=0)
        model.save(tmp_path / "model.keras")
        copy = keras.saving.load_model(tmp_path / "model.keras")
        assert isinstance(copy, type(model))
        assert isinstance(copy.optimizer.groups["scale"], keras.optimizers.SGD)
        expected = still(model).evaluate(*data, verbose=0, return_dict=True)
        found = still(copy).evaluate(*data, verbose=0, return_dict=True)
        assert found == pytest.approx(expected, rel=1e-6)
        for one, other in zip(
            model.optimizer.variables, copy.optimizer.variables, strict=True
        ):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        copy.fit(*data, batch_size=16, verbose=0)

    def test_weights_of_a_stock_model(self, style, data, tmp_path):
        if style == "subclassed":
            pytest.skip("has no stock twin here")
        ours = STYLES[style]()
        stock = keras.Sequential(
            [keras.Input((4,)), *(layer for layer in sequential().layers)]
        )
        assert [w.shape for w in ours.weights] == [w.shape for w in stock.weights]
        ours.set_weights(stock.get_weights())


@pytest.mark.parametrize("style", ["sequential", "functional"])
@pytest.mark.parametrize("optimizer", ["adam", {"mean": "adam", "scale": "sgd"}])
def test_cloned_by_keras(style, optimizer, data):
    model = STYLES[style]()
    model.compile(optimizer, "mse", kl_schedule=0.5)
    model.fit(*data, verbose=0)
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    assert copy(data[0]).shape == (SIZE, 2)


def test_functional_class():
    assert isinstance(functional(), FunctionalModel)
    assert isinstance(functional(), tfvn.Model)


def test_subclass_that_is_functional(data):
    class Wrapped(tfvn.Model):
        def __init__(self, units):
            inputs = keras.Input((4,))
            super().__init__(inputs, tfvn.MeanFieldDense(units)(inputs))

    model = Wrapped(2)
    model.compile("adam", "mse")
    model.fit(*data, verbose=0)
    assert len(model.layers) == 2
    # And the next model is not made functional by it.
    assert Subclassed()(data[0]).shape == (SIZE, 2)


class TestLoss:
    """The loss is mean NLL + weight * KL / N + regularizers, computed by hand."""

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
    def test_value(self, data, mode, weight):
        x, y = data
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
        assert model.test_on_batch(x, y)[0] == pytest.approx(expected, rel=1e-5)
        assert model.train_on_batch(x, y)[0] == pytest.approx(expected, rel=1e-5)

    def test_factor_of_a_layer(self, data):
        x, y = data
        model = still(
            tfvn.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(2, kl_weight=0.1)])
        )
        model.compile("sgd", "mse", train_size=SIZE)
        logs = model.evaluate(x, y, verbose=0, return_dict=True)
        kl = float(model.layers[0].kl_divergence())
        assert logs["kl"] == pytest.approx(kl, rel=1e-5)
        assert logs["loss"] == pytest.approx(logs["nll"] + 0.1 * kl / SIZE, rel=1e-5)

    def test_shared_and_nested_layers_count_once(self, data):
        shared = tfvn.MeanFieldDense(4)
        inner = tfvn.Sequential([keras.Input((4,)), shared, tfvn.KTiedDense(4)])
        inputs = keras.Input((4,))
        outputs = keras.layers.Dense(2)(inner(shared(inputs)))
        model = still(tfvn.Model(inputs, outputs))
        model.compile("sgd", "mse", train_size=SIZE)
        logs = model.evaluate(*data, verbose=0, return_dict=True)
        assert logs["kl"] == pytest.approx(kl_of(model), rel=1e-5)

    def test_two_replicas_count_it_once(self, data, two_replicas):
        with two_replicas.scope():
            model = still(sequential())
            model.compile("sgd", "mse", train_size=SIZE)
        x, y = data
        found = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
        alone = still(sequential())
        alone.set_weights(model.get_weights())
        alone.compile("sgd", "mse", train_size=SIZE)
        expected = alone.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
        assert found == pytest.approx(expected, rel=1e-5)
        model.fit(x, y, batch_size=16, verbose=0)
        alone.fit(x, y, batch_size=16, verbose=0)

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, data, policy):
        keras.config.set_dtype_policy(policy)
        model = sequential()
        model.compile({"mean": "adam", "scale": "adam"}, "mse")
        history = model.fit(*data, epochs=2, verbose=0).history
        assert np.all(np.isfinite(history["loss"]))
        assert "learning_rate_scale" in history


class TestSize:
    def size(self, model, *args, **kwargs):
        model.compile("sgd", "mse", **kwargs.pop("compile", {}))
        model.fit(*args, verbose=0, **kwargs)
        return model._bound.size

    def test_of_arrays(self, data):
        assert self.size(sequential(), *data) == SIZE

    def test_of_arrays_of_which_some_are_held_back(self, data):
        assert self.size(sequential(), *data, validation_split=0.25) == 36

    def test_of_a_data_set(self, data):
        batches = tf.data.Dataset.from_tensor_slices(data).batch(16)
        assert self.size(sequential(), batches) == SIZE
        fixed = tf.data.Dataset.from_tensor_slices(data).batch(16, drop_remainder=True)
        assert self.size(sequential(), fixed.prefetch(2)) == SIZE

    def test_of_steps(self, data):
        endless = tf.data.Dataset.from_tensor_slices(data).repeat().batch(16)
        assert self.size(sequential(), endless, steps_per_epoch=5) == 80

    def test_of_a_generator_with_steps(self, data):
        x, y = data
        batches = ((x[:8], y[:8]) for _ in range(100))
        assert self.size(sequential(), batches, steps_per_epoch=5) == 40

    def test_of_a_py_dataset(self, data):
        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                return tuple(part[16 * index : 16 * index + 16] for part in data)

        assert self.size(sequential(), Batches()) == SIZE

    def test_given(self, data):
        size = self.size(sequential(), *data, compile={"train_size": 1_000})
        assert size == 1_000

    def test_unknown(self, data):
        batches = tf.data.Dataset.from_tensor_slices(data).repeat().batch(16)
        model = sequential()
        model.compile("sgd", "mse")
        with pytest.raises(
            ValueError, match=r"`compile\(train_size=\.\.\.\)`.*Received"
        ):
            model.fit(batches, verbose=0)
        with pytest.raises(ValueError, match=r"not known before `fit`.*train_size"):
            model.evaluate(*data, verbose=0)

    @pytest.mark.filterwarnings("ignore:Your input ran out of data")
    def test_unknown_where_no_kl_is_added(self, data):
        batches = ((data[0][:8], data[1][:8]) for _ in range(3))
        model = tfvn.Sequential([keras.Input((4,)), tfvn.VarianceDense(2)])
        model.compile("sgd", "mse")
        model.fit(batches, verbose=0)


class TestSchedule:
    @pytest.mark.parametrize("mode", MODES)
    def test_acts_at_the_very_next_step(self, data, mode):
        x, y = data
        model = still(sequential())
        model.compile(
            keras.optimizers.SGD(0.0),
            "mse",
            kl_schedule=tfvn.schedules.LinearAnnealing(steps=4),
            train_size=SIZE,
            **MODES[mode],
        )
        losses = [model.train_on_batch(x, y)[0] for _ in range(6)]
        nll = np.mean((model(x).numpy() - y) ** 2)
        expected = nll + np.array([0, 0.25, 0.5, 0.75, 1, 1]) * kl_of(model) / SIZE
        np.testing.assert_allclose(losses, expected, rtol=1e-5)

    @pytest.mark.parametrize("mode", ["graph", "jit"])
    def test_is_traced_once(self, data, mode):
        model = sequential()
        model.compile(
            "adam",
            "mse",
            kl_schedule=tfvn.schedules.CyclicalAnnealing(5),
            **MODES[mode],
        )
        traces = []
        train_step = model.train_step
        model.train_step = lambda batch: traces.append(1) or train_step(batch)
        model.fit(*data, batch_size=16, epochs=1, verbose=0)
        # One trace, in which TensorFlow runs the Python code twice to make variables.
        first = len(traces)
        model.fit(*data, batch_size=16, epochs=3, verbose=0)
        model.fit(*(part[:32] for part in data), batch_size=16, epochs=1, verbose=0)
        assert len(traces) == first <= 2

    def test_inside_of_steps_per_execution(self, data):
        histories = []
        for steps in (1, 3):
            keras.utils.set_random_seed(0)
            model = still(sequential())
            model.compile(
                "adam",
                "mse",
                kl_schedule=tfvn.schedules.LinearAnnealing(steps=6),
                steps_per_execution=steps,
            )
            histories.append(
                model.fit(*data, 16, 3, verbose=0, shuffle=False).history["kl_weight"]
            )
        np.testing.assert_allclose(histories[0], histories[1], rtol=1e-6)
        np.testing.assert_allclose(histories[0], [1 / 6, 4 / 6, 1], rtol=1e-5)

    def test_negative_weight(self, data):
        class Falling(tfvn.schedules.KLSchedule):
            def __call__(self, step, steps_per_epoch):
                return 1.0 - step

        model = sequential()
        model.compile("sgd", "mse", kl_schedule=Falling())
        with pytest.raises(ValueError, match=r"at least 0. Received: weight=-\d"):
            model.fit(*data, batch_size=16, verbose=0)


class TestSamples:
    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_average_the_loss(self, data, estimator):
        x, y = data
        layer = tfvn.MeanFieldDense(
            2, estimator=estimator, scale_initializer=0.5, use_bias=False, seed=1
        )
        model = tfvn.Sequential([keras.Input((4,)), layer])
        spreads = []
        for num_samples in (1, 16):
            model.compile(
                keras.optimizers.SGD(0.0),
                "mse",
                num_samples=num_samples,
                train_size=SIZE,
            )
            losses = []
            for _ in range(60):
                model.reset_metrics()
                losses.append(model.train_on_batch(x[:4], y[:4])[0])
            spreads.append(np.std(losses))
        # The standard deviation falls by the root of the number of samples.
        assert spreads[1] == pytest.approx(spreads[0] / 4, rel=0.5)

    def test_log_mean_exp_is_a_tighter_bound(self, data):
        x, y = data
        losses = {}
        for reduction in ("mean", "log_mean_exp"):
            keras.utils.set_random_seed(0)
            layer = tfvn.MeanFieldDense(2, scale_initializer=0.3, seed=1)
            model = tfvn.Sequential([keras.Input((4,)), layer])
            model.compile(
                keras.optimizers.SGD(0.0),
                tfvn.losses.GaussianNLL(0.5),
                num_samples=8,
                sample_reduction=reduction,
                train_size=SIZE,
            )
            losses[reduction] = model.train_on_batch(x, y)[0]
        assert losses["log_mean_exp"] < losses["mean"]

    def test_log_mean_exp_by_hand(self):
        loss = tfvn.losses.GaussianNLL(1.0)
        y, y_pred = (
            np.zeros((6, 1), "float32"),
            np.arange(6.0, dtype="float32")[:, None],
        )
        found = tfvn.training.elbo.log_mean_exp_loss(loss, y, tf.constant(y_pred), 3)
        likelihoods = np.exp(-0.5 * y_pred[:, 0] ** 2) / np.sqrt(2 * np.pi)
        expected = -np.log(likelihoods.reshape(3, 2).mean(axis=0))
        np.testing.assert_allclose(found, expected, rtol=1e-5)

    def test_train(self, data):
        for estimator in ("local", "flipout", "weights"):
            model = tfvn.Sequential(
                [keras.Input((4,)), tfvn.MeanFieldDense(2, estimator=estimator)]
            )
            model.compile("adam", "mse", num_samples=3)
            losses = model.fit(*data, epochs=5, verbose=0).history["nll"]
            assert losses[-1] < losses[0]


class TestPathGradient:
    def make(self, kl_gradient, size=400):
        """A posterior that is the prior, so that the best gradient is zero."""
        layer = tfvn.MeanFieldDense(
            size,
            estimator="weights",
            kl_method="monte_carlo",
            use_bias=False,
            kernel_initializer="zeros",
            scale_initializer=0.5,
            prior=tfd.Normal(0.0, 0.5),
            seed=2,
        )
        layer.build((None, 1))
        layer.kl_gradient = kl_gradient
        return layer

    def gradients(self, layer):
        with tf.GradientTape() as tape:
            layer(tf.ones((1, 1)))
            loss = sum(layer.losses)
        return [g.numpy() for g in tape.gradient(loss, layer.trainable_variables)]

    @pytest.mark.filterwarnings("ignore")
    def test_has_no_noise_at_the_optimum(self):
        total = self.gradients(self.make("total"))
        path = self.gradients(self.make("path"))
        assert all(np.std(g) > 0.1 for g in total)
        for gradient in path:
            np.testing.assert_allclose(gradient, 0.0, atol=1e-5)

    @pytest.mark.filterwarnings("ignore")
    def test_is_right_on_average(self):
        layers = [self.make(kind, 20_000) for kind in ("total", "path")]
        means = []
        for layer in layers:
            layer.posterior.mean_variable.assign(np.full((1, 20_000), 0.3))
            means.append([g.mean() for g in self.gradients(layer)])
        np.testing.assert_allclose(means[0], means[1], atol=0.05)
        assert means[1][0] == pytest.approx(0.3 / 0.25, rel=0.02)

    def test_through_compile(self, data):
        layer = tfvn.MeanFieldDense(2, estimator="weights", kl_method="monte_carlo")
        model = tfvn.Sequential([keras.Input((4,)), layer])
        model.compile("adam", "mse", kl_gradient="path")
        model.fit(*data, verbose=0)
        assert layer.kl_gradient == "path"

    def test_needs_a_shared_sample(self, data):
        model = sequential()
        model.compile("adam", "mse", kl_gradient="path")
        with pytest.raises(ValueError, match=r"path derivative.*Received: kl_gradient"):
            model.fit(*data, verbose=0)


class TestBadInput:
    @pytest.mark.parametrize("which", [0, 1, 2], ids=["x", "y", "sample_weight"])
    def test_nan(self, data, which):
        x, y = data
        arrays = [x.copy(), y.copy(), np.ones((len(x), 1), "float32")]
        arrays[which][3, 0] = np.nan
        x, y, weight = arrays
        model = sequential()
        model.compile("adam", "mse")
        with pytest.raises(ValueError, match=r"must not contain NaN.*Received: 1 NaN"):
            model.fit(x, y, sample_weight=weight, verbose=0)

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_nan_in_a_data_set(self, data):
        x, y = data
        batches = tf.data.Dataset.from_tensor_slices((x * np.nan, y)).batch(16)
        model = sequential()
        model.compile("adam", "mse")
        with pytest.warns(UserWarning, match=r"The loss is NaN.*Received: loss=nan"):
            model.fit(batches, verbose=0)

    def test_no_data(self):
        model = sequential()
        model.compile("adam", "mse")
        with pytest.raises(ValueError, match=r"at least one example. Received: none"):
            model.fit(np.zeros((0, 4)), np.zeros((0, 2)), verbose=0)

    def test_no_data_in_a_data_set(self, data):
        model = sequential()
        model.compile("adam", "mse")
        empty = tf.data.Dataset.from_tensor_slices(data).take(0).batch(4)
        with pytest.raises(ValueError, match=r"at least one example. Received: none"):
            model.fit(empty, verbose=0)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"num_samples": 0},
            {"num_samples": 1.5},
            {"train_size": 0},
            {"kl_gradient": "score"},
            {"sample_reduction": "sum"},
        ],
        ids=str,
    )
    def test_arguments_of_compile(self, arguments):
        with pytest.raises(ValueError, match=r"Argument `\w+` must be.*Received: \w+="):
            sequential().compile("adam", "mse", **arguments)

    def test_not_compiled(self, data):
        with pytest.raises(ValueError, match="must call `compile"):
            sequential().fit(*data)
