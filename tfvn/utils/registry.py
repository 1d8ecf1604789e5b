"""Aliases for the parts of a layer, and their serialization."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import keras


class Part:
    """A part of a layer: a posterior or an estimator.

    A subclass is registered under an alias, and returns the arguments of its constructor
    from `get_config`. From these its text is made, without those that have their default.
    """

    alias: str

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)

    def __repr__(self) -> str:
        usual = _arguments(_default_config(type(self)))
        given = _arguments(self.get_config())
        shown = [text for text in given if text not in usual]
        return f"{type(self).__name__}({', '.join(shown)})"


def _default_config(cls: type) -> dict[str, Any]:
    """Returns the config of a part that is made without arguments, if it can be."""
    needed = [
        parameter
        for parameter in inspect.signature(cls).parameters.values()
        if parameter.default is parameter.empty
    ]
    return {} if needed else cls().get_config()


def _arguments(config: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a constructor as one writes them."""
    return [f"{name}={_value(value)}" for name, value in config.items()]


def _value(value: Any) -> str:
    if isinstance(value, dict) and "class_name" in value:
        # An object as Keras saves it, such as an initializer.
        given = {k: v for k, v in value["config"].items() if v is not None}
        return f"{value['class_name']}({', '.join(_arguments(given))})"
    return repr(value)


class Registry:
    """The parts of one kind (posteriors, estimators, ...) and their aliases.

    Registering gives a class a string alias and makes it serializable by Keras in
    one step, so that neither can be forgotten.

    Args:
        kind: The name of the kind in error messages, for example `"posterior"`.
        add_support: Called with the alias, the class and the further arguments of
            `register`, to add the part to the support tables.
    """

    def __init__(self, kind: str, add_support: Callable[..., None] | None = None):
        self.kind = kind
        self._add_support = add_support
        self._classes: dict[str, type] = {}
        self._without_alias: list[type] = []

    @property
    def aliases(self) -> list[str]:
        """The known aliases, in alphabetical order."""
        return sorted(self._classes)

    def register(
        self, alias: str | None = None, package: str = "tfvn", **support: Any
    ) -> Callable[[type], type]:
        """Returns a class decorator that registers a part under `alias`.

        Args:
            alias: The name that users write; `None` for a part around another part, which
                users make from its class.
            package: The package under which Keras saves the class; that of the library is
                `"tfvn"`.
            **support: Rows of the support tables, see `tfvn.support`.
        """

        def decorator(cls: type) -> type:
            name = f"{self.kind}.{cls.__name__}"
            keras.saving.register_keras_serializable(package, name)(cls)
            if alias is None:
                self._without_alias.append(cls)
                return cls
            if self._add_support is not None:
                self._add_support(alias, cls, **support)
            cls.alias = alias  # type: ignore[attr-defined]
            self._classes[alias] = cls
            return cls

        return decorator

    def get(self, identifier: Any) -> Any:
        """Returns the part for an alias, a config or an instance."""
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
        if isinstance(identifier, str) and identifier in self._classes:
            return self._classes[identifier]()
        if isinstance(identifier, (*self._classes.values(), *self._without_alias)):
            return identifier
        raise ValueError(
            f"Unknown {self.kind}: expected one of {self.aliases}, or an instance of a "
            f"registered {self.kind} class. Received: {self.kind}={identifier!r}"
        )

    def serialize(self, part: Any) -> dict[str, Any]:
        """Returns a config from which `get` makes the same part again."""
        return keras.saving.serialize_keras_object(part)
