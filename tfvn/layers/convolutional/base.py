"""Base classes of convolutions."""

from typing import Any

import keras

from tfvn.kernel import KernelSpec
from tfvn.layers.feed_forward import StochasticLayer

Tensor = Any


class StochasticConvolution(StochasticLayer):
    """The common part of all convolutions; subclasses also inherit from a Keras layer."""

    @property
    def channel_axis(self) -> int:
        """The axis of inputs and outputs that holds the channels."""
        return -1 if self.data_format == "channels_last" else 1

    def check_channels(self, input_shape: tuple[int | None, ...]) -> int:
        """Returns the number of input channels, or raises if the shape is not valid."""
        channels = input_shape[self.channel_axis]
        if channels is None:
            raise ValueError(
                f"The channel dimension of the inputs to `{type(self).__name__}` must "
                f"be defined. Received: input_shape={input_shape}"
            )
        # This call raises if the inputs are too small for the kernel.
        self.compute_output_shape(input_shape)
        self.input_spec = keras.InputSpec(
            min_ndim=self.rank + 2, axes={self.channel_axis: channels}
        )
        self.input_axes = self.output_axes = (self.channel_axis,)
        return channels

    def expand_bias(self, bias: Tensor) -> Tensor:
        if self.data_format == "channels_last":
            return bias
        return keras.ops.reshape(bias, (-1,) + (1,) * self.rank)

    def mix_channels(self, inputs: Tensor, weights: Tensor) -> Tensor:
        """Returns `inputs` with their channels multiplied by a matrix.

        Args:
            inputs: A tensor with `groups * k` channels.
            weights: `(groups, k, n)`, a matrix for each group of channels.
        """
        groups, _, columns = weights.shape
        inputs = keras.ops.moveaxis(inputs, self.channel_axis, -1)
        if groups == 1:
            outputs = keras.ops.matmul(inputs, weights[0])
        else:
            shape = keras.ops.shape(inputs)[:-1]
            inputs = keras.ops.reshape(inputs, (*shape, groups, -1))
            outputs = keras.ops.einsum("...gk,gkn->...gn", inputs, weights)
            outputs = keras.ops.reshape(outputs, (*shape, groups * columns))
        return keras.ops.moveaxis(outputs, -1, self.channel_axis)


class StochasticPlainConvolution(StochasticConvolution):
    """The common part of `Conv1D`, `Conv2D` and `Conv3D`."""

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        channels = self.check_channels(input_shape)
        if channels % self.groups != 0:
            raise ValueError(
                "The number of input channels must be evenly divisible by `groups`. "
                f"Received: groups={self.groups} and input_shape={input_shape}"
            )
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        return KernelSpec(shape, output_axes=(self.rank + 1,))

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        return self.convolution_op(inputs, kernel)

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        channels = inputs.shape[self.channel_axis] // self.groups
        rank = left.shape[-1]
        kernel = keras.ops.reshape(left, (*self.kernel_size, channels, rank))
        # All groups have the same rows, so they share one thin kernel.
        kernel = keras.ops.tile(kernel, (1,) * (self.rank + 1) + (self.groups,))
        outputs = self.linear_op(inputs, kernel)
        weights = keras.ops.reshape(right, (rank, self.groups, -1))
        return self.mix_channels(outputs, keras.ops.swapaxes(weights, 0, 1))
