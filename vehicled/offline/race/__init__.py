"""Race lines: tracks, the line within them, its speed profile, and drives along it (see
``docs/racing.md``)."""
