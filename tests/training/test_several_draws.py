"""More than one draw in a step: masks, weights, several outputs, every kind of loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_models import still

import tfvn
from tfvn.training import draws

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
@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_masks_of_draws_with_noise(estimator, reduction):
    """Draws in one pass, over repeated rows, and one by one."""
    x, y = sequences()
    model = masked_model(estimator, scale_initializer=1e-6)
    assert draws._can_repeat_rows(model, tf.constant(x)) == (estimator == "local")
    found = []
    for num_samples in (1, 3):
        options = {"num_samples": num_samples, "sample_reduction": reduction}
        # In a graph: eager steps of `train_on_batch` get arrays, which are not repeated.
        model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=False, **options)
        found += model.fit(x, y, verbose=0).history["nll"]
    one, three = found
    assert one < 100  # the padding is not in it
    assert three == pytest.approx(one, rel=1e-3)


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


@pytest.mark.one_in(2)
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
