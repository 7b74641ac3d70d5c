"""Files that ``vehicled new`` writes: each kind of plugin with its test."""
