/*
 * penstock ring key, coordinate, status, evict: a ring on a network.
 */
#include "cli/ring/ring.h"

#include "base/log.h"
#include "base/units.h"
#include "cli/program/answer.h"
#include "cli/program/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SEC 0.5
#define MOST_SEC 86400.0

static int end(pen_status status, struct pen_text *why)
{
    int code = status == PEN_OK ? PEN__EXIT_OK : pen__refuse_as(status, why);
    pen_text_release(why);
    return code;
}

int pen__ring_key(const char *path, const char *address)
{
    struct pen_text line = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_ring_make_key(path, address, &line, &why);
    int code = PEN__EXIT_OK;
    if (status == PEN_OK) {
        pen_text_add_string(&line, "\n");
        code = pen__print(&line);
        pen_log(PEN_LOG_INFO,
                "wrote the private key %s; put the line above into the folder "
                "of keys of all nodes, for example as island-0.pub",
                path);
    }
    pen_text_release(&line);
    int failed = end(status, &why);
    return failed == PEN__EXIT_OK ? code : failed;
}

int pen__ring_coordinate(struct pen_ring_coordinate_options *options,
                         const char *patience)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    double seconds = 0;
    if (!pen_unit_parse(PEN_UNIT_SECONDS, patience, &seconds) ||
        seconds < LEAST_SEC || seconds > MOST_SEC) {
        pen_log(PEN_LOG_ERROR,
                "--patience %s is not a time from %g s to %g s; for example "
                "30s",
                patience, LEAST_SEC, MOST_SEC);
        return PEN__EXIT_USAGE;
    }
    options->patience = (int64_t)(seconds * 1e9);
    return end(pen_ring_coordinate(options, &why), &why);
}

/* ---- status */

static void add_island(const struct pen__ring_status *status, uint32_t island,
                       struct pen_text *out)
{
    pen_text_add(
        out, "  island %" PRIu32 ": %s%s", island,
        status->islands[island].is_connected ? "connected" : "not connected",
        pen_ring_has(status->record.members, island) ? ", member" : "");
    if (pen_ring_has(status->record.revoked, island))
        pen_text_add_string(out, ", evicted");
    if (status->islands[island].is_heard)
        pen_text_add(out, ", heard %.1f s ago, holds round %" PRIu64,
                     (double)status->islands[island].silent / 1e9,
                     status->islands[island].round);
    pen_text_add_string(out, "\n");
}

static int print_text(const struct pen__ring_status *status)
{
    struct pen_text out = PEN_TEXT_EMPTY;
    pen_text_add(&out, "%s, quorum %" PRIu32 ", patience ",
                 status->is_serving ? "serving" : "waiting for the lease",
                 status->quorum);
    pen_unit_print(PEN_UNIT_SECONDS, (double)status->patience / 1e9, &out);
    pen_text_add_string(&out, "\n");
    for (uint32_t i = 0; i < status->num_islands; i++)
        add_island(status, i, &out);
    if (status->revision > 0)
        pen__ring_add_record(&status->record, status->revision, &out);
    return pen__print(&out);
}

static json_t *islands_json(const struct pen__ring_status *status)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < status->num_islands; i++)
        pen__json_append(
            &list, json_pack("{s:b, s:b, s:f, s:I}", "is_connected",
                             status->islands[i].is_connected, "is_heard",
                             status->islands[i].is_heard, "silent_seconds",
                             (double)status->islands[i].silent / 1e9, "round",
                             (json_int_t)status->islands[i].round));
    return list;
}

static int print_json(const struct pen__ring_status *status)
{
    json_t *value = json_pack(
        "{s:b, s:i, s:f, s:o}", "is_serving", status->is_serving, "quorum",
        (int)status->quorum, "patience_seconds", (double)status->patience / 1e9,
        "islands", islands_json(status));
    if (value != NULL && status->revision > 0)
        json_object_set_new(
            value, "record",
            pen__ring_record_json(&status->record, status->revision));
    return pen__print_json("ring-status", value);
}

int pen__ring_status(const char *address, const char *key, const char *keys)
{
    struct pen__ring_status status;
    struct pen_text why = PEN_TEXT_EMPTY;
    const struct pen__ask ask = {.order = PEN__ORDER_NONE};
    pen_status asked = pen_ring_ask(address, key, keys, &ask, &status, &why);
    if (asked != PEN_OK)
        return end(asked, &why);
    return pen__answer_is_json() ? print_json(&status) : print_text(&status);
}

int pen__ring_evict(const char *address, const char *island, const char *key,
                    const char *keys)
{
    struct pen__ring_status status;
    struct pen_text why = PEN_TEXT_EMPTY;
    char *rest;
    unsigned long number = strtoul(island, &rest, 10);
    if (*island < '0' || *island > '9' || *rest != '\0' ||
        number >= PEN_RING_ISLANDS) {
        pen_log(PEN_LOG_ERROR, "%s is not an island; give its number", island);
        return PEN__EXIT_USAGE;
    }
    const struct pen__ask ask = {.order = PEN__ORDER_EVICT,
                                 .island = (uint32_t)number};
    pen_status asked = pen_ring_ask(address, key, keys, &ask, &status, &why);
    if (asked != PEN_OK)
        return end(asked, &why);
    pen_log(PEN_LOG_INFO, "%s",
            pen_ring_has(status.record.revoked, ask.island)
                ? "evicted; its key never enters again"
                : "ordered; it is evicted when another member that stays is "
                  "present with the committed state");
    return PEN__EXIT_OK;
}
