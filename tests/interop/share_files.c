/*
 * Writes the weights of a model of Hugging Face as step 1 of a run, in as many
 * shares as asked for, with moments that are all zero.
 *
 *   share_files DIR RUN SHARES
 */
#include "base/log.h"
#include "checkpoint/share.h"

#include <stdlib.h>

enum { MOMENTS = 2 };

/* Every SHARES-th tensor of the model belongs to the same share. */
struct source {
    struct pen_any_model model;
    struct pen_weights *weights;
    uint32_t first;
    uint32_t stride;
    float *values; /* as many as the largest tensor has */
};

static const void *bytes_of(void *context, enum pen_checkpoint_part part,
                            size_t tensor)
{
    struct source *source = context;
    uint32_t number = source->first + (uint32_t)tensor * source->stride;
    const struct pen_safetensor *found = NULL;
    struct pen_any_tensor info;
    pen_any_model_tensor(&source->model, number, &info);
    if (pen_any_model_find(&source->model, number, source->weights, &found,
                           NULL) != PEN_OK)
        abort();
    pen_dtype_to_float(found->dtype, found->bytes, info.num_elements,
                       source->values);
    for (uint64_t i = 0; part != PEN_CHECKPOINT_WEIGHT && i < info.num_elements;
         i++)
        source->values[i] = 0;
    return source->values;
}

static pen_status write_share(struct source *source, const char *run,
                              uint32_t number, struct pen_text *record,
                              struct pen_text *why)
{
    uint32_t all = pen_any_model_num_tensors(&source->model);
    struct pen_any_tensor *infos = calloc(all, sizeof *infos);
    struct pen_checkpoint_tensor *tensors = calloc(all, sizeof *tensors);
    struct pen_checkpoint_share_args args = {.run = run,
                                             .step = 1,
                                             .number = number,
                                             .tensors = tensors,
                                             .num_moments = MOMENTS};
    if (infos == NULL || tensors == NULL)
        abort();
    source->first = number;
    for (uint32_t i = number; i < all; i += source->stride) {
        struct pen_any_tensor *info = &infos[args.count];
        pen_any_model_tensor(&source->model, i, info);
        tensors[args.count++] = (struct pen_checkpoint_tensor){
            {info->name, info->dtype, info->num_dims, info->shape}, true, 0};
    }
    pen_status status =
        pen_checkpoint_share_write(&args,
                                   &(struct pen_checkpoint_source){
                                       .bytes_of = bytes_of, .context = source},
                                   record, why);
    free(infos);
    free(tensors);
    return status;
}

static pen_status write_run(struct source *source, const char *run,
                            struct pen_text *why)
{
    struct pen_checkpoint_writer *writer = NULL;
    pen_status status =
        pen_checkpoint_begin_for(&source->model, run, 1, MOMENTS, &writer, why);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < source->stride && status == PEN_OK; i++) {
        struct pen_text record = PEN_TEXT_EMPTY;
        status = write_share(source, run, i, &record, why);
        if (status == PEN_OK)
            status = pen_checkpoint_add_record(writer, record.bytes,
                                               record.length, why);
        pen_text_release(&record);
    }
    if (status == PEN_OK)
        return pen_checkpoint_finish(writer, 0, why);
    pen_checkpoint_abandon(writer);
    return status;
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct source source = {.weights = NULL};
    if (argc != 4)
        return 2;
    source.stride = (uint32_t)strtoul(argv[3], NULL, 10);
    pen_status status = pen_any_model_load(&source.model, argv[1], &why);
    if (status == PEN_OK)
        status = pen_weights_open(argv[1], &source.weights, &why);
    if (status == PEN_OK) {
        source.values = calloc(pen_any_model_num_parameters(&source.model),
                               sizeof *source.values);
        status = source.values == NULL ? PEN_NOMEM
                                       : write_run(&source, argv[2], &why);
    }
    if (status != PEN_OK)
        pen_log(PEN_LOG_ERROR, "%s", pen_text_string(&why));
    free(source.values);
    pen_weights_close(source.weights);
    pen_any_model_release(&source.model);
    return status != PEN_OK;
}
