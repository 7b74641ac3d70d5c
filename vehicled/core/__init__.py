"""Messages, wires, ports, tasks and the plumbing of messages: all other packages rest on it."""
