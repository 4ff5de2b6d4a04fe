"""Sources of change events: each lists what a table has not read, reads a portion of it, and says its new position."""
