#ifndef PEN_BENCH_VALIDATION_MEMORY_H
#define PEN_BENCH_VALIDATION_MEMORY_H

/*
 * Published memory of a device, and what was counted: arrays alone, what the
 * allocator had reserved, or all of the device. None of these rows was fitted.
 */
#include "validation_rows.h"

#define GIB 1073741824.0

static inline void count_bytes(struct row *row, double bytes)
{
    row->measured_bytes = bytes;
    row->measured_sec = 0;
}

/* The figure is of arrays: no holes between them, no driver. */
static inline void count_arrays(struct row *row, double bytes)
{
    count_bytes(row, bytes);
    row->setting.practice.overhead_bytes = 0;
    row->setting.practice.memory_holes = 0;
}

static inline double named_number(const json_t *file, const char *group,
                                  const char *part, const char *model)
{
    return number_of(json_object_get(json_object_get(file, group), part), model,
                     0);
}

/*
 * Figure 1 of the recomputation paper, GiB by its own formulas for the first
 * rank of the pipeline: weights with the optimizer (18 bytes; embeddings are
 * left out there), and activations without and with selective recomputation.
 */
static inline void add_memory_paper(struct rows *rows)
{
    static const struct {
        const char *set;
        const char *part;
        uint32_t parts;
        enum pen_recompute mode;
    } sets[] = {{"mem_paper_weights", "params_plus_optimizer",
                 1u << PEN_MEMORY_WEIGHTS | 1u << PEN_MEMORY_GRADIENTS |
                     1u << PEN_MEMORY_OPTIMIZER,
                 PEN_RECOMPUTE_NONE},
                {"mem_paper_activations", "activations_no_opt",
                 1u << PEN_MEMORY_ACTIVATIONS, PEN_RECOMPUTE_NONE},
                {"mem_paper_activations", "activations_seq_selective",
                 1u << PEN_MEMORY_ACTIVATIONS, PEN_RECOMPUTE_SELECTIVE}};
    json_t *file = load_facts(rows, "megatron_recompute_2205_05198.json");
    for (size_t set = 0; set < sizeof sets / sizeof *sets; set++) {
        const json_t *facts;
        size_t i;
        json_array_foreach(json_object_get(file, "table3_5"), i, facts)
        {
            bool is_selective = sets[set].mode == PEN_RECOMPUTE_SELECTIVE;
            struct row *row =
                add_row(rows, sets[set].set, (uint32_t)(4 * set + i), 0, facts);
            open_recompute(row, facts, sets[set].mode);
            row->plan->has_sequence_parallel = is_selective;
            row->parts = sets[set].parts;
            count_arrays(row, GIB * named_number(file, "memory_fig1_gib",
                                                 sets[set].part,
                                                 word_of(facts, "model")));
        }
    }
}

/* Half of the H100 of that cluster: 96 GB of slower memory, 500 W. */
static const struct machine titan = {"h100-sxm", 989e12, 1979e12, 96,
                                     2.4,        450,    50};

static inline struct shape llama_shape(const char *size, double sequence)
{
    bool is_8b = strcmp(size, "8B") == 0;
    bool is_70b = strcmp(size, "70B") == 0;
    return (struct shape){.is_llama = true,
                          .hidden = is_8b    ? 4096
                                    : is_70b ? 8192
                                             : 16384,
                          .layers = is_8b    ? 32
                                    : is_70b ? 80
                                             : 126,
                          .heads = is_8b    ? 32
                                   : is_70b ? 64
                                            : 128,
                          .kv_heads = 8,
                          .inner = is_8b    ? 14336
                                   : is_70b ? 28672
                                            : 53248,
                          .vocab = 128256,
                          .sequence = sequence};
}

/*
 * torchtitan prints what the allocator reserved at most. A local batch under a
 * pipeline is cut into as many micro-batches as there are ranks in it: so it
 * was by default in 2024, while today it is the number of stages.
 */
static inline void add_memory_titan(struct rows *rows)
{
    json_t *file = load_facts(rows, "torchtitan.json");
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "llama31_h100_2024_12"), i, facts)
    {
        struct shape shape =
            llama_shape(word_of(facts, "model"), number_of(facts, "seq", 8192));
        bool is_looped =
            strcmp(word_of(facts, "schedule"), "Interleaved1F1B") == 0;
        struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                                  .pp = number_of(facts, "pp", 1),
                                  .vpp = is_looped ? 2 : 1,
                                  .cp = number_of(facts, "cp", 1),
                                  .dp = number_of(facts, "fsdp", 1),
                                  .microbatches = 1};
        if (degrees.pp > 1)
            degrees.microbatches = degrees.pp;
        degrees.micro =
            number_of(facts, "local_batch", 1) / degrees.microbatches;
        struct row *row =
            add_row(rows, "mem_torchtitan", (uint32_t)i, 0, facts);
        row->model = make_model(&shape);
        row->plan = make_plan(row->model, &degrees,
                              strcmp(word_of(facts, "ac"), "full") == 0
                                  ? PEN_RECOMPUTE_FULL
                                  : PEN_RECOMPUTE_SELECTIVE);
        row->plan->sharding = PEN_SHARDING_ZERO3;
        row->plan->has_sequence_parallel = degrees.tp > 1;
        make_cluster(&titan, number_of(facts, "gpus", 0), row);
        set_up(row, shape.sequence,
               number_of(facts, "fp8", 0) == 1 ? PEN_NUMBER_FP8
                                               : PEN_NUMBER_BF16,
               PEN_TARGET_TORCHTITAN);
        count_bytes(row, GIB * number_of(facts, "mem_gib", 0));
        row->setting.practice.overhead_bytes = 0;
        row->is_in_sight = true;
    }
}

/* ---- zero bubble: Megatron-LM without recomputation, pipeline only ---- */

/* The first and the last stage have a layer less. */
static inline void cut_short(struct pen_plan *plan)
{
    uint32_t stages = plan->num_stages;
    uint32_t each =
        (plan->stages[stages - 1].first + plan->stages[stages - 1].count) /
        stages;
    for (uint32_t i = 0; i < stages; i++)
        plan->stages[i] =
            (struct pen_layer_range){i * each, each, PEN_RECOMPUTE_NONE};
}

struct bubble_run {
    const json_t *shape; /* of the model */
    const char *schedule;
    double stages;
    double micro;
    double microbatches;
    double gb;
};

static inline void add_bubble_run(struct rows *rows, uint32_t index,
                                  const json_t *facts,
                                  const struct bubble_run *run)
{
    bool is_looped = strcmp(run->schedule, "1F1B-I") == 0;
    bool is_v = strcmp(run->schedule, "ZBV") == 0;
    bool is_zero = strncmp(run->schedule, "ZB", 2) == 0 && !is_v;
    struct shape shape = {.hidden = number_of(run->shape, "hidden", 0),
                          .layers = number_of(run->shape, "layers", 0),
                          .heads = number_of(run->shape, "heads", 0),
                          .vocab = 51200,
                          .sequence = 1024};
    double each = (shape.layers + 2) / run->stages;
    struct degrees degrees = {.tp = 1,
                              .pp = run->stages,
                              .vpp = is_looped ? each
                                     : is_v    ? 2
                                               : 1,
                              .cp = 1,
                              .dp = 1,
                              .micro = run->micro,
                              .microbatches = run->microbatches};
    struct row *row = add_row(rows, "mem_zero_bubble", index, 0, facts);
    row->model = make_model(&shape);
    row->plan = make_plan(row->model, &degrees, PEN_RECOMPUTE_NONE);
    cut_short(row->plan);
    const char *name = is_looped ? "interleaved"
                       : is_v    ? "zb-v"
                       : is_zero ? "zb-auto"
                                 : "1f1b";
    if (!pen_plan_set(&row->plan->schedule.name, name))
        die("plan", "no memory");
    if (is_zero)
        row->plan->schedule.memory_limit =
            run->stages * (strstr(run->schedule, "2p") != NULL ? 2 : 1);
    make_cluster(&selene, run->stages, row);
    set_up(row, 1024, PEN_NUMBER_BF16, PEN_TARGET_MEGATRON);
    practise_2021(row);
    sum_in_32_bits(row);
    count_arrays(row, GIB * run->gb); /* it fits GiB, not GB */
    row->is_in_sight = true;
}

/* The shape of the model of this name. */
static inline const json_t *find_shape(const json_t *file, const char *model)
{
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "main"), i, facts)
    {
        if (strcmp(word_of(facts, "model"), model) == 0)
            return facts;
    }
    return NULL;
}

static inline void add_bubble_table(struct rows *rows, const json_t *file,
                                    const char *table, uint32_t *index)
{
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, table), i, facts)
    {
        struct bubble_run run = {
            .shape = find_shape(file, word_of(facts, "model")),
            .schedule = word_of(facts, "schedule"),
            .stages = number_of(facts, "stages", number_of(facts, "gpus", 0)),
            .micro = number_of(facts, "micro_batch", 0),
            .microbatches = number_of(facts, "num_microbatches", 0),
            .gb = number_of(facts, "mem_gb", 0)};
        if (run.gb > 0)
            add_bubble_run(rows, (*index)++, facts, &run);
        const char *schedule;
        json_t *gb;
        json_object_foreach(json_object_get(facts, "memory_gb"), schedule, gb)
        {
            run.schedule = schedule;
            run.gb = json_number_value(gb);
            if (strcmp(schedule, "ZB2p_half_mb") != 0)
                add_bubble_run(rows, (*index)++, facts, &run);
        }
    }
}

static inline void add_memory_bubble(struct rows *rows)
{
    json_t *file = load_facts(rows, "zero_bubble.json");
    uint32_t index = 0;
    add_bubble_table(rows, file, "main", &index);
    add_bubble_table(rows, file, "zbv_same_memory", &index);
    add_bubble_table(rows, file, "double_microbatch_table8", &index);
    add_bubble_table(rows, file, "small_m_table9", &index);
}

/* BLOOM's own table, GB of a device as its tools show them. */
static inline void add_memory_bloom(struct rows *rows)
{
    struct rows timed = {.folder = rows->folder};
    add_bloom(&timed);
    for (uint32_t i = 0; i < timed.count; i++) {
        double gb = number_of(timed.items[i].facts, "mem_gb", 0);
        if (gb == 0)
            continue;
        struct row *row = add_row(rows, "", 0, 0, NULL);
        *row = timed.items[i];
        snprintf(row->set, sizeof row->set, "mem_bloom");
        count_bytes(row, gb * 1e9);
    }
    free(timed.items);
}

static inline void load_memory_rows(struct rows *rows, const char *folder)
{
    *rows = (struct rows){.folder = folder, .timings = pen_timings_create()};
    add_memory_paper(rows);
    add_memory_titan(rows);
    add_memory_bloom(rows);
    add_memory_bubble(rows);
    settle_rows(rows);
}

/* The parts of the fullest rank that a row counts. */
static inline double predicted_bytes(const struct row *row,
                                     const struct pen_prediction *prediction)
{
    double most = 0;
    for (uint32_t i = 0; i < prediction->num_memory; i++) {
        double bytes = 0;
        for (int part = 0; part < PEN_MEMORY_PARTS; part++)
            if (row->parts == 0 || (row->parts >> part & 1) != 0)
                bytes += (double)prediction->memory[i].bytes[part];
        most = fmax(most, bytes);
    }
    return most;
}

#endif
