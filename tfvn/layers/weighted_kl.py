"""The KL of a layer: from its random weights to their priors, and into the loss."""

import warnings
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import kl, passes, posteriors, priors, support
from tfvn.distributions import trainable
from tfvn.kernel import KernelSpec
from tfvn.posteriors import Posterior
from tfvn.utils import private
from tfvn.utils.models import all_layers
from tfvn.utils.validation import check_choice, check_number

Tensor = Any

KL_METHODS = ("auto", "analytic", "monte_carlo")

_KL_WEIGHT_ADVICE = (
    "A stochastic layer without a `kl_weight` adds its whole KL to the loss of every "
    "batch, as if each batch were all the data; train with `tfvn.Model.fit`, which "
    "finds the right weight, or, if the loss is a mean over examples, pass "
    "`kl_weight=1 / number_of_training_examples` to the layer."
)

UNKNOWN_SIZE = (
    "The KL must be divided by the number of training examples, which is not known "
    "here; call `fit` with data whose length is known, or pass the number to "
    "`compile(train_size=...)` or, for a converted model, to "
    "`tfvn.from_deterministic(..., train_size=...)`. Received: train_size=None"
)


class WeightedKL(keras.Layer):
    """A layer that adds a divergence in nats to the loss.

    The weight is a variable, so that it can change without a new trace of the model. It
    is not a parameter: `weights` and `count_params` leave it out. In a step of a
    `tfvn.Model` the divergence is also multiplied by the model's KL weight and divided by
    the number of training examples.

    Attributes:
        kl_weight: The weight, or `None` if the layer has no divergence.
    """

    kl_weight: Any = None

    _kl_added: weakref.ref | None = None
    _kl_weight_argument: float | None = None
    _is_advised = False

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a KL to the loss."""
        raise NotImplementedError

    def add_kl_weight(self, kl_weight: Any) -> None:
        """Creates the variable of the weight.

        Args:
            kl_weight: The argument of the layer: a number, or `None` for 1.
        """
        weight = check_kl_weight(kl_weight)
        self._kl_weight_argument = weight
        self._is_advised = weight is not None
        self.kl_weight = self.add_weight(
            name="kl_weight",
            shape=(),
            initializer=keras.initializers.Constant(1.0 if weight is None else weight),
            dtype="float32",
            trainable=False,
            autocast=False,
        )
        # Removed from Keras's list of weights; TensorFlow still tracks it, for exports.
        private.untrack(self, self.kl_weight)

    def add_kl(self, divergence: Callable[[], Tensor], training: bool | None) -> None:
        """Adds a divergence to the loss, unless this forward pass has already added it.

        Args:
            divergence: Returns the divergence in nats.
            training: Whether the layer is being trained.
        """
        step = passes.current()
        # A layer that is called twice in a forward pass adds its KL once.
        if not step.adds_kl or not self.has_kl or self._has_added_kl(step):
            return
        if step.owner is not None and step.kl_factor is None:
            raise ValueError(UNKNOWN_SIZE)
        if step.owner is None and training and not self._is_advised:
            self._is_advised = True
            advice = f"{_KL_WEIGHT_ADVICE} Received: layer={self.name!r}"
            warnings.warn(advice, stacklevel=3)
        nats = divergence()
        loss = self.kl_weight.value * nats
        if step.owner is not None:
            loss *= step.kl_factor
            call = private.current_call()
            step.record.divergences[id(self)] = passes.Divergence(nats, loss, call)
        private.mark_as_kl(loss)
        self.add_loss(loss)
        self._kl_added = weakref.ref(loss)

    def _has_added_kl(self, step: passes.Pass) -> bool:
        if step.owner is not None:
            # The losses of a layer may be those of another replica.
            last = step.record.divergences.get(id(self))
            return last is not None and last.call is private.current_call()
        # Keras clears the losses when the outermost layer is called.
        added = self._kl_added and self._kl_added()
        return any(loss is added for loss in private.own_losses(self))

    def kl_weight_now(self) -> float | None:
        """Returns the argument, or the value of the variable if it has changed since."""
        argument = self._kl_weight_argument
        if self.kl_weight is None:
            return argument
        now = float(keras.ops.convert_to_numpy(self.kl_weight))
        is_argument = now == np.float32(1.0 if argument is None else argument)
        return argument if is_argument else now

    # Overridden, because Keras's Dense and convolutions save a kernel, maybe quantized.

    def save_own_variables(self, store: Any) -> None:
        keras.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        keras.Layer.load_own_variables(self, store)


def check_kl_weight(kl_weight: Any) -> float | None:
    """Returns a `kl_weight` as a number, or raises if it is not valid."""
    return check_number("kl_weight", kl_weight, least=0, or_none=True)


def weighted_layers(model: keras.Layer) -> list[WeightedKL]:
    """Returns the layers that may add a divergence to the loss, each once."""
    return [layer for layer in all_layers(model) if isinstance(layer, WeightedKL)]


class RandomWeight:
    """A kernel or a bias: its posterior, its prior, and the KL between them.

    Args:
        name: The name of the weight, with which the names of its variables begin.
        posterior: An alias or an instance. An instance is copied, so that you can pass
            one posterior to many layers.
        prior: An alias, a `tfd.Distribution` or `None`.
        kl_method: `"auto"`, `"analytic"` or `"monte_carlo"`.
    """

    def __init__(self, name: str, posterior: Any, prior: Any, kl_method: str):
        self.name = name
        self.posterior: Posterior = posteriors.get(posterior).clone()
        self.prior = priors.resolve(prior, self.posterior)
        self.is_estimated = self._choose(kl_method) == "monte_carlo"

    @property
    def prior_variables(self) -> list[keras.Variable]:
        """The variables of the prior, if they are learned through the KL."""
        fixed = self.has_constant_kl
        return [] if fixed else trainable.variables(self.prior_distribution)

    @property
    def has_constant_kl(self) -> bool:
        """Whether the KL has no gradient, so that it can be left out."""
        return priors.is_constant(self.prior, self.posterior)

    def build(
        self,
        add_weight: Callable[..., keras.Variable],
        spec: KernelSpec,
        prior_spec: KernelSpec | None = None,
        **options: Any,
    ) -> None:
        """Creates the variables.

        Args:
            add_weight: The layer's `add_weight`.
            spec: Geometry of the weight.
            prior_spec: Geometry for a prior that is given by alias; `None` is `spec`.
            **options: `initializer`, `regularizer` and `constraint` of the variable that
                replaces the weight.
        """
        if options["initializer"] is None:
            options["initializer"] = self.posterior.default_initializer(spec)

        def add_exact_weight(**kwargs: Any) -> keras.Variable:
            # Posteriors compute in the precision of their variables, because squares
            # and logarithms of small scales underflow in half precision.
            return add_weight(autocast=False, **kwargs)

        self.posterior.build(add_exact_weight, spec, name=self.name, **options)
        for group, variables in self.posterior.variable_groups.items():
            for variable in variables:
                # For optimizers, which get variables but no layers.
                variable.variable_group = group
        if isinstance(self.prior, str) and prior_spec is not None:
            spec = prior_spec
        self.prior_distribution: Any = priors.make(self.prior, spec)

    def kl_divergence(
        self,
        reading: Posterior,
        drawn: Tensor | None,
        next_seed: Callable[[], Tensor],
    ) -> Tensor:
        """Returns the KL in nats, summed over the weight, in float32.

        In a pass with `kl_gradient="path"` an estimate leaves out the gradient of log q
        with respect to the posterior's own parameters. That score term is zero on average
        and only adds noise: [Roeder et al., 2017](https://arxiv.org/abs/1703.09194),
        equation 7.

        Args:
            reading: The result of `Posterior.read` in this call.
            drawn: The weight that the forward pass sampled, or `None`.
            next_seed: Returns a seed, if a sample is needed.
        """
        if self.has_constant_kl:
            return tf.zeros(())
        prior = trainable.current(self.prior_distribution)
        # Computed in the prior's precision, by default float32: the layer's may be
        # half.
        q = _cast(reading.distribution(), prior.dtype)
        if self.is_estimated:
            drawn = reading.sample(next_seed()) if drawn is None else drawn
            sample = tf.cast(drawn, prior.dtype)
            if passes.current().kl_gradient == "path":
                q = _map_parameters(tf.stop_gradient, q)
            divergence = tf.reduce_sum(kl.monte_carlo(q, prior, sample))
        else:
            divergence = kl.total(q, prior)
        return tf.cast(divergence, tf.float32)

    def _choose(self, kl_method: str) -> str:
        check_choice("kl_method", kl_method, KL_METHODS)
        row, law = priors.row(self.prior), self.posterior.law
        cell = support.lookup(support.PRIORS, row, law)
        has_closed_form = cell != support.MONTE_CARLO
        if kl_method == "analytic" and not has_closed_form:
            raise ValueError(
                f"The KL from a {law} posterior to this prior has no closed form; pass "
                "`kl_method='monte_carlo'` or `'auto'`. Received: kl_method='analytic' "
                f"and prior={self.prior}"
            )
        if kl_method == "monte_carlo" and row == "ard":
            raise ValueError(
                "The ARD prior has no density, so its KL can't be estimated from "
                "samples; pass `kl_method='analytic'` or `'auto'`. Received: "
                "kl_method='monte_carlo'"
            )
        if kl_method == "auto":
            return "analytic" if has_closed_form else "monte_carlo"
        return kl_method


def _cast(distribution: tfd.Distribution, dtype: tf.DType) -> tfd.Distribution:
    if distribution.dtype == dtype:
        return distribution
    return _map_parameters(lambda tensor: tf.cast(tensor, dtype), distribution)


def _map_parameters(
    function: Callable[[Tensor], Tensor], distribution: tfd.Distribution
) -> tfd.Distribution:
    mapped = {}
    for key, value in distribution.parameters.items():
        if isinstance(value, tfd.Distribution):
            mapped[key] = _map_parameters(function, value)
        elif tf.is_tensor(value) and value.dtype.is_floating:
            mapped[key] = function(value)
    return distribution.copy(**mapped)
