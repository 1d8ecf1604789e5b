"""The private names of Keras, TensorFlow and TFP do what the library needs of them.

When a new release breaks one of these tests, `tfvn/utils/private.py` is the file to mend.
"""

import ast
import importlib
import inspect
import pathlib
import pkgutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfvn
from tfvn.utils import private

LIBRARY = pathlib.Path(tfvn.__file__).parent
FOREIGN = ("keras.src", "tensorflow.python")

# The private names of Keras that classes of the library override: no public method is called
# where these are.
OVERRIDDEN = {
    "_backend_update_step",
    "_create_dropout_mask",
    "_flatten_metrics_in_order",
    "_get_metrics_result_or_logs",
    "_maybe_symbolic_build",
    "_trackable_children",
}


def functional():
    inputs = keras.Input((3,), name="x")
    return keras.Model({"x": inputs}, {"y": keras.layers.Dense(2, name="y")(inputs)})


class TestOneModule:
    """Nothing else in the library uses a private name."""

    def trees(self):
        for path in LIBRARY.rglob("*.py"):
            if path.name not in ("private.py", "private_training.py"):
                yield path.relative_to(LIBRARY), ast.parse(path.read_text())

    def test_imports(self):
        found = [
            f"{path}:{node.lineno}"
            for path, tree in self.trees()
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None), *[a.name for a in node.names]]
            if name and name.startswith(FOREIGN)
        ]
        assert not found, f"move these imports to tfvn/utils/private.py: {found}"

    def test_members(self):
        trees = list(self.trees())
        ours = {name for _, tree in trees for name in _defined(tree)}
        found = sorted(
            f"{path}:{node.lineno} {node.attr}"
            for path, tree in trees
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and _is_private(node.attr)
            if node.attr not in ours
        )
        assert not found, f"move these members to tfvn/utils/private.py: {found}"

    def test_overrides(self):
        """A name that is Keras's by chance would change what Keras does."""
        found = {
            name
            for cls in _classes()
            for name in _private_names(cls, ("tfvn.",))
            & _private_names(cls, ("keras.",))
        }
        assert found == OVERRIDDEN


def _classes():
    """Yields the classes of the library."""
    for module in pkgutil.walk_packages(tfvn.__path__, "tfvn."):
        if module.name != "tfvn.__main__":
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value):
                    yield value


def _private_names(cls, places):
    """Returns the private names in those of a class's bases that are in some modules."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith(places)]
    names = {name for base in bases for name in vars(base) if _is_private(name)}
    return names - {"_abc_impl"}  # which Python gives to every abstract class


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def _defined(tree):
    """Yields the names that a file defines: functions, classes and own attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and getattr(node.value, "id", None) in ("self", "cls")
        ):
            yield node.attr
    # Of named tuples.
    yield from ("_replace", "_asdict", "_fields")


class TestModels:
    def test_functional_class(self):
        model = functional()
        assert type(model) is private.Functional
        assert issubclass(private.Functional, keras.Model)
        assert issubclass(private.Functional, keras.Function)

    def test_flatten_layers(self):
        inside = keras.layers.Dense(1)
        wrapper = keras.layers.TimeDistributed(inside)
        model = keras.Sequential([keras.Input((2, 3)), wrapper, wrapper])
        layers = private.flatten_layers(model)
        for layer in (model, wrapper, inside):
            assert sum(layer is found for found in layers) == 1

    def test_layers_inside(self):
        inside = keras.layers.TimeDistributed(keras.layers.Dense(1))
        wrapper = keras.layers.TimeDistributed(inside)
        assert private.layers_inside(wrapper) == [inside]

    def test_graph_of_sequential(self):
        layer = keras.layers.Dense(1)
        model = keras.Sequential([layer])
        assert private.graph_of_sequential(model) is None
        model.build((None, 3))
        graph = private.graph_of_sequential(model)
        assert isinstance(graph, private.Functional)
        assert graph.outputs[0] is model.outputs[0]

    def test_structures_of_a_functional_model(self):
        # Public names, of which Keras's documentation says little.
        model = functional()
        assert list(model.input) == ["x"]
        assert list(model.output) == ["y"]

    def test_history(self):
        dense = keras.layers.Dense(2)
        first, second = keras.Input((3,)), keras.Input((3,))
        dense(first)
        assert private.history(dense(second)) == (dense, 0)
        outputs = keras.layers.LSTM(2, return_state=True)(keras.Input((4, 3)))
        assert [private.history(output)[1] for output in outputs] == [0, 1, 2]

    def test_call_of(self):
        dense, inputs = keras.layers.Dense(3), keras.Input((3,))
        middle = dense(inputs)
        assert private.call_of(middle) == (dense, 0, [inputs])
        assert private.call_of(dense(middle)) == (dense, 0, [middle])

    def test_replace_layer(self):
        first, second = keras.layers.Dense(1), keras.layers.Dense(2)
        layer = keras.Layer()
        layer.some, layer.last = [first, second], keras.layers.Dense(3)
        new = keras.layers.Dense(4)
        private.replace_layer(layer, first, new, "some", [new, second])
        assert private.layers_inside(layer) == [new, second, layer.last]
        assert list(layer.some) == [new, second]
        # Attributes that hold all layers are not the layer's own.
        holders = [
            name
            for name, value in vars(layer).items()
            if isinstance(value, list | tuple) and any(v is new for v in value)
        ]
        assert [n for n in holders if not private.is_own_attribute(n)] == ["some"]

    def test_set_own_trainable(self):
        inside = keras.layers.Dense(1)
        model = keras.Sequential([keras.Input((2,)), inside])
        private.set_own_trainable(model, value=False)
        assert model.trainable_variables == []
        assert inside.trainable

    def test_nodes(self):
        inputs = keras.Input((3,))
        dense = keras.layers.Dense(3)
        middle = dense(inputs)
        model = keras.Model(inputs, dense(middle))
        first, *calls = private.nodes(model)
        assert first.is_input
        assert [node.operation for node in calls] == [dense, dense]
        assert [node.input_tensors[0] for node in calls] == [inputs, middle]
        assert calls[0].outputs[0] is middle
        args, kwargs = calls[0].arguments.fill_in({id(inputs): "value"})
        assert args == ("value",)
        assert kwargs == {}

    def test_standardize_inputs(self):
        (values,) = private.standardize_inputs(functional(), {"x": np.ones((2, 3))})
        assert values.dtype == tf.float32
        with pytest.raises(ValueError, match="shape"):
            private.standardize_inputs(functional(), {"x": np.ones((2, 3, 4))})

    def test_current_call(self):
        seen = []

        class Inner(keras.Layer):
            def call(self, inputs, training=None):
                seen.append(private.current_call())
                return inputs

        class Outer(keras.Layer):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def call(self, inputs, training=None):
                return self.inner(self.inner(inputs))

        outer = Outer()
        outer(np.ones(2), training=True)
        assert private.current_call() is None
        first, second = seen[-2:]
        assert first is second
        assert first.entry_layer is outer
        assert first.get_value("training") is True

    def test_losses(self):
        layer = keras.layers.ActivityRegularization(l1=1.0)
        model = keras.Sequential([keras.Input((2,)), layer])
        model(np.ones((1, 2)))
        assert [float(loss) for loss in private.own_losses(layer)] == [2.0]
        private.clear_losses(model)
        assert private.own_losses(layer) == model.losses == []

    def test_masks(self):
        tensor, mask = tf.ones((1, 2)), tf.constant([[True, False]])
        assert private.get_keras_mask(tensor) is None
        private.set_keras_mask(tensor, mask)
        assert private.get_keras_mask(tensor) is mask
        # A layer takes it from there.
        made = keras.layers.Embedding(3, 2, mask_zero=True)(np.array([[1, 0]]))
        assert private.get_keras_mask(made).numpy().tolist() == [[True, False]]

    def test_base_classes(self):
        cells = [
            keras.layers.LSTM(1).cell,
            keras.layers.GRUCell(1),
            keras.layers.SimpleRNNCell(1),
            keras.layers.ConvLSTM2D(1, 1).cell,
        ]
        assert all(isinstance(cell, private.DropoutRNNCell) for cell in cells)
        assert isinstance(keras.layers.RandomFlip(), private.DataLayer)
        assert not isinstance(keras.layers.Dropout(0.1), private.DataLayer)

    def test_masks_of_cells(self):
        # `HoldsDraws` keeps these two, under Keras's names.
        cell = keras.layers.LSTMCell(1, dropout=0.5, recurrent_dropout=0.5)
        cell.get_dropout_mask(tf.ones((1, 2)))
        cell.get_recurrent_dropout_mask(tf.ones((1, 1)))
        assert cell._dropout_mask is not None
        assert cell._recurrent_dropout_mask is not None

    def test_own_kernel(self):
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
        kernel = layer.kernel
        layer.enable_lora(1)
        assert private.own_kernel(layer) is kernel
        conv = keras.layers.Conv2D(1, 1)
        conv.build((None, 3, 3, 1))
        assert private.own_kernel(conv) is conv.kernel


class TestVariables:
    def test_own_variables(self):
        layer = keras.layers.BatchNormalization()
        model = keras.Sequential([keras.Input((2,)), layer])
        assert private.own_variables(model) == []
        names = [variable.name for variable in private.own_variables(layer)]
        assert names == ["gamma", "beta", "moving_mean", "moving_variance"]

    def test_tracking(self):
        layer, variable = keras.Layer(), keras.Variable(1.0)
        private.track_variable(layer, variable)
        assert layer.trainable_variables == [variable]
        layer.trainable = False
        assert layer.trainable_variables == []
        assert private.own_trainable_variables(layer) == [variable]
        private.untrack(layer, variable)
        assert layer.weights == []

    def test_set_tf_variable(self):
        holder, variable = keras.Variable(1.0), tf.Variable(2.0)
        private.set_tf_variable(holder, variable)
        holder.assign(3.0)
        assert float(variable) == 3.0

    def test_seed_generators(self):
        layer = keras.layers.Dropout(0.5)
        assert private.seed_generators(layer) == [layer.seed_generator]
        assert private.seed_generators(keras.layers.Dense(1)) == []

    def test_full_precision(self):
        seen = []

        class Layer(keras.Layer):
            def build(self, shape):
                self.scale = self.add_weight()

            def call(self, inputs):
                seen.append(self.scale.value.dtype)
                with private.full_precision():
                    seen.append(self.scale.value.dtype)
                return inputs

        Layer(dtype="mixed_float16")(np.ones(2))
        assert seen == [tf.float16, tf.float32]

    def test_sharing(self, tmp_path):
        seen, shared = [], object()

        class Layer(keras.Layer):
            def get_config(self):
                seen.append(private.is_saving())
                return super().get_config()

            @classmethod
            def from_config(cls, config):
                seen.append(private.get_shared_object(7))
                private.record_object_after_deserialization(shared, 7)
                return cls(**config)

        layers = [keras.Input((2,)), Layer(), Layer()]
        layers[-1].get_config()
        keras.Sequential(layers).save(tmp_path / "model.keras")
        assert seen == [False, True, True]
        custom = {"Layer": Layer}
        keras.saving.load_model(tmp_path / "model.keras", custom_objects=custom)
        assert seen[3:] == [None, shared]
        assert private.get_shared_object(7) is None

    def test_set_parameters(self):
        class Wide(tfd.Normal):
            def __init__(self, width):
                super().__init__(0.0, width)
                private.set_parameters(self, {"width": width})

        assert float(Wide(2.0).copy(width=5.0).stddev()) == 5.0
