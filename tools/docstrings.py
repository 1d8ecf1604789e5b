"""Makes the docstrings of the library ready for the site.

They follow Keras: the example after `Example:` is not indented, so that Markdown would
take its `>>>` for a quote in a quote in a quote. This extension of griffe, which reads the
library for mkdocstrings, puts examples in blocks of code, and makes headings of the
sections that only Keras has (`Input shape:`, `Reference:`, ...).
"""

import inspect
import re
from typing import Any

import griffe

# Sections that mkdocstrings does not know; `Args:`, `Returns:`, `Raises:` it does.
_SECTIONS = "Example|Call arguments|Input shape|Output shape|Reference|References"
_HEADING = re.compile(rf"^({_SECTIONS}):\n+((?:(?: {{4}}.*)?\n)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*\n(?:(?!\n).*\n)*", re.MULTILINE)


class Sections(griffe.Extension):
    """Rewrites each docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Changes the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    r"""Returns a docstring with headings and blocks of code.

    Example:

    >>> print(as_markdown("Adds.\n\nExample:\n\n>>> 1 + 1\n2"))
    Adds.
    <BLANKLINE>
    **Example**
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = inspect.cleandoc(docstring) + "\n"
    text = _HEADING.sub(_heading, text)
    text = _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)
    return text.rstrip()


def _heading(match: re.Match) -> str:
    text = inspect.cleandoc(match[2])
    return f"**{match[1]}**\n\n" + (f"{text}\n\n" if text else "")
