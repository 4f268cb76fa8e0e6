/*
 * Memory of tokenizing does not grow with the text: 64 MB in one document take
 * less than 200 MB, also where the tokenizer splits no text into words. With
 * PEN_LONG=1 the text has 1 GB.
 */
#include "support/folder.h"
#include "support/support.h"

#include "data/tokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)
#define LIMIT_MB 200

#define LETTERS                                                                \
    "\"a\":0,\"b\":1,\"c\":2,\"d\":3,\"e\":4,\" \":5,\"\\n\":6,\"ab\":7"

/* No merges and no splits, as --train-chars makes them. */
static const char characters[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{" LETTERS "},\"merges\":[]}}";

static const char pairs[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{" LETTERS "},\"merges\":[\"a b\"]}"
    ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"de\"},"
    "\"content\":\"abab\"}}";

static const char unigram[] =
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",-9],"
    "[\"a\",-2],[\"b\",-2],[\"c\",-3],[\"d\",-3],[\"e\",-4],[\" \",-2],"
    "[\"\\n\",-2],[\"ab\",-3],[\"bc\",-3.5],[\"cd e\",-5]]}}";

static size_t text_mb(void)
{
    return getenv("PEN_LONG") != NULL ? 1024 : 64;
}

/* Letters, spaces and line ends from a fixed seed. */
static void write_text(const char *path)
{
    FILE *file = fopen(path, "wb");
    uint64_t random = 88172645463325252u;
    char *block = malloc(MB);
    assert_non_null(file);
    assert_non_null(block);
    for (size_t i = 0; i < MB; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        block[i] = "abcde abcd \n"[random % 12];
    }
    for (size_t i = 0; i < text_mb(); i++)
        assert_int_equal(1, fwrite(block, MB, 1, file));
    assert_int_equal(0, fclose(file));
    free(block);
}

/* What a child does: it answers 0 when the text was tokenized. */
static int tokenize(const char *json, char *path)
{
    struct pen_tokenizer *tokenizer = NULL;
    struct pen_token_writer *writer = NULL;
    struct pen_tokenize_counts counts;
    struct pen_text why = PEN_TEXT_EMPTY;
    char prefix[200];
    snprintf(prefix, sizeof prefix, "%s/out", folder);
    struct pen_tokenize_job job = {
        .paths = &path, .num_paths = 1, .num_threads = 2};
    if (pen_tokenizer_parse_json(json, strlen(json), &tokenizer, &why) !=
            PEN_OK ||
        pen_token_writer_create(prefix, PEN_TOKENS_NANOGPT, 11, &writer,
                                &why) != PEN_OK)
        return 1;
    job.tokenizer = tokenizer;
    job.writer = writer;
    pen_status status = pen_tokenize(&job, &counts, &why);
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    pen_token_writer_free(writer); /* and with it what was written */
    return status == PEN_OK ? 0 : 1;
}

static void expect_little_memory(const char *json, const char *what)
{
    struct rusage usage;
    int status = -1;
    char path[200];
    snprintf(path, sizeof path, "%s/text", folder);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(tokenize(json, path));
    assert_int_equal(child, wait4(child, &status, 0, &usage));
    assert_int_equal(0, status);
    print_message("%s: %ld MB for a text of %zu MB, at most %d\n", what,
                  usage.ru_maxrss / 1024, text_mb(), LIMIT_MB);
    assert_true(usage.ru_maxrss / 1024 < LIMIT_MB);
}

static void memory_does_not_grow_with_the_text(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/text", folder);
    write_text(path);
    expect_little_memory(characters, "characters");
    expect_little_memory(pairs, "pairs");
    expect_little_memory(unigram, "unigram");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_does_not_grow_with_the_text),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
