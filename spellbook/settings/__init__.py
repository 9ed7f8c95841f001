"""What a person sets: the settings of a vault, the environment, where things are, the language of messages."""
