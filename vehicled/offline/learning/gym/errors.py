"""Error of the environments."""


class GymError(ValueError):
    """An environment cannot be made or stepped as asked; the text says what is wrong and the
    cure."""
