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
from tfvn import passes
from tfvn.prediction import noise
from tfvn.prediction.ensemble import MEAN_WEIGHTS
from tfvn.prediction.sampler import sampler_of

DRAWS = 2000


def by_looping(model, x, count):
    """Draws of a model by calling it, with all noise on: (count, rows, classes)."""

    noise.prepare(model)

    @tf.function(autograph=False)
    def loop(x):
        with passes.changed(draws_noise=True):
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
        ranks = np.split(without_rounding(np.concatenate([one, other])), [len(one)])
        assert stats.ks_2samp(*ranks).pvalue > ztests.FAILURE / len(center)


def without_rounding(values):
    """Ranks of numbers, the same for those that differ by no more than rounding.

    Dropout has few outcomes. Where one of them is rounded in another way in other batches,
    a Kolmogorov-Smirnov test takes it for two.
    """
    order = np.argsort(values)
    ranks = np.zeros(len(values))
    ranks[order[1:]] = np.cumsum(np.diff(values[order]) > 2e-7)
    return ranks


@pytest.mark.one_in(2)
@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_draws_as_plain_looping_does(make):
    model = make()
    x = X[:2]
    looped, drawn = by_looping(model, x, DRAWS), by_ensemble(model, x, DRAWS)
    assert looped.std(0).max() > 5e-3
    assert_same_distribution(looped, drawn)


@pytest.mark.parametrize("estimator", ["local", "weights"])
@pytest.mark.parametrize("bias_posterior", [None, "mean_field"])
def test_draws_of_a_zero_mean_layer_are_around_its_bias(estimator, bias_posterior):
    layer = tfvn.VarianceDense(
        3,
        estimator=estimator,
        bias_posterior=bias_posterior,
        bias_initializer=keras.initializers.Constant(5.0),
    )
    model = keras.Sequential([keras.Input((4,)), layer])
    answer = tfvn.ensemble_predict(
        model,
        np.ones((2, 4)),
        300,
        seed=1,
        outputs="regression",
        return_samples=True,
        verbose=0,
    )
    ztests.assert_mean(answer.samples.swapaxes(0, 1), 5.0)


def test_the_test_of_distributions_can_fail():
    model = models.local()
    looped = by_looping(model, X[:2], DRAWS)
    wider = looped.mean(0) + 1.2 * (looped - looped.mean(0))
    with pytest.raises(AssertionError):
        assert_same_distribution(looped, wider)


@pytest.mark.one_in(5)
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
    tfvn.mean_predict(model, X), tfvn.mean_predict(model, X[:2])
    (mean,) = sampler_of(model, MEAN_WEIGHTS)._functions.values()
    tfvn.ensemble_predict(model, X)
    (again,) = sampler_of(model)._functions.values()
    assert again is function
    reference = weakref.ref(model)
    del model, function, mean, again
    gc.collect()
    assert reference() is None


def test_each_number_of_draws_has_a_trace_of_its_own():
    model = models.local()
    for count in (3, 5, 3):
        assert predict_samples(model, X, num_samples=count).shape[1] == count


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
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(model(X), model(X))
    assert model.losses == []
