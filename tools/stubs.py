"""Writes `tfvn/layers/__init__.pyi`: the layers, as editors and type checkers see them.

A preset gets its constructor when Python runs, and every constructor passes `**kwargs` on
to `keras.Layer`: static tools could neither complete the first nor find a misspelt
argument of either. The stub writes all arguments out.

    python tools/stubs.py           # write the file
    python tools/stubs.py --check   # say whether it is as this script would write it
"""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import keras

import tfvn
from tfvn import layers

STUB = Path(tfvn.__file__).parent / "layers" / "__init__.pyi"

HEADER = """\
# Written by `make stubs`; do not edit.
from typing import Any
"""

# What recurrent layers and cells of Keras take and do not write down.
_RECURRENT = [
    inspect.Parameter("implementation", inspect.Parameter.KEYWORD_ONLY, default=2),
]


def render() -> str:
    """Returns the text of the stub."""
    imports, classes = [], []
    for name in layers.__all__:
        cls = getattr(layers, name)
        if not has_options_of_keras(cls):
            imports.append(f"from {cls.__module__} import {name} as {name}")
        elif issubclass(cls, layers.Preset):
            generic = cls.__mro__[2].__name__
            # After the generic layers.
            classes.append((1, render_class(cls, f"Preset, {generic}")))
        else:
            imports.append(f"from {cls.__module__} import {name} as _{name}")
            classes.append((0, render_class(cls, f"_{name}")))
    classes.sort(key=lambda pair: pair[0])
    parts = [HEADER, *sorted(imports), "", *(text for _, text in classes)]
    return "\n".join(parts)


def has_options_of_keras(cls: type) -> bool:
    """Whether `**kwargs` of a class are those of `keras.Layer` and nothing else.

    Not so for bases of layers, which are not registered, and for heads, which pass them
    on to a layer that they choose.
    """
    is_layer = keras.saving.get_registered_name(cls).startswith("tfvn>")
    return is_layer and not issubclass(cls, layers.LikelihoodHead)


def render_class(cls: type, bases: str) -> str:
    """Returns a class with its constructor."""
    taken = [*parameters(cls)]
    positional = [p for p in taken if p.kind is not p.KEYWORD_ONLY]
    keywords = [p for p in taken if p.kind is p.KEYWORD_ONLY]
    arguments = [
        "self",
        *map(render_parameter, positional),
        "*",
        *map(render_parameter, keywords),
    ]
    return "\n".join(
        [
            f"class {cls.__name__}({bases}):",
            # Tools that make documentation read no other.
            textwrap.indent(f'"""{inspect.getdoc(cls)}\n"""', "    "),
            "    def __init__(",
            *(f"        {argument}," for argument in arguments),
            "    ) -> None: ...",
            "",
        ]
    )


def render_parameter(parameter: inspect.Parameter) -> str:
    """Returns an argument with its type and default."""
    annotation = inspect.formatannotation(parameter.annotation)
    # Keras's own arguments have no types, and its classes are none to a type checker.
    if parameter.annotation is parameter.empty or annotation.startswith("keras."):
        annotation = "Any"
    text = f"{parameter.name}: {annotation.replace('typing.', '')}"
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {parameter.default!r}"


def parameters(cls: type) -> Iterable[inspect.Parameter]:
    """Yields the arguments of a layer, those that it passes on to Keras included."""
    named = inspect.signature(cls).parameters
    for parameter in named.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter
    passed_on = [*inspect.signature(keras.Layer.__init__).parameters.values()]
    if issubclass(cls, keras.layers.RNN):
        passed_on += inspect.signature(keras.layers.RNN.__init__).parameters.values()
    if hasattr(cls, "get_initial_state"):
        passed_on += _RECURRENT
    for parameter in passed_on:
        is_option = parameter.default is not parameter.empty
        if is_option and parameter.name not in named:
            yield parameter.replace(kind=parameter.KEYWORD_ONLY)


def main(arguments: list[str] | None = None) -> int:
    """Runs the script and returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args(arguments).check:
        STUB.write_text(render())
    elif STUB.read_text() != render():
        print(f"{STUB} is out of date; run `make stubs`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
