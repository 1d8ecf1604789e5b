"""More than one draw in a step: masks, weights, several outputs, every kind of loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import still

import tfvn

ROWS, STEPS = 4, 5


def sequences():
    """Rows of which the last steps are padding, and targets with nonsense there."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, STEPS, 3)).astype("float32")
    y = rng.normal(size=(ROWS, STEPS, 1)).astype("float32")
    x[:2, 3:] = 0.0
    y[:2, 3:] = 1e3
    return x, y


def masked_model(estimator="local", **kwargs):
    inputs = keras.Input((STEPS, 3))
    hidden = keras.layers.Masking()(inputs)
    layer = tfvn.MeanFieldDense(1, estimator=estimator, seed=1, **kwargs)
    return tfvn.Model(inputs, layer(hidden))


def two_outputs():
    inputs = keras.Input((3,))
    outputs = {
        name: tfvn.MeanFieldDense(2, name=name, seed=1)(inputs) for name in ("a", "b")
    }
    return tfvn.Model(inputs, outputs)


def nll_of(model, x, y, sample_weight=None, **options):
    """The NLL of a step that changes nothing."""
    model.compile(
        keras.optimizers.SGD(0.0), train_size=ROWS, run_eagerly=True, **options
    )
    logs = model.train_on_batch(x, y, sample_weight, return_dict=True)
    return float(logs["nll"])


REDUCTIONS = ("mean", "log_mean_exp")
POINTS = np.random.default_rng(1).normal(size=(2, ROWS, 3)).astype("float32")


@pytest.mark.parametrize("reduction", REDUCTIONS)
class TestEqualToOneDraw:
    """Without noise all draws are equal, and so is the loss to that of one draw."""

    def check(self, model, x, y, reduction, sample_weight=None, **options):
        still(model)
        expected = nll_of(model, x, y, sample_weight, **options)
        found = nll_of(
            model,
            x,
            y,
            sample_weight,
            num_samples=3,
            sample_reduction=reduction,
            **options,
        )
        assert found == pytest.approx(expected, rel=1e-5)
        return expected

    @pytest.mark.parametrize("estimator", ["local", "weights", "flipout"])
    def test_masks(self, reduction, estimator):
        x, y = sequences()
        model = masked_model(estimator)
        nll = self.check(model, x, y, reduction, loss="mse")
        assert nll < 100  # the padding is not in it
        error = (still(model)(x).numpy() - y)[..., 0] ** 2
        valid = np.any(x != 0, axis=-1)
        assert nll == pytest.approx(error[valid].mean(), rel=1e-5)

    def test_weights_of_steps(self, reduction):
        x, y = sequences()
        weight = np.random.default_rng(2).uniform(size=(ROWS, STEPS))
        self.check(masked_model(), x, y, reduction, weight, loss="mse")

    def test_weights_of_examples(self, reduction):
        weight = np.arange(1.0, ROWS + 1)
        model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3, seed=1)])
        self.check(model, *POINTS, reduction, weight, loss="mae")

    @pytest.mark.parametrize(
        "loss",
        [
            "mse",
            ["mse"],
            keras.losses.mean_absolute_error,
            keras.losses.MeanSquaredError(reduction="sum"),
            keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"),
            lambda y, y_pred: tf.reduce_sum(tf.abs(y - y_pred), axis=-1),
        ],
        ids=["name", "list", "function", "sum", "mean_with_weights", "lambda"],
    )
    def test_kinds_of_losses(self, reduction, loss):
        model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3, seed=1)])
        weight = np.arange(1.0, ROWS + 1)
        self.check(model, *POINTS, reduction, weight, loss=loss)

    def test_ignored_class(self, reduction):
        loss = keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=-1
        )
        model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(2, seed=1)])
        labels = np.array([0, 1, -1, 1])
        self.check(model, POINTS[0], labels, reduction, loss=loss)

    @pytest.mark.filterwarnings("ignore:Gradients do not exist")
    @pytest.mark.parametrize(
        "options",
        [
            {"loss": "mse"},
            {"loss": {"a": "mse", "b": "mae"}, "loss_weights": {"a": 2.0, "b": 0.1}},
            {"loss": {"a": "mse"}},
        ],
        ids=["one", "weighted", "partial"],
    )
    def test_several_outputs(self, reduction, options):
        x, y = POINTS[0], {"a": POINTS[1][:, :2], "b": POINTS[1][:, 1:]}
        if "b" not in options["loss"] and isinstance(options["loss"], dict):
            y = {"a": y["a"], "b": np.zeros((ROWS, 2), "float32")}
        self.check(two_outputs(), x, y, reduction, **options)

    def test_outputs_of_different_length(self, reduction):
        """A sequence and a number, of which Keras averages one over time."""
        inputs = keras.Input((STEPS, 3))
        steps = tfvn.MeanFieldDense(1, name="steps", seed=1)(inputs)
        last = tfvn.MeanFieldDense(1, name="last", seed=1)(inputs[:, -1])
        x, y = sequences()
        model = tfvn.Model(inputs, [steps, last])
        self.check(model, x, [y, y[:, 0]], reduction, loss=["mse", "mae"])

    def test_sparse_inputs(self, reduction):
        class Model(tfvn.Model):
            def __init__(self):
                super().__init__()
                self.head = tfvn.MeanFieldDense(2, seed=1)

            def call(self, inputs):
                return self.head(tf.sparse.to_dense(inputs))

        x = tf.sparse.from_dense(np.eye(ROWS, dtype="float32"))
        model = Model()
        model(x)
        self.check(model, x, POINTS[1][:, :2], reduction, loss="mse")


def test_log_mean_exp_by_hand():
    """Sums over time, log mean exp over draws, and the scale of Keras's own loss."""
    x, y = sequences()
    y[:2, 3:] = 0.0
    model = masked_model(scale_initializer=0.5, use_bias=False)
    drawn = []
    layer_call = type(model.layers[-1]).call

    class Recorded(type(model.layers[-1])):
        def call(self, inputs, training=None):
            outputs = layer_call(self, inputs, training)
            drawn.append(outputs.numpy())
            return outputs

    model.layers[-1].__class__ = Recorded
    weight = np.random.default_rng(2).uniform(size=(ROWS, STEPS)).astype("float32")
    found = nll_of(
        model,
        x,
        y,
        weight,
        loss="mse",
        num_samples=3,
        sample_reduction="log_mean_exp",
    )
    draws = np.concatenate(drawn).reshape(3, ROWS, STEPS)
    valid = np.any(x != 0, axis=-1)
    nlls = (weight * valid * (draws - y[..., 0]) ** 2).sum(axis=-1)
    expected = -np.log(np.exp(-nlls).mean(axis=0)).sum() / valid.sum()
    assert found == pytest.approx(expected, rel=1e-5)


def test_log_mean_exp_needs_a_loss_of_examples():
    model = tfvn.Sequential([keras.Input((3,)), tfvn.MeanFieldDense(3)])
    with pytest.raises(ValueError, match=r"a value for each example.*Received: loss"):
        nll_of(
            model,
            *POINTS,
            loss=lambda y, y_pred: tf.reduce_mean(tf.abs(y - y_pred)),
            num_samples=2,
            sample_reduction="log_mean_exp",
        )


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_activity_regularizer_is_averaged():
    def make():
        layer = tfvn.MeanFieldDense(
            2, activity_regularizer=keras.regularizers.L2(0.5), seed=1, prior=None
        )
        model = still(tfvn.Sequential([keras.Input((3,)), layer]))
        model.get_layer(index=0).posterior.mean_variable.assign(np.ones((3, 2)))
        return model

    losses = []
    for num_samples in (1, 3):
        model = make()
        model.compile(
            keras.optimizers.SGD(0.0), "mse", num_samples=num_samples, run_eagerly=True
        )
        losses.append(model.train_on_batch(POINTS[0], POINTS[1][:, :2]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_stateful_layers_are_refused():
    inputs = keras.Input(batch_shape=(ROWS, STEPS, 3))
    model = tfvn.Model(inputs, tfvn.MeanFieldLSTM(1, stateful=True)(inputs))
    x, y = sequences()
    with pytest.raises(ValueError, match=r"`num_samples=1` or `stateful=False`"):
        nll_of(model, x, y[:, 0], loss="mse", num_samples=2)


@pytest.mark.parametrize("mode", ["graph", "jit"])
def test_trains_in_a_graph(mode):
    x, y = sequences()
    model = masked_model("flipout")
    model.compile(
        keras.optimizers.Adam(0.1),
        "mse",
        train_size=1_000,
        num_samples=2,
        sample_reduction="log_mean_exp",
        jit_compile=mode == "jit",
        metrics=["mae"],
    )
    logs = model.fit(x, y, epochs=10, verbose=0).history
    assert logs["nll"][-1] < logs["nll"][0] < 100
    assert logs["mae"][0] < 100


class TestOverriddenStep:
    def compiled(self, step, **options):
        class Model(tfvn.Model):
            train_step = step

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", run_eagerly=True, train_size=ROWS, **options)
        return model

    def own_step(self, data):
        x, y = data[:2]
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, y_pred)

    def test_cannot_draw_more_than_once(self):
        model = self.compiled(TestOverriddenStep.own_step, num_samples=2)
        with pytest.raises(ValueError, match=r"`super\(\).train_step.*num_samples=2"):
            model.fit(*POINTS, verbose=0)

    def test_that_calls_ours_can(self):
        class Model(tfvn.Model):
            def train_step(self, data):
                return super().train_step(data)

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", num_samples=2, train_size=500)
        assert "elbo" in model.fit(*POINTS, verbose=0).history

    @pytest.mark.parametrize("reads", ["compute_loss", "losses"])
    def test_gets_the_weighted_kl(self, reads, recwarn):
        seen = []

        def step(model, data):
            x, y = data[:2]
            y_pred = model(x, training=True)
            if reads == "compute_loss":
                loss = model.compute_loss(x, y, y_pred)
            else:
                nll = tf.reduce_mean((y - y_pred) ** 2)
                loss = nll + sum(model.losses)
            seen.append(float(loss) - float(tf.reduce_mean((y - y_pred) ** 2)))
            return {"loss": loss}

        model = self.compiled(step, kl_schedule=0.5)
        kl = float(model.layers[-1].kl_divergence())
        model.fit(*POINTS, verbose=0)
        assert seen[-1] == pytest.approx(0.5 * kl / ROWS, rel=1e-3)
        assert not [w for w in recwarn if "kl_weight" in str(w.message)]

    def test_as_in_the_guide_of_keras(self):
        """The loop over `self.metrics` that Keras's documentation has."""

        def step(model, data):
            x, y = data[:2]
            with tf.GradientTape() as tape:
                y_pred = model(x, training=True)
                loss = model.compute_loss(y=y, y_pred=y_pred)
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            for metric in model.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {m.name: m.result() for m in model.metrics}

        model = self.compiled(step, metrics=["mae"])
        history = model.fit(*POINTS, verbose=0).history
        assert np.isfinite(history["loss"][0])

    def test_in_a_loop_of_ones_own(self):
        model = self.compiled(tfvn.Model.train_step, kl_schedule=0.5)
        layer = still(model).layers[-1]
        x, y = POINTS
        with pytest.warns(UserWarning, match="tfvn.Model.fit"):
            y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred)
        expected = np.mean((y_pred - y) ** 2) + 0.5 * layer.kl_divergence() / ROWS
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)

    def test_schedule_in_a_loop_of_ones_own(self):
        schedule = tfvn.schedules.LinearAnnealing(steps=4)
        model = self.compiled(tfvn.Model.train_step, kl_schedule=schedule)
        x, y = (tf.constant(part) for part in POINTS)
        weights = [float(model.run_train_step((x, y))["kl_weight"]) for _ in range(2)]
        weights += [float(model.train_step((x, y))["kl_weight"])]
        # The mean over all batches so far, as nothing resets it.
        np.testing.assert_allclose(weights, [0.0, 0.125, 0.25], rtol=1e-5)
        with pytest.warns(UserWarning, match="kl_weight"):
            y_pred = model(x, training=True)
        with pytest.raises(ValueError, match=r"run_train_step.*LinearAnnealing"):
            model.compute_loss(x, y, y_pred)

    def test_loss_of_an_inner_model(self):
        inner = still(self.compiled(tfvn.Model.train_step))
        kl = float(inner.layers[-1].kl_divergence())
        seen = []

        class Outer(tfvn.Model):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def call(self, inputs):
                return self.inner(inputs)

            def train_step(self, data):
                x, y = data[:2]
                y_pred = self.inner(x, training=True)
                loss = self.inner.compute_loss(x, y, y_pred)
                seen.append(float(loss) - float(tf.reduce_mean((y_pred - y) ** 2)))
                return {"loss": loss}

        outer = Outer()
        outer.compile("sgd", "mse", run_eagerly=True, train_size=10 * ROWS)
        outer.fit(*POINTS, verbose=0)
        assert seen[0] == pytest.approx(kl / (10 * ROWS), rel=1e-3)

    def test_two_passes_in_a_step(self):
        def step(model, data):
            x, y = data[:2]
            losses = [
                model.compute_loss(x, y, model(x, training=True)) for _ in range(2)
            ]
            return model.compute_metrics(x, y, model(x)) | {"loss": sum(losses) / 2}

        model = still(self.compiled(step))
        logs = model.fit(*POINTS, verbose=0).history
        kl = float(model.layers[-1].kl_divergence())
        assert logs["kl"] == pytest.approx([kl], rel=1e-5)

    def test_loss_of_ones_own_has_no_parts(self):
        class Model(tfvn.Model):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return tf.reduce_mean((y - y_pred) ** 2) + sum(self.losses)

        inputs = keras.Input((3,))
        model = still(Model(inputs, tfvn.MeanFieldDense(3)(inputs)))
        model.compile("sgd", "mse", train_size=ROWS)
        logs = model.fit(*POINTS, verbose=0, validation_data=tuple(POINTS)).history
        assert set(logs) == {"loss", "val_loss"}

    def test_draws_need_the_inputs(self):
        class Model(tfvn.Model):
            def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
                return super().compute_loss(y=y, y_pred=y_pred)

        inputs = keras.Input((3,))
        model = Model(inputs, tfvn.MeanFieldDense(3)(inputs))
        model.compile("sgd", "mse", num_samples=2, run_eagerly=True)
        with pytest.raises(ValueError, match=r"need the inputs.*x=None"):
            model.fit(*POINTS, verbose=0)


def test_attributes_of_a_subclass_stay():
    class Model(tfvn.Model):
        def __init__(self):
            super().__init__()
            self.num_samples = 10

        def call(self, inputs):
            return inputs

    model = Model()
    model.compile("sgd", "mse")
    assert model.num_samples == 10


@keras.saving.register_keras_serializable("tfvn_tests")
class OwnCompile(tfvn.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = tfvn.MeanFieldDense(3)

    def call(self, inputs):
        return self.head(inputs)

    def compile(self, my_optimizer="sgd", **kwargs):
        super().compile(optimizer=my_optimizer, **kwargs)


def test_loading_a_model_with_a_compile_of_its_own(tmp_path):
    model = OwnCompile()
    model.compile("sgd", loss="mse")
    model.fit(*POINTS, verbose=0)
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="`compile.*` was not called"):
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        loaded.head.posterior.mean(), model.head.posterior.mean()
    )
