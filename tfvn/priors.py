"""What a posterior is measured against: aliases, checks, and the row in the table.

A prior is a `tfd.Distribution` over one weight, or a batch of them that broadcasts to
the kernel. An alias stands for one that is made for the kernel at hand. A prior with
variables in it is learned with the posterior: empirical Bayes.
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

    It decorates a class of distributions of one's own that needs no arguments, or a
    function that makes a distribution for a `KernelSpec`.

    Args:
        alias: What users write.
        distribution: For a function, the class of the distributions that it makes.
        support: How the KL from each law of weights to the prior is computed: a cell of
            `tfvn.extending` by the name of the law. `None` is as for the distribution
            without an alias: by Monte Carlo, unless it has one already.
    """

    def decorator(made: Any) -> Any:
        cls = distribution or save_as_prior(made)
        add_prior(alias, _row_of(cls), support)
        _BUILDERS[alias] = made if distribution else lambda spec: made()
        # A second alias for a class does not take the first one's row.
        _ROWS.setdefault(cls, alias)
        return made

    return decorator


def _row_of(cls: type) -> str:
    return next((_ROWS[base] for base in cls.__mro__ if base in _ROWS), "any")


# How much narrower the spike is than the slab.
_SPIKE = 0.01


def _kaiming_scale(spec: KernelSpec) -> float:
    """The scale of weights at which activations keep their size in a ReLU network."""
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
    """Checks what a user passed as `prior`, and reads it from a config."""
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
    """Returns what `prior` stands for with this posterior, if they combine."""
    if isinstance(prior, str) and prior == AUTO:
        prior = posterior.default_prior
    support.require("prior", support.PRIORS, row(prior), posterior.law)
    return prior


def row(prior: Any) -> str:
    """Returns the prior's row in `tfvn.support.PRIORS`."""
    if prior is None:
        return "none"
    if isinstance(prior, str):
        return prior
    return _row_of(type(prior))


def make(prior: Any, spec: KernelSpec) -> tfd.Distribution | None:
    """Returns the distribution that a resolved prior is for a kernel."""
    # Outside of the graph, if the layer is built while one is traced.
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
    """Whether the KL is a constant that no gradient sees."""
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
    # What a `TransformedVariable` stands for, too.
    scale = None if scale is None else np.asarray(tf.convert_to_tensor(scale))
    if scale is not None and not np.all(scale > 0):
        raise ValueError(
            f"The scale of a prior must be positive. Received: scale={scale.tolist()}"
        )
