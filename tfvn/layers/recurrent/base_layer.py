"""Base classes of recurrent layers with random kernels."""

import inspect
from typing import Any

import keras
from tensorflow_probability import distributions as tfd

from tfvn import random
from tfvn.layers.recurrent.base_cell import StochasticRNNCell
from tfvn.utils import private

Tensor = Any


class OfCell:
    """An attribute of a recurrent layer that returns that of its cell."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        return self if layer is None else getattr(layer.cell, self._name)


# Exclusive or with this number gives the seed of the other direction.
_ALL_BITS = 0xFFFFFFFF


class ReplacesCell(keras.Layer):
    """Turns a Keras layer with a cell into one with a cell of this library.

    A subclass inherits from this class and from the Keras layer that it replaces, and
    names its `cell_class`. The layer takes the arguments of both, by name; the keyword-only
    arguments of the cell go to the cell alone.
    """

    cell_class: Any
    cell: Any

    seed = OfCell()

    def __init__(self, **kwargs: Any):
        taken = inspect.signature(self.cell_class).parameters
        names = self._cell_arguments()
        own = {name: kwargs.pop(name) for name in names if name in kwargs}
        super().__init__(**kwargs)
        # The twin has checked its arguments and made a plain cell from them. Our cell
        # replaces it.
        plain = self.cell
        private.untrack(self, plain)
        arguments = {
            name: getattr(plain, name)
            for name in taken
            if hasattr(plain, name) and name not in own
        }
        self.cell = self.cell_class(
            **arguments,
            **own,
            dtype=plain.dtype_policy,
            trainable=plain.trainable,
            # Not the twin's name, which all its cells share, because logs use the name.
            name=f"{self.name}_cell",
            implementation=plain.implementation,
        )
        if self.go_backwards and self.seed is not None:
            # `keras.layers.Bidirectional` makes a layer for the other direction from
            # the config of the first. With the same seed both would have the same noise.
            random.set_seed_generator(self.cell, self.seed ^ _ALL_BITS)

    @classmethod
    def _cell_arguments(cls) -> list[str]:
        """Returns the arguments that only the cell has, not the Keras cell."""
        taken = inspect.signature(cls.cell_class).parameters.values()
        return [p.name for p in taken if p.kind is p.KEYWORD_ONLY]

    def get_config(self) -> dict[str, Any]:
        cell = self.cell.get_config()
        return {
            **super().get_config(),
            **{name: cell[name] for name in self._cell_arguments()},
            "use_cudnn": self.use_cudnn,
        }


class StochasticRNN(ReplacesCell):
    """Turns a Keras layer with a cell into one whose cell has random kernels.

    A subclass inherits from this class and from the Keras layer that it replaces, and
    names its `cell_class`. The layer takes the arguments of both.
    """

    cell_class: type[StochasticRNNCell]

    posterior = OfCell()
    recurrent_posterior = OfCell()
    prior = OfCell()
    estimator = OfCell()
    kl_method = OfCell()
    kl_weight = OfCell()
    has_bias = OfCell()
    bias_posterior = OfCell()
    bias_prior = OfCell()
    variable_groups = OfCell()

    def kl_divergence(self) -> Tensor:
        """Returns KL(posterior || prior), summed over all weights, in nats."""
        return self.cell.kl_divergence()

    def posterior_distribution(self, weight: str = "kernel") -> tfd.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights.

        Args:
            weight: `"kernel"`, `"recurrent_kernel"` or, if it is random, `"bias"`.
        """
        return self.cell.posterior_distribution(weight)
