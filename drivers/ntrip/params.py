"""Parameters of an NTRIP client in the profile. Secrets are referenced, never stored there."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from drivers.rtcm.feed import CorrectionProtocol
from vehicled.core.ports import SecretRef

Word = Annotated[
    str, Meta(pattern=r"^[!-~]*$", max_length=200, description="a text without blanks")
]


class NtripParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an NTRIP client. The port has the address of the caster."""

    mountpoint: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_.~!$&'()*+,=:@%/-]*$",
            max_length=100,
            description="a mountpoint: no blank, no slash before it",
        ),
    ] = ""
    """Mountpoint; empty requests only the source table."""
    host: Word = ""
    """Host name in the request; empty uses the address of the port."""
    version: Literal["auto", "1", "2"] = "auto"
    """Version of the request. ``auto`` tries version 2, then version 1 if the caster rejects it.
    Replies of both are understood."""
    protocol: CorrectionProtocol = "rtcm"
    """Protocol of the corrections. SPARTN is for u-blox receivers with ``spartn = true``."""
    agent: Annotated[
        str,
        Meta(
            pattern=r"^NTRIP [ -~]+$",
            max_length=100,
            description='a text that begins with "NTRIP "',
        ),
    ] = "NTRIP vehicled"
    """User agent; casters refuse names that do not begin with NTRIP."""
    user: Annotated[
        str,
        Meta(pattern=r"^[^:\x00-\x1f\x7f]*$", max_length=200, description="a name without a colon"),
    ] = ""
    password_file: Annotated[str, Meta(max_length=1_000)] = ""
    """Path of a file that contains the password."""
    password_credential: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]*$", max_length=200)] = ""
    """Name of a service credential that contains the password."""
    gga_period_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 10.0
    """Interval between positions sent to the caster, s; some reject less than 5. 0: send none."""
    gga_talker: Literal["GP", "GN"] = "GP"
    """Talker of the position: receivers use GN with several systems, some casters accept only
    GP."""
    stall_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 15.0
    """Time without an RTCM message after which the connection is closed, s; doubled after each
    failure, up to 300 s."""
    retry_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 60.0
    """Pause before reconnecting after a refusal, s. Casters ban clients that retry too often."""

    def __post_init__(self) -> None:
        if self.password_file and self.password_credential:
            raise ValueError("password_file and password_credential are both given; remove one")
        if self.secret_ref is not None and not self.user:
            raise ValueError("a password needs a user; set user")

    @property
    def secret_ref(self) -> SecretRef | None:
        """Return the reference to the password; None without one."""
        if not self.password_file and not self.password_credential:
            return None
        return SecretRef(file=self.password_file, credential=self.password_credential)
