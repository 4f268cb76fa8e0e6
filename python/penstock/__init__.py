"""Plans, simulates and checks the parallel training of neural networks.

    >>> import penstock
    >>> answer = penstock.plan("llama-3.1-70b", "64xh100", seq_length="8k")
    >>> answer["plans"][0]["step_sec"]

Each function runs one command of the program `penstock`, which this package
contains, and returns the object that the command prints with --json.
`penstock.schema("plan")` describes the keys. Errors raise `penstock.Error`.
"""

from penstock import _commands
from penstock._commands import *  # noqa: F403
from penstock._program import Answer, Error, call, output, program
from penstock._schedule import schedule, verify
from penstock._version import version as __version__

__all__ = [
    *_commands.__all__,
    "Answer",
    "Error",
    "__version__",
    "call",
    "output",
    "program",
    "schedule",
    "verify",
]
