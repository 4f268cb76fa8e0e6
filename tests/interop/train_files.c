/*
 * What tests/interop/run_training asks of the network.
 *
 *   train_files DIRECTORY f32|bf16 BATCH OUT
 *
 * Loads config.json, weights and tokens.txt and writes logits.safetensors (of
 * the first BATCH lines, whole) and gradients.safetensors (of the same lines,
 * each predicting its next token) to the directory OUT.
 */
#include "core/safetensors.h"
#include "network/weights.h"
#include "runtime/batches.h"
#include "runtime/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct pen_pretrained pretrained;
    struct pen_engine *engine;
    struct pen_batches *batches;
    size_t batch;
    size_t sequence; /* predictions of a line */
    int32_t *ids;
    int32_t *targets;
    const char *out;
};

static void *allocate(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block == NULL) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return block;
}

static pen_status make_network(const struct job *job, size_t sequence,
                               bool is_forward_only, struct pen_network **out,
                               struct pen_text *why)
{
    struct pen_network_options options = {
        .engine = job->engine,
        .model = job->pretrained.model.decoder,
        .num_layers = job->pretrained.model.decoder->num_layers,
        .batch = job->batch,
        .sequence = sequence,
        .step_rows = job->batch * sequence,
        .is_forward_only = is_forward_only};
    pen_status status = pen_network_create(&options, out, why);
    if (status == PEN_OK)
        status = pen_network_load(*out, job->pretrained.weights, why);
    return status;
}

/* Writes one tensor per spec, the floats of all one behind the other. */
static pen_status write_floats(const struct job *job, const char *name,
                               const struct pen_tensor_spec *specs,
                               size_t count, const float *floats,
                               struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_safetensors_writer *writer;
    pen_text_add(&path, "%s/%s.safetensors", job->out, name);
    pen_status status = pen_safetensors_create(pen_text_string(&path), specs,
                                               count, &writer, why);
    pen_text_release(&path);
    if (status != PEN_OK)
        return status;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        uint64_t bytes = 0;
        status = pen_tensor_spec_bytes(&specs[i], &bytes, why);
        if (status == PEN_OK)
            status = pen_safetensors_put(writer, i, floats, bytes, why);
        floats += bytes / sizeof *floats;
    }
    if (status == PEN_OK)
        return pen_safetensors_finish(writer, why);
    pen_safetensors_abandon(writer);
    return status;
}

/* A line is the inputs and the last target. */
static void join_lines(const struct job *job, int32_t *lines)
{
    for (size_t i = 0; i < job->batch; i++) {
        int32_t *line = lines + i * (job->sequence + 1);
        memcpy(line, job->ids + i * job->sequence,
               job->sequence * sizeof *line);
        line[job->sequence] = job->targets[(i + 1) * job->sequence - 1];
    }
}

static pen_status write_logits(const struct job *job, struct pen_text *why)
{
    struct pen_network *network = NULL;
    struct pen_network_sizes sizes;
    size_t length = job->sequence + 1;
    size_t rows = job->batch * length;
    size_t vocab = job->pretrained.model.decoder->vocab;
    pen_status status = make_network(job, length, true, &network, why);
    if (status != PEN_OK)
        return status;
    int32_t *lines = allocate(rows * sizeof *lines);
    float *floats = allocate(rows * vocab * sizeof *floats);
    pen_network_sizes(network, &sizes);
    void *stash = allocate(sizes.stash);
    join_lines(job, lines);
    struct pen_microbatch microbatch = {
        .ids = lines, .targets = lines, .loss_count = (double)rows};
    pen_network_forward(network, &microbatch, stash, NULL, NULL);
    pen_dtype_to_float(job->engine->dtype == PEN_PRECISION_BF16 ? PEN_DTYPE_BF16
                                                                : PEN_DTYPE_F32,
                       pen_network_logits(network, stash), rows * vocab,
                       floats);
    const uint64_t shape[] = {job->batch, length, vocab};
    const struct pen_tensor_spec spec = {"logits", PEN_DTYPE_F32, 3, shape};
    status = write_floats(job, "logits", &spec, 1, floats, why);
    pen_network_free(network);
    free(stash);
    free(floats);
    free(lines);
    return status;
}

/* All tensors of the model one behind the other. */
static float *export_gradients(const struct job *job,
                               struct pen_network *network)
{
    const struct pen_model *model = job->pretrained.model.decoder;
    float *all = allocate(model->num_parameters * sizeof *all);
    float *plain = allocate(model->num_parameters * sizeof *plain);
    size_t *starts = allocate(model->num_tensors * sizeof *starts);
    size_t end = 0;
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        struct pen_tensor_info info;
        pen_model_tensor(model, i, &info);
        starts[i] = end;
        end += info.form->num_elements;
    }
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        job->engine->ops->parameter_export(job->engine, it->parameter,
                                           PEN_PART_GRADIENT, it->order, plain);
        for (size_t k = 0; k < it->num_slices; k++)
            memcpy(all + starts[it->slices[k].tensor],
                   plain + it->slices[k].first,
                   it->slices[k].count * sizeof *all);
    }
    free(starts);
    free(plain);
    return all;
}

static pen_status write_gradients(const struct job *job, struct pen_text *why)
{
    const struct pen_model *model = job->pretrained.model.decoder;
    struct pen_network *network = NULL;
    struct pen_network_sizes sizes;
    pen_status status = make_network(job, job->sequence, false, &network, why);
    if (status != PEN_OK)
        return status;
    pen_network_sizes(network, &sizes);
    void *stash = allocate(sizes.stash);
    struct pen_microbatch microbatch = {
        .ids = job->ids,
        .targets = job->targets,
        .loss_count = (double)(job->batch * job->sequence)};
    pen_network_clear_gradients(network);
    pen_network_forward(network, &microbatch, stash, NULL, NULL);
    pen_network_backward(network, &microbatch, stash, NULL, NULL);
    pen_network_finish_gradients(network);
    printf("%.9g\n", microbatch.loss);
    float *all = export_gradients(job, network);
    struct pen_tensor_info *infos =
        allocate(model->num_tensors * sizeof *infos);
    struct pen_tensor_spec *specs =
        allocate(model->num_tensors * sizeof *specs);
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        pen_model_tensor(model, i, &infos[i]);
        specs[i] = (struct pen_tensor_spec){infos[i].name, PEN_DTYPE_F32,
                                            infos[i].form->num_dims,
                                            infos[i].form->shape};
    }
    status =
        write_floats(job, "gradients", specs, model->num_tensors, all, why);
    free(specs);
    free(infos);
    free(all);
    free(stash);
    pen_network_free(network);
    return status;
}

static pen_status read_lines(struct job *job, const char *directory,
                             struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/tokens.txt", directory);
    pen_status status = pen_batches_load(pen_text_string(&path), 0,
                                         job->pretrained.model.decoder->vocab,
                                         &job->batches, why);
    pen_text_release(&path);
    if (status != PEN_OK)
        return status;
    job->sequence = pen_batches_shape(job->batches).num_ids;
    job->ids = allocate(job->batch * job->sequence * sizeof *job->ids);
    job->targets = allocate(job->batch * job->sequence * sizeof *job->targets);
    const struct pen_batch to = {.ids = job->ids, .targets = job->targets};
    return pen_batches_read(job->batches, 0, job->batch, &to, why);
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (argc != 5) {
        fputs("usage: train_files DIRECTORY f32|bf16 BATCH OUT\n", stderr);
        return 2;
    }
    struct job job = {.batch = (size_t)strtoul(argv[3], NULL, 10),
                      .out = argv[4]};
    bool is_bf16 = strcmp(argv[2], "bf16") == 0;
    pen_status status = pen_engine_onednn_create(
        is_bf16 ? PEN_PRECISION_BF16 : PEN_PRECISION_F32, 1, &why, &job.engine);
    if (status == PEN_OK)
        status = pen_pretrained_open(&job.pretrained, argv[1], &why);
    if (status == PEN_OK)
        status = read_lines(&job, argv[1], &why);
    if (status == PEN_OK)
        status = write_logits(&job, &why);
    if (status == PEN_OK)
        status = write_gradients(&job, &why);
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    free(job.ids);
    free(job.targets);
    pen_batches_free(job.batches);
    pen_engine_free(job.engine);
    pen_pretrained_release(&job.pretrained);
    pen_text_release(&why);
    return status == PEN_OK ? 0 : 1;
}
