"""Pages name only things that exist: linked files and headings, paths, commands with their options,
profile keys, code."""

import ast
import gc
import io
import json
import re
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vehicled.cli.commands import build_parser
from vehicled.control.programmes import named
from vehicled.paths.catalog import load_course
from vehicled.profile.export import json_schema
from vehicled.profile.loading import load_profile
from vehicled.profile.problems import ProfileError
from vehicled.profile.registry import UnknownNameError, resolve
from vehicled.profile.schema import Profile

pytestmark = pytest.mark.xdist_group("source")  # every file is parsed once

ROOT = Path(__file__).parents[2]
PACKAGES = ("vehicled", "drivers", "sim_backend", "bench", "tests")
CODE_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
COMMAND = re.compile(
    r'^(?:sudo )?(?:vehicled|\.venv/bin/vehicled|"\$\(command -v vehicled\)"|python3? -m '
    r"vehicled) (?P<words>(?:(?! {4}|[#|&>]).)+)"
)
PLACEHOLDER = re.compile(r"\.\.\.|<[^>]+>|\bCOMMAND\b")
DOTTED = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)+(?=\(.*\)$|$)")
FOREIGN_OPTIONS = {"--man", "--offline", "--root", "--now", "--nthreads", "--nworkers"}
"""Options of systemd's and of Dask's own programs."""
FOREIGN_OPTIONS |= {"--cafile", "--cert", "--key"}  # of mosquitto_sub
FOREIGN_OPTIONS |= {
    "--cap-add",
    "--cpu-rt-runtime",
    "--device",
    "--device-cgroup-rule",
    "--group-add",
    "--health-cmd",
    "--health-interval",
    "--restart",
    "--secret",
    "--tmpfs",
    "--ulimit",
}
"""Options of podman's and docker's."""
FOREIGN = {
    "motor_driver.py",
    "documentation/comm_can.md",
    "foxglove.sdk.v1",
    "foxglove.websocket.v1",
}
"""Files of other projects, and names that only look like code of this one."""
FOREIGN |= {
    f"vehicled.{kind}"
    for kind in ("controllers", "estimators", "identifiers", "drivers", "decoders")
}
FOREIGN |= {
    "[controller.MyLaw]",
    "controller.policy",
    "run.metrics",
    "run.messages",
    "run.frame",
    "run.plot",
    "run.path",
}
READERS_FILE = re.compile(r"(test_)?my_|FILE\.|other\.")
"""Files that the reader writes."""
FOREIGN |= {
    "vehicled/PathTracking-v0",
    "vehicled/Racing-v0",
    "study.sqlite",
    "art.sha256",
    "drive.ubx.times",
    "[message.fields]",
}


@cache
def tracked() -> tuple[str, ...]:
    """Return the paths of the project's files and folders."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    files = [Path(name) for name in listing.stdout.split("\0") if name and (ROOT / name).exists()]
    return tuple(
        sorted({each.as_posix() for file in files for each in (file, *file.parents)} - {"."})
    )


@cache
def suffixes() -> frozenset[str]:
    """Return the endings of the project's files."""
    return frozenset(Path(name).suffix for name in tracked())


@cache
def pages() -> dict[str, str]:
    """Return the text of every page. Of the changelog only the newest section describes the
    present."""
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in tracked()
        if name.endswith(".md") and not name.startswith("tests/")
    }
    for name in tracked():
        if name.endswith(".ipynb"):
            cells = json.loads((ROOT / name).read_text(encoding="utf-8"))["cells"]
            texts[name] = "\n".join(
                "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
            )
    texts["CHANGELOG.md"] = "\n## ".join(texts["CHANGELOG.md"].split("\n## ")[:2])
    return texts


def spans(text: str) -> Iterator[str]:
    """Iterate over the code of a page: every span, and every line of a fenced or indented block."""
    fenced, foreign = False, False
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            # Examples in Python are run by tests of their own, and other languages are not ours.
            fenced, foreign = not fenced, line.removeprefix("```") in ("python", "toml")
        elif fenced and foreign:
            continue
        elif fenced or line.startswith("    "):
            yield line.strip()
        else:
            # In a table a vertical bar is escaped.
            yield from (span.replace(r"\|", "|") for span in CODE_SPAN.findall(line))


def slug(heading: str) -> str:
    """Return the anchor of a heading as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def broken_links(page: str, text: str) -> list[str]:
    """Return the links of a page to files or headings that do not exist."""
    found = []
    for target in LINK.findall(re.sub(r"```.*?```|`[^`\n]+`", "", text, flags=re.DOTALL)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (ROOT / page).parent / name if name else ROOT / page
        headings = (
            re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor and file.exists()
            else []
        )
        if not file.exists() or (anchor and anchor not in map(slug, headings)):
            found.append(target)
    return found


def missing_paths(page: str, text: str) -> list[str]:
    """Return the paths in the code of a page that are neither in the project nor beside the page
    nor the end of a path."""
    tops = {name.partition("/")[0] for name in tracked()}
    found = []
    for span in spans(text):
        for word in re.split(r"[\s,=:]+", span):
            path = word.strip("\"'()").rstrip("/")
            source = re.fullmatch(r"[\w./-]+\.(py|md)", path) is not None
            if not source and not (
                "/" in path and path.partition("/")[0] in tops and re.fullmatch(r"[\w./-]+", path)
            ):
                continue
            if path in FOREIGN or READERS_FILE.match(path.rpartition("/")[2]):
                continue
            beside = (Path(page).parent / path).as_posix()
            if not any(name in (path, beside) or name.endswith("/" + path) for name in tracked()):
                found.append(path)
    return found


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Iterate over the commands of a page: its text, and its words without placeholders."""
    for span in spans(text):
        match = COMMAND.match(PLACEHOLDER.sub("", span).removeprefix('eval "$(').removesuffix(')"'))
        if match is not None:
            yield span, shlex.split(match["words"])


def refused_commands(text: str) -> list[str]:
    """Return the commands of a page that the command line does not accept, with its message.
    Arguments may be left out."""
    parser = build_parser()
    found = []
    for span, words in commands(text):
        errors = io.StringIO()
        # A fresh machine has no newest log.
        words = [re.sub(r"^(\w+/)?latest(:\d+)?$", "RUN.mcap", word) for word in words]
        try:
            with redirect_stderr(errors), redirect_stdout(io.StringIO()):
                arguments = vars(parser.parse(words))
        except SystemExit as end:
            left_out = re.search(
                r": missing: |one of the arguments .* is required|expected one argument",
                errors.getvalue(),
            )
            if end.code and left_out is None:
                found.append(f"{span}: {errors.getvalue().strip()}")
            continue
        try:
            _load(arguments)
        except (ProfileError, ValueError, UnknownNameError) as error:
            found.append(f"{span}: {error}")
    return found


@cache
def _profile(name: str, *changes: str) -> Profile:
    return load_profile(name, changes)


def _load(arguments: dict[str, Any]) -> None:
    """Load what a command drives, unless it names files or values of the reader: capitals, shell
    variables, file endings."""
    own = re.compile(r"\$|[A-Z]{2}|\.(toml|csv|onnx|osm|py:)|^my_")
    profile = arguments.get("profile") or "art"
    # The parameters of a class of the reader's own begin with its name.
    changes = [
        key
        for key in arguments.get("set") or ()
        if "$" not in key and not re.match(r"\w+\.[A-Z]", key)
    ]
    vehicle = _profile("art" if own.search(profile) else profile, *changes)
    for kind in ("estimator", "controller", "identifier"):
        if (name := arguments.get(kind)) and isinstance(name, str) and not own.search(name):
            resolve(kind, name)
    if (course := arguments.get("course")) and isinstance(course, str) and not own.search(course):
        load_course(course)
    if (programme := arguments.get("programme")) and not own.search(programme):
        named(programme, vehicle.vehicle, vehicle.limits)


@cache
def options() -> frozenset[str]:
    """Return every option of the commands, experiments and benchmarks."""
    sources = [name for name in tracked() if name.startswith(PACKAGES) and name.endswith(".py")]
    quoted = re.compile(r'"(--[a-z][a-z0-9-]*)"')
    return frozenset(
        option
        for name in sources
        for option in quoted.findall((ROOT / name).read_text(encoding="utf-8"))
    )


def unknown_options(text: str) -> list[str]:
    """Return the options in a page that no program of the project has."""
    named = {
        option
        for span in spans(text)
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span)
    }
    return sorted(named - options() - FOREIGN_OPTIONS - {"--help", "--version"})


@cache
def code() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the names in every module by its dotted name, and the attributes of every class, also
    inherited ones, by its name."""
    # Trees are no garbage: looking for some in all that were parsed before costs more than parsing.
    gc.disable()
    try:
        return _code()
    finally:
        gc.enable()


def _code() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    modules: dict[str, set[str]] = {}
    attributes: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for name in tracked():
        if not name.startswith(PACKAGES) or not name.endswith(".py"):
            continue
        tree = ast.parse(
            "" if name.startswith("tests/") else (ROOT / name).read_text(encoding="utf-8")
        )
        dotted = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        modules[dotted] = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        modules[dotted] |= _bound(tree)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                attributes[node.name] |= _bound(node)
                bases[node.name] |= {base.id for base in node.bases if isinstance(base, ast.Name)}
    for name in list(attributes):
        pending = [name]
        for each in pending:
            attributes[name] |= attributes.get(each, set())
            pending += bases[each] - set(pending)
    return modules, dict(attributes)


def _bound(scope: ast.Module | ast.ClassDef) -> set[str]:
    found = set()
    for node in scope.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        found |= {
            each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
        }
    if isinstance(scope, ast.ClassDef):
        stores = (
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        )
        found |= {
            node.attr
            for node in stores
            if isinstance(node.value, ast.Name) and node.value.id == "self"
        }
    return found


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of a profile."""
    return json_schema()


def is_key(keys: list[str], table: dict[str, Any] | None = None) -> bool:
    """Return True if a profile may have this key or table. A table may have keys of the user's
    choice, such as a device's name."""
    table = schema() if table is None else table
    if "$ref" in table:
        table = schema()["$defs"][table["$ref"].rpartition("/")[2]]
    if not keys:
        return True
    choices = [each for kind in ("anyOf", "oneOf", "allOf") for each in table.get(kind, [])]
    inner = table.get("properties", {}).get(keys[0], table.get("additionalProperties"))
    choices += [each for each in (table.get("items"),) if isinstance(each, dict)]
    return (isinstance(inner, dict) and is_key(keys[1:], inner)) or any(
        is_key(keys, each) for each in choices
    )


def unknown_names(text: str) -> list[str]:
    """Return the dotted names in a page that are neither code nor keys of a profile, and the
    unknown tables of a profile."""
    modules, attributes = code()
    found = []
    for span in spans(text):
        if (
            (table := re.fullmatch(r"\[\[?([\w.]+)\]?\]", span))
            and "." in table[1]
            and span not in FOREIGN
        ):
            found += [] if is_key(table[1].split(".")) else [span]
        match = DOTTED.match(span)
        if match is None:
            continue
        parts = match[0].split(".")
        if match[0] in FOREIGN or f".{parts[-1]}" in suffixes():
            continue
        if parts[0][:1].isupper():
            if parts[0] in attributes and parts[1] not in attributes[parts[0]]:
                found.append(match[0])
        elif (
            # Other dotted words are hosts, packages and fields of other formats.
            (parts[0] in PACKAGES or any(name.endswith("." + parts[0]) for name in modules))
            and not is_key(parts)
            and not _is_code(parts, modules, attributes)
        ):
            found.append(match[0])
    return found


def _is_code(
    parts: list[str], modules: dict[str, set[str]], attributes: dict[str, set[str]]
) -> bool:
    for n in range(len(parts), 0, -1):
        module, rest = ".".join(parts[:n]), parts[n:]
        for name in modules:
            if name != module and not name.endswith("." + module):
                continue
            if not rest or (
                rest[0] in modules[name]
                and (len(rest) == 1 or rest[1] in attributes.get(rest[0], ()))
            ):
                return True
    return False


def _over_all(check: Callable[..., list[str]], *, with_page: bool = False) -> dict[str, list[str]]:
    results = {
        page: check(page, text) if with_page else check(text) for page, text in pages().items()
    }
    return {page: found for page, found in results.items() if found}


def test_links_lead_somewhere() -> None:
    assert _over_all(broken_links, with_page=True) == {}


def test_paths_exist() -> None:
    assert _over_all(missing_paths, with_page=True) == {}


def test_commands_are_accepted() -> None:
    assert _over_all(refused_commands) == {}


def test_options_exist() -> None:
    assert _over_all(unknown_options) == {}


def test_names_of_code_and_keys_exist() -> None:
    assert _over_all(unknown_names) == {}


def test_commands_in_docstrings_exist() -> None:
    """A docstring lists commands as ``vehicled log info | timing``; the last word of the first one
    is replaced by the others."""
    listed = {
        command
        for name in tracked()
        if name.startswith("vehicled/") and name.endswith(".py")
        for command in re.findall(
            r"``(vehicled [a-z][^`]*)``", (ROOT / name).read_text(encoding="utf-8")
        )
    }
    spans = []
    for first, *others in (command.split(" | ") for command in listed):
        spans += [first, *(f"{first.rpartition(' ')[0]} {other}" for other in others)]
    assert refused_commands("".join(f"`{span}`\n" for span in spans)) == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (unknown_names, "`Machine.next_word_ns`"),
        (unknown_names, "`vehicled.daemon.pipeline.Pipelin`"),
        (unknown_names, "`tasks.control.rate_khz`"),
        (unknown_names, "`[sim.gnsss]`"),
        (unknown_options, "`vehicled sim --sed 7`"),
        (refused_commands, "    vehicled simm"),
        (refused_commands, "`vehicled sim --speed`"),
        (refused_commands, "`vehicled sim --course lot18`"),
        (refused_commands, "`vehicled sim --controller pid --seed 1`"),
        (refused_commands, "`vehicled sim --programme step_stear`"),
        (refused_commands, "```\nvehicled sim --set limits.max_sped_mps=2  # faster\n```"),
    ],
)
def test_mistakes_are_found(check: Callable[[str], list[str]], text: str) -> None:
    assert len(check(text)) == 1


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (broken_links, "[a](nowhere.md)"),
        (broken_links, "[a](logs.md#no-such-heading)"),
        (missing_paths, "`vehicled/pipelines.py`"),
        (missing_paths, "`ekf4_fusion.py`"),
        (missing_paths, "`profiles/arts.toml`"),
    ],
)
def test_mistakes_of_a_page_are_found(check: Callable[[str, str], list[str]], text: str) -> None:
    assert len(check("docs/README.md", text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`Machine.on_rx`", "`tasks.control.rate_hz`", "`devices.gnss.port`",
        "`paths.datum.Datum.to_enu`", "`art.toml`", "`vehicled log report RUN.mcap`",
        "`vehicled log cat latest | head`", "`vehicled devices decode`", "`vehicled sim ...`",
        "    vehicled log timing RUN.mcap        deadlines and causes",
    ],
)  # fmt: skip
def test_the_rest_is_accepted(text: str) -> None:
    assert (
        unknown_names(text)
        + unknown_options(text)
        + refused_commands(text)
        + missing_paths("docs/README.md", text)
        == []
    )


def test_every_page_is_in_the_site() -> None:
    site = (ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    assert [
        page.name
        for page in sorted((ROOT / "docs").glob("*.md"))
        if f'"docs/{page.name}"' not in site
    ] == []
