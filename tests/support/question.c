#include "support/question.h"

#include "base/bug.h"
#include "base/file.h"
#include "planner/timings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCE = 8, ENGINE_BYTES = 512 };

static const uint32_t sizes[] = {1, 2, 4, 8};

static uint32_t between(struct pen_random *random, uint32_t least,
                        uint32_t most)
{
    return least + pen_random_below(random, most - least + 1);
}

static double real_between(struct pen_random *random, double least, double most)
{
    return least + (most - least) * pen_random_unit(random);
}

static bool one_in(struct pen_random *random, uint32_t count)
{
    return pen_random_below(random, count) == 0;
}

static void must(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "question: %s\n", pen_text_string(why));
    exit(1);
}

static struct pen_model *make_model(struct pen_random *random)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    uint32_t blocks = between(random, 1, 11);
    uint32_t vocab = between(random, 200, 900);
    if (one_in(random, 3))
        pen_text_add(&text,
                     "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_layer\": "
                     "%u, \"n_head\": 2, \"n_positions\": 8, \"vocab_size\": "
                     "%u}",
                     blocks, vocab);
    else
        pen_text_add(&text,
                     "{\"model_type\": \"llama\", \"hidden_size\": 16, "
                     "\"intermediate_size\": 24, \"num_hidden_layers\": %u, "
                     "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
                     "\"max_position_embeddings\": 16, \"vocab_size\": %u, "
                     "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": %s}",
                     blocks, vocab, one_in(random, 3) ? "true" : "false");
    must(pen_model_parse(pen_text_string(&text), text.length, &model, &why),
         &why);
    pen_text_release(&text);
    return model;
}

/* ---- the profile ---- */

/* What one micro-batch of one sequence takes in a layer of a kind. */
struct times {
    double passes[PEN_PASSES];
    double again; /* added to the backwards by recomputation */
};

static struct times roll_times(struct pen_random *random,
                               enum pen_layer_kind kind)
{
    double scale = kind == PEN_LAYER_BLOCK       ? 1
                   : kind == PEN_LAYER_EMBEDDING ? real_between(random, 0, 0.3)
                                                 : real_between(random, 0, 2);
    struct times times;
    times.passes[PEN_PASS_FORWARD] = scale * real_between(random, 3e-3, 6e-3);
    times.passes[PEN_PASS_INPUT] = scale * real_between(random, 3e-3, 6e-3);
    times.passes[PEN_PASS_WEIGHT] = scale * real_between(random, 2e-3, 6e-3);
    times.passes[PEN_PASS_BACKWARD] =
        (times.passes[PEN_PASS_INPUT] + times.passes[PEN_PASS_WEIGHT]) *
        real_between(random, 0.9, 1);
    times.again = times.passes[PEN_PASS_FORWARD];
    return times;
}

static void fill_modes(const struct times *times, uint32_t micro_batch,
                       const bool *is_there, struct pen_profile_layer *layer)
{
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        struct pen_profile_mode *it = &layer->modes[mode];
        double share = mode == PEN_RECOMPUTE_FULL        ? 1
                       : mode == PEN_RECOMPUTE_SELECTIVE ? 0.2
                                                         : 0;
        if (!is_there[mode])
            continue;
        it->is_there = true;
        it->stash_bytes = (uint64_t)((1.1 - share) * 20000 * micro_batch);
        it->hold_bytes = 5000 * (uint64_t)micro_batch;
        it->scratch_bytes = 1000 * (uint64_t)micro_batch;
        for (int pass = 0; pass < PEN_PASSES; pass++)
            it->passes[pass].median_sec = times->passes[pass] * micro_batch;
        it->passes[PEN_PASS_INPUT].median_sec +=
            share * times->again * micro_batch;
        it->passes[PEN_PASS_BACKWARD].median_sec +=
            share * times->again * micro_batch;
    }
}

/* A tied embedding has the matrix, and rows of two micro-batches. */
static uint64_t tied_bytes(const struct pen_model *model,
                           enum pen_layer_kind kind, uint32_t micro_batch)
{
    uint64_t rows = 2 * (uint64_t)micro_batch * SEQUENCE;
    if (!model->has_tied_embeddings || kind != PEN_LAYER_EMBEDDING)
        return 0;
    return 4 * (uint64_t)model->hidden *
           (model->vocab + 2 * (rows < model->vocab ? rows : model->vocab));
}

static void fill_layer(const struct pen_model *model, enum pen_layer_kind kind,
                       uint32_t micro_batch, struct pen_profile_layer *layer)
{
    const struct pen_layer_range range = {
        .first = kind == PEN_LAYER_EMBEDDING ? 0
                 : kind == PEN_LAYER_BLOCK   ? 1
                                             : model->num_layers - 1,
        .count = 1};
    layer->num_parameters = pen_model_trained_parameters(model, &range);
    layer->parameter_bytes = 16 * layer->num_parameters + ENGINE_BYTES +
                             tied_bytes(model, kind, micro_batch);
    layer->engine_bytes = ENGINE_BYTES;
    layer->largest = layer->num_parameters;
    layer->output_bytes = 4 * (uint64_t)model->hidden * SEQUENCE * micro_batch;
}

/* All updates of all parameters take up to a third of a block's forward. */
static void fill_updates(struct pen_random *random,
                         const struct pen_model *model,
                         struct pen_profile *profile)
{
    const struct pen_layer_range all = {.count = model->num_layers};
    double each = 1e-3 / (double)pen_model_trained_parameters(model, &all);
    for (int i = 0; i < PEN_UPDATES; i++)
        profile->updates[i].median_sec = each * pen_random_unit(random);
}

static void make_profile(struct pen_random *random, struct question *question)
{
    struct pen_profile *profile = &question->profile;
    const bool is_there[PEN_RECOMPUTES] = {true, one_in(random, 2),
                                           one_in(random, 2)};
    *profile = (struct pen_profile){.cpu = "dice",
                                    .num_cores = 1,
                                    .memory_bytes = 1u << 30,
                                    .engine = "onednn",
                                    .library = "none",
                                    .num_threads = 1,
                                    .num_ranks = 2,
                                    .family = "dice",
                                    .micro_batch = sizes[0],
                                    .sequence = SEQUENCE,
                                    .num_rounds = 1,
                                    .num_more = between(random, 0, 3),
                                    .program_bytes = 1000000,
                                    .link = {true, 60e-6, 2e9}};
    must(pen_profile_hash_model(question->model, profile->model_hash, NULL),
         &(struct pen_text)PEN_TEXT_EMPTY);
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct times times = roll_times(random, (enum pen_layer_kind)kind);
        for (uint32_t i = 0; i <= profile->num_more; i++) {
            struct pen_profile_layer *layer =
                i == 0 ? &profile->layers[kind]
                       : &profile->more[i - 1].layers[kind];
            if (i > 0)
                profile->more[i - 1].micro_batch = sizes[i];
            fill_layer(question->model, (enum pen_layer_kind)kind, sizes[i],
                       layer);
            fill_modes(&times, sizes[i], is_there, layer);
        }
    }
    fill_updates(random, question->model, profile);
}

/* ---- the rest ---- */

static void make_cluster(struct question *question, uint32_t num_ranks)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&question->cluster_text,
                 "name: dice\ndevices:\n  - kind: core\n    count: %u\n"
                 "    flops: {f32: 1 TFLOP/s}\n    memory: 1 GiB\n"
                 "    bandwidth: 10 GB/s\nlinks:\n  - {level: node, "
                 "bandwidth: 10 GB/s, latency: 1 us}\n",
                 num_ranks);
    must(pen_cluster_parse(pen_text_string(&question->cluster_text),
                           question->cluster_text.length, &question->cluster,
                           &why),
         &why);
}

void question_make(struct pen_random *random, uint32_t most_ranks,
                   struct question *out)
{
    *out = (struct question){.model = make_model(random)};
    pen_text_init(&out->cluster_text);
    make_profile(random, out);
    make_cluster(out, between(random, 1, most_ranks));
    out->setting = (struct pen_setting){.model = out->model,
                                        .cluster = out->cluster,
                                        .profile = &out->profile,
                                        .global_batch = between(random, 1, 16),
                                        .sequence = SEQUENCE,
                                        .number = PEN_NUMBER_F32,
                                        .target = PEN_TARGET_PENSTOCK,
                                        .clip_norm = one_in(random, 4) ? 1 : 0,
                                        .timings = pen_timings_create()};
    if (one_in(random, 3))
        out->setting.memory_limit = (uint64_t)real_between(random, 1.3e6, 4e6);
    pen_practice_init(&out->setting.practice, out->setting.target,
                      out->setting.number);
    out->options = (struct pen_plan_search_options){.top = 20};
    struct pen_candidate_filter *filter = &out->options.filter;
    filter->allows_stale = !one_in(random, 4);
    filter->is_stale = filter->allows_stale && one_in(random, 3) &&
                       pen_cluster_num_devices(out->cluster) > 1;
    if (one_in(random, 4)) {
        filter->micro_batch = sizes[between(random, 0, out->profile.num_more)];
        out->setting.global_batch *= filter->micro_batch;
    }
}

void question_release(struct question *question)
{
    pen_timings_free(question->setting.timings);
    pen_cluster_free(question->cluster);
    pen_model_free(question->model);
    pen_text_release(&question->cluster_text);
}

void question_name_plan(const struct question *question, struct pen_plan *plan)
{
    struct pen_text config = PEN_TEXT_EMPTY;
    pen_model_print(question->model, &config);
    memcpy(plan->model_hash, question->profile.model_hash,
           sizeof plan->model_hash);
    PEN_BUG_UNLESS(pen_plan_set(&plan->model, "dice") &&
                   pen_plan_set(&plan->config, pen_text_string(&config)));
    pen_text_release(&config);
}

static void save(const char *folder, const char *name,
                 const struct pen_text *text)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    must(pen_file_write_text(pen_text_string(&path), text, &why), &why);
    pen_text_release(&path);
}

void question_save(const struct question *question, const char *folder)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_model_print(question->model, &text);
    save(folder, "config.json", &text);
    pen_text_clear(&text);
    pen_profile_print(&question->profile, &text);
    save(folder, "profile.json", &text);
    save(folder, "cluster.yaml", &question->cluster_text);
    pen_text_clear(&text);
    for (int line = 0; line < 64; line++) {
        for (int i = 0; i <= SEQUENCE; i++)
            pen_text_add(&text, "%d ", (7 * line + 13 * i) % 200);
        pen_text_add(&text, "\n");
    }
    save(folder, "ids.txt", &text);
    pen_text_release(&text);
}
