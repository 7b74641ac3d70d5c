"""Safety functions, independent of who commands the vehicle: modes, arming, reactions, and the
command gate. Pure."""
