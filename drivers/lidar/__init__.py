"""Planar laser scanners: RPLIDAR, YDLIDAR, Hokuyo URG, SICK TiM and LMS, LDROBOT LD06 and LD19."""
