"""Device drivers: per device a pure codec, a sans-IO host side and the notes it was written
from."""
