"""A divergence in the loss: added once per forward pass, with a weight."""

import math
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfvn import passes
from tfvn.utils import private

Tensor = Any

_KL_WEIGHT_ADVICE = (
    "A stochastic layer without a `kl_weight` adds its whole KL to the loss of every "
    "batch, as if each batch were all the data; train with `tfvn.Model.fit`, which finds "
    "the right weight, or, with a loss that is a mean over examples, pass "
    "`kl_weight=1 / number_of_training_examples` to the layer."
)

UNKNOWN_SIZE = (
    "The KL is divided by the number of training examples, which is not known here: `fit` "
    "finds it from data whose length is known; otherwise pass it to "
    "`compile(train_size=...)`. Received: train_size=None"
)


class WeightedKL(keras.Layer):
    """A layer that adds a divergence in nats to the loss.

    The weight is a variable, so that what changes it need not trace the model again, and no
    parameter: neither `weights` nor `count_params` knows it. In a step of a `tfvn.Model` the
    divergence is also multiplied by the model's weight of the KL and divided by the number
    of training examples.

    Attributes:
        kl_weight: The weight, or `None` if there is no divergence to weigh.
    """

    kl_weight: Any = None

    _kl_added: weakref.ref | None = None
    _kl_weight_argument: float | None = None
    _advised = False

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a KL to the loss."""
        raise NotImplementedError

    def add_kl_weight(self, kl_weight: Any) -> None:
        """Makes the variable of the weight.

        Args:
            kl_weight: The argument of the layer: a number, or `None` for 1.
        """
        self._kl_weight_argument = check_kl_weight(kl_weight)
        self.kl_weight = self.add_weight(
            name="kl_weight",
            shape=(),
            initializer=keras.initializers.Constant(
                1.0 if kl_weight is None else kl_weight
            ),
            dtype="float32",
            trainable=False,
            autocast=False,
        )
        # Of Keras's record of weights; TensorFlow's, for exports, keeps it.
        private.untrack(self, self.kl_weight)

    def add_kl(self, divergence: Callable[[], Tensor], training: bool | None) -> None:
        """Adds a divergence to the loss, unless this forward pass has it already.

        Args:
            divergence: Returns the divergence in nats.
            training: Whether the layer is being trained.
        """
        step = passes.current()
        # A layer that is called twice in a forward pass has one KL.
        if not step.adds_kl or not self.has_kl or self._has_added_kl():
            return
        if step.owner is None:
            self._advise(training)
        elif step.kl_factor is None:
            raise ValueError(UNKNOWN_SIZE)
        nats = divergence()
        loss = self.kl_weight.value * nats
        if step.owner is not None:
            loss *= step.kl_factor
            step.record.divergences[id(self)] = nats
        self.add_loss(loss)
        self._kl_added = weakref.ref(loss)

    def _advise(self, training: bool | None) -> None:
        if training and self._kl_weight_argument is None and not self._advised:
            self._advised = True
            warnings.warn(
                _KL_WEIGHT_ADVICE + f" Received: layer={self.name!r}", stacklevel=4
            )

    def _has_added_kl(self) -> bool:
        # Keras clears the losses when the outermost layer is called.
        added = self._kl_added and self._kl_added()
        return any(loss is added for loss in private.own_losses(self))

    def kl_weight_now(self) -> float | None:
        """Returns the argument, unless the variable has been assigned to since."""
        argument = self._kl_weight_argument
        if self.kl_weight is None:
            return argument
        now = float(keras.ops.convert_to_numpy(self.kl_weight))
        is_argument = now == np.float32(1.0 if argument is None else argument)
        return argument if is_argument else now

    # Keras's Dense and convolutions save a kernel that may be quantized.

    def save_own_variables(self, store: Any) -> None:
        keras.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        keras.Layer.load_own_variables(self, store)


def check_kl_weight(kl_weight: Any) -> float | None:
    """Returns a `kl_weight` as a number, or raises what is wrong with it."""
    if kl_weight is None:
        return None
    is_number = isinstance(kl_weight, int | float | np.number)
    if not is_number or not 0 <= kl_weight < math.inf:
        raise ValueError(
            "Argument `kl_weight` must be `None` or a finite number that is not negative. "
            f"Received: kl_weight={kl_weight!r}"
        )
    return float(kl_weight)
