"""How layers with many arguments are made, and those that name one posterior."""

import inspect
from typing import Any

import keras

from tfvn import posteriors
from tfvn.posteriors import Posterior
from tfvn.posteriors.pruned import unpruned


def given(scope: dict[str, Any], *kept: str) -> dict[str, Any]:
    """Returns the arguments of a method, by name, from its `locals()`.

    A constructor lists the arguments of its Keras layer and its own, so that people and
    tools can read them, and passes them on in one line. A test compares them with those
    of the Keras layer.

    Args:
        scope: The `locals()` of a method that has `**kwargs` and no other variables yet.
        *kept: Arguments that are not passed on.
    """
    # `super()` makes the class a local variable.
    left_out = ("self", "kwargs", "__class__", *kept)
    own = {name: value for name, value in scope.items() if name not in left_out}
    return {**own, **scope["kwargs"]}


class Preset(keras.Layer):
    """A layer whose posterior is fixed.

    A preset inherits from this class and from a generic layer, and names its posterior:
    `class VarianceDense(Preset, Dense, posterior=Variance)`. Its constructor takes the
    arguments of the layer, except `posterior`, and those of the posterior. Keras saves it
    under the name of the Python package that it is written in, here `tfvn`, unless it is
    registered under another.
    """

    posterior_class: type[Posterior]
    posterior: Posterior

    def __init_subclass__(cls, posterior: type[Posterior] | None = None, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if posterior is not None:
            cls.posterior_class = posterior
            _add_constructor(cls)
            package = cls.__module__.partition(".")[0]
            keras.saving.register_keras_serializable(package)(cls)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if unpruned(self.posterior) is not self.posterior:
            return config  # whose posterior says that it is pruned
        del config["posterior"]
        return {**config, **self.posterior.get_config()}


def _add_constructor(preset: Any) -> None:
    own = inspect.signature(preset.posterior_class).parameters

    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            # Python would name the method of a base class.
            shown = [*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())]
            raise TypeError(
                f"`{preset.__name__}`: {error}. Received: {', '.join(shown) or 'nothing'}"
            ) from None
        arguments = {name: kwargs.pop(name) for name in own if name in kwargs}
        if "posterior" in kwargs:
            posterior = _pruned_posterior(preset, kwargs.pop("posterior"), arguments)
        else:
            posterior = preset.posterior_class(**arguments)
        super(preset, self).__init__(*args, posterior=posterior, **kwargs)

    # For `help()` and notebooks; editors and type checkers read the stub of this package.
    signature = inspect.signature(super(preset, preset).__init__)
    *before, rest = [p for p in signature.parameters.values() if p.name != "posterior"]
    added = [p.replace(kind=p.KEYWORD_ONLY) for p in own.values()]
    signature = signature.replace(parameters=[*before, *added, rest])
    constructor.__signature__ = signature  # type: ignore[attr-defined]
    preset.__init__ = constructor


def _pruned_posterior(preset: Any, given: Any, arguments: dict[str, Any]) -> Posterior:
    """Returns the pruned posterior in the config of a preset, or raises for any other."""
    posterior = posteriors.get(given) if isinstance(given, dict) else given
    is_pruned = unpruned(posterior) is not posterior
    if (
        arguments
        or not is_pruned
        or type(posterior.posterior) is not preset.posterior_class
    ):
        generic = preset.__name__.removeprefix(preset.posterior_class.__name__)
        raise ValueError(
            f"`{preset.__name__}` does not take `posterior`, because its posterior is "
            f"fixed; choose another one with `tfvn.layers.{generic}`. Received: "
            f"posterior={given!r}"
        )
    return posterior
