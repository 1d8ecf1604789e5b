"""Ensembles: the distribution of plain looping, for less, and reproducible."""

import gc
import weakref

import keras
import models
import numpy as np
import pytest
import tensorflow as tf
import ztests
from keras import layers
from models import CLASSES, FEATURES, MODELS, X, sequential
from scipy import stats

import tfvn
from tfvn.prediction import noise
from tfvn.prediction.sampler import sampler_of

DRAWS = 2000


def by_looping(model, x, count):
    """Draws of a model by calling it, with all noise on: (count, rows, classes)."""

    @tf.function(autograph=False)
    def loop(x):
        with noise.drawing(model):
            return tf.map_fn(
                lambda _: model(x, training=False),
                tf.range(count),
                fn_output_signature="float32",
                parallel_iterations=1,
            )

    return loop(x).numpy()


def by_ensemble(model, x, count):
    """The same of ensembles of 200, each with a seed of its own."""
    return np.concatenate(
        [
            np.swapaxes(predict_samples(model, x, num_samples=200, seed=index), 0, 1)
            for index in range(count // 200)
        ]
    )


def predict_samples(model, x, **kwargs):
    kwargs.setdefault("outputs", "probabilities")
    return tfvn.ensemble_predict(model, x, return_samples=True, **kwargs).samples


def assert_same_distribution(first, second):
    """z-tests of means, variances and covariances between classes and between rows."""
    flat = [
        draws.reshape(len(draws), -1).astype("float64") for draws in (first, second)
    ]
    center = np.concatenate(flat).mean(0)
    flat = [draws - center for draws in flat]
    for moments in (
        flat,
        [
            (draws[:, :, None] * draws[:, None]).reshape(len(draws), -1)
            for draws in flat
        ],
    ):
        error = np.sqrt(sum(m.var(0) / len(m) for m in moments))
        distance = np.abs(moments[0].mean(0) - moments[1].mean(0))
        score = distance / np.maximum(error, 1e-6)
        assert score.max() < ztests.threshold(score.size)
    for one, other in zip(*(draws.T for draws in flat), strict=True):
        assert stats.ks_2samp(one, other).pvalue > ztests.FAILURE / len(center)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_draws_as_plain_looping_does(make):
    model = make()
    x = X[:2]
    looped, drawn = by_looping(model, x, DRAWS), by_ensemble(model, x, DRAWS)
    assert looped.std(0).max() > 5e-3
    assert_same_distribution(looped, drawn)


def test_the_test_of_distributions_can_fail():
    model = models.local()
    looped = by_looping(model, X[:2], DRAWS)
    wider = looped.mean(0) + 1.2 * (looped - looped.mean(0))
    with pytest.raises(AssertionError):
        assert_same_distribution(looped, wider)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_seed_determines_draws_whatever_the_batches(make):
    model = make()
    x = np.random.default_rng(1).normal(size=(40, FEATURES)).astype("float32")
    expected = predict_samples(model, x, seed=5)
    for batch_size in (7, 40):
        again = predict_samples(model, x, seed=5, batch_size=batch_size)
        np.testing.assert_allclose(again, expected, atol=1e-5)
    dataset = tf.data.Dataset.from_tensor_slices((x, x[:, 0])).batch(9)
    sources = [dataset, (x[start : start + 11] for start in range(0, 40, 11))]
    for source in sources:
        again = predict_samples(model, source, seed=5)
        np.testing.assert_allclose(again, expected, atol=1e-5)
    assert np.abs(predict_samples(model, x, seed=6) - expected).max() > 1e-2


def test_without_a_seed_noise_is_fresh_and_reproducible():
    model = models.local()
    keras.utils.set_random_seed(3)
    first, second = predict_samples(model, X), predict_samples(model, X)
    assert np.abs(first - second).max() > 1e-2
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(predict_samples(model, X), first)


def test_rows_and_blocks_have_noise_of_their_own():
    model = models.local()
    samples = predict_samples(model, np.repeat(X[:1], 64, axis=0), num_samples=200)
    logits = np.log(samples)[:, :, 0]  # (64 rows, 200 draws)
    correlations = np.corrcoef(logits)[~np.eye(64, dtype=bool)]
    assert np.abs(correlations).max() < stats.norm.isf(1e-6) / np.sqrt(200) * 1.3
    # And no two draws of a row are the same.
    assert len(np.unique(logits[0])) == 200


def test_rows_share_the_kernels_of_a_draw():
    model = models.weights()
    x = np.repeat(X[:1], 50, axis=0)
    samples = predict_samples(model, x, batch_size=8)
    np.testing.assert_allclose(
        samples, np.broadcast_to(samples[:1], samples.shape), atol=1e-6
    )
    # Flipout shares them too, but for the signs, in other batches as well.
    flipped = predict_samples(models.flipout(), x, num_samples=50)[:, :, 0]
    assert np.corrcoef(flipped)[0, 16:].max() < 0.9


class Counting(keras.Layer):
    """Counts how many rows pass through, in `rows`."""

    def __init__(self):
        super().__init__()
        self.rows = self.add_weight(
            initializer="zeros", trainable=False, autocast=False
        )

    def call(self, inputs):
        self.rows.assign_add(tf.cast(tf.shape(inputs)[0], "float32"))
        return inputs

    def counted(self):
        rows = int(self.rows.numpy())
        self.rows.assign(0.0)
        return rows


@pytest.mark.parametrize(
    ("noisy", "after"),
    [
        (lambda: models.mean_field("local"), 20),
        (lambda: models.mean_field("weights"), 20),
        (lambda: layers.Dropout(0.5), 20),
    ],
    ids=["local", "weights", "dropout"],
)
def test_what_precedes_the_noise_is_computed_once(noisy, after):
    before, behind = Counting(), Counting()
    model = sequential(before, noisy(), behind)
    before.counted(), behind.counted()
    predict_samples(model, X, num_samples=20)
    assert before.counted() == len(X)
    assert behind.counted() == after * len(X)


def test_a_branch_and_a_nested_model_are_cut_where_the_noise_begins():
    before, beside, behind = Counting(), Counting(), Counting()
    inner_inputs = keras.Input((FEATURES,))
    inner = keras.Model(
        inner_inputs, behind(layers.Dropout(0.5)(before(layers.Dense(5)(inner_inputs))))
    )
    inputs = keras.Input((FEATURES,))
    merged = layers.concatenate([inner(inputs), beside(layers.Dense(2)(inputs))])
    model = keras.Model(inputs, layers.Dense(CLASSES, "softmax")(merged))
    for layer in (before, beside, behind):
        layer.counted()
    predict_samples(model, X, num_samples=20)
    assert [before.counted(), beside.counted(), behind.counted()] == [6, 6, 120]


def test_moments_of_the_first_layer_are_computed_once(monkeypatch):
    rows = []
    own = tfvn.layers.Dense.linear_op

    def linear_op(self, inputs, kernel):
        tf.py_function(lambda x: rows.append(len(x)), [inputs], [])
        return own(self, inputs, kernel)

    monkeypatch.setattr(tfvn.layers.Dense, "linear_op", linear_op)
    model = models.local()
    rows.clear()
    predict_samples(model, X, num_samples=20)
    assert rows == [6, 6]  # the mean and the variance


def test_no_retrace_per_call_and_no_model_kept_alive():
    model = models.local()
    for seed, rows in ((0, 6), (1, 3), (None, 1)):
        tfvn.ensemble_predict(model, X[:rows], seed=seed, batch_size=2)
    (function,) = sampler_of(model)._functions.values()
    assert function.experimental_get_tracing_count() == 1
    tfvn.mean_predict(model, X), tfvn.mean_predict(model, X[:2])
    (mean,) = sampler_of(model, "mean")._functions.values()
    assert mean.experimental_get_tracing_count() == 1
    reference = weakref.ref(model)
    del model, function, mean
    gc.collect()
    assert reference() is None


def test_changed_weights_and_layers_are_seen():
    model = models.local()
    before = predict_samples(model, X, seed=1)
    model.layers[-1].set_weights([2 * w for w in model.layers[-1].get_weights()])
    assert np.abs(predict_samples(model, X, seed=1) - before).max() > 1e-2
    model.layers[1].estimator = tfvn.estimators.get("weights")
    same = predict_samples(model, np.repeat(X[:1], 3, axis=0), seed=1)
    np.testing.assert_allclose(same[0], same[1], atol=1e-6)


def test_layers_and_noise_streams_are_left_as_they_were():
    model = models.mc_dropout()
    weights = [w.copy() for w in model.get_weights()]
    states = [g.state.numpy().copy() for g in (model.layers[2].seed_generator,)]
    tfvn.ensemble_predict(model, X)
    np.testing.assert_array_equal(
        model.layers[2].seed_generator.state.numpy(), states[0]
    )
    assert "call" not in vars(model.layers[2])
    assert "next" not in vars(model.layers[2].seed_generator)
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(model(X), model(X))
    assert model.losses == []


def test_masks_reach_layers_behind_the_noise():
    model = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            layers.Embedding(10, 4, mask_zero=True),
            layers.Dropout(1e-6),
            layers.LSTM(3),
            layers.Dense(CLASSES, "softmax"),
        ]
    )
    x = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 7]])
    answer = tfvn.ensemble_predict(model, x, num_samples=2)
    np.testing.assert_allclose(answer.mean, model(x), atol=1e-5)


def test_several_inputs_and_outputs():
    first, second = keras.Input((FEATURES,), name="a"), keras.Input((2,), name="b")
    hidden = models.mean_field("local")(layers.concatenate([first, second]))
    outputs = {
        "digit": layers.Dense(CLASSES, "softmax")(hidden),
        "size": layers.Dense(1)(hidden),
        "plain": layers.Dense(2)(first),
    }
    model = keras.Model({"a": first, "b": second}, outputs)
    x = {"a": X, "b": X[:, :2]}
    kinds = ["probabilities", "regression", "regression"]
    kinds = [kinds[["digit", "size", "plain"].index(key)] for key in sorted(outputs)]
    answer = tfvn.ensemble_predict(model, x, outputs=kinds, num_samples=4)
    assert answer["digit"].entropy.shape == (6,)
    assert answer["size"].entropy is None
    assert answer["size"].std.min() > 0
    assert answer["plain"].std.max() == 0


class TestFigures:
    def expected(self, samples):
        """Entropy, expected entropy and mutual information by NumPy."""
        samples = samples.astype("float64")

        def entropy(p):
            return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)

        total, expected = entropy(samples.mean(1)), entropy(samples).mean(1)
        return total, expected, total - expected

    @pytest.mark.parametrize("outputs", ["logits", "probabilities"])
    def test_classes(self, outputs):
        activation = "softmax" if outputs == "probabilities" else None
        model = sequential(models.mean_field("local"), activation=activation)
        answer = tfvn.ensemble_predict(model, X, outputs=outputs, return_samples=True)
        assert answer.samples.shape == (6, 20, CLASSES)
        np.testing.assert_allclose(answer.samples.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(answer.mean, answer.samples.mean(1), atol=1e-6)
        np.testing.assert_allclose(answer.std, answer.samples.std(1), atol=1e-6)
        figures = self.expected(answer.samples)
        names = ("entropy", "expected_entropy", "mutual_information")
        for name, figure in zip(names, figures, strict=True):
            np.testing.assert_allclose(getattr(answer, name), figure, atol=1e-5)
        assert answer.mutual_information.min() > 1e-3

    @pytest.mark.parametrize(
        "outputs", ["binary_logits", "binary_probabilities", "logits"]
    )
    def test_one_binary_output(self, outputs):
        last = layers.Dense(1, None if "logits" in outputs else "sigmoid")
        model = keras.Sequential(
            [keras.Input((FEATURES,)), models.mean_field("local"), last]
        )
        answer = tfvn.ensemble_predict(model, X, outputs=outputs, return_samples=True)
        both = np.concatenate([answer.samples, 1 - answer.samples], axis=-1)
        names = ("entropy", "expected_entropy", "mutual_information")
        for name, figure in zip(names, self.expected(both), strict=True):
            assert getattr(answer, name).shape == (6,)
            np.testing.assert_allclose(getattr(answer, name), figure, atol=1e-5)

    def test_regression(self):
        model = keras.Sequential(
            [keras.Input((FEATURES,)), models.mean_field("local", 2)]
        )
        answer = tfvn.ensemble_predict(
            model, X, outputs="regression", return_samples=True
        )
        np.testing.assert_allclose(answer.mean, answer.samples.mean(1), atol=1e-6)
        assert answer.entropy is answer.mutual_information is None
        assert set(answer.to_dict()) == {"mean", "std", "samples"}

    @pytest.mark.parametrize("kind", ["logits", "binary_logits"])
    def test_extreme_logits_give_no_nan(self, kind):
        values = [0.0, 1e38, -1e38, np.inf, -np.inf]
        draws = tf.constant([[[a, b] for a in values for b in values]])
        for part in tfvn.prediction.outputs.summarize(draws, kind).values():
            assert np.isfinite(part).all()

    def test_repr_names_what_there_is(self):
        answer = tfvn.ensemble_predict(models.local(), X, num_samples=3)
        lines = repr(answer).splitlines()
        assert lines[0] == "EnsemblePrediction with num_samples=3:"
        assert lines[1].split() == ["mean", "float32", "(6,", "3)"]
        assert len(answer) == 6
        assert answer.samples is None


class TestKinds:
    @pytest.mark.parametrize(
        ("activation", "loss", "kind"),
        [
            ("softmax", None, "probabilities"),
            ("sigmoid", None, "binary_probabilities"),
            (
                None,
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                "logits",
            ),
            (None, keras.losses.BinaryCrossentropy(from_logits=True), "binary_logits"),
            (None, "mse", "regression"),
            (None, "categorical_crossentropy", "probabilities"),
            (None, tfvn.losses.GaussianNLL(scale=1.0), "regression"),
        ],
    )
    def test_are_inferred(self, activation, loss, kind):
        model = sequential(models.mean_field("local"), activation=activation)
        if loss is not None:
            model.compile("sgd", loss)
        assert tfvn.prediction.outputs.find_kinds(model, "auto") == [kind]

    def test_an_activation_layer_and_a_nested_model_tell(self):
        inner = sequential(models.mean_field("local"))
        inputs = keras.Input((FEATURES,))
        assert (
            tfvn.ensemble_predict(keras.Model(inputs, inner(inputs)), X).entropy
            is not None
        )
        model = sequential(models.mean_field("local"), activation=None)
        model.add(layers.Softmax())
        assert tfvn.ensemble_predict(model, X).entropy is not None

    @pytest.mark.parametrize("form", ["list", "dictionary"])
    def test_losses_by_name_are_those_of_the_outputs(self, form):
        inputs = keras.Input((FEATURES,))
        hidden = models.mean_field("local")(inputs)
        outputs = [
            layers.Dense(1, name="size")(hidden),
            layers.Dense(CLASSES, name="digit")(hidden),
        ]
        names = ["size", "digit"]
        if form == "dictionary":
            # Keys need not be the names of layers.
            names = ["amount", "class"]
            outputs = dict(zip(names, outputs, strict=True))
        model = keras.Model(inputs, outputs)
        crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", dict(zip(names, ["mse", crossentropy], strict=True)))
        answer = tfvn.ensemble_predict(model, X, num_samples=2)
        size, digit = (answer[i if form == "list" else names[i]] for i in range(2))
        assert size.entropy is None
        assert digit.entropy is not None

    def test_silence_is_refused(self):
        model = sequential(models.mean_field("local"), activation=None)
        with pytest.raises(ValueError, match="says what the model's outputs are"):
            tfvn.ensemble_predict(model, X)


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
        answer = tfvn.ensemble_predict(model, iter(batches), batch_size=16)
        assert answer.mean.shape == (32, 3)
        with pytest.raises(ValueError, match="same size on axis 1, or") as error:
            tfvn.ensemble_predict(model, iter(batches), batch_size=32)
        assert "Received: rows of shapes (3, 2) and (5, 2)" in str(error.value)

    @pytest.mark.parametrize("estimator", ["local", "weights"])
    def test_tensors_that_all_rows_share_stay_as_they_are(self, estimator):
        class Positions(keras.Layer):
            def call(self, inputs):
                steps = keras.ops.shape(inputs)[1]
                return keras.ops.ones((1, steps, 1)) * keras.ops.max(inputs) ** 0

        inputs = keras.Input((5, FEATURES))
        hidden = models.mean_field(estimator, 2)(inputs)
        model = keras.Model(inputs, layers.Add()([hidden, Positions()(inputs)]))
        x = np.zeros((20, 5, FEATURES))
        answer = tfvn.ensemble_predict(model, x, outputs="regression", batch_size=7)
        np.testing.assert_allclose(answer.mean, np.ones((20, 5, 2)))

    def test_an_unbuilt_model_is_built(self):
        model = keras.Sequential([models.mean_field("local", 3, activation="softmax")])
        assert tfvn.ensemble_predict(model, X).mean.shape == (6, 3)

    def test_progress_is_shown_when_asked(self, capsys):
        tfvn.ensemble_predict(models.local(), X, verbose=1, batch_size=1)
        assert "1/1" in capsys.readouterr().out
        tfvn.ensemble_predict(models.local(), X)
        assert capsys.readouterr().out == ""

    def test_long_work_shows_progress(self, capsys, monkeypatch):
        monkeypatch.setattr(tfvn.prediction.ensemble, "_PATIENCE", 0.0)
        tfvn.ensemble_predict(models.local(), np.zeros((40, FEATURES)), batch_size=16)
        assert "3/3" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("kwargs", "words"),
        [
            ({"num_samples": 0}, "`num_samples` must be an integer of at least 1"),
            ({"batch_size": 2.5}, "`batch_size` must be an integer of at least 1"),
            ({"seed": "x"}, "`seed` must be an integer or `None`"),
            ({"outputs": "classes"}, "`outputs` must be one of"),
            ({"outputs": ["logits"] * 2}, "one kind for each of 1 outputs"),
            ({"x": X[:, :2]}, "with examples of shapes"),
            ({"x": [X, X]}, "an array for each input"),
            ({"x": {"a": X, "b": X[:2]}}, "as many in each"),
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

    def test_zero_means_need_gaussian_dropout(self):
        with pytest.raises(ValueError, match="must have a Gaussian-dropout layer"):
            tfvn.zero_mean_predict(models.local(), X)
