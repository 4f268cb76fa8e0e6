#include "ring/ring.h"

#include "base/bug.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

uint32_t pen_ring_count(uint64_t set)
{
    uint32_t count = 0;
    for (; set != 0; set &= set - 1)
        count++;
    return count;
}

void pen_ring_add_set(uint64_t set, struct pen_text *out)
{
    const char *comma = "";
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (pen_ring_has(set, i)) {
            pen_text_add(out, "%s%" PRIu32, comma, i);
            comma = ", ";
        }
    pen_text_add_string(out, set == 0 ? "none" : "");
}

bool pen_ring_is_most(uint64_t set, uint64_t of)
{
    return 2 * pen_ring_count(set & of) > pen_ring_count(of);
}

bool pen_ring_same_hash(const struct pen_ring_hash *a,
                        const struct pen_ring_hash *b)
{
    return memcmp(a->words, b->words, sizeof a->words) == 0;
}

bool pen_ring_same_offer(const struct pen_ring_offer *a,
                         const struct pen_ring_offer *b)
{
    return a->first == b->first && a->last == b->last &&
           a->tokens == b->tokens && a->num_fragments == b->num_fragments &&
           pen_ring_same_hash(&a->hash, &b->hash);
}

void pen_ring_limits_init(struct pen_ring_limits *limits, int64_t patience)
{
    *limits = (struct pen_ring_limits){.patience = patience,
                                       .beat = patience / 10,
                                       .grace_least = patience / 20,
                                       .grace_most = patience / 2,
                                       .proposal = patience / 2,
                                       .lease = patience / 2};
}

struct pen_ring_action *pen__ring_add(struct pen_ring_actions *actions,
                                      enum pen_ring_action_kind kind)
{
    PEN_BUG_UNLESS(actions->count < PEN_RING_MOST_ACTIONS);
    struct pen_ring_action *action = &actions->list[actions->count++];
    action->kind = kind;
    return action;
}
