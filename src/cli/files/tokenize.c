/*
 * penstock tokenize: text to a file of tokens that trainers read; or to a
 * tokenizer of its characters.
 */
#include "cli/program/answer.h"
#include "cli/program/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "cli/program/progress.h"
#include "data/tokenize.h"
#include "data/train_chars.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREADS_MAX 1024

struct args {
    const char *tokenizer;
    const char *output;
    unsigned format; /* enum pen_token_format */
    bool appends_end;
    bool has_lines;
    const char *json_key;
    uint32_t num_threads;
    bool trains_chars;
    struct pen__rest texts;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("tokenizer", "PATH", tokenizer,
         "tokenizer.json, a SentencePiece model, or a folder with one"),
    TEXT("output", "PREFIX", output,
         "write PREFIX_text_document.bin and .idx (megatron) or PREFIX.bin"),
    WORD("format", format, pen_token_format_names,
         "megatron, llmc or nanogpt; megatron when not given"),
    FLAG("append-eod", appends_end,
         "write the end-of-document token after each document"),
    FLAG("lines", has_lines, "treat each line as a document, not each file"),
    TEXT("json-key", "KEY", json_key,
         "treat each line as a JSON object with a document's text under KEY"),
    FIELD("threads", "N", num_threads, SMALL, 1, THREADS_MAX, NULL,
          "encoding threads; one per processor when not given"),
    FLAG("train-chars", trains_chars,
         "write no tokens; make the folder -o with a tokenizer.json of the "
         "characters in all TEXTs"),
    JSON("print JSON")};

static uint32_t processors(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > THREADS_MAX ? THREADS_MAX : (uint32_t)count;
}

static void check(void *context, const struct argp_state *state)
{
    const struct args *args = context;
    if (args->trains_chars && args->tokenizer != NULL)
        argp_error(state, "--train-chars and --tokenizer exclude each other");
    if (!args->trains_chars)
        pen__line_require(state, args->tokenizer != NULL, "tokenizer");
    if (args->output == NULL)
        argp_error(state, "-o %s is required",
                   args->trains_chars ? "DIRECTORY" : "PREFIX");
    if (args->has_lines && args->json_key != NULL)
        argp_error(state, "--lines and --json-key exclude each other");
}

static const struct pen__line command_line = {
    .name = "penstock tokenize",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .usage = "TEXT...",
    .words_offset = AT(texts),
    .least_words = 1,
    .most_words = SIZE_MAX,
    .doc = "Turns text into a file of tokens that trainers read.\vEach "
           "TEXT is one document in UTF-8, unless --lines or --json-key "
           "is given. The ids are the same as from the packages "
           "tokenizers and sentencepiece, for any number of threads.",
    .check = check};

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
        .paths = args->texts.words,
        .num_paths = args->texts.count,
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
        status = pen_token_writer_create(
            args->output, (enum pen_token_format)args->format,
            pen_tokenizer_vocab_size(tokenizer), &writer, why);
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
    pen_status status = pen_train_chars(args->texts.words, args->texts.count,
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
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    pen_status status = args.trains_chars ? train_chars(&args, &why)
                                          : write_tokens(&args, &why);
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, &why);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__tokenize = {
    "tokenize", "turns text into files of tokens", run, NULL};
