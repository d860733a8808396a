"""The error that says what is wrong with a config."""


class ConfigError(Exception):
    """A config is wrong; ``str(error)`` is one sentence for the user who set it."""


def invalid(name: str, text: str, why: str) -> ConfigError:
    """Return the error for a value, in Kafka's words."""
    return ConfigError(f"Invalid value {text} for configuration {name}: {why}")
