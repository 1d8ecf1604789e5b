"""Layers that hold other layers in attributes, with other layers in their place."""

import dataclasses
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import keras

from tfvn.utils import private

# Where a layer is: the name of an attribute and, in lists and dictionaries, indices and keys.
Path = tuple[Any, ...]


@dataclasses.dataclass
class Replacement:
    """One layer that takes the place of another.

    Args:
        paths: Where the other layer is, once for each attribute that holds it.
        layer: The layer that takes its place.
        is_done: Whether it has taken its place.
    """

    paths: list[Path]
    layer: keras.Layer
    is_done: bool = False


@dataclasses.dataclass
class Plan:
    """How a layer was made: from which config, and with which layers replaced.

    Args:
        original: The serialized layer, without replacements.
        replacements: The layers that take the place of layers that it makes itself.
    """

    original: dict[str, Any]
    replacements: list[Replacement]


@keras.saving.register_keras_serializable("tfvn")
class WithReplacedLayers:
    """A layer or a model that makes its own layers, with others in place of some of them.

    `keras.layers.MultiHeadAttention`, layers and models that users write: these make their
    layers themselves, so that their config does not have them. For each such class, this
    class makes a subclass, which does all that the original does. Its config has the config
    of the original and those of the other layers, so that Keras can save and load it.

    Layers that the original makes in its constructor are replaced as soon as it is made,
    and layers that it makes in `build` right after that.
    """

    # A made class has the class that it was made by, and the class of the original.
    maker: Any = None
    original_class: Any = None
    # Further base classes of the classes that are made, after that of the original.
    added_bases: tuple[type, ...] = ()

    name: str
    plan: Plan

    @classmethod
    def of(
        cls, original: keras.Layer, replaced: list[tuple[list[Path], keras.Layer]]
    ) -> Any:
        """Returns a layer like another one, but with other layers in it.

        Args:
            original: The layer.
            replaced: For each layer to replace, where it is, and the layer that takes its
                place.
        """
        return cls.from_config(
            {
                "name": original.name,
                "original": {
                    **_without_build(original),
                    "config": constructor_config(original),
                },
                "replaced": _serialized(replaced),
            }
        )

    def remade_original(self) -> Any:
        """Returns a new layer of the original class, without replacements or variables."""
        original = keras.saving.deserialize_keras_object(self._original_config())
        original.name = self.name
        return original

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "original": self._original_config(),
            "replaced": _serialized(
                [(part.paths, part.layer) for part in self.plan.replacements]
            ),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        known = custom_objects or {}
        original: Any = cls.original_class
        if original is not None:
            known = {keras.saving.get_registered_name(original): original, **known}
        with private.custom_objects_too(known):
            # Keras finds a class by its name only together with making an object.
            plain = keras.saving.deserialize_keras_object(config["original"])
            maker: Any = cls.maker or cls
            original = type(plain)
            made = _made_class(maker, original)
            arguments = config["original"]["config"]
            parent: Any = super(WithReplacedLayers, made)
            layer = parent.from_config(dict(arguments))
            replacements = [
                Replacement(
                    [tuple(path) for path in part["paths"]],
                    keras.saving.deserialize_keras_object(part["layer"]),
                )
                for part in config["replaced"]
            ]
        layer.name = config["name"]
        layer.plan = Plan(config["original"], replacements)
        for part in replacements:
            if all(_holds_layer(layer, path) for path in part.paths):
                _replace(layer, part)
        return layer

    def _original_config(self) -> dict[str, Any]:
        """Returns the serialized original, with what has changed since, as `trainable`."""
        config = self.plan.original["config"]
        now = super().get_config()  # type: ignore[misc]
        current = {key: now.get(key, value) for key, value in config.items()}
        return {**self.plan.original, "config": current}

    def _replace_made_in_build(self) -> None:
        for part in self.plan.replacements:
            if part.is_done:
                continue
            missing = [p for p in part.paths if not _holds_layer(self, p)]
            if missing:
                raise ValueError(
                    "A layer can be replaced where the constructor or `build` makes it; "
                    f"expected one at {missing}. Received: layer {self.name!r} of type "
                    f"{self.original_class.__name__}, which has none there"
                )
            old = _at(self, part.paths[0])
            _replace(self, part)
            if old.built and not part.layer.built:
                part.layer.build_from_config(old.get_build_config())


def paths_to(owner: keras.Layer, layer: keras.Layer) -> list[Path]:
    """Returns where the attributes of a layer hold another layer."""
    return [
        (name, *path)
        for name, value in vars(owner).items()
        if not private.is_own_attribute(name)
        for path in _paths_in(value, layer)
    ]


def _paths_in(value: Any, layer: keras.Layer) -> Iterator[Path]:
    if value is layer:
        yield ()
    items: Any = ()
    if isinstance(value, list | tuple):
        items = enumerate(value)
    elif isinstance(value, dict):
        items = value.items()
    for key, item in items:
        yield from ((key, *path) for path in _paths_in(item, layer))


def _at(owner: Any, path: Path) -> Any:
    value = vars(owner).get(path[0])
    for key in path[1:]:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _holds_layer(owner: Any, path: Path) -> bool:
    return isinstance(_at(owner, path), keras.Layer)


def _replace(owner: Any, part: Replacement) -> None:
    old = _at(owner, part.paths[0])
    for path in part.paths:
        value = _with(vars(owner)[path[0]], path[1:], part.layer)
        private.replace_layer(owner, old, part.layer, path[0], value)
    part.is_done = True


def _with(value: Any, path: Path, layer: keras.Layer) -> Any:
    """Returns a structure with a layer at a path, and all else as it is."""
    if not path:
        return layer
    key, *rest = path
    if isinstance(value, dict):
        return {**value, key: _with(value[key], tuple(rest), layer)}
    items = [*value]
    items[key] = _with(items[key], tuple(rest), layer)
    return tuple(items) if isinstance(value, tuple) else items


def _serialized(
    replaced: list[tuple[list[Path], keras.Layer]],
) -> list[dict[str, Any]]:
    return [
        {"paths": paths, "layer": _without_build(layer)} for paths, layer in replaced
    ]


def _without_build(layer: keras.Layer) -> dict[str, Any]:
    """Returns a serialized layer that has no variables when it is made again.

    The layer around it builds it, and would fail if it were built already.
    """
    config = keras.saving.serialize_keras_object(layer)
    return {key: value for key, value in config.items() if key != "build_config"}


@functools.cache
def _made_class(maker: Any, original: Any) -> Any:
    """Returns the subclass of a layer's class whose layers can be replaced."""
    added = [base for base in maker.added_bases if not issubclass(original, base)]
    members: dict[str, Any] = {
        "__module__": maker.__module__,
        "__doc__": original.__doc__,
        "maker": maker,
        "original_class": original,
    }
    # Keras treats a class with a `build` of its own in another way.
    if original.build not in (keras.Layer.build, keras.Model.build):
        members["build"] = _build_and_replace(original)
    made = type(f"Converted{original.__name__}", (maker, original, *added), members)
    # A file names the class that makes all of these.
    package, _, name = keras.saving.get_registered_name(maker).rpartition(">")
    keras.saving.register_keras_serializable(package, name)(made)
    return made


def _build_and_replace(original: Any) -> Any:
    # Keras reads the signature.
    @functools.wraps(original.build)
    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        original.build(self, *args, **kwargs)
        self._replace_made_in_build()

    return build


def constructor_config(layer: keras.Layer) -> dict[str, Any]:
    """Returns the config of a layer, without what its constructor does not take.

    Keras adds `trainable` and `dtype` to the config that it makes for a class without a
    `get_config`, even if the constructor takes only its own arguments.
    """
    config = layer.get_config()
    if type(layer).get_config is not keras.Layer.get_config:
        return config
    taken = inspect.signature(type(layer).__init__).parameters
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return config
    return {key: value for key, value in config.items() if key in taken}
