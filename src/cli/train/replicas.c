#include "cli/train/replicas.h"

#include "base/log.h"
#include "cli/train/sizes.h"
#include "core/mesh.h"
#include "sync/islands.h"

#include <inttypes.h>

/*
 * Whether replicas keep together by a method. With images, one process is a
 * replica, unless there is a pipeline.
 */
static bool has_method(const struct pen_sync_choice *choice,
                       const struct pen__train_args *args,
                       const struct pen_any_model *model, uint32_t num_ranks)
{
    return (choice->method->is & PEN_SYNC_IS_NATIVE) == 0 ||
           choice->compressor != NULL ||
           (model->images != NULL && num_ranks > 1 &&
            !pen__train_has_stages(args) && choice->method->init != NULL);
}

static pen_status check_images(const struct pen__train_replicas *replicas,
                               const struct pen__train_args *args,
                               const struct pen_any_model *model,
                               struct pen_text *why)
{
    if (model->images == NULL || !replicas->has_method ||
        !pen__train_has_stages(args))
        return PEN_OK;
    pen_why(why,
            "--sync %s trains an image model in one process per replica; leave "
            "out --pipeline-model-parallel-size, --stage-replicas, "
            "--stage-layers and --replica-shares, or --sync",
            args->sync);
    return PEN_INVALID;
}

static pen_status choose(struct pen__train_replicas *replicas,
                         const struct pen__train_args *args,
                         const struct pen_any_model *model, uint32_t num_ranks,
                         struct pen_text *why)
{
    pen_status status = pen_sync_choose(
        args->sync, args->sync_interval, args->sync_options.words,
        args->sync_options.count, args->compress, &replicas->choice, why);
    if (status != PEN_OK)
        return status;
    replicas->has_method =
        has_method(&replicas->choice, args, model, num_ranks);
    return check_images(replicas, args, model, why);
}

/* The state of text models is their weights; images have statistics, too. */
static pen_status check_island(const struct pen_sync_choice *choice,
                               const struct pen__train_args *args,
                               const struct pen_any_model *model,
                               struct pen_text *why)
{
    pen_status status =
        pen_islands_check(choice, args->late == PEN__LATE_FOLD, why);
    if (status != PEN_OK)
        return status;
    uint32_t round_steps = pen_islands_steps(choice);
    if (args->sync_replicas != 0)
        pen_why(why, "--ring and --sync-replicas exclude each other");
    else if (model->images != NULL)
        pen_why(why, "--ring is for text models");
    else if (args->train_iters % round_steps != 0)
        pen_why(why,
                "--train-iters %" PRIu64 " is not a multiple of the %" PRIu32
                " steps of a round (--sync-interval)",
                args->train_iters, round_steps);
    return why->length > 0 ? PEN_INVALID : PEN_OK;
}

/*
 * Counts replicas: each pipeline is one unless the user says how many there
 * are.
 */
static pen_status count_replicas(struct pen__train_replicas *replicas,
                                 const struct pen__train_args *args,
                                 uint32_t num_ranks, struct pen_text *why)
{
    struct pen_mesh mesh = pen_mesh_fill(
        PEN_MESH_PIPELINE_FIRST, (uint32_t)args->pipeline_size, num_ranks);
    uint64_t count = args->sync_replicas != 0 ? args->sync_replicas
                                              : pen_mesh_num_replicas(&mesh);
    uint64_t unit = count * args->pipeline_size;
    if (replicas->island != NULL) {
        count = replicas->island->count;
        unit = args->pipeline_size;
    }
    if (count == 0 || num_ranks % unit != 0) {
        pen_why(why,
                "%u ranks cannot be split into %" PRIu64
                " replicas of --sync %s with --pipeline-model-parallel-size "
                "%" PRIu64,
                num_ranks, count, args->sync, args->pipeline_size);
        return PEN_INVALID;
    }
    if (args->global_batch_size % count != 0) {
        pen_why(why,
                "--global-batch-size %" PRIu64 " is not a multiple of the "
                "%" PRIu64 " replicas of --sync %s",
                args->global_batch_size, count, args->sync);
        return PEN_INVALID;
    }
    replicas->count = (uint32_t)count;
    return PEN_OK;
}

pen_status pen__train_replicas_init(struct pen__train_replicas *replicas,
                                    struct pen__train_args *args,
                                    const struct pen_any_model *model,
                                    const struct pen_island *island,
                                    struct pen_transport *world,
                                    struct pen_text *why)
{
    uint32_t num_ranks = pen_transport_size(world);
    *replicas = (struct pen__train_replicas){.island = island};
    args->replica_batch = args->global_batch_size;
    pen_status status = choose(replicas, args, model, num_ranks, why);
    if (status == PEN_OK && island != NULL)
        status = check_island(&replicas->choice, args, model, why);
    if (status != PEN_OK)
        return status;
    if ((replicas->choice.method->is & PEN_SYNC_IS_SHARDED) != 0)
        args->sharding = args->sharding > PEN_SHARDING_ZERO1
                             ? args->sharding
                             : PEN_SHARDING_ZERO1;
    if (!replicas->has_method)
        return PEN_OK;
    if (args->sharding > PEN_SHARDING_ZERO1) {
        pen_why(why,
                "--sharding %s and --sync %s exclude each other: the method "
                "needs all gradients of its replica. Use --sharding zero1, or "
                "drop --sync",
                pen_sharding_names[args->sharding],
                replicas->choice.method->name);
        return PEN_INVALID;
    }
    if (args->plan != NULL) {
        pen_why(why,
                "--plan and --sync %s exclude each other: a plan sums "
                "gradients at every step",
                args->sync);
        return PEN_INVALID;
    }
    status = count_replicas(replicas, args, num_ranks, why);
    if (status != PEN_OK)
        return status;
    args->replica_batch = args->global_batch_size / replicas->count;
    if (island != NULL)
        return pen_transport_open_part(world, 0, num_ranks, &replicas->part);
    uint32_t size = num_ranks / replicas->count;
    struct pen_mesh mesh =
        pen_mesh_of(PEN_MESH_PIPELINE_FIRST, size, replicas->count);
    uint32_t number = pen_mesh_replica(&mesh, pen_transport_rank(world));
    return pen_transport_open_part(world, pen_mesh_rank_at(&mesh, 0, number),
                                   size, &replicas->part);
}

void pen__train_replicas_release(struct pen__train_replicas *replicas)
{
    pen_transport_close(replicas->part);
    *replicas = (struct pen__train_replicas){0};
}

struct pen_transport *
pen__train_replicas_transport(const struct pen__train_replicas *replicas,
                              struct pen_transport *world)
{
    return replicas->has_method ? replicas->part : world;
}

pen_status pen__train_replicas_join(const struct pen__train_replicas *replicas,
                                    const struct pen__train_args *args,
                                    struct pen_batches *batches,
                                    struct pen_trainer *trainer,
                                    struct pen_text *why)
{
    uint64_t epoch_samples = pen_batches_epoch(batches);
    uint64_t epoch_steps = epoch_samples / args->global_batch_size;
    uint64_t epoch_batches = epoch_samples / args->replica_batch;
    struct pen_replicas_options options = {
        .choice = &replicas->choice,
        .seed = args->seed,
        .epoch_steps = epoch_steps > 0 ? epoch_steps : 1,
        .epoch_batches = epoch_batches > 0 ? epoch_batches : 1,
        .total_steps = args->train_iters,
        .batches = batches,
        .island = replicas->island};
    if (!replicas->has_method)
        return PEN_OK;
    return pen_trainer_join(trainer, &options, why);
}

void pen__train_replicas_tell(const struct pen_trainer *trainer,
                              uint64_t num_steps)
{
    const struct pen_replicas *replicas = pen_trainer_replicas(trainer);
    uint64_t bytes, messages;
    if (replicas == NULL || pen_replicas_count(replicas) == 1 || num_steps == 0)
        return;
    pen_replicas_sent(replicas, &bytes, &messages);
    pen_log(PEN_LOG_INFO,
            "the first rank sent its peers in the other replicas %.3f MB "
            "in %" PRIu64 " messages, %.0f bytes per step",
            1e-6 * (double)bytes, messages, (double)bytes / (double)num_steps);
}
