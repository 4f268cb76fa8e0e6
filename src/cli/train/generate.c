/*
 * penstock generate: writes text with a model.
 */
#include "base/log.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "data/tokenizer.h"
#include "engine/registry.h"
#include "host/threads.h"
#include "network/weights.h"
#include "runtime/generator.h"
#include "runtime/pretrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args {
    const char *model;
    const char *tokenizer;
    const char *prompt;
    uint64_t max_tokens;
    double temperature;
    double top_p;
    uint64_t seed;
    bool is_bf16;
    uint64_t threads;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("model", "MODEL", model,
         "a run, a checkpoint, or a folder with weights"),
    TEXT("tokenizer", "PATH", tokenizer,
         "tokenizer.json, a SentencePiece model, or a folder with one; the "
         "model's own when not given"),
    TEXT("prompt", "TEXT", prompt, "the beginning of the text"),
    COUNT("max-tokens", max_tokens, 1, 1e9,
          "tokens to generate; 100 when not given"),
    FIELD("temperature", "T", temperature, REAL, 0, 1e6, NULL,
          "sampling temperature; 0 takes the most likely token; 1 when not "
          "given"),
    FIELD("top-p", "P", top_p, REAL, 1e-9, 1, NULL,
          "sample from the likeliest tokens whose probabilities sum to P; 1 "
          "when not given"),
    COUNT("seed", seed, 0, 1e18,
          "seed of the random numbers; 1234 when not given"),
    FLAG("bf16", is_bf16, "products in bf16"),
    COUNT("threads", threads, 1, 4096,
          "compute threads; OMP_NUM_THREADS, or one per core, when not "
          "given")};

/* All that the command owns; any of it may be NULL. */
struct writing {
    struct args args;
    struct pen_pretrained pretrained;
    struct pen_tokenizer *tokenizer;
    struct pen_token_list tokens;
    struct pen_engine *engine;
    struct pen_network *network;
    struct pen_text_generator *generator;
};

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    pen__line_require(state, args->model != NULL, "model");
    if (args->prompt == NULL || args->prompt[0] == '\0')
        argp_error(state, "--prompt is required: a model continues a text");
}

static const struct pen__line command_line = {
    .name = "penstock generate",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Generates text with a model.\vThe prompt and the generated "
           "text are printed on stdout token by token. The text ends at "
           "the end-of-document token, or after --max-tokens.",
    .check = check};

static pen_status read_prompt(struct writing *writing, struct pen_text *why)
{
    const struct args *args = &writing->args;
    const char *path = args->tokenizer != NULL
                           ? args->tokenizer
                           : pen_text_string(&writing->pretrained.directory);
    struct pen_encoder *encoder = NULL;
    pen_status status = pen_tokenizer_load(path, &writing->tokenizer, why);
    if (status != PEN_OK) {
        if (args->tokenizer == NULL)
            pen_why(why, "; name one with --tokenizer");
        return status;
    }
    status = pen_encoder_create(writing->tokenizer, &encoder);
    if (status == PEN_OK)
        status = pen_encoder_encode(encoder, args->prompt, strlen(args->prompt),
                                    &writing->tokens, why);
    pen_encoder_free(encoder);
    if (status != PEN_OK)
        return status;
    if (writing->tokens.count == 0) {
        pen_why(why,
                "the tokenizer has no token for any character of the prompt; "
                "give another --prompt or --tokenizer");
        return PEN_INVALID;
    }
    for (size_t i = 0; i < writing->tokens.count; i++)
        if (writing->tokens.ids[i] >=
            writing->pretrained.model.decoder->vocab) {
            pen_why(
                why,
                "the prompt has token %u, but the model has only %u tokens: "
                "the tokenizer belongs to another model; give the right "
                "--tokenizer",
                writing->tokens.ids[i],
                writing->pretrained.model.decoder->vocab);
            return PEN_INVALID;
        }
    return PEN_OK;
}

static pen_status make_network(struct writing *writing, struct pen_text *why)
{
    const struct args *args = &writing->args;
    const struct pen_model *model = writing->pretrained.model.decoder;
    uint64_t length = writing->tokens.count + args->max_tokens;
    if (length > model->max_positions)
        length = model->max_positions;
    enum pen_precision dtype =
        args->is_bf16 ? PEN_PRECISION_BF16 : PEN_PRECISION_F32;
    const struct pen_engine_choice choice = {.dtype = dtype,
                                             .threads = (int)args->threads};
    pen_status status =
        pen_engine_kind_at(0)->create(&choice, why, &writing->engine);
    if (status != PEN_OK)
        return status;
    struct pen_network_options options = {.engine = writing->engine,
                                          .model = model,
                                          .num_layers = model->num_layers,
                                          .batch = 1,
                                          .sequence = length,
                                          .recompute = PEN_RECOMPUTE_FULL,
                                          .is_forward_only = true};
    status = pen_network_create(&options, &writing->network, why);
    if (status == PEN_OK)
        status = pen_network_load(writing->network, writing->pretrained.weights,
                                  why);
    if (status != PEN_OK)
        return status;
    struct pen_text_generator_options draw = {.network = writing->network,
                                              .temperature = args->temperature,
                                              .top_p = args->top_p,
                                              .seed = args->seed};
    return pen_text_generator_create(&draw, length, &writing->generator);
}

/* The length without the bytes of a last character that lacks some. */
static size_t whole_characters(const char *bytes, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char byte = (unsigned char)bytes[length - back];
        if ((byte & 0xc0u) == 0x80u)
            continue;
        size_t size = byte >= 0xf0u   ? 4
                      : byte >= 0xe0u ? 3
                      : byte >= 0xc0u ? 2
                                      : 1;
        return size > back ? length - back : length;
    }
    return length;
}

/*
 * Prints the text from `shown` on, up to a whole character: the next token may
 * complete what this one begins. Decodes all, as spaces depend on neighbours.
 */
static pen_status show(struct writing *writing, size_t *shown, bool is_last,
                       struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status =
        pen_tokenizer_decode(writing->tokenizer, writing->tokens.ids,
                             writing->tokens.count, &text, why);
    if (status == PEN_OK) {
        size_t end = text.length;
        if (!is_last)
            end = whole_characters(text.bytes, text.length);
        if (end > *shown) {
            fwrite(text.bytes + *shown, 1, end - *shown, stdout);
            fflush(stdout);
            *shown = end;
        }
    }
    pen_text_release(&text);
    return status;
}

static pen_status write_text(struct writing *writing, struct pen_text *why)
{
    size_t shown = 0;
    uint32_t end;
    bool has_end = pen_tokenizer_end_of_document(writing->tokenizer, &end);
    for (uint64_t i = 0; i < writing->args.max_tokens; i++) {
        pen_status status = show(writing, &shown, false, why);
        if (status != PEN_OK)
            return status;
        uint32_t token = pen_text_generator_next(
            writing->generator, writing->tokens.ids, writing->tokens.count);
        if (has_end && token == end)
            break;
        pen_token_list_add_one(&writing->tokens, token);
        if (writing->tokens.has_failed)
            return PEN_NOMEM;
    }
    pen_status status = show(writing, &shown, true, why);
    putchar('\n');
    return status;
}

static pen_status generate(struct writing *writing, struct pen_text *why)
{
    struct pen_threads_options wish = {.count = (int)writing->args.threads};
    struct pen_threads threads;
    pen_status status = pen_threads_start(&wish, &threads, why);
    if (status != PEN_OK)
        return status;
    writing->args.threads = (uint64_t)threads.count;
    status =
        pen_pretrained_open(&writing->pretrained, writing->args.model, why);
    if (status != PEN_OK)
        return status;
    pen__warn_skipped(writing->pretrained.checkpoint);
    if (writing->pretrained.model.decoder == NULL) {
        pen_why(why, "%s is a model for images and cannot generate text",
                writing->args.model);
        return PEN_INVALID;
    }
    if (writing->pretrained.weights == NULL) {
        pen_why(why,
                "%s has no weights, and would generate noise; train the model "
                "first",
                writing->args.model);
        return PEN_INVALID;
    }
    status = read_prompt(writing, why);
    if (status == PEN_OK)
        status = make_network(writing, why);
    if (status == PEN_OK)
        status = write_text(writing, why);
    return status;
}

static int run(int argc, char **argv)
{
    struct writing writing = {
        .args = {
            .max_tokens = 100, .temperature = 1, .top_p = 1, .seed = 1234}};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__line_read(&command_line, argc, argv, &writing.args))
        return PEN__EXIT_USAGE;
    pen_status status = generate(&writing, &why);
    int code = PEN__EXIT_OK;
    if (status != PEN_OK) {
        if (why.length == 0)
            pen_why(&why, "%s", pen_status_text(status));
        code = pen__refuse_as(status, &why);
    }
    pen_text_generator_free(writing.generator);
    pen_network_free(writing.network);
    pen_engine_free(writing.engine);
    pen_token_list_release(&writing.tokens);
    pen_tokenizer_free(writing.tokenizer);
    pen_pretrained_release(&writing.pretrained);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__generate = {
    "generate", "generates text with a model", run, NULL};
