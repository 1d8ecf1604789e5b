"""What arguments a layer takes: its own and those of its Keras twin."""

import inspect
from typing import Any

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


def merged_signature(cls: Any) -> inspect.Signature:
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
            if parameter.name in ("self", *NOT_TAKEN):
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords.setdefault(parameter.name, parameter)
            elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.setdefault(parameter.name, parameter)
        if all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in own):
            break
    name = f"{getattr(cls, 'kernel_argument', None)}_initializer"
    if name in positional:
        positional[name] = positional[name].replace(default=None)
    ours = [p for name, p in keywords.items() if name not in positional]
    rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    return inspect.Signature([*positional.values(), *ours, rest])
