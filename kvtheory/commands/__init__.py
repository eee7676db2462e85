"""The commands, one module each: a frozen dataclass ``Options`` and ``run(options)``."""
