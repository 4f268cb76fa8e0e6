#ifndef PEN_BENCH_VALIDATION_NEMO_H
#define PEN_BENCH_VALIDATION_NEMO_H

/*
 * NVIDIA's published rows of Megatron-Bridge with the recipes behind them, as
 * plans: sets nemo_dense and nemo_moe. Shapes of models are read beside the
 * folder of the rows.
 */
#include "validation_rows.h"

static inline bool is_true(const json_t *facts, const char *key)
{
    return json_is_true(json_object_get(facts, key));
}

static inline bool has_word(const json_t *facts, const char *key,
                            const char *word)
{
    const json_t *list = json_object_get(facts, key);
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item),
                                                 word) == 0) return true;
    return false;
}

/* NULL when the shape cannot be read; `why` says why. */
static inline struct pen_model *load_nemo_model(const struct rows *rows,
                                                const char *config,
                                                struct pen_text *why)
{
    static const char *const folders[] = {"configs/hf", "configs-2026"};
    struct pen_model *model = NULL;
    for (int i = 0; i < 2 && model == NULL; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/../data/%s/%s", rows->folder,
                 folders[i], config);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        fclose(file);
        if (pen_model_load(path, &model, why) != PEN_OK)
            return NULL;
    }
    if (model == NULL)
        pen_why(why, "%s is missing", config);
    return model;
}

/* The devices of a row in their usual system. */
static inline void make_usual_cluster(const char *system, double gpus,
                                      struct row *row)
{
    static const struct {
        const char *name;
        const char *kind;
    } kinds[] = {{"H100", "h100-sxm"},
                 {"B200", "b200"},
                 {"B300", "b300"},
                 {"GB200", "gb200"},
                 {"GB300", "gb300"}};
    const char *kind = "";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(system, kinds[i].name) == 0)
            kind = kinds[i].kind;
    const struct pen_device *device = pen_device_find(kind);
    const struct pen_system *usual = pen_system_of_device(kind);
    if (device == NULL || usual == NULL || usual->num_levels != 2)
        die(system, "no such device");
    row->group.device = *device;
    pen_device_default_constants(&row->group.device);
    row->group.count = (uint64_t)gpus;
    memcpy(row->levels, usual->levels, sizeof row->levels);
    row->cluster = (struct pen_cluster){.groups = &row->group,
                                        .num_groups = 1,
                                        .levels = row->levels,
                                        .num_levels = 2};
}

/*
 * Megatron's letters of a pipeline: E embedding, t block, m a block that
 * predicts a further token, L loss, | the next stage; *n repeats the letter or
 * the brackets before it.
 */
static inline void spell_out(const char *letters, char *out, size_t size)
{
    size_t length = 0;
    size_t group = 0; /* where the last letter or bracket began */
    size_t open = 0;
    for (const char *at = letters; *at != '\0';) {
        if (*at == '(') {
            open = length;
            at++;
        } else if (*at == ')') {
            group = open;
            at++;
        } else if (*at == '*') {
            char *end;
            long count = strtol(at + 1, &end, 10);
            size_t piece = length - group;
            for (long i = 1; i < count && length + piece < size; i++) {
                memcpy(out + length, out + group, piece);
                length += piece;
            }
            at = end;
        } else {
            if (length + 1 >= size)
                die(letters, "too long");
            group = length;
            out[length++] = *at++;
        }
    }
    out[length] = '\0';
}

static inline void set_stages_by_letters(struct row *row, const char *letters)
{
    char text[4096];
    uint32_t stage = 0;
    uint32_t next = 0;
    uint32_t count = 0;
    spell_out(letters, text, sizeof text);
    for (const char *at = text;; at++) {
        if (*at != '|' && *at != '\0') {
            count += *at != 'm';
            continue;
        }
        if (stage >= row->plan->num_stages)
            die(letters, "more stages than pp * vp");
        row->plan->stages[stage].first = next;
        row->plan->stages[stage++].count = count;
        next += count;
        count = 0;
        if (*at == '\0')
            break;
    }
    if (stage != row->plan->num_stages || next != row->model->num_layers)
        die(letters, "not the stages of the row");
}

/* Embedding and loss count as a block each. */
static inline void set_even_stages(struct row *row)
{
    uint32_t stages = row->plan->num_stages;
    uint32_t each = row->model->num_layers / stages;
    for (uint32_t i = 0; i < stages; i++) {
        row->plan->stages[i].first = i * each;
        row->plan->stages[i].count =
            i + 1 < stages ? each : row->model->num_layers - i * each;
    }
}

static inline enum pen_number number_of_precision(const char *precision)
{
    if (strcmp(precision, "bf16") == 0)
        return PEN_NUMBER_BF16;
    if (strcmp(precision, "fp8_mx") == 0)
        return PEN_NUMBER_MXFP8;
    return strcmp(precision, "nvfp4") == 0 ? PEN_NUMBER_NVFP4 : PEN_NUMBER_FP8;
}

static inline enum pen_dispatcher dispatcher_of(const json_t *recipe)
{
    if (strcmp(word_of(recipe, "moe_flex_backend"), "hybridep") == 0)
        return PEN_DISPATCHER_HYBRIDEP;
    if (strcmp(word_of(recipe, "moe_flex_backend"), "deepep") == 0)
        return PEN_DISPATCHER_DEEPEP;
    return PEN_DISPATCHER_ALLTOALL;
}

static inline enum pen_graphs graphs_of(const json_t *recipe)
{
    const char *kind = word_of(recipe, "cuda_graph_impl");
    if (strcmp(kind, "full_iteration") == 0 ||
        has_word(recipe, "cuda_graph_scope", "full_iteration"))
        return PEN_GRAPHS_FULL;
    return strcmp(kind, "none") == 0 ? PEN_GRAPHS_NONE : PEN_GRAPHS_MODULES;
}

static inline uint32_t bytes_of_word(const json_t *recipe, const char *key)
{
    return strcmp(word_of(recipe, key), "bf16") == 0 ? 2 : 4;
}

static inline void read_recipe(const json_t *from, struct pen_plan *plan)
{
    struct pen_recipe *to = &plan->recipe;
    to->dispatcher = dispatcher_of(from);
    to->overlaps_experts = is_true(from, "moe_a2a_overlap");
    to->delays_weights = is_true(from, "delay_wgrad_compute");
    to->drops_tokens = number_of(from, "moe_expert_capacity_factor", 0) > 0;
    to->is_paged = is_true(from, "moe_paged_stash");
    to->has_fused_experts = is_true(from, "fused_grouped_mlp");
    to->graphs = graphs_of(from);
    for (unsigned i = 0; i < PEN_MODULES; i++)
        if (has_word(from, "recompute_modules", pen_module_names[i]))
            to->modules |= 1u << i;
    if (has_word(from, "fine_grained_offload_modules", "fused_group_mlp"))
        to->offloaded |= 1u << PEN_MODULE_EXPERTS;
    to->offload_blocks = (uint32_t)number_of(from, "cpu_offload_layers", 0);
    if (strstr(word_of(from, "optimizer"), "muon") != NULL)
        to->optimizer = PEN_OPTIMIZER_MUON;
    to->gradient_bytes = is_true(from, "grad_reduce_in_fp32") ? 4 : 2;
    if (is_true(from, "precision_aware_optimizer"))
        to->moment_bytes = bytes_of_word(from, "exp_avg_dtype") +
                           bytes_of_word(from, "exp_avg_sq_dtype");
    to->gathers_narrow = is_true(from, "fp8_param_gather");
    to->has_narrow_attention = is_true(from, "fp8_attention");
    to->mtp_blocks = (uint32_t)number_of(from, "mtp_layers", 0);
    plan->expert_tp = (uint32_t)number_of(from, "etp", 1);
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute =
            to->modules != 0 ? PEN_RECOMPUTE_SELECTIVE : PEN_RECOMPUTE_NONE;
}

static inline void practise_2026(struct row *row, const json_t *recipe)
{
    struct pen_practice *practice = &row->setting.practice;
    practice->overlaps_tensor = is_true(recipe, "tp_comm_overlap");
    practice->blocks_on_messages = row->plan->degrees[PEN_DEGREE_VPP] == 1;
    practice->overlaps_gradients = is_true(recipe, "overlap_grad_reduce");
    practice->overlaps_parameters = is_true(recipe, "overlap_param_gather");
    practice->reduction_bytes = 2;
    practice->gradient_bytes = 2;
    practice->has_fused_loss = true;
    practice->fuses_casts = true;
    practice->memory_holes = 0; /* segments that grow, or a static pool */
    practice->is_tight = true;
}

static inline void add_nemo_row(struct rows *rows, const json_t *facts)
{
    char set[32];
    struct pen_text why = PEN_TEXT_EMPTY;
    const json_t *recipe = json_object_get(facts, "recipe");
    uint32_t index = (uint32_t)number_of(facts, "row", 0);
    struct pen_model *model =
        load_nemo_model(rows, word_of(facts, "config"), &why);
    snprintf(set, sizeof set, "nemo_%.16s", word_of(facts, "kind"));
    if (model == NULL) {
        fprintf(stderr, "%s %u: left out: %s\n", set, index,
                pen_text_string(&why));
        pen_text_release(&why);
        return;
    }
    struct row *row =
        add_row(rows, set, index, number_of(facts, "step_s_best", 0), facts);
    struct degrees degrees = {.tp = number_of(facts, "tp", 1),
                              .pp = number_of(facts, "pp", 1),
                              .vpp = number_of(facts, "vp", 1),
                              .cp = number_of(facts, "cp", 1),
                              .dp = number_of(facts, "dp", 1),
                              .micro = number_of(facts, "mbs", 1),
                              .microbatches = number_of(facts, "ga", 1)};
    row->model = model;
    row->is_held_out = is_true(facts, "judged");
    row->is_left_out = !row->is_held_out &&
                       (strcmp(word_of(facts, "fold"), "fit") != 0 ||
                        strcmp(word_of(facts, "task"), "lora") == 0 ||
                        json_is_string(json_object_get(facts, "suspect")));
    row->is_judged = false; /* a plan that does not fit is dumped as oom */
    row->plan = make_plan(model, &degrees, PEN_RECOMPUTE_NONE);
    row->plan->degrees[PEN_DEGREE_EP] = (uint32_t)number_of(facts, "ep", 1);
    row->plan->has_sequence_parallel = is_true(recipe, "sequence_parallel");
    row->plan->sharding = is_true(recipe, "megatron_fsdp") ? PEN_SHARDING_ZERO3
                                                           : PEN_SHARDING_ZERO1;
    if (word_of(recipe, "pp_layout")[0] != '\0')
        set_stages_by_letters(row, word_of(recipe, "pp_layout"));
    else if (is_true(recipe, "embedding_counts_as_layer"))
        set_even_stages(row);
    read_recipe(recipe, row->plan);
    make_usual_cluster(word_of(facts, "system"), number_of(facts, "gpus", 0),
                       row);
    set_up(row, number_of(facts, "seq", 0),
           number_of_precision(word_of(facts, "precision")),
           PEN_TARGET_MEGATRON);
    practise_2026(row, recipe);
}

static inline void add_nemo(struct rows *rows)
{
    json_t *file = load_facts(rows, "nemo_recipes.json");
    const json_t *facts;
    size_t i;
    json_array_foreach(json_object_get(file, "rows"), i, facts)
        add_nemo_row(rows, facts);
}

static inline void load_all_rows(struct rows *rows, const char *folder)
{
    load_rows(rows, folder);
    add_nemo(rows);
    settle_rows(rows);
}

#endif
