"""Layers that name one posterior: `VarianceDense` and the like."""

import inspect
from typing import Any

from tfvn.layers.signatures import (
    ClassSignature,
    TakesTwinArguments,
    with_keywords,
)
from tfvn.posteriors import (
    GaussianDropout,
    KTied,
    MeanField,
    Posterior,
    Variance,
)


class Preset(TakesTwinArguments):
    """A layer whose posterior is fixed, and whose arguments are the layer's own.

    A preset is a class that inherits from a family below and from a generic layer,
    and adds a docstring.
    """

    posterior_class: type[Posterior]
    posterior: Posterior

    def __init__(self, *args: Any, **kwargs: Any):
        if "posterior" in kwargs:
            generic = type(self).__name__.removeprefix(self.posterior_class.__name__)
            raise ValueError(
                f"`{type(self).__name__}` has a posterior already; choose another with "
                f"`tfvn.layers.{generic}`. "
                f"Received: posterior={kwargs['posterior']!r}"
            )
        own = inspect.signature(self.posterior_class).parameters
        arguments = {name: kwargs.pop(name) for name in own if name in kwargs}
        super().__init__(*args, posterior=self.posterior_class(**arguments), **kwargs)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "posterior_class"):
            return
        merged = cls.__signature__.parameters.values()
        rest = inspect.Signature([p for p in merged if p.name != "posterior"])
        own = inspect.signature(cls.posterior_class).parameters.values()
        cls.__signature__ = ClassSignature(with_keywords(rest, own))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["posterior"]
        return {**config, **self.posterior.get_config()}


class VariancePreset(Preset):
    """The family of zero-mean layers."""

    posterior_class = Variance


class MeanFieldPreset(Preset):
    """The family of layers with a factorised Normal posterior."""

    posterior_class = MeanField


class GaussianDropoutPreset(Preset):
    """The family of layers with learned Gaussian dropout."""

    posterior_class = GaussianDropout


class KTiedPreset(Preset):
    """The family of layers with scales of low rank."""

    posterior_class = KTied
