"""Tables, as text for a terminal and as HTML for a notebook or a page."""

import html
from collections.abc import Iterable, Sequence


def text_table(
    header: Iterable[str], rows: Iterable[Sequence[str]], align: str = ""
) -> list[str]:
    """Returns the lines of a table.

    Args:
        header: The names of the columns.
        rows: The cells, row by row.
        align: `"l"` or `"r"` for each column: flush left or right. Columns without a
            letter are flush left.

    Example:

    >>> from tfvn.utils.tables import text_table
    >>> print(*text_table(["name", "size"], [["a", "10"], ["bc", "2"]], "lr"), sep=chr(10))
    name  size
    a       10
    bc       2
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides = align.ljust(len(widths), "l")
    return [
        "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(line, widths, sides, strict=True)
        ).rstrip()
        for line in lines
    ]


def html_table(
    header: Iterable[str], rows: Iterable[Sequence[str]], align: str = ""
) -> str:
    """Returns a table as HTML, with its cells escaped.

    Args:
        header: The names of the columns.
        rows: The cells, row by row.
        align: As in `text_table`.

    Example:

    >>> from tfvn.utils.tables import html_table
    >>> html_table(["a"], [["<"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;</td></tr></tbody></table>'
    """
    head = _html_row("th", header, align)
    body = "".join(_html_row("td", row, align) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _html_row(tag: str, cells: Iterable[str], align: str) -> str:
    cells = list(cells)
    sides = align.ljust(len(cells), "l")
    written = (
        f"<{tag}{_RIGHT if side == 'r' else ''}>{html.escape(cell)}</{tag}>"
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(written)}</tr>"


_RIGHT = ' style="text-align:right"'
