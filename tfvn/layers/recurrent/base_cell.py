"""Base class of recurrent cells with random kernels."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.kernel import KernelSpec
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.recurrent.held_draws import HoldsDraws
from tfvn.posteriors import Posterior

Tensor = Any


class NoWeightError(AttributeError, NotImplementedError):
    """Raised when a cell has no single kernel.

    For Python, the attribute is missing. Keras asks for kernels to try a fused
    implementation, and takes the error as a sign that there is none: it then runs the
    steps.
    """


class StochasticRNNCell(HoldsDraws, RandomWeightsLayer):
    """Turns a Keras cell into one whose kernels are distributions.

    A subclass inherits from this class and from the Keras cell that it replaces, and
    defines the number of its `gates`, the shape of its bias, and its `flipped_step`.

    The kernel and the recurrent kernel each have a posterior, of the same kind. The cell
    samples both before the first step of a sequence, keeps them until the last, and adds
    the KL to the loss once. If you call the cell directly, it samples for that one step;
    if a layer other than `keras.layers.RNN` calls it, it samples once per call of that
    layer.
    """

    kernels = ("kernel", "recurrent_kernel")
    is_recurrent = True
    gates: int

    @property
    def recurrent_posterior(self) -> Posterior:
        """The posterior of the recurrent kernel."""
        return self._random_weights[1].posterior

    # Subclasses override these.

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """The shape of the bias."""
        return (self.gates * self.units,)

    def make_bias_initializer(self) -> Any:
        """Returns the initializer of the bias, or of its means."""
        return self.bias_initializer

    def flipped_step(
        self, inputs: Tensor, states: Any, training: bool | None
    ) -> tuple[Tensor, Any]:
        """Returns the result of Keras's `call` if every example has its own kernels.

        It computes its products with `input_gates` and `state_gates`.
        """
        raise NotImplementedError

    # The parts of a step if every example has its own kernels.

    def input_gates(self, inputs: Tensor, training: bool | None) -> list[Tensor]:
        """Returns the inputs, with dropout, times the kernel, gate by gate."""
        drops = training and 0.0 < self.dropout < 1.0
        mask = self.get_dropout_mask(inputs) if drops else None
        return self._gates("kernel", inputs, mask)

    def state_gates(self, state: Tensor, training: bool | None) -> list[Tensor]:
        """Returns a state, with dropout, times the recurrent kernel, gate by gate."""
        return self._gates("recurrent_kernel", state, self.state_mask(state, training))

    def state_mask(self, state: Tensor, training: bool | None) -> Any:
        """Returns the masks of the recurrent dropout, one for each gate, or `None`."""
        drops = training and 0.0 < self.recurrent_dropout < 1.0
        return self.get_recurrent_dropout_mask(state) if drops else None

    def gate(self, index: int) -> slice:
        """Returns the columns of the kernels that belong to a gate."""
        return slice(index * self.units, (index + 1) * self.units)

    def _gates(self, name: str, inputs: Tensor, mask: Any) -> list[Tensor]:
        if isinstance(mask, list):
            return [
                self._held.product(name, inputs * mask[gate], self.gate(gate))
                for gate in range(self.gates)
            ]
        inputs = inputs if mask is None else inputs * mask
        return tf.split(self._held.product(name, inputs), self.gates, axis=-1)

    # All cells share these.

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        input_dim = input_shape[-1]
        if input_dim is None:
            raise ValueError(
                f"The last dimension of the inputs to `{type(self).__name__}` must be "
                f"defined. Received: input_shape={input_shape}"
            )
        columns = self.gates * self.units
        kernel, recurrent_kernel = (
            KernelSpec((rows, columns), output_axes=(1,))
            for rows in (input_dim, self.units)
        )
        self._random_weights[0].build(
            self.add_weight, kernel, **self._options("kernel")
        )
        options = self._options("recurrent")
        if options["initializer"] is None and not self.recurrent_posterior.zero_mean:
            # Means start as in Keras. Orthogonal scales make no sense, because only
            # their squares count; they start like those of a variance layer, which have
            # about the same size.
            options["initializer"] = keras.initializers.Orthogonal()
        self._random_weights[1].build(self.add_weight, recurrent_kernel, **options)
        initializer = self.make_bias_initializer()
        self._plain_bias = self._finish_build(
            self.bias_shape, kernel, initializer=initializer
        )

    def step(self, inputs: Tensor, states: Any, training: bool) -> Any:
        if self._held.weight("kernel") is None:
            return self.flipped_step(inputs, states, training)
        # Keras's own step, which reads the kernels from the properties below.
        return super().step(inputs, states, training)

    def get_recurrent_dropout_mask(self, step_input: Tensor) -> Any:
        mask = super().get_recurrent_dropout_mask(step_input)
        # `RNN` asks for this mask last, before its loop. Inside the loop it would be
        # too late: each step would draw again, and a loss cannot leave the loop.
        self.hold_for_sequence(step_input)
        return mask

    def _create_dropout_mask(self, step_input: Tensor, dropout_rate: float) -> Any:
        # Like Keras, but with a seed for noise that each example has for itself.
        ones = tf.ones_like(step_input)
        count = getattr(self, "dropout_mask_count", None)
        masks = [self._drop(ones, dropout_rate) for _ in range(count or 1)]
        return masks[0] if count is None else masks

    def _drop(self, ones: Tensor, rate: float) -> Tensor:
        if rate == 1.0:
            return tf.zeros_like(ones)
        seed = self.seed_generator.next(per_example=True)
        return tf.nn.experimental.stateless_dropout(ones, rate, seed)

    def reset_recurrent_dropout_mask(self) -> None:
        super().reset_recurrent_dropout_mask()
        self._held = None

    def draw(self, inputs: Tensor, training: bool | None) -> Any:
        names = [weight.name for weight in self._random_weights]
        readings = self._read()
        held = self.estimator_in_use.hold(
            dict(zip(names, readings, strict=True)),
            tf.shape(inputs)[0],
            self.compute_dtype,
            self.seed_generator,
        )
        drawn = [held.drawn.get(name) for name in names]
        self.add_kl(lambda: self._kl(readings, drawn), training)
        return held

    # Keras's step, and its fused implementations, use these as if they were variables.

    @property
    def kernel(self) -> Tensor:
        return self._held_weight("kernel")

    @property
    def recurrent_kernel(self) -> Tensor:
        return self._held_weight("recurrent_kernel")

    @property
    def bias(self) -> Any:
        if self.bias_posterior is None:
            return self._plain_bias
        if self._held is not None and self._held.weight("kernel") is None:
            return self._held.bias()
        return self._held_weight("bias")

    def _held_weight(self, name: str) -> Tensor:
        weight = None if self._held is None else self._held.weight(name)
        if weight is None:
            raise NoWeightError(
                f"`{type(self).__name__}` has no fixed `{name}`, but a distribution "
                f"over kernels; see `posterior_distribution({name!r})`."
            )
        return weight
