"""A schedule by its name: made and timed in one call."""

from typing import Optional

from penstock import _commands
from penstock._program import Answer, Count, Number, Path, Several

verify = _commands.schedule_check


def schedule(
    name: str,
    *,
    stages: Count,
    microbatches: Count,
    chunks: Optional[Count] = None,
    slices: Optional[Count] = None,
    batches: Optional[Count] = None,
    costs: Optional[Several] = None,
    memory: Optional[Several] = None,
    memory_limit: Optional[Number] = None,
    output: Optional[Path] = None,
) -> Answer:
    """Makes the published schedule of this name (`schedule_list` has them)
    and returns what `schedule_time` says of it: time, bubble, memory, ranks.

    output: also write the schedule to this file
    costs, memory: as of `schedule_make`, for making and timing
    """
    text = _commands.schedule_make(
        name,
        stages=stages,
        microbatches=microbatches,
        chunks=chunks,
        slices=slices,
        batches=batches,
        costs=costs,
        memory=memory,
        memory_limit=memory_limit,
    )
    if output is not None:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
    return _commands.schedule_time(text, costs=costs, memory=memory)
