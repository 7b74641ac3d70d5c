"""Rules of the source text that no linter knows."""

import ast
import gc
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("source")  # every file is parsed once

PACKAGES = ("vehicled", "drivers", "sim_backend")
RUNTIME_LINES = 2_100
# Leaves of the runtime that speak to one thing of the operating system each, and that no pump
# depends on.
RUNTIME_LEAVES = {
    "events.py",
    "nonblocking.py",
    "plugin_watch.py",
    "health.py",
    "realtime.py",
    "sd_notify.py",
}

WORDED = (*PACKAGES, "tests", "bench")
# Packages whose words are still being rewritten: remove a name here as soon as its package is
# clean. Not rewritten yet.
FRAGMENTS_EXEMPT: tuple[str, ...] = ()
# Words that begin the rest of a sentence, not a sentence.
FRAGMENT_WORDS = {
    "Of", "What", "As", "That", "Who", "So", "By", "Where", "Whether", "Which", "How", "When",
    "For", "From", "With", "To", "In", "On", "At", "Nothing", "Everything", "Since", "If", "Those",
    "Beyond", "Without", "Until",
}  # fmt: skip
# Mirrors docs/glossary.md, table "Retired words": word, and its replacement. A class must not
# contain one, a function not be one.
RETIRED_CLASSES = {
    "Helm": "PathFollower", "PathLaw": "SteeringLaw", "Wish": "SteeringDemand",
    "Ladder": "FallbackChain", "Rung": "FallbackLevel", "Seat": "TeleopSession",
    "Hands": "Installer", "Witness": "EvidenceSource", "Surroundings": "Evidence",
    "Belief": "FilterState", "Stillness": "StandstillDetector", "Journey": "Latency",
    "Parting": "ModeDivergence", "Passing": "LaneJudge", "Sheet": "RuleMargin", "Piece": "Segment",
}  # fmt: skip
RETIRED_FUNCTIONS = {
    "helm": "path_follower", "path_law": "steering_law", "wish": "demand", "rung": "level",
    "ladder": "chain", "seat": "session", "hear": "on_message", "look": "update",
    "speaks": "answers_only_commands", "patience": "timeout", "witness": "source",
    "surroundings": "evidence", "belief": "filter_state", "stillness": "standstill",
    "at_rest": "standstill", "rolls_out": "coasting", "journey": "latency",
    "drove": "command_override", "moved_by": "command_override",
    "turning_base_m": "effective_wheelbase_m",
}  # fmt: skip
# Words of no manual of the field, which stop a reader, with those to take. For texts and names of
# every file: docstrings, comments, messages, pages, tests. A file reports, a filter is configured,
# a port receives; nobody is told, and nothing hears.
RETIRED_WORDS = {
    r"told|tells?|telling":
        "reports, states, says, shows, sends, is configured with; distinguishes (tells apart)",
    r"(?:un)?heard|hears?|hearing": "receives, reads",
    r"foretells?|foretold": "predicts",
    r"wish(?:es|ed)?": "request, demand, command",
    r"(?:a|an|any|the|this|that|no|whose) hands?(?![- ](?:side|written|counted))":
        "manual driving, teleop, the input device",
    r"the words? (?:of a|of the|that)": "report, reason, message",
}  # fmt: skip
# Name of an event in logs that exist, and calls of other people's programs.
TEXTS = {
    "", ".py", ".md", ".toml", ".js", ".css", ".html", ".j2", ".ipynb", ".json", ".service",
    ".rules", ".conf", ".yaml", ".yml",
}  # fmt: skip
PUBLIC_NAMES = re.compile(r"receiver_heard|\b\w+\.tell\(")
# They record the past, list the words or search for them.
NAMES_RETIRED_WORDS = (
    "CHANGELOG.md",
    "docs/adr/",
    "docs/glossary.md",
    "tests/arch/test_source_rules.py",
)
# Names of texts for people, and what must not be done with them: a program compares codes.
SENTENCES = {"reason", "why", "verdict", "lanes", "markings"}
READS_TEXT = {
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "split",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "replace",
}
# Older logs record a change of mode as text alone, and an error of tomllib has no code.
READS_SENTENCES = {"vehicled/log/older.py", "vehicled/profile/toml_text.py"}
# What draws on a terminal, and escapes the texts of others before: everything else is printed,
# through streams that escape.
DRAWS = {
    "vehicled/run/terminal.py",
    "vehicled/live/teleop/terminal.py",
    "vehicled/live/teleop/keys.py",
    "vehicled/runtime/events.py",
}

NESTED = {"Params"}
"""Names by which the registry asks each implementation for one of its own."""


def _modules(root: Path, *packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (root / package).rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    """Forget the trees at the end. They are no garbage: looking for some in millions of nodes costs
    more than parsing."""
    gc.disable()
    yield
    _tree.cache_clear()
    _nodes.cache_clear()
    gc.enable()


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_class_names_are_unique(project_root: Path) -> None:
    found: dict[str, list[str]] = {}
    for path in _modules(project_root, "vehicled", "drivers", "sim_backend"):
        if "templates" not in path.parts:
            for node in _nodes(_tree(path)):
                if isinstance(node, ast.ClassDef) and node.name not in NESTED:
                    found.setdefault(node.name, []).append(str(path.relative_to(project_root)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_errors_that_a_user_can_cure_stand_in_one_tree(project_root: Path) -> None:
    """The tree is drawn in ``vehicled/core/errors.py``. An error that is not in it would show as a
    defect, with a traceback."""
    bases: dict[str, set[str]] = {}
    for path in _modules(project_root, "vehicled", "drivers", "sim_backend"):
        for node in _nodes(_tree(path)):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    found, size = {"UserError"}, 0
    while len(found) > size:
        size = len(found)
        found |= {name for name, those in bases.items() if those & found}
    tree = ast.get_docstring(_tree(project_root / "vehicled/core/errors.py")) or ""
    assert set(re.findall(r"\b[A-Z]\w+Error\b", tree)) == found


def test_the_runtime_stays_thin(project_root: Path) -> None:
    # The ports are a package of their own beside the pumps: one module for each kind of wire.
    core = [
        path
        for path in (project_root / "vehicled/runtime").glob("*.py")
        if path.name not in RUNTIME_LEAVES
    ]
    assert 0 < sum(map(_lines, core)) < RUNTIME_LINES


@pytest.mark.parametrize("package", PACKAGES)
def test_public_things_say_what_they_are(project_root: Path, package: str) -> None:
    """Modules, public classes and functions have docstrings; methods need none where they keep a
    documented contract."""
    silent = []
    for path in _modules(project_root, package):
        tree = _tree(path)
        where = str(path.relative_to(project_root))
        if ast.get_docstring(tree) is None and tree.body:
            silent.append(where)
        for node in tree.body:
            if not isinstance(
                node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                silent.append(f"{where}:{node.lineno} {node.name}")
    assert silent == []


def test_nothing_is_left_for_later(project_root: Path) -> None:
    later = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    found = [
        f"{path.relative_to(project_root)}:{number}"
        for path in _modules(project_root, *PACKAGES, "bench")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if later.search(line)
    ]
    assert found == []


def test_no_file_depends_on_where_it_was_written(project_root: Path) -> None:
    """No home or workplace of an author, no address of a package index, no reference to a tracker
    that readers may not have."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=project_root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    foreign = re.compile(
        r"(?<![\w.~$}%])/(?:home|root|work|Users)/[\w.]"
        r"|--(?:extra-)?index-url[ =]\S|--find-links[ =]\S|python[h]osted|/simpl[e]\b"
        r"|\bissues? +\d|\b(?:issues?|PRs?|fix(?:es)?|closes?|see) +#\d"
    )
    found = []
    for name in filter(None, listing.stdout.split("\0")):
        path = project_root / name
        if not path.is_file() or path.suffix in {".png", ".mcap", ".bin", ".ubx"}:
            continue
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        ):
            if foreign.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


def docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and text of every docstring: of modules, classes and functions, and below the
    assignment of an attribute."""
    found = []
    for node in _nodes(tree):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if not isinstance(body, list):
                continue
            for before, statement in zip([None, *body], body, strict=False):
                if documented if before is None else isinstance(before, ast.Assign | ast.AnnAssign):
                    match statement:
                        case ast.Expr(value=ast.Constant(value=str(text))):
                            found.append((statement.lineno, text))
    return sorted(found)


def fragments(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and first word of the docstrings that begin as the rest of a sentence."""
    first = [(line, re.match(r"\W*(\w*)", text)) for line, text in docstrings(tree)]
    return [(line, match[1]) for line, match in first if match and match[1] in FRAGMENT_WORDS]


def retired(tree: ast.Module, module: str = "") -> list[tuple[int, str]]:
    """Return line and name of the classes and functions that bear a retired word, and the module's
    own name if it is one."""
    found = [(1, module)] if module in RETIRED_FUNCTIONS else []
    for node in _nodes(tree):
        if isinstance(node, ast.ClassDef):
            # At every capital a word begins: "PathLaw" is also found in "PurePursuitPathLaw",
            # "Seat" not in "Seating".
            if re.search(rf"({'|'.join(sorted(RETIRED_CLASSES))})(?![a-z])", node.name):
                found.append((node.lineno, node.name))
        elif (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.lstrip("_") in RETIRED_FUNCTIONS
        ):
            found.append((node.lineno, node.name))
    return sorted(found)


@pytest.mark.parametrize("package", WORDED)
def test_docstrings_are_sentences(project_root: Path, package: str) -> None:
    found = {
        str(path.relative_to(project_root)): words
        for path in _modules(project_root, package)
        if not str(path.relative_to(project_root)).startswith(FRAGMENTS_EXEMPT)
        and (words := fragments(_tree(path)))
    }
    assert found == {}


@pytest.mark.parametrize("package", WORDED)
def test_no_name_bears_a_retired_word(project_root: Path, package: str) -> None:
    found = {
        str(path.relative_to(project_root)): names
        for path in _modules(project_root, package)
        if (names := retired(_tree(path), path.stem))
    }
    assert found == {}


def test_the_retired_words_are_those_of_the_glossary(project_root: Path) -> None:
    table = (
        (project_root / "docs/glossary.md")
        .read_text(encoding="utf-8")
        .partition("## Retired words")[2]
    )
    words = set(
        re.findall(
            r"[a-z]+",
            " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("|")),
        )
    )
    # "Parting", "Passing", "Sheet" and "Piece" were names of classes only.
    missing = {
        word
        for name in RETIRED_CLASSES
        for word in re.findall("[a-z]+", re.sub("([A-Z])", r" \1", name).lower())
    } - words
    assert missing <= {"parting", "passing", "sheet", "piece", "hands"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Of a module."""', [(1, "Of")]),
        ('"""A module."""', []),
        ('"""``What`` is quoted."""', [(1, "What")]),
        ('class A:\n    """Whether it holds."""', [(2, "Whether")]),
        ('class A:\n    x: int\n    """From the left."""', [(3, "From")]),
        ('class A:\n    x = 1\n    """Offset, m."""', []),
        ('X = 1\n"""As a user gives it."""', [(2, "As")]),
        ('def f():\n    """As long as it lasts."""', [(2, "As")]),
        ('async def f():\n    """Return the answer."""', []),
        ('def f():\n    def g():\n        """\n        Until it ends."""', [(3, "Until")]),
        ('if X:\n    def f():\n        """When it ends."""', [(3, "When")]),
        ('def f():\n    """Return the ID."""\n    x = "Of"', []),
        ('try:\n    pass\nfinally:\n    x = 1\n    """On the left."""', [(5, "On")]),
        (
            'class A:\n    def __init__(self):\n        self.x = 1\n        """By name."""',
            [(4, "By")],
        ),
        ('"""Intervals and Format names begin with other words."""', []),
    ],
)
def test_fragments_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert fragments(ast.parse(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class Helm: ...", [(1, "Helm")]),
        ("class _Wish: ...", [(1, "_Wish")]),
        ("class PurePursuitPathLaw: ...", [(1, "PurePursuitPathLaw")]),
        ("class LadderRungs: ...", [(1, "LadderRungs")]),
        ("class Seating: ...", []),
        ("class PathFollower:\n    class Piece: ...", [(2, "Piece")]),
        ("def at_rest(): ...", [(1, "at_rest")]),
        ("class A:\n    async def _hear(self): ...", [(2, "_hear")]),
        ("def rest(): ...", []),
        ("helm = 1", []),
    ],
)
def test_retired_words_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert retired(ast.parse(text)) == found


def retired_words(text: str) -> list[tuple[int, str]]:
    """Return line and word of all retired words in a text. Underscores and capitals separate words,
    as in names."""
    pattern = re.compile(rf"(?<![a-zA-Z])(?i:{'|'.join(RETIRED_WORDS)})(?![a-z]|(?<=[A-Z])[A-Z])")
    plain = PUBLIC_NAMES.sub("", text)
    return [
        (plain.count("\n", 0, found.start()) + 1, found[0]) for found in pattern.finditer(plain)
    ]


def test_no_text_bears_a_retired_word(project_root: Path) -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=project_root, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    found: dict[str, list[tuple[int, str]]] = {}
    for name in filter(None, listing.stdout.split("\0")):
        path = project_root / name
        if path.is_file() and path.suffix in TEXTS and not name.startswith(NAMES_RETIRED_WORDS):
            words = [(0, word) for _, word in retired_words(path.name)] + retired_words(
                path.read_text(encoding="utf-8")
            )
            found |= {name: words} if words else {}
    assert found == {}


WORD_CASES: list[tuple[str, list[tuple[int, str]]]] = [
    ("It told them.", [(1, "told")]),
    ("a\nIt tells two apart", [(2, "tells")]),
    ("Tell the run", [(1, "Tell")]),
    ("telling", [(1, "telling")]),
    ("def test_it_is_told(): ...", [(1, "told")]),
    ("self._told = told", [(1, "told"), (1, "told")]),
    ("heard_ns", [(1, "heard")]),
    ("it hears", [(1, "hears")]),
    ("Hear, hearing", [(1, "Hear"), (1, "hearing")]),
    ("the twin foretells", [(1, "foretells")]),
    ("class _Wish", [(1, "Wish")]),
    ("what it wished", [(1, "wished")]),
    ("it wishes", [(1, "wishes")]),
    ("not asked of a hand", [(1, "a hand")]),
    ("the hands of a driver", [(1, "the hands")]),
    ("the word of a controller, the words that", [(1, "the word of a"), (1, "the words that")]),
    ("drive by hand, on the right-hand side, hand-written, at hand", []),
    ("search.tell(trial)", []),
    ("the event receiver_heard", []),
    ("HEARTBEAT, shear, heart, hearth, teller, satellite, wishbone, beforehand, status word", []),
]


@pytest.mark.parametrize(("text", "found"), WORD_CASES)
def test_retired_words_of_texts_are_found(text: str, found: list[tuple[int, str]]) -> None:
    assert retired_words(text) == found


def test_every_retired_word_of_texts_has_a_case() -> None:
    """Each alternative of the list is one that the cases above show to be found."""
    seen = {word.lower() for _, found in WORD_CASES for _, word in found}
    for pattern in RETIRED_WORDS:
        assert any(re.fullmatch(pattern, word) for word in seen), pattern


def sentence_readers(tree: ast.AST) -> list[int]:
    """Return the lines that search or split a text named as a reason."""

    def bears(node: ast.expr) -> bool:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return node.slice.value in SENTENCES
        return (
            node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        ) in SENTENCES

    found = []
    for node in _nodes(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READS_TEXT
        ):
            found += [node.lineno] if bears(node.func.value) else []
        elif isinstance(node, ast.Compare) and any(
            isinstance(op, ast.In | ast.NotIn) for op in node.ops
        ):
            found += [node.lineno] if any(map(bears, node.comparators)) else []
    return sorted(found)


def test_no_program_reads_a_sentence(project_root: Path) -> None:
    found = {
        str(path.relative_to(project_root))
        for path in _modules(project_root, *PACKAGES)
        if sentence_readers(_tree(path))
    }
    assert found == READS_SENTENCES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('state["why"].startswith("arming refused")', [1]),
        ("by in machine.why", [1]),
        ("any(word in fault.reason for word in words)", [1]),
        ("lanes.startswith('failed')", [1]),
        ('fault.reason.partition(": ")', [1]),
        ("state['why_code'] in REFUSED", []),
        ("reason.code == code", []),
        ("path.name.startswith('a')", []),
    ],
)
def test_readers_of_sentences_are_found(text: str, found: list[int]) -> None:
    assert sentence_readers(ast.parse(text)) == found


def terminal_writers(tree: ast.AST) -> list[int]:
    """Return the lines with escape codes, with markup of rich, or that go around the streams that
    escape the texts of others."""
    found = []
    for node in _nodes(tree):
        match node:
            case ast.Constant(value=str(text)) if "\x1b" in text:
                found.append(node.lineno)
            case ast.Constant(value=bytes(data)) if b"\x1b" in data:
                found.append(node.lineno)
            case ast.ImportFrom(module=str(name)) if name.partition(".")[0] == "rich":
                found.append(node.lineno)
            case ast.Import(names=names) if any(
                alias.name.partition(".")[0] == "rich" for alias in names
            ):
                found.append(node.lineno)
            case ast.ImportFrom(module="vehicled.core.safe_text", names=names) if any(
                alias.name == "raw" for alias in names
            ):
                found.append(node.lineno)
            case ast.Attribute(attr="__stdout__" | "__stderr__"):
                found.append(node.lineno)
    return sorted(found)


def test_few_modules_write_on_a_terminal_themselves(project_root: Path) -> None:
    assert {
        str(path.relative_to(project_root))
        for path in _modules(project_root, *PACKAGES)
        if terminal_writers(_tree(path))
    } == DRAWS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r'print("\x1b[1m" + name)', [1]),
        (r'os.write(2, b"\033[2J")', [1]),
        ("from rich.console import Console", [1]),
        ("import rich", [1]),
        ("from vehicled.core.safe_text import SafeStream, raw", [1]),
        ("sys.__stdout__.write(name)", [1]),
        ("from vehicled.core.safe_text import safe_streams", []),
        ("print(name)", []),
    ],
)
def test_writers_on_a_terminal_are_found(text: str, found: list[int]) -> None:
    assert terminal_writers(ast.parse(text)) == found
