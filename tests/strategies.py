"""Hypothesis strategies that draw around limits: a uniform draw over a wide range almost never
meets the edge that matters."""

from math import inf, nan, nextafter

from hypothesis import strategies as st

GARBAGE: tuple[float, ...] = (nan, inf, -inf, 1e300, -1e300, 5e-324, -0.0)
"""Numbers that code rarely expects."""


def _around(limit: float, scale: float) -> st.SearchStrategy[float]:
    size = abs(limit) or scale
    return st.one_of(
        st.sampled_from((limit, nextafter(limit, inf), nextafter(limit, -inf))),
        st.floats(limit - 0.01 * size, limit + 0.01 * size),
        st.floats(limit - 0.25 * size, limit + 0.25 * size),
        # Where a band of a quarter ends.
        st.sampled_from((limit - 0.25 * size, limit + 0.25 * size)),
        st.floats(limit - 4.0 * size, limit + 4.0 * size),
    )


def near(
    *limits: float,
    signed: bool = False,
    garbage: bool = False,
    scale: float = 1.0,
    low: float = -inf,
    high: float = inf,
) -> st.SearchStrategy[float]:
    """Draw floats around each limit: the limit, one ulp to either side, within 1 %, within 25 % and
    the ends of that band, and far.

    ``signed`` adds the mirrored limits, ``garbage`` NaN, infinities and any other float. ``scale``
    is the size of a limit of 0. Draws outside ``low`` to ``high`` are moved to that bound.
    """
    places = (*limits, *(-limit for limit in limits if signed and limit))
    drawn = st.one_of(*(_around(limit, scale) for limit in places)).map(
        lambda value: min(max(value, low), high)
    )
    # A quarter garbage: most runs must reach what comes after the check for it.
    return (
        st.one_of(drawn, drawn, drawn, st.sampled_from(GARBAGE) | st.floats()) if garbage else drawn
    )


def near_count(*limits: int, low: int = 0, high: int | None = None) -> st.SearchStrategy[int]:
    """Draw integers (counts, bytes, nanoseconds) around each limit: itself, its neighbours, within
    1 %, within 25 %, and far."""

    def around(limit: int) -> st.SearchStrategy[int]:
        spans = (1, abs(limit) // 100, abs(limit) // 4, 4 * abs(limit) + 10)
        return st.one_of(
            st.just(limit), *(st.integers(limit - span, limit + span) for span in spans)
        )

    drawn = st.one_of(*map(around, limits))
    return drawn.map(lambda value: max(value, low) if high is None else min(max(value, low), high))
