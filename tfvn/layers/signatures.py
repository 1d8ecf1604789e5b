"""What arguments a layer takes: its own and those of its Keras twin."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import keras

# Arguments of the Keras twins that have no meaning for a random kernel.
NOT_TAKEN = (
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
)


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


class TakesTwinArguments(keras.Layer):
    """A layer whose constructor takes the arguments of its Keras twin and its own.

    The twin is the first Keras class that it inherits from.
    """

    # The stem of the twin's arguments for the kernel: its initializer, regularizer
    # and constraint.
    kernel_argument = "kernel"

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        # `help()` and notebooks then show the Keras twin's arguments and ours.
        cls.__signature__ = ClassSignature(merged_signature(cls))

    @classmethod
    def kernel_arguments(cls) -> tuple[str, ...]:
        """Returns the stems of the twin's arguments for all random kernels."""
        return (cls.kernel_argument,)

    @classmethod
    def twin(cls) -> Any:
        """Returns the Keras class that the layer is a version of."""
        bases = cls.__mro__
        others = bases[bases.index(TakesTwinArguments) + 1 :]
        return next(base for base in others if "__init__" in vars(base))

    @classmethod
    def given_by_position(cls, args: tuple) -> dict[str, Any]:
        """Returns the arguments of the Keras twin that `args` are, by name."""
        return by_name(cls.twin(), args)

    @classmethod
    def without_twin_initializers(
        cls, args: tuple, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns `kwargs` with `None` for initializers of kernels that are not given.

        The twin's default suits a kernel; a posterior knows what suits it.
        """
        given = cls.given_by_position(args)
        defaults = {name: None for name in _initializers(cls) if name not in given}
        return {**defaults, **kwargs}


def by_name(cls: Any, args: tuple) -> dict[str, Any]:
    """Returns arguments that the constructor of `cls` takes by position, by name."""
    signature = inspect.signature(cls.__init__)
    _, *own = signature.parameters.values()
    return signature.replace(parameters=own).bind_partial(*args).arguments


def merged_signature(cls: Any) -> inspect.Signature:
    """Returns the arguments that `cls` takes, those of its Keras twin included.

    Follows the constructors that pass `*args` on, in the order of inheritance, up to
    the first that does not: the twin's.
    """
    positional: dict[str, inspect.Parameter] = {}
    keywords: dict[str, inspect.Parameter] = {}
    for constructor in _constructors(cls):
        for parameter in inspect.signature(constructor).parameters.values():
            if parameter.name in ("self", *NOT_TAKEN):
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords.setdefault(parameter.name, parameter)
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.setdefault(parameter.name, parameter)
    for name in _initializers(cls):
        if name in positional:
            positional[name] = positional[name].replace(default=None)
    return with_keywords(inspect.Signature([*positional.values()]), keywords.values())


def with_keywords(
    signature: inspect.Signature, keywords: Iterable[inspect.Parameter]
) -> inspect.Signature:
    """Returns a signature with further keywords, but for those that it has, and more."""
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    further = [
        p.replace(kind=p.KEYWORD_ONLY)
        for p in keywords
        if p.name not in signature.parameters
    ]
    rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature([*own, *further, rest])


def _initializers(cls: Any) -> list[str]:
    stems: tuple[str, ...] = getattr(cls, "kernel_arguments", tuple)()
    return [f"{stem}_initializer" for stem in stems]


def _constructors(cls: type) -> Iterator[Any]:
    """Yields the constructors of `cls` that get its arguments, the twin's last."""
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        yield constructor
        own = inspect.signature(constructor).parameters.values()
        if all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in own):
            return
