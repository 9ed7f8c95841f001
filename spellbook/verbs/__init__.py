"""The verbs for every door: the arguments of each, with defaults, bounds and help, its right and its result."""
