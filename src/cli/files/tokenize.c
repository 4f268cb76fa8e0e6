/*
 * penstock tokenize: text to a file of tokens that trainers read; or to a
 * tokenizer of its characters.
 */
#include "cli/program/answer.h"
#include "cli/program/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/parser.h"
#include "cli/program/progress.h"
#include "data/tokenize.h"
#include "data/train_chars.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS_MAX 1024

enum option_key {
    KEY_TOKENIZER = 256,
    KEY_FORMAT,
    KEY_APPEND_EOD,
    KEY_LINES,
    KEY_JSON_KEY,
    KEY_THREADS,
    KEY_TRAIN_CHARS,
    KEY_JSON
};

static const struct argp_option options[] = {
    {"tokenizer", KEY_TOKENIZER, "PATH", 0,
     "tokenizer.json, a SentencePiece model, or a folder with one", 1},
    {"output", 'o', "PREFIX", 0,
     "write PREFIX_text_document.bin and .idx (megatron) or PREFIX.bin", 2},
    {"format", KEY_FORMAT, "NAME", 0,
     "megatron, llmc or nanogpt; megatron when not given", 3},
    {"append-eod", KEY_APPEND_EOD, NULL, 0,
     "write the end-of-document token after each document", 4},
    {"lines", KEY_LINES, NULL, 0,
     "treat each line as a document, not each file", 5},
    {"json-key", KEY_JSON_KEY, "KEY", 0,
     "treat each line as a JSON object with a document's text under "
     "KEY",
     6},
    {"threads", KEY_THREADS, "N", 0,
     "encoding threads; one per processor when not given", 7},
    {"train-chars", KEY_TRAIN_CHARS, NULL, 0,
     "write no tokens; make the folder -o with a tokenizer.json of "
     "the characters in all TEXTs",
     8},
    {"json", KEY_JSON, NULL, 0, "print JSON", 9},
    {NULL, 0, NULL, 0, NULL, 0}};

struct args {
    const char *tokenizer;
    const char *output;
    enum pen_token_format format;
    bool appends_end;
    bool has_lines;
    const char *json_key;
    uint32_t num_threads;
    bool trains_chars;
    char **paths;
    size_t num_paths;
};

static uint32_t processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (uint32_t)count;
}

static uint32_t read_threads(const char *text, const struct argp_state *state)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || end == text || number < 1 || number > THREADS_MAX)
        argp_error(state,
                   "--threads must be a whole number from 1 to %d, not '%s'",
                   THREADS_MAX, text);
    return (uint32_t)number;
}

static void check_args(const struct args *args, const struct argp_state *state)
{
    if (args->num_paths == 0)
        argp_error(state, "expected TEXT...");
    if (args->trains_chars && args->tokenizer != NULL)
        argp_error(state, "--train-chars and --tokenizer exclude each other");
    if (!args->trains_chars && args->tokenizer == NULL)
        argp_error(state, "--tokenizer is required");
    if (args->output == NULL)
        argp_error(state, "-o %s is required",
                   args->trains_chars ? "DIRECTORY" : "PREFIX");
    if (args->has_lines && args->json_key != NULL)
        argp_error(state, "--lines and --json-key exclude each other");
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct args *args = state->input;
    switch (key) {
    case KEY_TOKENIZER:
        args->tokenizer = text;
        return 0;
    case 'o':
        args->output = text;
        return 0;
    case KEY_FORMAT:
        args->format = pen_token_format_find(text);
        if (args->format == PEN_TOKEN_FORMATS)
            argp_error(state,
                       "--format must be megatron, llmc or nanogpt, not '%s'",
                       text);
        return 0;
    case KEY_APPEND_EOD:
        args->appends_end = true;
        return 0;
    case KEY_LINES:
        args->has_lines = true;
        return 0;
    case KEY_JSON_KEY:
        args->json_key = text;
        return 0;
    case KEY_THREADS:
        args->num_threads = read_threads(text, state);
        return 0;
    case KEY_TRAIN_CHARS:
        args->trains_chars = true;
        return 0;
    case KEY_JSON: /* answer.c has read it */
        return 0;
    case ARGP_KEY_ARGS:
        args->paths = state->argv + state->next;
        args->num_paths = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        check_args(args, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = options,
    .parser = parse_option,
    .args_doc = "TEXT...",
    .doc = "Turns text into a file of tokens that trainers read.\vEach "
           "TEXT is one document in UTF-8, unless --lines or --json-key "
           "is given. The ids are the same as from the packages "
           "tokenizers and sentencepiece, for any number of threads."};

static void report(void *context, uint64_t done, uint64_t total)
{
    pen__progress_update(context, done, total, NULL);
}

static void tell_result(const struct pen_token_writer *writer,
                        const struct pen_tokenize_counts *counts,
                        double elapsed_sec)
{
    pen_log(PEN_LOG_INFO,
            "wrote %s: %llu tokens of %llu bytes in %llu documents, %.1f MB/s",
            pen_token_writer_path(writer),
            (unsigned long long)pen_token_writer_tokens(writer),
            (unsigned long long)counts->num_bytes,
            (unsigned long long)counts->num_documents,
            1e-6 * (double)counts->num_bytes / elapsed_sec);
    if (pen__answer_is_json())
        pen__print_json("tokenize",
                        json_pack("{s:s, s:I, s:I, s:I, s:f}", "output",
                                  pen_token_writer_path(writer), "tokens",
                                  (json_int_t)pen_token_writer_tokens(writer),
                                  "bytes", (json_int_t)counts->num_bytes,
                                  "documents",
                                  (json_int_t)counts->num_documents, "seconds",
                                  elapsed_sec));
}

static pen_status tokenize(const struct args *args,
                           const struct pen_tokenizer *tokenizer,
                           struct pen_token_writer *writer,
                           struct pen_text *why)
{
    struct pen__progress progress;
    struct pen_tokenize_counts counts;
    struct pen_tokenize_job job = {
        .tokenizer = tokenizer,
        .writer = writer,
        .paths = args->paths,
        .num_paths = args->num_paths,
        .kind = args->json_key != NULL ? PEN_DOCUMENT_JSON_LINE
                : args->has_lines      ? PEN_DOCUMENT_LINE
                                       : PEN_DOCUMENT_FILE,
        .json_key = args->json_key,
        .appends_end = args->appends_end,
        .num_threads = args->num_threads,
        .report = report,
        .context = &progress};
    pen__progress_init(&progress, "bytes");
    pen_status status = pen_tokenize(&job, &counts, why);
    if (status == PEN_OK)
        status = pen_token_writer_finish(writer, why);
    double elapsed_sec = pen__progress_elapsed_sec(&progress);
    pen__progress_finish(&progress);
    if (status == PEN_OK)
        tell_result(writer, &counts, elapsed_sec);
    return status;
}

static pen_status write_tokens(const struct args *args, struct pen_text *why)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_token_writer *writer = NULL;
    pen_status status = pen_tokenizer_load(args->tokenizer, &tokenizer, why);
    if (status == PEN_OK)
        status = pen_token_writer_create(args->output, args->format,
                                         pen_tokenizer_vocab_size(tokenizer),
                                         &writer, why);
    if (status == PEN_OK)
        status = tokenize(args, tokenizer, writer, why);
    pen_token_writer_free(writer);
    pen_tokenizer_free(tokenizer);
    return status;
}

static pen_status write_in_directory(const char *directory,
                                     const struct pen_text *text,
                                     struct pen_text *why)
{
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        pen_why(why, "cannot make the folder %s: %s", directory,
                strerror(errno));
        return PEN_IO;
    }
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/tokenizer.json", directory);
    pen_status status =
        pen_file_write(pen_text_string(&path), text->bytes, text->length, why);
    pen_text_release(&path);
    return status;
}

static pen_status train_chars(const struct args *args, struct pen_text *why)
{
    struct pen_text tokenizer = PEN_TEXT_EMPTY;
    uint32_t num_chars;
    pen_status status = pen_train_chars(args->paths, args->num_paths,
                                        &tokenizer, &num_chars, why);
    if (status == PEN_OK)
        status = write_in_directory(args->output, &tokenizer, why);
    if (status == PEN_OK)
        pen_log(PEN_LOG_INFO, "wrote %s/tokenizer.json: %u characters",
                args->output, num_chars);
    if (status == PEN_OK && pen__answer_is_json())
        pen__print_json("tokenize",
                        json_pack("{s:s, s:I}", "output", args->output,
                                  "characters", (json_int_t)num_chars));
    pen_text_release(&tokenizer);
    return status;
}

static int run(int argc, char **argv)
{
    struct args args = {.format = PEN_TOKENS_MEGATRON,
                        .num_threads = processors()};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (!pen__parse(&parser, "penstock tokenize", 0, argc, argv, &args))
        return PEN__EXIT_USAGE;
    pen_status status = args.trains_chars ? train_chars(&args, &why)
                                          : write_tokens(&args, &why);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__tokenize = {
    "tokenize", "turns text into files of tokens", run, NULL};
