"""Our own messages on a byte stream: the device through which a simulator speaks to the daemon."""
