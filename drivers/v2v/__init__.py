"""Radio between vehicles, by UDP multicast."""
