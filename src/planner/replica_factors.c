/* The table of a user: how many more steps a method takes to a loss. */
#include "planner/replica_compare.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define MOST 1e6 /* of a factor, and one over the least */
#define BLANKS " \t\r"

/* Words of a line, as many as there is room for; returns how many it has. */
static size_t split(char *line, char *words[2])
{
    size_t count = 0;
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, BLANKS, &rest); word != NULL;
         word = strtok_r(NULL, BLANKS, &rest)) {
        if (count < 2)
            words[count] = word;
        count++;
    }
    return count;
}

/* Whether a name is that of a method, or of a method and a compressor. */
static bool is_known(const char *name)
{
    struct pen_text method = PEN_TEXT_EMPTY;
    size_t length = strcspn(name, "+");
    pen_text_add_bytes(&method, name, length);
    bool is_there = pen_sync_find_method(pen_text_string(&method)) != NULL &&
                    (name[length] == '\0' ||
                     pen_sync_find_compressor(name + length + 1) != NULL);
    pen_text_release(&method);
    return is_there;
}

static pen_status take_name(const char *name, struct pen_replica_factor *item,
                            struct pen_text *why)
{
    size_t length = strlen(name);
    if (length >= sizeof item->name || !is_known(name)) {
        pen_why(why, "there is no '");
        pen_text_add_printable(why, name, length);
        pen_why(why, "'; `penstock sync list` prints all names");
        return PEN_INVALID;
    }
    memcpy(item->name, name, length + 1);
    return PEN_OK;
}

static pen_status take_line(char *line, struct pen_replica_factors *factors,
                            struct pen_text *why)
{
    char *words[2] = {NULL, NULL};
    size_t count = split(line, words);
    if (count == 0)
        return PEN_OK;
    if (factors->count == PEN_REPLICA_MAX_FACTORS) {
        pen_why(why, "more than %u factors", PEN_REPLICA_MAX_FACTORS);
        return PEN_INVALID;
    }
    struct pen_replica_factor *item = &factors->items[factors->count];
    char *end = NULL;
    item->factor = count == 2 ? strtod(words[1], &end) : 0;
    if (count != 2 || *end != '\0' ||
        !(item->factor >= 1 / MOST && item->factor <= MOST)) {
        pen_why(why, "expected a method and a factor, as \"NAME 1.3\"");
        return PEN_INVALID;
    }
    factors->count++;
    return take_name(words[0], item, why);
}

static pen_status take_lines(char *text, struct pen_replica_factors *factors,
                             struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    size_t number = 1;
    for (char *line = text; line != NULL && status == PEN_OK; number++) {
        char *next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        status = take_line(line, factors, &reason);
        if (status != PEN_OK)
            pen_why(why, "line %zu: %s", number, pen_text_string(&reason));
        line = next;
    }
    pen_text_release(&reason);
    return status;
}

pen_status pen_replica_factors_parse(const char *text, size_t length,
                                     struct pen_replica_factors *out,
                                     struct pen_text *why)
{
    struct pen_replica_factors *factors = calloc(1, sizeof *factors);
    char *copy = malloc(length + 1);
    pen_status status = PEN_NOMEM;
    if (factors == NULL || copy == NULL) {
        pen_why(why, "no memory for factors");
    } else if (memchr(text, '\0', length) != NULL) {
        pen_why(why, "the file contains a zero byte");
        status = PEN_INVALID;
    } else {
        memcpy(copy, text, length);
        copy[length] = '\0';
        status = take_lines(copy, factors, why);
    }
    if (status == PEN_OK)
        *out = *factors;
    free(factors);
    free(copy);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_replica_factors_parse(bytes, length, out, why);
}

pen_status pen_replica_factors_load(const char *path,
                                    struct pen_replica_factors *out,
                                    struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse, out, why);
}
