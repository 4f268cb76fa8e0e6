/*
 * The agreement of islands (src/ring/) as a model for spin: the interleavings
 * of 3 islands and 2 coordinators over one linearizable store, with 2 rounds,
 * one crash and one partition, or one crash and one eviction.
 * tests/ring/run_model runs it. A membership's epoch is the revision that made
 * it here, which is finer than the number in the C code.
 *
 * Modelled: the record in the store has a revision; a commit is a
 * compare-and-swap on the revision, which may reach the store late, also after
 * its coordinator has crashed. A node may take what another has sent at any
 * time after it, twice, in any order, or never.
 * Time is not modelled: a coordinator commits any contributors that enough
 * members keep, whenever it likes, so the result holds for every grace window,
 * patience and lease, also for a lease that two coordinators believe they have.
 * For the same reason a proposal is not a message here: an island that keeps
 * every fragment of a set is taken to have acknowledged that set.
 *
 * Left to the simulator (src/ring/sim/): contributions in several fragments,
 * hashes of sums, clocks, and that a run ends after everything has healed.
 *
 * Invariants, named as in src/ring/ring.h:
 *   A1 a round is committed once, and rounds grow by one
 *   A2 nothing of another epoch or round is accepted
 *   A3 an island acknowledges only what it has whole
 *   A4 a commit has the quorum of contributors, and most members acknowledged
 *   A5 neither a revoked key nor an older incarnation is a member
 *   A6 a member holds the state of the last committed round
 * Besides, no state is stuck before the last round: where nothing can happen
 * any more, all rounds are committed.
 * PLANT=1..5 breaks one of A1 to A5 on purpose, as PEN_PLANT does in C.
 */
#define N 3
#define COORDINATORS 2
#define QUORUM 2
#define ROUNDS 2
#define REVISIONS 10
#ifndef PLANT
#define PLANT 0
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef EVICTIONS
#define EVICTIONS 0
#endif

#define bit(i) (1 << (i))
#define has(mask, i) (((mask) >> (i)) & 1)
#define count(mask) (has(mask, 0) + has(mask, 1) + has(mask, 2))
#define most_of(mask, of) (2 * count((mask) & (of)) > count(of))
#define covers(mask, set) (((mask) & (set)) == (set))

/* The store: the record at each revision; `top` is the current one. */
byte top, low; /* low: the oldest that a node still knows */
byte members[REVISIONS];
byte named[REVISIONS]; /* incarnation of each island, two bits each */
byte revoked[REVISIONS];
byte round[REVISIONS];
byte given[REVISIONS]; /* contributors of the last committed round */
byte made[REVISIONS];  /* revision that committed that round */
#define incarnation_at(v, i) ((named[v] >> (2 * (i))) & 3)

/*
 * What an island keeps for the next round and has told of: its own bit is its
 * offer, others are contributions that it has whole. It survives a crash, and
 * belongs to the revision that the island knows.
 */
byte kept[N];
byte offers; /* made at the current revision, for A2 */

byte known[N]; /* revision */
byte incarnation[N];
byte held[N]; /* round of its state */
byte asked[N]; /* incarnation that asks to join */
byte down; /* mask */
#define is_member(i) (has(members[known[i]], i) && \
    incarnation_at(known[i], i) == incarnation[i])

byte read[COORDINATORS]; /* revision */
byte swap[COORDINATORS]; /* contributors of a swap that is on its way */

/* Faults that may still come, and who is cut off: 1 + island, or 4 and 5. */
bit crashes = CRASHES, cuts = CUTS, evictions = EVICTIONS;
byte cut;
#define can_talk(i) (!has(down, i) && cut != 1 + (i))
#define can_serve(c) (cut != 1 + N + (c))

byte committed; /* mask of rounds, for A1 */

#define can_sum(i, v) (known[i] == made[v] - 1 && held[i] + 1 == round[v] && \
    covers(kept[i], given[v]))
#define holds(i, v) (has(members[v], i) && (held[i] == round[v] || can_sum(i, v)))

inline check_record()
{
    assert((members[top] & revoked[top]) == 0);              /* A5 */
    assert(holds(0, top) || holds(1, top) || holds(2, top)) /* A6 */
}

/* What no node can refer to any more is cleared, so that equal states meet. */
#define is_past(v) (known[0] > v && known[1] > v && known[2] > v && \
    read[0] > v && read[1] > v)
inline forget_past()
{
    do
    :: low < top && is_past(low) ->
        members[low] = 0; named[low] = 0; revoked[low] = 0;
        round[low] = 0; given[low] = 0; made[low] = 0;
        low++
    :: else -> break
    od;
    skip
}

inline append()
{
    members[top + 1] = members[top];
    named[top + 1] = named[top];
    revoked[top + 1] = revoked[top];
    round[top + 1] = round[top];
    given[top + 1] = given[top];
    made[top + 1] = made[top];
    top++;
    offers = 0
}

/*
 * What can change nothing any more is cleared, so that equal states meet: swaps
 * on a revision that is not the current one, which the store refuses, and what
 * an island keeps that does not know of the change, unless it can still sum it.
 */
inline settle(c, i)
{
    if
    :: PLANT != 1 -> swap[0] = 0; swap[1] = 0
    :: else -> swap[c] = 0
    fi;
    for (i : 0 .. N - 1) {
        if
        :: kept[i] != 0 && PLANT != 2 && known[i] != top && !can_sum(i, top) -> kept[i] = 0
        :: kept[i] != 0 && PLANT != 2 && known[i] != top && can_sum(i, top) -> kept[i] = given[top]
        :: else
        fi
    }
    i = 0
}

/* ---- coordinators: membership */

/*
 * Members that talk and have the state of the coordinator's record. One that
 * has restarted counts before it is admitted again: its state survived. Without
 * that, two members of which one restarts would wait for each other for ever.
 */
#define is_present(c, i) (can_talk(i) && known[i] == read[c] && \
    has(members[read[c]], i) && held[i] == round[read[c]])
#define present(c) (is_present(c, 0) | is_present(c, 1) << 1 | is_present(c, 2) << 2)

/* One of those that stay must have the state. */
#define may_change(c, left) (can_serve(c) && round[read[c]] < ROUNDS && \
    top == read[c] && most_of(present(c), members[read[c]]) && \
    (present(c) & (left)) != 0)

inline changed(c)
{
    check_record();
    settle(c, n);
    read[c] = top;
    forget_past()
}

inline drop(c, i)
{
    d_step {
        has(members[read[c]], i) && !can_talk(i) &&
            may_change(c, members[read[c]] & ~bit(i)) ->
        append();
        members[top] = members[top] & ~bit(i);
        changed(c)
    }
}

inline admit(c, i)
{
    d_step {
        asked[i] > incarnation_at(read[c], i) &&
            (!has(revoked[read[c]], i) || PLANT == 5) &&
            may_change(c, members[read[c]] | bit(i)) ->
        append();
        named[top] = (named[top] & ~(3 << (2 * i))) | (asked[i] << (2 * i));
        members[top] = members[top] | bit(i);
        changed(c)
    }
}

/* An order, which needs no majority: a member may never come back. */
inline evict(c, i)
{
    d_step {
        evictions > 0 && has(members[read[c]], i) && can_serve(c) &&
            round[read[c]] < ROUNDS && top == read[c] &&
            (present(c) & members[read[c]] & ~bit(i)) != 0 ->
        evictions = 0;
        append();
        members[top] = members[top] & ~bit(i);
        revoked[top] = revoked[top] | bit(i);
        changed(c)
    }
}

/* ---- coordinators: commit */

#define keeps(i, set) (known[i] == top && covers(kept[i], set))
#define keepers(set) (keeps(0, set) | keeps(1, set) << 1 | keeps(2, set) << 2)
#define tells(i) (known[i] == top && kept[i] != 0)
#if PLANT == 3
#define acknowledged(set) (tells(0) | tells(1) << 1 | tells(2) << 2)
#else
#define acknowledged(set) keepers(set)
#endif
#if PLANT == 4
#define LEAST (QUORUM - 1)
#else
#define LEAST QUORUM
#endif

/* The swap leaves its coordinator; the store sees it at any time after. */
inline send_swap(c, set)
{
    d_step {
        can_serve(c) && swap[c] == 0 && top == read[c] &&
            round[top] < ROUNDS && count(set) >= LEAST && covers(members[top], set) &&
            most_of(acknowledged(set), members[top]) ->
        assert(covers(offers, set));                 /* A2 */
        assert(most_of(keepers(set), members[top])); /* A3 */
        swap[c] = set
    }
}

inline commit(c)
{
    d_step {
        swap[c] != 0 && top + 1 < REVISIONS ->
        append();
        round[top] = (PLANT == 1 && read[c] < top - 1 -> round[read[c]] : round[top]) + 1;
        given[top] = swap[c];
        made[top] = top;
        assert(round[top] == round[top - 1] + 1); /* A1 */
        assert(!has(committed, round[top]));      /* A1 */
        assert(count(given[top]) >= QUORUM);      /* A4 */
        committed = committed | bit(round[top]);
        check_record();
        settle(c, n);
        forget_past()
    }
}

proctype Coordinator(byte c)
{
    byte n;
end:
    do
    :: d_step { can_serve(c) && read[c] != top -> read[c] = top; forget_past() }
    :: send_swap(c, 3) :: send_swap(c, 5) :: send_swap(c, 6) :: send_swap(c, 7)
#if PLANT == 4
    :: send_swap(c, 1)
#endif
    :: commit(c)
    :: drop(c, 0) :: drop(c, 1) :: drop(c, 2)
    :: admit(c, 0) :: admit(c, 1) :: admit(c, 2)
    :: evict(c, 2)
    od
}

/* ---- islands */

/* A record that a coordinator has sent, now or before. */
inline adopt(i, c, v)
{
    d_step {
        can_talk(i) && can_serve(c) && known[i] < v && v <= read[c] ->
        if
        :: can_sum(i, v) -> held[i] = round[v]
        :: else
        fi;
        known[i] = v;
#if PLANT != 2
        kept[i] = 0;
#endif
        if
        :: !has(members[v], i) && !has(revoked[v], i) &&
                incarnation[i] == incarnation_at(v, i) ->
            incarnation[i]++ /* it was dropped, and asks again */
        :: else
        fi;
        forget_past()
    }
}

/* The state of the record it knows, from an island that holds it. */
inline pull(i, j)
{
    d_step {
        can_talk(i) && can_talk(j) && held[i] < round[known[i]] &&
            held[j] == round[known[i]] ->
        held[i] = held[j]
    }
}

/* What an island keeps for an older revision than the current counts nowhere. */
#define takes_part(i) (can_talk(i) && known[i] == top && is_member(i) && \
    held[i] == round[top] && round[top] < ROUNDS)

inline keep(i, j)
{
    d_step {
        takes_part(i) && !has(kept[i], j) &&
            (i == j || (can_talk(j) && has(offers, j))) ->
        kept[i] = kept[i] | bit(j);
        if
        :: i == j -> offers = offers | bit(i)
        :: else
        fi
    }
}

proctype Island(byte i)
{
end:
    do
    :: adopt(i, 0, read[0]) :: adopt(i, 1, read[1])
    :: pull(i, 0) :: pull(i, 1) :: pull(i, 2)
    :: keep(i, 0) :: keep(i, 1) :: keep(i, 2)
    :: d_step { can_talk(i) && !is_member(i) && asked[i] < incarnation[i] ->
        asked[i] = incarnation[i] }
    od
}

/* ---- faults */

inline crash(i)
{
    d_step {
        crashes > 0 && round[top] < ROUNDS -> crashes = 0; down = bit(i)
    }
}

inline divide(who)
{
    d_step { cuts > 0 && round[top] < ROUNDS -> cuts = 0; cut = who }
}

/* Islands 0 and 1 are alike until one of them is hit, as are coordinators. */
proctype Fault()
{
end:
    do
    :: crash(0) :: crash(2)
    :: d_step { down == 1 -> incarnation[0]++; down = 0 }
    :: d_step { down == 4 -> incarnation[2]++; down = 0 }
    :: d_step { crashes > 0 && round[top] < ROUNDS ->
        crashes = 0; read[0] = top; forget_past() } /* a coordinator */
    :: divide(1) :: divide(2) :: divide(3) :: divide(4)
    :: d_step { cut != 0 -> cut = 0 }
    :: timeout -> assert(round[top] == ROUNDS); break /* nothing is stuck */
    od
}

init {
    atomic {
        members[0] = bit(0) | bit(1) | bit(2);
        run Island(0); run Island(1); run Island(2);
        run Coordinator(0); run Coordinator(1);
        run Fault()
    }
}
