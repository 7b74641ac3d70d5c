"""All code that uses async or the operating system: event loop, pumps, simulator link, ports,
real-time set-up."""
