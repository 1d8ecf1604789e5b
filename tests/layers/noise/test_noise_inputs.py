"""Noise layers take what their Keras twins take: integers and truth values too."""

import keras
import numpy as np
import pytest

import tfvn

LAYERS = {
    "dense": (lambda **k: tfvn.NoisyDense(2, **k), (2, 4)),
    "noise": (lambda **k: tfvn.MultiplicativeNoise(**k), (2, 4)),
    "residual": (lambda **k: tfvn.NoisyResidual(keras.layers.Dense(4), **k), (2, 4)),
    "conv": (lambda **k: tfvn.NoisyConv2D(2, 2, **k), (2, 4, 4, 1)),
    "lstm": (lambda **k: tfvn.NoisyLSTM(2, **k), (2, 3, 4)),
}


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
@pytest.mark.parametrize("name", LAYERS)
def test_integers_are_as_good_as_floats(name, policy):
    make, shape = LAYERS[name]
    keras.config.set_dtype_policy(policy)
    layer = make(seed=1)
    values = np.random.default_rng(0).integers(0, 2, shape)
    layer(values.astype("float32"))
    generator = getattr(layer, "cell", layer).seed_generator
    start = generator.state.numpy()
    outputs = []
    for dtype in ("float32", "int32", "uint8", "bool"):
        generator.state.assign(start)
        outputs.append(np.asarray(layer(values.astype(dtype), training=True)))
    assert outputs[0].dtype == layer.compute_dtype
    for other in outputs[1:]:
        np.testing.assert_array_equal(outputs[0], other)
