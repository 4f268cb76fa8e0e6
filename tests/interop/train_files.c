/*
 * What tests/interop/run_training and run_images ask of the network.
 *
 *   train_files DIRECTORY f32|bf16 BATCH OUT
 *
 * Loads config.json, weights and tokens.txt or images and writes
 * logits.safetensors (of the first BATCH lines, whole, or images, evaluated)
 * and gradients.safetensors (of the same lines, each predicting its next token,
 * or images) to the directory OUT.
 */
#include "core/safetensors.h"
#include "network/images.h"
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
    struct pen_sample_shape shape;
    struct pen_batch read; /* the first samples */
    const char *out;
};

static void *allocate(size_t bytes)
{
    void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (block == NULL) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return block;
}

static pen_status create_images(const struct job *job, bool is_forward_only,
                                struct pen_network **out, struct pen_text *why)
{
    const struct pen_image_model *model = job->pretrained.model.images;
    struct pen_image_options options = {.engine = job->engine,
                                        .model = model,
                                        .num_layers = model->num_layers,
                                        .batch = job->batch,
                                        .height = job->shape.height,
                                        .width = job->shape.width,
                                        .is_forward_only = is_forward_only};
    return pen_network_create_images(&options, out, why);
}

static pen_status create_decoder(const struct job *job, size_t sequence,
                                 bool is_forward_only, struct pen_network **out,
                                 struct pen_text *why)
{
    const struct pen_model *model = job->pretrained.model.decoder;
    struct pen_network_options options = {.engine = job->engine,
                                          .model = model,
                                          .num_layers = model->num_layers,
                                          .batch = job->batch,
                                          .sequence = sequence,
                                          .step_rows = job->batch * sequence,
                                          .is_forward_only = is_forward_only};
    return pen_network_create(&options, out, why);
}

static pen_status make_network(const struct job *job, size_t sequence,
                               bool is_forward_only, struct pen_network **out,
                               struct pen_text *why)
{
    pen_status status =
        job->pretrained.model.images != NULL
            ? create_images(job, is_forward_only, out, why)
            : create_decoder(job, sequence, is_forward_only, out, why);
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
        return pen_safetensors_finish(writer, NULL, why);
    pen_safetensors_abandon(writer);
    return status;
}

/* A line is the inputs and the last target. */
static void join_lines(const struct job *job, int32_t *lines)
{
    size_t length = job->shape.num_ids;
    for (size_t i = 0; i < job->batch && length > 0; i++) {
        int32_t *line = lines + i * (length + 1);
        memcpy(line, job->read.ids + i * length, length * sizeof *line);
        line[length] = job->read.targets[(i + 1) * length - 1];
    }
}

static pen_status write_logits(const struct job *job, struct pen_text *why)
{
    const struct pen_any_model *model = &job->pretrained.model;
    struct pen_network *network = NULL;
    struct pen_network_sizes sizes;
    size_t length = (size_t)job->shape.num_ids + 1; /* of an image: 1 */
    size_t rows = job->batch * length;
    size_t classes = model->images != NULL ? model->images->num_labels
                                           : model->decoder->vocab;
    pen_status status = make_network(job, length, true, &network, why);
    if (status != PEN_OK)
        return status;
    int32_t *lines = allocate(rows * sizeof *lines);
    float *floats = allocate(rows * classes * sizeof *floats);
    pen_network_sizes(network, &sizes);
    void *stash = allocate(sizes.stash);
    join_lines(job, lines);
    struct pen_microbatch microbatch = {
        .ids = lines,
        .pixels = job->read.pixels,
        .targets = job->shape.num_ids > 0 ? lines : job->read.targets,
        .loss_count = (double)rows};
    pen_network_forward(network, &microbatch, stash, NULL, NULL);
    pen_dtype_to_float(job->engine->dtype == PEN_PRECISION_BF16 ? PEN_DTYPE_BF16
                                                                : PEN_DTYPE_F32,
                       pen_network_logits(network, stash), rows * classes,
                       floats);
    const uint64_t shape[] = {job->batch, length, classes};
    const struct pen_tensor_spec spec = {"logits", PEN_DTYPE_F32, 3, shape};
    status = write_floats(job, "logits", &spec, 1, floats, why);
    pen_network_free(network);
    free(stash);
    free(floats);
    free(lines);
    return status;
}

/* The trained tensors of a model, their floats one behind the other. */
struct tensors {
    struct pen_any_tensor *infos;
    struct pen_tensor_spec *specs;
    size_t count;
    size_t *starts; /* by the number of the tensor */
    size_t num_floats;
};

static struct tensors list_tensors(const struct pen_any_model *model)
{
    uint32_t count = pen_any_model_num_tensors(model);
    struct tensors list = {.infos = allocate(count * sizeof *list.infos),
                           .specs = allocate(count * sizeof *list.specs),
                           .starts = allocate(count * sizeof *list.starts)};
    for (uint32_t i = 0; i < count; i++) {
        struct pen_any_tensor *info = &list.infos[i];
        pen_any_model_tensor(model, i, info);
        list.starts[i] = list.num_floats;
        if (!info->is_trained)
            continue;
        list.specs[list.count++] = (struct pen_tensor_spec){
            info->name, PEN_DTYPE_F32, info->num_dims, info->shape};
        list.num_floats += info->num_elements;
    }
    return list;
}

static float *export_gradients(const struct job *job,
                               const struct pen_network *network,
                               const struct tensors *list)
{
    float *all = allocate(list->num_floats * sizeof *all);
    float *plain = allocate(list->num_floats * sizeof *plain);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        job->engine->ops->parameter_export(job->engine, it->parameter,
                                           PEN_PART_GRADIENT, it->order, plain);
        for (size_t k = 0; k < it->num_slices; k++)
            memcpy(all + list->starts[it->slices[k].tensor] +
                       it->slices[k].piece.first_row *
                           it->slices[k].piece.num_columns,
                   plain + it->slices[k].first,
                   pen_tensor_piece_count(&it->slices[k].piece) * sizeof *all);
    }
    free(plain);
    return all;
}

static pen_status write_gradients(const struct job *job, struct pen_text *why)
{
    struct pen_network *network = NULL;
    struct pen_network_sizes sizes;
    pen_status status =
        make_network(job, job->shape.num_ids, false, &network, why);
    if (status != PEN_OK)
        return status;
    pen_network_sizes(network, &sizes);
    void *stash = allocate(sizes.stash);
    struct pen_microbatch microbatch = {
        .ids = job->read.ids,
        .pixels = job->read.pixels,
        .targets = job->read.targets,
        .loss_count = (double)(job->batch * job->shape.num_targets)};
    pen_network_clear_gradients(network);
    pen_network_forward(network, &microbatch, stash, NULL, NULL);
    pen_network_backward(network, &microbatch, stash, NULL, NULL);
    pen_network_finish_gradients(network);
    printf("%.9g\n", pen_network_loss(network));
    struct tensors list = list_tensors(&job->pretrained.model);
    float *all = export_gradients(job, network, &list);
    status = write_floats(job, "gradients", list.specs, list.count, all, why);
    free(list.starts);
    free(list.specs);
    free(list.infos);
    free(all);
    free(stash);
    pen_network_free(network);
    return status;
}

static pen_status open_batches(struct job *job, const char *directory,
                               struct pen_text *why)
{
    const struct pen_any_model *model = &job->pretrained.model;
    if (model->images != NULL) {
        const struct pen_image_batches_options options = {
            .num_labels = model->images->num_labels, .is_ordered = true};
        return pen_batches_open_images(directory, &options, &job->batches, why);
    }
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/tokens.txt", directory);
    pen_status status = pen_batches_load(
        pen_text_string(&path), 0, model->decoder->vocab, &job->batches, why);
    pen_text_release(&path);
    return status;
}

static pen_status read_samples(struct job *job, const char *directory,
                               struct pen_text *why)
{
    pen_status status = open_batches(job, directory, why);
    if (status != PEN_OK)
        return status;
    job->shape = pen_batches_shape(job->batches);
    size_t batch = job->batch;
    size_t num_pixels = pen_sample_pixels(&job->shape);
    job->read.ids = allocate(batch * job->shape.num_ids * sizeof(int32_t));
    job->read.pixels = allocate(batch * num_pixels * sizeof(float));
    job->read.targets =
        allocate(batch * job->shape.num_targets * sizeof(int32_t));
    return pen_batches_read(job->batches, 0, batch, &job->read, why);
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
        status = read_samples(&job, argv[1], &why);
    if (status == PEN_OK)
        status = write_logits(&job, &why);
    if (status == PEN_OK)
        status = write_gradients(&job, &why);
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    free(job.read.ids);
    free(job.read.pixels);
    free(job.read.targets);
    pen_batches_free(job.batches);
    pen_engine_free(job.engine);
    pen_pretrained_release(&job.pretrained);
    pen_text_release(&why);
    return status == PEN_OK ? 0 : 1;
}
