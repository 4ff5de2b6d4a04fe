"""Sources of change events: each reads a bounded range and says which positions it covers; nothing else."""
