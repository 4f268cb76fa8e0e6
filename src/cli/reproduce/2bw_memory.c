/*
 * Memory of penstock reproduce 2bw: two stages of a small GPT train three
 * steps, and what rank 0 says it allocates is compared with the paper's
 * formula,
 *
 *   2 W / d + A             d micro-batches of A / d in flight
 *   2 W / d + A / d + d I   with recomputation, I the input of a stage
 *
 * for weights W, activations A of a micro-batch and depth d; a flush has 1 in
 * place of 2, and GPipe's m micro-batches m A / d. A training also has
 * gradients and moments, which the paper leaves out.
 */
#include "base/file.h"
#include "cli/reproduce/2bw.h"
#include "core/model.h"
#include "core/model_cost.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH = 2, MICRO_BATCH = 4, SEQUENCE = 128, COUNT = 8, LETTERS = 64 };

#define MODEL                                                                  \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 64, \"n_positions\": 128, "    \
    "\"n_embd\": 384, \"n_layer\": 4, \"n_head\": 6, "                         \
    "\"tie_word_embeddings\": false}\n"

/* Bytes of a training for each parameter: versions, gradients, moments. */
static const struct row {
    const char *key;
    const char *name;
    const char *words;
    uint32_t versions;
    uint32_t gradients;
    uint32_t in_flight; /* micro-batches */
    bool recomputes;
} rows[PEN__2BW_MEMORIES] = {
    {"memory-1f1b", "1f1b", "--schedule 1f1b --clip-grad 0", 1, 1, DEPTH,
     false},
    {"memory-2bw", "pipedream-2bw", "--schedule pipedream-2bw --clip-grad 0", 2,
     1, DEPTH, false},
    {"memory-2bw-clip", "pipedream-2bw, clipping",
     "--schedule pipedream-2bw --clip-grad 1", 2, 2, DEPTH, false},
    {"memory-2bw-recompute", "pipedream-2bw, recomputing",
     "--schedule pipedream-2bw --clip-grad 0 --recompute-granularity full", 2,
     1, DEPTH, true},
    {"memory-gpipe", "gpipe", "--schedule gpipe --clip-grad 0", 1, 1, COUNT,
     false}};

enum { MOMENTS = 2, ELEMENT_BYTES = 4 };

/* Bytes of the first half of the model. */
struct stage {
    double weights;
    double activations;
    double input;
};

static pen_status weigh(const char *path, struct stage *out,
                        struct pen_text *why)
{
    struct pen_model *model;
    pen_status status = pen_model_load(path, &model, why);
    if (status != PEN_OK)
        return status;
    const struct pen_workload workload = {.batch = MICRO_BATCH,
                                          .sequence = SEQUENCE,
                                          .element_bytes = ELEMENT_BYTES,
                                          .stat_bytes = ELEMENT_BYTES};
    const struct pen_layer_range half = {.count =
                                             model->num_blocks / DEPTH + 1};
    *out = (struct stage){
        .weights = (double)ELEMENT_BYTES *
                   (double)pen_model_trained_parameters(model, &half)};
    for (uint32_t i = 0; i < half.count; i++) {
        struct pen_layer_cost cost;
        pen_model_layer_cost(model, i, &workload, &cost);
        out->activations += (double)cost.stash_bytes;
        out->input = (double)cost.output_bytes;
    }
    pen_model_free(model);
    return PEN_OK;
}

/* Ids of letters, a sequence and one more in each line. */
static pen_status write_ids(const char *path, struct pen_text *why)
{
    struct pen_text ids = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < MICRO_BATCH * COUNT; i++) {
        for (uint32_t k = 0; k <= SEQUENCE; k++)
            pen_text_add(&ids, "%u ", (7 * i + k * k) % LETTERS);
        pen_text_add_string(&ids, "\n");
    }
    pen_status status = pen_file_write_text(path, &ids, why);
    pen_text_release(&ids);
    return status;
}

/* "... memory will be 31.6 MB: parameters, gradients and moments 3.5,
 * activations 5.5 (logits ..." */
static pen_status read_count(const char *path, struct pen__2bw_memory *out,
                             struct pen_text *why)
{
    struct pen_text printed = PEN_TEXT_EMPTY;
    double all, state, activations;
    pen_status status = pen_file_read(path, 1 << 20, &printed, why);
    if (status != PEN_OK)
        return status;
    const char *line = strstr(pen_text_string(&printed), "memory will be");
    if (line != NULL &&
        sscanf(line,
               "memory will be %lf MB: parameters, gradients and moments %lf, "
               "activations %lf",
               &all, &state, &activations) == 3) {
        out->state_counted = 1e6 * state;
        out->activation_counted = 1e6 * activations;
    } else {
        pen_why(why, "%s does not say what memory the training takes", path);
        status = PEN_INVALID;
    }
    pen_text_release(&printed);
    return status;
}

static void apply_formula(const struct row *row, const struct stage *stage,
                          struct pen__2bw_memory *out)
{
    out->name = row->name;
    out->state_bytes =
        stage->weights * (row->versions + row->gradients + MOMENTS);
    out->activation_bytes =
        row->recomputes ? stage->activations + row->in_flight * stage->input
                        : row->in_flight * stage->activations;
}

static pen_status count(struct pen__2bw *it, const struct row *row,
                        const char *model, const char *ids,
                        struct pen__2bw_memory *out, struct pen_text *why)
{
    struct pen__words words = {0};
    struct pen_text printed = PEN_TEXT_EMPTY;
    pen__words_split(&words, "train --model");
    pen__words_add(&words, "%s", model);
    pen__words_add(&words, "--token-ids");
    pen__words_add(&words, "%s", ids);
    pen__words_split(&words, row->words);
    pen__words_split(&words, "--threads 1 --train-iters 3 --lr 1e-4");
    pen__words_add(&words, "--micro-batch-size");
    pen__words_add(&words, "%d", MICRO_BATCH);
    pen__words_add(&words, "--global-batch-size");
    pen__words_add(&words, "%d", MICRO_BATCH * COUNT);
    pen__words_add(&words, "--pipeline-model-parallel-size");
    pen__words_add(&words, "%d", DEPTH);
    pen_status status =
        pen__jobs_run(&it->jobs, row->key, DEPTH, 0, &words, why);
    pen_text_add(&printed, "%s/%s.txt", it->args->output, row->key);
    if (status == PEN_OK)
        status = read_count(pen_text_string(&printed), out, why);
    pen_text_release(&printed);
    return status;
}

pen_status pen__2bw_measure(struct pen__2bw *it, struct pen_text *why)
{
    struct pen_text model = PEN_TEXT_EMPTY, ids = PEN_TEXT_EMPTY;
    struct stage stage;
    pen_text_add(&model, "%s/memory.json", it->args->output);
    pen_text_add(&ids, "%s/memory.ids", it->args->output);
    pen_status status =
        pen_file_write(pen_text_string(&model), MODEL, sizeof MODEL - 1, why);
    if (status == PEN_OK)
        status = write_ids(pen_text_string(&ids), why);
    if (status == PEN_OK)
        status = weigh(pen_text_string(&model), &stage, why);
    for (uint32_t i = 0; i < it->scale.num_memories && status == PEN_OK; i++) {
        apply_formula(&rows[i], &stage, &it->memory[i]);
        status = count(it, &rows[i], pen_text_string(&model),
                       pen_text_string(&ids), &it->memory[i], why);
    }
    pen_text_release(&model);
    pen_text_release(&ids);
    return status;
}
