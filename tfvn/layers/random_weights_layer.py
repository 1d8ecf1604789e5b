"""What every layer with random weights shares: the weights, their KL, the config."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import estimators, passes, posteriors, priors, random, support
from tfvn.distributions.trainable import add_layer, freeze_or_not
from tfvn.kernel import KernelSpec
from tfvn.layers.random_weight import RandomWeight
from tfvn.layers.weighted_kl import WeightedKL
from tfvn.posteriors import Posterior
from tfvn.utils import private

Tensor = Any

# Arguments of the Keras twins that have no meaning for a random kernel.
NOT_TAKEN = (
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
)


class RandomWeightsLayer(WeightedKL):
    """A Keras layer some of whose weights are distributions.

    It owns the posteriors, the priors and the estimator, adds the KL to the loss, and
    writes the config. How the weights are used is up to its two subclasses:
    `StochasticLayer` for feed-forward layers and `StochasticRNNCell` for cells.

    The layer draws noise in training and at inference alike. Its KL is added to the
    loss once per forward pass, however often the layer is called in it.

    Args:
        *args: Arguments of the Keras twin.
        posterior: What is learned about the kernel: an alias or an instance of
            `tfvn.posteriors`.
        prior: What the posterior is measured against: an alias (`"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`), a `tfd.Distribution` that broadcasts to the
            kernel, or `None` for no KL. `"auto"` is the posterior's own default. A
            distribution with a `tf.Variable`, a `keras.Variable` or a
            `tfp.util.TransformedVariable` among its parameters is learned, in the
            variable group `"prior"`.
        estimator: How noise reaches the output: `"local"`, `"flipout"`, `"weights"`
            or `"mean"`. `None` is the default for the posterior.
        kl_method: `"analytic"`, `"monte_carlo"` (one sample; the one of the forward
            pass where the estimator draws kernels), or `"auto"`, which is analytic
            wherever there is a closed form.
        kl_weight: Factor of the KL in the loss. `None` acts as 1, with a warning.
        bias_posterior: Posterior of the bias, `None` for a plain one, or
            `"mean_field"`.
        bias_prior: Prior of the bias. `"auto"` is the kernel's prior.
        seed: Integer seed of the noise. `None` is a seed that
            `keras.utils.set_random_seed` determines.
        **kwargs: Further arguments of the Keras twin. Its `kernel_initializer`,
            `kernel_regularizer` and `kernel_constraint` act on the variable that
            stands where the kernel would: the means or, in a variance layer, the
            scales.
    """

    # The random kernels, the first of which `posterior` is about. All have a posterior
    # of the same kind, and one each.
    kernels: tuple[str, ...] = ("kernel",)

    # The stem of the twin's arguments for the kernel: its initializer, regularizer
    # and constraint.
    kernel_argument = "kernel"

    # Which of the tables of estimators applies.
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
                    f"`{type(self).__name__}` has no kernel to adapt or quantize and "
                    f"does not take `{name}`. Received: {name}={value!r}"
                )
        # The twin's default suits a kernel; a posterior knows what suits it.
        kwargs.setdefault(f"{self.kernel_argument}_initializer", None)
        super().__init__(*args, **kwargs)
        if getattr(self, "quantization_mode", None) is not None:
            raise ValueError(
                f"`{type(self).__name__}` has no kernel to quantize. "
                f"Received: dtype={self.dtype_policy.name!r}"
            )
        self.prior = priors.get(prior)
        self.kl_method = kl_method
        self._random_weights = [
            RandomWeight(name, posterior, self.prior, kl_method)
            for name in self.kernels
        ]
        self.posterior: Posterior = self._random_weights[0].posterior
        self.estimator = self._choose_estimator(estimator)
        self.bias_prior = priors.get(bias_prior)
        self.bias_posterior = None
        if bias_posterior is not None and not self.has_bias:
            raise ValueError(
                "A layer without a bias has no posterior of one; expected "
                f"`bias_posterior=None`. Received: bias_posterior={bias_posterior!r}"
            )
        if bias_posterior is not None:
            same = isinstance(self.bias_prior, str) and self.bias_prior == priors.AUTO
            prior = self._random_weights[0].prior if same else self.bias_prior
            random_bias = RandomWeight("bias", bias_posterior, prior, kl_method)
            self.bias_posterior = random_bias.posterior
            self._random_weights.append(random_bias)
        self.seed = seed
        if hasattr(self, "seed_generator"):
            # That of a twin with dropout, which would be saved and counted beside ours.
            private.untrack(self, self.seed_generator)
        self.seed_generator = random.SeedGenerator(seed)
        self.add_kl_weight(kl_weight)

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias."""
        return self.use_bias

    def kl_divergence(self) -> Tensor:
        """Returns KL(posterior || prior), summed over all weights, in nats.

        It is not multiplied by `kl_weight`. Where there is no closed form this is
        an estimate from one fresh sample.
        """
        self._check_built("`kl_divergence()`")
        readings = self._read()
        return self._kl(readings, [None] * len(readings))

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a KL to the loss."""
        return not all(weight.has_constant_kl for weight in self._random_weights)

    @property
    def estimator_in_use(self) -> estimators.Estimator:
        """The estimator of the pass that is going on: the layer's own, or another."""
        estimator_of = passes.current().estimator_of
        return self.estimator if estimator_of is None else estimator_of(self)

    @property
    def noise_per_example(self) -> bool | None:
        """Whether the examples of a batch get independent noise; `None` without any."""
        estimator = self.estimator_in_use
        return estimator.noise_per_example if estimator.draws_noise else None

    @property
    def shares_kl_sample(self) -> bool:
        """Whether a KL is estimated from the weights that the forward pass draws."""
        return self.estimator_in_use.draws_weights and any(
            weight.is_estimated for weight in self._random_weights
        )

    def posterior_distribution(
        self, weight: str = "kernel"
    ) -> tfp.distributions.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights.

        Args:
            weight: Which of the random weights, if another: `"bias"` or, in a cell,
                `"recurrent_kernel"`.
        """
        self._check_built("`posterior_distribution()`")
        if weight not in self.posteriors:
            raise ValueError(
                "Argument `weight` must name a random weight, one of "
                f"{list(self.posteriors)}. Received: weight={weight!r}"
            )
        return self.posteriors[weight].distribution()

    @property
    def posteriors(self) -> dict[str, Posterior]:
        """What is learned about each random weight, by its name."""
        return {weight.name: weight.posterior for weight in self._random_weights}

    @property
    def trainable(self) -> bool:
        """Whether the layer is trained. A prior that others share is, as long as they are."""
        return keras.Layer.trainable.fget(self)

    @trainable.setter
    def trainable(self, value: bool) -> None:
        keras.Layer.trainable.fset(self, value)
        if self.built:
            for variable in self._prior_variables():
                freeze_or_not(variable)

    @property
    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """The variables by what they mean: mean, scale, or default.

        A layer whose prior is learned has a fourth group, prior.
        """
        self._check_built("`variable_groups`")
        groups: dict[str, list[keras.Variable]] = {"mean": [], "scale": []}
        for weight in self._random_weights:
            for name, variables in weight.posterior.variable_groups.items():
                groups.setdefault(name, []).extend(variables)
        learned = [v for v in self._prior_variables() if v.trainable]
        if learned:
            groups["prior"] = learned
        grouped = {id(v) for variables in groups.values() for v in variables}
        own = private.own_trainable_variables(self)
        plain = [v for v in own if id(v) not in grouped]
        return {**groups, "default": plain}

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Not offered: a random kernel has no low-rank adapter."""
        raise ValueError(
            f"`{type(self).__name__}` has no kernel to adapt and does not support "
            "LoRA; adapt a deterministic layer instead."
        )

    def get_config(self) -> dict[str, Any]:
        twin = super().get_config()
        kept = {key: value for key, value in twin.items() if key not in NOT_TAKEN}
        return {**kept, **self.get_random_config()}

    def get_random_config(self) -> dict[str, Any]:
        """Returns the part of the config that the Keras twin does not have."""
        bias = self.bias_posterior
        return {
            "posterior": posteriors.serialize(self.posterior),
            "prior": priors.to_config(self.prior),
            "estimator": estimators.serialize(self.estimator),
            "kl_method": self.kl_method,
            "kl_weight": self.kl_weight_now(),
            "bias_posterior": None if bias is None else posteriors.serialize(bias),
            "bias_prior": priors.to_config(self.bias_prior),
            "seed": self.seed,
        }

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise ValueError(
                f"A layer has {what} only once it has variables; call the layer on data "
                f"or call its `build` first. Received: layer={self.name!r}, not built"
            )

    def _options(self, prefix: str) -> dict[str, Any]:
        names = ("initializer", "regularizer", "constraint")
        return {name: getattr(self, f"{prefix}_{name}") for name in names}

    def _choose_estimator(self, estimator: Any) -> estimators.Estimator:
        law = self.posterior.law
        if estimator is None:
            estimator = support.default_estimator(law, self.is_recurrent)
        chosen = estimators.get(estimator)
        support.require_estimator(chosen.alias, law, self.is_recurrent)
        return chosen

    def _build_bias(
        self, shape: tuple[int, ...], kernel_spec: KernelSpec, **options: Any
    ) -> keras.Variable | None:
        """Creates what a bias is made of, and returns the variable of a plain one."""
        options = {**self._options("bias"), **options}
        if self.bias_posterior is not None:
            # A bias has an input of its own, the constant 1; an alias still means the
            # kernel's prior, fan-in included.
            self._random_weights[-1].build(
                self.add_weight,
                KernelSpec(shape, output_axes=tuple(range(len(shape)))),
                prior_spec=kernel_spec,
                **options,
            )
            return None
        if not self.has_bias:
            return None
        return self.add_weight(name="bias", shape=shape, **options)

    def _prior_variables(self) -> list[keras.Variable]:
        """Returns the variables of all priors that the KL depends on, each once."""
        found: dict[int, keras.Variable] = {}
        for weight in self._random_weights:
            if not weight.has_constant_kl:
                found.update({id(v): v for v in weight.prior_variables})
        return list(found.values())

    def _add_prior_variables(self) -> None:
        """Makes the variables of the priors the layer's own, at the end of `build`."""
        for variable in self._prior_variables():
            # For optimizers, as those of the posterior are marked.
            variable.variable_group = "prior"
            add_layer(variable, self)

    def _read(self) -> list[Posterior]:
        readings = [weight.posterior.read() for weight in self._random_weights]
        posterior_of = passes.current().posterior_of
        return readings if posterior_of is None else list(map(posterior_of, readings))

    def _kl(self, readings: list[Posterior], drawn: Sequence[Tensor | None]) -> Tensor:
        weights = zip(self._random_weights, readings, drawn, strict=True)
        return tf.add_n(
            [
                weight.kl_divergence(
                    reading,
                    sample,
                    self.seed_generator.next,
                    only_path=passes.current().kl_gradient == "path",
                )
                for weight, reading, sample in weights
            ]
        )

    def _add_kl(
        self,
        readings: list[Posterior],
        drawn: Sequence[Tensor | None],
        training: bool | None,
    ) -> None:
        self.add_kl(lambda: self._kl(readings, drawn), training)
