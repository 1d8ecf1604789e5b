"""Layers without recurrence whose kernel is random: what all their linear ops share."""

from typing import Any

import tensorflow as tf

from tfvn.estimators import Term
from tfvn.estimators.terms import add
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.layers.base import RandomWeightsLayer
from tfvn.posteriors import Posterior

Tensor = Any


class StochasticLayer(RandomWeightsLayer):
    """Turns a Keras layer with a kernel into one whose kernel is a distribution.

    A subclass inherits from this class and from the Keras layer that it replaces, and
    defines its linear op: `kernel_spec`, `linear_op` and, where they differ from those
    of a Dense, `factored_op`, `expand_bias` and the axes.
    """

    # The axes of inputs and outputs that the kernel does not slide along.
    input_axes: tuple[int, ...] = (-1,)
    output_axes: tuple[int, ...] = (-1,)
    bias: Any = None

    # Subclasses override these.

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        """Returns the geometry of the kernel for inputs of a shape."""
        raise NotImplementedError

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """Returns the product of inputs and kernel, which is linear in both."""
        raise NotImplementedError

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Returns `linear_op` for the kernel whose matrix is `left @ right`.

        This default forms the kernel. All ops of the library override it and avoid that.
        """
        spec = self.kernel_spec(tuple(inputs.shape))
        return self.linear_op(inputs, spec.from_matrix(left @ right))

    def expand_bias(self, bias: Tensor) -> Tensor:
        """Returns a bias in a shape that broadcasts to the outputs."""
        return bias

    def compute_bias_shape(
        self, input_shape: tuple[int | None, ...], spec: KernelSpec
    ) -> tuple[int, ...]:
        """Returns the shape of the bias."""
        return (spec.columns,)

    # All layers share these.

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        spec = self.kernel_spec(input_shape)
        self.bias_shape = self.compute_bias_shape(input_shape, spec)
        self._random_weights[0].build(
            self.add_weight, spec, **self._options(self.kernel_argument)
        )
        self.bias = self._finish_build(self.bias_shape, spec)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        readings, terms = self._terms(inputs)
        outputs, drawn = self.estimator_in_use(terms, self.seed_generator)
        self.add_kl(lambda: self._kl(readings, drawn), training)
        offset = self._offset(outputs.dtype)
        if offset is not None:
            outputs = add(outputs, offset)
        return outputs if self.activation is None else self.activation(outputs)

    def prepare(self, inputs: Tensor) -> Any:
        """Returns what all draws of the output share, or `None`.

        It is a structure of tensors with the batch as their first axis, for `redraw`;
        `None` means that the layer has to be called for each draw.
        """
        if inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self.compute_dtype)
        _, terms = self._terms(inputs)
        return self.estimator_in_use.prepare(terms, self._offset(terms[0].inputs.dtype))

    def redraw(self, prepared: Any, copies: int) -> Tensor:
        """Returns `copies` draws of the output of each example, one after the other.

        They have the same distribution as `copies` calls, but cost less: only the noise
        is drawn again.

        Args:
            prepared: The result of `prepare`, or the same rows of all its tensors.
            copies: Number of draws.
        """
        outputs = self.estimator_in_use.redraw(prepared, copies, self.seed_generator)
        return outputs if self.activation is None else self.activation(outputs)

    def _terms(self, inputs: Tensor) -> tuple[list[Posterior], list[Term]]:
        """Returns the current readings of the posteriors, and the terms of the output."""
        if isinstance(inputs, tf.SparseTensor):
            # Estimators square and flip their inputs, and few of these ops work on
            # sparse tensors.
            dense = tf.sparse.to_dense(tf.sparse.reorder(inputs))
            inputs = tf.ensure_shape(dense, inputs.shape)
        if not inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self.compute_dtype)
        readings = self._read()
        op = LinearOp(
            self.linear_op, self.factored_op, self.input_axes, self.output_axes
        )
        terms = [Term(op, readings[0], inputs)]
        if self.bias_posterior is not None:
            # A bias is a kernel whose input is always 1.
            op = LinearOp(self._bias_op, self._factored_bias_op)
            terms.append(Term(op, readings[1], tf.ones((), inputs.dtype)))
        return readings, terms

    def _offset(self, dtype: tf.DType) -> Tensor | None:
        """Returns the bias if it is not random, in a shape that broadcasts to outputs."""
        if self.bias is None:
            return None
        return self.expand_bias(tf.cast(self.bias.value, dtype))

    @property
    def kernel(self) -> Tensor:
        raise AttributeError(
            f"`{type(self).__name__}` has no fixed `kernel`, but a distribution over "
            "kernels; see `posterior_distribution()`."
        )

    def _bias_op(self, one: Tensor, bias: Tensor) -> Tensor:
        return one * self.expand_bias(bias)

    def _factored_bias_op(self, one: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return self._bias_op(one, tf.reshape(left @ right, self.bias_shape))
