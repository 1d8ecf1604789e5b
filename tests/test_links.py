"""Links and images of the documentation lead to something."""

import html.parser
import re
import urllib.parse
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


class Page(html.parser.HTMLParser):
    """The links, images and anchors of a page, as GitHub shows it."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.anchors, self._heading = [], set(), None
        self.feed(MarkdownIt("commonmark").enable("table").render(path.read_text()))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src"):
                self.targets.append(value)
            elif name in ("id", "name"):
                self.anchors.add(value)
        if re.fullmatch(r"h[1-6]", tag):
            self._heading = ""

    def handle_data(self, data):
        if self._heading is not None:
            self._heading += data

    def handle_endtag(self, tag):
        if re.fullmatch(r"h[1-6]", tag):
            words = re.sub(r"[^\w\- ]", "", self._heading.lower()).replace(" ", "-")
            number = 0
            while (anchor := f"{words}-{number}" if number else words) in self.anchors:
                number += 1
            self.anchors.add(anchor)
            self._heading = None


def is_external(target):
    return bool(urllib.parse.urlsplit(target).scheme)


def is_made_by_the_site(file, root):
    """Says whether `make docs` makes a page, such as a tutorial's, and checks its anchors."""
    pages = re.findall(r"^ .*[-:] (\S+\.md)$", (root / "mkdocs.yml").read_text(), re.M)
    return file in [root / "docs" / name for name in pages]


def exists(target, page, root):
    """Says whether a relative link of a page leads to a file, and to an anchor in it."""
    place, _, anchor = urllib.parse.unquote(target).partition("#")
    file = (page.parent / place).resolve() if place else page
    if not file.is_relative_to(root):
        return False
    if not file.exists():
        return page.is_relative_to(root / "docs") and is_made_by_the_site(file, root)
    return not anchor or (file.suffix == ".md" and anchor in Page(file).anchors)


def broken(page, root=ROOT):
    """Returns the relative links and images of a page that lead nowhere."""
    targets = Page(page).targets
    return [x for x in targets if not is_external(x) and not exists(x, page, root)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_and_images_exist(path):
    assert broken(path) == []


def test_external_links_are_secure_and_listed():
    # Nobody is asked whether they exist; `pytest -rP` shows them.
    links = {
        target: path.relative_to(ROOT)
        for path in PAGES
        for target in Page(path).targets
        if is_external(target)
    }
    for target, path in sorted(links.items()):
        print(f"{target} ({path})")
    assert not [link for link in links if not link.startswith(("https://", "mailto:"))]


def test_the_checker_sees_what_is_broken(tmp_path):
    (tmp_path / "other.md").write_text(
        "# A `code` heading, and more\n\n# Same\n\n# Same"
    )
    (tmp_path / "image.png").write_bytes(b"")
    good = ["other.md", "other.md#a-code-heading-and-more", "other.md#same-1", "#page"]
    bad = ["no.md", "other.md#no", "#no", "image.png#no", "../outside.md", "/other.md"]
    links = "\n".join(f"[text]({target})" for target in (*good, *bad))
    page = tmp_path / "page.md"
    page.write_text(
        f"# Page\n{links}\n![there](image.png) ![missing](no.png)\n[text][by name]\n\n"
        '<img src="no.svg">\n\n```\n[code](no.py)\n```\n`[code](no.py)` '
        "<https://example.org/no>\n\n| a |\n|---|\n| [cell](cell.md) |\n\n"
        "[by name]: reference.md\n"
    )
    assert broken(page, tmp_path) == [
        *bad,
        "no.png",
        "reference.md",
        "no.svg",
        "cell.md",
    ]


def test_guides_may_lead_to_pages_that_the_site_makes(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - Made: made.md\n  - by/tool.md\n")
    text = "[a](made.md#any) [b](by/tool.md) [c](tool.md) [d](docs/made.md)"
    for name in ("docs/guide.md", "README.md"):
        (tmp_path / name).write_text(text)
    assert broken(tmp_path / "docs" / "guide.md", tmp_path) == [
        "tool.md",
        "docs/made.md",
    ]
    assert len(broken(tmp_path / "README.md", tmp_path)) == 4
