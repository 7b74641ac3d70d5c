"""RTCM 3: frames, message census, and the driver of a plain corrections source on a serial or TCP
port."""
