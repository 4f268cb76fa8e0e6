#!/usr/bin/env python3
"""Writes the records of this folder by hand, since gloo's recorder has no sends and receives.

unsent/     Flight Recorder, 3 ranks of a pipeline: rank 1 never sends message 4 to rank 2
slow_link/  Chrome's events, 4 ranks in a chain: messages from rank 1 to rank 2 take 40 ms instead of 2
hosts/      Chrome's events, 3 ranks, all_reduce; the clock of rank 1 is 3 s ahead, and rank 2 is 30 ms late
"""
import json
import pathlib

HERE = pathlib.Path(__file__).parent
MARK = {"written": "by hand, see make.py"}
NOON = 1790000000000000000


def write(folder, rank, data):
    (HERE / folder).mkdir(exist_ok=True)
    (HERE / folder / f"rank_{rank}.json").write_text(json.dumps({**MARK, **data}) + "\n")


def unsent():
    for rank in range(3):
        entries = []
        for i in range(5):
            for name, peer in (("recv", rank - 1), ("send", rank + 1)):
                is_left_out = (rank == 1 and i >= 3 and name == "send") or (rank == 1 and i == 4) or (rank == 2 and i == 4)
                if not 0 <= peer < 3 or is_left_out:
                    continue
                is_stuck = (rank, i, name) == (2, 3, "recv") or (rank, i, name) == (0, 4, "send")
                arrow = "->" if name == "send" else "<-"
                entries.append({"record_id": len(entries), "process_group": ["0", "default_pg"], "collective_seq_id": 0,
                                "p2p_seq_id": i + 1, "is_p2p": True, "profiling_name": f"nccl:{name} {rank}{arrow}{peer}",
                                "input_sizes": [[64, 128]], "input_dtypes": ["BFloat16"],
                                "state": "started" if is_stuck else "completed",
                                "time_created_ns": NOON + (i * 4 + rank * 2) * 1000000 + (name == "send") * 500000})
        write("unsent", rank, {"version": "2.10", "entries": entries, "pg_config": {"0": {"ranks": "[0, 1, 2]"}}})


def event(name, begin_ms, end_ms, **args):
    return {"ph": "X", "name": name, "ts": begin_ms * 1000, "dur": (end_ms - begin_ms) * 1000, "args": args}


def slow_link():
    for rank in range(4):
        events = []
        for i in range(8):
            for sender in (rank - 1, rank):
                takes = 40 if sender == 1 else 2
                begin = i * 60 + sender * 5 + (40 if sender > 1 else 0)
                if 0 <= sender < 3:
                    name, peer = ("send", rank + 1) if sender == rank else ("recv", sender)
                    events.append(event(name, begin, begin + takes, peer=peer, elements=8192, dtype="BFloat16"))
        write("slow_link", rank, {"rank": rank, "traceEvents": events})


def hosts():
    for rank in range(3):
        ahead = 3000 if rank == 1 else 0
        events = [event("all_reduce", i * 100 + ahead + (30 if rank == 2 else 0), i * 100 + ahead + 35, elements=100, dtype="float",
                        seq=i + 1) for i in range(8)]
        write("hosts", rank, {"rank": rank, "host_name": f"node{rank}", "traceEvents": events})


unsent()
slow_link()
hosts()
