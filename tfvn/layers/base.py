"""What layers with a random kernel share: the weights, their KL, the config."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import estimators, passes, posteriors, priors, random, support
from tfvn.distributions.trainable import add_layer, freeze_or_not
from tfvn.kernel import KernelSpec
from tfvn.layers.weighted_kl import RandomWeight, WeightedKL
from tfvn.posteriors import Posterior
from tfvn.utils import private
from tfvn.utils.models import all_layers

Tensor = Any

# Arguments of the Keras twins that have no meaning for a random kernel.
NOT_TAKEN = (
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
)


class RandomWeightsLayer(WeightedKL):
    """A Keras layer in which some weights are distributions.

    It owns the posteriors, the priors and the estimator, adds the KL to the loss, and
    writes the config. Its two subclasses use the weights: `StochasticLayer` for
    feed-forward layers and `StochasticRNNCell` for cells.

    The layer draws noise in training and at inference alike. It adds its KL to the loss
    once per forward pass, however often it is called in it. Its arguments are those of
    the Keras layer that it replaces and, from `posterior` to `seed`, those of
    `tfvn.layers.Dense`.
    """

    # The random kernels. Each has a posterior of its own, all of the same kind.
    kernels: tuple[str, ...] = ("kernel",)
    # The stem of the twin's arguments for the kernel: `kernel_initializer`, and so on.
    kernel_argument = "kernel"
    is_recurrent = False
    seed_generator: Any

    def __init__(
        self,
        *args: Any,
        posterior: Any = "mean_field",
        prior: Any = "auto",
        estimator: Any = None,
        kl_method: str = "auto",
        kl_weight: float | None = None,
        bias_posterior: Any = None,
        bias_prior: Any = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ):
        for name in NOT_TAKEN:
            value = kwargs.pop(name, None)
            if value is not None:
                raise ValueError(
                    f"`{type(self).__name__}` does not take `{name}`, because its "
                    "kernel is random and can be neither adapted nor quantized. "
                    f"Received: {name}={value!r}"
                )
        # The twin's default suits a plain kernel; a posterior has its own default.
        kwargs.setdefault(f"{self.kernel_argument}_initializer", None)
        super().__init__(*args, **kwargs)
        if getattr(self, "quantization_mode", None) is not None:
            raise ValueError(
                f"`{type(self).__name__}` can't be quantized, because its kernel is "
                "random; expected a floating-point `dtype`. Received: "
                f"dtype={self.dtype_policy.name!r}"
            )
        self.prior = priors.get(prior)
        self.kl_method = kl_method
        self._random_weights = [
            RandomWeight(name, posterior, self.prior, kl_method)
            for name in self.kernels
        ]
        self.posterior: Posterior = self._random_weights[0].posterior
        law = self.posterior.law
        if estimator is None:
            estimator = support.default_estimator(law, self.is_recurrent)
        self.estimator = estimators.get(estimator)
        support.require_estimator(self.estimator.alias, law, self.is_recurrent)
        self.bias_prior = priors.get(bias_prior)
        self.bias_posterior = None
        if bias_posterior is not None:
            if not self.has_bias:
                raise ValueError(
                    "Argument `bias_posterior` must be `None` for a layer without a "
                    "bias; leave it out, or give the layer a bias. Received: "
                    f"bias_posterior={bias_posterior!r}"
                )
            same = isinstance(self.bias_prior, str) and self.bias_prior == priors.AUTO
            prior = self._random_weights[0].prior if same else self.bias_prior
            random_bias = RandomWeight("bias", bias_posterior, prior, kl_method)
            self.bias_posterior = random_bias.posterior
            self._random_weights.append(random_bias)
        self.seed = seed
        random.set_seed_generator(self, seed)
        self.add_kl_weight(kl_weight)

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias."""
        return self.use_bias

    def kl_divergence(self) -> Tensor:
        """Returns KL(posterior || prior), summed over all weights, in nats.

        It is not multiplied by `kl_weight`. If there is no closed form, it is an estimate
        from one fresh sample.
        """
        self._check_built("`kl_divergence()`")
        return self._kl(self._read())

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a KL to the loss."""
        return not all(weight.has_constant_kl for weight in self._random_weights)

    @property
    def estimator_in_use(self) -> estimators.Estimator:
        """The estimator of this call: the layer's own, or the one that replaces it."""
        estimator_of = passes.current().estimator_of
        return self.estimator if estimator_of is None else estimator_of(self)

    @property
    def noise_per_example(self) -> bool | None:
        """Whether the examples of a batch get independent noise; `None` without noise."""
        estimator = self.estimator_in_use
        return estimator.noise_per_example if estimator.draws_noise else None

    @property
    def estimates_kl(self) -> bool:
        """Whether a part of the KL is estimated from a sample of the weights."""
        return any(weight.is_estimated for weight in self._random_weights)

    @property
    def shares_kl_sample(self) -> bool:
        """Whether a KL is estimated from the weights that the forward pass samples."""
        return self.estimates_kl and self.estimator_in_use.draws_weights

    def posterior_distribution(self, weight: str = "kernel") -> tfd.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights.

        Args:
            weight: Name of the random weight: `"kernel"`, `"bias"` or, in a cell,
                `"recurrent_kernel"`.
        """
        self._check_built("`posterior_distribution()`")
        if weight not in self.posteriors:
            raise ValueError(
                "Argument `weight` must be the name of a random weight of this layer, "
                f"one of {list(self.posteriors)}. Received: weight={weight!r}"
            )
        return self.posteriors[weight].distribution()

    @property
    def posteriors(self) -> dict[str, Posterior]:
        """The posterior of each random weight, by name."""
        return {weight.name: weight.posterior for weight in self._random_weights}

    @property
    def resolved_priors(self) -> dict[str, Any]:
        """The prior of each random weight, by name, with `"auto"` resolved."""
        return {weight.name: weight.prior for weight in self._random_weights}

    def twin_weights(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns values of the random weights, by name, as the Keras twin has them."""
        return weights

    @keras.Layer.trainable.setter
    def trainable(self, value: bool) -> None:
        """Whether the layer is trained. A shared prior is trained if one of its layers is."""
        keras.Layer.trainable.fset(self, value)
        if self.built:
            for variable in self._prior_variables():
                freeze_or_not(variable)

    @property
    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """The variables by group: mean, scale, or default.

        A layer with trainable variables in its prior has a fourth group, prior.
        """
        self._check_built("`variable_groups`")
        groups: dict[str, list[keras.Variable]] = {"mean": [], "scale": []}
        for posterior in self.posteriors.values():
            for name, variables in posterior.variable_groups.items():
                groups.setdefault(name, []).extend(variables)
        learned = [v for v in self._prior_variables() if v.trainable]
        if learned:
            groups["prior"] = learned
        grouped = {id(v) for variables in groups.values() for v in variables}
        own = private.own_trainable_variables(self)
        plain = [v for v in own if id(v) not in grouped]
        return {**groups, "default": plain}

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Raises an error, because a random kernel can have no low-rank adapter."""
        raise ValueError(
            f"`{type(self).__name__}` does not support LoRA, because its kernel is "
            "random; use LoRA in a layer with a fixed kernel instead."
        )

    def get_config(self) -> dict[str, Any]:
        twin = super().get_config()
        bias = self.bias_posterior
        return {
            **{key: value for key, value in twin.items() if key not in NOT_TAKEN},
            "posterior": posteriors.serialize(self.posterior),
            "prior": priors.to_config(self.prior),
            "estimator": estimators.serialize(self.estimator),
            "kl_method": self.kl_method,
            "kl_weight": self.kl_weight_now(),
            "bias_posterior": bias and posteriors.serialize(bias),
            "bias_prior": priors.to_config(self.bias_prior),
            "seed": self.seed,
        }

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise ValueError(
                f"The layer must be built before you use {what}; call it on data, or "
                f"call its `build` method. Received: layer={self.name!r}, which is not "
                "built"
            )

    def _options(self, prefix: str) -> dict[str, Any]:
        names = ("initializer", "regularizer", "constraint")
        return {name: getattr(self, f"{prefix}_{name}") for name in names}

    def _finish_build(
        self, bias_shape: tuple[int, ...], kernel_spec: KernelSpec, **options: Any
    ) -> keras.Variable | None:
        """Creates the variables of a bias, and returns that of a plain bias or `None`."""
        options = {**self._options("bias"), **options}
        plain = None
        if self.bias_posterior is not None:
            # The input of a bias is the constant 1. Yet an alias means the kernel's
            # prior, with the kernel's fan-in.
            self._random_weights[-1].build(
                self.add_weight,
                KernelSpec(bias_shape, output_axes=tuple(range(len(bias_shape)))),
                prior_spec=kernel_spec,
                **options,
            )
        elif self.has_bias:
            plain = self.add_weight(name="bias", shape=bias_shape, **options)
        for variable in self._prior_variables():
            # Optimizers read the group; variables of the posterior have one too.
            variable.variable_group = "prior"
            add_layer(variable, self)
        self.built = True
        return plain

    def _prior_variables(self) -> list[keras.Variable]:
        """Returns the variables of all priors that the KL depends on, each once."""
        weights = self._random_weights
        return list({id(v): v for w in weights for v in w.prior_variables}.values())

    def _read(self) -> list[Posterior]:
        readings = [weight.posterior.read() for weight in self._random_weights]
        posterior_of = passes.current().posterior_of
        return readings if posterior_of is None else list(map(posterior_of, readings))

    def _kl(self, readings: list[Posterior], drawn: Sequence[Tensor] = ()) -> Tensor:
        drawn = drawn or [None] * len(readings)
        weights = zip(self._random_weights, readings, drawn, strict=True)
        seed = self.seed_generator.next
        return tf.add_n([weight.kl_divergence(q, w, seed) for weight, q, w in weights])


def check_all_built(model: keras.Layer) -> None:
    """Raises if a layer with random weights has none yet, because nobody calls it."""
    unbuilt = [layer.name for layer in stochastic_layers(model) if not layer.built]
    if unbuilt:
        raise ValueError(
            "All layers with random weights must have been built; call the model on data, "
            "and remove layers that it does not call. Received: "
            f"model={model.name!r}, in which {unbuilt} are not built"
        )


def stochastic_layers(model: keras.Layer) -> list[RandomWeightsLayer]:
    """Returns the layers and cells with a random kernel in a model, each once."""
    return [x for x in all_layers(model) if isinstance(x, RandomWeightsLayer)]
