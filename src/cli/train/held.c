#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): environ */
#include "cli/train/held.h"

#include "base/log.h"
#include "cli/program/program.h"
#include "cli/train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the holder ---- */

/* This program is the holder, too, as `penstock hold`. */
static bool run_holder(const char *path)
{
    int status = -1;
    pid_t pid;
    struct pen_text program = PEN_TEXT_EMPTY;
    pen__program_find(&program);
    char *words[] = {program.bytes, (char *)"hold", (char *)path, NULL};
    if (program.length > 0 &&
        posix_spawn(&pid, program.bytes, NULL, NULL, words, environ) == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            continue;
    pen_text_release(&program);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/*
 * Launchers do not give the environment to all nodes: the first rank that has
 * the settings gives them to the others.
 */
static pen_status share_settings(struct pen__train_held *held,
                                 struct pen_transport *transport)
{
    struct pen_request request = {.is_active = false};
    const struct pen_tag tag = {PEN_TAG_STATE, 0};
    struct pen_holder_settings *settings = &held->settings;
    uint32_t self = pen_transport_rank(transport), source = 0;
    uint32_t size = pen_transport_size(transport);
    double *known = calloc(size, sizeof *known);
    if (known == NULL)
        return PEN_NOMEM;
    known[self] = settings->epoch > 0;
    pen_transport_sum(transport, known, size, &request);
    pen_status status = pen_transport_wait(transport, &request);
    while (source < size && known[source] < 1)
        source++;
    free(known);
    if (status != PEN_OK || source == size)
        return status;
    if (source > 0 && self == source)
        pen_transport_send(transport, 0, tag, settings, sizeof *settings,
                           &request);
    else if (source > 0 && self == 0)
        pen_transport_receive(transport, source, tag, settings,
                              sizeof *settings, &request);
    status = pen_transport_wait(transport, &request);
    return status == PEN_OK
               ? pen_transport_share(transport, settings, sizeof *settings)
               : status;
}

/* Starts holders on nodes that are not the supervisor's. */
static pen_status start_holders(struct pen__train_held *held,
                                struct pen_transport *transport)
{
    uint32_t first = pen_node_map_pick(&held->nodes, held->nodes.own, 0);
    if (held->place.is_distant && pen_transport_rank(transport) == first &&
        !run_holder(pen_text_string(&held->place.path)))
        pen_log(PEN_LOG_WARN, "cannot start a holder of steps in memory");
    return held->nodes.num_nodes > 1 ? pen_transport_meet(transport) : PEN_OK;
}

static pen_status connect_holder(struct pen__train_held *held,
                                 const struct pen_transport *transport,
                                 struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_holder_connect(
        pen_text_string(&held->place.path), held->settings.epoch,
        pen_transport_rank(transport), pen_transport_size(transport),
        &held->client, &reason);
    if (status == PEN_IO) { /* none on this node: steps are on disk only */
        pen_log(PEN_LOG_WARN, "%s", pen_text_string(&reason));
        status = PEN_OK;
    }
    if (status != PEN_OK)
        pen_why(why, "%s", pen_text_string(&reason));
    pen_text_release(&reason);
    return status;
}

pen_status pen__train_held_connect(struct pen__train_held *held,
                                   struct pen_transport *transport,
                                   struct pen_text *why)
{
    pen_status status = pen_holder_settings_read(&held->settings, why);
    if (status == PEN_OK)
        status = share_settings(held, transport);
    if (status != PEN_OK || held->settings.epoch == 0)
        return status;
    status = pen_holder_place_find(&held->settings, &held->place);
    if (status == PEN_OK)
        status = pen_node_map_init(&held->nodes, transport, held->place.node);
    if (status == PEN_OK)
        status = start_holders(held, transport);
    return status == PEN_OK ? connect_holder(held, transport, why) : status;
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
    if (args->save == NULL ||
        (held->settings.epoch == 1 && args->load != NULL) ||
        pen_checkpoint_kind_of(args->save) != PEN_CHECKPOINT_RUN)
        return PEN_OK;
    pen_status status =
        pen_checkpoint_load_manifest(args->save, &manifest, &path, why);
    if (status != PEN_OK)
        return status;
    if (held->settings.epoch > 1 || pen__train_is_same_command(args, &manifest))
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
    if (held->settings.epoch == 0)
        return PEN_OK;
    pen_status status = count_holders(held, transport);
    if (status != PEN_OK)
        return status;
    pen_status found = find_on_disk(held, args, &on_disk, why);
    if (on_disk > from)
        from = on_disk;
    if (held->is_everywhere) {
        const struct pen_kept_options options = {.client = &held->client,
                                                 .transport = transport,
                                                 .nodes = &held->nodes,
                                                 .from = from};
        status = pen_kept_open(&held->kept, &options, why);
    }
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
    pen_holder_leave(&held->client, false);
    pen_status status = pen_holder_connect(pen_text_string(&held->place.path),
                                           held->settings.epoch, rank,
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

void pen__train_held_release(struct pen__train_held *held, bool is_done)
{
    pen_kept_release(&held->kept);
    pen_holder_leave(&held->client, is_done);
    pen_node_map_release(&held->nodes);
    pen_holder_place_release(&held->place);
}
