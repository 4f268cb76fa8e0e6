/*
 * A record as JSON, as journals and etcd keep it:
 *
 *   {"format": "penstock-ring-record", "version": 1, "revision": 7, "epoch": 3,
 *    "members": [0, 2], "revoked": [], "islands": [{"incarnation", "cursor"}],
 *    "round": 5, "round_epoch": 3, "contributors": [{"island", "first", "last",
 *    "tokens", "fragments", "hash"}], "hash": "..."}
 */
#include "ring/stores/stores.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "penstock-ring-record"
#define VERSION 1
#define MOST ((uint64_t)INT64_MAX)
#define HASH_LETTERS 64u

/* ---- printing ---- */

static json_t *count_json(uint64_t count)
{
    return json_integer((json_int_t)count);
}

static json_t *set_json(uint64_t set)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (pen_ring_has(set, i))
            json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *hash_json(const struct pen_ring_hash *hash)
{
    char letters[HASH_LETTERS + 1];
    for (size_t i = 0; i < 4; i++)
        snprintf(letters + 16 * i, 17, "%016" PRIx64, hash->words[i]);
    return json_string(letters);
}

static json_t *islands_json(const struct pen_ring_record *record)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:o}", "incarnation",
                            count_json(record->incarnations[i]), "cursor",
                            count_json(record->cursors[i])));
    return list;
}

static json_t *contributors_json(const struct pen_ring_record *record)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen_ring_offer *offer = &record->offers[i];
        if (pen_ring_has(record->contributors, i))
            json_array_append_new(
                list, json_pack("{s:i, s:o, s:o, s:o, s:i, s:o}", "island",
                                (int)i, "first", count_json(offer->first),
                                "last", count_json(offer->last), "tokens",
                                count_json(offer->tokens), "fragments",
                                (int)offer->num_fragments, "hash",
                                hash_json(&offer->hash)));
    }
    return list;
}

pen_status pen_ring_record_print(const struct pen_ring_record *record,
                                 uint64_t revision, struct pen_text *out)
{
    json_t *json = json_pack(
        "{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format",
        FORMAT, "version", VERSION, "revision", count_json(revision), "epoch",
        count_json(record->epoch), "members", set_json(record->members),
        "revoked", set_json(record->revoked), "islands", islands_json(record),
        "round", count_json(record->round), "round_epoch",
        count_json(record->round_epoch), "contributors",
        contributors_json(record), "hash", hash_json(&record->hash));
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    if (text != NULL)
        pen_text_add_string(out, text);
    bool is_made = text != NULL && !out->has_failed;
    free(text);
    json_decref(json);
    return is_made ? PEN_OK : PEN_NOMEM;
}

/* ---- parsing ---- */

static pen_status read_count(const struct pen_json *json, const char *key,
                             uint64_t *out, struct pen_text *why)
{
    return pen_json_read_count(json, key, 0, MOST, out, why);
}

static pen_status read_list(const struct pen_json *json, const char *key,
                            json_t **out, struct pen_text *why)
{
    *out = json_object_get(json->object, key);
    if (json_is_array(*out) && json_array_size(*out) <= PEN_RING_ISLANDS)
        return PEN_OK;
    pen_why(why, "%s%s must be a list of at most %u entries", json->path, key,
            PEN_RING_ISLANDS);
    return PEN_INVALID;
}

/* Reads islands in rising order, so that none occurs twice. */
static pen_status read_set(const struct pen_json *json, const char *key,
                           uint64_t *out, struct pen_text *why)
{
    json_t *list;
    json_t *entry;
    size_t index;
    json_int_t last = -1;
    pen_status status = read_list(json, key, &list, why);
    *out = 0;
    if (status != PEN_OK)
        return status;
    json_array_foreach(list, index, entry)
    {
        json_int_t island = json_integer_value(entry);
        if (!json_is_integer(entry) || island <= last ||
            island >= (json_int_t)PEN_RING_ISLANDS) {
            pen_why(why,
                    "%s[%zu] must be an island from 0 to %u, above those "
                    "before it",
                    key, index, PEN_RING_ISLANDS - 1);
            return PEN_INVALID;
        }
        last = island;
        *out |= pen_ring_bit((uint32_t)island);
    }
    return PEN_OK;
}

static pen_status read_hash(const struct pen_json *json,
                            struct pen_ring_hash *out, struct pen_text *why)
{
    char letters[HASH_LETTERS + 1];
    pen_status status =
        pen_json_read_word(json, "hash", letters, sizeof letters, why);
    if (status != PEN_OK)
        return status;
    if (strspn(letters, "0123456789abcdef") != HASH_LETTERS) {
        pen_why(why, "%shash must be %u letters of 0 to 9 and a to f",
                json->path, HASH_LETTERS);
        return PEN_INVALID;
    }
    for (size_t i = 4; i-- > 0;) {
        out->words[i] = strtoull(letters + 16 * i, NULL, 16);
        letters[16 * i] = '\0';
    }
    return PEN_OK;
}

static pen_status read_islands(const struct pen_json *json,
                               struct pen_ring_record *out,
                               struct pen_text *why)
{
    json_t *list;
    pen_status status = read_list(json, "islands", &list, why);
    size_t count = status == PEN_OK ? json_array_size(list) : 0;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, "islands", i, &entry, why);
        if (status == PEN_OK)
            status = pen_json_check_keys(&entry, "incarnation cursor", why);
        if (status == PEN_OK)
            status =
                read_count(&entry, "incarnation", &out->incarnations[i], why);
        if (status == PEN_OK)
            status = read_count(&entry, "cursor", &out->cursors[i], why);
    }
    return status;
}

static pen_status read_offer(const struct pen_json *entry,
                             struct pen_ring_offer *out, struct pen_text *why)
{
    pen_status status = read_count(entry, "first", &out->first, why);
    if (status == PEN_OK)
        status = pen_json_read_count(entry, "last", out->first, MOST,
                                     &out->last, why);
    if (status == PEN_OK)
        status = read_count(entry, "tokens", &out->tokens, why);
    if (status == PEN_OK)
        status =
            pen_json_read_integer(entry, "fragments", 0, PEN_RING_FRAGMENTS,
                                  &out->num_fragments, why);
    return status == PEN_OK ? read_hash(entry, &out->hash, why) : status;
}

static pen_status read_contributors(const struct pen_json *json,
                                    struct pen_ring_record *out,
                                    struct pen_text *why)
{
    static const char keys[] = "island first last tokens fragments hash";
    json_t *list;
    uint32_t island = 0;
    uint32_t least = 0;
    pen_status status = read_list(json, "contributors", &list, why);
    size_t count = status == PEN_OK ? json_array_size(list) : 0;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        struct pen_json entry;
        status = pen_json_open_entry(list, "contributors", i, &entry, why);
        if (status == PEN_OK)
            status = pen_json_check_keys(&entry, keys, why);
        if (status == PEN_OK)
            status = pen_json_read_integer(&entry, "island", least,
                                           PEN_RING_ISLANDS - 1, &island, why);
        if (status == PEN_OK)
            status = read_offer(&entry, &out->offers[island], why);
        out->contributors |= pen_ring_bit(island);
        least = island + 1;
    }
    return status;
}

static pen_status read_record(const struct pen_json *json,
                              struct pen_ring_record *out, uint64_t *revision,
                              struct pen_text *why)
{
    static const char keys[] =
        "format version revision epoch members revoked islands round "
        "round_epoch contributors hash";
    pen_status status = pen_json_check_format(json, FORMAT, VERSION, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(json, keys, why);
    if (status == PEN_OK)
        status = pen_json_read_count(json, "revision", 1, MOST, revision, why);
    if (status == PEN_OK)
        status = read_count(json, "epoch", &out->epoch, why);
    if (status == PEN_OK)
        status = read_set(json, "members", &out->members, why);
    if (status == PEN_OK)
        status = read_set(json, "revoked", &out->revoked, why);
    if (status == PEN_OK)
        status = read_islands(json, out, why);
    if (status == PEN_OK)
        status = read_count(json, "round", &out->round, why);
    if (status == PEN_OK)
        status = read_count(json, "round_epoch", &out->round_epoch, why);
    if (status == PEN_OK)
        status = read_contributors(json, out, why);
    return status == PEN_OK ? read_hash(json, &out->hash, why) : status;
}

pen_status pen_ring_record_parse(const char *text, size_t length,
                                 struct pen_ring_record *out,
                                 uint64_t *revision, struct pen_text *why)
{
    struct pen_json json;
    *out = (struct pen_ring_record){0};
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    status = read_record(&json, out, revision, why);
    json_decref(json.object);
    return status;
}
