"""Priors: their aliases, their checks, and their rows in the support table.

A prior is a `tfd.Distribution` over one weight, or a batch of them that broadcasts to the
kernel. For an alias, the library makes a distribution that fits the kernel. If a prior
has variables, they are trained with the posterior: empirical Bayes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfvn import support
from tfvn.distributions import (
    ARD,
    DiminishingStudentT,
    ExactHorseshoe,
    LogUniform,
    SpikeAndSlab,
    trainable,
)
from tfvn.distributions import register as save_as_prior
from tfvn.distributions.serialization import deserialize, is_config, serialize
from tfvn.kernel import KernelSpec
from tfvn.posteriors import Posterior
from tfvn.support import add_prior

__all__ = ["aliases", "get", "register"]

AUTO = "auto"

Builder = Callable[[KernelSpec], tfd.Distribution]

_BUILDERS: dict[str, Builder] = {}
_ROWS: dict[type, str] = {}


def register(
    alias: str, distribution: Any = None, support: Any = None
) -> Callable[[Any], Any]:
    """Gives a prior an alias (a decorator).

    Decorate your own class of distributions, if it needs no arguments, or a function that
    makes a distribution for a `KernelSpec`.

    Args:
        alias: The name that users write.
        distribution: For a function, the class of the distributions that it makes.
        support: How the KL from each law of weights to the prior is computed: a cell of
            `tfvn.extending` by the name of the law. `None` keeps the row of the
            distribution's class: Monte Carlo, unless the class has an alias already.
    """

    def decorator(made: Any) -> Any:
        cls = distribution or save_as_prior(made)
        add_prior(alias, _row_of(cls), support)
        _BUILDERS[alias] = made if distribution else lambda spec: made()
        # A second alias for a class does not change the row of the first.
        _ROWS.setdefault(cls, alias)
        return made

    return decorator


def _row_of(cls: type) -> str:
    return next((_ROWS[base] for base in cls.__mro__ if base in _ROWS), "any")


# The laws of weights that have a density, and so no finite KL to single values.
_CONTINUOUS = ("gaussian", "uniform", support.CORRELATED)
_CHECKED_DRAWS = 64

# The scale of the spike, relative to that of the slab.
_SPIKE = 0.01


def _kaiming_scale(spec: KernelSpec) -> float:
    """Returns the scale of weights with which activations keep their size under ReLU."""
    return float(np.sqrt(2.0 / spec.rows))


@register("normal", tfd.Normal)
def _normal(spec: KernelSpec) -> tfd.Distribution:
    return tfd.Normal(0.0, _kaiming_scale(spec))


@register("laplace", tfd.Laplace)
def _laplace(spec: KernelSpec) -> tfd.Distribution:
    # A Laplace of scale b has a variance of 2 b^2.
    return tfd.Laplace(0.0, _kaiming_scale(spec) / float(np.sqrt(2.0)))


@register("horseshoe", tfd.Horseshoe)
def _horseshoe(spec: KernelSpec) -> tfd.Distribution:
    return ExactHorseshoe(_kaiming_scale(spec))


@register("spike_and_slab", SpikeAndSlab)
def _spike_and_slab(spec: KernelSpec) -> tfd.Distribution:
    scale = _kaiming_scale(spec)
    return SpikeAndSlab(scale, _SPIKE * scale)


register("student_t")(DiminishingStudentT)
register("log_uniform")(LogUniform)
register("ard")(ARD)


def aliases() -> list[str]:
    """Returns the known aliases."""
    return sorted(_BUILDERS)


def get(identifier: Any) -> Any:
    """Returns a checked `prior` argument, or the prior of a config."""
    if is_config(identifier):
        return deserialize(identifier)
    if isinstance(identifier, tfd.Distribution):
        return trainable.with_tf_variables(identifier)
    if identifier is None:
        return identifier
    if isinstance(identifier, str) and identifier in (AUTO, *_BUILDERS):
        return identifier
    raise ValueError(
        f"Unknown prior: expected one of {[AUTO, *aliases()]}, a `tfd.Distribution`, or "
        f"`None` for no KL. Received: prior={identifier!r}"
    )


def to_config(prior: Any) -> Any:
    """Returns a prior as plain data, for a layer's config."""
    return serialize(prior) if isinstance(prior, tfd.Distribution) else prior


def resolve(prior: Any, posterior: Posterior) -> Any:
    """Returns the prior, with `"auto"` resolved; raises if the posterior does not allow it."""
    if isinstance(prior, str) and prior == AUTO:
        prior = posterior.default_prior
    support.require("prior", support.PRIORS, row(prior), posterior.law)
    is_foreign = row(prior) == "any" and posterior.law in _CONTINUOUS
    if is_foreign and _is_discrete(prior):
        raise ValueError(
            f"The KL from {posterior.law} weights to a prior of single values is infinite; "
            "expected a distribution with a density, such as `tfd.Normal`. Received: "
            f"prior={prior}"
        )
    return prior


def _is_discrete(prior: tfd.Distribution) -> bool:
    """Whether a distribution is over integers or a few values, as samples of it show.

    TFP does not say it of mixtures and of transformed distributions.
    """
    if not prior.dtype.is_floating:
        return True
    try:
        # The layer may be made during a trace.
        with tf.init_scope():
            drawn = prior.sample(_CHECKED_DRAWS, seed=tf.constant([1, 2]))
    except NotImplementedError:
        return False
    values = np.reshape(drawn.numpy(), (_CHECKED_DRAWS, -1))[:, 0]
    has_few = np.unique(values).size <= _CHECKED_DRAWS // 4
    return bool(has_few or np.all(values == np.round(values)))


def row(prior: Any) -> str:
    """Returns the prior's row in `tfvn.support.PRIORS`."""
    if prior is None:
        return "none"
    if isinstance(prior, str):
        return prior
    return _row_of(type(prior))


def make(prior: Any, spec: KernelSpec) -> tfd.Distribution | None:
    """Returns the distribution of a resolved prior for a kernel."""
    # The layer may be built during a trace; the prior is made outside of its graph.
    with tf.init_scope():
        if isinstance(prior, str):
            prior = _BUILDERS[prior](spec)
        if prior is not None:
            _check(prior, spec)
    if prior is not None:
        trainable.check_strategy(prior)
        trainable.check_is_learned(prior)
    return prior


def is_constant(prior: Any, posterior: Posterior) -> bool:
    """Whether the KL is a constant, without a gradient."""
    name = row(prior)
    cell = support.lookup(support.PRIORS, name, posterior.law)
    if cell in (support.CONSTANT, support.NO_KL):
        return True
    return posterior.zero_mean and name in support.SCALE_FREE_PRIORS


def _check(prior: tfd.Distribution, spec: KernelSpec) -> None:
    if prior.event_shape.rank != 0:
        raise ValueError(
            "A prior must be over one weight or a batch of weights, with "
            f"`event_shape=()`. Received: prior={prior}"
        )
    try:
        shape = tf.broadcast_static_shape(prior.batch_shape, tf.TensorShape(spec.shape))
    except ValueError:
        shape = None
    if shape is None or shape.as_list() != list(spec.shape):
        raise ValueError(
            "The batch shape of a prior must broadcast to the kernel's shape "
            f"{spec.shape}. Received: prior.batch_shape={tuple(prior.batch_shape)}"
        )
    scale = prior.parameters.get("scale")
    # Also evaluates a `TransformedVariable`.
    scale = None if scale is None else np.asarray(tf.convert_to_tensor(scale))
    if scale is not None and not np.all(scale > 0):
        raise ValueError(
            f"The scale of a prior must be positive. Received: scale={scale.tolist()}"
        )
