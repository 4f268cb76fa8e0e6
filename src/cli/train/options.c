/*
 * The options of penstock train. Names and defaults are Megatron-LM's wherever
 * it has such an option, for that is what people have in their scripts.
 */
#include "cli/train/options.h"

#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/help.h"
#include "cli/program/parser.h"
#include "cli/train/probe.h"
#include "cli/train/recompute.h"
#include "cli/train/text.h"
#include "core/mesh.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name, text) text,

static const char *const optimizers[] = {"adam", "sgd", "muon", NULL};
static const char *const muon_adjusts[] = {"original", "match_rms_adamw",
                                           "spectral_unclamped", NULL};
static const char *const strategies[] = {"no_shard", "optim", "optim_grads",
                                         "optim_grads_params", NULL};
static const char *const decay_groups[] = {"matrices", "all", NULL};
static const char *const lr_styles[] = {PEN_LR_STYLE_TABLE(TEXT_OF) NULL};
static const char *const wsd_styles[] = {PEN_WSD_STYLE_TABLE(TEXT_OF) NULL};
static const char *const lates[] = {"discard", "fold", NULL};
static const char *const on_nans[] = {"stop", "skip", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const recompute_methods[] = {"uniform", "block", NULL};

#define AT(member) offsetof(struct pen__train_args, member)

#define PATIENCE_NS INT64_C(30000000000)
#define MANY 1e15
#define BELOW_ONE 0.9999999999

static const struct pen__field fields[] = {
    TEXT("model", "MODEL", model,
         "a folder with config.json, a config.json, a run, a checkpoint, or a "
         "preset, as preset:gpt2"),
    FLAG("random-weights", has_random_weights,
         "start from random weights, also if --model has weights"),
    TEXT("load", "DIR", load,
         "resume from the newest checkpoint in DIR, with the options of its "
         "run that are not given"),
    {"data-path", "PREFIX...",
     "files of tokens, optionally each with a weight: 0.3 A 0.7 B; "
     "for an image model, the folder with the files of MNIST or CIFAR-10",
     PEN__FIELD_LIST, AT(data_path), 0, 0, NULL},
    TEXT("token-ids", "FILE", token_ids,
         "instead of --data-path: a text file of token ids, one "
         "sequence per line, used in order"),
    TEXT("split", "SHARES", split,
         "shares of train, validation and test, for tokens only; "
         "969,30,1 when not given"),
    SIZE("seq-length", seq_length, 1, 1u << 24,
         "tokens per sequence; the model's positions when not given"),
    SIZE("micro-batch-size", micro_batch_size, 1, 1u << 24,
         "samples per micro-batch; 1 when not given"),
    SIZE("global-batch-size", global_batch_size, 1, 1u << 30,
         "samples per step; one micro-batch when not given"),
    COUNT("train-iters", train_iters, 1, MANY, "total steps of the training"),
    COUNT("seed", seed, 0, MANY,
          "seed of the random numbers; 1234 when not given"),
    WORD("optimizer", optimizer, optimizers,
         "adam (AdamW), sgd, or muon for matrices of the blocks with AdamW for "
         "the rest; adam when not given"),
    REAL("lr", schedule.rate, 0, 1e6, "highest learning rate"),
    REAL("min-lr", schedule.min_rate, 0, 1e6,
         "learning rate at the end; 0 when not given"),
    WORD("lr-decay-style", lr_style, lr_styles,
         "constant, linear, cosine or WSD; linear when not given"),
    COUNT("lr-warmup-iters", schedule.warmup_iters, 0, MANY,
          "warm-up steps; 0 when not given"),
    COUNT("lr-decay-iters", schedule.decay_iters, 1, MANY,
          "step at which --min-lr is reached; --train-iters when not given"),
    COUNT("lr-wsd-decay-iters", schedule.wsd_decay_iters, 1, MANY,
          "steps of the final decay, for WSD"),
    WORD("lr-wsd-decay-style", wsd_style, wsd_styles,
         "exponential, linear, cosine or minus_sqrt; exponential when not "
         "given"),
    REAL("weight-decay", numbers.weight_decay, 0, 1e6,
         "weight decay; 0.01 when not given"),
    WORD("weight-decay-groups", decay_groups, decay_groups,
         "decay matrices (not biases and norms) or all; matrices when "
         "not given"),
    REAL("clip-grad", numbers.clip_norm, 0, 1e30,
         "clip the gradient norm to X, 0: no clipping; when not given, 1, or "
         "0 with a schedule that cannot clip"),
    REAL("adam-beta1", numbers.beta1, 0, BELOW_ONE,
         "beta1 of AdamW; 0.9 when not given"),
    REAL("adam-beta2", numbers.beta2, 0, BELOW_ONE,
         "beta2 of AdamW; 0.999 when not given"),
    REAL("adam-eps", numbers.epsilon, 1e-30, 1,
         "epsilon of AdamW; 1e-8 when not given"),
    REAL("sgd-momentum", numbers.momentum, 0, BELOW_ONE,
         "momentum of SGD; 0.9 when not given"),
    FLAG("sgd-nesterov", numbers.is_nesterov, "use Nesterov momentum in SGD"),
    REAL("muon-lr", muon_rate, 0, 1e6,
         "highest learning rate of Muon's matrices; --lr when not given"),
    REAL("muon-momentum", numbers.muon_momentum, 0, BELOW_ONE,
         "momentum of Muon; 0.95 when not given"),
    FLAG("muon-plain-momentum", numbers.is_muon_plain,
         "use plain momentum in Muon, not Nesterov's"),
    WORD("muon-adjust-lr", muon_adjust, muon_adjusts,
         "how Muon's learning rate depends on a matrix: original, "
         "match_rms_adamw or spectral_unclamped; original when not given"),
    REAL("moe-expert-capacity-factor", router.capacity, 0, 1e6,
         "drop the tokens of a micro-batch that an expert takes beyond X times "
         "those of a mean expert, the smallest gates first; none when not "
         "given"),
    REAL("moe-aux-loss-coeff", router.aux, 0, 1e6,
         "multiply the loss that keeps experts busy alike by X; 0 when not "
         "given"),
    REAL("moe-z-loss-coeff", router.z, 0, 1e6,
         "multiply the loss that keeps logits of routers small by X; 0 when "
         "not given"),
    REAL("moe-router-bias-update-rate", numbers.router_bias_rate, 0, 1e6,
         "move the balancing bias of each expert by X at every step, towards "
         "the mean number of tokens; 0 when not given"),
    FLAG("bf16", is_bf16, "products in bf16, master weights in float"),
    TEXT("engine", "NAME[,NAME...]", engine_name,
         "onednn, reference (plain loops), opencl[:DEVICE] or cuda[:DEVICE] "
         "(a number or a part of a name), sleep:5ms (operations only wait), "
         "sleep:profile (they wait as long as in --profile) or distant (for "
         "tests: plain loops as on a device); onednn when not given. "
         "Several: one for each rank of a pipeline, in its order"),
    COUNT("pp", pipeline_size, 1, PEN_MAX_STAGES,
          "ranks per pipeline; ranks beyond one pipeline form further "
          "replicas; 1 when not given"),
    COUNT("pipeline-model-parallel-size", pipeline_size, 1, PEN_MAX_STAGES,
          "the same as --pp"),
    COUNT("cp", context_size, 1, 1024,
          "ranks that share every sequence, each with two of its chunks, and "
          "gather keys and values; 1 when not given"),
    COUNT("context-parallel-size", context_size, 1, 1024, "the same as --cp"),
    COUNT("ep", expert_size, 1, 1024,
          "replicas that the experts of a model are dealt out over; tokens "
          "travel to their experts and back; results do not change; 1 when not "
          "given"),
    COUNT("expert-model-parallel-size", expert_size, 1, 1024,
          "the same as --ep"),
    COUNT("tp", tensor_size, 1, 1024,
          "ranks that share each layer, by heads, MLP and vocabulary; results "
          "depend on --logical-tensor alone; 1 when not given"),
    COUNT("tensor-model-parallel-size", tensor_size, 1, 1024,
          "the same as --tp"),
    TEXT("stage-replicas", "N,N", replicas_text,
         "ranks of each stage, which take micro-batches in turn; their sum is "
         "--pp, which may be left out; one each when not given"),
    TEXT("stage-layers", "N,N", stage_layers,
         "layers of each stage, embedding and head included; as even as they "
         "can be when not given"),
    TEXT("replica-shares", "N,N", replica_shares,
         "share of the batch of each replica of the pipeline, for machines of "
         "uneven speed, as 3,1; equal shares when not given"),
    COUNT("vpp", chunks, 1, PEN_MAX_STAGES,
          "stages per rank, if the schedule allows a choice"),
    COUNT("num-virtual-stages-per-pipeline-rank", chunks, 1, PEN_MAX_STAGES,
          "the same as --vpp"),
    COUNT("slices", slices, 1, 65536,
          "cut the sequences of a micro-batch into N token slices, which "
          "--schedule seq1f1b sends through the pipeline one by one; also in "
          "one process; 1 when not given"),
    TEXT("schedule", "NAME", pipeline,
         "a name from `penstock schedule list`, or a schedule file, which "
         "has its own ranks and micro-batches; when not given, 1f1b, "
         "interleaved with several stages per rank, or seq1f1b with slices"),
    COUNT("stale-after", cures.stale_after, 1, MANY,
          "with an asynchronous --schedule, make the first N steps "
          "synchronously: the pipeline drains after each; 0 when not given"),
    COUNT("stale-discount", cures.discount_steps, 1, MANY,
          "in the first N steps with delayed gradients, divide the learning "
          "rate by (1 + delay)^(1 - step/N); 0 when not given"),
    FLAG("predict-weights", cures.predicts,
         "with --schedule pipedream-2bw, compute with weights predicted one "
         "step ahead along the optimizer's direction"),
    WORD("mapping", mapping, pen_mesh_order_names,
         "order of ranks, innermost first: tp-cp-pp-dp or tp-cp-dp-pp; "
         "tp-cp-pp-dp when not given. Results do not change"),
    FLAG("use-distributed-optimizer", is_sharded,
         "the same as --sharding zero1"),
    WORD("sharding", sharding, pen_sharding_names,
         "shard over replicas: none, zero1 (the optimizer's state), zero2 "
         "(also gradients) or zero3 (also weights); none when not given. "
         "Results do not change"),
    WORD("data-parallel-sharding-strategy", sharding, strategies,
         "the same in Megatron's words: no_shard, optim, optim_grads or "
         "optim_grads_params"),
    COUNT("sharding-group", sharding_group, 1, 65536,
          "with --sharding zero3, replicas that have all weights together: N "
          "neighbours send each other layers, and other groups have copies; "
          "all replicas when not given. Results do not change"),
    FLAG("fast-sums", has_fast_sums,
         "sum gradients in any order: faster, but not bit-reproducible "
         "across rank counts"),
    TEXT("sync", "METHOD", sync,
         "method to synchronise replicas, from `penstock sync list`; "
         "allreduce when not given"),
    COUNT("sync-interval", sync_interval, 1, MANY,
          "steps between synchronisations; as in sync list when not given"),
    {"sync-option", "NAME=X...", "options of the method: gamma=0.01 rho=0.1",
     PEN__FIELD_LIST, AT(sync_options), 0, 0, NULL},
    COUNT("sync-replicas", sync_replicas, 1, 1u << 16,
          "number of replicas that --sync synchronises; one per pipeline "
          "when not given"),
    TEXT("compress", "NAME[:X]", compress,
         "compress messages between replicas with this compressor from "
         "`penstock sync list`: powersgd:4"),
    TEXT(
        "ring", "HOST:PORT", ring,
        "train as one island of several, which agree on each round of --sync "
        "by this `penstock ring coordinate`; needs --island, --key and --save"),
    TEXT("island", "NAME", island,
         "with --ring: the number of this island in --keys, or its name there"),
    TEXT("key", "FILE", key,
         "with --ring: the private key of this island, from `penstock ring "
         "key`"),
    TEXT("keys", "FOLDER", keys,
         "with --ring: the folder of public keys; keys, in the folder of "
         "--key, when not given"),
    TEXT("patience", "TIME", patience,
         "with --ring: time after which a silent island is dropped, as 30s; "
         "the same as the coordinator's, for all other times of the ring "
         "follow from it; 30s when not given"),
    WORD("late", late, lates,
         "with --ring: where a round was committed without this island, "
         "discard its contribution and compute its batches again, or fold it "
         "into the next round; discard when not given"),
    FLAG("sparse-embedding", has_sparse_sums,
         "for untied embeddings, send only nonzero gradient rows; "
         "results do not change"),
    TEXT("compress-stages", "NAME", compress_stages,
         "send activations and their gradients between ranks as "
         "integers with one scale per block: int8, int4 or int8:BLOCK, with "
         "a BLOCK of 64 when not given; or subspace:K to train weights that "
         "write to K columns of the residual stream alone, and send these; "
         "none when not given"),
    REAL("sparsity", sparsity, 0, BELOW_ONE,
         "prune this share of each matrix of the blocks, the smallest weights, "
         "when the run starts, and keep gradients, moments and sums for the "
         "others alone; 0 when not given"),
    COUNT("local-updates", local_updates, 1, PEN_MAX_STAGES,
          "cut the blocks into N sections that learn from losses of their own, "
          "each by a head that is trained with it; no gradient goes from "
          "section to section, nor from stage to stage; 1 when not given"),
    COUNT("logical-replicas", logical_replicas, 1, 1u << 16,
          "split the batch into N fixed parts for summation, so that "
          "results do not depend on the number of ranks; the "
          "checkpoint's number, or one per replica, when not given"),
    COUNT("logical-tensor", logical_tensor, 1, 1024,
          "compute every product that tensor parallelism cuts in N pieces, "
          "whose results are added in a fixed order; the checkpoint's number, "
          "or --tp, when not given"),
    FLAG("sequence-parallel", is_sequence_parallel,
         "with --tp: each rank of a group keeps its part of the tokens between "
         "the products that are cut, for less memory. With --logical-tensor "
         "alone: compute as such ranks do"),
    TEXT("plan", "PLAN", plan,
         "take stages, schedule, batch and sharding from this "
         "plan.json, in place of their options"),
    {"move", "STEP=PLAN...",
     "after STEP, continue with the layout of this plan.json, on as many ranks "
     "of the job as it needs; results do not change. Further moves: 10=A.json "
     "20=B.json",
     PEN__FIELD_LIST, AT(moves), 0, 0, NULL},
    FLAG("check", is_check,
         "check plan, model, data, schedule and memory, and end before the "
         "first step; nothing is written. One process checks all ranks of a "
         "--plan"),
    TEXT("profile", "FILE", profile,
         "times that `penstock profile` measured, to split layers and "
         "predict steps"),
    TEXT("trace", "DIR", trace,
         "record all operations in DIR, for `penstock view`"),
    COUNT("verify-interval", verify_interval, 1, MANY,
          "every N steps, compare the weights of replicas bit by bit, and "
          "their moments without ZeRO-1; never when not given"),
    FLAG("checksum-messages", has_checksums,
         "add a CRC32C to every message between ranks; a damaged message "
         "ends the job"),
    WORD("on-nan", on_nan, on_nans,
         "when a step has no finite loss or gradient norm, also when computed "
         "again: stop the job, or skip its batch, up to 10 in a row; stop when "
         "not given"),
    REAL("hang-timeout", hang_timeout, 0, 1e9,
         "end the job when a rank has waited X seconds without progress; 0: "
         "never. When not given: 2 s for a stopped rank, 25 steps and at least "
         "30 s for one that sleeps"),
    REAL("exit-duration-in-mins", exit_minutes, 0, 1e9,
         "write a checkpoint and end after X minutes"),
    REAL("peak-tflops", peak_tflops, 1e-6, 1e6,
         "the peak of one rank in Tflop/s, for `% of peak`; measured at the "
         "start when not given, for up to half a second"),
    COUNT("threads", threads, 1, 4096,
          "compute threads; OMP_NUM_THREADS, or one per core, when not "
          "given"),
    WORD("recompute-granularity", recompute, recomputes,
         "recompute activations instead of keeping them: none, "
         "selective or full; none when not given"),
    TEXT("recompute-modules", "LIST", recompute_modules,
         "modules that selective recomputation computes again: core_attn, "
         "layernorm, mlp; norms and activation functions when not given"),
    TEXT("recompute-stages", "LIST", recompute_stages,
         "instead of --recompute-granularity, one for each stage of the "
         "pipeline, as full,selective,none"),
    WORD("recompute-method", recompute_method, recompute_methods,
         "blocks of full recomputation: uniform, one in N keeps its input and "
         "N are computed again together, or block, the first N of a stage are "
         "computed again; uniform when not given"),
    COUNT("recompute-num-layers", recompute_num_layers, 1, PEN_MAX_STAGES,
          "the number of blocks of that method; 1 when not given"),
    TEXT("save", "DIR", save, "write checkpoints to DIR, also on Ctrl-C"),
    COUNT("save-interval", save_interval, 1, MANY,
          "steps between checkpoints; only at the end when not given"),
    COUNT(
        "save-keep", save_keep, 1, 1u << 30,
        "keep the newest N checkpoints of this run that were verified, delete "
        "older ones; all are kept when not given"),
    TEXT("run", "DIR", run,
         "write log, trace and memory use to DIR, for `penstock report`"),
    TEXT("log", "FILE", log, "write one line of JSON per step to FILE"),
    COUNT("log-interval", log_interval, 1, MANY,
          "steps between progress lines on stdout; 10 when not given"),
    TEXT("probe", "FILE", probe,
         "write figures of activations, gradients and weights, layer by "
         "layer, to FILE, for `penstock probe diff`"),
    TEXT("probe-steps", "LIST", probe_steps,
         "with --probe: steps such as 1,5,10-20; the first step of the run "
         "when not given"),
    TEXT("tensorboard-dir", "DIR", tensorboard_dir,
         "write event files for TensorBoard to DIR"),
    TEXT("metrics-port", "PORT", metrics_port,
         "serve metrics for Prometheus at "
         "http://127.0.0.1:PORT/metrics; 0 takes a free port"),
    COUNT("eval-interval", eval_interval, 1, MANY,
          "steps between evaluations on the validation part, or on the "
          "test images; never when not given"),
    COUNT("eval-iters", eval_iters, 1, MANY,
          "global batches of an evaluation; 10 when not given"),
};

enum { NUM_FIELDS = sizeof fields / sizeof *fields };

/* Options in --help, which is one screen; --help-all has all. */
static const char *const usual_names[] = {
    "model",       "load", "data-path", "global-batch-size",
    "train-iters", "lr",   "pp",        "save",
    "run",         NULL};

/* Names all missing options at once. */
static void require_args(const struct pen__train_args *args,
                         const struct argp_state *state)
{
    const struct {
        const char *words;
        bool is_missing;
    } needs[] = {
        {"--model or --load", args->model == NULL && args->load == NULL},
        {"--data-path or --token-ids",
         args->data_path.count == 0 && args->token_ids == NULL},
        {"--train-iters", args->train_iters == 0},
        {"--lr", isnan(args->schedule.rate) != 0},
    };
    struct pen_text missing = PEN_TEXT_EMPTY;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (needs[i].is_missing)
            pen_text_add(&missing, "%s%s", missing.length == 0 ? "" : ", ",
                         needs[i].words);
    if (missing.length != 0)
        argp_error(state,
                   "missing: %s; or give a text alone, as in: penstock train "
                   "play.txt",
                   pen_text_string(&missing));
    pen_text_release(&missing);
}

const char *pen__train_move_plan(const char *word, uint64_t *step)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(word, &end, 10);
    if (*word < '0' || *word > '9' || errno != 0 || *end != '=' ||
        end[1] == '\0')
        return NULL;
    *step = number;
    return end + 1;
}

static void check_ring(const struct pen__train_args *args,
                       const struct argp_state *state)
{
    static const char *const names[] = {"--island", "--key", "--keys",
                                        "--patience"};
    const char *const given[] = {args->island, args->key, args->keys,
                                 args->patience};
    if (args->ring != NULL &&
        (args->island == NULL || args->key == NULL || args->save == NULL))
        argp_error(state, "--ring needs --island NAME, --key FILE and --save "
                          "DIR");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (args->ring == NULL && given[i] != NULL)
            argp_error(state, "%s needs --ring HOST:PORT", names[i]);
    if (args->ring == NULL && args->late != PEN__LATE_DISCARD)
        argp_error(state, "--late needs --ring HOST:PORT");
    if (args->patience_ns == 0)
        argp_error(state,
                   "--patience %s is not a time from 0.5 s to 86400 s; for "
                   "example 30s",
                   args->patience);
}

static void check_args(const struct pen__train_args *args,
                       const struct argp_state *state)
{
    require_args(args, state);
    check_ring(args, state);
    if (args->data_path.count > 0 && args->token_ids != NULL)
        argp_error(state, "--data-path and --token-ids exclude each other");
    for (size_t i = 0; i < args->moves.count; i++) {
        uint64_t step;
        if (pen__train_move_plan(args->moves.words[i], &step) == NULL)
            argp_error(state,
                       "--move must be STEP=PLAN, such as 100=plan.json, not "
                       "'%s'",
                       args->moves.words[i]);
    }
    if (!isnan(args->muon_rate) && args->optimizer != PEN_STEP_RULE_MUON)
        argp_error(state, "--muon-lr needs --optimizer muon");
    if (!isnan(args->muon_rate) && args->schedule.rate == 0)
        argp_error(state, "--muon-lr needs an --lr above 0, because both "
                          "follow one schedule");
    if (args->save_interval > 0 && args->save == NULL)
        argp_error(state, "--save-interval needs --save DIR");
    if (args->save_keep > 0 && args->save == NULL)
        argp_error(state, "--save-keep needs --save DIR");
    if (args->run != NULL && (args->log != NULL || args->trace != NULL))
        argp_error(state,
                   "--run and %s exclude each other, because both write a %s",
                   args->log != NULL ? "--log" : "--trace",
                   args->log != NULL ? "log" : "trace");
    if (args->probe_steps != NULL && args->probe == NULL)
        argp_error(state, "--probe-steps needs --probe FILE");
    if (args->probe_steps != NULL &&
        !pen__train_probe_is_list(args->probe_steps))
        argp_error(state,
                   "--probe-steps must be a list of steps such as 1,5,10-20, "
                   "not '%s'",
                   args->probe_steps);
    if (args->has_sparse_sums && args->has_fast_sums)
        argp_error(state,
                   "--sparse-embedding and --fast-sums exclude each other, "
                   "because MPI sums whole arrays");
    if (args->eval_interval > 0 && args->token_ids != NULL)
        argp_error(
            state,
            "--eval-interval needs --data-path, because --token-ids has no "
            "validation part");
}

/* Reads "sleep:5ms" and the like. */
static int64_t read_sleep(const char *text)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}};
    char *end;
    if (strncmp(text, "sleep:", 6) != 0)
        return 0;
    double number = strtod(text + 6, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && number > 0 &&
            number * units[i].ns <= 1e12)
            return (int64_t)(number * units[i].ns);
    return 0;
}

static bool add_engine(struct pen__train_args *args, const char *word)
{
    struct pen__train_engine it;
    it.kind = pen_engine_read(word, &it.device);
    if (it.kind == NULL || args->num_engines == PEN__MOST_ENGINES)
        return false;
    args->engines[args->num_engines++] = it;
    if (args->engine == NULL ||
        (it.kind->uses_threads && !args->engine->uses_threads)) {
        args->engine = it.kind;
        args->engine_device = it.device;
    }
    return true;
}

/* Reads names of engines with commas between them; false: one is unknown. */
static bool read_engines(struct pen__train_args *args, const char *text)
{
    char *word = args->engine_words;
    int length = snprintf(word, sizeof args->engine_words, "%s", text);
    args->engine = NULL;
    args->num_engines = 0;
    if (length < 0 || (size_t)length >= sizeof args->engine_words)
        return false;
    for (char *comma = strchr(word, ','); comma != NULL;
         comma = strchr(word, ',')) {
        *comma = '\0';
        if (!add_engine(args, word))
            return false;
        word = comma + 1;
    }
    return add_engine(args, word);
}

static void read_engine(struct pen__train_args *args,
                        const struct argp_state *state)
{
    const char *name = args->engine_name;
    bool has_duration = strcmp(name, "sleep:profile") != 0;
    args->sleep_ns = has_duration ? read_sleep(name) : 0;
    args->is_sleeping = !has_duration || args->sleep_ns > 0;
    bool is_known = read_engines(args, args->is_sleeping ? "reference" : name);
    if (!has_duration && args->profile == NULL)
        argp_error(state, "--engine sleep:profile needs --profile FILE");
    if (!is_known)
        argp_error(
            state,
            "--engine must be onednn, reference, opencl[:DEVICE], "
            "cuda[:DEVICE] or distant, several of them with commas between, or "
            "sleep:profile or sleep:DURATION such as sleep:5ms, not "
            "'%s'",
            name);
}

/* The K of subspace:K; 0 for anything else. */
static uint32_t read_subspace(const char *text)
{
    static const char prefix[] = "subspace:";
    const char *number = text + sizeof prefix - 1;
    char *end;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || *number < '0' ||
        *number > '9')
        return 0;
    unsigned long width = strtoul(number, &end, 10);
    return *end == '\0' && width <= 1u << 20 ? (uint32_t)width : 0;
}

/* Reads "int8", "int4:256" and the like. */
static void read_stage_code(struct pen__train_args *args,
                            const struct argp_state *state)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } codes[] = {{"none", 0}, {"int8", 8}, {"int4", 4}};
    const char *text = args->compress_stages;
    if (text == NULL)
        return;
    args->subspace = read_subspace(text);
    if (args->subspace > 0)
        return;
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char *end = "";
        unsigned long block = 64;
        if (strlen(codes[i].name) != length ||
            strncmp(codes[i].name, text, length) != 0)
            continue;
        if (text[length] == ':')
            block =
                codes[i].bits == 0 ? 0 : strtoul(text + length + 1, &end, 10);
        args->stage_code = (struct pen_block_code){codes[i].bits, block};
        if (*end == '\0' && block >= 8 && block % 8 == 0 &&
            block <= PEN_MESSAGE_MAX_BLOCK)
            return;
    }
    argp_error(state,
               "--compress-stages must be none, int8, int4, int8:BLOCK, "
               "int4:BLOCK or subspace:K, BLOCK a multiple of 8 up to %d and K "
               "from 1, not '%s'",
               PEN_MESSAGE_MAX_BLOCK, text);
}

static void read_recomputation(struct pen__train_args *args,
                               const struct argp_state *state)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__train_recompute_read(args, &why) != PEN_OK)
        argp_error(state, "%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void read_metrics_port(struct pen__train_args *args,
                              const struct argp_state *state)
{
    const char *text = args->metrics_port;
    char *end;
    if (text == NULL)
        return;
    unsigned long port = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || port > UINT16_MAX)
        argp_error(state,
                   "--metrics-port must be a whole number from 0 to %d, not "
                   "'%s'",
                   UINT16_MAX, text);
    args->metrics_port_number = (uint16_t)port;
}

/* Places log and trace in the folder of --run. */
static void place_run(struct pen__train_args *args)
{
    if (args->run == NULL)
        return;
    pen_text_add(&args->run_log, "%s/log.jsonl", args->run);
    args->log = pen_text_string(&args->run_log);
    if (args->replica_shares != NULL) /* several schedules have no trace */
        return;
    pen_text_add(&args->run_trace, "%s/trace", args->run);
    args->trace = pen_text_string(&args->run_trace);
}

/* Drops all outputs: a check writes nothing. */
static void drop_outputs(struct pen__train_args *args)
{
    if (!args->is_check)
        return;
    args->run = args->log = args->trace = args->tensorboard_dir = NULL;
    args->probe = NULL;
    args->metrics_port = NULL;
}

/* Sets options that follow from other ones. */
static void complete(struct pen__train_args *args,
                     const struct argp_state *state)
{
    read_engine(args, state);
    read_stage_code(args, state);
    read_recomputation(args, state);
    read_metrics_port(args, state);
    if (args->is_sharded && args->sharding == PEN_SHARDING_NONE)
        args->sharding = PEN_SHARDING_ZERO1;
    drop_outputs(args);
    place_run(args);
    args->numbers.kind = (enum pen_step_rule)args->optimizer;
    args->numbers.muon_adjust = (enum pen_muon_adjust)args->muon_adjust;
    if (!isnan(args->muon_rate) && args->schedule.rate > 0)
        args->numbers.muon_scale = args->muon_rate / args->schedule.rate;
    args->numbers.decay_group = (enum pen_decay_group)args->decay_groups;
    args->schedule.style = (enum pen_lr_style)args->lr_style;
    args->schedule.wsd_style = (enum pen_wsd_style)args->wsd_style;
    if (args->schedule.decay_iters == 0)
        args->schedule.decay_iters = args->train_iters;
    args->has_global_batch = args->global_batch_size != 0;
    if (!args->has_global_batch)
        args->global_batch_size = args->micro_batch_size;
    args->replica_batch = args->global_batch_size;
    if (args->split == NULL)
        args->split = "969,30,1";
}

static error_t take(int key, char *text, struct argp_state *state)
{
    struct pen__train_args *args = state->input;
    size_t index = pen__fields_index(key);
    if (index < NUM_FIELDS)
        args->given[index] = text == NULL ? "" : text;
    return pen__fields_parse(fields, NUM_FIELDS, key, text, state);
}

/* Whether an option was given, by either name where it has two. */
static bool is_given(const struct pen__train_args *args, size_t index)
{
    for (size_t i = 0; i < NUM_FIELDS; i++)
        if (fields[i].offset == fields[index].offset && args->given[i] != NULL)
            return true;
    return false;
}

/* Acts as if the line had the option; the words must stay. */
static error_t give(size_t index, const json_t *words, struct argp_state *state)
{
    bool is_flag = fields[index].value == NULL;
    size_t count = json_array_size(words);
    if (is_flag != (count == 0))
        return 0; /* of another release */
    error_t error = 0;
    for (size_t i = 0; error == 0 && i < (is_flag ? 1 : count); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        error = take(i == 0 ? pen__fields_key(index) : ARGP_KEY_ARG,
                     (char *)word, state);
    }
    return error;
}

/* ---- texts ---- */

static bool has_open_list(const struct pen__train_args *args)
{
    return args->data_path.is_open || args->sync_options.is_open ||
           args->moves.is_open;
}

static error_t take_text(const char *path, struct argp_state *state)
{
    struct pen__train_args *args = state->input;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__train_text_is_wrong(path, &why))
        argp_error(state, "%s", pen_text_string(&why));
    pen_text_release(&why);
    return pen__list_add(&args->texts, path);
}

static void check_texts(const struct pen__train_args *args,
                        const struct argp_state *state)
{
    const char *other = args->load != NULL          ? "--load"
                        : args->data_path.count > 0 ? "--data-path"
                        : args->token_ids != NULL   ? "--token-ids"
                        : args->plan != NULL        ? "--plan"
                                                    : NULL;
    if (other != NULL)
        argp_error(state, "a text and %s exclude each other: '%s'", other,
                   args->texts.words[0]);
    if (args->is_check)
        argp_error(state,
                   "--check writes nothing, and tokens of '%s' would have to "
                   "be written; make them with `penstock tokenize`",
                   args->texts.words[0]);
}

/* Options that are not given become those that suit the texts. */
static error_t choose_options(struct pen__train_args *args,
                              struct argp_state *state)
{
    struct pen__choices choices;
    error_t error = 0;
    if (args->texts.count == 0)
        return 0;
    check_texts(args, state);
    pen__train_text_choose(args, &choices);
    args->chosen_words = json_array();
    for (size_t i = 0; i < choices.count && error == 0; i++) {
        const struct pen__choice *choice = &choices.items[i];
        size_t index = pen__fields_find(fields, NUM_FIELDS, choice->name);
        json_t *words = json_pack("[s]", pen_text_string(&choice->word));
        if (is_given(args, index)) {
            json_decref(words);
            continue;
        }
        error = json_array_append_new(args->chosen_words, words) == 0
                    ? give(index, words, state)
                    : ENOMEM;
        if (error == 0)
            pen__option_print(choice->name, words, &args->chosen);
    }
    pen__choices_release(&choices);
    return error;
}

/* ---- the options of a run that is resumed ---- */

/*
 * Whether the line gives a layout: moves belong to the layout that the run
 * began with.
 */
static bool has_own_layout(const struct pen__train_args *args)
{
    for (size_t i = 0; i < NUM_FIELDS; i++)
        if (args->given[i] != NULL && pen__recall_is_layout(fields[i].name))
            return true;
    return false;
}

/*
 * A line with data, iterations and a learning rate needs no remembered
 * settings.
 */
static bool is_complete(const struct pen__train_args *args)
{
    return (args->data_path.count > 0 || args->token_ids != NULL) &&
           args->train_iters > 0 && !isnan(args->schedule.rate);
}

static error_t recall_options(struct pen__train_args *args,
                              struct argp_state *state)
{
    struct pen_text left = PEN_TEXT_EMPTY;
    const struct pen__recall *recall = &args->recall;
    bool is_layout_same = recall->num_ranks == 0 || args->num_ranks == 0 ||
                          recall->num_ranks == args->num_ranks;
    bool has_moves = !has_own_layout(args);
    error_t error = 0;
    const char *name;
    json_t *words;
    json_object_foreach(recall->options, name, words)
    {
        size_t index = pen__fields_find(fields, NUM_FIELDS, name);
        if (error != 0 || index == NUM_FIELDS || is_given(args, index) ||
            !pen__recall_takes(name) ||
            (strcmp(name, "move") == 0 && !has_moves))
            continue;
        bool is_left = !is_layout_same && pen__recall_is_layout(name);
        pen__option_print(name, words, is_left ? &left : &args->recalled);
        if (!is_left)
            error = give(index, words, state);
    }
    if (left.length > 0)
        pen_text_add(&args->recalled, "; not%s, which was for %u ranks",
                     pen_text_string(&left), recall->num_ranks);
    pen_text_release(&left);
    return error;
}

/*
 * Recalls options of the checkpoint. New checkpoints are added to the run that
 * is resumed.
 */
static error_t recall(struct pen__train_args *args, struct argp_state *state)
{
    if (args->load == NULL || is_complete(args))
        return 0;
    json_t *usual = pen__train_args_print(args);
    args->recall_status =
        pen__recall_load(&args->recall, args->load, usual, &args->recall_why);
    json_decref(usual);
    if (args->recall_status != PEN_OK)
        return 0;
    if (args->save == NULL &&
        pen_checkpoint_kind_of(args->load) == PEN_CHECKPOINT_RUN) {
        args->save = args->load;
        pen_text_add(&args->recalled, " --save %s", args->save);
    }
    return recall_options(args, state);
}

/* Reads the patience; 0: the text is not a time, and check_args() says so. */
static int64_t read_patience(const char *text)
{
    double seconds = 0;
    if (text == NULL)
        return PATIENCE_NS;
    if (!pen_unit_parse(PEN_UNIT_SECONDS, text, &seconds) || seconds < 0.5 ||
        seconds > 86400)
        return 0;
    return (int64_t)(seconds * 1e9);
}

/* Options that a checkpoint lacks are found after the ranks have met. */
static error_t end_options(struct argp_state *state)
{
    struct pen__train_args *args = state->input;
    error_t error = choose_options(args, state);
    if (error == 0)
        error = recall(args, state);
    args->patience_ns = read_patience(args->patience);
    if (error == 0 && args->recall_status == PEN_OK)
        check_args(args, state);
    if (error == 0)
        complete(args, state);
    return error;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    if (key == ARGP_KEY_END)
        return end_options(state);
    if (key == ARGP_KEY_ARG && !has_open_list(state->input))
        return take_text(text, state);
    return take(key, text, state);
}

static struct argp parser_of(const struct argp_option *options)
{
    return (struct argp){
        .options = options,
        .parser = parse_option,
        .args_doc = "[TEXT...]",
        .doc = "Trains a network on text, tokens or images.\vAll options: "
               "penstock train --help-all. Options that are not given are "
               "chosen for a TEXT, and printed. Ctrl-C ends the training, with "
               "a checkpoint if --save is given. Under mpirun or srun all "
               "ranks train together."};
}

int pen__train_args_parse(struct pen__train_args *args, uint32_t num_ranks,
                          int argc, char **argv)
{
    struct argp_option options[PEN__FIELDS_MAX + 1];
    *args = (struct pen__train_args){.num_ranks = num_ranks,
                                     .micro_batch_size = 1,
                                     .seed = 1234,
                                     .numbers = {.beta1 = 0.9,
                                                 .beta2 = 0.999,
                                                 .epsilon = 1e-8,
                                                 .momentum = 0.9,
                                                 .muon_scale = 1,
                                                 .muon_momentum = 0.95,
                                                 .weight_decay = 0.01,
                                                 .clip_norm = (double)NAN},
                                     .muon_rate = (double)NAN,
                                     .lr_style = PEN_LR_LINEAR,
                                     .schedule = {.rate = (double)NAN},
                                     .engine_name = "onednn",
                                     .pipeline_size = 1,
                                     .local_updates = 1,
                                     .tensor_size = 1,
                                     .context_size = 1,
                                     .expert_size = 1,
                                     .sync = "allreduce",
                                     .hang_timeout = (double)NAN,
                                     .exit_minutes = (double)NAN,
                                     .peak_tflops = (double)NAN,
                                     .log_interval = 10,
                                     .eval_iters = 10};
    pen__fields_list(fields, NUM_FIELDS, options);
    pen__fields_show(usual_names, options);
    struct argp parser = parser_of(options);
    return pen__parse(&parser, "penstock train", ARGP_IN_ORDER, argc, argv,
                      args)
               ? PEN__EXIT_OK
               : PEN__EXIT_USAGE;
}

void pen__train_args_release(struct pen__train_args *args)
{
    pen__list_release(&args->data_path);
    pen__list_release(&args->sync_options);
    pen__list_release(&args->moves);
    pen_text_release(&args->run_log);
    pen_text_release(&args->run_trace);
    pen__list_release(&args->texts);
    pen_text_release(&args->chosen);
    json_decref(args->chosen_words);
    pen_text_release(&args->recalled);
    pen_text_release(&args->recall_why);
    pen__recall_release(&args->recall);
}

void pen__train_help(void)
{
    struct argp_option options[PEN__FIELDS_MAX + 1];
    pen__fields_list(fields, NUM_FIELDS, options);
    if (pen__help_is_collected())
        pen__fields_show(usual_names, options);
    struct argp parser = parser_of(options);
    pen__parser_help(&parser, "penstock train");
}

json_t *pen__train_args_print(const struct pen__train_args *args)
{
    return pen__fields_print(fields, NUM_FIELDS, args);
}

static json_t *words_of(const struct pen__train_args *args, size_t index)
{
    const char *word = args->given[index];
    const struct pen__field *field = &fields[index];
    json_t *words = json_array();
    if (field->kind == PEN__FIELD_FLAG)
        return words;
    if (field->kind != PEN__FIELD_LIST) {
        pen__json_append(&words, json_string(word));
        return words;
    }
    const struct pen__list *list =
        (const void *)((const char *)args + field->offset);
    for (size_t i = 0; i < list->count && words != NULL; i++)
        pen__json_append(&words, json_string(list->words[i]));
    return words;
}

json_t *pen__train_args_given(const struct pen__train_args *args)
{
    json_t *options = json_object();
    for (size_t i = 0; i < NUM_FIELDS && options != NULL; i++) {
        if (args->given[i] == NULL || !pen__recall_takes(fields[i].name))
            continue;
        if (json_object_set_new(options, fields[i].name, words_of(args, i)) ==
            0)
            continue;
        json_decref(options);
        options = NULL;
    }
    return options;
}
