"""Figure of the report page, or the reason why it is missing."""

from msgspec import Struct

from vehicled.core.plain_text import escape


class Panel(Struct, frozen=True):
    """One figure of the page."""

    name: str
    title: str
    unit: str
    body: str
    legend: str = ""
    note: str = ""

    def html(self) -> str:
        """Return the figure as HTML."""
        unit = f' <span class="unit">{escape(self.unit)}</span>' if self.unit else ""
        note = f'<p class="note">{self.note}</p>' if self.note else ""
        return (
            '<figure class="panel" '
            f'id="panel-{self.name}"><figcaption><b>{escape(self.title)}</b>{unit}<span '
            f'class="legend">{self.legend}</span><span '
            f'class="readout"></span></figcaption>{self.body}{note}</figure>'
        )


class MissingPanel(Struct, frozen=True):
    """Missing panel, with the reason as a sentence."""

    name: str
    title: str
    reason: str


PanelOrMissing = Panel | MissingPanel
