#include "cli/train/folder.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rank 0 sends this to the other ranks. */
struct claim {
    uint64_t has_failed;
    uint64_t step;            /* of the checkpoint that it has loaded */
    char hash[PEN_HASH_SIZE]; /* of that one's manifest; "": none */
    char run[PEN_RUN_ID_SIZE];
};

static void warn_without_lock(const char *folder)
{
    pen_log(PEN_LOG_WARN,
            "the file system of %s has no locks: a second job in the same "
            "folder is not refused at its start, only its checkpoints are",
            folder);
}

static pen_status lead(const struct pen__train_args *args,
                       const struct pen_checkpoint *loaded,
                       struct pen_run_folder *out, struct pen_text *why)
{
    if (args->save == NULL)
        return PEN_OK;
    pen_status status = pen_run_folder_claim(args->save, loaded, out, why);
    if (status == PEN_OK && !out->has_lock)
        warn_without_lock(args->save);
    return status;
}

/* Each rank opens the checkpoint for itself, and may see other files. */
static pen_status compare_loaded(const struct claim *first,
                                 const struct pen_checkpoint *loaded,
                                 uint32_t rank, struct pen_text *why)
{
    if (loaded == NULL || strcmp(loaded->manifest.hash, first->hash) == 0)
        return PEN_OK;
    pen_why(why,
            "rank %" PRIu32 " has loaded %s (step %" PRIu64
            "), rank 0 another checkpoint (step %" PRIu64
            "): name the step to load, and let all ranks see the same files",
            rank, pen_text_string(&loaded->path), loaded->manifest.step,
            first->step);
    return PEN_INVALID;
}

pen_status pen__train_folder_claim(const struct pen__train_args *args,
                                   const struct pen_checkpoint *loaded,
                                   struct pen_transport *transport,
                                   struct pen_run_folder *out,
                                   struct pen_text *why)
{
    struct claim claim = {.has_failed = 0};
    uint32_t rank = pen_transport_rank(transport);
    pen_status status = PEN_OK;
    *out = PEN_RUN_FOLDER_NONE;
    if (rank == 0) {
        status = lead(args, loaded, out, why);
        claim.has_failed = status != PEN_OK;
        memcpy(claim.run, out->run, sizeof claim.run);
    }
    if (rank == 0 && loaded != NULL) {
        claim.step = loaded->manifest.step;
        memcpy(claim.hash, loaded->manifest.hash, sizeof claim.hash);
    }
    pen_status shared = pen_transport_share(transport, &claim, sizeof claim);
    if (shared != PEN_OK)
        return shared;
    memcpy(out->run, claim.run, sizeof claim.run);
    if (rank == 0)
        return status;
    return claim.has_failed ? PEN_OK /* rank 0 says so, when all agree */
                            : compare_loaded(&claim, loaded, rank, why);
}
