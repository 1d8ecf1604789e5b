"""Last layers, whose outputs are the parameters of a distribution of the targets."""

from typing import Any

import keras

from tfvn import likelihoods, posteriors
from tfvn.layers.dense import Dense

Tensor = Any

# Arguments of the layer itself; all others are those of the dense layer in it.
_OWN = ("name", "dtype", "trainable")


@keras.saving.register_keras_serializable("tfvn")
class LikelihoodHead(keras.layers.Layer):
    """A dense last layer with one output for each parameter of each target.

    Train the model with the loss of the same likelihood. Predictions, exports and, in a
    `tfvn.Model`, metrics know from this layer what the outputs are.

    Args:
        units: Number of targets.
        likelihood: The family of distributions: `"normal"`, `"laplace"`, `"student_t"`,
            `"log_normal"`, `"poisson"`, or an instance of `tfvn.likelihoods`.
        posterior: What is learned about the kernel, as in `tfvn.layers.Dense`; `None` is
            a plain kernel, as in `keras.layers.Dense`.
        **kwargs: Further arguments of `tfvn.layers.Dense` or, where `posterior` is `None`,
            of `keras.layers.Dense`; `activation` is none of them.

    Input shape:
        `(batch_size, ..., input_dim)`.

    Output shape:
        `(batch_size, ..., parameters * units)`: the first parameters of all targets, then
        the second ones.

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
                "The outputs are parameters of a distribution, which are not to be "
                "transformed; expected no `activation`. "
                f"Received: activation={kwargs['activation']!r}"
            )
        if isinstance(units, bool) or not isinstance(units, int) or units < 1:
            raise ValueError(
                "Argument `units` must be an integer of at least 1, the number of "
                f"targets. Received: units={units!r}"
            )
        self.units = units
        self.likelihood = likelihoods.get(likelihood)
        self.posterior = None if posterior is None else posteriors.get(posterior)
        self._dense_arguments = kwargs
        arguments = {
            "units": units * self.likelihood.parameters,
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
        return {
            **super().get_config(),
            **self._dense_arguments,
            "units": self.units,
            "likelihood": likelihoods.registry.serialize(self.likelihood),
            "posterior": posterior and posteriors.serialize(posterior),
        }


@keras.saving.register_keras_serializable("tfvn")
class NormalHead(LikelihoodHead):
    """A dense last layer with a mean and the logarithm of a standard deviation per target.

    The last layer of a regression model that predicts its noise for each example. Train
    it with `tfvn.losses.GaussianNLL()`.

    Args:
        units: Number of targets.
        posterior: What is learned about the kernel, as in `tfvn.layers.Dense`; `None` is
            a plain kernel, as in `keras.layers.Dense`.
        **kwargs: Further arguments of `tfvn.layers.Dense` or, where `posterior` is `None`,
            of `keras.layers.Dense`; `activation` is none of them.

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
