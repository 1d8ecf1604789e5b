"""Last layers, which output the parameters of a distribution of the targets."""

import math
from typing import Any

import keras
from keras import ops

from tfvn import likelihoods, posteriors
from tfvn.layers.core.dense import Dense
from tfvn.utils.validation import check_count, check_number

Tensor = Any

# Arguments of the layer itself; all others go to the dense layer inside.
_OWN = ("name", "dtype", "trainable")


@keras.saving.register_keras_serializable("tfvn")
class LikelihoodHead(keras.layers.Layer):
    """A dense last layer with one output for each parameter of each target.

    Train the model with the loss of the same likelihood. From this layer, predictions,
    exports and, in a `tfvn.Model`, metrics know what the outputs are.

    Args:
        units: Number of targets.
        likelihood: The family of distributions: `"normal"`, `"laplace"`, `"student_t"`,
            `"log_normal"`, `"poisson"`, or an instance of `tfvn.likelihoods`.
        posterior: The learned distribution of the kernel, as in `tfvn.layers.Dense`;
            `None` is a plain kernel, as in `keras.layers.Dense`.
        **kwargs: Further arguments of `tfvn.layers.Dense` or, if `posterior` is `None`,
            of `keras.layers.Dense`, except `activation`.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., parameters * units)`: the first parameter of all targets, then
        the second.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> head = tfvn.layers.LikelihoodHead(3, "poisson")
    >>> head(np.ones((2, 4))).shape
    TensorShape([2, 3])
    """

    def __init__(
        self,
        units: int,
        likelihood: Any,
        posterior: Any = None,
        **kwargs: Any,
    ):
        own = {name: kwargs.pop(name) for name in _OWN if name in kwargs}
        super().__init__(**own)
        if "activation" in kwargs:
            raise ValueError(
                f"`{type(self).__name__}` does not take `activation`, because its "
                "outputs are the parameters of a distribution. Received: "
                f"activation={kwargs['activation']!r}"
            )
        self.units = check_count("units", units)
        self.likelihood = likelihoods.get(likelihood)
        self.posterior = None if posterior is None else posteriors.get(posterior)
        arguments = {
            "units": self.units * self.likelihood.parameters,
            "dtype": self.dtype_policy,
            **kwargs,
        }
        if self.posterior is None:
            self.dense = keras.layers.Dense(**arguments)
        else:
            self.dense = Dense(posterior=self.posterior, **arguments)
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self.dense.build(input_shape)

    def call(self, inputs: Tensor) -> Tensor:
        return self.dense(inputs)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        return self.dense.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        posterior = self.posterior
        # From the config of the layer inside, because it is plain data, also of a prior that
        # was given as a distribution.
        dense = self.dense.get_config()
        passed_on = {k: v for k, v in dense.items() if k not in (*_OWN, "activation")}
        return {
            **passed_on,
            **super().get_config(),
            "units": self.units,
            "likelihood": likelihoods.registry.serialize(self.likelihood),
            "posterior": posterior and posteriors.serialize(posterior),
        }


@keras.saving.register_keras_serializable("tfvn")
class NormalHead(LikelihoodHead):
    """A dense last layer with a mean and the logarithm of a standard deviation per target.

    Use it as the last layer of a regression model that predicts the noise of each
    example. Train the model with `tfvn.losses.GaussianNLL()`.

    Args:
        units: Number of targets.
        posterior: The learned distribution of the kernel, as in `tfvn.layers.Dense`;
            `None` is a plain kernel, as in `keras.layers.Dense`.
        **kwargs: Further arguments of `tfvn.layers.Dense` or, if `posterior` is `None`,
            of `keras.layers.Dense`, except `activation`.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., 2 * units)`: the means of all targets, then the logarithms of
        their standard deviations.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> import tfvn
    >>> model = tfvn.Sequential(
    ...     [keras.Input((4,)), tfvn.layers.NormalHead(1, posterior="mean_field")]
    ... )
    >>> answer = tfvn.ensemble_predict(model, np.ones((3, 4)), num_samples=5)
    >>> answer.mean.shape, answer.interval(0.9)[0].shape
    ((3, 1), (3, 1))
    """

    def __init__(self, units: int, posterior: Any = None, **kwargs: Any):
        super().__init__(units, "normal", posterior, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["likelihood"]
        return config


@keras.saving.register_keras_serializable("tfvn")
class LearnedScale(keras.layers.Layer):
    """Appends the logarithms of learned standard deviations to its inputs.

    Use it as the last layer of a regression model that is trained with
    `tfvn.losses.GaussianNLL()`. It learns one standard deviation for each output, the
    same for all examples. From this layer, predictions know that the outputs are means
    and logarithms of standard deviations.

    Args:
        initial_scale: Initial value of the standard deviations.
        **kwargs: Arguments of `keras.layers.Layer`.

    Input shape:
        `(batch_size, ..., size)`.

    Output shape:
        `(batch_size, ..., 2 * size)`.

    Example:

    >>> import numpy as np
    >>> import tfvn
    >>> outputs = tfvn.layers.LearnedScale(initial_scale=2.0)(np.ones((1, 2)))
    >>> print(np.round(outputs.numpy(), 2))
    [[1.   1.   0.69 0.69]]
    """

    def __init__(self, initial_scale: float = 1.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.initial_scale = check_number("initial_scale", initial_scale, above=0)
        self.likelihood = likelihoods.Normal()
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.log_scale = self.add_weight(
            name="log_scale",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(math.log(self.initial_scale)),
        )

    def call(self, inputs: Tensor) -> Tensor:
        log_scale = ops.broadcast_to(self.log_scale, ops.shape(inputs))
        return ops.concatenate([inputs, log_scale], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        return (*input_shape[:-1], 2 * input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_scale": self.initial_scale}
