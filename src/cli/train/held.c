#include "cli/train/held.h"

#include "base/log.h"
#include "cli/train/checkpoint.h"

#include <inttypes.h>

/* ---- the holder ---- */

pen_status pen__train_held_connect(struct pen__train_held *held,
                                   const struct pen_transport *transport,
                                   struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_holder_find(&held->path, &held->epoch, why);
    if (status != PEN_OK || held->path == NULL)
        return status;
    status = pen_holder_connect(
        held->path, held->epoch, pen_transport_rank(transport),
        pen_transport_size(transport), &held->client, &reason);
    if (status == PEN_IO) { /* none on this node: steps are on disk only */
        pen_log(PEN_LOG_WARN, "%s", pen_text_string(&reason));
        status = PEN_OK;
    }
    if (status != PEN_OK)
        pen_why(why, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

static pen_status count_holders(struct pen__train_held *held,
                                struct pen_transport *transport)
{
    struct pen_request request = {.is_active = false};
    double count = held->client.socket >= 0;
    uint32_t size = pen_transport_size(transport);
    pen_transport_sum(transport, &count, 1, &request);
    pen_status status = pen_transport_wait(transport, &request);
    held->is_everywhere = status == PEN_OK && (uint32_t)count == size;
    if (status == PEN_OK && !held->is_everywhere &&
        pen_transport_rank(transport) == 0)
        pen_log(PEN_LOG_WARN,
                "%" PRIu32 " of %" PRIu32 " ranks have no holder on their "
                "node: no step is kept in memory, and a restart resumes from "
                "the last checkpoint of --save",
                size - (uint32_t)count, size);
    return status;
}

/* ---- what there is on disk ---- */

/*
 * The step of the run's folder that a restart resumes from; 0: none. The first
 * launch takes steps of the very same command: its supervisor was restarted.
 */
static pen_status find_on_disk(const struct pen__train_held *held,
                               const struct pen__train_args *args,
                               uint64_t *step, struct pen_text *why)
{
    struct pen_manifest manifest;
    struct pen_text path = PEN_TEXT_EMPTY;
    *step = 0;
    if (args->save == NULL || (held->epoch == 1 && args->load != NULL) ||
        pen_checkpoint_kind_of(args->save) != PEN_CHECKPOINT_RUN)
        return PEN_OK;
    pen_status status =
        pen_checkpoint_load_manifest(args->save, &manifest, &path, why);
    if (status != PEN_OK)
        return status;
    if (held->epoch > 1 || pen__train_is_same_command(args, &manifest))
        *step = manifest.step;
    pen_manifest_release(&manifest);
    pen_text_release(&path);
    return PEN_OK;
}

/* ---- the whole ---- */

pen_status pen__train_held_find(struct pen__train_held *held,
                                const struct pen__train_args *args,
                                const struct pen_checkpoint *loaded,
                                struct pen_transport *transport,
                                struct pen_checkpoint **out,
                                struct pen_text *why)
{
    uint64_t on_disk = 0;
    uint64_t from = loaded == NULL ? 0 : loaded->manifest.step;
    if (held->path == NULL)
        return PEN_OK;
    pen_status status = count_holders(held, transport);
    if (status != PEN_OK)
        return status;
    pen_status found = find_on_disk(held, args, &on_disk, why);
    if (on_disk > from)
        from = on_disk;
    if (held->is_everywhere)
        status =
            pen_kept_open(&held->kept, &held->client, transport, from, why);
    if (status != PEN_OK || found != PEN_OK)
        return status != PEN_OK ? status : found;
    held->is_unsaved = held->kept.checkpoint != NULL;
    if (held->is_unsaved)
        *out = held->kept.checkpoint;
    else if (on_disk > 0)
        status = pen_checkpoint_open(args->save, NULL, out, why);
    return status;
}

pen_status pen__train_held_missed(struct pen__train_held *held,
                                  struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    uint32_t rank = held->client.rank;
    uint32_t num_ranks = held->client.num_ranks;
    pen_holder_leave(&held->client);
    pen_status status = pen_holder_connect(held->path, held->epoch, rank,
                                           num_ranks, &held->client, &reason);
    if (status == PEN_INVALID) {
        pen_why(why, "%s", pen_text_string(&reason));
    } else {
        pen_log(PEN_LOG_WARN,
                "the holder of steps in memory is gone: a restart resumes from "
                "the last checkpoint of --save");
        status = PEN_OK;
    }
    pen_text_release(&reason);
    return status;
}

void pen__train_held_drop(struct pen__train_held *held)
{
    pen_kept_release(&held->kept);
}

void pen__train_held_release(struct pen__train_held *held)
{
    pen_kept_release(&held->kept);
    pen_holder_leave(&held->client);
}
