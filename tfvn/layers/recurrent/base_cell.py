"""What the cells of recurrent layers with random kernels share."""

from typing import Any

import keras
import tensorflow as tf

from tfvn.kernel import KernelSpec
from tfvn.layers.base import RandomWeightsLayer
from tfvn.layers.recurrent.held_draws import HoldsDraws
from tfvn.posteriors import Posterior

Tensor = Any


class NoWeightError(AttributeError, NotImplementedError):
    """A cell has no single kernel now.

    An attribute is missing, as far as Python is concerned. To Keras, which asks for
    kernels in order to try a fused implementation, the implementation is: it then runs
    the steps.
    """


class StochasticRNNCell(HoldsDraws, RandomWeightsLayer):
    """Turns a Keras cell into one whose kernels are distributions.

    A subclass inherits from this class and from its Keras twin, and says how many
    `gates` it has, the shape of its bias, and its `flipped_step`.

    The kernel and the recurrent kernel each have a posterior, of the same kind. Both are
    drawn before the first step of a sequence and held until the last, and the KL is
    added to the loss then. A cell that is called by itself draws for that one step; one
    that a layer other than `keras.layers.RNN` calls, for all steps in a call of that layer.
    """

    kernels = ("kernel", "recurrent_kernel")
    is_recurrent = True
    gates: int

    @property
    def recurrent_posterior(self) -> Posterior:
        """What is learned about the recurrent kernel."""
        return self._random_weights[1].posterior

    # What a cell provides.

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """The shape of the bias."""
        return (self.gates * self.units,)

    def make_bias_initializer(self) -> Any:
        """Returns what the bias, or its means, start from."""
        return self.bias_initializer

    def flipped_step(
        self, inputs: Tensor, states: Any, training: bool | None
    ) -> tuple[Tensor, Any]:
        """Returns what the twin's `call` does, where every example has its own kernels.

        Its products are those of `input_gates` and `state_gates`.
        """
        raise NotImplementedError

    # What a step is made of, where every example has its own kernels.

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

    # What all cells do.

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
            # As in Keras, for means. Scales, whose squares count, can't be orthogonal
            # to anything; they start as a variance layer's, which are about as large.
            options["initializer"] = keras.initializers.Orthogonal()
        self._random_weights[1].build(self.add_weight, recurrent_kernel, **options)
        initializer = self.make_bias_initializer()
        self._plain_bias = self._finish_build(
            self.bias_shape, kernel, initializer=initializer
        )

    def step(self, inputs: Tensor, states: Any, training: bool) -> Any:
        if self._held.weight("kernel") is None:
            return self.flipped_step(inputs, states, training)
        # Keras's own step, which reads the kernels off the properties below.
        return super().step(inputs, states, training)

    def get_recurrent_dropout_mask(self, step_input: Tensor) -> Any:
        mask = super().get_recurrent_dropout_mask(step_input)
        # The last that an `RNN` asks for before its loop. In the loop it would be too
        # late: each step would draw anew, and no loss can leave it.
        self.hold_for_sequence(step_input)
        return mask

    def _create_dropout_mask(self, step_input: Tensor, dropout_rate: float) -> Any:
        # As Keras does, but with seeds for what each example has for itself.
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

    # What Keras's step, and its fused implementations, take for variables.

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
                f"`{type(self).__name__}` has no `{name}`, but a distribution over "
                f"kernels: see `posterior_distribution({name!r})`."
            )
        return weight
