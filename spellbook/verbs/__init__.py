"""The verbs as every door offers them: what each takes, with defaults, bounds and help, its right and its result."""
