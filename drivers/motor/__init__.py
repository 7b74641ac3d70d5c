"""Drivers of motor controllers and servo boards that share one part: :mod:`drivers.motor.base`."""
