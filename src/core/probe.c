/* Lines of a probe, printed and read. */
#include "core/probe.h"

#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "penstock-probe"
#define VERSION 1
#define MOST_FILE_BYTES ((size_t)1 << 30)
#define MOST_COUNT ((uint64_t)1 << 53)
#define KEYS "step pass layer name count nonfinite norm sum max hash sketch"
#define NEEDED "step pass layer name count norm sum max hash sketch"

const char *const pen_probe_pass_names[PEN_PROBE_PASSES + 1] = {
    "weights", "forward", "loss", "backward", "gradients", "updated", NULL};

bool pen_probe_goes_back(enum pen_probe_pass pass)
{
    return pass == PEN_PROBE_BACKWARD || pass == PEN_PROBE_GRADIENTS;
}

/* ---- printing ---- */

void pen_probe_print_head(struct pen_text *out)
{
    pen_text_add(out, "{\"format\":\"%s\",\"version\":%d}\n", FORMAT, VERSION);
}

void pen_probe_print(const struct pen_probe_record *record,
                     struct pen_text *out)
{
    const struct pen_tally_result *is = &record->is;
    pen_text_add(out,
                 "{\"step\":%" PRIu64 ",\"pass\":\"%s\",\"layer\":%" PRIu32
                 ",\"name\":\"%s\",\"count\":%" PRIu64,
                 record->step, pen_probe_pass_names[record->pass],
                 record->layer, record->name, is->count);
    if (is->nonfinite > 0)
        pen_text_add(out, ",\"nonfinite\":%" PRIu64, is->nonfinite);
    pen_text_add_string(out, ",\"norm\":");
    pen_text_add_real(out, is->norm);
    pen_text_add_string(out, ",\"sum\":");
    pen_text_add_real(out, is->sum);
    pen_text_add_string(out, ",\"max\":");
    pen_text_add_real(out, is->max);
    pen_text_add(out, ",\"hash\":\"%016" PRIx64 "\",\"sketch\":[", is->hash);
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++) {
        pen_text_add_string(out, j == 0 ? "" : ",");
        pen_text_add_real(out, is->sketch[j]);
    }
    pen_text_add_string(out, "]}\n");
}

/* ---- reading ---- */

static pen_status read_hash(const struct pen_json *json, uint64_t *out,
                            struct pen_text *why)
{
    char word[17];
    pen_status status =
        pen_json_read_word(json, "hash", word, sizeof word, why);
    if (status != PEN_OK)
        return status;
    if (strlen(word) != 16 || strspn(word, "0123456789abcdef") != 16) {
        pen_why(why, "hash must be 16 digits of 0-9 and a-f");
        return PEN_INVALID;
    }
    *out = strtoull(word, NULL, 16);
    return PEN_OK;
}

static pen_status read_sketch(const struct pen_json *json, double *out,
                              struct pen_text *why)
{
    const json_t *list = json_object_get(json->object, "sketch");
    bool is_right = json_array_size(list) == PEN_TALLY_SKETCHES;
    for (size_t j = 0; j < PEN_TALLY_SKETCHES && is_right; j++) {
        const json_t *number = json_array_get(list, j);
        out[j] = json_number_value(number);
        is_right = json_is_number(number) && isfinite(out[j]);
    }
    if (is_right)
        return PEN_OK;
    pen_why(why, "sketch must be a list of %d numbers", PEN_TALLY_SKETCHES);
    return PEN_INVALID;
}

static pen_status read_figures(const struct pen_json *json,
                               struct pen_tally_result *out,
                               struct pen_text *why)
{
    double most = 1e60; /* above any sum of floats */
    const struct pen_json_number numbers[] = {{"norm", &out->norm, 0, most},
                                              {"sum", &out->sum, -most, most},
                                              {"max", &out->max, 0, most}};
    pen_status status =
        pen_json_read_count(json, "count", 1, MOST_COUNT, &out->count, why);
    if (status == PEN_OK && pen_json_has(json, "nonfinite"))
        status = pen_json_read_count(json, "nonfinite", 1, out->count,
                                     &out->nonfinite, why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers,
                                       sizeof numbers / sizeof *numbers, why);
    if (status == PEN_OK)
        status = read_hash(json, &out->hash, why);
    if (status == PEN_OK)
        status = read_sketch(json, out->sketch, why);
    return status;
}

static pen_status read_record(const struct pen_json *json,
                              struct pen_probe_record *out,
                              struct pen_text *why)
{
    unsigned pass = 0;
    *out = (struct pen_probe_record){.step = 0};
    pen_status status = pen_json_check_keys(json, KEYS, why);
    if (status == PEN_OK)
        status = pen_json_require_keys(json, NEEDED, why);
    if (status == PEN_OK)
        status =
            pen_json_read_count(json, "step", 1, MOST_COUNT, &out->step, why);
    if (status == PEN_OK)
        status = pen_json_read_choice(json, "pass", pen_probe_pass_names, &pass,
                                      why);
    if (status == PEN_OK)
        status = pen_json_read_integer(json, "layer", 0, PEN_PROBE_MAX_LAYER,
                                       &out->layer, why);
    if (status == PEN_OK)
        status =
            pen_json_read_word(json, "name", out->name, sizeof out->name, why);
    out->pass = (enum pen_probe_pass)pass;
    return status == PEN_OK ? read_figures(json, &out->is, why) : status;
}

/* Makes room for one more record. */
static pen_status grow(struct pen_probe *probe, size_t *capacity,
                       struct pen_text *why)
{
    if (probe->num_records == PEN_PROBE_MAX_RECORDS) {
        pen_why(why, "it has more than %u records", PEN_PROBE_MAX_RECORDS);
        return PEN_INVALID;
    }
    if (probe->num_records < *capacity)
        return PEN_OK;
    size_t more = 2 * *capacity + 64;
    struct pen_probe_record *grown =
        realloc(probe->records, more * sizeof *grown);
    if (grown == NULL) {
        pen_why(why, "no memory for %zu records", more);
        return PEN_NOMEM;
    }
    probe->records = grown;
    *capacity = more;
    return PEN_OK;
}

static pen_status read_line(struct pen_probe *probe, size_t *capacity,
                            size_t number, const struct pen_json *json,
                            struct pen_text *why)
{
    if (number == 1) {
        pen_status status = pen_json_check_format(json, FORMAT, VERSION, why);
        return status == PEN_OK
                   ? pen_json_check_keys(json, "format version", why)
                   : status;
    }
    pen_status status = grow(probe, capacity, why);
    if (status == PEN_OK)
        status = read_record(json, &probe->records[probe->num_records], why);
    probe->num_records += status == PEN_OK;
    return status;
}

static pen_status read_lines(struct pen_probe *probe, const char *text,
                             size_t length, struct pen_text *why)
{
    const char *end = text + length;
    size_t capacity = 0;
    size_t number = 0;
    pen_status status = PEN_OK;
    while (status == PEN_OK && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        struct pen_json json;
        struct pen_text reason = PEN_TEXT_EMPTY;
        if (newline == NULL)
            break;
        number++;
        status = pen_json_load(text, (size_t)(newline - text), &json, &reason);
        if (status == PEN_OK) {
            status = read_line(probe, &capacity, number, &json, &reason);
            json_decref(json.object);
        }
        if (status != PEN_OK)
            pen_why(why, "line %zu: %s", number, pen_text_string(&reason));
        pen_text_release(&reason);
        text = newline + 1;
    }
    if (status == PEN_OK && probe->num_records == 0) {
        pen_why(why, "it has no records; expected a first line with "
                     "\"format\":\"" FORMAT "\" and a line per record");
        status = PEN_INVALID;
    }
    return status;
}

pen_status pen_probe_parse(const char *text, size_t length,
                           struct pen_probe **out, struct pen_text *why)
{
    struct pen_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        pen_why(why, "no memory for a probe");
        return PEN_NOMEM;
    }
    pen_status status = read_lines(probe, text, length, why);
    if (status == PEN_OK)
        *out = probe;
    else
        pen_probe_free(probe);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_probe_parse(bytes, length, out, why);
}

pen_status pen_probe_load(const char *path, struct pen_probe **out,
                          struct pen_text *why)
{
    return pen_file_parse(path, MOST_FILE_BYTES, parse, out, why);
}

void pen_probe_free(struct pen_probe *probe)
{
    if (probe == NULL)
        return;
    free(probe->records);
    free(probe);
}
