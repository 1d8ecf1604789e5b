"""Gives the package its description; everything else about it is in setup.cfg."""

import pathlib
import re

import setuptools

NOTE = "The files that this page names are in the source distribution."
# What has no scheme, such as https: or mailto:. A title may follow.
RELATIVE = r"\(\s*(?!<?\w[\w+.-]*:)(?P<target>[^()\s]*)[^()]*\)"
CODE = r"```.*?```|`[^`]*`"
# Code is matched too, so that brackets in it are left alone.
IMAGE = re.compile(rf"{CODE}|(?P<alt>!\[[^\]]*\]){RELATIVE}\n?", re.DOTALL)
LINK = re.compile(rf"\[(?P<text>(?:`[^`]*`|[^`\[\]])*)\]{RELATIVE}|{CODE}", re.DOTALL)


def description(readme: str) -> str:
    """Returns a README for readers who do not have the files beside it.

    A package index shows the text alone, where relative links lead nowhere and relative
    images are broken. So such links become text, and such images are left out.
    """
    text = IMAGE.sub(lambda match: "" if match["alt"] else match[0], readme)
    return f"{LINK.sub(_as_text, text).rstrip()}\n\n{NOTE}\n"


def _as_text(link: re.Match[str]) -> str:
    if link["text"] is None:
        return link[0]
    text, file = link["text"], link["target"].partition("#")[0].strip("<>")
    return text if not text or file in text else f"{text} ({file})"


if __name__ == "__main__":
    page = pathlib.Path(__file__).with_name("README.md")
    setuptools.setup(
        long_description=description(page.read_text("utf-8")),
        long_description_content_type="text/markdown",
    )
