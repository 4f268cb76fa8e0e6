#include "cli/train/ring.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/program/program.h"
#include "cli/train/checkpoint.h"
#include "cli/train/signals.h"
#include "runtime/transport.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define APART_BYTES (64 << 10) /* blocks that have pages of their own */

/* ---- which island this is ---- */

static void find_keys(const char *key, const char *keys, struct pen_text *out)
{
    const char *slash = strrchr(key, '/');
    if (keys != NULL)
        pen_text_add_string(out, keys);
    else
        pen_text_add(out, "%.*skeys",
                     slash == NULL ? 0 : (int)(slash + 1 - key), key);
}

static pen_status identify(struct pen__train_ring *ring,
                           const struct pen__train_args *args,
                           struct pen_ring_identity *out, struct pen_text *why)
{
    pen_status status = pen_ring_identify(
        args->key, pen_text_string(&ring->keys), args->island, out, why);
    if (status == PEN_OK && !args->is_check)
        status = pen_file_make_folder(args->save, 0777, why);
    return status == PEN_OK && !args->is_check
               ? pen_file_make_folder(pen_text_string(&ring->folder), 0700, why)
               : status;
}

static void print_limits(const struct pen__train_ring *ring,
                         const struct pen__train_args *args)
{
    struct pen_ring_limits limits;
    pen_ring_limits_init(&limits, args->patience_ns);
    pen_log(PEN_LOG_INFO,
            "island %" PRIu32 " of %" PRIu32
            ", ring at %s. Patience %.3g s: sign of life every %.3g s, grace "
            "%.3g to %.3g s, a proposal is void after %.3g s, another "
            "coordinator is tried after %.3g s",
            ring->island.number, ring->island.count, args->ring,
            1e-9 * (double)limits.patience, 1e-9 * (double)limits.beat,
            1e-9 * (double)limits.grace_least, 1e-9 * (double)limits.grace_most,
            1e-9 * (double)limits.proposal, 1e-9 * (double)limits.lease);
}

pen_status pen__train_ring_find(struct pen__train_ring *ring,
                                const struct pen__train_args *args,
                                struct pen_transport *transport,
                                struct pen_text *why)
{
    struct pen_ring_identity own = {0, 0};
    bool is_first = pen_transport_rank(transport) == 0;
    pen_status status = PEN_OK;
    if (args->ring == NULL)
        return PEN_OK;
    find_keys(args->key, args->keys, &ring->keys);
    pen_text_add(&ring->folder, "%s/island", args->save);
    if (is_first)
        status = identify(ring, args, &own, why);
    pen_status shared = pen_transport_share(transport, &own, sizeof own);
    if (shared != PEN_OK || status != PEN_OK)
        return shared != PEN_OK ? shared : status;
    if (!is_first && !args->is_check) /* on another node */
        status =
            pen_file_make_folder(pen_text_string(&ring->folder), 0700, why);
    ring->island =
        (struct pen_island){.count = own.count,
                            .number = own.number,
                            .is_folding = args->late == PEN__LATE_FOLD,
                            .folder = pen_text_string(&ring->folder),
                            .ring = is_first ? &ring->hooks : NULL,
                            .why = &ring->why};
    if (is_first)
        print_limits(ring, args);
    return status;
}

void pen__train_ring_release(struct pen__train_ring *ring)
{
    pen__ring_member_free(ring->member);
    pen_text_release(&ring->keys);
    pen_text_release(&ring->folder);
    pen_text_release(&ring->why);
    *ring = (struct pen__train_ring){.member = NULL};
}

/* ---- what all islands have in common ---- */

/* Options that may differ between islands, in addition to those that may change
 * when a run is resumed; then exceptions to the latter, which must be the same.
 */
static const char *const own_options[] = {"data-path", "token-ids", "threads",
                                          "run", NULL};
static const char *const common_options[] = {
    "train-iters", "sync", "sync-interval", "sync-option", NULL};

static bool is_among(const char *const *names, const char *name)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static char *print_common(const struct pen__train_args *args)
{
    json_t *settings = pen__train_args_print(args);
    json_t *common = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(settings, name, value)
    {
        bool is_free =
            pen__train_is_free(name) && !is_among(common_options, name);
        if (!is_free && !is_among(own_options, name))
            json_object_set(common, name, value);
    }
    char *text = json_dumps(common, JSON_SORT_KEYS);
    json_decref(settings);
    json_decref(common);
    return text;
}

static pen_status make_config(struct pen__train_ring *ring,
                              const struct pen__train_ring_facts *facts,
                              struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    char hash[PEN_HASH_SIZE];
    char *settings = print_common(facts->args);
    if (settings == NULL)
        return PEN_NOMEM;
    pen_text_add(&text, "%s\n%" PRIu32 " %" PRIu64 "\n%s\n",
                 pen__program_version(), ring->island.count,
                 pen_batches_epoch(facts->batches), settings);
    free(settings);
    pen_any_model_print(facts->model, PEN_DTYPE_F32, &text);
    pen_status status =
        text.has_failed
            ? PEN_NOMEM
            : pen_hash_bytes(pen_text_string(&text), text.length, hash, why);
    for (size_t i = 0; i < sizeof ring->config && status == PEN_OK; i++) {
        const char digits[3] = {hash[2 * i], hash[2 * i + 1], '\0'};
        ring->config[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    pen_text_release(&text);
    return status;
}

/* ---- for the island ---- */

/*
 * Contributions come and go while steps compute. Where they have pages of their
 * own, memory is what is in use, not the holes between; steps allocate nothing.
 */
static void keep_blocks_apart(void)
{
#ifdef M_MMAP_THRESHOLD
    (void)mallopt(M_MMAP_THRESHOLD, APART_BYTES);
#endif
}

static pen_status open_ring(void *context,
                            const struct pen_islands_model *model,
                            const float *theta, struct pen_text *why)
{
    struct pen__train_ring *ring = context;
    keep_blocks_apart();
    return pen__ring_member_create(&ring->options, model, theta, &ring->member,
                                   why);
}

static void offer(void *context, const struct pen_island_turn *turn,
                  const void *bytes, size_t length)
{
    const struct pen__train_ring *ring = context;
    pen__ring_member_offer(ring->member, turn, bytes, length);
}

static bool has_turn(void *context)
{
    const struct pen__train_ring *ring = context;
    return pen__ring_member_has_turn(ring->member) ||
           pen__train_signal_to_stop() != 0;
}

static pen_status take(void *context, struct pen_island_turn *out, float *state,
                       struct pen_text *why)
{
    const struct pen__train_ring *ring = context;
    if (!pen__ring_member_has_turn(ring->member)) {
        *out = (struct pen_island_turn){.is_ending = true};
        return PEN_OK;
    }
    return pen__ring_member_take(ring->member, out, state, why);
}

pen_status pen__train_ring_describe(struct pen__train_ring *ring,
                                    const struct pen__train_ring_facts *facts,
                                    struct pen_text *why)
{
    const struct pen__train_args *args = facts->args;
    if (ring->island.count == 0)
        return PEN_OK;
    ring->hooks = (struct pen_island_ring){.context = ring,
                                           .open = open_ring,
                                           .offer = offer,
                                           .has_turn = has_turn,
                                           .take = take};
    ring->options = (struct pen__ring_member_options){
        .ring = {.key = args->key,
                 .keys = pen_text_string(&ring->keys),
                 .folder = pen_text_string(&ring->folder),
                 .address = args->ring,
                 .config = ring->config,
                 .patience = args->patience_ns},
        .num_rounds = args->train_iters / pen_islands_steps(facts->choice),
        .step_tokens = args->replica_batch *
                       pen_batches_shape(facts->batches).num_targets};
    return make_config(ring, facts, why);
}

const struct pen_island *
pen__train_ring_island(const struct pen__train_ring *ring)
{
    return ring->island.count == 0 ? NULL : &ring->island;
}

void pen__train_ring_explain(struct pen__train_ring *ring, struct pen_text *why)
{
    if (ring->why.length > 0 && why->length == 0)
        pen_why(why, "%s", pen_text_string(&ring->why));
}

void pen__train_ring_leave(struct pen__train_ring *ring)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    if (ring->member == NULL || pen__ring_member_has_left(ring->member))
        return;
    pen_log(PEN_LOG_INFO, "all rounds are committed; this island stays until "
                          "the others hold them, too (Ctrl-C ends it now)");
    while (!pen__ring_member_has_left(ring->member) &&
           pen__train_signal_to_stop() == 0)
        nanosleep(&pause, NULL);
}
