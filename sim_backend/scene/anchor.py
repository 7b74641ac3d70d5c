"""Files of the world that a profile names."""

from pathlib import Path

from msgspec.structs import replace

from vehicled.profile.schema import Profile


def anchored(profile: Profile, path: str) -> Profile:
    """The profile read from the file ``path``, with the relative paths of scene, terrain and zones counted from there."""

    def place(name: str) -> str:
        return str(Path(path).parent / Path(name).expanduser()) if name and path else name

    sim = profile.sim
    terrain = replace(sim.terrain, height=place(sim.terrain.height), friction=place(sim.terrain.friction))
    gnss = replace(sim.gnss, zones_file=place(sim.gnss.zones_file))
    return replace(profile, sim=replace(sim, scene=place(sim.scene), terrain=terrain, gnss=gnss))
