"""Lowers whole steps of a model to HLO, the language of XLA, for hardware that is not there.

XLA lowers for a platform without its hardware as long as no argument is a variable. Here a
function gets the values of all variables as tensors and returns the new ones, as in any
`keras.StatelessScope`. The optimizers that Keras has for TensorFlow, TensorFlow's tape and
our counters want real variables, and are replaced while a function is traced.
"""

import contextlib
from importlib import metadata
from unittest import mock

import keras
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer
from side_by_side import batch_of

from tfvn import passes
from tfvn.prediction.sampler import Sampler
from tfvn.serving.endpoints import SUMMARY, Endpoints, _with_fresh_seeds
from tfvn.training import elbo

# Google's wheel for TPUs lowers for TPUs only, all others for GPUs.
_INSTALLED = {distribution.name for distribution in metadata.distributions()}
PLATFORM = "TPU" if _INSTALLED & {"tensorflow-tpu", "tensorflow_tpu"} else "GPU"

# The methods that Keras has again for TensorFlow, in terms of `tf.Variable`. Those of the
# base class need only `keras.Variable.assign`.
_METHODS = (
    "_backend_update_step",
    "_var_key",
    "assign",
    "assign_add",
    "assign_sub",
)


def lower(function, *arguments, variables=(), platform=PLATFORM):
    """Returns the HLO of a function, or raises `ValueError` if XLA cannot lower it.

    Args:
        function: A function of tensors.
        *arguments: Tensors of the shapes and types to lower it for.
        variables: The `keras.Variable`s that it reads or assigns.
        platform: The name that XLA has for the hardware.
    """
    variables = list({id(v): v for v in variables}.values())

    def step(values, *arguments):
        state = zip(variables, values, strict=True)
        # Otherwise layers would add no KL to the loss.
        scope = keras.StatelessScope(state, collect_losses=True)
        with scope, _without_resources(variables):
            outputs = function(*arguments)
            return outputs, [scope.get_current_value(v) for v in variables]

    values = [tf.convert_to_tensor(v.value) for v in variables]
    compiled = tf.function(step, jit_compile=True, autograph=False)
    generator = compiled.experimental_get_compiler_ir(values, *arguments)
    return generator(stage="hlo", platform_name=platform)


def lower_training(model, **options):
    """Returns the HLO of one whole training step of a compiled `tfvn.Model`."""
    x, y = batch_of(model)
    with mock.patch.multiple(TFOptimizer, **_methods_of_the_base()):
        # An optimizer finds variables by the keys that they had when it was built.
        model.optimizer.build(model.trainable_variables)
    # Metrics make their variables when they are first called.
    model.compute_metrics(x, y, tf.zeros_like(y))

    def step(x, y):
        with passes.changed(is_compiled=True):
            return model.run_train_step((x, y))

    variables = [
        *model.variables,
        *model.metrics_variables,
        *model.optimizer.variables,
        *model._elbo.tracker.variables,
        *model.training_state_variables,
    ]
    return lower(step, x, y, variables=variables, **options)


def lower_prediction(model, num_samples=3, **options):
    """Returns the HLO of `ensemble_predict` for one batch."""
    sampler = Sampler(model)
    x, _ = batch_of(model)

    def predict(x, seed):
        parts = ("mean", "std")
        return sampler.summarize(x, seed, 0, [], num_samples, ["regression"], parts)

    return lower(predict, x, tf.constant([1, 2]), variables=_read_by(model), **options)


def lower_export(model, num_samples=3, **options):
    """Returns the HLO of each signature of an export, by its name."""
    endpoints = Endpoints(model, num_samples, ["regression"])
    x, _ = batch_of(model)
    (name,) = endpoints.specs
    inputs = {name: x, "seed": tf.zeros((len(x), 2), tf.int32)}
    signatures = {
        "seeded": lambda tensors: endpoints._draw(tensors, SUMMARY),
        "samples": lambda tensors: endpoints._draw(tensors, ("samples",)),
    }
    signatures["serving_default"] = _with_fresh_seeds(signatures["seeded"])
    if endpoints.has_mean:
        signatures["mean"] = endpoints._mean
    # Not `endpoints.functions`, which are traced and have captured the variables.
    return {
        signature: lower(
            function,
            inputs if signature in ("seeded", "samples") else {name: x},
            variables=_read_by(model),
            **options,
        )
        for signature, function in signatures.items()
    }


def _read_by(model):
    kl_weights = [
        layer.kl_weight
        for layer in model._flatten_layers()
        if getattr(layer, "kl_weight", None) is not None
    ]
    return [*model.variables, *kl_weights]


def _methods_of_the_base():
    return {name: getattr(BaseOptimizer, name) for name in _METHODS}


@contextlib.contextmanager
def _without_resources(variables):
    class Tape(tf.GradientTape):
        """Watches the values of variables, as TensorFlow's does with real variables."""

        def __enter__(self):
            tape = super().__enter__()
            for variable in variables:
                if variable.trainable:
                    tape.watch(variable.value)
            return tape

        def gradient(self, target, sources, **options):
            tensors = keras.tree.map_structure(
                lambda s: s.value if isinstance(s, keras.Variable) else s, sources
            )
            return super().gradient(target, tensors, **options)

    def read(variable):
        with tf.init_scope():
            return int(variable._value.numpy())

    with (
        mock.patch.multiple(TFOptimizer, **_methods_of_the_base()),
        mock.patch.object(tf, "GradientTape", Tape),
        mock.patch.object(elbo, "read", read),
    ):
        yield
