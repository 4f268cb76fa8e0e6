/* Steps in the memory of ranks that are gone; commits.h has why one is whole.
 */
#include "base/log.h"
#include "checkpoint/snapshot.h"
#include "runtime/commits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TRIES = 8 };

/* A step of an epoch, that rank 0 proposes; 0: there is none. */
struct proposal {
    uint64_t epoch;
    uint64_t step;
    uint32_t num_ranks;
    uint32_t unused;
};

/* ---- choosing, on rank 0 ---- */

static pen_status list_all(struct pen_holder_client *client,
                           struct pen_holder_message **out, uint32_t *count,
                           struct pen_text *why)
{
    struct pen_holder_message entry;
    pen_status status = pen_holder_list(client, 0, &entry, why);
    if (status != PEN_OK)
        return status;
    struct pen_holder_message *list = calloc(entry.count + 1, sizeof *list);
    if (list == NULL)
        return PEN_NOMEM;
    *count = 0;
    for (uint32_t i = 0, most = entry.count; i < most && status == PEN_OK;
         i++) {
        status = pen_holder_list(client, i, &list[i], why);
        *count += status == PEN_OK && i < list[i].count;
    }
    if (status == PEN_OK)
        *out = list;
    else
        free(list);
    return status;
}

static bool is_whole(const struct pen_holder_message *list, uint32_t count,
                     const struct proposal *wanted)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += list[i].epoch == wanted->epoch &&
                 list[i].num_ranks == wanted->num_ranks &&
                 (list[i].steps[0] == wanted->step ||
                  list[i].steps[1] == wanted->step);
    return found == wanted->num_ranks;
}

static bool is_among(const struct proposal *list, int count,
                     const struct proposal *wanted)
{
    for (int i = 0; i < count; i++)
        if (list[i].epoch == wanted->epoch && list[i].step == wanted->step)
            return true;
    return false;
}

/* The newest that was not refused yet. */
static struct proposal choose(const struct pen_holder_message *list,
                              uint32_t count, const struct proposal *refused,
                              int num_refused)
{
    struct proposal best = {0};
    for (uint32_t i = 0; i < count; i++)
        for (int slot = 0; slot < 2; slot++) {
            struct proposal it = {.epoch = list[i].epoch,
                                  .step = list[i].steps[slot],
                                  .num_ranks = list[i].num_ranks};
            bool is_later = it.step > best.step ||
                            (it.step == best.step && it.epoch > best.epoch);
            if (list[i].rank == 0 && it.step > 0 && is_later &&
                is_whole(list, count, &it) &&
                !is_among(refused, num_refused, &it))
                best = it;
        }
    return best;
}

static pen_status propose(struct pen_holder_client *client, uint64_t from,
                          const struct proposal *refused, int num_refused,
                          struct proposal *out, struct pen_text *why)
{
    struct pen_holder_message *list = NULL;
    uint32_t count = 0;
    pen_status status = list_all(client, &list, &count, why);
    if (status != PEN_OK)
        return status;
    *out = choose(list, count, refused, num_refused);
    if (out->step < from)
        *out = (struct proposal){0};
    free(list);
    return PEN_OK;
}

/* ---- opening, on every rank ---- */

static void name_damaged(const struct proposal *proposal, uint32_t rank)
{
    pen_log(PEN_LOG_WARN,
            "step %" PRIu64 " in the memory of rank %" PRIu32
            " of epoch %" PRIu64 " is damaged and is not used",
            proposal->step, rank, proposal->epoch);
}

/* Shard `number` of the proposal; its own part of them a rank verifies. */
static bool open_shard(struct pen_kept *kept, struct pen_holder_client *client,
                       const struct proposal *proposal, uint32_t number,
                       bool is_verified, struct pen_snapshot_block *out)
{
    struct pen_shard *shard = &kept->shards[number];
    struct pen_shard_about about;
    uint32_t slot;
    if (pen_holder_fetch(client, proposal->epoch, number, shard, NULL) !=
        PEN_OK)
        return false;
    pen_shard_describe(shard, &about);
    if (!pen_shard_find(shard, proposal->step, &slot))
        return false;
    if (is_verified && !pen_shard_verify(shard, slot)) {
        name_damaged(proposal, number);
        return false;
    }
    *out = (struct pen_snapshot_block){pen_shard_slot(shard, slot),
                                       (size_t)about.slot_bytes};
    return true;
}

static pen_status open_shards(struct pen_kept *kept,
                              struct pen_holder_client *client,
                              const struct proposal *proposal,
                              struct pen_snapshot_block *blocks)
{
    kept->shards = calloc(proposal->num_ranks, sizeof *kept->shards);
    if (kept->shards == NULL)
        return PEN_NOMEM;
    kept->count = proposal->num_ranks;
    for (uint32_t i = 0; i < kept->count; i++)
        kept->shards[i] = PEN_SHARD_NONE;
    for (uint32_t i = 0; i < kept->count; i++)
        if (!open_shard(kept, client, proposal, i,
                        i % client->num_ranks == client->rank, &blocks[i]))
            return PEN_DAMAGED;
    return PEN_OK;
}

static pen_status open_all(struct pen_kept *kept,
                           struct pen_holder_client *client,
                           const struct proposal *proposal,
                           struct pen_text *why)
{
    char name[80];
    struct pen_snapshot_block *blocks =
        calloc(proposal->num_ranks, sizeof *blocks);
    pen_status status = blocks == NULL
                            ? PEN_NOMEM
                            : open_shards(kept, client, proposal, blocks);
    snprintf(name, sizeof name, "the memory of epoch %" PRIu64,
             proposal->epoch);
    if (status == PEN_OK)
        status = pen_checkpoint_open_blocks(blocks, kept->count, name,
                                            &kept->checkpoint, why);
    if (status == PEN_OK && kept->checkpoint->manifest.step != proposal->step)
        status = PEN_DAMAGED;
    free(blocks);
    return status;
}

void pen_kept_release(struct pen_kept *kept)
{
    pen_checkpoint_close(kept->checkpoint);
    for (uint32_t i = 0; i < kept->count; i++)
        pen_shard_close(&kept->shards[i]);
    free(kept->shards);
    *kept = (struct pen_kept){.shards = NULL};
}

/* *num_failed: ranks that could not open it. */
static pen_status try_proposal(struct pen_kept *kept,
                               struct pen_holder_client *client,
                               struct pen_transport *transport,
                               const struct proposal *proposal,
                               double *num_failed)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_request request = {.is_active = false};
    *num_failed = open_all(kept, client, proposal, &reason) != PEN_OK;
    if (reason.length > 0)
        pen_log(PEN_LOG_WARN, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    pen_transport_sum(transport, num_failed, 1, &request);
    return pen_transport_wait(transport, &request);
}

pen_status pen_kept_open(struct pen_kept *kept,
                         struct pen_holder_client *client,
                         struct pen_transport *transport, uint64_t from,
                         struct pen_text *why)
{
    struct proposal refused[MOST_TRIES];
    *kept = (struct pen_kept){.shards = NULL};
    for (int i = 0; i < MOST_TRIES; i++) {
        struct proposal proposal = {0};
        pen_status status = PEN_OK;
        double num_failed;
        if (pen_transport_rank(transport) == 0)
            status = propose(client, from, refused, i, &proposal, why);
        pen_status shared =
            pen_transport_share(transport, &proposal, sizeof proposal);
        if (shared != PEN_OK)
            return shared;
        if (proposal.step == 0)
            return status;
        shared = try_proposal(kept, client, transport, &proposal, &num_failed);
        if (shared != PEN_OK)
            return shared;
        if (num_failed == 0) /* NOLINT(clang-diagnostic-float-equal) */
            return PEN_OK;
        pen_kept_release(kept);
        refused[i] = proposal;
    }
    return PEN_OK;
}
