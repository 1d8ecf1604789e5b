"""A model in `mixed_bfloat16` from `fit` to the export that a server answers from."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfvn

FAMILIES = ("Variance", "GaussianDropout", "MeanField", "KTied")


@pytest.fixture(autouse=True)
def _policy():
    keras.config.set_dtype_policy("mixed_bfloat16")


def images(family):
    layers = (getattr(tfvn, f"{family}{op}") for op in ("Conv2D", "Dense"))
    convolution, dense = layers
    return [
        keras.Input((5, 5, 1)),
        convolution(4, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        dense(3, bias_posterior="mean_field"),
    ]


def sequences(family):
    return [
        keras.Input((5, 2)),
        getattr(tfvn, f"{family}LSTM")(4),
        keras.layers.Dropout(0.2),
        getattr(tfvn, f"{family}Dense")(3),
    ]


def noise(family):
    del family
    return [
        keras.Input((6,)),
        tfvn.NoisyDense(8, noise="rayleigh", activation="relu"),
        tfvn.MultiplicativeNoise("half_cauchy"),
        keras.layers.Dense(3),
    ]


CASES = [
    ("images", "KTied"),
    *(
        pytest.param(kind, family, marks=pytest.mark.exhaustive)
        for kind, family in (
            *(("images", family) for family in FAMILIES[:3]),
            *(("sequences", family) for family in FAMILIES),
            ("noise", None),
        )
    ),
]
KINDS = {"images": images, "sequences": sequences, "noise": noise}


def trained(layers):
    """Returns a trained classifier, and inputs for it."""
    model = tfvn.Sequential(layers)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(16, *model.input_shape[1:])).astype("float32")
    y = np.arange(16) % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile({"mean": "adam", "scale": "adam"}, loss, metrics=["accuracy"])
    before = [w.numpy() for w in model.trainable_weights]
    history = model.fit(x, y, epochs=2, batch_size=8, verbose=0).history
    assert all(np.isfinite(values).all() for values in history.values())
    changed = []
    for weight, value in zip(model.trainable_weights, before, strict=True):
        assert weight.dtype == "float32"
        assert np.isfinite(weight.numpy()).all()
        changed.append((weight.numpy() != value).any())
    assert any(changed)
    return model, x


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_from_fit_to_an_export(kind, family, tmp_path):
    model, x = trained(KINDS[kind](family))
    assert model.layers[-1].compute_dtype == "bfloat16"
    assert model(x).dtype == tf.bfloat16

    answer = tfvn.ensemble_predict(model, x, 4, seed=3)
    assert answer.mean.dtype == np.float32
    np.testing.assert_allclose(answer.mean.sum(-1), 1.0, atol=1e-5)
    assert (answer.std > 0).any()

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].compute_dtype == "bfloat16"
    again = tfvn.ensemble_predict(loaded, x, 4, seed=3)
    np.testing.assert_array_equal(again.mean, answer.mean)

    path = tfvn.export_ensemble(model, tmp_path / "served", 4)
    served = tf.saved_model.load(str(path)).signatures
    for name in ("serving_default", "samples"):
        for value in served[name](inputs=tf.constant(x)).values():
            assert value.dtype == tf.float32
            assert np.isfinite(value).all()
    seeds = np.arange(32, dtype="int32").reshape(16, 2)
    found = served["seeded"](inputs=tf.constant(x), seed=tf.constant(seeds))
    expected = tfvn.ensemble_predict(model, x, 4, seed=seeds)
    # Bits that bfloat16 rounds off differ between the programs of two batches.
    np.testing.assert_allclose(found["mean"], expected.mean, atol=2e-2)
