"""Settings of a person: of a vault, the environment, places, and the language of messages."""
