"""What every layer with a random kernel shares."""

import inspect
import math
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfvn import estimators, posteriors, priors, random, support
from tfvn.estimators import Term
from tfvn.kernel import KernelSpec, LinearOp
from tfvn.layers.random_weight import RandomWeight
from tfvn.layers.signatures import (
    NOT_TAKEN,
    ClassSignature,
    merged_signature,
)
from tfvn.posteriors import Posterior

Tensor = Any

_KL_WEIGHT_ADVICE = (
    "A stochastic layer without a `kl_weight` adds its whole KL to the loss of every "
    "batch, as if each batch were all the data; use a `tfvn.Model`, which finds the "
    "right weight, or, with a loss that is a mean over examples, pass "
    "`kl_weight=1 / number_of_training_examples` to the layer."
)


class StochasticLayer(keras.Layer):
    """Turns a Keras layer with a kernel into one whose kernel is a distribution.

    A subclass inherits from this class and from its Keras twin, and says what its
    linear op is: `kernel_spec`, `linear_op` and, where they differ from those of a
    Dense, `factored_op`, `expand_bias` and the axes. Everything else, the posterior,
    the prior, the estimator, the KL and the config, is here.

    The layer draws noise in training and at inference alike. Its KL is added to the
    loss once per forward pass, however often the layer is called in it.

    Args:
        *args: Arguments of the Keras twin.
        posterior: What is learned about the kernel: an alias or an instance of
            `tfvn.posteriors`.
        prior: What the posterior is measured against: an alias (`"normal"`,
            `"log_uniform"`, `"ard"`, `"laplace"`, `"student_t"`, `"horseshoe"`,
            `"spike_and_slab"`), a `tfd.Distribution` that broadcasts to the
            kernel, or `None` for no KL. `"auto"` is the posterior's own default.
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

    # The stem of the twin's arguments for the kernel: its initializer, regularizer
    # and constraint.
    kernel_argument = "kernel"

    # The axes of inputs and outputs that the kernel does not slide along.
    input_axes: tuple[int, ...] = (-1,)
    output_axes: tuple[int, ...] = (-1,)

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
        initializer = f"{self.kernel_argument}_initializer"
        if initializer not in self._given_by_position(args):
            kwargs.setdefault(initializer, None)
        super().__init__(*args, **kwargs)
        if getattr(self, "quantization_mode", None) is not None:
            raise ValueError(
                f"`{type(self).__name__}` has no kernel to quantize. "
                f"Received: dtype={self.dtype_policy.name!r}"
            )
        self.prior = priors.get(prior)
        self.kl_method = kl_method
        self._random_kernel = RandomWeight(posterior, self.prior, kl_method)
        self.posterior = self._random_kernel.posterior
        if estimator is None:
            estimator = support.default_estimator(self.posterior.law)
        self.estimator = estimators.get(estimator)
        support.require(
            "estimator", support.ESTIMATORS, self.estimator.alias, self.posterior.law
        )
        self._random_weights = [self._random_kernel]
        self.bias_prior = priors.get(bias_prior)
        self.bias_posterior = None
        if bias_posterior is not None and not self.has_bias:
            raise ValueError(
                "A layer without a bias has no posterior of one; expected "
                f"`bias_posterior=None`. Received: bias_posterior={bias_posterior!r}"
            )
        if bias_posterior is not None:
            same = isinstance(self.bias_prior, str) and self.bias_prior == priors.AUTO
            self._random_bias = RandomWeight(
                bias_posterior,
                self._random_kernel.prior if same else self.bias_prior,
                kl_method,
            )
            self.bias_posterior = self._random_bias.posterior
            self._random_weights.append(self._random_bias)
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
        # Set by a `tfvn.Model`, which divides the KL by the number of examples itself.
        self.kl_weight_is_supplied = False
        self.kl_gradient = "total"
        self._kl_added: weakref.ref | None = None
        self._advised = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # `help()` and notebooks then show the Keras twin's arguments and ours.
        cls.__signature__ = ClassSignature(merged_signature(cls))

    # What a linear op provides.

    @property
    def has_bias(self) -> bool:
        """Whether the layer adds a bias."""
        return self.use_bias

    def kernel_spec(self, input_shape: tuple[int | None, ...]) -> KernelSpec:
        """Returns the geometry of the kernel for inputs of a shape."""
        raise self._not_implemented_error(self.kernel_spec)

    def linear_op(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """Returns what a kernel makes of the inputs, linear in both."""
        raise self._not_implemented_error(self.linear_op)

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
        self._random_kernel.build(
            self.add_weight, spec, "kernel", **self._options(self.kernel_argument)
        )
        if self.bias_posterior is not None:
            # A bias has an input of its own, the constant 1; an alias still means the
            # kernel's prior, fan-in included.
            axes = tuple(range(len(self.bias_shape)))
            self._random_bias.build(
                self.add_weight,
                KernelSpec(self.bias_shape, output_axes=axes),
                "bias",
                prior_spec=spec,
                **self._options("bias"),
            )
        elif self.has_bias:
            self.bias = self.add_weight(
                name="bias", shape=self.bias_shape, **self._options("bias")
            )
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        readings, terms = self._terms(inputs)
        outputs, drawn, noise = self.estimator(terms, self.seed_generator)
        # A prediction has no loss.
        if random.current_stream() is None:
            self._add_kl(readings, drawn, training)
        offset = self._offset(outputs.dtype)
        if offset is not None:
            outputs = estimators.add(outputs, offset)
        if noise is not None:
            outputs += noise
        return outputs if self.activation is None else self.activation(outputs)

    @property
    def noise_per_example(self) -> bool | None:
        """Whether the examples of a batch get independent noise; `None` without any."""
        return self.estimator.noise_per_example if self.estimator.draws_noise else None

    def prepare(self, inputs: Tensor) -> Any:
        """Returns what all draws of the output have in common, or `None`.

        It is a structure of tensors with the batch as their first axis, for `redraw`;
        `None` means that the layer has to be called for each draw.
        """
        if inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self.compute_dtype)
        _, terms = self._terms(inputs)
        return self.estimator.prepare(terms, self._offset(terms[0].inputs.dtype))

    def redraw(self, prepared: Any, copies: int) -> Tensor:
        """Returns `copies` draws of the output of each example, one after the other.

        They have the distribution of `copies` calls, for less: only the noise is drawn
        again.

        Args:
            prepared: What `prepare` returned, or the same rows of all its tensors.
            copies: Number of draws.
        """
        outputs = self.estimator.redraw(prepared, copies, self.seed_generator)
        return outputs if self.activation is None else self.activation(outputs)

    def _terms(self, inputs: Tensor) -> tuple[list[Posterior], list[Term]]:
        """Returns the posteriors as they are now, and the summands of the output."""
        if isinstance(inputs, tf.SparseTensor):
            raise ValueError(
                f"`{type(self).__name__}` takes dense inputs; convert them with "
                f"`tf.sparse.to_dense` first. Received: inputs={type(inputs).__name__}"
            )
        if not inputs.dtype.is_floating:
            inputs = tf.cast(inputs, self.compute_dtype)
        readings = [weight.posterior.read() for weight in self._random_weights]
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

    def kl_divergence(self) -> Tensor:
        """Returns KL(posterior || prior), summed over all weights, in nats.

        It is not multiplied by `kl_weight`. Where there is no closed form this is
        an estimate from one fresh sample.
        """
        self._check_built("`kl_divergence()`")
        readings = [weight.posterior.read() for weight in self._random_weights]
        return self._kl(readings, [None] * len(readings))

    @property
    def has_kl(self) -> bool:
        """Whether the layer adds a KL to the loss."""
        return not all(weight.has_constant_kl for weight in self._random_weights)

    @property
    def shares_kl_sample(self) -> bool:
        """Whether a KL is estimated from the weights that the forward pass draws."""
        return self.estimator.draws_weights and any(
            weight.is_estimated for weight in self._random_weights
        )

    def added_kl(self) -> Tensor | None:
        """Returns the loss that the layer added in this forward pass, or `None`.

        It is the KL times `kl_weight`, one of `losses`.
        """
        added = self._kl_added and self._kl_added()
        # Keras clears the losses when the outermost layer is called.
        is_current = any(loss is added for loss in self._get_own_losses())
        return added if is_current else None

    def posterior_distribution(self) -> tfp.distributions.Distribution:
        """Returns the distribution of the kernel, a batch of scalar weights."""
        self._check_built("`posterior_distribution()`")
        return self.posterior.distribution()

    @property
    def variable_groups(self) -> dict[str, list[keras.Variable]]:
        """The variables by what they mean: mean, scale, or default."""
        self._check_built("`variable_groups`")
        groups: dict[str, list[keras.Variable]] = {
            "mean": [],
            "scale": [],
            "default": [] if self.bias is None else [self.bias],
        }
        for weight in self._random_weights:
            for name, variables in weight.posterior.variable_groups.items():
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
            **{key: value for key, value in twin.items() if key not in NOT_TAKEN},
            "posterior": posteriors.serialize(self.posterior),
            "prior": priors.to_config(self.prior),
            "estimator": estimators.serialize(self.estimator),
            "kl_method": self.kl_method,
            "kl_weight": self._kl_weight_now(),
            "bias_posterior": None if bias is None else posteriors.serialize(bias),
            "bias_prior": priors.to_config(self.bias_prior),
            "seed": self.seed,
        }

    # Keras's Dense and convolutions save a kernel that may be quantized.

    def save_own_variables(self, store: Any) -> None:
        for index, variable in enumerate(self._saved_variables()):
            store[str(index)] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        variables = self._saved_variables()
        if len(store.keys()) != len(variables):
            raise ValueError(
                f"Layer `{self.name}` has {len(variables)} variables to load. "
                f"Received: {len(store.keys())} saved ones"
            )
        for index, variable in enumerate(variables):
            variable.assign(store[str(index)])

    def _saved_variables(self) -> list[keras.Variable]:
        # How much the KL counts belongs to the config, and not to what was learned.
        return [
            variable
            for variable in self._trainable_variables + self._non_trainable_variables
            if variable is not self.kl_weight
        ]

    def _kl_weight_now(self) -> float | None:
        # The argument, unless the variable has been assigned to since.
        argument = self._kl_weight_argument
        now = float(keras.ops.convert_to_numpy(self.kl_weight))
        is_argument = now == np.float32(1.0 if argument is None else argument)
        return argument if is_argument else now

    def _given_by_position(self, args: tuple) -> dict[str, Any]:
        """Returns the arguments of the Keras twin that `args` are, by name."""
        bases = type(self).__mro__
        bases = bases[bases.index(StochasticLayer) + 1 :]
        twin = next(base for base in bases if "__init__" in vars(base))
        return (
            inspect.signature(vars(twin)["__init__"])
            .bind_partial(None, *args)
            .arguments
        )

    def _check_built(self, what: str) -> None:
        if not self.built:
            raise ValueError(
                f"A layer has {what} only once it has variables; call the layer on data "
                f"or call its `build` first. Received: layer={self.name!r}, not built"
            )

    def _options(self, prefix: str) -> dict[str, Any]:
        names = ("initializer", "regularizer", "constraint")
        return {name: getattr(self, f"{prefix}_{name}") for name in names}

    def _bias_op(self, one: Tensor, bias: Tensor) -> Tensor:
        return one * self.expand_bias(bias)

    def _factored_bias_op(self, one: Tensor, left: Tensor, right: Tensor) -> Tensor:
        return self._bias_op(one, tf.reshape(left @ right, self.bias_shape))

    def _kl(self, readings: list[Posterior], drawn: Sequence[Tensor | None]) -> Tensor:
        weights = zip(self._random_weights, readings, drawn, strict=True)
        return tf.add_n(
            [
                weight.kl_divergence(
                    reading,
                    sample,
                    self.seed_generator.next,
                    only_path=self.kl_gradient == "path",
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
        # A layer that is called twice in a forward pass has one KL.
        if not self.has_kl or self.added_kl() is not None:
            return
        needs_advice = self._kl_weight_argument is None and not (
            self.kl_weight_is_supplied or self._advised
        )
        if training and needs_advice:
            self._advised = True
            warnings.warn(
                _KL_WEIGHT_ADVICE + f" Received: layer={self.name!r}", stacklevel=2
            )
        loss = self.kl_weight.value * self._kl(readings, drawn)
        self.add_loss(loss)
        self._kl_added = weakref.ref(loss)


def _check_kl_weight(kl_weight: Any) -> float | None:
    if kl_weight is None:
        return None
    is_number = isinstance(kl_weight, int | float | np.number)
    if not is_number or not 0 <= kl_weight < math.inf:
        raise ValueError(
            "Argument `kl_weight` must be `None` or a finite number that is not negative. "
            f"Received: kl_weight={kl_weight!r}"
        )
    return float(kl_weight)
