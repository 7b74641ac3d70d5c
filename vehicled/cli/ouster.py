"""Command ``vehicled devices ouster``: the metadata of an Ouster sensor as a table of a profile."""

from argparse import Namespace
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from vehicled.core.errors import SetupError
from vehicled.profile.registry import resolve
from vehicled.run.argument_types import TEXT
from vehicled.run.command_line import CommandParser

PLACE = "/api/v1/sensor/metadata"
TIMEOUT_S = 5.0
MOST_BYTES = 1 << 20


def declare_devices_ouster(parser: CommandParser) -> None:
    """Print the table of a profile that an Ouster sensor needs: UDP profile, columns and the angles
    of its beams. Again after each change of its settings."""
    parser.describe(
        examples=(
            "vehicled devices ouster os-122150000150.local",
            "vehicled devices ouster metadata.json --device roof",
        ),
        epilog="Exit status: 0 printed; 2 the sensor or the file does not give what is needed.",
    )
    parser.add_argument(
        "source", type=TEXT, metavar="HOST|FILE",
        help="address of the sensor, or a file with its metadata",
    )  # fmt: skip
    parser.add_argument(
        "--device", type=TEXT, default="scanner", metavar="NAME",
        help="name of the device in the profile (default: scanner)",
    )  # fmt: skip
    parser.set_defaults(run=show_metadata)


def show_metadata(arguments: Namespace) -> int:
    """Print the table."""
    source = arguments.source
    try:
        params = resolve("driver", "ouster").params_of(_text(source))
    except ValueError as error:
        raise SetupError(f"{source}: the metadata {error}") from None
    print(f'[devices.{arguments.device}.driver]\nname = "ouster"\n')
    print(f"[devices.{arguments.device}.driver.ouster]")
    for name, value in params.items():
        print(f"{name} = {_toml(value)}")
    return 0


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _text(source: str) -> str:
    path = Path(source)
    if path.suffix == ".json" or path.is_file():
        try:
            return path.read_bytes()[:MOST_BYTES].decode("utf-8", "replace")
        except OSError as error:
            raise SetupError(f"{source}: cannot be read ({error.strerror})") from None
    host, _, port = source.partition(":")
    if port and not port.isdecimal():
        raise SetupError(f"{source}: give the address of the sensor, or a .json file")
    connection = HTTPConnection(host, int(port or 80), timeout=TIMEOUT_S)
    try:
        connection.request("GET", PLACE)
        answer = connection.getresponse()
        data = answer.read(MOST_BYTES)
    except (OSError, HTTPException, UnicodeError) as error:
        raise SetupError(
            f"{source}: no metadata from http://{source}{PLACE} ({error}); check power, cable and "
            "address"
        ) from None
    finally:
        connection.close()
    if answer.status != 200:
        raise SetupError(
            f"{source}: http://{source}{PLACE} answers {answer.status} {answer.reason}; the sensor "
            "may still be starting"
        )
    return data.decode("utf-8", "replace")
