"""Native message link: vehicled messages on a byte stream, through which a simulator talks to the
daemon."""
