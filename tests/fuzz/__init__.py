"""
Fuzzing: machines that do whatever a person, an agent or a file can do, and say what must hold all the same.

Each runs in a bounded form in `make test`, with the same examples every time. To look for new ones, for minutes:

    python -m pytest tests/fuzz/test_vault.py --hypothesis-profile=explore

`test_vault` runs every verb on one vault, `test_import` takes files of others, `test_tools` calls MCP tools.
"""

from hypothesis import HealthCheck, Phase, settings

_MORE = 400
"""How many times as many examples `explore` tries: some minutes on a slow machine."""


def bounded(examples: int, steps: int = 20) -> settings:
    """Return settings for `examples` examples of `steps` steps in the suite, and many more in `explore`."""
    explores = not settings().derandomize
    return settings(
        max_examples=examples * (_MORE if explores else 1),
        stateful_step_count=steps * (2 if explores else 1),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # explaining takes longer than the rest
        suppress_health_check=list(HealthCheck),
    )
