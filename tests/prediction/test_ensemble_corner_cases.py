"""Few rows, odd batches, masks, predictions without noise, and what is refused."""

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
import ztests
from keras import layers
from models import CLASSES, FEATURES, X, sequential

import tfvn
from tfvn.prediction import batches


@pytest.mark.parametrize(
    "rest",
    [
        # Over repeated rows, and draw by draw.
        lambda: [layers.GaussianNoise(1e-7), layers.LSTM(2)],
        lambda: [tfvn.MeanFieldLSTM(2)],
        # After a layer that redraws.
        lambda: [tfvn.MeanFieldDense(3, estimator="weights"), layers.LSTM(2)],
    ],
)
def test_masks_reach_layers_behind_the_noise(rest):
    embedding = layers.Embedding(5, 3, mask_zero=True)
    model = keras.Sequential([keras.Input((None,)), embedding, *rest()])
    padded, short = (
        tfvn.ensemble_predict(model, np.array([x]), 3, seed=1, outputs="regression")
        for x in ([1, 2, 0, 0], [1, 2])
    )
    np.testing.assert_allclose(padded.mean, short.mean, atol=1e-5)


def attention(inputs):
    """Its two tensors bring their own masks, which are no arguments of its call."""
    return layers.MultiHeadAttention(1, 2, dropout=1e-7)(inputs, inputs)


def told_to_train(inputs):
    """A mask is no argument of a call that has other arguments by name."""
    noisy = layers.GaussianNoise(1e-7)(inputs)
    return layers.LSTM(2, return_sequences=True)(noisy, training=False)


def behind_certain_weights(inputs):
    """A layer that redraws its outputs, which keep the mask of its inputs."""
    dense = tfvn.MeanFieldDense(3, prior=None)
    outputs = dense(inputs)
    for scale in dense.variable_groups["scale"]:
        scale.assign(tf.fill(scale.shape, -20.0))
    return layers.MultiHeadAttention(1, 2)(outputs, outputs)


@pytest.mark.parametrize(
    "rest", [attention, told_to_train, behind_certain_weights], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("seed", [1, [[1, 2]]])
def test_masks_that_tensors_carry_reach_layers_behind_the_noise(rest, seed):
    inputs = keras.Input((4,))
    embedding = layers.Embedding(5, 3, "normal", mask_zero=True)
    model = keras.Model(inputs, rest(embedding(inputs)))
    x = np.array([[1, 2, 0, 0]])
    answer = tfvn.ensemble_predict(model, x, 3, seed=seed, outputs="regression")
    # The answer of the model itself, for which Keras passes the masks on.
    np.testing.assert_allclose(answer.mean, model(x), atol=1e-5)


class Positions(keras.Layer):
    """An embedding of six positions, whatever the batch."""

    def build(self, input_shape):
        self.table = self.add_weight(shape=(6, FEATURES), initializer="glorot_normal")

    def call(self, inputs):
        return keras.ops.take(self.table, keras.ops.arange(6), axis=0)

    def compute_output_shape(self, input_shape):
        return (6, FEATURES)


class TestEdges:
    @pytest.mark.parametrize("make", [models.local, models.weights])
    def test_few_rows_and_draws(self, make):
        model = make()
        assert tfvn.ensemble_predict(model, X[:1], num_samples=1).std.max() == 0
        empty = tfvn.ensemble_predict(model, X[:0], return_samples=True)
        assert empty.samples.shape == (0, 20, CLASSES)
        assert empty.entropy.shape == (0,)
        assert "nan" not in repr(empty)
        assert tfvn.mean_predict(model, X[:0]).shape == (0, CLASSES)

    @pytest.mark.parametrize("policy", ["float64", "mixed_float16"])
    def test_what_draws_share_is_of_the_type_of_the_layer(self, policy):
        layer = tfvn.MeanFieldDense(2, dtype=policy)
        layer.build((None, 4))
        inputs = tf.ones((3, 4), "float32")
        prepared = layer.prepare(inputs)
        assert {part.dtype.name for part in prepared} == {layer.compute_dtype}
        assert layer.redraw(prepared, 5).dtype == layer(inputs).dtype

    def test_half_precision(self):
        with_half = {"dtype": "mixed_float16"}
        model = keras.Sequential(
            [
                keras.Input((FEATURES,)),
                tfvn.MeanFieldDense(5, **models.SPREAD, **with_half),
                layers.Dropout(0.2, **with_half),
                layers.Dense(CLASSES, **with_half),
            ]
        )
        model.layers[0].bias.assign(np.ones(5))
        answer = tfvn.ensemble_predict(model, 1e3 * X, outputs="logits")
        assert answer.mean.dtype == "float32"
        assert np.isfinite(answer.entropy).all()

    def test_batches_of_different_lengths(self):
        model = keras.Sequential(
            [
                keras.Input((None, 2)),
                layers.GlobalAveragePooling1D(),
                models.mean_field("local", 3, activation="softmax"),
            ]
        )
        batches = [np.ones((16, length, 2), "float32") for length in (3, 5)]
        for size in (16, 32):
            answer = tfvn.ensemble_predict(model, iter(batches), batch_size=size)
            assert answer.mean.shape == (32, 3)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_tensors_that_all_rows_share_stay_as_they_are(self, estimator):
        class Ones(keras.Layer):
            def call(self, inputs):
                steps = keras.ops.shape(inputs)[1]
                return keras.ops.ones((1, steps, 1)) * keras.ops.max(inputs) ** 0

        inputs = keras.Input((5, FEATURES))
        hidden = models.mean_field(estimator, 2)(inputs)
        model = keras.Model(inputs, layers.Add()([hidden, Ones()(inputs)]))
        x = np.zeros((20, 5, FEATURES))
        answer = tfvn.ensemble_predict(model, x, outputs="regression", batch_size=7)
        np.testing.assert_allclose(answer.mean, np.ones((20, 5, 2)))

    def test_positions_without_a_batch_axis_stay_as_they_are(self):
        inputs = keras.Input((6, FEATURES))
        positions = Positions()(inputs)
        noise = layers.GaussianNoise(1e-9)
        model = keras.Model(inputs, noise(inputs) + positions)
        x = np.random.default_rng(0).normal(size=(20, 6, FEATURES)).astype("float32")
        answer = tfvn.ensemble_predict(model, x, 3, outputs="regression")
        np.testing.assert_allclose(answer.mean, model.predict(x, verbose=0), atol=1e-5)
        dropped = layers.Dropout(0.5)(inputs + positions)
        model = keras.Model(inputs, dropped + positions)
        samples = tfvn.ensemble_predict(
            model, x, 3, outputs="regression", return_samples=True
        ).samples
        table = np.asarray(model.layers[1].table)
        kept = np.abs(samples - table) > 1e-6
        expected = np.where(kept, 2 * (x + table)[:, None], 0) + table
        np.testing.assert_allclose(samples, expected, atol=1e-4)
        assert 0.4 < kept.mean() < 0.6

    @pytest.mark.parametrize(
        "make",
        [
            lambda: layers.GaussianNoise(1.0),
            lambda: models.mean_field("local", FEATURES),
        ],
        ids=["keras", "tfvn"],
    )
    def test_noise_on_positions_is_another_in_each_draw(self, make):
        inputs = keras.Input((6, FEATURES))
        noisy = make()(Positions()(inputs))
        model = keras.Model(inputs, inputs + layers.ReLU()(noisy))
        x = np.ones((3, 6, FEATURES), "float32")
        samples = tfvn.ensemble_predict(
            model, x, 8, outputs="regression", return_samples=True
        ).samples
        assert samples.shape == (3, 8, 6, FEATURES)
        assert samples.std(axis=1).max() > 0.1
        # All rows of a call share it.
        np.testing.assert_allclose(samples[0], samples[2], atol=1e-6)

    def test_counts_are_of_any_integer_type(self):
        kwargs = {"seed": 1, "return_samples": True}
        model = models.local()
        expected = tfvn.ensemble_predict(model, X, 3, batch_size=32, **kwargs)
        counts = {"num_samples": np.int64(3), "batch_size": np.int32(32)}
        for batch_size in (counts["batch_size"], None):
            counts["batch_size"] = batch_size
            answer = tfvn.ensemble_predict(model, X, **counts, **kwargs)
            np.testing.assert_array_equal(answer.samples, expected.samples)
            assert type(answer.num_samples) is int

    def test_the_largest_and_smallest_seeds_are_seeds(self):
        model = models.local()
        seeds = (0, 2**64 - 1, -(2**63), np.uint64(2**64 - 2))
        draws = [tfvn.ensemble_predict(model, X, 3, seed=seed).mean for seed in seeds]
        distances = [np.abs(draws[0] - draw).max() for draw in draws[1:]]
        assert min(distances) > 1e-3

    def test_an_unbuilt_model_is_built(self):
        model = keras.Sequential([models.mean_field("local", 3, activation="softmax")])
        assert tfvn.ensemble_predict(model, X).mean.shape == (6, 3)

    def test_progress_is_shown_when_asked(self, capsys):
        tfvn.ensemble_predict(models.local(), X, verbose=1, batch_size=1)
        assert "1/1" in capsys.readouterr().out
        tfvn.ensemble_predict(models.local(), X)
        assert capsys.readouterr().out == ""

    def test_long_work_shows_progress(self, capsys, monkeypatch):
        monkeypatch.setattr(batches, "_PATIENCE", 0.0)
        tfvn.ensemble_predict(models.local(), np.zeros((40, FEATURES)), batch_size=16)
        assert "3/3" in capsys.readouterr().out

    @pytest.mark.parametrize("verbose", [1, "auto"])
    @pytest.mark.parametrize("total", [11, None])
    def test_estimates_leave_the_first_batch_out(
        self, capsys, monkeypatch, verbose, total
    ):
        """The first batch takes 100 seconds, as if tracing were slow, the others 4."""
        now = [1000.0]
        monkeypatch.setattr("time.time", lambda: now[0])
        monkeypatch.setattr("time.perf_counter", lambda: now[0])
        shown = []
        for index in batches.progress(iter(range(11)), total, verbose):
            shown.append(capsys.readouterr().out)
            now[0] += 4 if index else 100
        shown.append(capsys.readouterr().out)
        # Not before the second batch, from which on there is an estimate.
        assert not any(shown[:2])
        assert " 2/11" in shown[2] if total else "2/Unknown" in shown[2]
        for index, text in enumerate(shown[2:-1], start=2):
            assert "4s/batch" in text
            if total:
                assert f"\x1b[1m{4 * (11 - index)}s\x1b[0m" in text
        assert "140s" in shown[-1]

    def test_a_slow_first_batch_alone_shows_nothing(self, capsys, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("time.perf_counter", lambda: now[0])
        for index in batches.progress(iter(range(9)), 9, "auto"):
            now[0] += 0.1 if index else 100
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize(
        ("kwargs", "words"),
        [
            ({"num_samples": 0}, "`num_samples` must be an integer of at least 1"),
            ({"batch_size": 2.5}, "`batch_size` must be an integer of at least 1"),
            ({"seed": "x"}, "`seed` must be an integer or `None`, or an array"),
            ({"seed": 2**64}, "`seed` must fit into 64 bits"),
            ({"seed": -(2**63) - 1}, "`seed` must fit into 64 bits"),
            ({"outputs": "classes"}, "`outputs` must be one of"),
            ({"outputs": ["logits"] * 2}, "one entry for each of 1 outputs"),
            ({"x": X[:, :2]}, "with examples of shapes"),
            ({"x": [X, X]}, "an array for each input"),
            ({"x": {"a": X, "b": X[:2]}}, "the same number of rows"),
            ({"x": 3.0}, "one row for each example"),
            ({"x": iter(())}, "at least one batch"),
            ({"model": sequential()}, "must have a layer that draws noise"),
            ({"model": layers.Dense(3)}, "must be a `keras.Model`"),
        ],
        ids=lambda value: str(value)[:20] if isinstance(value, str) else None,
    )
    def test_errors_are_one_sentence(self, kwargs, words):
        arguments = {"model": models.local(), "x": X, **kwargs}
        with pytest.raises(ValueError, match=words) as error:
            tfvn.ensemble_predict(**arguments)
        assert "\n" not in str(error.value)
        assert "Received: " in str(error.value)


class TestWithoutNoise:
    def test_mean_weights(self):
        model = models.two_estimators()
        hidden = model.layers[0](X)
        for layer in model.layers[1:3]:
            hidden = layer.activation(hidden @ layer.posterior.mean() + layer.bias)
        np.testing.assert_allclose(
            tfvn.mean_predict(model, X, batch_size=4),
            model.layers[3](hidden),
            atol=1e-5,
        )
        assert model.layers[1].estimator.alias == "local"

    def test_zero_means(self):
        layer = tfvn.GaussianDropoutDense(2, initial_log_alpha=0.0)
        model = keras.Sequential([keras.Input((FEATURES,)), layer])
        answer = tfvn.zero_mean_predict(
            model, X[:2], 2000, outputs="regression", return_samples=True, seed=1
        )
        variance = X[:2] ** 2 @ np.square(layer.posterior.mean().numpy())
        ztests.assert_moments(np.swapaxes(answer.samples, 0, 1), 0 * variance, variance)

    @pytest.mark.parametrize("estimator", ["weights", "flipout"])
    def test_zero_means_of_a_recurrent_layer(self, estimator):
        """The first step of a cell without activations is linear in the kernel."""
        layer = tfvn.GaussianDropoutGRU(
            1, initial_log_alpha=0.0, activation="linear", estimator=estimator
        )
        model = keras.Sequential([keras.Input((1, FEATURES)), layer])
        answer = tfvn.zero_mean_predict(
            model, X[:2, None], 500, outputs="regression", return_samples=True, seed=1
        )
        samples = answer.samples[:, :, 0]
        assert len(np.unique(samples)) > 0.9 * samples.size
        error = samples.std(axis=1) / np.sqrt(500)
        assert (np.abs(samples.mean(axis=1)) < 5 * error).all()

    def test_zero_means_need_gaussian_dropout(self):
        with pytest.raises(ValueError, match="must have a Gaussian-dropout layer"):
            tfvn.zero_mean_predict(models.local(), X)


def test_a_random_bias_has_no_rows_of_its_own():
    """Beside a kernel of mean zero, it is all that the draws have in common."""
    bias = {"bias_posterior": "mean_field", "bias_initializer": "ones"}
    layer = tfvn.VarianceDense(4, **bias)
    model = keras.Sequential([keras.Input((3,)), layer])
    answer = tfvn.ensemble_predict(model, np.ones((5, 3)), outputs="regression", seed=1)
    assert answer.mean.shape == (5, 4)
    np.testing.assert_allclose(answer.mean.mean(), 1.0, atol=0.5)
