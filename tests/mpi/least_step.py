"""The shortest step that ranks which only wait could have made: what run_timed and run_sleeping judge.

A rank that sleeps wakes up late on a busy machine, each operation by another time in each step. From the traces of
several steps this takes, for each operation of the schedule, the least that it added to what it comes after: the
operation before it in its row, the send of what it receives, the ranks that it sums with. The longest path through
these least times is at most the shortest step that was measured, and is without the lateness that is not in every
step. Time that an operation adds in every step stays: a wait that the schedule does not ask for is in it.
"""
import collections
import os
import re
import struct

HEAD, EVENT = struct.Struct("<8s6IqQQ72s"), struct.Struct("<2I3qQ")
OP = re.compile(r"(\d+)([A-Z]+)(.*)")
ROUNDS = 6  # steps one after another, of which the last counts

Event = collections.namedtuple("Event", "begin ready end")


def parse_rows(path):
    """(stage, kind, rest) of the operations of each row, and whether steps are optimistic."""
    rows, is_optimistic = {}, False
    with open(path) as file:
        for line in file:
            words = line.split()
            is_optimistic |= words[0] == "rules" and "optimistic" in words
            if words[0] == "rank":
                ops = (OP.fullmatch(word).groups() for word in words[2:])
                rows[int(words[1][:-1])] = [(int(stage), kind, rest) for stage, kind, rest in ops]
    return rows, is_optimistic


class Trace:
    def __init__(self, folder):
        self.rows, self.is_optimistic = parse_rows(os.path.join(folder, "schedule.pen"))
        self.row_of, self.events, self.steps = {}, {}, {}  # of ranks that are traced
        for name in sorted(os.listdir(folder)):
            if name.endswith(".trace"):
                with open(os.path.join(folder, name), "rb") as file:
                    self.read_rank(file.read())

    def read_rank(self, data):
        """On one host all clocks are one."""
        _, _, _, _, replica, row, num_ops, _, count, lost, _ = HEAD.unpack_from(data)
        rank = (replica, row)
        steps = collections.defaultdict(dict)
        for step, position, begin, ready, end, _ in EVENT.iter_unpack(data[HEAD.size:HEAD.size + count * EVENT.size]):
            steps[step][position] = Event(begin, ready, end)
        self.row_of[rank], self.events[rank] = self.rows[row], [steps[step] for step in sorted(steps)]
        of_step = [position for position, op in enumerate(self.rows[row]) if op[1] == "STEP"]
        self.steps[rank] = max(position for position in of_step if position in self.events[rank][0])
        for events in self.events[rank]:
            for position in of_step:  # several are recorded as one
                events.setdefault(position, Event(*[events[position - 1].end] * 3))
        if lost or num_ops != len(self.rows[row]) or any(len(it) != num_ops for it in self.events[rank]):
            raise ValueError(f"the trace of rank {rank} is not whole")


class LeastStep:
    """Collects traces of one layout; seconds() is of all that were added."""

    def __init__(self):
        self.least = None

    def add(self, folder):
        trace = Trace(folder)
        if self.least is None:
            self.trace, self.least = trace, collections.defaultdict(lambda: float("inf"))
            self.find_edges()
        for step in range(1, min(map(len, trace.events.values())) - 1):
            self.add_step(trace.events, step)

    def find_edges(self):
        """Who sends what work needs, and who sums with whom."""
        self.sends = {}
        for rank, row in self.trace.row_of.items():
            for position, (stage, kind, rest) in enumerate(row):
                if kind in ("SA", "SG"):
                    self.sends[rank[0], stage + (1 if kind == "SA" else -1), kind, rest] = (rank, position)
        together = [] if self.trace.is_optimistic else list(self.trace.steps.items())
        self.group_of = {node: together for node in together}

    def source(self, rank, position):
        """A receive is only posted; the work that needs it waits."""
        stage, kind, rest = self.trace.row_of[rank][position]
        sent = {"F": "SA", "B": "SG", "I": "SG"}.get(kind)
        return self.sends.get((rank[0], stage, sent, rest))

    def name(self, rank, position):
        """Work of one kind on one stage is the same wherever it is in the row."""
        stage, kind, _ = self.trace.row_of[rank][position]
        return (rank, stage, kind) if kind in ("F", "B", "I", "W", "R") else (rank, position)

    def add_step(self, events, step):
        def before(rank, position):
            at = events[rank][step]
            return at[position - 1].end if position > 0 else events[rank][step - 1][len(at) - 1].end

        for rank, row in self.trace.row_of.items():
            for position in range(len(row)):
                event, begin = events[rank][step][position], before(rank, position)
                source = self.source(rank, position)
                if source is not None:
                    begin = max(begin, events[source[0]][step][source[1]].ready)
                for member in self.group_of.get((rank, position), ()):
                    begin = max(begin, before(*member))
                ready = event.end if (rank, position) in self.group_of else event.ready  # a sum is waiting, too
                for key, least in ((("wait", rank, position), ready - begin),
                                   (("work", *self.name(rank, position)), event.end - ready)):
                    self.least[key] = min(self.least[key], max(least, 0))

    def seconds(self):
        """Of a step among several."""
        if self.least is None:
            return float("inf")
        ready, end, places = {}, {}, {rank: 0 for rank in self.trace.row_of}
        ends = [0] * ROUNDS
        has_moved = True
        while has_moved:
            has_moved = False
            for rank, row in self.trace.row_of.items():
                while places[rank] < ROUNDS * len(row):
                    turn, position = divmod(places[rank], len(row))
                    begin = self.begin(rank, turn, position, ready, end)
                    if begin is None:
                        break
                    ready[rank, turn, position] = begin + self.least["wait", rank, position]
                    end[rank, turn, position] = ready[rank, turn, position] + self.least[("work", *self.name(rank, position))]
                    ends[turn] = max(ends[turn], end[rank, turn, position])
                    places[rank] += 1
                    has_moved = True
        if any(places[rank] < ROUNDS * len(row) for rank, row in self.trace.row_of.items()):
            raise ValueError("operations wait for each other")
        return 1e-9 * (ends[-1] - ends[-2])

    def begin(self, rank, turn, position, ready, end):
        """When all has ended that it comes after; None: not yet."""
        def before(rank, position):
            if position > 0:
                return end.get((rank, turn, position - 1))
            return end.get((rank, turn - 1, len(self.trace.row_of[rank]) - 1)) if turn > 0 else 0

        source = self.source(rank, position)
        times = [before(rank, position), *(before(*member) for member in self.group_of.get((rank, position), ()))]
        if source is not None:
            times.append(ready.get((source[0], turn, source[1])))
        return None if None in times else max(times)
