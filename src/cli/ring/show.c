/*
 * penstock ring show: what the islands of a ring have agreed on.
 */
#include "cli/ring/ring.h"

#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "ring/stores/stores.h"

#include <inttypes.h>

static void add_round(const struct pen_ring_record *record,
                      struct pen_text *out)
{
    if (record->round == 0) {
        pen_text_add_string(out, "no round is committed\n");
        return;
    }
    pen_text_add(out,
                 "round %" PRIu64 " was committed in epoch %" PRIu64
                 ", hash %016" PRIx64 "...\n",
                 record->round, record->round_epoch, record->hash.words[0]);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen_ring_offer *offer = &record->offers[i];
        if (pen_ring_has(record->contributors, i))
            pen_text_add(out,
                         "  island %" PRIu32 ": batches %" PRIu64 " to %" PRIu64
                         ", %" PRIu64 " tokens\n",
                         i, offer->first, offer->last, offer->tokens);
    }
}

void pen__ring_add_record(const struct pen_ring_record *record,
                          uint64_t revision, struct pen_text *out)
{
    pen_text_add(out,
                 "revision %" PRIu64 ", epoch %" PRIu64 "\nmembers: ", revision,
                 record->epoch);
    pen_ring_add_set(record->members, out);
    pen_text_add_string(out, "\nrevoked keys: ");
    pen_ring_add_set(record->revoked, out);
    pen_text_add_string(out, "\n");
    add_round(record, out);
}

static int print_text(const struct pen_ring_record *record, uint64_t revision)
{
    struct pen_text out = PEN_TEXT_EMPTY;
    pen__ring_add_record(record, revision, &out);
    return pen__print(&out);
}

json_t *pen__ring_record_json(const struct pen_ring_record *record,
                              uint64_t revision)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    json_t *value = NULL;
    if (pen_ring_record_print(record, revision, &text) == PEN_OK)
        value = json_loads(pen_text_string(&text), 0, NULL);
    pen_text_release(&text);
    return value;
}

static int print_json(const struct pen_ring_record *record, uint64_t revision)
{
    return pen__print_json(
        "ring-show",
        json_pack("{s:o}", "record", pen__ring_record_json(record, revision)));
}

int pen__ring_show(const char *name)
{
    struct pen_ring_store store;
    struct pen_ring_record record;
    struct pen_text why = PEN_TEXT_EMPTY;
    uint64_t revision = 0;
    int code;
    pen_status status = pen_ring_store_open(name, true, &store, &why);
    if (status == PEN_OK) {
        status = store.read(store.target, &record, &revision, &why);
        store.close(store.target);
    }
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = print_json(&record, revision);
    else
        code = print_text(&record, revision);
    pen_text_release(&why);
    return code;
}
