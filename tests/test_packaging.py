"""What a release consists of: its files, its description, its version and its extras."""

import configparser
import datetime as dt
import email
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import packaging.version
import pytest
import yaml
from markdown_it import MarkdownIt

import tfvn

ROOT = Path(__file__).parent.parent
CHECKS = ROOT / ".github" / "workflows" / "checks.yml"


@pytest.fixture(scope="module")
def setup_cfg():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestVersion:
    def test_is_the_same_everywhere(self, setup_cfg):
        version = setup_cfg["metadata"]["version"]
        newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
        assert newest[1] == version
        assert tfvn.__version__ == version, "install again: `pip install --editable .`"

    def test_newest_entry_of_the_changelog_has_a_date(self):
        text = (ROOT / "CHANGELOG.md").read_text()
        newest, *older = re.findall(r"^## (.*)$", text, re.M)
        version, date = re.fullmatch(r"([\d.]+) \((.*)\)", newest).groups()
        assert dt.date.fromisoformat(date)
        versions = [version, *(entry.split()[0] for entry in older)]
        falling = sorted(versions, key=packaging.version.Version, reverse=True)
        assert versions == falling


class TestExtras:
    @pytest.fixture
    def extras(self, setup_cfg):
        section = setup_cfg["options.extras_require"]
        return {name: text.split("\n")[1:] for name, text in section.items()}

    def test_all_has_what_users_want_and_no_tools_of_the_project(self, extras):
        (everything,) = extras["all"]
        wanted = re.fullmatch(r"tfvn\[(.*)\]", everything)[1].split(",")
        assert sorted(wanted) == sorted({*extras} - {"all", "dist", "docs", "test"})

    def test_documentation_names_every_extra(self, extras):
        pages = "".join(
            (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")
        )
        assert not [name for name in extras if f"`{name}`" not in pages]


class TestChecksOfTheRepository:
    @pytest.fixture
    def jobs(self):
        return yaml.safe_load(CHECKS.read_text())["jobs"]

    def test_jobs_run_make_and_nothing_else(self, jobs):
        makefile = (ROOT / "Makefile").read_text()
        for job in jobs.values():
            (command,) = [step["run"] for step in job["steps"] if "run" in step]
            target = re.fullmatch(r"make ([\w-]+)", command)[1]
            assert re.search(rf"^{target}:", makefile, re.M)

    def test_tests_run_with_every_python_that_the_package_names(self, jobs, setup_cfg):
        classifiers = setup_cfg["metadata"]["classifiers"]
        named = re.findall(r"Python :: (3\.\d+)$", classifiers, re.M)
        assert jobs["test"]["strategy"]["matrix"]["python-version"] == named

    def test_actions_are_pinned_to_major_versions(self, jobs):
        used = {s["uses"] for job in jobs.values() for s in job["steps"] if "uses" in s}
        assert used
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", name) for name in used)


PRODUCTS = [
    *("build", "dist", "site", "tfvn.egg-info", ".pytest_cache", ".ruff_cache"),
    *(".mypy_cache", ".hypothesis", "htmlcov", ".coverage", "tfvn/__pycache__"),
]


def test_make_clean_removes_products_and_keeps_the_environment(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*PRODUCTS, ".venv/__pycache__", "docs"):
        (tmp_path / name).mkdir(parents=True)
    run("make", "clean", cwd=tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"Makefile", ".venv", "docs", "tfvn"}
    assert (tmp_path / ".venv" / "__pycache__").is_dir()
    assert not (tmp_path / "tfvn" / "__pycache__").exists()


@pytest.fixture(scope="module")
def tracked():
    """The files of the project, as Git knows them."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("only a checkout by Git knows which files are the project's")
    options = ("--cached", "--others", "--exclude-standard", "-z")
    names = run("git", "ls-files", *options, cwd=ROOT).split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


@pytest.mark.parametrize(
    "name", [*PRODUCTS, ".venv-ci/x", "results/x", "examples/results/x"]
)
def test_git_ignores_what_runs_leave_behind(tracked, name):
    # Only a directory matches a pattern that ends in a slash.
    place = name if name == ".coverage" else f"{name}/"
    run("git", "check-ignore", place, cwd=ROOT)


@pytest.fixture
def distributions(tracked, tmp_path):
    """The wheel, built from the source distribution, and the latter."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("needs the package `build`, which the extra `test` installs")
    if int(metadata.version("setuptools").split(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or newer, which the extra `test` installs")
    source = tmp_path / "source"
    for name in tracked:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    # What runs leave behind must not get into a release.
    for junk in ("examples/results/junk.csv", "tests/__pycache__/junk.pyc"):
        (source / junk).parent.mkdir(parents=True, exist_ok=True)
        (source / junk).touch()
    output = tmp_path / "dist"
    options = ("--no-isolation", "--outdir", output)
    run(sys.executable, "-m", "build", *options, source, cwd=tmp_path)
    (wheel,) = output.glob("*.whl")
    (archive,) = output.glob("*.tar.gz")
    return wheel, archive


def test_distributions_are_complete(distributions, tracked, setup_cfg):
    wheel, archive = distributions
    version = setup_cfg["metadata"]["version"]
    assert wheel.name == f"tfvn-{version}-py3-none-any.whl"
    with tarfile.open(archive) as opened:
        files = [member.name for member in opened if member.isfile()]
    names = {name.partition("/")[2] for name in files}
    assert {x for x in names if "egg-info" not in x} == {*tracked, "PKG-INFO"}

    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        about = opened.read(f"tfvn-{version}.dist-info/METADATA").decode()
    package = {x for x in tracked if x.startswith("tfvn/")} | {"_tfvn_command.py"}
    assert {x for x in names if ".dist-info/" not in x} == package
    # These would not be missed by an import.
    assert {"tfvn/py.typed", "tfvn/layers/__init__.pyi", "tfvn/data/digits.npz"} < names
    assert f"tfvn-{version}.dist-info/licenses/LICENSE" in names

    message = email.message_from_string(about)
    assert message["License-Expression"] == "Apache-2.0"
    assert message["Description-Content-Type"] == "text/markdown"
    assert message.get_payload().lstrip() == shown()


@pytest.mark.exhaustive
def test_wheel_works_without_the_checkout(distributions, tmp_path):
    target = tmp_path / "installed"
    options = ("--no-deps", "--no-index", "--no-compile", "--target", target)
    run(sys.executable, "-m", "pip", "install", *options, distributions[0])
    environment = {**os.environ, "PYTHONPATH": str(target)}
    ask = (
        "import tfvn; print(tfvn.__file__, tfvn.__version__);"
        "(x, _), _ = tfvn.datasets.load('digits'); print(len(x))"
    )
    told = run(sys.executable, "-c", ask, cwd=tmp_path, env=environment)
    place = target / "tfvn" / "__init__.py"
    assert told.split() == [str(place), tfvn.__version__, "1437"]
    command = target / "bin" / "tfvn"
    told = run(command, "--help", cwd=tmp_path, env=environment)
    assert told.startswith("usage: tfvn ")
    told = run(command, "--version", cwd=tmp_path, env=environment)
    assert told.startswith(f"tfvn {tfvn.__version__} (")


describe = runpy.run_path(str(ROOT / "setup.py"))["description"]


def shown():
    return describe((ROOT / "README.md").read_text())


class TestDescription:
    def test_leads_nowhere_but_to_absolute_addresses(self):
        page = MarkdownIt("commonmark").enable("table").render(shown())
        targets = re.findall(r'(?:href|src)="([^"]*)"', page)
        assert not [x for x in targets if not x.startswith(("https://", "mailto:"))]

    def test_keeps_all_other_text_of_the_readme(self):
        page = (ROOT / "README.md").read_text()
        code = re.findall(r"```.*?```", page, re.DOTALL)
        assert re.findall(r"```.*?```", shown(), re.DOTALL) == code
        assert [x for x in shown().splitlines() if x.startswith("#")] == [
            x for x in page.splitlines() if x.startswith("#")
        ]

    @pytest.mark.parametrize(
        ("written", "wanted"),
        [
            (
                "see [Training](docs/training.md#loss).",
                "see Training (docs/training.md).",
            ),
            ("([docs/a.md](docs/a.md))", "(docs/a.md)"),
            ("[`docs/a.md`](docs/a.md)", "`docs/a.md`"),
            ('[two\nlines](<a.md> "title")', "two\nlines (a.md)"),
            ("[above](#install)", "above"),
            ("before\n![figure](docs/a.png)\nafter", "before\nafter"),
            ("[![figure](a.png)](a.md)after", "after"),
            ("[paper](https://arxiv.org/abs/1)", None),
            ("[write](mailto:a@example.org)", None),
            ("![badge](https://example.org/a.svg)", None),
            ('`signatures["seeded"](x)`', None),
            ('```python\nsignatures["seeded"](x)\n![x](y)\n```', None),
        ],
    )
    def test_relative_links_become_text(self, written, wanted):
        text = describe(written)
        note = "\n\nThe files that this page names are in the source distribution.\n"
        assert text.endswith(note)
        assert text.removesuffix(note) == (written if wanted is None else wanted)
