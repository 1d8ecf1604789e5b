"""What a traced function would do on a GPU: its kernels, its copies, its double precision.

TensorFlow's wheel for Linux is built with CUDA and registers the kernels of GPUs, whether
or not the machine has one. Its registry has no public name.
"""

import functools

import tensorflow as tf
from tensorflow.python.framework import kernels
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

# Kernels for any device that has no kernels of its own; they do not compute.
_DEVICES = ("GPU", "DEFAULT")


def operations(concrete):
    """Returns the operations of a traced function, and of all functions that it calls."""
    found = list(concrete.graph.get_operations())
    for function in concrete.graph.as_graph_def().library.function:
        found += function_def_to_graph(function).get_operations()
    return found


def without_gpu_kernel(concrete):
    """Returns the operations that a GPU has no kernel for, as `"Op(T=float32)"`."""
    return sorted({_named(op) for op in operations(concrete) if gpu_kernel(op) is None})


def gpu_kernel(op):
    """Returns the kernel that a GPU has for an operation with its types, or `None`."""
    for kernel in _kernels(op.type):
        if all(_fits(op, constraint) for constraint in kernel.constraint):
            return kernel
    return None


@functools.cache
def _kernels(op_type):
    registered = kernels.get_registered_kernels_for_op(op_type).kernel
    found = [kernel for kernel in registered if kernel.device_type in _DEVICES]
    return sorted(found, key=lambda kernel: _DEVICES.index(kernel.device_type))


def _fits(op, constraint):
    value = op.get_attr(constraint.name)
    types = value if isinstance(value, list) else [value]
    allowed = constraint.allowed_values.list.type
    return all(tf.as_dtype(t).as_datatype_enum in allowed for t in types)


def _named(op):
    types = [a for a in op.op_def.attr if a.type in ("type", "list(type)")]
    values = {a.name: op.get_attr(a.name) for a in types}
    shown = ", ".join(
        f"{name}={[t.name for t in v] if isinstance(v, list) else v.name}"
        for name, v in values.items()
    )
    return f"{op.type}({shown})"


def copied_to_the_host(concrete):
    """Returns what kernels of a GPU read in the host's memory and others write in the GPU's.

    Each such read waits for the GPU.

    Returns:
        A set of the type of the reader, the name of its argument, and the type of the writer.
    """
    copies = set()
    for op in operations(concrete):
        on_host = _on_host(op)
        for name, tensor in zip(
            _names(op, op.op_def.input_arg), op.inputs, strict=False
        ):
            writer = tensor.op
            # The integers among the arguments of a function are in the host's memory.
            if name not in on_host or writer.type in ("Placeholder", "_Arg"):
                continue
            written = _names(writer, writer.op_def.output_arg)[tensor.value_index]
            if written not in _on_host(writer):
                copies.add((op.type, name, writer.type))
    return copies


def _on_host(op):
    kernel = gpu_kernel(op)
    return () if kernel is None else kernel.host_memory_arg


def _names(op, arguments):
    """Returns the name of the argument of each input or output; a list has many."""
    names = []
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        names += [argument.name] * count
    return names


def doubles(concrete):
    """Returns the shapes of all tensors of type float64 that are not scalars, by operation."""
    return {
        (op.type, tuple(output.shape) if output.shape.rank is not None else None)
        for op in operations(concrete)
        for output in op.outputs
        if output.dtype == tf.float64 and output.shape.rank != 0
    }
