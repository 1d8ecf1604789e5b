"""Lists of models: deep ensembles."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn

X = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
SEEDS = np.arange(14).reshape(7, 2)


def certain(units=3, activation="softmax"):
    layer = keras.layers.Dense(units, activation=activation, bias_initializer="normal")
    return keras.Sequential([keras.Input((4,)), layer])


def random(units=3, activation="softmax"):
    layer = tfvn.VarianceDense(units, activation=activation)
    return keras.Sequential([keras.Input((4,)), layer])


def entropy(p):
    return -(p * np.log(p)).sum(-1)


def predict(models, x=X, **options):
    return tfvn.ensemble_predict(models, x, return_samples=True, verbose=0, **options)


def test_models_without_noise_give_one_draw_each():
    models = [certain() for _ in range(4)]
    answer = predict(models)
    outputs = np.stack([model.predict(X, verbose=0) for model in models], axis=1)
    assert answer.num_samples == 4
    np.testing.assert_allclose(answer.samples, outputs, atol=1e-6)
    np.testing.assert_allclose(answer.mean, outputs.mean(1), atol=1e-6)
    np.testing.assert_allclose(answer.std, outputs.std(1), atol=1e-6)
    np.testing.assert_allclose(answer.entropy, entropy(outputs.mean(1)), atol=1e-6)
    expected = entropy(outputs).mean(1)
    np.testing.assert_allclose(answer.expected_entropy, expected, atol=1e-6)
    information = entropy(outputs.mean(1)) - expected
    np.testing.assert_allclose(answer.mutual_information, information, atol=1e-6)


@pytest.mark.parametrize("seed", [3, SEEDS], ids=["by_block", "by_row"])
def test_draws_are_those_of_each_model(seed):
    models = [random(), random()]
    answer = predict(models, num_samples=5, seed=seed)
    assert answer.num_samples == 10
    alone = predict(models[0], num_samples=5, seed=seed)
    np.testing.assert_array_equal(answer.samples[:, :5], alone.samples)
    np.testing.assert_allclose(answer.mean, answer.samples.mean(1), atol=1e-6)
    np.testing.assert_allclose(answer.std, answer.samples.std(1), atol=1e-6)
    np.testing.assert_allclose(
        answer.expected_entropy, entropy(answer.samples).mean(1), atol=1e-5
    )
    again = predict(models, num_samples=5, seed=seed)
    np.testing.assert_array_equal(answer.samples, again.samples)


@pytest.mark.parametrize("seed", [3, -1, SEEDS], ids=str)
def test_models_have_noise_of_their_own(seed):
    model = random()
    samples = predict([model, model, model], num_samples=2, seed=seed).samples
    draws = samples.reshape(7, 6, 3)
    for first in range(6):
        for second in range(first):
            assert not np.any(draws[:, first] == draws[:, second])


def test_models_with_and_without_noise_count_equally():
    models = [random(), certain()]
    answer = predict(models, num_samples=3, seed=1)
    one, other = (predict([model], num_samples=3, seed=1) for model in models)
    np.testing.assert_allclose(answer.mean, (one.mean + other.mean) / 2, atol=1e-6)
    np.testing.assert_allclose(answer.samples.mean(1), answer.mean, atol=1e-6)
    assert answer.num_samples == 6


def test_single_probabilities_have_binary_entropies():
    models = [certain(1, "sigmoid"), certain(1, "sigmoid")]
    answer = predict(models)
    p = answer.mean[:, 0]
    expected = -p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(answer.entropy, expected, atol=1e-6)


def test_distributions_are_mixed():
    def model():
        found = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        found.compile("sgd", tfvn.losses.GaussianNLL(scale=0.5))
        return found

    models = [model(), model(), model()]
    answer = predict(models)
    means = np.stack([m.predict(X, verbose=0) for m in models], axis=1)
    np.testing.assert_allclose(answer.mean, means.mean(1), atol=1e-6)
    np.testing.assert_allclose(answer.epistemic_std, means.std(1), atol=1e-6)
    np.testing.assert_allclose(answer.std**2, 0.25 + means.var(1), atol=1e-5)
    assert answer.interval(0.9)[0].shape == (7, 1)
    assert answer.samples.shape == (7, 3, 1)


def test_several_outputs():
    def model():
        x = keras.Input((4,))
        heads = {
            "a": keras.layers.Dense(3, "softmax", name="a")(x),
            "b": keras.layers.Dense(1, "sigmoid", name="b")(x),
        }
        return keras.Model(x, heads)

    models = [model(), model()]
    answer = predict(models)
    assert sorted(answer) == ["a", "b"]
    outputs = np.mean([m.predict(X, verbose=0)["b"] for m in models], axis=0)
    np.testing.assert_allclose(answer["b"].mean, outputs, atol=1e-6)


@pytest.mark.parametrize("kind", ["generator", "shuffled", "steps"])
def test_all_models_see_the_same_rows(kind):
    rows = tf.data.Dataset.from_tensor_slices(X)
    data, options = {
        "generator": ((X[i : i + 2] for i in range(0, 7, 2)), {}),
        "shuffled": (rows.shuffle(7).batch(2), {}),
        "steps": (rows.repeat().batch(7), {"steps": 1}),
    }[kind]
    model = certain()
    samples = predict([model, model], data, **options).samples
    assert len(samples) == 7
    # Rows in another order would differ.
    np.testing.assert_array_equal(samples[:, 0], samples[:, 1])


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (list, "a list of at least one"),
        (lambda: [certain(), "model"], "must be a `keras.Model`. Received: model=str"),
        (lambda: [certain(3), certain(2)], r"classes of shape \(3,\).*\(2,\)"),
        (lambda: certain(), "must have a layer that draws noise"),
    ],
)
def test_refusals(models, message):
    with pytest.raises(ValueError, match=message):
        predict(models())
