"""Converts records of older logs to the types of today: a change of mode was a fault that named the
modes only in its text.

No other module reads a sentence of a log.
"""

from vehicled.core.messages import Fault, Message, Mode, ModeChange

MODE, SUPERVISOR, ARROW = "mode", "supervisor", " -> "


def renewed(message: Message) -> Message:
    """Return the record as it is written today. The reason's code of an older change of mode is
    unknown and stays empty."""
    if not (isinstance(message, Fault) and message.code == MODE and message.origin == SUPERVISOR):
        return message
    modes, _, reason = message.reason.partition(": ")
    before, _, after = modes.partition(ARROW)
    if before not in Mode.__members__ or after not in Mode.__members__:
        return message
    return ModeChange(message.t_ns, Mode[before], Mode[after], message.reaction, "", "", "", reason)


def as_before(change: ModeChange) -> Fault:
    """Return the record that an older version wrote in the place of a change of mode."""
    reason = f"{change.before.name}{ARROW}{change.after.name}: {change.reason}"
    return Fault(change.t_ns, MODE, SUPERVISOR, change.reaction, True, reason)
