/*
 * ranks.json.
 *
 *   {"format": "penstock-ranks", "version": 1,
 *    "ranks": [
 *     {"predicted_bytes": 104857600, "peak_bytes": 106954752},
 *     ...]}
 */
#include "core/run_ranks.h"

#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>

#define FORMAT "penstock-ranks"
#define VERSION 1
#define MOST_FILE_BYTES ((size_t)256 << 20)

void pen_run_ranks_print(const struct pen_run_ranks *ranks,
                         struct pen_text *out)
{
    pen_text_add(out, "{\"format\": \"%s\", \"version\": %d,\n \"ranks\": [",
                 FORMAT, VERSION);
    for (uint32_t i = 0; i < ranks->count; i++)
        pen_text_add(out,
                     "%s\n  {\"predicted_bytes\": %" PRIu64
                     ", \"peak_bytes\": %" PRIu64 "}",
                     i == 0 ? "" : ",", ranks->ranks[i].predicted_bytes,
                     ranks->ranks[i].peak_bytes);
    pen_text_add_string(out, "]}\n");
}

static pen_status read_rank(const json_t *list, uint32_t index,
                            struct pen_run_rank *out, struct pen_text *why)
{
    struct pen_json rank;
    pen_status status = pen_json_open_entry(list, "ranks", index, &rank, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&rank, "predicted_bytes peak_bytes", why);
    if (status == PEN_OK)
        status =
            pen_json_read_count(&rank, "predicted_bytes", 1, PEN_RUN_MAX_BYTES,
                                &out->predicted_bytes, why);
    if (status == PEN_OK)
        status = pen_json_read_count(&rank, "peak_bytes", 1, PEN_RUN_MAX_BYTES,
                                     &out->peak_bytes, why);
    return status;
}

/* Makes room for as many ranks as the list has. */
static struct pen_run_ranks *create(uint32_t count)
{
    struct pen_run_ranks *ranks = calloc(1, sizeof *ranks);
    if (ranks == NULL)
        return NULL;
    ranks->ranks = calloc(count, sizeof *ranks->ranks);
    ranks->count = count;
    if (ranks->ranks != NULL)
        return ranks;
    free(ranks);
    return NULL;
}

static pen_status read_ranks(const json_t *list, struct pen_run_ranks **out,
                             struct pen_text *why)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > PEN_RUN_MAX_RANKS) {
        pen_why(why, "ranks must be a list of 1 to %u ranks",
                PEN_RUN_MAX_RANKS);
        return PEN_INVALID;
    }
    struct pen_run_ranks *ranks = create((uint32_t)count);
    if (ranks == NULL) {
        pen_why(why, "no memory for %zu ranks", count);
        return PEN_NOMEM;
    }
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < ranks->count && status == PEN_OK; i++)
        status = read_rank(list, i, &ranks->ranks[i], why);
    if (status == PEN_OK)
        *out = ranks;
    else
        pen_run_ranks_free(ranks);
    return status;
}

pen_status pen_run_ranks_parse(const char *text, size_t length,
                               struct pen_run_ranks **out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    status = pen_json_check_format(&json, FORMAT, VERSION, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "format version ranks", why);
    if (status == PEN_OK)
        status = read_ranks(json_object_get(json.object, "ranks"), out, why);
    json_decref(json.object);
    return status;
}

static pen_status parse(void *out, const char *bytes, size_t length,
                        struct pen_text *why)
{
    return pen_run_ranks_parse(bytes, length, out, why);
}

pen_status pen_run_ranks_load(const char *path, struct pen_run_ranks **out,
                              struct pen_text *why)
{
    return pen_file_parse(path, MOST_FILE_BYTES, parse, out, why);
}

void pen_run_ranks_free(struct pen_run_ranks *ranks)
{
    if (ranks == NULL)
        return;
    free(ranks->ranks);
    free(ranks);
}
