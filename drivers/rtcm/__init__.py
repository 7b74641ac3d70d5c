"""RTCM 3: frames, census, and the plain corrections source, a serial or TCP port that delivers nothing but RTCM."""
