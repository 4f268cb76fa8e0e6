#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): cpu_set_t */
#include "runtime/commits.h"

#include "base/clock.h"
#include "runtime/buddies.h"
#include "runtime/checkpoint_contents.h"
#include "runtime/trainer_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_SLACK 1024u /* numbers get longer during a run */

struct pen_commits {
    struct pen_commits_options options;
    struct pen__contents contents;
    struct pen_snapshot *snapshot; /* in the slot that was written last */
    struct pen_shard shard;
    struct pen_buddies *buddies;  /* NULL: there is one node */
    bool is_missed;               /* the holder is, with buddies */
    uint64_t step;                /* the newest one that counts; 0: none */
    struct pen_manifest manifest; /* of rank 0 */
    bool has_manifest;
    struct pen_text note; /* its text */
    uint32_t *checks;
    struct pen_copier_piece *pieces;
    size_t num_pieces;         /* 0: the engine's memory is not the host's */
    bool *transposed;          /* of the tensors; see snapshot.h */
    struct pen_copier *copier; /* NULL: a device copies */
    int num_threads;           /* of the engine, which help it */
    uint64_t slot_bytes;
    uint32_t slot;    /* that is written, or was last, with this step */
    uint64_t written; /* the step */
    pen_status told;  /* of the holder, of the last step; without buddies */
    uint64_t num_taken;
    int64_t stalled_ns; /* all together */
};

/* ---- the note of rank 0 ---- */

static bool is_leader(const struct pen_commits *commits)
{
    return commits->options.client->rank == 0;
}

static pen_status print_note(struct pen_commits *commits, struct pen_text *why)
{
    struct pen_trainer_progress progress =
        pen_trainer_progress(commits->options.trainer);
    commits->manifest.step = progress.steps;
    commits->manifest.sample = progress.samples;
    pen_text_clear(&commits->note);
    return pen_manifest_print(&commits->manifest, &commits->note, why);
}

static pen_status describe(struct pen_commits *commits, struct pen_text *why)
{
    if (!is_leader(commits))
        return PEN_OK;
    pen_status status = pen_manifest_init(&commits->manifest, why);
    commits->has_manifest = status == PEN_OK;
    if (status == PEN_OK)
        status = pen__contents_describe(
            &commits->contents, &commits->manifest, commits->options.run_id,
            commits->options.describe, commits->options.context, why);
    return status == PEN_OK ? print_note(commits, why) : status;
}

/* ---- making ---- */

/*
 * Makes room for the list of pieces of the engine's memory, which are copied as
 * they lie. Call it before the snapshot is made.
 */
static pen_status list_pieces(struct pen_commits *commits)
{
    const struct pen__contents *contents = &commits->contents;
    commits->num_pieces = pen__contents_num_pieces(contents);
    commits->pieces = calloc(commits->num_pieces + 1, sizeof *commits->pieces);
    commits->transposed =
        calloc(contents->count + 1, sizeof *commits->transposed);
    if (commits->pieces == NULL || commits->transposed == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < contents->count && commits->num_pieces > 0; i++)
        commits->transposed[i] = pen__contents_is_transposed(contents, i);
    return PEN_OK;
}

static pen_status make_shard(struct pen_commits *commits, struct pen_text *why)
{
    const struct pen_holder_client *client = commits->options.client;
    struct pen_shard_about about = {.epoch = client->epoch,
                                    .rank = client->rank,
                                    .num_ranks = client->num_ranks,
                                    .slot_bytes = commits->slot_bytes};
    const char *run = commits->options.run_id;
    memcpy(about.run, run, strnlen(run, sizeof about.run - 1));
    pen_status status = pen_shard_create(&about, &commits->shard, why);
    if (status == PEN_OK)
        status =
            pen_holder_offer(commits->options.client, &commits->shard, why);
    return status;
}

static pen_status make_buddies(struct pen_commits *commits,
                               struct pen_text *why)
{
    const struct pen_buddies_options options = {
        .transport = commits->options.transport,
        .nodes = commits->options.nodes,
        .client = commits->options.client,
        .shard = &commits->shard};
    if (options.nodes->num_nodes < 2)
        return PEN_OK;
    return pen_buddies_create(&options, &commits->buddies, why);
}

/*
 * Makes the copier, which may use the cores of all of the engine's threads,
 * though each of these may be bound to one.
 */
static pen_status make_copier(struct pen_commits *commits, struct pen_text *why)
{
    cpu_set_t before;
    cpu_set_t cores;
    int threads = commits->options.trainer->options.threads;
    commits->num_threads = threads > 1 ? threads : 1;
    CPU_ZERO(&cores);
#pragma omp parallel num_threads(commits->num_threads)
    {
        cpu_set_t own;
        CPU_ZERO(&own);
        (void)sched_getaffinity(0, sizeof own, &own);
#pragma omp critical
        CPU_OR(&cores, &cores, &own);
    }
    bool is_known = sched_getaffinity(0, sizeof before, &before) == 0;
    if (is_known) /* the thread inherits it */
        (void)sched_setaffinity(0, sizeof cores, &cores);
    pen_status status = pen_copier_create(&commits->copier, why);
    if (is_known)
        (void)sched_setaffinity(0, sizeof before, &before);
    return status;
}

static pen_status make(struct pen_commits *commits, struct pen_text *why)
{
    struct pen_trainer *trainer = commits->options.trainer;
    pen_status status = pen__contents_init(&commits->contents, trainer,
                                           is_leader(commits), why);
    if (status == PEN_OK)
        status = list_pieces(commits);
    if (status == PEN_OK)
        status = describe(commits, why);
    if (status != PEN_OK)
        return status;
    struct pen_snapshot_contents list = pen__contents_list(&commits->contents);
    list.transposed = commits->transposed;
    size_t note_bytes =
        is_leader(commits) ? commits->note.length + NOTE_SLACK : 0;
    status = pen_snapshot_plan(&list, note_bytes, &commits->snapshot, why);
    if (status != PEN_OK)
        return status;
    commits->slot_bytes = pen_snapshot_block_bytes(commits->snapshot);
    commits->checks = calloc(pen_shard_num_blocks(commits->slot_bytes) + 1,
                             sizeof *commits->checks);
    if (commits->checks == NULL)
        return PEN_NOMEM;
    if (commits->num_pieces > 0)
        status = make_copier(commits, why);
    if (status == PEN_OK)
        status = make_shard(commits, why);
    return status == PEN_OK ? make_buddies(commits, why) : status;
}

pen_status pen_commits_create(const struct pen_commits_options *options,
                              struct pen_commits **out, struct pen_text *why)
{
    struct pen_commits *commits = calloc(1, sizeof *commits);
    if (commits == NULL)
        return PEN_NOMEM;
    commits->options = *options;
    commits->shard = PEN_SHARD_NONE;
    pen_status status = make(commits, why);
    if (status == PEN_OK)
        *out = commits;
    else
        pen_commits_free(commits);
    return status;
}

void pen_commits_free(struct pen_commits *commits)
{
    if (commits == NULL)
        return;
    pen_copier_free(commits->copier);
    if (pen_buddies_free(commits->buddies))
        pen_shard_close(&commits->shard);
    pen_snapshot_free(commits->snapshot);
    pen__contents_release(&commits->contents);
    if (commits->has_manifest)
        pen_manifest_release(&commits->manifest);
    pen_text_release(&commits->note);
    free(commits->checks);
    free(commits->pieces);
    free(commits->transposed);
    free(commits);
}

size_t pen_commits_bytes(const struct pen_commits *commits)
{
    size_t copies =
        commits->buddies == NULL ? 0 : pen_buddies_bytes(commits->buddies);
    return pen_shard_bytes(commits->slot_bytes) + copies;
}

double pen_commits_seconds(const struct pen_commits *commits)
{
    return commits->num_taken == 0 ? 0
                                   : 1e-9 * (double)commits->stalled_ns /
                                         (double)commits->num_taken;
}

/* ---- a step ---- */

/* A device copies by itself, and its host checks what has arrived. */
static pen_status copy_from_device(struct pen_commits *commits,
                                   const void *slot)
{
    size_t num_blocks = pen_shard_num_blocks(commits->slot_bytes);
    pen_status status =
        pen__contents_copy(&commits->contents, commits->snapshot);
    for (size_t i = 0; i < num_blocks && status == PEN_OK; i++)
        commits->checks[i] =
            pen_shard_check_block(slot, commits->slot_bytes, i);
    return status;
}

/*
 * Reports the step to the holder. Where ranks have copies, all of them deal
 * with a lost holder together.
 */
static pen_status tell(struct pen_commits *commits)
{
    /* C1: with the second one of this rank all have their first. */
    bool drops_older = ++commits->num_taken > 1;
    if (commits->step == 0)
        return PEN_OK;
    pen_status status = pen_holder_tell_commit(commits->options.client,
                                               commits->step, drops_older);
    commits->is_missed = status == PEN_LOST;
    return commits->buddies != NULL && commits->is_missed ? PEN_OK : status;
}

/*
 * Called by the main thread or the copier's. The step counts now, unless copies
 * have to arrive first.
 */
static void end_step(void *context)
{
    struct pen_commits *commits = context;
    pen_shard_commit(&commits->shard, commits->slot, commits->written,
                     commits->checks);
    if (commits->buddies != NULL)
        return;
    commits->step = commits->written;
    commits->told = tell(commits);
}

static void finish_copy(struct pen_commits *commits)
{
#pragma omp parallel num_threads(commits->num_threads)
    pen_copier_help(commits->copier);
    pen_copier_finish(commits->copier);
}

/*
 * Whether the copier may run during the next step: the step must not change the
 * copied arrays before its vote. A copy for the next node needs a whole slot at
 * once.
 */
static bool overlaps(const struct pen_commits *commits)
{
    const struct pen_trainer *trainer = commits->options.trainer;
    return !trainer->is_asynchronous && !pen__trainer_goes_ahead(trainer) &&
           trainer->statistics == NULL && commits->buddies == NULL;
}

static pen_status copy(struct pen_commits *commits, void *slot)
{
    if (commits->copier == NULL) {
        pen_status status = copy_from_device(commits, slot);
        if (status == PEN_OK)
            end_step(commits);
        return status;
    }
    pen__contents_list_pieces(&commits->contents, commits->snapshot,
                              commits->pieces);
    const struct pen_copier_job job = {.slot = slot,
                                       .slot_bytes = commits->slot_bytes,
                                       .pieces = commits->pieces,
                                       .num_pieces = commits->num_pieces,
                                       .checks = commits->checks,
                                       .done = end_step,
                                       .context = commits};
    pen_copier_begin(commits->copier, &job);
    if (!overlaps(commits))
        finish_copy(commits);
    return PEN_OK;
}

/* Before the slot of N-1 changes, N must be on the next node, too. */
static pen_status finish_copies(struct pen_commits *commits)
{
    uint32_t num_missed = 0;
    if (commits->buddies == NULL)
        return PEN_OK;
    pen_status status = pen_buddies_finish(commits->buddies, commits->is_missed,
                                           &commits->step, &num_missed);
    return status == PEN_OK && num_missed > 0 ? PEN_LOST : status;
}

uint64_t pen_commits_finish(struct pen_commits *commits)
{
    int64_t begin_ns = pen_clock_ns();
    if (commits->copier != NULL)
        finish_copy(commits);
    commits->stalled_ns += pen_clock_ns() - begin_ns;
    return commits->step;
}

pen_status pen_commits_take(struct pen_commits *commits, struct pen_text *why)
{
    (void)pen_commits_finish(commits);
    int64_t begin_ns = pen_clock_ns();
    pen_status status =
        commits->told == PEN_OK ? finish_copies(commits) : commits->told;
    if (status == PEN_OK && is_leader(commits))
        status = print_note(commits, why);
    if (status != PEN_OK)
        return status;
    commits->slot = pen_shard_begin(&commits->shard);
    commits->written = pen_trainer_progress(commits->options.trainer).steps;
    void *bytes = pen_shard_slot(&commits->shard, commits->slot);
    pen_snapshot_use(commits->snapshot, bytes);
    if (is_leader(commits))
        pen_snapshot_set_note(commits->snapshot, commits->note.bytes,
                              commits->note.length);
    status = copy(commits, bytes);
    if (status == PEN_OK && commits->buddies != NULL) {
        pen_buddies_begin(commits->buddies, commits->slot);
        status = tell(commits);
    }
    commits->stalled_ns += pen_clock_ns() - begin_ns;
    return status;
}
