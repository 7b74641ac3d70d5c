"""XML of strangers as a stream of elements, with expat: no document type, no entities, bounded
depth.

A document type declaration, and with it every entity, is refused, so nothing expands and nothing is
fetched.
"""

from typing import NoReturn
from xml.parsers import expat

from vehicled.paths.errors import CourseError

MAX_DEPTH = 64


class XmlReader:
    """Base class of readers: calls :meth:`start`, :meth:`end` and :meth:`text` with the names of
    elements without namespaces."""

    kind = ""
    """Format that the file should have, for messages."""
    root = ""
    """Name of the outermost element."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name
        self.path: list[str] = []
        """Names of the open elements, outermost first."""
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self.text
        self._parser.StartDoctypeDeclHandler = self._declaration
        self._parser.EntityDeclHandler = self._declaration
        self._parser.ExternalEntityRefHandler = self._declaration

    @property
    def line_number(self) -> int:
        """Line of the file that is being parsed."""
        return self._parser.CurrentLineNumber

    def parse(self, data: bytes) -> None:
        """Parse the whole file. Raises CourseError naming the line."""
        if not data.strip():
            raise CourseError(f"{self.file_name}: the file is empty; expected {self.kind}")
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            cut = error.code == expat.errors.codes[
                expat.errors.XML_ERROR_NO_ELEMENTS
            ] or "unclosed" in str(error)
            cure = "the file is cut off; fetch it again" if cut else f"expected {self.kind}"
            raise CourseError(
                f"{self.file_name}, line {error.lineno}: {expat.ErrorString(error.code)}; {cure}"
            ) from None
        except CourseError:
            raise
        except (LookupError, ValueError) as error:
            # An encoding declaration that Python does not know or expat does not take.
            raise CourseError(f"{self.file_name}: {error}; save the file as UTF-8") from None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start of an element, which is the last of :attr:`path`."""

    def end(self, name: str) -> None:
        """Handle the end of an element, which is still in :attr:`path`."""

    def text(self, text: str) -> None:
        """Handle text within an element."""

    def _declaration(self, *_: object) -> NoReturn:
        raise CourseError(
            f"{self.file_name}, line {self.line_number}: the XML declares a document type or "
            f"entities; {self.kind} needs none, delete the declaration"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        if not self.path and name != self.root:
            raise CourseError(
                f"{self.file_name}, line {self.line_number}: the document is <{name[:30]}>, not "
                f"<{self.root}>; export it as {self.root.upper()}"
            )
        self.path.append(name)
        if len(self.path) > MAX_DEPTH:
            raise CourseError(
                f"{self.file_name}, line {self.line_number}: the XML is nested too deeply; "
                f"expected {self.kind}"
            )
        self.start(name, attributes)

    def _end(self, _: str) -> None:
        self.end(self.path[-1])
        self.path.pop()
