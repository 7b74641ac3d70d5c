"""The list of courses in the README is the one that the command prints."""

from pathlib import Path

from vehicled.cli.catalog import course_rows

README = Path(__file__).parents[2] / "profiles" / "courses" / "README.md"


def listed() -> str:
    rows = "".join(
        f"| `{name}` | {length} | {kind} | {speed} |\n"
        for name, length, kind, speed in course_rows()
    )
    return "\n| name | length | | speed |\n| --- | --- | --- | --- |\n" + rows + "\n"


def test_the_readme_lists_the_courses_as_the_command_does() -> None:
    text = README.read_text()
    between = text.split("<!-- courses -->\n")[1].split("<!-- /courses -->")[0]
    assert between == listed()
