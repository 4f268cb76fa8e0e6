/*
 * The lines of a run log, printed and read. One table says what a line holds,
 * for both. Files are written by run_log_write.c.
 */
#include "core/run_log_internal.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field_kind { FIELD_COUNT, FIELD_REAL, FIELD_OPTIONAL_REAL };

static const struct field {
    const char *key;
    enum field_kind kind;
    size_t offset;  /* in struct pen_run_step */
    uint32_t since; /* version */
} fields[] = {
    {"step", FIELD_COUNT, offsetof(struct pen_run_step, step), 1},
    {"loss", FIELD_REAL, offsetof(struct pen_run_step, loss), 1},
    {"grad_norm", FIELD_REAL, offsetof(struct pen_run_step, grad_norm), 1},
    {"lr", FIELD_REAL, offsetof(struct pen_run_step, lr), 1},
    {"tokens", FIELD_COUNT, offsetof(struct pen_run_step, tokens), 1},
    {"tokens_per_sec", FIELD_REAL,
     offsetof(struct pen_run_step, tokens_per_sec), 1},
    {"share_of_peak", FIELD_REAL, offsetof(struct pen_run_step, share_of_peak),
     1},
    {"step_ms", FIELD_REAL, offsetof(struct pen_run_step, step_ms), 1},
    {"memory_bytes", FIELD_COUNT, offsetof(struct pen_run_step, memory_bytes),
     1},
    {"elapsed_sec", FIELD_REAL, offsetof(struct pen_run_step, elapsed_sec), 1},
    {"val_loss", FIELD_OPTIONAL_REAL, offsetof(struct pen_run_step, val_loss),
     1},
    {"val_accuracy", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, val_accuracy), 1},
    {"loss_usual", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, loss_usual), 2},
    {"grad_norm_usual", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, grad_norm_usual), 2},
    {"move_sec", FIELD_OPTIONAL_REAL, offsetof(struct pen_run_step, move_sec),
     2},
    {"move_bytes", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, move_bytes), 2},
    {"repeated", FIELD_OPTIONAL_REAL, offsetof(struct pen_run_step, repeated),
     2},
    {"skipped", FIELD_OPTIONAL_REAL, offsetof(struct pen_run_step, skipped), 2},
    {"round", FIELD_OPTIONAL_REAL, offsetof(struct pen_run_step, round), 2},
    {"round_islands", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, round_islands), 2},
    {"round_epoch", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, round_epoch), 2},
    {"round_wait_sec", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, round_wait_sec), 2},
    {"expert_imbalance", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, expert_imbalance), 2},
    {"dropped_tokens", FIELD_OPTIONAL_REAL,
     offsetof(struct pen_run_step, dropped_tokens), 2},
};

#define NUM_FIELDS (sizeof fields / sizeof *fields)

static void print_field(const struct field *field,
                        const struct pen_run_step *step,
                        char text[PEN_REAL_SIZE])
{
    const char *at = (const char *)step + field->offset;
    if (field->kind == FIELD_COUNT) {
        uint64_t count = *(const uint64_t *)(const void *)at;
        PEN_BUG_UNLESS(count <= INT64_MAX);
        snprintf(text, PEN_REAL_SIZE, "%llu", (unsigned long long)count);
        return;
    }
    double value = *(const double *)(const void *)at;
    if (field->kind == FIELD_OPTIONAL_REAL && isnan(value))
        text[0] = '\0';
    else
        pen_real_print(value, text);
}

size_t pen_run_step_print(const struct pen_run_step *step,
                          char line[PEN_RUN_LINE_SIZE])
{
    size_t length = 0;
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        char number[PEN_REAL_SIZE];
        print_field(&fields[i], step, number);
        if (number[0] == '\0')
            continue;
        length += (size_t)snprintf(line + length, PEN_RUN_LINE_SIZE - length,
                                   "%c\"%s\":%s", length == 0 ? '{' : ',',
                                   fields[i].key, number);
        PEN_BUG_UNLESS(length + sizeof "}\n" <= PEN_RUN_LINE_SIZE);
    }
    memcpy(line + length, "}\n", sizeof "}\n");
    return length + 2;
}

/* The lines of a text that end in a newline. */
struct lines {
    const char *next;
    const char *end;
    const char *line; /* the last one found, with its newline */
    size_t length;
    size_t number;    /* from 1 */
    uint32_t version; /* of the head, when that was read */
};

static bool next_line(struct lines *lines)
{
    const char *newline = NULL;
    if (lines->next < lines->end)
        newline = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));
    if (newline == NULL)
        return false;
    lines->line = lines->next;
    lines->length = (size_t)(newline + 1 - lines->line);
    lines->next = newline + 1;
    lines->number++;
    return true;
}

/*
 * Returns the column of a key in the present line, from 1; 1 when it is
 * missing.
 */
static size_t column_of(const struct lines *lines, const char *key)
{
    size_t length = strlen(key);
    const char *end = lines->line + lines->length;
    const char *at = lines->line;
    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        at++;
        if ((size_t)(end - at) > length && memcmp(at, key, length) == 0 &&
            at[length] == '"')
            return (size_t)(at - lines->line);
    }
    return 1;
}

/* Begins a refusal that is about a key of the present line. */
static void why_place(const struct lines *lines, const char *key,
                      struct pen_text *why)
{
    pen_why(why, "line %zu, column %zu: ", lines->number,
            column_of(lines, key));
}

/* Parses an object. Drop the result with json_decref(); NULL: refused. */
static json_t *parse_object(const struct lines *lines, struct pen_text *why)
{
    json_error_t error;
    json_t *object =
        json_loadb(lines->line, lines->length, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(object))
        return object;
    if (object != NULL) {
        json_decref(object);
        error.column = 1;
        strcpy(error.text, "expected one JSON object per line");
    }
    pen_why(why, "line %zu, column %d: ", lines->number, error.column);
    if (why != NULL)
        pen_text_add_printable(why, error.text, strlen(error.text));
    return NULL;
}

static const char *expected_form(enum field_kind kind)
{
    return kind == FIELD_COUNT ? "a whole number from 0 to 2^63 - 1"
                               : "a number or null";
}

/* Returns whether the value is of the field's kind. */
static bool store(const struct field *field, const json_t *value,
                  struct pen_run_step *step)
{
    char *at = (char *)step + field->offset;
    if (field->kind == FIELD_COUNT) {
        json_int_t count = json_integer_value(value);
        *(uint64_t *)(void *)at = (uint64_t)count;
        return json_is_integer(value) && count >= 0;
    }
    bool is_absent = value == NULL && field->kind == FIELD_OPTIONAL_REAL;
    *(double *)(void *)at =
        json_is_number(value) ? json_number_value(value) : NAN;
    return json_is_number(value) || json_is_null(value) || is_absent;
}

/* Refuses unknown keys: if the line has more keys than were read, names one. */
static pen_status refuse_unknown(const struct lines *lines, json_t *object,
                                 struct pen_text *why)
{
    for (size_t i = 0; i < NUM_FIELDS; i++)
        if (fields[i].since <= lines->version)
            json_object_del(object, fields[i].key);
    const char *key = json_object_iter_key(json_object_iter(object));
    why_place(lines, key, why);
    if (why != NULL)
        pen_text_add_printable(why, key, strlen(key));
    pen_why(why, " is not a key of a step");
    return PEN_INVALID;
}

static pen_status read_fields(const struct lines *lines, json_t *object,
                              struct pen_run_step *step, struct pen_text *why)
{
    size_t num_found = 0;
    for (size_t i = 0; i < NUM_FIELDS; i++) {
        const json_t *value = fields[i].since > lines->version
                                  ? NULL
                                  : json_object_get(object, fields[i].key);
        num_found += value != NULL;
        if (store(&fields[i], value, step))
            continue;
        why_place(lines, fields[i].key, why);
        pen_why(why, "%s %s %s", fields[i].key,
                value == NULL ? "is missing, expected" : "must be",
                expected_form(fields[i].kind));
        return PEN_INVALID;
    }
    if (num_found < json_object_size(object))
        return refuse_unknown(lines, object, why);
    return PEN_OK;
}

/* Reads the present line as the step that follows step `before`. */
static pen_status parse_step(const struct lines *lines, uint64_t before,
                             struct pen_run_step *step, struct pen_text *why)
{
    json_t *object = parse_object(lines, why);
    if (object == NULL)
        return PEN_INVALID;
    pen_status status = read_fields(lines, object, step, why);
    json_decref(object);
    if (status != PEN_OK || step->step > before)
        return status;
    why_place(lines, "step", why);
    pen_why(why, "step %llu must be larger than the step before it, %llu",
            (unsigned long long)step->step, (unsigned long long)before);
    return PEN_INVALID;
}

static pen_status check_head(const struct pen_json *head, uint32_t *version,
                             struct pen_text *why)
{
    struct pen_json ignored;
    pen_status status = pen_json_read_version(head, PEN__RUN_FORMAT,
                                              PEN__RUN_VERSION, version, why);
    if (status == PEN_OK)
        status =
            pen_json_check_keys(head, "format version model settings", why);
    if (status == PEN_OK &&
        !json_is_string(json_object_get(head->object, "model"))) {
        pen_why(why, "model must be a string");
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = pen_json_open(head, "settings", &ignored, why);
    return status;
}

/* Parses the head. On success *out is the object of the first line; drop it. */
static pen_status parse_head(struct lines *lines, json_t **out,
                             struct pen_text *why)
{
    if (!next_line(lines)) {
        pen_why(why, "line 1, column 1: expected {\"format\":\"" PEN__RUN_FORMAT
                     "\", ...} and a newline");
        return PEN_INVALID;
    }
    struct pen_json head = {.object = parse_object(lines, why)};
    if (head.object == NULL)
        return PEN_INVALID;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = check_head(&head, &lines->version, &reason);
    if (status == PEN_OK) {
        *out = head.object;
    } else {
        pen_why(why, "line 1, column 1: %s", pen_text_string(&reason));
        json_decref(head.object);
    }
    pen_text_release(&reason);
    return status;
}

static struct lines lines_of(const char *text, size_t length)
{
    return (struct lines){.next = text, .end = text + length};
}

pen_status pen__run_measure(const char *text, size_t length, uint64_t last_step,
                            struct pen__run_kept *out, struct pen_text *why)
{
    struct lines lines = lines_of(text, length);
    struct pen_run_step step = {.step = 0};
    json_t *head = NULL;
    pen_status status = parse_head(&lines, &head, why);
    json_decref(head);
    struct pen__run_kept kept = {.bytes = lines.next - text,
                                 .version = lines.version};
    while (status == PEN_OK && next_line(&lines)) {
        status = parse_step(&lines, step.step, &step, why);
        if (step.step > last_step)
            break;
        kept.bytes = lines.next - text;
        if (!isnan(step.elapsed_sec))
            kept.elapsed_sec = step.elapsed_sec;
    }
    if (status == PEN_OK)
        *out = kept;
    return status;
}

static pen_status add_step(struct pen_run *run, size_t *capacity,
                           const struct pen_run_step *step,
                           struct pen_text *why)
{
    if (run->num_steps == *capacity) {
        size_t more = *capacity == 0 ? 64 : 2 * *capacity;
        struct pen_run_step *steps =
            realloc(run->steps, more * sizeof *run->steps);
        if (steps == NULL) {
            pen_why(why, "no memory for %zu steps", more);
            return PEN_NOMEM;
        }
        run->steps = steps;
        *capacity = more;
    }
    run->steps[run->num_steps++] = *step;
    return PEN_OK;
}

static pen_status parse_run(struct lines *lines, struct pen_run *run,
                            struct pen_text *why)
{
    json_t *head = NULL;
    pen_status status = parse_head(lines, &head, why);
    if (status != PEN_OK)
        return status;
    run->model = strdup(json_string_value(json_object_get(head, "model")));
    run->settings = json_incref(json_object_get(head, "settings"));
    json_decref(head);
    if (run->model == NULL) {
        pen_why(why, "no memory for a run");
        return PEN_NOMEM;
    }
    struct pen_run_step step = {.step = 0};
    size_t capacity = 0;
    while (status == PEN_OK && next_line(lines)) {
        status = parse_step(lines, step.step, &step, why);
        if (status == PEN_OK)
            status = add_step(run, &capacity, &step, why);
    }
    run->is_cut = lines->next < lines->end;
    return status;
}

pen_status pen_run_parse(const char *text, size_t length, struct pen_run **out,
                         struct pen_text *why)
{
    struct lines lines = lines_of(text, length);
    struct pen_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        pen_why(why, "no memory for a run");
        return PEN_NOMEM;
    }
    pen_status status = parse_run(&lines, run, why);
    if (status == PEN_OK)
        *out = run;
    else
        pen_run_free(run);
    return status;
}

pen_status pen_run_load(const char *path, struct pen_run **out,
                        struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_status status = pen_file_read(path, PEN__RUN_MOST_BYTES, &text, why);
    if (status != PEN_OK)
        return status;
    status = pen_run_parse(text.bytes, text.length, out, &reason);
    if (status != PEN_OK)
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    pen_text_release(&text);
    pen_text_release(&reason);
    return status;
}

void pen_run_free(struct pen_run *run)
{
    if (run == NULL)
        return;
    free(run->model);
    json_decref(run->settings);
    free(run->steps);
    free(run);
}
