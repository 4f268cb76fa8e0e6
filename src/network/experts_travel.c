/*
 * Rows on their way to the ranks that have their experts, and back; see
 * experts.h. Members first exchange how many rows come for each expert:
 *
 *   copies, by expert   | of member 0 | of member 1 | ...      at their source
 *                              |             |
 *   arrivals, by source | of member 0 ---- | of member 1 ---- | ...
 *
 * A source has room for the most rows that it may send, so that nothing depends
 * on what the routers choose.
 */
#include "network/experts.h"

#include "base/bug.h"

#include <string.h>

/* The first row that goes to the experts of a member, and how many do. */
static size_t leave_for(const struct pen__experts *self,
                        const struct pen__experts_pass *pass, uint32_t member,
                        size_t *count)
{
    const int32_t *tokens = pen__at(pass->stash, self->tokens);
    size_t first = 0;
    for (uint32_t e = 0; e < member * self->num_owned; e++)
        first += (size_t)tokens[e];
    *count = 0;
    for (uint32_t e = 0; e < self->num_owned; e++)
        *count += (size_t)tokens[member * self->num_owned + e];
    return first;
}

size_t pen__experts_arrived(const struct pen__experts *self,
                            const struct pen__experts_pass *pass,
                            uint32_t source)
{
    const int32_t *counts = pen__experts_seen(self, pass, self->arrivals);
    size_t sum = 0;
    for (uint32_t e = 0; e < self->num_owned; e++)
        sum += (size_t)counts[source * self->num_owned + e];
    PEN_BUG_UNLESS(sum <= self->room);
    return sum;
}

/* ---- messages ---- */

static bool have_come(void *context)
{
    const struct pen__experts *self = context;
    return pen_group_is_done(self->group, self->requests, self->num_posted);
}

static void send(struct pen__experts *self, uint32_t to, const void *bytes,
                 size_t length)
{
    if (length > 0)
        pen_group_send(self->group, to, 0, bytes, length,
                       &self->requests[self->num_posted++]);
}

static void receive(struct pen__experts *self, uint32_t from, void *bytes,
                    size_t length)
{
    if (length > 0)
        pen_group_receive(self->group, from, 0, bytes, length,
                          &self->requests[self->num_posted++]);
}

static void await(struct pen__experts *self)
{
    pen_group_wait(self->group, have_come, self);
    self->num_posted = 0;
}

/* Exchanges the numbers of rows. After a loss, those of others are not read. */
void pen__experts_tell_counts(struct pen__experts *self,
                              const struct pen__experts_pass *pass)
{
    const int32_t *tokens = pen__at(pass->stash, self->tokens);
    int32_t *arrivals = pen__at(pass->stash, self->arrivals);
    uint32_t own = self->group->self;
    size_t each = self->num_owned, bytes = each * sizeof *tokens;
    memset(arrivals, 0, self->num_sources * bytes);
    for (uint32_t k = 0; k < self->num_sources; k++) {
        if (k == own)
            continue;
        receive(self, k, arrivals + k * each, bytes);
        send(self, k, tokens + k * each, bytes);
    }
    await(self);
    if (pen_group_status(self->group) != PEN_OK)
        memset(arrivals, 0, self->num_sources * bytes);
    memcpy(arrivals + own * each, tokens + own * each, bytes);
}

/* Posts the messages between here and a member. */
static void post(struct pen__experts *self,
                 const struct pen__experts_pass *pass, uint32_t member,
                 const struct pen__journey *journey, bool is_back)
{
    size_t leaving;
    size_t first = leave_for(self, pass, member, &leaving);
    size_t coming = pen__experts_arrived(self, pass, member);
    char *local = pen__at(journey->local, first * journey->bytes);
    char *here = pen__at(journey->here, member * self->room * journey->bytes);
    leaving *= journey->bytes;
    coming *= journey->bytes;
    if (member == self->group->self) {
        memcpy(is_back ? local : here, is_back ? here : local, leaving);
    } else if (is_back) {
        receive(self, member, local, leaving);
        send(self, member, here, coming);
    } else {
        receive(self, member, here, coming);
        send(self, member, local, leaving);
    }
}

void pen__experts_travel(struct pen__experts *self,
                         const struct pen__experts_pass *pass,
                         const struct pen__journey *journeys, size_t count,
                         bool is_back)
{
    PEN_BUG_UNLESS(count <= PEN__MOST_JOURNEYS);
    for (uint32_t k = 0; k < self->num_sources; k++)
        for (size_t i = 0; i < count; i++)
            post(self, pass, k, &journeys[i], is_back);
    await(self);
}
