/*
 * States for islands that lack them. A state may take longer to travel than a
 * round lasts. Therefore the sender sends it as it was when it was asked for,
 * and then the contributions of the rounds that were committed meanwhile, which
 * the receiver sums:
 *
 *     sender     STATE of round 7 ........, set of 8, set of 9, set of 10
 *     receiver   `early` is round 7 ......, 8, 9, 10 = the record: `next`
 *
 * The receiver trusts none of this: the state counts when it has the hash of
 * the record. The sender holds the old state and the contributions since for as
 * long as an island asks; where they become too many, it starts again with a
 * newer state.
 */
#include "ring/net/member_parts.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Contributions are held up to N times the largest state. */
#define MOST_HELD 8u

/* ---- the sender */

static void stop(struct pen__outgoing *out)
{
    if (out->is_state)
        out->offset = 0;
    out->is_state = out->wants_state = out->is_asked = false;
}

static bool wants_whole(const struct pen__outgoing *out, uint64_t round)
{
    return out->wants_state && !out->is_following && out->next_round == round;
}

static bool is_wanted(const struct pen_ring_member *member, uint64_t round)
{
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (wants_whole(&member->outgoing[i], round))
            return true;
    return false;
}

/* Returns the first round whose contributions any island still receives. */
static uint64_t first_wanted(const struct pen_ring_member *member)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen__outgoing *out = &member->outgoing[i];
        uint64_t round = out->next_round + !out->is_following;
        if (out->wants_state && round < first)
            first = round;
    }
    return first;
}

static void drop_unwanted(struct pen_ring_member *member)
{
    uint64_t first = first_wanted(member);
    uint32_t count = 0;
    if (!is_wanted(member, member->old.round))
        pen__bytes_free(&member->old.bytes);
    for (uint32_t i = 0; i < member->num_follows; i++)
        if (member->follows[i].round >= first)
            member->follows[count++] = member->follows[i];
        else
            pen__bytes_free(&member->follows[i].bytes);
    member->num_follows = count;
}

void pen__member_asked(struct pen_ring_member *member, uint32_t island,
                       bool is_following)
{
    struct pen__outgoing *out = &member->outgoing[island];
    if (out->is_following && !is_following)
        stop(out); /* the state that it got so far is useless */
    if (!out->wants_state) {
        out->wants_state = true;
        out->is_following = false;
        out->next_round = member->old.bytes.bytes != NULL
                              ? member->old.round
                              : member->island.kept.round;
    }
    out->is_asked = true;
    out->asked_at = pen_clock_ns();
    pen__member_pump(member, island);
}

static const struct pen__state *find(const struct pen_ring_member *member,
                                     uint64_t round)
{
    for (uint32_t i = 0; i < member->num_follows; i++)
        if (member->follows[i].round == round)
            return &member->follows[i];
    return NULL;
}

bool pen__member_next_state(struct pen_ring_member *member,
                            struct pen__outgoing *out,
                            struct pen_ring_bytes *bytes,
                            struct pen_ring_message *message)
{
    const struct pen_ring_kept *kept = &member->island.kept;
    const struct pen__state now = {.bytes = member->state,
                                   .round = kept->round,
                                   .hash = member->state_hash};
    const struct pen__state *found = NULL;
    if (!out->wants_state || !out->is_asked)
        return false;
    if (out->is_following)
        found = find(member, out->next_round);
    else if (member->old.bytes.bytes != NULL &&
             member->old.round == out->next_round)
        found = &member->old;
    else if (kept->round == out->next_round && now.bytes.length > 0 &&
             pen_ring_same_hash(&kept->hash, &now.hash))
        found = &now;
    if (found == NULL) {
        if (out->is_following)
            out->is_asked = false; /* everything was sent */
        else
            stop(out);
        return false;
    }
    message->kind = PEN_RING_STATE;
    message->round = found->round;
    message->set = found->set;
    message->hash = found->hash;
    *bytes = found->bytes;
    out->is_state = true;
    return true;
}

void pen__member_state_sent(struct pen_ring_member *member,
                            struct pen__outgoing *out)
{
    out->is_following = true;
    out->next_round++;
    drop_unwanted(member);
}

static void put_number(uint8_t *out, uint64_t value)
{
    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

/*
 * Gathers the contributions that `next` was summed from; false: they are not
 * all here any more.
 */
static bool gather(const struct pen_ring_member *member,
                   struct pen_ring_bytes *out)
{
    size_t length = 0;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen__held *held = &member->held[i];
        if (!pen_ring_has(member->next_set, i))
            continue;
        if (!pen_ring_same_hash(&held->hash, &member->next_offers[i].hash))
            return false;
        length += PEN__PART_HEADER + held->all.length;
    }
    size_t most = MOST_HELD * member->options.most_bytes;
    size_t before = 0;
    for (uint32_t i = 0; i < member->num_follows; i++)
        before += member->follows[i].bytes.length;
    uint8_t *bytes =
        length == 0 || before + length > most ? NULL : malloc(length);
    *out = (struct pen_ring_bytes){bytes, length};
    for (uint32_t i = 0; i < PEN_RING_ISLANDS && bytes != NULL; i++) {
        const struct pen__held *held = &member->held[i];
        if (!pen_ring_has(member->next_set, i))
            continue;
        put_number(bytes, member->next_offers[i].tokens);
        put_number(bytes + 8, held->all.length);
        memcpy(bytes + PEN__PART_HEADER, held->all.bytes, held->all.length);
        bytes += PEN__PART_HEADER + held->all.length;
    }
    return bytes != NULL;
}

void pen__member_hold_back(struct pen_ring_member *member)
{
    uint64_t round = member->island.kept.round;
    struct pen__state follow = {
        .round = round, .set = member->next_set, .hash = member->next_hash};
    drop_unwanted(member);
    if (first_wanted(member) == UINT64_MAX)
        return;
    if (member->num_follows == PEN__MOST_FOLLOWS ||
        !gather(member, &follow.bytes)) {
        for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
            stop(&member->outgoing[i]);
        drop_unwanted(member);
        return;
    }
    member->follows[member->num_follows++] = follow;
    if (member->old.bytes.bytes != NULL || !is_wanted(member, round - 1))
        return;
    member->old = (struct pen__state){
        .bytes = member->state, .round = round - 1, .hash = member->state_hash};
    member->state = (struct pen_ring_bytes){NULL, 0};
}

void pen__member_trim(struct pen_ring_member *member, int64_t now)
{
    int64_t since = now - member->setting.limits.patience;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (member->outgoing[i].asked_at < since)
            stop(&member->outgoing[i]);
    drop_unwanted(member);
    if (pen__island_is_current(&member->island) ||
        member->incoming[member->early.from].at < since)
        pen__bytes_free(&member->early.bytes);
    if (member->incoming[member->leader].at < since)
        member->has_followed = false;
}

void pen__member_free_states(struct pen_ring_member *member)
{
    memset(member->outgoing, 0, sizeof member->outgoing);
    drop_unwanted(member);
    pen__bytes_free(&member->early.bytes);
}

/* ---- the receiver */

int pen__member_source(const struct pen_ring_member *member, int64_t now)
{
    int64_t since = now - member->setting.limits.patience / 2;
    if (member->early.bytes.bytes != NULL)
        return (int)member->early.from;
    if (member->has_followed)
        return (int)member->leader;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen__incoming *in = &member->incoming[i];
        if (in->bytes.bytes != NULL && in->message.kind == PEN_RING_STATE &&
            in->at > since)
            return (int)i;
    }
    return -1;
}

static uint64_t get_number(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/*
 * Splits the contributions and returns their number; 0: the bytes are
 * malformed.
 */
static size_t parse(const struct pen__incoming *in,
                    struct pen_ring_contribution list[PEN_RING_ISLANDS])
{
    const uint8_t *at = in->bytes.bytes;
    size_t left = in->length;
    size_t count = 0;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        if (!pen_ring_has(in->message.set, i))
            continue;
        uint64_t length =
            left < PEN__PART_HEADER ? UINT64_MAX : get_number(at + 8);
        if (length > left - PEN__PART_HEADER || left < PEN__PART_HEADER)
            return 0;
        list[count++] = (struct pen_ring_contribution){
            i, get_number(at), at + PEN__PART_HEADER, (size_t)length};
        at += PEN__PART_HEADER + length;
        left -= PEN__PART_HEADER + (size_t)length;
    }
    return left == 0 ? count : 0;
}

/*
 * Returns the state that a round builds on: the one that came before it from
 * this island, or the held one, which was the newest for a moment. NULL:
 * neither.
 */
static const struct pen_ring_bytes *
base_of(const struct pen_ring_member *member, uint32_t from, uint64_t round)
{
    const struct pen__state *early = &member->early;
    const struct pen_ring_kept *kept = &member->island.kept;
    if (early->bytes.bytes != NULL && early->from == from &&
        early->round + 1 == round)
        return &early->bytes;
    bool is_held = member->has_followed && member->leader == from &&
                   kept->round + 1 == round &&
                   pen_ring_same_hash(&kept->hash, &member->state_hash);
    return is_held ? &member->state : NULL;
}

/* Sums a round onto `early`, whose old state is dropped in any case. */
static bool add_round(struct pen_ring_member *member, uint32_t from)
{
    const struct pen__incoming *in = &member->incoming[from];
    const struct pen_ring_bytes *base =
        base_of(member, from, in->message.round);
    struct pen_ring_contribution list[PEN_RING_ISLANDS];
    struct pen__state next = {
        .round = in->message.round, .hash = in->message.hash, .from = from};
    struct pen_ring_hash found;
    size_t count = base == NULL ? 0 : parse(in, list);
    const struct pen_ring_contributions given = {next.round, list, count};
    bool is_right = count > 0 &&
                    member->options.sum(member->options.context, base, &given,
                                        &next.bytes) == PEN_OK &&
                    pen__bytes_hash(next.bytes.bytes, next.bytes.length,
                                    &found) == PEN_OK &&
                    pen_ring_same_hash(&found, &next.hash);
    if (!is_right)
        pen__bytes_free(&next.bytes);
    pen__bytes_free(&member->early.bytes);
    member->early = next;
    member->has_followed = false;
    return is_right;
}

/* Takes a whole state, whose place among the rounds shows later. */
static bool begin(struct pen_ring_member *member, uint32_t from)
{
    struct pen__incoming *in = &member->incoming[from];
    struct pen_ring_hash found;
    if (in->message.round <= member->island.kept.round ||
        pen__bytes_hash(in->bytes.bytes, in->length, &found) != PEN_OK ||
        !pen_ring_same_hash(&found, &in->message.hash))
        return false;
    pen__bytes_free(&member->early.bytes);
    member->early = (struct pen__state){.bytes = in->bytes,
                                        .round = in->message.round,
                                        .hash = found,
                                        .from = from};
    in->bytes = (struct pen_ring_bytes){NULL, 0};
    return true;
}

bool pen__member_use_early(struct pen_ring_member *member)
{
    const struct pen_ring_kept *kept = &member->island.kept;
    struct pen__state *early = &member->early;
    if (early->bytes.bytes == NULL || early->round != kept->record.round ||
        early->round <= kept->round ||
        !pen_ring_same_hash(&early->hash, &kept->record.hash))
        return false;
    pen__bytes_free(&member->next);
    member->next = early->bytes;
    member->next_hash = early->hash;
    member->next_round = early->round;
    member->next_set = 0;
    early->bytes = (struct pen_ring_bytes){NULL, 0};
    member->has_followed = true;
    member->leader = early->from;
    return true;
}

bool pen__member_take_state(struct pen_ring_member *member, uint32_t from)
{
    struct pen__incoming *in = &member->incoming[from];
    bool is_right =
        in->message.set == 0 ? begin(member, from) : add_round(member, from);
    pen__bytes_free(&in->bytes);
    return is_right && pen__member_use_early(member);
}
