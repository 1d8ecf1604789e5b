"""Every family of layers, exported and asked, against `tfvn.ensemble_predict`."""

import harness
import keras
import numpy as np
import pytest
import tensorflow as tf
import ztests
from loader import LoadedModel

import tfvn
from tfvn.layers.base import stochastic_layers

NUM_SAMPLES = 20
ROWS = 60

POSTERIORS = ("variance", "gaussian_dropout", "mean_field", "k_tied")
ESTIMATORS = ("local", "weights", "flipout")
VECTOR, SEQUENCE, IMAGE = (5,), (6, 4), (5, 5, 2)


def random_layer(kind, *args, **kwargs):
    return lambda: getattr(tfvn.layers, kind)(*args, prior=None, **kwargs)


def keras_layer(kind, *args, **kwargs):
    return lambda: getattr(keras.layers, kind)(*args, **kwargs)


def noise_layer(kind, *args, **kwargs):
    return lambda: getattr(tfvn, kind)(*args, **kwargs)


# A family is a name, the shape of a row, and a maker of the layers that draw.
FAMILIES = {
    "variance dense": (VECTOR, random_layer("Dense", 4, posterior="variance")),
    "mean field dense, weights": (
        VECTOR,
        random_layer("Dense", 4, posterior="mean_field", estimator="weights"),
    ),
    "k-tied dense, flipout": (
        VECTOR,
        random_layer("Dense", 4, posterior="k_tied", estimator="flipout"),
    ),
    "mean field dense on sequences, weights": (
        SEQUENCE,
        random_layer("Dense", 3, posterior="mean_field", estimator="weights"),
    ),
    "gaussian dropout convolution": (
        IMAGE,
        random_layer("Conv2D", 3, 3, posterior="gaussian_dropout"),
    ),
    "k-tied LSTM": (SEQUENCE, random_layer("LSTM", 4, posterior="k_tied")),
    "dropout": (VECTOR, keras_layer("Dropout", 0.4)),
    "noisy dense": (VECTOR, noise_layer("NoisyDense", 4, noise="rayleigh")),
}

# Layers by name: the shape of a row, and arguments.
FEED_FORWARD = {
    "Dense": (VECTOR, (4,)),
    "EinsumDense": (SEQUENCE, ("bti,io->bto", (6, 3))),
    "DepthwiseConv2D": (IMAGE, (3,)),
    "Conv1D": (SEQUENCE, (3, 2)),
    "Conv2D": (IMAGE, (3, 2)),
    "Conv3D": ((3, *IMAGE), (3, 2)),
    "Conv2DTranspose": (IMAGE, (3, 2)),
}
RECURRENT = {"LSTM": (SEQUENCE, (3,)), "GRU": (SEQUENCE, (3,))}


def pairs(layers, estimators):
    """Returns families that hold every pair of layer, posterior and estimator."""
    factors = {
        "posterior": POSTERIORS,
        "layer": [*layers],
        "estimator": estimators,
    }
    found = {}
    for chosen in harness.pairwise(factors, lambda combination: True):
        name = "{posterior} {layer}, {estimator}".format(**chosen)
        kind = chosen.pop("layer")
        shape, args = layers[kind]
        found[name] = (shape, random_layer(kind, *args, **chosen))
    return found


EXHAUSTIVE = {
    **pairs(FEED_FORWARD, ESTIMATORS),
    **pairs(RECURRENT, ("weights", "flipout")),
    "bernoulli dense": (
        VECTOR,
        random_layer("Dense", 4, posterior=tfvn.posteriors.Variance(noise="bernoulli")),
    ),
    "k-tied convolution, weights": (
        IMAGE,
        random_layer("Conv2D", 3, 3, posterior="k_tied", estimator="weights"),
    ),
    "variance convolution, flipout": (
        SEQUENCE,
        random_layer("Conv1D", 3, 3, posterior="variance", estimator="flipout"),
    ),
    # Traced, a loop inside of a vectorised one takes its time.
    "recurrent dropout": (SEQUENCE, keras_layer("LSTM", 4, dropout=0.5)),
    "noise": (VECTOR, noise_layer("MultiplicativeNoise", noise="gaussian")),
    "dropconnect": (VECTOR, noise_layer("NoisyDense", 4, structure="dropconnect")),
    "noisy convolution": (IMAGE, noise_layer("NoisyConv2D", 3, 3)),
    "noisy LSTM": (SEQUENCE, noise_layer("NoisyLSTM", 4)),
    "noisy residual": (
        VECTOR,
        lambda: tfvn.NoisyResidual(
            keras.layers.Dense(5, activation="tanh"), noise="gaussian"
        ),
    ),
    "alpha dropout": (VECTOR, keras_layer("AlphaDropout", 0.3)),
    "gaussian noise": (VECTOR, keras_layer("GaussianNoise", 0.5)),
    "multiplicative noise": (VECTOR, keras_layer("GaussianDropout", 0.3)),
}


def exported(shape, make, tmp_path):
    """Returns a regression model with a layer in its middle, and its export."""
    model = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Dense(shape[-1], activation="tanh"),
            make(),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    generator = np.random.default_rng(0)
    for variable in model.trainable_variables:
        # Noise and means of a size at which each can be seen beside the other.
        value = generator.normal(scale=0.4, size=variable.shape)
        variable.assign(value - 1.5 if "log" in variable.name else value)
    path = tfvn.export_ensemble(
        model, tmp_path / "family", NUM_SAMPLES, outputs="regression"
    )
    return model, LoadedModel(path)


def check_shapes(served, shape):
    """Asks with rows of other shapes, at which neither a server nor the loader looks."""
    for name, signature in served.signatures.items():
        more = {"seed": np.zeros((2, 2), "int32")} if "seed" in signature.inputs else {}
        for wrong in ((shape[0] + 1, *shape[1:]), (1, *shape), shape[1:]):
            rows = {"inputs": np.zeros((2, *wrong), "float32"), **more}
            with pytest.raises(tf.errors.InvalidArgumentError, match="expected shape"):
                served(rows, name)


def check(shape, make, tmp_path):
    model, served = exported(shape, make, tmp_path)
    row = np.random.default_rng(1).normal(size=(1, *shape)).astype("float32")

    # Rows of one call and draws of one row are all independent.
    repeated = np.repeat(row, ROWS, axis=0)
    seeds = np.random.default_rng(2).integers(2**31, size=(ROWS, 2)).astype("int32")
    samples = served({"inputs": repeated}, "samples")["samples"]
    draws = samples.reshape(ROWS * NUM_SAMPLES, 3)
    answer = tfvn.ensemble_predict(
        model,
        row,
        ROWS * NUM_SAMPLES,
        seed=3,
        return_samples=True,
        outputs="regression",
    )
    expected = answer.samples[0]
    assert np.all(expected.std(0) > 0)
    # Means, variances and covariances, each within Monte Carlo error.
    ztests.assert_mean(draws - expected, 0.0)
    center = expected.mean(0)
    products = [
        np.einsum("ni,nj->nij", d - center, d - center) for d in (draws, expected)
    ]
    ztests.assert_mean(products[0] - products[1], 0.0)
    # Rows share no noise, and neither do draws.
    ztests.assert_uncorrelated(samples[:-1, 0], samples[1:, 0])
    ztests.assert_uncorrelated(samples[:, 0], samples[:, 1])

    # A seeded row is the same alone as among others.
    together = served({"inputs": repeated, "seed": seeds}, "seeded")
    assert set(together) == {"mean", "std"}
    for index in (0, ROWS - 1):
        place = slice(index, index + 1)
        alone = served({"inputs": row, "seed": seeds[place]}, "seeded")
        for name, value in alone.items():
            np.testing.assert_allclose(value, together[name][place], atol=1e-5)
    assert len(np.unique(together["mean"], axis=0)) == ROWS

    check_shapes(served, shape)
    has_mean = not any(layer.posterior.zero_mean for layer in stochastic_layers(model))
    assert ("mean" in served.signatures) == has_mean
    if has_mean:
        value = served({"inputs": row}, "mean")["mean"]
        expected = tfvn.mean_predict(model, row)
        np.testing.assert_allclose(value, expected, atol=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, tmp_path):
    check(*FAMILIES[name], tmp_path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_every_combination(name, tmp_path):
    check(*EXHAUSTIVE[name], tmp_path)
