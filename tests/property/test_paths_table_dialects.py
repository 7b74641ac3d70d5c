"""However a table is written, the course is the same: order and names of the columns, separator,
comments, decimals, line ends."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.paths.formats import course_from_bytes

N = 40
RING = [(9.0 * math.cos(math.tau * k / N), 6.0 * math.sin(math.tau * k / N)) for k in range(N)]
YAW = [
    math.atan2(6.0 * math.cos(math.tau * k / N), -9.0 * math.sin(math.tau * k / N))
    for k in range(N)
]
VALUES = {
    "x": [x for x, _ in RING],
    "y": [y for _, y in RING],
    "speed": [2.0 + math.sin(k) for k in range(N)],
    "heading": YAW,
    "width": [1.1] * N,
    "other": [float(k) for k in range(N)],
}
NAMES = {
    "x": ("x_m", "x", "X", "east", "X [m]", "pos_x", '"x"', "x (m)", "Easting"),
    "y": ("y_m", "y", "Y", "north", "Y [m]", "pos_y", '"y"', "y (m)", "Northing"),
    "speed": (
        "speed_mps",
        "vx_mps",
        "v_mps",
        "speed",
        "velocity",
        "Speed [m/s]",
        "v (m/s)",
        "target_speed_mps",
        "vx",
    ),
    "heading": ("psi_rad", "yaw", "heading_rad", "theta", "Yaw [rad]"),
    "width": ("w_tr_right_m", "width_left_m"),
    "other": ("id", "lap", "wp_id"),
}
EXPECTED = course_from_bytes(
    (
        "x_m,y_m,speed_mps\n"
        + "".join(f"{x:.6f},{y:.6f},{v:.6f}\n" for (x, y), v in zip(RING, VALUES["speed"]))
    ).encode(),
    "a.csv",
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    quantities = draw(
        st.permutations(
            ["x", "y", "speed", *draw(st.sets(st.sampled_from(["heading", "width", "other"])))]
        )
    )
    separator = draw(st.sampled_from([",", ";", "\t", " ", ", ", "; ", "   "]))
    names = [
        draw(
            st.sampled_from(
                [n for n in NAMES[q] if separator.strip() or separator == "\t" or " " not in n]
            )
        )
        for q in quantities
    ]
    header = separator.join(names)
    comment = draw(st.sampled_from(["", "# ", "#", "% ", "// "]))
    above = draw(
        st.sampled_from(["", "# 8288b625-90b8\n# 603fd398\n", "# Note: made by hand\n", "\n\n"])
    )
    comma = separator.strip() != "," and draw(st.booleans())
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    trailing = draw(st.sampled_from(["", ";"])) if separator == ";" else ""
    rows = []
    for k in range(N):
        row = separator.join(f"{VALUES[q][k]:.6f}" for q in quantities) + trailing
        rows.append(row.replace(".", ",") if comma else row)
    text = above + comment + header + "\n" + "\n".join(rows) + "\n"
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + text).replace("\n", end).encode()


@given(tables())
@examples(50)
def test_every_dialect_reads_the_same(data: bytes) -> None:
    course = course_from_bytes(data, "a.csv")
    assert course.closed
    assert np.array_equal(course.x_m, EXPECTED.x_m)
    assert np.array_equal(course.y_m, EXPECTED.y_m)
    assert np.array_equal(course.speed_mps, EXPECTED.speed_mps)
