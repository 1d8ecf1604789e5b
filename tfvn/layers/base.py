"""What every feed-forward layer with a random kernel shares."""

from typing import Any

import tensorflow as tf

from tfvn.estimators import Term
from tfvn.estimators.sums import add
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.layers.random_weights_layer import RandomWeightsLayer
from tfvn.posteriors import Posterior

Tensor = Any


class StochasticLayer(RandomWeightsLayer):
    """Turns a Keras layer with a kernel into one whose kernel is a distribution.

    A subclass inherits from this class and from its Keras twin, and says what its
    linear op is: `kernel_spec`, `linear_op` and, where they differ from those of a
    Dense, `factored_op`, `expand_bias` and the axes. Everything else, the posterior,
    the prior, the estimator, the KL and the config, is here and in `RandomWeightsLayer`,
    which has the arguments.
    """

    # The axes of inputs and outputs that the kernel does not slide along.
    input_axes: tuple[int, ...] = (-1,)
    output_axes: tuple[int, ...] = (-1,)

    bias: Any = None

    # What a linear op provides.

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        """Returns the geometry of the kernel for inputs of a shape."""
        raise NotImplementedError

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """Returns what a kernel makes of the inputs, linear in both."""
        raise NotImplementedError

    def factored_op(self, inputs: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Returns `linear_op` for the kernel whose matrix is `left @ right`.

        Every op of the library does so without forming the kernel; this default, for
        an op that does not say how, forms it.
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

    # What the layer does with it.

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        spec = self.kernel_spec(input_shape)
        self.bias_shape = self.compute_bias_shape(input_shape, spec)
        self._random_weights[0].build(
            self.add_weight, spec, **self._options(self.kernel_argument)
        )
        self.bias = self._build_bias(self.bias_shape, spec)
        self._add_prior_variables()
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        readings, terms = self._terms(inputs)
        outputs, drawn, noise = self.estimator_in_use(terms, self.seed_generator)
        self._add_kl(readings, drawn, training)
        offset = self._offset(outputs.dtype)
        if offset is not None:
            outputs = add(outputs, offset)
        if noise is not None:
            outputs += noise
        return outputs if self.activation is None else self.activation(outputs)

    def prepare(self, inputs: Tensor) -> Any:
        """Returns what all draws of the output have in common, or `None`.

        It is a structure of tensors with the batch as their first axis, for `redraw`;
        `None` means that the layer has to be called for each draw.
        """
        if inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self.compute_dtype)
        _, terms = self._terms(inputs)
        return self.estimator_in_use.prepare(terms, self._offset(terms[0].inputs.dtype))

    def redraw(self, prepared: Any, copies: int) -> Tensor:
        """Returns `copies` draws of the output of each example, one after the other.

        They have the distribution of `copies` calls, for less: only the noise is drawn
        again.

        Args:
            prepared: What `prepare` returned, or the same rows of all its tensors.
            copies: Number of draws.
        """
        outputs = self.estimator_in_use.redraw(prepared, copies, self.seed_generator)
        return outputs if self.activation is None else self.activation(outputs)

    def _terms(self, inputs: Tensor) -> tuple[list[Posterior], list[Term]]:
        """Returns the posteriors as they are now, and the summands of the output."""
        if isinstance(inputs, tf.SparseTensor):
            # Estimators square and flip their inputs, for which few ops are sparse.
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
            # The bias is the kernel of an input that is always 1.
            op = LinearOp(self._bias_op, self._factored_bias_op)
            one = tf.ones((), inputs.dtype)
            terms.append(Term(op, readings[1], one))
        return readings, terms

    def _offset(self, dtype: tf.DType) -> Tensor | None:
        """Returns a bias that is not random, in a shape that broadcasts to outputs."""
        if self.bias is None:
            return None
        return self.expand_bias(tf.cast(self.bias.value, dtype))

    @property
    def kernel(self) -> Tensor:
        raise AttributeError(
            f"`{type(self).__name__}` has no `kernel`, but a distribution over "
            "kernels: see `posterior_distribution()`."
        )

    def _bias_op(self, one: Tensor, bias: Tensor) -> Tensor:
        return one * self.expand_bias(bias)

    def _factored_bias_op(self, one: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return self._bias_op(one, tf.reshape(left @ right, self.bias_shape))
