/* Steps in the memory of ranks that are gone; commits.h has why one is whole.
 */
#include "base/log.h"
#include "checkpoint/snapshot.h"
#include "runtime/kept_spread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TRIES = 8 };

/* ---- choosing, on rank 0 ---- */

/* Whether the shard of each rank is there, on some node. */
static bool is_whole(const struct pen__kept_list *list,
                     const struct pen__kept_proposal *wanted)
{
    uint32_t found = 0;
    char *is_there = calloc(wanted->num_ranks, 1);
    for (uint32_t i = 0; is_there != NULL && i < list->count; i++)
        if (pen__kept_has(&list->entries[i], wanted)) {
            found += is_there[list->entries[i].rank] == 0;
            is_there[list->entries[i].rank] = 1;
        }
    free(is_there);
    return found == wanted->num_ranks;
}

static bool is_among(const struct pen__kept_proposal *list, int count,
                     const struct pen__kept_proposal *wanted)
{
    for (int i = 0; i < count; i++)
        if (list[i].epoch == wanted->epoch && list[i].step == wanted->step)
            return true;
    return false;
}

/* The newest proposal that was not refused yet. */
static struct pen__kept_proposal
choose(const struct pen__kept_list *list, uint64_t from,
       const struct pen__kept_proposal *refused, int num_refused)
{
    struct pen__kept_proposal best = {0};
    for (uint32_t i = 0; i < list->count; i++)
        for (int slot = 0; slot < 2; slot++) {
            const struct pen__kept_entry *entry = &list->entries[i];
            struct pen__kept_proposal it = {.epoch = entry->epoch,
                                            .step = entry->steps[slot],
                                            .num_ranks = entry->num_ranks};
            bool is_later = it.step > best.step ||
                            (it.step == best.step && it.epoch > best.epoch);
            if (entry->rank == 0 && it.step > 0 && it.step >= from &&
                is_later && is_whole(list, &it) &&
                !is_among(refused, num_refused, &it))
                best = it;
        }
    return best;
}

/* ---- opening, on every rank ---- */

static void name_damaged(const struct pen__kept_proposal *proposal,
                         uint32_t rank)
{
    pen_log(PEN_LOG_WARN,
            "step %" PRIu64 " in the memory of rank %" PRIu32
            " of epoch %" PRIu64 " is damaged and is not used",
            proposal->step, rank, proposal->epoch);
}

/*
 * Opens shard `number` of the proposal; each rank verifies a part of the
 * shards.
 */
static bool open_shard(struct pen_kept *kept, struct pen_holder_client *client,
                       const struct pen__kept_proposal *proposal,
                       uint32_t number, bool is_verified,
                       struct pen_snapshot_block *out)
{
    struct pen_shard *shard = &kept->shards[number];
    struct pen_shard_about about;
    uint32_t slot;
    if (pen_holder_fetch(client, proposal->epoch, number, proposal->step, shard,
                         NULL) != PEN_OK)
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
                              const struct pen__kept_proposal *proposal,
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
                           const struct pen__kept_proposal *proposal,
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

/*
 * Tries a proposal on all ranks; *num_failed is the number of those that
 * failed.
 */
static pen_status try_proposal(struct pen_kept *kept,
                               const struct pen_kept_options *options,
                               const struct pen__kept_list *list,
                               const struct pen__kept_proposal *proposal,
                               double *num_failed)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_request request = {.is_active = false};
    pen_status status = pen__kept_spread(options, list, proposal, &reason);
    if (status == PEN_LOST)
        return status;
    *num_failed = status != PEN_OK ||
                  open_all(kept, options->client, proposal, &reason) != PEN_OK;
    if (reason.length > 0)
        pen_log(PEN_LOG_WARN, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    pen_transport_sum(options->transport, num_failed, 1, &request);
    return pen_transport_wait(options->transport, &request);
}

static pen_status try_all(struct pen_kept *kept,
                          const struct pen_kept_options *options,
                          const struct pen__kept_list *list)
{
    struct pen__kept_proposal refused[MOST_TRIES];
    for (int i = 0; i < MOST_TRIES; i++) {
        struct pen__kept_proposal proposal = {0};
        double num_failed;
        if (pen_transport_rank(options->transport) == 0)
            proposal = choose(list, options->from, refused, i);
        pen_status status =
            pen_transport_share(options->transport, &proposal, sizeof proposal);
        if (status != PEN_OK || proposal.step == 0)
            return status;
        status = try_proposal(kept, options, list, &proposal, &num_failed);
        if (status != PEN_OK)
            return status;
        if (num_failed == 0) /* NOLINT(clang-diagnostic-float-equal) */
            return PEN_OK;
        pen_kept_release(kept);
        refused[i] = proposal;
    }
    return PEN_OK;
}

pen_status pen_kept_open(struct pen_kept *kept,
                         const struct pen_kept_options *options,
                         struct pen_text *why)
{
    struct pen__kept_list list = {.count = 0};
    *kept = (struct pen_kept){.shards = NULL};
    pen_status listed = pen__kept_gather(options, &list, why);
    pen_status status =
        listed == PEN_LOST ? listed : try_all(kept, options, &list);
    free(list.entries);
    return listed != PEN_OK ? listed : status;
}
