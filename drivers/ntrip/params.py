"""Settings of an NTRIP client as a profile writes them. Secrets are named there, never written."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from vehicled.ports import SecretRef

Word = Annotated[str, Meta(pattern=r"^[!-~]*$", max_length=200, description="a text without blanks")]


class NtripParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of an NTRIP client. The address of the caster is the port's."""

    mountpoint: Annotated[
        str,
        Meta(pattern=r"^[A-Za-z0-9_.~!$&'()*+,=:@%/-]*$", max_length=100, description="a mountpoint: no blank, no slash before it"),
    ] = ""
    """Empty asks for the source table, and nothing else comes."""
    host: Word = ""
    """Name of the caster in the request; empty takes it from the address of the port."""
    version: Literal["auto", "1", "2"] = "auto"
    """Of the request. ``auto`` asks in version 2 and, when the caster does not understand that, in version 1. Answers of both
    versions are always understood."""
    agent: Annotated[str, Meta(pattern=r"^NTRIP [ -~]+$", max_length=100, description='a text that begins with "NTRIP "')] = (
        "NTRIP vehicled"
    )
    """Casters refuse clients whose name does not begin with NTRIP."""
    user: Annotated[str, Meta(pattern=r"^[^:\x00-\x1f\x7f]*$", max_length=200, description="a name without a colon")] = ""
    password_file: Annotated[str, Meta(max_length=1_000)] = ""
    """Name of a file with the password in it."""
    password_credential: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]*$", max_length=200)] = ""
    """Name of a credential of the service that holds the password."""
    gga_period_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 10.0
    """Time between two positions sent to the caster; more often than every 5 s annoys some. 0: the caster is told none."""
    gga_talker: Literal["GP", "GN"] = "GP"
    """Receivers say GN when they use several systems; some casters know only GP."""
    stall_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 15.0
    """Time without a whole RTCM message after which the connection is given up; doubled with each vain attempt, up to 300 s."""
    retry_s: Annotated[float, Meta(ge=1.0, le=3600.0)] = 60.0
    """Pause before the connection is made anew when the caster has refused but not hung up. Casters ban who asks too often."""

    def __post_init__(self) -> None:
        if self.password_file and self.password_credential:
            raise ValueError("password_file and password_credential name two secrets; one is meant")
        if self.secret_ref is not None and not self.user:
            raise ValueError("a password without a user: set user")

    @property
    def secret_ref(self) -> SecretRef | None:
        """Where the password is; None when there is none."""
        if not self.password_file and not self.password_credential:
            return None
        return SecretRef(file=self.password_file, credential=self.password_credential)
