"""Rotations and static transforms between frames."""

from math import asin, atan2, copysign, pi
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.robot_localization.motion import rotation


class FramePose(NamedTuple):
    """Rotation (3, 3) and origin (3,) of a frame in another one."""

    rotation: Array
    origin: Array

    def __matmul__(self, other: "FramePose") -> "FramePose":
        """Return this pose followed by another."""
        return FramePose(self.rotation @ other.rotation, self.turned(other.origin) + self.origin)

    def turned(self, vector: Array) -> Array:
        """Return a vector (3,) of the frame in the other one; without rotation as it is, parts that
        are NaN included."""
        return vector if self is IDENTITY else self.rotation @ vector

    def inverse(self) -> "FramePose":
        """Return the pose of the other frame in this one."""
        return FramePose(self.rotation.T, -self.rotation.T @ self.origin)

    @property
    def angles(self) -> tuple[float, float, float]:
        """Roll, pitch and yaw, rad."""
        m = self.rotation
        if abs(m[2, 0]) >= 1.0 - 1e-12:
            return 0.0, copysign(pi / 2, -m[2, 0]), atan2(-m[0, 1], m[1, 1])
        return atan2(m[2, 1], m[2, 2]), asin(-m[2, 0]), atan2(m[1, 0], m[0, 0])


IDENTITY = FramePose(np.eye(3), np.zeros(3))


def of_quaternion(x: float, y: float, z: float, w: float) -> Array:
    """Return the rotation (3, 3) of a quaternion, normalised; an empty one is no rotation."""
    size = x * x + y * y + z * z + w * w
    if size == 0.0:
        return np.eye(3)
    s = 2.0 / size
    return np.array(
        (
            (1.0 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w)),
            (s * (x * y + z * w), 1.0 - s * (x * x + z * z), s * (y * z - x * w)),
            (s * (x * z - y * w), s * (y * z + x * w), 1.0 - s * (x * x + y * y)),
        )
    )


def of_angles(x: float, y: float, z: float, roll: float, pitch: float, yaw: float) -> FramePose:
    """Return a pose from its origin and its angles."""
    return FramePose(rotation(roll, pitch, yaw), np.array((x, y, z)))


class Frames:
    """Static transforms by (parent, child). Leading slashes of names do not count, as in tf."""

    def __init__(self, transforms: dict[tuple[str, str], FramePose] | None = None) -> None:
        self._children: dict[str, tuple[str, FramePose]] = {
            child.lstrip("/"): (parent.lstrip("/"), pose)
            for (parent, child), pose in (transforms or {}).items()
        }

    def find(self, target: str, source: str) -> FramePose | None:
        """Return the pose of ``source`` in ``target``; None if they are not connected."""
        target, source = target.lstrip("/"), source.lstrip("/")
        up, down = self._to_root(source), self._to_root(target)
        for frame, pose in up.items():
            if frame in down:
                return down[frame].inverse() @ pose
        return None

    def _to_root(self, frame: str) -> dict[str, FramePose]:
        found, pose = {frame: IDENTITY}, IDENTITY
        while frame in self._children:
            frame, step = self._children[frame]
            pose = step @ pose
            if frame in found:
                raise GapError(f"the transforms of frame {frame} go round in a circle")
            found[frame] = pose
        return found
