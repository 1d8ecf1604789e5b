"""Noise of rows with a seed each: no two are the same, whatever the seeds."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn
from tfvn.prediction.sampler import Sampler
from tfvn.serving import card

ROWS, DRAWS = 8, 5
# 2**32 divided by the golden ratio, by which many a hash goes.
GOLDEN = 0x9E3779B9


def two_noises():
    """Two layers that draw for each row, side by side."""
    inputs = keras.Input((2,))
    noises = [keras.layers.GaussianNoise(1.0)(inputs) for _ in range(2)]
    return keras.Model(inputs, keras.layers.concatenate(noises))


def kernels():
    """Layers of which each row and draw gets a kernel of its own."""
    layers = [tfvn.MeanFieldDense(2, estimator="weights", prior=None) for _ in range(2)]
    inputs = keras.Input((3, 2))
    outputs = keras.layers.concatenate([layer(inputs + 1.0) for layer in layers])
    return keras.Model(inputs, outputs[:, 0])


class Steps(keras.Layer):
    """A cell whose outputs are noise alone."""

    state_size = output_size = 2

    def __init__(self):
        super().__init__()
        self.noise = keras.layers.GaussianNoise(1.0)

    def call(self, inputs, states):
        return self.noise(inputs), states


def steps():
    return keras.Sequential(
        [keras.Input((3, 2)), keras.layers.RNN(Steps(), return_sequences=True)]
    )


@pytest.mark.parametrize("make", [two_noises, kernels, steps])
@pytest.mark.parametrize("stride", [1, GOLDEN])
def test_neighbouring_seeds_share_nothing(make, stride):
    model = make()
    sampler = Sampler(model, by_row=True)
    inputs = tf.zeros([ROWS, *model.input_shape[1:]])
    seconds = (np.arange(ROWS) * stride).astype("uint32").view("int32")
    seeds = np.stack([np.full(ROWS, 7, "int32"), seconds], axis=1)

    @tf.function(autograph=False)
    def draw(inputs, seeds):
        parts = DRAWS, ["regression"], ("samples",)
        summaries, _ = sampler.summarize(inputs, seeds, 0, [], *parts)
        return summaries[0]["samples"]

    samples = draw(inputs, tf.constant(seeds)).numpy()
    assert samples.shape[:2] == (ROWS, DRAWS)
    assert len(np.unique(samples)) == samples.size


def dense(estimator):
    """Kernels that a row would have for itself, or outputs that are equal in law."""
    layers = [
        tfvn.MeanFieldDense(4, activation="tanh", estimator=estimator),
        tfvn.KTiedDense(3, activation="softmax", estimator=estimator),
    ]
    return keras.Sequential([keras.Input((5,)), *layers])


def convolution():
    """Kernels of each row that nothing stands for, and noise of Keras's own."""
    layers = [
        tfvn.VarianceConv1D(2, 2, estimator="weights"),
        keras.layers.Dropout(0.5),
        keras.layers.Flatten(),
        keras.layers.Dense(3),
    ]
    return keras.Sequential([keras.Input((5, 2)), *layers])


def head():
    """The parameters of a distribution, beside a recurrent layer."""
    layers = [
        tfvn.MeanFieldGRU(3, estimator="flipout"),
        tfvn.layers.NormalHead(1),
    ]
    return keras.Sequential([keras.Input((4, 2)), *layers])


ANSWERS = {
    "local": (lambda: dense("local"), "probabilities", 1e-5, 0.0),
    "weights": (lambda: dense("weights"), "probabilities", 1e-5, 0.0),
    "convolution": (convolution, "regression", 1e-6, 1e-4),
    "head": (head, "normal", 1e-6, 1e-4),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_seeds_of_rows_are_those_of_an_export(name, tmp_path):
    make, outputs, atol, rtol = ANSWERS[name]
    model = make()
    rng = np.random.default_rng(0)
    x = rng.normal(size=[ROWS, *model.input_shape[1:]]).astype("float32")
    seeds = rng.integers(-(2**31), 2**31, size=[ROWS, 2]).astype("int32")
    interval = 0.9 if outputs == "normal" else None
    export = tfvn.export_ensemble(
        model, tmp_path / "model", DRAWS, outputs=outputs, interval=interval
    )
    ask = tf.saved_model.load(export).signatures["seeded"]

    def assert_same(rows, batch_size):
        served = ask(inputs=tf.constant(x[rows]), seed=tf.constant(seeds[rows]))
        answer = tfvn.ensemble_predict(
            model, x, DRAWS, batch_size, seed=seeds, outputs=outputs
        )
        found = {key: getattr(answer, key, None) for key in served}
        if interval is not None:
            found["lower"], found["upper"] = answer.interval(interval)
        assert {"mean", "std"} <= set(served)
        for key, value in served.items():
            np.testing.assert_allclose(found[key][rows], value, rtol, atol, err_msg=key)

    for rows in (slice(None), slice(2, 3), slice(7, 2, -2)):
        assert_same(rows, batch_size=3)


@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_the_card_names_what_stands_for_a_kernel_per_row(estimator, tmp_path):
    model = dense(estimator)
    card.write(tmp_path, model, 2, ["probabilities"], ["seeded"], None)
    facts = json.loads((tmp_path / card.FACTS).read_text())
    assert [row["estimator"] for row in facts["layers"]] == [estimator] * 2
    assert [row["drawn_by"] for row in facts["layers"]] == ["local"] * 2
    text = (tmp_path / card.CARD).read_text()
    names = ", ".join(f"`{layer.name}`" for layer in model.layers)
    assert (f"Layers {names} sample their outputs" in text) == (estimator == "weights")


def test_draws_of_a_row_depend_on_its_seed_alone():
    model = dense("weights")
    x = np.ones((4, 5), "float32")
    seeds = np.int64([[1, 2], [3, 4], [1, 2], [5, 6]])

    def samples(x, seeds, **kwargs):
        return tfvn.ensemble_predict(
            model, x, DRAWS, seed=seeds, return_samples=True, **kwargs
        ).samples

    found = samples(x, seeds)
    np.testing.assert_array_equal(found[0], found[2])
    assert (found[0] != found[1]).all()
    np.testing.assert_allclose(samples(x[3:], seeds[3:]), found[3:], atol=1e-6)
    stream = tf.data.Dataset.from_tensor_slices(x).batch(3)
    np.testing.assert_allclose(samples(stream, seeds), found, atol=1e-6)
    assert samples(x[:0], seeds[:0]).shape == (0, DRAWS, 3)


def test_targets_depend_on_the_seed_of_their_row():
    model = head()
    x, seeds = np.ones((2, 4, 2), "float32"), np.int32([[1, 2], [1, 3]])
    first, again = (
        tfvn.ensemble_predict(
            model, x[:rows], DRAWS, seed=seeds[:rows], return_samples=True
        ).samples
        for rows in (2, 1)
    )
    assert first.shape == (2, DRAWS, 1)
    np.testing.assert_allclose(again, first[:1], rtol=1e-5)
    assert (first[0] != first[1]).all()


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (np.zeros((3, 2), "int32"), r"seed of shape \(3, 2\) for 4 rows"),
        (np.zeros((5, 2), "int32"), r"seed of shape \(5, 2\) for 4 rows"),
        (np.zeros((4, 3), "int32"), r"seed of shape \(4, 3\) and dtype int32"),
        (np.zeros(4, "int32"), r"seed of shape \(4,\) and dtype int32"),
        (np.zeros((4, 2)), r"seed of shape \(4, 2\) and dtype float64"),
        (np.full((4, 2), 2**31), "values from 2147483648 to 2147483648"),
        ([[1, 2], [3]], "Argument `seed`"),
    ],
)
def test_refuses_seeds(seed, message):
    model, x = dense("local"), np.ones((4, 5), "float32")
    for data in (x, tf.data.Dataset.from_tensor_slices(x).batch(3)):
        with pytest.raises(ValueError, match=message):
            tfvn.ensemble_predict(model, data, 2, seed=seed)


def test_refuses_seeds_of_rows_that_depend_on_others():
    layer = keras.layers.LSTM(3, stateful=True, dropout=0.5)
    model = keras.Sequential([keras.Input((4, 2), batch_size=2), layer])
    with pytest.raises(ValueError, match="`seed` must be an integer"):
        tfvn.ensemble_predict(
            model, np.ones((2, 4, 2)), seed=np.ones((2, 2), int), outputs="regression"
        )
