"""RC receivers: CRSF with ExpressLRS, SBUS, iBUS."""
