"""Scripts that show made-up states in the panels of the live page, and what they must say."""

MOOD = """import("/panels.js").then(({{ Panels }}) => {{
    const panels = new Panels(), estimate = {{ v: {v}, status: "RUNNING" }};
    panels.room = document.createElement("dd");
    const course = {{ length_m: 9 }};
    panels.facts = {{ max_speed_mps: 3, corridor_m: 1, max_wheel_rad: 0.4, course }};
    panels.status = {{ reaction: "{reaction}", speed_cap_mps: {cap} }};
    panels.now({{ estimate, control: {{ target: 1, level: "primary", reason: "none" }} }});
    const {{ box, more }} = panels.gauges.speed;
    document.querySelectorAll(".gauge").forEach((gauge, k) => {{ if (k >= 11) gauge.remove(); }});
    return `${{box.classList.contains("warn")}} ${{more.textContent}}`;
  }})"""
"""Script: is the speed shown as a warning, and which text stands beside it."""
STAND_INS = """import("/panels.js").then(({ Panels }) => {
    const panels = new Panels(), say = (id) => document.getElementById(id);
    panels.view = document.createElement("dd");
    const status = {
      mode: "AUTO", why: "", reaction: "NONE", waiting_for: [], chain: [], ports: [],
      substitutes: ["one", "two"],
    };
    panels.state({ status, rules: [], view: { share: 0, longest_us: 0, dropped: 0 } });
    const unfolds = say("nearest").nextElementSibling;
    const summary = unfolds.querySelector("summary").textContent;
    const items = unfolds.querySelectorAll("li").length;
    return [say("stoppers").textContent, unfolds.open, summary, items];
  })"""
"""Script: the heading above the rules that are nearest to their limits, and its unfolded list."""
SPEEDS = {
    ("NONE", 1.0, "null"): "false target 1.00, limit 3.00 m/s",
    ("NONE", 1.0, "2.16"): "false target 1.00, limit 2.16 m/s",
    ("NONE", -2.3, "2.16"): "true target 1.00, limit 2.16 m/s",
    ("CAP_SPEED", 0.4, "0.5"): "true target 1.00, limit 0.50 m/s, capped",
}
"""Expected result of :data:`MOOD` for a reaction, a speed and a cap."""
