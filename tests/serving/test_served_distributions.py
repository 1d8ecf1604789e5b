"""Exports of models whose outputs are parameters of a distribution of the target."""

import json

import keras
import numpy as np
import pytest
from loader import LoadedModel
from scipy import stats

import tfvn
from tfvn.serving import card

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
SAMPLES = 50


def head(likelihood, targets=1):
    posterior = tfvn.posteriors.MeanField(scale_initializer=0.3)
    last = tfvn.layers.LikelihoodHead(targets, likelihood, posterior, prior=None)
    return keras.Sequential([keras.Input((4,)), last], name="regression")


@pytest.mark.exhaustive
def test_a_normal(tmp_path):
    model = head("normal", 2)
    path = tfvn.export_ensemble(model, tmp_path / "m", SAMPLES, interval=0.8)
    served = LoadedModel(path)
    answer = served({"inputs": X})
    assert {name: value.shape for name, value in answer.items()} == dict.fromkeys(
        ["mean", "std", "aleatoric_std", "epistemic_std", "lower", "upper"], (3, 2)
    )
    # Of a second answer with the same distribution: all figures, within their noise.
    expected = tfvn.ensemble_predict(model, X, num_samples=4_000, seed=1)
    error = 4 * expected.epistemic_std / np.sqrt(SAMPLES)
    assert (np.abs(answer["mean"] - expected.mean) < error + 1e-6).all()
    for name in ("std", "aleatoric_std", "epistemic_std"):
        np.testing.assert_allclose(answer[name], getattr(expected, name), rtol=0.6)
    total = answer["aleatoric_std"] ** 2 + answer["epistemic_std"] ** 2
    np.testing.assert_allclose(answer["std"] ** 2, total, rtol=1e-5)
    seeded = served({"inputs": X, "seed": np.arange(6).reshape(3, 2)}, "seeded")
    mass = expected.cdf(seeded["upper"]) - expected.cdf(seeded["lower"])
    assert np.abs(mass - 0.8).max() < 0.2
    # Draws of the target have all of its spread, not that of the means alone.
    samples = np.concatenate(
        [served({"inputs": X}, "samples")["samples"] for _ in range(20)], axis=1
    )
    assert samples.shape == (3, 20 * SAMPLES, 2)
    ranks = [expected.cdf(samples[:, index]) for index in range(20 * SAMPLES)]
    ranks = np.moveaxis(ranks, 0, -1)
    for rank in ranks.reshape(6, -1):
        assert stats.kstest(rank, "uniform").pvalue > 1e-4
    # A pass without noise is one Normal.
    pass_ = served({"inputs": X}, "mean")
    outputs = tfvn.mean_predict(model, X)
    np.testing.assert_allclose(pass_["mean"], outputs[:, :2], atol=1e-5)
    np.testing.assert_allclose(
        pass_["aleatoric_std"], np.exp(outputs[:, 2:]), rtol=1e-5
    )
    facts = card.read(path)
    assert (facts["outputs"], facts["interval"]) == (["normal"], 0.8)
    assert "probability 0.8" in (path / card.FOLDER / card.CARD).read_text()
    json.dumps(facts)


@pytest.mark.exhaustive
def test_a_known_scale_and_counts(tmp_path):
    model = keras.Sequential([keras.Input((4,)), tfvn.MeanFieldDense(1, prior=None)])
    model.compile("sgd", tfvn.losses.GaussianNLL(scale=0.3))
    path = tfvn.export_ensemble(model, tmp_path / "known", 4)
    answer = LoadedModel(path)({"inputs": X})
    assert set(answer) == {"mean", "std", "aleatoric_std", "epistemic_std"}
    np.testing.assert_allclose(answer["aleatoric_std"], 0.3, rtol=1e-5)
    model.compile("sgd", tfvn.losses.PoissonNLL())
    path = tfvn.export_ensemble(model, tmp_path / "counts", 4, interval=0.9)
    served = LoadedModel(path)
    answer = served({"inputs": X})
    integers = [answer["lower"], answer["upper"]]
    integers.append(served({"inputs": X}, "samples")["samples"])
    for values in integers:
        assert (values >= 0).all()
        np.testing.assert_array_equal(values, np.round(values))


def test_refusals(tmp_path):
    model = head("normal")
    for bad in (0, 1.0, 90, "0.9"):
        with pytest.raises(ValueError, match=r"Argument `interval`.*smaller than 1"):
            tfvn.export_ensemble(model, tmp_path / "m", 2, interval=bad)
    with pytest.raises(ValueError, match=r"`interval` must be `None`.*'regression'"):
        tfvn.export_ensemble(
            model, tmp_path / "m", 2, outputs="regression", interval=0.9
        )


def test_spreads_that_leave_float32(tmp_path):
    """The cause is the model's; nothing is wrong with the rows."""
    inputs = keras.Input((4,))
    outputs = tfvn.layers.LikelihoodHead(1, "log_normal", "mean_field")(inputs)
    outputs = keras.ops.add(outputs, np.array([0.0, np.log(12.0)], "float32"))
    model = keras.Model(inputs, outputs)
    with pytest.raises(ValueError, match=r"^The results .* log-normal .*std") as raised:
        tfvn.export_ensemble(model, tmp_path / "m", 2, outputs="log_normal")
    assert "example" not in str(raised.value)


def test_scalar_binary_outputs(tmp_path):
    layers = [tfvn.MeanFieldDense(1, "sigmoid", prior=None), keras.layers.Reshape(())]
    model = keras.Sequential([keras.Input((4,)), *layers])
    path = tfvn.export_ensemble(
        model, tmp_path / "m", 3, outputs="binary_probabilities"
    )
    served = LoadedModel(path)
    answer = {**served({"inputs": X}), **served({"inputs": X}, "mean")}
    assert {value.shape for value in answer.values()} == {(3,)}
    p = served({"inputs": X}, "mean")["mean"]
    expected = -p * np.log(p) - (1 - p) * np.log(1 - p)
    np.testing.assert_allclose(answer["entropy"], expected, atol=1e-5)
