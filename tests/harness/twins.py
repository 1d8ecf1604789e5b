"""Public layers, and the Keras layers that they are the random forms of."""

import inspect

import keras

import tfvn
from tfvn.layers import RandomWeightsLayer, StochasticRNN

# Arguments of the Keras twins that a random kernel has no use for.
NOT_TAKEN = {
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
}


def public_layers(kinds=(RandomWeightsLayer, StochasticRNN)):
    """Returns the layers of these kinds that users can name, by name."""
    names = [*tfvn.layers.__all__, *tfvn.__all__]
    found = {}
    for name in names:
        value = getattr(tfvn.layers, name, None) or getattr(tfvn, name)
        if not inspect.isclass(value) or not issubclass(value, kinds):
            continue
        if keras.saving.get_registered_name(value).startswith("tfvn>"):
            found[name] = value
    return found


def twin_of(layer_class):
    """Returns the Keras layer that a layer is the random form of."""
    return next(c for c in layer_class.__mro__ if c.__module__.startswith("keras."))


def twin_arguments(layer_class):
    """Returns the parameters of the Keras twin that a layer has to take."""
    parameters = inspect.signature(twin_of(layer_class)).parameters
    skipped = {*NOT_TAKEN, "kwargs"}
    return {name: p for name, p in parameters.items() if name not in skipped}


def make_twin(layer, input_shape, kernel=None, bias=None, **kwargs):
    """Returns a built Keras twin.

    Args:
        layer: A stochastic layer.
        input_shape: Shape of the inputs, the batch included.
        kernel: The kernel of the twin; the posterior's means unless given.
        bias: The bias of the twin; the layer's or its means unless given.
        **kwargs: Arguments of the twin that differ from the layer's.
    """
    config = layer.get_config()
    taken = {n: config[n] for n in twin_arguments(type(layer)) if n in config}
    taken[f"{layer.kernel_argument}_initializer"] = "zeros"
    twin = twin_of(type(layer))(**{**taken, **kwargs})
    twin.build(tuple(input_shape))
    if kernel is None:
        kernel = keras.ops.convert_to_numpy(layer.posterior.mean())
    if bias is None and layer.has_bias:
        bias = layer.bias
        if layer.bias_posterior is not None:
            bias = layer.bias_posterior.mean()
        bias = keras.ops.convert_to_numpy(bias)
    twin.set_weights([kernel, bias] if layer.has_bias else [kernel])
    return twin
