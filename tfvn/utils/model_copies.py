"""Copies a model, with other layers in place of some of its layers."""

import functools
import tempfile
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from tfvn.utils import private
from tfvn.utils.custom_objects import (
    check_functions,
    known_objects,
    takes_functions,
    with_functions,
)
from tfvn.utils.models import all_layers, functional_graph
from tfvn.utils.replaced_layers import (
    WithReplacedLayers,
    constructor_config,
    paths_to,
)


class ModelCopier:
    """Copies models, and replaces the layers that a subclass chooses.

    Layers of nested models, inside wrappers (`Bidirectional`, `TimeDistributed`), the
    cells of recurrent layers, and layers that a user's layer or model makes itself are
    replaced too. All other layers are copied with their state as Keras saves it: weights,
    moving averages, the results of `adapt`, vocabularies. The original does not change, and
    a layer that is used several times in a model has one copy.

    A subclass says which layers are replaced (`replaces`), by what (`new_layer`), and what
    the variables of the new layer are (`fill`).
    """

    # The classes of the copies.
    sequential: type[keras.Sequential] = keras.Sequential
    functional: type[keras.Model] = keras.Model
    # What makes the class of a whole model that makes the replaced layers itself.
    subclassed: type[WithReplacedLayers] = WithReplacedLayers

    # Subclasses override these.

    def replaces(self, layer: keras.Layer) -> bool:
        """Whether a new layer takes the place of a layer."""
        raise NotImplementedError

    def new_layer(self, layer: Any) -> keras.Layer:
        """Returns what takes the place of a layer, without variables."""
        raise NotImplementedError

    def fill(self, layer: Any, new: Any) -> None:
        """Sets the variables of a new layer, which has been built."""
        raise NotImplementedError

    def replace_inside(self, layer: Any, copy: Any, missed: list[Any]) -> keras.Layer:
        """Returns the copy of a layer that makes layers that are to be replaced itself.

        Args:
            layer: The layer.
            copy: A copy of it, in which these layers are not replaced.
            missed: The layers in `layer` that are to be replaced.
        """
        wanted = set(map(id, missed))
        replaced = []
        for part in private.layers_inside(layer):
            if wanted.isdisjoint(map(id, all_layers(part))):
                continue
            paths = paths_to(layer, part)
            if not paths:
                raise ValueError(
                    "Layers can be replaced inside a layer or a model that holds them in "
                    "its attributes, or in lists and dictionaries there; expected "
                    f"{part.name!r} in one of these. Received: layer {layer.name!r} of "
                    f"type {type(layer).__name__}, which holds it elsewhere"
                )
            replaced.append((paths, self._copy_part(part)))
        return self._maker(layer).of(copy, replaced)

    # All copiers share these.

    def copy(self, model: Any) -> Any:
        """Returns the copy of a model that has been built."""
        self._whole = model
        with known_objects(model):
            return self._copy_model(model)

    def _copy_model(self, model: Any) -> Any:
        if functional_graph(model) is None:
            return self._copy_subclassed(model)
        waiting: list[tuple[Any, Any]] = []
        copy = self._copy_graph(model, {}, waiting)
        # A copy has variables only after its model has been made.
        for layer, its_copy in waiting:
            self._fill(layer, its_copy)
        return copy

    def _copy_subclassed(self, model: Any) -> Any:
        """Returns the copy of a model with a `call` of its own."""
        copy = self._copy_layer(model)
        if not copy.built:
            copy.build_from_config(model.get_build_config())
        parts = zip(all_layers(model)[1:], all_layers(copy)[1:], strict=True)
        unbuilt = [part.name for layer, part in parts if layer.built and not part.built]
        if unbuilt:
            raise ValueError(
                "A model with a `call` of its own is copied from its config and built for "
                "the shapes that the original was built for; expected a model whose "
                "`build_from_config` builds all its layers. "
                f"Received: model {model.name!r}, with layers {unbuilt} not built"
            )
        copy.built = True  # Keras sets it in the first call.
        self._fill(model, copy)
        return copy

    def _copy_graph(
        self, model: Any, copies: dict[int, Any], waiting: list[tuple[Any, Any]]
    ) -> keras.Model:
        def copied(layer: Any) -> Any:
            if id(layer) in copies:
                return copies[id(layer)]
            if functional_graph(layer) is not None and not self.replaces(layer):
                copy = self._copy_graph(layer, copies, waiting)
            else:
                copy = self._copy_layer(layer)
                if isinstance(layer, keras.Layer):  # and no operation, such as a sum
                    waiting.append((layer, copy))
            copies[id(layer)] = copy
            return copy

        if isinstance(model, keras.Sequential):
            layers = [copied(layer) for layer in model.layers]
            inputs = [_new_input(symbol) for symbol in model.inputs]
            copy = self.sequential([*inputs, *layers], name=model.name)
        else:
            clone: Any = keras.models.clone_model(
                model,
                input_tensors=keras.tree.map_structure(_new_input, model.input),
                clone_function=copied,
            )
            # A clone has the class of the original.
            copy = self.functional(clone.input, clone.output, name=model.name)
        private.set_own_trainable(copy, value=model.trainable)
        return copy

    def _copy_layer(self, layer: Any) -> Any:
        """Returns the copy of a layer that is no model, without its state yet."""
        if not isinstance(layer, keras.Layer):
            return type(layer).from_config(layer.get_config())
        if self.replaces(layer):
            return self.new_layer(layer)
        config = _config_of(layer)
        replaced = [part for part in all_layers(layer)[1:] if self.replaces(part)]
        found: set[int] = set()
        if replaced:
            config = self._replaced_config(config, all_layers(layer)[1:], found)
        copy = _remade(layer, config)
        missed = [part for part in replaced if id(part) not in found]
        if missed:
            return self.replace_inside(layer, copy, missed)
        # Without a `build` of its own, a layer is built by the first call.
        has_build = type(copy).build is not keras.Layer.build
        if layer.built and not copy.built and has_build:
            copy.build_from_config(layer.get_build_config())
        if not replaced:
            _copy_assets(layer, copy)
        return copy

    def _replaced_config(
        self, config: Any, parts: list[keras.Layer], found: set[int]
    ) -> Any:
        """Returns the config of a layer with replaced layers in it.

        Args:
            config: The config, or a part of it.
            parts: The layers inside the layer.
            found: Is filled with the identities of the layers whose configs were found.
        """
        if isinstance(config, list | tuple):
            return [self._replaced_config(item, parts, found) for item in config]
        if not isinstance(config, dict):
            return config
        same = [part for part in parts if _is_config_of(config, part)]
        if same:
            # Layers may have the same name; their configs are in the same order.
            part = next((one for one in same if id(one) not in found), same[0])
            inside = all_layers(part)
            found.update(map(id, inside))
            if not any(map(self.replaces, inside)):
                return config
            new = keras.saving.serialize_keras_object(self._copy_part(part))
            if "build_config" not in config:
                # The layer around it builds it, and would fail if it were built already.
                new.pop("build_config", None)
            return new
        return {
            key: self._replaced_config(value, parts, found)
            for key, value in config.items()
        }

    def _copy_part(self, part: Any) -> Any:
        """Returns the copy of a layer or a model inside of a layer, without its state."""
        if functional_graph(part) is not None and not self.replaces(part):
            return self._copy_graph(part, {}, [])
        return self._copy_layer(part)

    def _maker(self, layer: Any) -> type[WithReplacedLayers]:
        """Returns what makes the class of the copy of a layer with replaced layers."""
        return self.subclassed if layer is self._whole else WithReplacedLayers

    def _fill(self, layer: Any, copy: Any) -> None:
        check_functions(layer, copy)
        if self.replaces(layer):
            self.fill(layer, copy)
        else:
            self._fill_alike(layer, copy)

    def _fill_alike(self, layer: Any, copy: Any) -> None:
        """Sets the variables of a layer, and of all inside, that is made like another."""
        if layer.built:
            store: dict[str, Any] = {}
            layer.save_own_variables(store)
            copy.load_own_variables({k: _as_saved(v) for k, v in store.items()})
        for part, its_copy in _parts(layer, copy):
            self._fill(part, its_copy)


def check_built(model: Any) -> None:
    """Raises unless something is a Keras model that has been built, so that it can be copied."""
    is_model = isinstance(model, keras.Model)
    if not is_model or not (model.built or functional_graph(model) is not None):
        raise ValueError(
            "Argument `model` must be a Keras model that has been built; start it with a "
            "`keras.Input`, or call it on data first. Received: "
            f"model={getattr(model, 'name', model)!r} of type {type(model).__name__}"
        )


def _new_input(symbol: Any) -> Any:
    """Returns a symbolic input like another one, with the same name."""
    layer, _ = private.history(symbol)
    return keras.Input(
        batch_shape=symbol.shape,
        dtype=symbol.dtype,
        name=layer.name,
        sparse=symbol.sparse,
        ragged=symbol.ragged,
        optional=layer.optional,
    )


def _config_of(layer: keras.Layer) -> dict[str, Any]:
    try:
        return constructor_config(layer)
    except NotImplementedError as error:
        raise _not_remade(layer) from error


def _remade(layer: keras.Layer, config: dict[str, Any]) -> Any:
    """Returns a layer of the same class from a config, which may be changed."""
    make: Any = type(layer).from_config
    if takes_functions(type(layer)):
        config = with_functions(layer, config)
    if isinstance(layer, keras.layers.Lambda):
        # Its `from_config` refuses functions, and those without a name in a config.
        make = functools.partial(_from_arguments, type(layer))
    try:
        copy: Any = make(config)
    except TypeError as error:
        raise _not_remade(layer) from error
    if "name" not in config:
        copy.name = layer.name
    return copy


def _from_arguments(cls: Any, arguments: dict[str, Any]) -> Any:
    return cls(**arguments)


def _not_remade(layer: keras.Layer) -> ValueError:
    return ValueError(
        "A layer is copied from its config, as when it is loaded from a file; expected a "
        "class whose `get_config` returns the arguments of its constructor. Received: "
        f"layer {layer.name!r} of type {type(layer).__name__}, which Keras cannot make again"
    )


def _is_config_of(config: dict[str, Any], layer: keras.Layer) -> bool:
    own = config.get("config")
    return (
        config.get("class_name") == type(layer).__name__
        and isinstance(own, dict)
        and own.get("name") == layer.name
    )


def _parts(layer: keras.Layer, copy: keras.Layer) -> Iterator[tuple[Any, Any]]:
    """Pairs each layer directly inside a layer with its copy."""
    # A sequential model that was built by a call has no input layer, but its copy has.
    both = (
        [
            x
            for x in private.layers_inside(y)
            if not isinstance(x, keras.layers.InputLayer)
        ]
        for y in (layer, copy)
    )
    return zip(*both, strict=True)


def _copy_assets(layer: keras.Layer, copy: keras.Layer) -> None:
    """Copies the assets that Keras saves in files, such as vocabularies.

    The copy needs them before it is called, because shapes of outputs depend on them.
    """
    for part, its_copy in zip(all_layers(layer), all_layers(copy), strict=True):
        if not hasattr(part, "save_assets"):
            continue
        # Variables first, in Keras's order of loading, because assets may need them.
        store: dict[str, Any] = {}
        part.save_own_variables(store)
        its_copy.load_own_variables(store)
        with tempfile.TemporaryDirectory() as directory:
            part.save_assets(directory)
            its_copy.load_assets(directory)


def _as_saved(value: Any) -> Any:
    # The type that a file would return.
    return np.asarray(keras.ops.convert_to_numpy(value))
