"""The written arguments of layers: those of the Keras twin, and ours."""

import inspect

import harness
import numpy as np
import pytest

import tfvn
from tfvn.layers import RandomWeightsLayer, StochasticRNN
from tfvn.layers.noise.base import NoiseLayer, NoisyKernelLayer

KINDS = (RandomWeightsLayer, StochasticRNN, NoisyKernelLayer, tfvn.NoisyLSTM)
LAYERS = harness.public_layers(KINDS)
PRESETS = harness.public_layers(tfvn.layers.Preset)

# A posterior knows what its variables start from.
OURS = {"kernel_initializer", "depthwise_initializer", "recurrent_initializer"}


def parameters(function):
    return dict(inspect.signature(function).parameters)


def is_noise(layer_class):
    return layer_class.__name__.startswith("Noisy")


@pytest.mark.parametrize("layer_class", LAYERS.values(), ids=LAYERS)
class TestArguments:
    def test_are_those_of_the_twin(self, layer_class):
        wanted, taken = harness.twin_arguments(layer_class), parameters(layer_class)
        # The same order, so that they can be given by position.
        assert [*taken][: len(wanted)] == [*wanted]
        for name, parameter in wanted.items():
            assert taken[name].kind == parameter.kind
            default = parameter.default
            if name in OURS and not is_noise(layer_class):
                default = None
            elif name in ("strides", "dilation_rate") and taken[name].default == 1:
                # For all axes; Keras writes (1, 1).
                (default,) = {*np.atleast_1d(default)}
            assert taken[name].default == default

    def test_are_ours_by_keyword(self, layer_class):
        wanted, taken = harness.twin_arguments(layer_class), parameters(layer_class)
        ours = {n: p for n, p in taken.items() if n not in {*wanted, "kwargs"}}
        assert all(p.kind is p.KEYWORD_ONLY for p in ours.values())
        bases = (RandomWeightsLayer,)
        if is_noise(layer_class):
            bases = (NoisyKernelLayer, NoiseLayer)
        own = {n: p for base in bases for n, p in parameters(base.__init__).items()}
        for name, parameter in own.items():
            if parameter.kind is not parameter.KEYWORD_ONLY:
                continue
            if name == "posterior" and issubclass(layer_class, tfvn.layers.Preset):
                assert name not in taken
            else:
                assert taken[name].default == parameter.default
        assert not harness.NOT_TAKEN & set(taken)

    def test_that_are_missing_are_those_of_the_layer(self, layer_class):
        with pytest.raises(TypeError, match=f"^`?{layer_class.__name__}[`.]"):
            layer_class()


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_preset_takes_the_arguments_of_its_posterior(preset):
    taken = parameters(preset)
    for name, parameter in parameters(preset.posterior_class).items():
        assert taken[name].default == parameter.default


def test_a_subclass_shows_its_own_constructor():
    class Fixed(tfvn.VarianceDense):
        def __init__(self, width):
            super().__init__(width, noise="uniform")

    assert [*parameters(Fixed)] == ["width"]
    assert Fixed(3).posterior.noise == "uniform"
