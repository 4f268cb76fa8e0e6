/*
 * torchtitan 0.3.0: torchtitan.args for its command line, recipe.py with a
 * function plan() for configuration in Python, and schedule.csv. A model
 * without a name in torchtitan is made from numbers by model() of recipe.py,
 * which then has to be on the path of Python.
 */
#include "export/job.h"
#include "export/torchtitan.h"

#include <inttypes.h>
#include <string.h>

static const struct pen__titan titan = {"torchtitan 0.3.0", false};

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    pen_status status = pen__titan_fit(&titan, plan, model, notes, why);
    if (status == PEN_OK && model->rope.kind == PEN_ROPE_LINEAR)
        pen__note(notes,
                  "%s has no linear scaling of positions: they are not scaled",
                  titan.program);
    return status;
}

/*
 * Returns the function of torchtitan that configures this model, or NULL: the
 * dispatcher belongs to the model, not to the options.
 */
static const char *named_config(const struct pen_export_job *job)
{
    const struct pen__titan_flavour *flavour = pen__titan_flavour(job->model);
    bool is_usual = job->plan->recipe.dispatcher == PEN_DISPATCHER_ALLTOALL;
    return flavour == NULL || !is_usual ? NULL : flavour->configure;
}

/* ---- keys and values, of both files ---- */

/* A setting as "training.seq_len", and its value in Python. */
struct setting {
    const char *key;
    struct pen_text value;
};

#define MAX_SETTINGS 24u

struct settings {
    struct setting list[MAX_SETTINGS];
    uint32_t count;
};

static struct pen_text *add_setting(struct settings *settings, const char *key)
{
    struct setting *setting = &settings->list[settings->count++];
    setting->key = key;
    pen_text_init(&setting->value);
    return &setting->value;
}

static void add_count(struct settings *settings, const char *key,
                      uint64_t value)
{
    pen_text_add(add_setting(settings, key), "%" PRIu64, value);
}

static void add_word(struct settings *settings, const char *key,
                     const char *value)
{
    pen_text_add(add_setting(settings, key), "\"%s\"", value);
}

static void add_flag(struct settings *settings, const char *key, bool value)
{
    pen_text_add_string(add_setting(settings, key), value ? "True" : "False");
}

/*
 * Releases the settings; false when memory ran out while they were collected.
 */
static bool release_settings(struct settings *settings)
{
    bool is_whole = true;
    for (uint32_t i = 0; i < settings->count; i++) {
        is_whole = is_whole && !settings->list[i].value.has_failed;
        pen_text_release(&settings->list[i].value);
    }
    return is_whole;
}

static void collect_training(const struct pen_plan *plan, struct settings *out)
{
    struct pen__titan_numbers numbers = pen__titan_numbers(plan);
    add_count(out, "training.local_batch_size", numbers.local_batch);
    add_count(out, "training.global_batch_size", numbers.global_batch);
    add_count(out, "training.seq_len", plan->sequence);
    add_word(out, "training.mixed_precision_param", numbers.dtype);
    if (plan->degrees[PEN_DEGREE_PP] > 1 || plan->degrees[PEN_DEGREE_EP] > 1)
        add_flag(out, "training.disable_cuda_graphs", true);
    else if (plan->recipe.graphs == PEN_GRAPHS_FULL)
        add_flag(out, "training.disable_cuda_graphs", false);
    if (plan->recipe.moment_bytes == 4)
        add_word(out, "optimizer.implementation", "fused_opt_states_bf16");
    add_count(out, "debug.seed", plan->seed);
    add_count(out, "parallelism.data_parallel_replicate_degree",
              numbers.replicas);
    add_count(out, "parallelism.data_parallel_shard_degree", numbers.shards);
    add_word(out, "parallelism.fsdp_reshard_after_forward", numbers.reshard);
}

static pen_status collect(const struct pen_plan *plan, struct settings *out,
                          struct pen_text *csv, struct pen_text *why)
{
    const uint32_t *degrees = plan->degrees;
    const char *schedule;
    collect_training(plan, out);
    add_count(out, "parallelism.tensor_parallel_degree",
              degrees[PEN_DEGREE_TP]);
    if (degrees[PEN_DEGREE_TP] > 1)
        add_flag(out, "parallelism.enable_sequence_parallel",
                 plan->has_sequence_parallel);
    add_count(out, "parallelism.context_parallel_degree",
              degrees[PEN_DEGREE_CP]);
    /*
     * The balancer of the attention that these models have, with masks of
     * documents.
     */
    if (degrees[PEN_DEGREE_CP] > 1)
        add_word(out, "parallelism.context_parallel_load_balancer", "ptrr");
    add_count(out, "parallelism.expert_parallel_degree",
              degrees[PEN_DEGREE_EP]);
    add_count(out, "parallelism.pipeline_parallel_degree",
              degrees[PEN_DEGREE_PP]);
    if (degrees[PEN_DEGREE_PP] == 1)
        return PEN_OK;
    pen_status status = pen__titan_schedule(plan, &schedule, csv, why);
    if (status != PEN_OK)
        return status;
    add_word(out, "parallelism.pipeline_parallel_schedule", schedule);
    if (csv->length > 0)
        add_word(out, "parallelism.pipeline_parallel_schedule_csv",
                 "schedule.csv");
    add_count(out, "parallelism.pipeline_parallel_microbatch_size",
              plan->micro_batch);
    return PEN_OK;
}

/* ---- the command line ---- */

/* "False" is --no-flag; words lose their quotes. */
static void print_argument(const struct setting *setting, struct pen_text *out)
{
    const char *value = pen_text_string(&setting->value);
    const char *dot = strchr(setting->key, '.');
    if (strcmp(value, "True") == 0)
        pen_text_add(out, "--%s\n", setting->key);
    else if (strcmp(value, "False") == 0)
        pen_text_add(out, "--%.*s.no-%s\n", (int)(dot - setting->key),
                     setting->key, dot + 1);
    else if (value[0] == '"')
        pen_text_add(out, "--%s %.*s\n", setting->key,
                     (int)setting->value.length - 2, value + 1);
    else
        pen_text_add(out, "--%s %s\n", setting->key, value);
}

static void add_parts_argument(const struct pen_export_job *job,
                               struct pen_text *out)
{
    if (job->plan->degrees[PEN_DEGREE_PP] == 1)
        return;
    pen_text_add_string(out, "--parallelism.module_fqns_per_model_part");
    for (uint32_t i = 0; i < job->plan->num_stages; i++) {
        pen_text_add_string(out, " ");
        pen__titan_add_modules(job->model, &job->plan->stages[i], "lm_head", "",
                               ",", out);
    }
    pen_text_add_string(out, "\n");
}

static void write_args(const struct pen_export_job *job,
                       const struct settings *settings, struct pen_text *out)
{
    const struct pen__titan_flavour *flavour = pen__titan_flavour(job->model);
    const char *named = named_config(job);
    pen__export_add_head(&pen__export_torchtitan_030, job, out);
    pen_text_add(out, "--module %s --config %s\n",
                 named == NULL ? "recipe" : flavour->module,
                 named == NULL ? "model" : named);
    add_parts_argument(job, out);
    for (uint32_t i = 0; i < settings->count; i++)
        print_argument(&settings->list[i], out);
    pen_text_add(out, "activation_checkpoint:%s\n",
                 pen_recompute_names[job->plan->stages[0].recompute]);
}

/* ---- the recipe ---- */

static void add_rope(const struct pen_model *model, struct pen_text *out)
{
    const struct pen_rope *rope = &model->rope;
    pen_text_add(out, "    rope = %s.Config(dim=%u, max_seq_len=%u, theta=",
                 model->has_qk_norm ? "CosSinRoPE" : "ComplexRoPE",
                 model->head_dim, model->max_positions);
    pen_text_add_real(out, rope->theta);
    if (rope->kind == PEN_ROPE_LLAMA3 && !model->has_qk_norm) {
        pen_text_add_string(out, ", scaling=\"llama\",\n"
                                 "                              "
                                 "scaling_factor=");
        pen_text_add_real(out, rope->factor);
        pen_text_add_string(out, ", low_freq_factor=");
        pen_text_add_real(out, rope->low_freq_factor);
        pen_text_add_string(out, ", high_freq_factor=");
        pen_text_add_real(out, rope->high_freq_factor);
        pen_text_add(out,
                     ",\n                              "
                     "original_max_position_embeddings=%u",
                     rope->original_positions);
    }
    pen_text_add_string(out, ")\n");
}

static void add_imports(const struct pen_model *model, struct pen_text *out)
{
    bool is_qwen = model->has_qk_norm;
    pen_text_add(
        out,
        "import dataclasses\n"
        "from functools import partial\n\n"
        "import torch.nn as nn\n"
        "from torchtitan.components.loss import ChunkedLossWrapper, "
        "CrossEntropyLoss\n"
        "from torchtitan.models.common import %s, Embedding, Linear, RMSNorm\n"
        "from torchtitan.models.common.config_utils import (\n"
        "    get_attention_config, make_ffn_config, make_gqa_config)\n"
        "from torchtitan.models.%s.config_registry import %s as base\n"
        "from torchtitan.models.%s.model import %s, %s\n",
        is_qwen ? "CosSinRoPE" : "ComplexRoPE", is_qwen ? "qwen3" : "llama3",
        is_qwen ? "qwen3_14b" : "llama3_8b", is_qwen ? "qwen3" : "llama3",
        is_qwen ? "Qwen3Model" : "Llama3Model",
        is_qwen ? "Qwen3TransformerBlock" : "Llama3TransformerBlock");
}

static void add_blocks(const struct pen_model *model, struct pen_text *out)
{
    pen_text_add(out,
                 "    block = %s.Config(\n"
                 "        attention_norm=norm(%u), ffn_norm=norm(%u),\n"
                 "        attention=make_gqa_config(\n"
                 "            dim=%u, n_heads=%u, n_kv_heads=%u, head_dim=%u,\n"
                 "            wqkv_param_init=INIT, wo_param_init=INIT,\n"
                 "            inner_attention=get_attention_config(\"flex\"), "
                 "fuse_qkv=True,\n"
                 "            rope=rope, qk_norm=%s",
                 model->has_qk_norm ? "Qwen3TransformerBlock"
                                    : "Llama3TransformerBlock",
                 model->hidden, model->hidden, model->hidden, model->num_heads,
                 model->num_kv_heads, model->head_dim,
                 model->has_qk_norm ? "norm(" : "None");
    if (model->has_qk_norm)
        pen_text_add(out, "%u)", model->head_dim);
    pen_text_add(out,
                 "),\n        feed_forward=make_ffn_config(\n"
                 "            dim=%u, hidden_dim=%u, w1_param_init=INIT,\n"
                 "            w2w3_param_init=INIT))\n",
                 model->hidden, model->intermediate);
}

static void add_network(const struct pen_model *model, struct pen_text *out)
{
    pen_text_add(
        out,
        "    network = %s.Config(\n"
        "        dim=%u, vocab_size=%u, enable_weight_tying=%s,\n"
        "        tok_embeddings=Embedding.Config(\n"
        "            num_embeddings=%u, embedding_dim=%u, param_init=INIT),\n"
        "        norm=norm(%u),\n"
        "        lm_head=Linear.Config(\n"
        "            in_features=%u, out_features=%u, param_init=INIT),\n"
        "        layers=[dataclasses.replace(block) for _ in range(%u)])\n",
        model->has_qk_norm ? "Qwen3Model" : "Llama3Model", model->hidden,
        model->vocab, model->has_tied_embeddings ? "True" : "False",
        model->vocab, model->hidden, model->hidden, model->hidden, model->vocab,
        model->num_blocks);
}

/* model(): a configuration with this model in the place of another. */
static void add_model(const struct pen_model *model, struct pen_text *out)
{
    add_imports(model, out);
    pen_text_add_string(
        out, "\nINIT = {\"weight\": partial(nn.init.trunc_normal_, std=0.02),\n"
             "        \"bias\": nn.init.zeros_}\n\n\n"
             "def norm(width):\n"
             "    return RMSNorm.Config(normalized_shape=width, eps=");
    pen_text_add_real(out, model->norm_eps);
    pen_text_add_string(out,
                        ",\n                          param_init={\"weight\": "
                        "nn.init.ones_})\n\n\n"
                        "def model():\n");
    add_rope(model, out);
    add_blocks(model, out);
    add_network(model, out);
    pen_text_add(out,
                 "    config = base()\n"
                 "    config.model_spec = dataclasses.replace(\n"
                 "        config.model_spec, flavor=\"penstock\", "
                 "model=network)\n"
                 "    config.loss = ChunkedLossWrapper.Config(\n"
                 "        loss_fn=CrossEntropyLoss.Config("
                 "global_vocab_size=%u))\n"
                 "    return config\n",
                 model->vocab);
}

/* model(): one that torchtitan has, with another dispatcher. */
static void add_dispatcher(const struct pen_export_job *job,
                           struct pen_text *out)
{
    const struct pen__titan_flavour *flavour = pen__titan_flavour(job->model);
    pen_text_add(out,
                 "from torchtitan.models.%s import model_registry\n"
                 "from torchtitan.models.%s.config_registry import %s as base\n"
                 "\n\ndef model():\n"
                 "    config = base()\n"
                 "    config.model_spec = model_registry(\n"
                 "        \"%s\", moe_comm_backend=\"%s\")\n"
                 "    return config\n",
                 flavour->module, flavour->module, flavour->configure,
                 flavour->flavour,
                 pen_dispatcher_names[job->plan->recipe.dispatcher]);
}

static void add_parts(const struct pen_export_job *job, struct pen_text *out)
{
    if (job->plan->degrees[PEN_DEGREE_PP] == 1)
        return;
    pen_text_add_string(
        out, "    config.parallelism.module_fqns_per_model_part = [\n");
    for (uint32_t i = 0; i < job->plan->num_stages; i++) {
        pen_text_add_string(out, "        [");
        pen__titan_add_modules(job->model, &job->plan->stages[i], "lm_head",
                               "\"", ", ", out);
        pen_text_add_string(out, "],\n");
    }
    pen_text_add_string(out, "    ]\n");
}

static void write_recipe(const struct pen_export_job *job,
                         const struct settings *settings, struct pen_text *out)
{
    static const char *const classes[PEN_RECOMPUTES] = {NULL, "SelectiveAC",
                                                        "FullAC"};
    const struct pen__titan_flavour *flavour = pen__titan_flavour(job->model);
    const char *named = named_config(job);
    const char *class = classes[job->plan->stages[0].recompute];
    pen__export_add_head(&pen__export_torchtitan_030, job, out);
    pen_text_add_string(out, "import os\n\n");
    if (class != NULL)
        pen_text_add(out,
                     "from torchtitan.distributed.activation_checkpoint "
                     "import %s\n",
                     class);
    if (named != NULL)
        pen_text_add(out,
                     "from torchtitan.models.%s.config_registry import %s as "
                     "model\n",
                     flavour->module, named);
    else if (job->plan->recipe.dispatcher != PEN_DISPATCHER_ALLTOALL)
        add_dispatcher(job, out);
    else
        add_model(job->model, out);
    pen_text_add_string(out, "\n\ndef plan():\n    config = model()\n");
    for (uint32_t i = 0; i < settings->count; i++)
        pen_text_add(out, "    config.%s = %s\n", settings->list[i].key,
                     pen_text_string(&settings->list[i].value));
    add_parts(job, out);
    pen_text_add(out, "    config.activation_checkpoint = %s%s\n",
                 class == NULL ? "None" : class,
                 class == NULL ? "" : ".Config()");
    pen_text_add_string(out,
                        "    if os.environ.get(\"LR\"):\n"
                        "        for group in config.optimizer.param_groups:\n"
                        "            group.optimizer_kwargs[\"lr\"] = "
                        "float(os.environ[\"LR\"])\n"
                        "    return config\n");
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    struct settings settings = {.count = 0};
    struct pen_text csv = PEN_TEXT_EMPTY;
    pen_status status = collect(job->plan, &settings, &csv, why);
    if (status == PEN_OK) {
        write_args(job, &settings, pen__export_open(out, "torchtitan.args"));
        write_recipe(job, &settings, pen__export_open(out, "recipe.py"));
    }
    if (csv.length > 0)
        *pen__export_open(out, "schedule.csv") = csv;
    else
        pen_text_release(&csv);
    if (status == PEN_OK)
        pen__export_add_job(&pen__export_torchtitan_030, job,
                            pen__launch_of(job->plan), out);
    if (!release_settings(&settings)) {
        pen_why(why, "no memory for settings");
        status = PEN_NOMEM;
    }
    return status;
}

const struct pen_export pen__export_torchtitan_030 = {
    "torchtitan", "0.3.0", "arguments of torchtitan 0.3.0", fit, write, false};
