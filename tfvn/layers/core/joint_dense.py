"""A dense layer with one posterior of kernel and bias together."""

from typing import Any

import keras

from tfvn.estimators.terms import add
from tfvn.kernel import KernelSpec
from tfvn.layers.core.dense import Dense

Tensor = Any


@keras.saving.register_keras_serializable("tfvn")
class JointDense(Dense):
    """A `tfvn.layers.Dense` whose bias is the last row of its random kernel.

    The bias acts as the weight of an input that is always 1. So a posterior over the kernel
    covers the bias too, with the correlations between them. `tfvn.last_layer_laplace` makes
    such layers.

    Args:
        **kwargs: As in `tfvn.layers.Dense`. The arguments of the kernel apply to the bias
            too; `bias_posterior` must be `None`. Without `use_bias`, the layer is a
            `tfvn.layers.Dense`.
    """

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias besides the last row of its kernel: it does not."""
        return False

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        spec = super().kernel_spec(input_shape)
        rows, columns = spec.shape
        return KernelSpec((rows + self.use_bias, columns), spec.output_axes)

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        if not self.use_bias:
            return super().linear_op(inputs, kernel)
        return add(super().linear_op(inputs, kernel[:-1]), kernel[-1])

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return keras.ops.matmul(self.linear_op(inputs, left), right)

    def twin_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        if not self.use_bias:
            return weights
        kernel = weights["kernel"]
        return {"kernel": kernel[:-1], "bias": kernel[-1]}
