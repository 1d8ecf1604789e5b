"""What every layer with a random kernel shares."""

import inspect
import numbers
import warnings
import weakref
from typing import Any

import keras
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import estimators, kl, posteriors, priors, random, support
from tfvn.estimators import Term
from tfvn.kernel import KernelSpec
from tfvn.posteriors import Posterior

Tensor = Any

KL_METHODS = ("auto", "analytic", "monte_carlo")

# Arguments of the Keras twins that have no meaning for a random kernel.
_NOT_TAKEN = ("lora_rank", "lora_alpha", "quantization_config")

_KL_WEIGHT_ADVICE = (
    "A stochastic layer without a `kl_weight` adds its whole KL to the loss of every "
    "batch, as if each batch were all the data; with a loss that is a mean over "
    "examples, pass `kl_weight=1 / number_of_training_examples` to the layer."
)


class StochasticLayer(keras.Layer):
    """Turns a Keras layer with a kernel into one whose kernel is a distribution.

    A subclass inherits from this class and from its Keras twin, and says what its
    linear op is: `kernel_spec`, `linear_op` and `expand_bias`. Everything else, the
    posterior, the prior, the estimator, the KL and the config, is here.

    The layer draws noise in training and at inference alike. Its KL is added to the
    loss once per forward pass, however often the layer is called in it.

    Args:
        *args: Arguments of the Keras twin.
        posterior: What is learned about the kernel: an alias or an instance of
            `tfvn.posteriors`.
        prior: What the posterior is measured against: an alias (`"normal"`,
            `"log_uniform"`, `"ard"`), a `tfd.Distribution` that broadcasts to the
            kernel, or `None` for no KL. `"auto"` is the posterior's own default.
        estimator: How noise reaches the output: `"local"`, `"weights"` or `"mean"`.
            `None` is the default for the posterior.
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
        for name in _NOT_TAKEN:
            value = kwargs.pop(name, None)
            if value is not None:
                raise ValueError(
                    f"`{type(self).__name__}` has no kernel to adapt or quantize and "
                    f"does not take `{name}`. Received: {name}={value!r}"
                )
        # The twin's default suits a kernel; a posterior knows what suits it.
        if "kernel_initializer" not in _positional(type(self), args):
            kwargs.setdefault("kernel_initializer", None)
        super().__init__(*args, **kwargs)
        # A copy, so that one posterior can be given to many layers.
        self.posterior = posteriors.get(posterior).clone()
        self.prior = priors.get(prior)
        self._prior = priors.resolve(self.prior, self.posterior)
        self.estimator = estimators.get(
            support.default_estimator(self.posterior.law)
            if estimator is None
            else estimator
        )
        support.require(
            "estimator", support.ESTIMATORS, self.estimator.alias, self.posterior.law
        )
        self.kl_method = _check_kl_method(kl_method, self._prior, self.posterior)
        self.bias_posterior = None
        self.bias_prior = priors.get(bias_prior)
        if bias_posterior is not None and self.use_bias:
            self.bias_posterior = posteriors.get(bias_posterior).clone()
            kernel_prior = self.bias_prior == priors.AUTO
            self._bias_prior = priors.resolve(
                self._prior if kernel_prior else self.bias_prior, self.bias_posterior
            )
            _check_kl_method(kl_method, self._bias_prior, self.bias_posterior)
            _check_kl_method(kl_method, self._bias_prior, self.bias_posterior)
        self.seed = seed
        self.seed_generator = random.SeedGenerator(seed)
        self._kl_weight_argument = _check_kl_weight(kl_weight)
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
        self.bias: keras.Variable | None = None
        self._kl_added: weakref.ref | None = None
        self._advised = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # `help()` and notebooks then show the Keras twin's arguments and ours.
        cls.__signature__ = ClassSignature(merged_signature(cls))

    # What a linear op provides.

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        """Returns the geometry of the kernel for inputs of a shape."""
        raise self._not_implemented_error(self.kernel_spec)

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """Returns what a kernel makes of the inputs, linear in both."""
        raise self._not_implemented_error(self.linear_op)

    def expand_bias(self, bias: Tensor) -> Tensor:
        """Returns a bias in a shape that broadcasts to the outputs."""
        return bias

    # What the layer does with it.

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        spec = self.kernel_spec(input_shape)
        self._build_posterior(self.posterior, spec, "kernel")
        self._prior_distribution = priors.make(self._prior, spec)
        if self.bias_posterior is not None:
            # A bias has an input of its own, the constant 1, and one per output;
            # its prior is still the kernel's, fan-in included, unless told.
            bias_spec = KernelSpec((spec.columns,), output_axes=(0,))
            self._build_posterior(self.bias_posterior, bias_spec, "bias")
            self._bias_prior_distribution = _bias_prior(
                self._bias_prior, spec, bias_spec
            )
        elif self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(spec.columns,), **self._options("bias")
            )
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        terms = [Term(self.linear_op, self.posterior, inputs)]
        if self.bias_posterior is not None:
            one = tf.ones((), inputs.dtype)
            terms.append(Term(self._bias_op, self.bias_posterior, one))
        outputs, weights = self.estimator(terms, self.seed_generator)
        self._add_kl(weights, training)
        if self.bias is not None:
            outputs = estimators.add(outputs, self.expand_bias(self.bias))
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def kl_divergence(self) -> Tensor:
        """Returns KL(posterior || prior), summed over all weights, in nats.

        It is not multiplied by `kl_weight`. Where there is no closed form this is
        an estimate from one fresh sample.
        """
        self._check_built("`kl_divergence()`")
        return self._kl([None] * len(self._parts()))

    def posterior_distribution(self) -> tfp.distributions.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights."""
        self._check_built("`posterior_distribution()`")
        return self.posterior.distribution()

    @property
    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """The trainable variables by what they mean: mean, scale, or default."""
        self._check_built("`variable_groups`")
        groups: dict[str, list[keras.Variable]] = {
            "mean": [],
            "scale": [],
            "default": [] if self.bias is None else [self.bias],
        }
        for posterior, _, _ in self._parts():
            for name, variables in posterior.variable_groups.items():
                groups.setdefault(name, []).extend(variables)
        return groups

    @property
    def kernel(self) -> Tensor:
        raise AttributeError(
            f"`{type(self).__name__}` has no `kernel`, but a distribution over "
            "kernels: see `posterior_distribution()`."
        )

    def enable_lora(self, *args: Any, **kwargs: Any) -> None:
        """Not offered: a random kernel has no low-rank adapter."""
        raise ValueError(
            f"`{type(self).__name__}` has no kernel to adapt and does not support "
            "LoRA; adapt a deterministic layer instead."
        )

    def get_config(self) -> dict[str, Any]:
        twin = super().get_config()
        bias = self.bias_posterior
        return {
            **{key: value for key, value in twin.items() if key not in _NOT_TAKEN},
            "posterior": posteriors.serialize(self.posterior),
            "prior": priors.to_config(self.prior),
            "estimator": estimators.serialize(self.estimator),
            "kl_method": self.kl_method,
            "kl_weight": self._kl_weight_argument,
            "bias_posterior": None if bias is None else posteriors.serialize(bias),
            "bias_prior": priors.to_config(self.bias_prior),
            "seed": self.seed,
        }

    # Keras's Dense and convolutions save a kernel that may be quantized; the
    # variables of a posterior are saved as those of any layer.

    def save_own_variables(self, store: Any) -> None:
        keras.Layer.save_own_variables(self, store)

    def load_own_variables(self, store: Any) -> None:
        keras.Layer.load_own_variables(self, store)

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise ValueError(
                f"A layer has {what} only once it has variables; call the layer on data "
                f"or call its `build` first. Received: layer={self.name!r}, not built"
            )

    def _options(self, prefix: str) -> dict[str, Any]:
        names = ("initializer", "regularizer", "constraint")
        return {name: getattr(self, f"{prefix}_{name}") for name in names}

    def _build_posterior(
        self, posterior: Posterior, spec: KernelSpec, name: str
    ) -> None:
        options = self._options(name)
        if options["initializer"] is None:
            options["initializer"] = keras.initializers.get(
                posterior.default_initializer
            )

        def add_weight(**kwargs: Any) -> keras.Variable:
            # Posteriors compute in the precision of their variables: squares and
            # logarithms of small scales do not survive a cast to half precision.
            return self.add_weight(autocast=False, **kwargs)

        posterior.build(add_weight, spec, name=name, **options)

    def _bias_op(self, one: Tensor, bias: Tensor) -> Tensor:
        return one * self.expand_bias(bias)

    def _parts(self) -> list[tuple[Posterior, Any, Any]]:
        """Each random part: its posterior, its prior, and the prior for its shape."""
        parts = [(self.posterior, self._prior, self._prior_distribution)]
        if self.bias_posterior is not None:
            parts.append(
                (self.bias_posterior, self._bias_prior, self._bias_prior_distribution)
            )
        return parts

    def _kl(self, weights: Any) -> Tensor:
        total = tf.zeros(())
        for (posterior, prior, distribution), drawn in zip(
            self._parts(), weights, strict=True
        ):
            if priors.is_constant(prior, posterior):
                continue
            # In the prior's precision, float32 unless told: the layer's may be half.
            dtype = distribution.dtype
            q = _cast(posterior.distribution(), dtype)
            if _uses_monte_carlo(self.kl_method, prior, posterior):
                if drawn is None:
                    drawn = posterior.sample(self.seed_generator.next())
                divergence = kl.monte_carlo(q, distribution, tf.cast(drawn, dtype))
            else:
                divergence = tfp.distributions.kl_divergence(q, distribution)
            total += tf.cast(tf.reduce_sum(divergence), tf.float32)
        return total

    def _add_kl(self, weights: Any, training: bool | None) -> None:
        parts = self._parts()
        if all(priors.is_constant(prior, posterior) for posterior, prior, _ in parts):
            return
        # Keras clears the losses when the outermost layer is called, so a KL that is
        # still among them was added in this forward pass: the layer is shared.
        added = self._kl_added and self._kl_added()
        if added is not None and any(loss is added for loss in self._get_own_losses()):
            return
        if training and self._kl_weight_argument is None and not self._advised:
            self._advised = True
            warnings.warn(_KL_WEIGHT_ADVICE, stacklevel=2)
        loss = self.kl_weight.value * self._kl(weights)
        self.add_loss(loss)
        self._kl_added = weakref.ref(loss)


def _positional(cls: type, args: tuple) -> dict[str, Any]:
    """Returns the arguments of the Keras twin that are given by position, by name."""
    return inspect.signature(cls).bind_partial(*args).arguments


class ClassSignature:
    """A `__signature__` of a class that its instances do not have.

    An instance is called with inputs and not with the arguments of the constructor,
    and `tf.function` goes by what `inspect.signature` says of it.
    """

    def __init__(self, signature: inspect.Signature):
        self._signature = signature

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        return self._signature


def merged_signature(cls: type) -> inspect.Signature:
    """Returns the arguments that `cls` takes, those of its Keras twin included.

    Follows the constructors that pass `*args` on, in the order of inheritance, up to
    the first that does not: the twin's.
    """
    positional: dict[str, inspect.Parameter] = {}
    keywords: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        own = inspect.signature(vars(base)["__init__"]).parameters.values()
        for parameter in own:
            if parameter.name in ("self", *_NOT_TAKEN):
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords.setdefault(parameter.name, parameter)
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.setdefault(parameter.name, parameter)
        if all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in own):
            break
    if "kernel_initializer" in positional:
        initializer = positional["kernel_initializer"]
        positional["kernel_initializer"] = initializer.replace(default=None)
    rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature([*positional.values(), *keywords.values(), rest])


def _cast(
    distribution: tfp.distributions.Distribution, dtype: tf.DType
) -> tfp.distributions.Distribution:
    if distribution.dtype == dtype:
        return distribution
    parameters = distribution.parameters.items()
    tensors = {key: tf.cast(v, dtype) for key, v in parameters if tf.is_tensor(v)}
    return distribution.copy(**tensors)


def _bias_prior(prior: Any, spec: KernelSpec, bias_spec: KernelSpec) -> Any:
    if isinstance(prior, str):
        return priors.make(prior, spec)
    return priors.make(prior, bias_spec)


def _uses_monte_carlo(method: str, prior: Any, posterior: Posterior) -> bool:
    if method == "auto":
        cell = support.lookup(support.PRIORS, priors.row(prior), posterior.law)
        return cell == support.MONTE_CARLO
    return method == "monte_carlo"


def _check_kl_method(method: str, prior: Any, posterior: Posterior) -> str:
    if method not in KL_METHODS:
        raise ValueError(
            f"Argument `kl_method` must be one of {list(KL_METHODS)}. "
            f"Received: kl_method={method!r}"
        )
    row = priors.row(prior)
    if method == "analytic" and _uses_monte_carlo("auto", prior, posterior):
        raise ValueError(
            f"The KL from a {posterior.law} posterior to this prior has no closed form; "
            "expected `kl_method='monte_carlo'` or `'auto'`. "
            f"Received: kl_method='analytic' and prior={prior}"
        )
    if method == "monte_carlo" and row == "ard":
        raise ValueError(
            "The ARD prior has no density to compare samples with; expected "
            "`kl_method='analytic'` or `'auto'`. Received: kl_method='monte_carlo'"
        )
    return method


def _check_kl_weight(kl_weight: Any) -> float | None:
    if kl_weight is None:
        return None
    if not isinstance(kl_weight, numbers.Real) or not float(kl_weight) >= 0:
        raise ValueError(
            "Argument `kl_weight` must be `None` or a number that is not negative. "
            f"Received: kl_weight={kl_weight!r}"
        )
    return float(kl_weight)
