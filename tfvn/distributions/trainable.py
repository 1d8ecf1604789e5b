"""Trainable priors: distributions with variables among their parameters.

A parameter may be a `tf.Variable`, a `keras.Variable` or a
`tfp.util.TransformedVariable`. The layer that gets the prior owns its variables, so that
optimizers, `save` and `summary` find them. Keras optimizers need `keras.Variable`s, so each
`tf.Variable` is wrapped in a `keras.Variable` that shares its storage: the user's
`tf.Variable` always has the trained value.
"""

import weakref
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn.utils import private

Tensor = Any

# The attribute of a `tf.Variable` that stores the `keras.Variable` around it. There must be
# only one: otherwise two layers that share a prior would count and update its variable twice.
_HOLDER = "_tfvn_keras_variable"

# The attribute of a trainable variable that stores the layers whose prior contains it.
_LAYERS = "_tfvn_layers"


def with_tf_variables(distribution: tfd.Distribution) -> tfd.Distribution:
    """Returns a copy with each `keras.Variable` replaced by its `tf.Variable`.

    TFP would read the value of a `keras.Variable` once and never update it.

    Args:
        distribution: A distribution. Without any `keras.Variable` it is returned unchanged.
    """

    def replace(value: Any) -> Any:
        if isinstance(value, keras.Variable):
            variable = value.value
            setattr(variable, _HOLDER, value)
            return variable
        return value

    return _map(replace, distribution)


def variables(distribution: tfd.Distribution) -> list[keras.Variable]:
    """Returns the variables among the parameters of a distribution, each once.

    Args:
        distribution: A distribution, or `None`.
    """
    found: dict[int, keras.Variable] = {}

    def note(value: Any) -> Any:
        if isinstance(value, tf.Variable):
            parts: Any = (value,)
        else:
            parts = value.variables if isinstance(value, tf.Module) else ()
        for variable in parts:
            holder = _holder(variable)
            found[id(holder)] = holder
        return value

    if distribution is not None:
        _map(note, distribution)
    return list(found.values())


def add_layer(variable: keras.Variable, layer: keras.Layer) -> None:
    """Adds a variable of a prior to a layer; several layers may share the variable.

    Args:
        variable: The variable.
        layer: The layer.
    """
    if hasattr(variable, _LAYERS):
        # Another layer may have frozen it, and Keras sorts variables by `trainable`.
        variable.trainable = True
    elif variable.trainable:
        setattr(variable, _LAYERS, weakref.WeakSet())
    private.track_variable(layer, variable)
    if hasattr(variable, _LAYERS):
        getattr(variable, _LAYERS).add(layer)
        freeze_or_not(variable)


def freeze_or_not(variable: keras.Variable) -> None:
    """Freezes a trainable variable if all layers that share it are frozen.

    Keras would freeze it as soon as one of them is frozen.

    Args:
        variable: A variable of a prior.
    """
    layers = getattr(variable, _LAYERS, None)
    if layers is not None:
        variable.trainable = any(layer.trainable for layer in layers)


def current(distribution: tfd.Distribution) -> tfd.Distribution:
    """Returns a distribution built from the present values of its variables.

    It is a new object, so that gradients reach the variables: many distribution classes
    read their parameters in the constructor only.

    Args:
        distribution: A distribution. Without variables it is returned unchanged.
    """

    def read(value: Any) -> Any:
        if isinstance(value, tf.Variable) or _is_deferred(value):
            return tf.convert_to_tensor(value)
        return value

    return _map(read, distribution)


def check_is_learned(distribution: tfd.Distribution) -> None:
    """Raises an error if a variable has no gradient and so could never be trained.

    Args:
        distribution: A distribution, perhaps with variables.
    """
    trained = [v for v in variables(distribution) if v.trainable]
    # Only the replicas of a strategy can read its variables.
    if not trained or tf.distribute.has_strategy():
        return
    missing: list[str] = []

    # In a separate graph, because the layer may be built while another one is traced.
    def trace() -> None:
        with tf.GradientTape() as tape:
            log_prob = current(distribution).log_prob(tf.ones((), distribution.dtype))
        gradients = tape.gradient(log_prob, [v.value for v in trained])
        pairs = zip(gradients, trained, strict=True)
        missing.extend(
            variable.name for gradient, variable in pairs if gradient is None
        )

    tf.function(trace, autograph=False).get_concrete_function()
    if missing:
        raise ValueError(
            "Every trainable variable of a prior must have a gradient, because it "
            "would never be trained otherwise; make it a number, or a variable with "
            f"`trainable=False`. Received: prior={distribution} with no gradient for "
            f"{missing}"
        )


def check_strategy(distribution: tfd.Distribution) -> None:
    """Raises an error if the strategy can't update the variables of a distribution.

    Args:
        distribution: A distribution, perhaps with variables.
    """
    if not tf.distribute.has_strategy():
        return
    strategy = tf.distribute.get_strategy()
    for variable in variables(distribution):
        if not strategy.extended.variable_created_in_scope(variable.value):
            raise ValueError(
                "The variables of a prior must be created in the scope of the strategy "
                "that trains the model; move the prior into `with strategy.scope():`. "
                f"Received: variable={variable.name!r}, created outside of it"
            )


def is_variable(value: Any) -> bool:
    """Whether a parameter changes in training: a variable, or computed from one."""
    return isinstance(value, tf.Variable | keras.Variable) or _is_deferred(value)


def _is_deferred(value: Any) -> bool:
    # A `TransformedVariable`. TFP distinguishes it from a distribution or a bijector by
    # the same two attributes.
    return (
        isinstance(value, tf.Module)
        and hasattr(value, "dtype")
        and hasattr(value, "shape")
    )


def _holder(variable: tf.Variable) -> keras.Variable:
    """Returns the `keras.Variable` that holds a `tf.Variable`."""
    holder = getattr(variable, _HOLDER, None)
    if holder is None:
        name = variable.name.partition(":")[0].replace("/", "_")
        # Outside of the graph, in case the layer is built while one is being traced.
        with tf.init_scope():
            holder = keras.Variable(
                tf.zeros(variable.shape, variable.dtype),
                trainable=variable.trainable,
                autocast=False,
                name=name,
            )
        private.set_tf_variable(holder, variable)
        setattr(variable, _HOLDER, holder)
    return holder


def _map(function: Any, distribution: tfd.Distribution) -> tfd.Distribution:
    """Returns a copy with `function` applied to each parameter.

    If no parameter changes, it returns the distribution itself.
    """
    changed = {}
    for key, value in distribution.parameters.items():
        new = _map_value(function, value)
        if new is not value:
            changed[key] = new
    return distribution.copy(**changed) if changed else distribution


def _map_value(function: Any, value: Any) -> Any:
    if isinstance(value, tfd.Distribution):
        return _map(function, value)
    if isinstance(value, list | tuple):
        new = [_map_value(function, part) for part in value]
        is_same = all(one is other for one, other in zip(new, value, strict=True))
        return value if is_same else type(value)(new)
    return function(value)
