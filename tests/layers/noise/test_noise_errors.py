"""What noise layers say about arguments that they cannot use."""

import keras
import numpy as np
import pytest

import tfvn


@pytest.mark.parametrize("layer", [tfvn.MultiplicativeNoise, tfvn.NoisyDense])
def test_noise(layer):
    with pytest.raises(ValueError, match=r"Unknown noise.*Received: noise='gaus'"):
        layer(**({"units": 2} if layer is tfvn.NoisyDense else {}), noise="gaus")


def test_mean_of_zero():
    law = tfvn.distributions.noise_law("gaussian", mean=0.0)
    with pytest.raises(ValueError, match=r"`normalize` must be `False`"):
        tfvn.MultiplicativeNoise(law)
    layer = tfvn.MultiplicativeNoise(law, normalize=False)
    np.testing.assert_array_equal(layer(np.ones((2, 2))), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("make", "name", "choices"),
    [
        (lambda v: tfvn.NoisyDense(2, structure=v), "structure", "ard"),
        (lambda v: tfvn.NoisyConv2D(2, 3, structure=v), "structure", "channels"),
        (lambda v: tfvn.NoisyLSTM(2, gates=v), "gates", "tied"),
        (
            lambda v: tfvn.NoisyResidual(keras.layers.Identity(), structure=v),
            "structure",
            "depth",
        ),
    ],
)
@pytest.mark.parametrize("value", ["rows", None, ["ard"]])
def test_structure(make, name, choices, value):
    with pytest.raises(ValueError, match=rf"`{name}` must be one of \['{choices}'"):
        make(value)


@pytest.mark.parametrize("noise_shape", ["ab", 3, (0, 1), (2.5,)])
def test_noise_shape(noise_shape):
    with pytest.raises(ValueError, match=r"`noise_shape(\[0\])?` must be `None`"):
        tfvn.MultiplicativeNoise(noise_shape=noise_shape)


def test_noise_shape_of_another_rank():
    with pytest.raises(ValueError, match="for each of the 2 axes of the inputs"):
        tfvn.MultiplicativeNoise(noise_shape=(1, 2, 3))(np.ones((2, 3)))


@pytest.mark.parametrize("prior_scale", [0, -1.0, float("nan"), "1"])
def test_prior_scale(prior_scale):
    with pytest.raises(ValueError, match=r"`prior_scale` must be `None` or a fin"):
        tfvn.NoisyDense(2, prior_scale=prior_scale)


def test_kl_weight():
    with pytest.raises(ValueError, match="`kl_weight` must be"):
        tfvn.NoisyDense(2, kl_weight=-1)


def test_prior_without_a_scale():
    with pytest.raises(ValueError, match="pass `prior_scale` to the layer"):
        tfvn.NoisyDense(2).negative_log_prior()


def test_second_noise_of_a_single_structure():
    with pytest.raises(
        ValueError, match=r"`filter_noise` applies only with `structure="
    ):
        tfvn.NoisyConv2D(2, 3, filter_noise="gaussian")
    with pytest.raises(
        ValueError, match=r"`depth_noise` applies only with `structure="
    ):
        tfvn.NoisyResidual(keras.layers.Identity(), depth_noise="gaussian")


def test_block():
    with pytest.raises(ValueError, match="`block` must be a Keras layer"):
        tfvn.NoisyResidual(lambda x: x)


def test_block_of_another_shape():
    layer = tfvn.NoisyResidual(keras.layers.Dense(3))
    with pytest.raises(ValueError, match="must have the same shape as its inputs"):
        layer(np.ones((2, 4)))


def test_cudnn():
    with pytest.raises(ValueError, match="cuDNN does not support multiplicative"):
        tfvn.NoisyLSTM(2, use_cudnn=True)
