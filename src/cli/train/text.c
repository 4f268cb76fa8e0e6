#include "cli/train/text.h"

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "cli/program/kind.h"
#include "cli/train/sizes.h"
#include "core/mesh.h"
#include "data/tokenize.h"
#include "data/train_chars.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is chosen ---- */

/* Sizes of a model that two cores train in a minute or two. */
#define LAYERS 4
#define WIDTH 128
#define HEADS 4
#define POSITIONS 128
#define BATCH 16 /* sequences of a step, at least */
#define MICRO_BATCH 4
#define STEPS 500

/* A tenth of shorter texts is too little to validate with. */
#define VALIDATED_BYTES ((uint64_t)64 * POSITIONS)

static void choose(struct pen__choices *out, const char *name,
                   const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void choose(struct pen__choices *out, const char *name,
                   const char *format, ...)
{
    struct pen__choice *choice = &out->items[out->count++];
    char word[4096];
    va_list words;
    va_start(words, format);
    vsnprintf(word, sizeof word, format, words);
    va_end(words);
    *choice = (struct pen__choice){.name = name};
    pen_text_add_string(&choice->word, word);
}

/* "dir/play.txt" becomes "play-run", in the folder of the user. */
static void name_run(const char *text, struct pen_text *out)
{
    const char *slash = strrchr(text, '/');
    const char *name = slash == NULL ? text : slash + 1;
    const char *dot = strrchr(name, '.');
    size_t length =
        dot == NULL || dot == name ? strlen(name) : (size_t)(dot - name);
    pen_text_add_bytes(out, name, length);
    pen_text_add_string(out, "-run");
}

static uint64_t count_bytes(const struct pen__list *texts)
{
    uint64_t count = 0;
    struct stat facts;
    for (size_t i = 0; i < texts->count; i++)
        if (stat(texts->words[i], &facts) == 0)
            count += (uint64_t)facts.st_size;
    return count;
}

static uint64_t count_replicas(const struct pen__train_args *args)
{
    struct pen_mesh mesh =
        pen_mesh_fill(PEN_MESH_PIPELINE_FIRST,
                      (uint32_t)(args->pipeline_size * args->tensor_size *
                                 args->context_size),
                      (uint32_t)args->num_ranks);
    uint32_t replicas = pen_mesh_num_replicas(&mesh);
    return replicas == 0 ? 1 : replicas;
}

/* Chooses a micro-batch that divides a given batch. */
static uint64_t choose_micro_batch(const struct pen__train_args *args)
{
    uint64_t unit = MICRO_BATCH * count_replicas(args);
    if (args->micro_batch_size > 1)
        return args->micro_batch_size;
    return args->global_batch_size % unit == 0 ? MICRO_BATCH : 1;
}

static uint64_t choose_batch(const struct pen__train_args *args, uint64_t micro)
{
    uint64_t unit = micro * count_replicas(args);
    return (BATCH + unit - 1) / unit * unit;
}

void pen__train_text_choose(const struct pen__train_args *args,
                            struct pen__choices *out)
{
    struct pen_text run = PEN_TEXT_EMPTY;
    bool has_model = args->model != NULL;
    uint64_t steps = args->train_iters == 0 ? STEPS : args->train_iters;
    uint64_t micro = choose_micro_batch(args);
    *out = (struct pen__choices){.count = 0};
    if (args->save != NULL)
        pen_text_add_string(&run, args->save);
    else
        name_run(args->texts.words[0], &run);
    const char *folder = pen_text_string(&run);
    choose(out, "model", "%s/text", folder);
    choose(out, "data-path", "%s/text/tokens", folder);
    bool is_validated = count_bytes(&args->texts) >= VALIDATED_BYTES;
    choose(out, "split", "%s", is_validated ? "90,10" : "100");
    if (is_validated)
        choose(out, "eval-interval", "%" PRIu64, steps < 5 ? 1 : steps / 5);
    choose(out, "micro-batch-size", "%" PRIu64, micro);
    if (args->pipeline == NULL || !pen__train_schedule_is_file(args->pipeline))
        choose(out, "global-batch-size", "%" PRIu64, choose_batch(args, micro));
    choose(out, "train-iters", "%" PRIu64, steps);
    choose(out, "lr", "%s", has_model ? "1e-4" : "2e-3");
    choose(out, "lr-decay-style", "cosine");
    choose(out, "lr-warmup-iters", "%" PRIu64, steps / 10);
    choose(out, "save", "%s", folder);
    if (args->run == NULL)
        choose(out, "log", "%s/log.jsonl", folder);
    pen_text_release(&run);
}

void pen__choices_release(struct pen__choices *choices)
{
    for (size_t i = 0; i < choices->count; i++)
        pen_text_release(&choices->items[i].word);
    choices->count = 0;
}

bool pen__train_text_is_wrong(const char *path, struct pen_text *why)
{
    static const struct {
        enum pen__kind kind;
        const char *words;
    } kinds[] = {{PEN__KIND_RUN, "a run; to resume it, give --load"},
                 {PEN__KIND_SAVES, "a run; to resume it, give --load"},
                 {PEN__KIND_STEP, "a checkpoint; to resume it, give --load"},
                 {PEN__KIND_PLAN, "a plan; give --plan"},
                 {PEN__KIND_MODEL, "a model; give --model"},
                 {PEN__KIND_PROFILE, "a profile; give --profile"},
                 {PEN__KIND_SCHEDULE, "a schedule; give --schedule"}};
    enum pen__kind kind = pen__kind_of(path);
    struct stat facts;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind) {
            pen_why(why, "%s is %s %s", path, kinds[i].words, path);
            return true;
        }
    if (stat(path, &facts) != 0)
        pen_why(why, "unexpected argument '%s': there is no text of this name",
                path);
    else if (S_ISDIR(facts.st_mode))
        pen_why(why, "%s is a folder; expected files of text", path);
    else
        return false;
    return true;
}

/* ---- what is made ---- */

static pen_status write_in(const char *folder, const char *name,
                           const struct pen_text *text, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    pen_status status =
        path.has_failed
            ? PEN_NOMEM
            : pen_file_write_text(pen_text_string(&path), text, why);
    pen_text_release(&path);
    return status;
}

/* Makes a tokenizer of the characters, and a model for it. */
static pen_status make_model(const struct pen__train_args *args,
                             struct pen_text *why)
{
    struct pen_text tokenizer = PEN_TEXT_EMPTY;
    struct pen_text config = PEN_TEXT_EMPTY;
    uint32_t num_chars = 0;
    pen_status status =
        pen_train_chars((char *const *)args->texts.words, args->texts.count,
                        &tokenizer, &num_chars, why);
    pen_text_add(&config,
                 "{\n"
                 "  \"model_type\": \"gpt2\",\n"
                 "  \"vocab_size\": %" PRIu32 ",\n"
                 "  \"n_positions\": %d,\n"
                 "  \"n_embd\": %d,\n"
                 "  \"n_layer\": %d,\n"
                 "  \"n_head\": %d\n"
                 "}\n",
                 num_chars, POSITIONS, WIDTH, LAYERS, HEADS);
    if (status == PEN_OK)
        status = write_in(args->model, "tokenizer.json", &tokenizer, why);
    if (status == PEN_OK)
        status = write_in(args->model, "config.json", &config, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO,
                "%s: a GPT of %d layers, width %d, context %d, for %" PRIu32
                " characters; give --model DIR for another model or tokenizer",
                args->model, LAYERS, WIDTH, POSITIONS, num_chars);
    pen_text_release(&tokenizer);
    pen_text_release(&config);
    return status;
}

/* Loads the tokenizer of the model, or of the newest step of a run. */
static pen_status load_tokenizer(const char *model, struct pen_tokenizer **out,
                                 struct pen_text *why)
{
    struct pen_manifest manifest;
    struct pen_text step = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    if (pen_checkpoint_kind_of(model) == PEN_CHECKPOINT_RUN) {
        status = pen_checkpoint_load_manifest(model, &manifest, &step, why);
        if (status == PEN_OK)
            pen_manifest_release(&manifest);
    } else {
        pen_text_add_string(&step, model);
    }
    if (status == PEN_OK)
        status = pen_tokenizer_load(pen_text_string(&step), out, why);
    if (status == PEN_INVALID || status == PEN_IO)
        pen_why(why, "; --model has to be a folder with a tokenizer, or leave "
                     "it out to train on characters");
    pen_text_release(&step);
    return status;
}

static pen_status make_tokens(const struct pen__train_args *args,
                              struct pen_text *why)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_token_writer *writer = NULL;
    struct pen_tokenize_counts counts;
    pen_status status = load_tokenizer(args->model, &tokenizer, why);
    if (status == PEN_OK)
        status = pen_token_writer_create(
            args->data_path.words[0], PEN_TOKENS_MEGATRON,
            pen_tokenizer_vocab_size(tokenizer), &writer, why);
    const struct pen_tokenize_job job = {.tokenizer = tokenizer,
                                         .writer = writer,
                                         .paths =
                                             (char *const *)args->texts.words,
                                         .num_paths = args->texts.count,
                                         .kind = PEN_DOCUMENT_FILE,
                                         .num_threads = 1};
    if (status == PEN_OK)
        status = pen_tokenize(&job, &counts, why);
    if (status == PEN_OK)
        status = pen_token_writer_finish(writer, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO,
                "wrote %s: %" PRIu64 " tokens of %" PRIu64 " bytes",
                pen_token_writer_path(writer), pen_token_writer_tokens(writer),
                counts.num_bytes);
    pen_token_writer_free(writer);
    pen_tokenizer_free(tokenizer);
    return status;
}

pen_status pen__train_text_make(const struct pen__train_args *args,
                                struct pen_text *why)
{
    struct pen_text folder = PEN_TEXT_EMPTY;
    if (pen_checkpoint_kind_of(args->save) == PEN_CHECKPOINT_RUN) {
        pen_why(why,
                "%s has checkpoints; resume them with `penstock train --load "
                "%s`, or give another folder with --save",
                args->save, args->save);
        return PEN_INVALID;
    }
    if (args->chosen.length > 0)
        pen_log(PEN_LOG_INFO, "not given; using%s",
                pen_text_string(&args->chosen));
    pen_text_add(&folder, "%s/text", args->save);
    pen_status status = pen_file_make_folder(args->save, 0700, why);
    if (status == PEN_OK)
        status = pen_file_make_folder(pen_text_string(&folder), 0700, why);
    if (status == PEN_OK && strcmp(args->model, pen_text_string(&folder)) == 0)
        status = make_model(args, why);
    if (status == PEN_OK)
        status = make_tokens(args, why);
    pen_text_release(&folder);
    return status;
}
