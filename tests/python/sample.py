"""A program as users write it: `mypy --strict` reads it, and it runs."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import penstock


def fastest(model: str, cluster: str) -> Dict[str, Any]:
    answer = penstock.plan(model, cluster, seq_length="4k", global_batch_size=64, top=3)
    best: Dict[str, Any] = answer["plans"][0]
    return best


def names() -> List[str]:
    return [str(row["name"]) for row in penstock.schedule_list()["schedules"]]


def export(folder: Path) -> List[str]:
    file = folder / "plan.json"
    penstock.plan("gpt2", "8xa100-40", seq_length=1024, global_batch_size=64, output=file)
    plan = json.loads(file.read_text())
    assert penstock.plan_check(plan)["fits"]
    files: List[str] = penstock.export(plan, to="megatron", output=folder / "job")["files"]
    return files


def failing() -> penstock.Error:
    try:
        penstock.plan("no-such-model", "8xh100")
    except penstock.Error as error:
        return error
    raise AssertionError("an unknown model is an error")


def main() -> int:
    print(penstock.__version__, penstock.program())
    print(fastest("llama-3.1-8b", "16xh100")["step_sec"])
    assert "zb-v" in names()
    text = penstock.schedule_make("zb-v", stages=4, microbatches=8)
    assert penstock.verify(text)["correct"]
    assert not penstock.verify(text.replace("0F0 ", "", 1))["correct"]
    timed = penstock.schedule("zb-v", stages=4, microbatches=8, costs={"f": 1, "i": 1, "w": 1})
    assert timed["microbatches"] == 8
    assert penstock.predict("gpt2", "8xh100", tp=2, blocks=None, sequence_parallel=True)["format"]
    with tempfile.TemporaryDirectory() as folder:
        assert all(os.path.exists(name) for name in export(Path(folder)))
    error = failing()
    assert error.code == "file" and error.line is None, error.answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
