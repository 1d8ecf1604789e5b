"""Tools of all commands: tables, and one-line errors for mistakes of the user."""

import contextlib
from collections.abc import Iterable, Iterator

import tensorflow as tf

from _tfvn_command import CommandError
from tfvn.serving.saved_model import reason


@contextlib.contextmanager
def mistakes() -> Iterator[None]:
    """Turns errors about the user's paths, files and rows into one line."""
    try:
        yield
    except tf.errors.OpError as error:
        raise CommandError(reason(error)) from error
    except (OSError, ValueError) as error:
        raise CommandError(first_line(error)) from error


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, or its class if there is none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def table(header: Iterable[str], rows: list[list[str]]) -> list[str]:
    """Returns the lines of a table."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]
