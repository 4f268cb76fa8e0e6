#ifndef PEN_BENCH_VALIDATION_ROWS_H
#define PEN_BENCH_VALIDATION_ROWS_H

/*
 * Published trainings as plans: what was measured on which cluster, by which
 * runtime. The files are read in place (their README says what they are); sets
 * and rows are numbered as its score.py does.
 */
#include "base/file.h"
#include "core/cluster.h"
#include "planner/predict.h"
#include "planner/timings.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    char set[32];
    uint32_t index;
    double measured_sec;   /* 0: it did not fit, or was not measured */
    double measured_bytes; /* of the fullest rank; 0: not known */
    uint32_t parts;        /* of memory, as bits, that were counted; 0: all */
    bool is_held_out;
    bool is_in_sight; /* no constant is from it, but what is counted was chosen
                         with it in sight */
    bool is_left_out; /* neither fitted nor judged */
    bool is_judged;   /* its time is compared; else only ranked */
    const json_t *facts;
    struct pen_model *model;
    struct pen_cluster cluster;
    struct pen_device_group group;
    struct pen_link_level levels[2];
    struct pen_plan *plan;
    struct pen_setting setting;
};

struct rows {
    struct row *items;
    uint32_t count;
    uint32_t capacity;
    struct pen_timings *timings;
    const char *folder;
};

static inline void die(const char *what, const char *why)
{
    fprintf(stderr, "validate: %s: %s\n", what, why);
    exit(2);
}

static inline json_t *load_facts(const struct rows *rows, const char *name)
{
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", rows->folder, name);
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        die(path, error.text);
    return json;
}

static inline double number_of(const json_t *facts, const char *key,
                               double otherwise)
{
    const json_t *value = json_object_get(facts, key);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static inline const char *word_of(const json_t *facts, const char *key)
{
    const char *word = json_string_value(json_object_get(facts, key));
    return word == NULL ? "" : word;
}

/* The shape of a row's model. */
struct shape {
    bool is_llama;
    double hidden, layers, heads, kv_heads, inner, vocab, sequence;
    bool is_tied;
};

static inline struct pen_model *make_model(const struct shape *shape)
{
    char text[1024];
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    if (shape->is_llama)
        snprintf(text, sizeof text,
                 "{\"model_type\":\"llama\",\"hidden_size\":%.0f,"
                 "\"intermediate_size\":%.0f,\"num_hidden_layers\":%.0f,"
                 "\"num_attention_heads\":%.0f,\"num_key_value_heads\":%.0f,"
                 "\"vocab_size\":%.0f,\"max_position_embeddings\":%.0f,"
                 "\"tie_word_embeddings\":%s}",
                 shape->hidden, shape->inner, shape->layers, shape->heads,
                 shape->kv_heads, shape->vocab, shape->sequence,
                 shape->is_tied ? "true" : "false");
    else
        snprintf(text, sizeof text,
                 "{\"model_type\":\"gpt2\",\"n_embd\":%.0f,\"n_layer\":%.0f,"
                 "\"n_head\":%.0f,\"vocab_size\":%.0f,\"n_positions\":%.0f}",
                 shape->hidden, shape->layers, shape->heads, shape->vocab,
                 shape->sequence);
    if (pen_model_parse(text, strlen(text), &model, &why) != PEN_OK)
        die(text, pen_text_string(&why));
    return model;
}

/* What a cluster of the published runs is made of. */
struct machine {
    const char *kind;
    double flops;
    double flops_fp8;
    double memory_gb;
    double memory_tbps;
    double link_gbps;    /* GB/s inside a node, one direction */
    double network_gbps; /* of one device */
};

static const struct machine selene = {"a100-80", 312e12, 0, 80, 2.039, 300, 25};
static const struct machine kaist = {"a100-80", 312e12, 0,   80,
                                     2.039,     300,    12.5};
static const struct machine jean_zay = {"a100-80", 312e12, 0,   80,
                                        2.039,     300,    6.25};
static const struct machine eos = {"h100-sxm", 989e12, 1979e12, 80,
                                   3.35,       450,    50};

static inline void make_cluster(const struct machine *machine, double gpus,
                                struct row *row)
{
    struct pen_device *device = &row->group.device;
    snprintf(device->kind, sizeof device->kind, "%s", machine->kind);
    device->flops[PEN_NUMBER_F32] = 19.5e12;
    device->flops[PEN_NUMBER_BF16] = machine->flops;
    device->flops[PEN_NUMBER_FP16] = machine->flops;
    device->flops[PEN_NUMBER_FP8] = machine->flops_fp8;
    device->memory_bytes = (uint64_t)(machine->memory_gb * 1024 * 1024 * 1024);
    device->memory_bytes_per_sec = machine->memory_tbps * 1e12;
    pen_device_default_constants(device);
    row->group.count = (uint64_t)gpus;
    row->levels[0] =
        (struct pen_link_level){"node", 8, machine->link_gbps * 1e9, 3e-6};
    row->levels[1] = (struct pen_link_level){"cluster", 0,
                                             machine->network_gbps * 1e9, 8e-6};
    row->cluster = (struct pen_cluster){.groups = &row->group,
                                        .num_groups = 1,
                                        .levels = row->levels,
                                        .num_levels = 2};
}

struct degrees {
    double tp, pp, vpp, cp, dp, micro, microbatches;
};

/* Equal numbers of blocks; what is left over goes to the first stages. */
static inline struct pen_plan *make_plan(const struct pen_model *model,
                                         const struct degrees *degrees,
                                         enum pen_recompute recompute)
{
    uint32_t pp = (uint32_t)degrees->pp;
    uint32_t vpp = (uint32_t)degrees->vpp;
    struct pen_plan *plan = pen_plan_create(pp, vpp);
    if (plan == NULL)
        die("plan", "no memory");
    plan->degrees[PEN_DEGREE_TP] = (uint32_t)degrees->tp;
    plan->degrees[PEN_DEGREE_CP] = (uint32_t)degrees->cp;
    plan->degrees[PEN_DEGREE_DP] = (uint32_t)degrees->dp;
    plan->micro_batch = (uint32_t)degrees->micro;
    plan->num_microbatches = (uint32_t)degrees->microbatches;
    uint32_t stages = plan->num_stages;
    uint32_t next = 0;
    for (uint32_t i = 0; i < stages; i++) {
        uint32_t count = model->num_blocks / stages +
                         (i < model->num_blocks % stages ? 1u : 0u);
        count += (i == 0 ? 1u : 0u) + (i + 1 == stages ? 1u : 0u);
        plan->stages[i] = (struct pen_layer_range){next, count, recompute};
        next += count;
    }
    if (vpp > 1 && !pen_plan_set(&plan->schedule.name, "interleaved"))
        die("plan", "no memory");
    return plan;
}

static inline struct row *add_row(struct rows *rows, const char *set,
                                  uint32_t index, double measured,
                                  const json_t *facts)
{
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity * 2 + 64;
        rows->items =
            realloc(rows->items, rows->capacity * sizeof *rows->items);
        if (rows->items == NULL)
            die("rows", "no memory");
    }
    struct row *row = &rows->items[rows->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->set, sizeof row->set, "%s", set);
    row->index = index;
    row->measured_sec = measured;
    row->facts = facts;
    row->is_judged = true;
    row->is_held_out = true;
    return row;
}

static inline void set_up(struct row *row, double sequence,
                          enum pen_number number, enum pen_target target)
{
    row->plan->sequence = (uint32_t)sequence;
    row->plan->number = number;
    row->setting =
        (struct pen_setting){.model = row->model,
                             .sequence = (uint32_t)sequence,
                             .number = number,
                             .target = target,
                             .global_batch = pen_plan_global_batch(row->plan)};
    pen_practice_init(&row->setting.practice, target, number);
    if (target != PEN_TARGET_MEGATRON)
        return;
    /* Before casts and the loss were fused, and segments grew. */
    row->setting.practice.fuses_casts = false;
    row->setting.practice.has_fused_loss = false;
    row->setting.practice.memory_holes = 0.2;
    row->setting.practice.is_tight = false;
}

/* Megatron-LM and its children before fused attention and overlap. */
static inline void practise_2021(struct row *row)
{
    struct pen_practice *practice = &row->setting.practice;
    practice->has_fused_attention = false;
    practice->has_dropout = true;
    practice->overlaps_gradients = false;
    practice->overlaps_parameters = false;
    practice->blocks_on_messages = true;
    practice->gradient_bytes = 2;
    practice->reduction_bytes = 2;
    practice->optimizer_bytes = 12;
    practice->fuses_accumulation = false;
}

/* Megatron-LM itself: 18 bytes for each parameter. */
static inline void sum_in_32_bits(struct row *row)
{
    row->setting.practice.gradient_bytes = 4;
    row->setting.practice.reduction_bytes = 4;
}

static inline void add_sc21(struct rows *rows)
{
    json_t *file = load_facts(rows, "megatron_sc21.json");
    for (int table = 1; table <= 2; table++) {
        const json_t *facts;
        size_t i;
        json_array_foreach(
            json_object_get(file, table == 1 ? "table1" : "table2"), i, facts)
        {
            bool is_zero3 = strcmp(word_of(facts, "scheme"), "zero3") == 0;
            struct row *row = add_row(
                rows, table == 1 ? "sc21_table1" : "sc21_table2", (uint32_t)i,
                number_of(facts, "derived_iter_time_s", 0), facts);
            struct shape shape = {.hidden = number_of(facts, "hidden", 0),
                                  .layers = number_of(facts, "layers", 0),
                                  .heads = number_of(facts, "heads", 0),
                                  .vocab = 51200,
                                  .sequence = 2048,
                                  .is_tied = true};
            struct degrees degrees = {
                .tp = number_of(facts, "tp", 1),
                .pp = number_of(facts, "pp", 1),
                .vpp = number_of(facts, "interleave_m", 1),
                .cp = 1,
                .dp = number_of(facts, "dp", 1),
                .micro = number_of(facts, "micro_batch", 1)};
            degrees.microbatches = number_of(facts, "global_batch", 0) /
                                   (degrees.dp * degrees.micro);
            row->model = make_model(&shape);
            row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_FULL);
            make_cluster(&selene, number_of(facts, "gpus", 0), row);
            set_up(row, 2048, PEN_NUMBER_FP16, PEN_TARGET_MEGATRON);
            practise_2021(row);
            if (!is_zero3)
                sum_in_32_bits(row);
            if (is_zero3)
                row->plan->sharding = PEN_SHARDING_ZERO3;
            row->setting.practice.gathers_singly = is_zero3;
        }
    }
}

/* One of the models of tables 3 to 5. */
static inline void open_recompute(struct row *row, const json_t *facts,
                                  enum pen_recompute mode)
{
    struct shape shape = {.hidden = number_of(facts, "hidden", 0),
                          .layers = number_of(facts, "layers", 0),
                          .heads = number_of(facts, "heads", 0),
                          .vocab = 51200,
                          .sequence = 2048};
    struct degrees degrees = {.tp = 8,
                              .pp = number_of(facts, "pp", 1),
                              .vpp = number_of(facts, "interleave_m", 1),
                              .cp = 1,
                              .dp = 1,
                              .micro = number_of(facts, "micro_batch", 1)};
    degrees.microbatches = number_of(facts, "global_batch", 0) / degrees.micro;
    row->model = make_model(&shape);
    row->plan = make_plan(row->model, &degrees, mode);
    make_cluster(&selene, number_of(facts, "gpus", 0), row);
    set_up(row, 2048, PEN_NUMBER_FP16, PEN_TARGET_MEGATRON);
    practise_2021(row);
    sum_in_32_bits(row);
    row->setting.practice.fuses_accumulation = true;
}

static inline void add_recompute(struct rows *rows)
{
    json_t *file = load_facts(rows, "megatron_recompute_2205_05198.json");
    for (int mode = 0; mode < 2; mode++) {
        const json_t *facts;
        size_t i;
        json_array_foreach(json_object_get(file, "table3_5"), i, facts)
        {
            struct row *row =
                add_row(rows,
                        mode == 0 ? "recompute_full_recompute"
                                  : "recompute_seqpar_selective",
                        (uint32_t)i,
                        number_of(facts,
                                  mode == 0 ? "iter_time_full_recompute_s"
                                            : "iter_time_seqpar_selective_s",
                                  0),
                        facts);
            open_recompute(row, facts,
                           mode == 0 ? PEN_RECOMPUTE_FULL
                                     : PEN_RECOMPUTE_SELECTIVE);
            row->plan->has_sequence_parallel = mode == 1;
        }
    }
}

static inline void add_vtrain(struct rows *rows, bool is_single)
{
    json_t *file = load_facts(rows, is_single ? "vtrain_single_node.json"
                                              : "vtrain_multi_node.json");
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "rows"), i, facts)
    {
        struct row *row =
            add_row(rows, is_single ? "vtrain_single" : "vtrain_multi",
                    (uint32_t)i, number_of(facts, "iter_ms", 0) / 1e3, facts);
        struct shape shape = {.hidden = number_of(facts, "hidden", 0),
                              .layers = number_of(facts, "layers", 0),
                              .heads = number_of(facts, "heads", 0),
                              .vocab = 51200,
                              .sequence = number_of(facts, "seq", 0)};
        struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                                  .pp = number_of(facts, "pp", 1),
                                  .vpp = 1,
                                  .cp = 1,
                                  .dp = number_of(facts, "dp", 1),
                                  .micro = number_of(facts, "mbs", 1)};
        degrees.microbatches =
            number_of(facts, "gbs", 0) / (degrees.dp * degrees.micro);
        row->is_held_out = !is_single || number_of(facts, "gpus", 0) == 8;
        row->model = make_model(&shape);
        row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_FULL);
        make_cluster(&kaist, number_of(facts, "gpus", 0), row);
        set_up(row, shape.sequence, PEN_NUMBER_FP16, PEN_TARGET_DEEPSPEED);
        practise_2021(row);
    }
}

static inline void add_h100_row(struct rows *rows, const char *set, size_t i,
                                const json_t *facts, const json_t *run,
                                const char *time_key, bool is_fp8)
{
    struct row *row =
        add_row(rows, set, (uint32_t)i, number_of(run, time_key, 0), run);
    bool is_llama = json_object_get(facts, "ffn") != NULL &&
                    json_object_get(facts, "kv_heads") != NULL;
    struct shape shape = {
        .is_llama = is_llama,
        .hidden = number_of(facts, "hidden", 0),
        .layers = number_of(run, "layers", number_of(facts, "layers", 0)),
        .heads = number_of(facts, "heads", 0),
        .kv_heads = number_of(facts, "kv_heads", 0),
        .inner = number_of(facts, "ffn", 0),
        .vocab = number_of(facts, "vocab", 51200),
        .sequence = number_of(facts, "seq", 2048)};
    double gpus = number_of(run, "gpus", 0);
    struct degrees degrees = {
        .tp = number_of(run, "tp", number_of(facts, "tp", 1)),
        .pp = number_of(run, "pp", number_of(facts, "pp", 1)),
        .vpp = number_of(run, "vp", number_of(facts, "vp", 1)),
        .cp = number_of(run, "cp", number_of(facts, "cp", 1)),
        .micro = 1};
    degrees.dp = gpus / (degrees.tp * degrees.pp * degrees.cp);
    degrees.microbatches =
        number_of(run, "gbs", number_of(run, "global_batch_size", 0)) /
        degrees.dp;
    row->model = make_model(&shape);
    row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_NONE);
    row->plan->has_sequence_parallel = true;
    row->plan->sharding = PEN_SHARDING_ZERO1;
    make_cluster(&eos, gpus, row);
    set_up(row, shape.sequence, is_fp8 ? PEN_NUMBER_FP8 : PEN_NUMBER_BF16,
           PEN_TARGET_MEGATRON);
    row->setting.practice.overlaps_tensor = true;
    row->setting.practice.blocks_on_messages = false;
    row->setting.practice.reduction_bytes = 2;
}

static inline void add_h100(struct rows *rows)
{
    json_t *file = load_facts(rows, "dgxc_h100_weak_scaling.json");
    const char *model;
    json_t *facts;
    json_object_foreach(file, model, facts)
    {
        const char *const formats[] = {"bf16", "fp8"};
        for (int f = 0; f < 2; f++) {
            const json_t *runs = json_object_get(facts, formats[f]);
            const json_t *run;
            size_t i;
            double least = INFINITY;
            char set[32];
            snprintf(set, sizeof set, "dgxc_%.16s_%s", model, formats[f]);
            json_array_foreach(runs, i, run) least =
                fmin(least, number_of(run, "gpus", 0));
            json_array_foreach(runs, i, run)
            {
                add_h100_row(rows, set, i, facts, run, "step_s", f == 1);
                rows->items[rows->count - 1].is_held_out =
                    number_of(run, "gpus", 0) != least;
            }
        }
    }
    json_t *mlperf = load_facts(rows, "mlperf_v31_gpt3_175b.json");
    const json_t *run;
    size_t i;
    json_array_foreach(json_object_get(mlperf, "rows"), i, run)
    {
        add_h100_row(rows, "mlperf", i, json_object_get(mlperf, "model"), run,
                     "median_step_s", true);
        rows->items[rows->count - 1].is_held_out =
            number_of(run, "gradient_accumulation_steps", 0) != 128;
    }
}

/*
 * Operations of a model for each token, forwards and backwards; of attention
 * half of the pairs, those that a causal one computes.
 */
static inline double flops_per_token(const struct shape *shape)
{
    double square = shape->hidden * shape->hidden;
    double block = 2 * square + 2 * square * shape->kv_heads / shape->heads +
                   3 * shape->hidden * shape->inner;
    return 6 * (shape->layers * block + shape->hidden * shape->vocab) +
           6 * shape->layers * shape->hidden * shape->sequence;
}

/*
 * Table 4 of the Llama 3 paper, which prints operations per second: seconds are
 * what a step takes at that rate. Of the 16 * 8 stages of a pipeline the first
 * is the embedding alone, the last the head alone; its practice is nearest to
 * torchtitan's. Not among the rows of load_rows(): their judge does not know
 * it.
 */
static inline void add_llama3(struct rows *rows)
{
    json_t *file = load_facts(rows, "misc_llm_runs.json");
    const json_t *runs = json_object_get(file, "runs");
    const json_t *model = NULL;
    const json_t *facts;
    size_t i;
    json_array_foreach(
        runs, i, facts) if (strcmp(word_of(facts, "name"), "Llama 3 405B") == 0)
        model = facts;
    json_array_foreach(json_object_get(model, "rows"), i, facts)
    {
        struct shape shape = {.is_llama = true,
                              .hidden = number_of(model, "hidden", 0),
                              .layers = number_of(model, "layers", 0),
                              .heads = number_of(model, "heads", 0),
                              .kv_heads = number_of(model, "kv_heads", 0),
                              .inner = number_of(model, "ffn", 0),
                              .vocab = number_of(model, "vocab", 0),
                              .sequence = number_of(facts, "seq", 0)};
        struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                                  .pp = number_of(facts, "pp", 1),
                                  .vpp = 8,
                                  .cp = number_of(facts, "cp", 1),
                                  .dp = number_of(facts, "dp", 1),
                                  .micro = 1,
                                  .microbatches =
                                      number_of(facts, "batch_per_dp", 0)};
        double gpus = number_of(facts, "gpus", 0);
        double flops = flops_per_token(&shape) * shape.sequence *
                       degrees.microbatches * degrees.dp;
        struct row *row = add_row(
            rows, "llama3", (uint32_t)i,
            flops / (gpus * number_of(facts, "tflops", 0) * 1e12), facts);
        row->model = make_model(&shape);
        row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_NONE);
        for (uint32_t stage = 0; stage < row->plan->num_stages; stage++)
            row->plan->stages[stage] =
                (struct pen_layer_range){stage, 1, PEN_RECOMPUTE_NONE};
        row->plan->has_sequence_parallel = true;
        row->plan->sharding = PEN_SHARDING_ZERO2;
        make_cluster(&eos, gpus, row);
        set_up(row, shape.sequence, PEN_NUMBER_BF16, PEN_TARGET_TORCHTITAN);
    }
}

static inline void add_bloom(struct rows *rows)
{
    json_t *file = load_facts(rows, "bloom_176b.json");
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "sweep"), i, facts)
    {
        bool is_timed = strcmp(word_of(facts, "status"), "ok") == 0;
        if (strcmp(word_of(facts, "status"), "not run") == 0) {
            fprintf(stderr, "bloom %zu: left out, it was not run\n", i);
            continue;
        }
        struct row *row =
            add_row(rows, "bloom", (uint32_t)i,
                    is_timed ? number_of(facts, "sec_per_iter", 0) : 0, facts);
        row->is_judged = false;
        struct shape shape = {.hidden = number_of(facts, "hidden", 14336),
                              .layers = number_of(facts, "layers", 80),
                              .heads = number_of(facts, "heads", 64),
                              .vocab = 250880,
                              .sequence = 2048};
        if (fmod(shape.hidden, shape.heads) != 0)
            shape.heads = 96;
        struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                                  .pp = number_of(facts, "pp", 1),
                                  .vpp = 1,
                                  .cp = 1,
                                  .dp = number_of(facts, "dp", 1),
                                  .micro = number_of(facts, "mbs", 1)};
        degrees.microbatches =
            floor(number_of(facts, "gbs", 2048) / (degrees.dp * degrees.micro));
        row->model = make_model(&shape);
        row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_FULL);
        row->plan->sharding = number_of(facts, "zero_stage", 1) >= 1
                                  ? PEN_SHARDING_ZERO1
                                  : PEN_SHARDING_NONE;
        make_cluster(&jean_zay,
                     fmax(number_of(facts, "gpus", 0),
                          (double)pen_plan_num_ranks(row->plan)),
                     row);
        set_up(row, 2048, PEN_NUMBER_FP16, PEN_TARGET_DEEPSPEED);
        practise_2021(row);
        /* Its optimizer for bf16 sums in 32 bits beside the 16. */
        if (strstr(word_of(facts, "phase"), "bf16") != NULL)
            row->setting.practice.gradient_bytes = 6;
    }
}

static inline void add_aleph(struct rows *rows)
{
    json_t *file = load_facts(rows, "aleph_alpha_layouts.json");
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "rows"), i, facts)
    {
        const char *status = word_of(facts, "status");
        bool is_timed = strcmp(status, "ok") == 0;
        if (!is_timed && strcmp(status, "OOM Error") != 0)
            continue;
        struct row *row =
            add_row(rows, "aleph", (uint32_t)i,
                    is_timed ? number_of(facts, "step_time_s", 0) : 0, facts);
        row->is_judged = false;
        const json_t *model = json_object_get(json_object_get(file, "models"),
                                              word_of(facts, "model"));
        struct shape shape = {.is_llama = true,
                              .hidden = number_of(model, "hidden", 0),
                              .layers = number_of(model, "layers", 0),
                              .heads = number_of(model, "heads", 0),
                              .kv_heads = number_of(model, "heads", 0),
                              .inner = number_of(model, "ffn", 0),
                              .vocab = 128000,
                              .sequence = number_of(facts, "seq", 2048)};
        double gpus = number_of(facts, "gpus", 0);
        struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                                  .pp = number_of(facts, "pp", 1),
                                  .vpp = 1,
                                  .cp = 1,
                                  .micro = number_of(facts, "mbs", 1)};
        degrees.dp = gpus / (degrees.tp * degrees.pp);
        degrees.microbatches = floor((shape.sequence > 4096 ? 512 : 2048) /
                                     (degrees.dp * degrees.micro));
        row->model = make_model(&shape);
        row->plan =
            make_plan(row->model, &degrees,
                      strcmp(word_of(facts, "act_ckpt"), "every_layer") == 0
                          ? PEN_RECOMPUTE_FULL
                          : PEN_RECOMPUTE_NONE);
        row->plan->sharding = PEN_SHARDING_ZERO1;
        row->plan->has_sequence_parallel =
            json_is_true(json_object_get(facts, "seq_parallel")) &&
            degrees.tp > 1;
        make_cluster(&selene, gpus, row);
        set_up(row, shape.sequence, PEN_NUMBER_BF16, PEN_TARGET_DEEPSPEED);
        practise_2021(row);
        row->setting.practice.has_dropout = false;
        row->setting.practice.gathers_logits = true;
        row->setting.practice.gradient_bytes = 2;
        row->setting.practice.has_fused_attention =
            strstr(word_of(facts, "kernel"), "flash") != NULL;
        row->setting.practice.has_fused_norm =
            strstr(word_of(facts, "kernel"), "RMS") != NULL;
    }
}

/* The array does not move any more. */
static inline void settle_rows(struct rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        struct row *row = &rows->items[i];
        row->cluster.groups = &row->group;
        row->cluster.levels = row->levels;
        row->setting.cluster = &row->cluster;
        row->setting.timings = rows->timings;
    }
}

static inline void load_rows(struct rows *rows, const char *folder)
{
    *rows = (struct rows){.folder = folder, .timings = pen_timings_create()};
    add_sc21(rows);
    add_recompute(rows);
    add_vtrain(rows, true);
    add_vtrain(rows, false);
    add_h100(rows);
    add_bloom(rows);
    add_aleph(rows);
    settle_rows(rows);
}

#endif
