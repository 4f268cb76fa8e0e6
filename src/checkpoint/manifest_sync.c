/*
 * The part of the manifest for a run whose replicas have weights of their own:
 *
 *   "sync": {"method": "diloco", "interval": 500, "replicas": 4,
 *            "options": {"lr": 0.7, "momentum": 0.9},
 *            "compressor": "powersgd", "compressor_options": {"rank": 4.0}}
 *
 * Without a compressor the last two are missing.
 */
#include "checkpoint/manifest.h"

#include "base/bug.h"
#include "base/json.h"
#include "checkpoint/internal.h"

#include <math.h>

static const char *const options_keys[] = {"options", "compressor_options"};

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory for the manifest of a checkpoint");
    return PEN_NOMEM;
}

pen_status pen_manifest_set_sync(struct pen_manifest *manifest,
                                 const struct pen_manifest_sync *sync,
                                 struct pen_text *why)
{
    PEN_BUG_UNLESS(pen__is_setting_name(sync->method));
    PEN_BUG_UNLESS(sync->interval > 0 && sync->num_replicas > 0);
    json_t *made = json_pack("{s:s, s:I, s:I, s:{}}", "method", sync->method,
                             "interval", (json_int_t)sync->interval, "replicas",
                             (json_int_t)sync->num_replicas, "options");
    if (made != NULL && sync->compressor != NULL) {
        PEN_BUG_UNLESS(pen__is_setting_name(sync->compressor));
        json_t *more = json_pack("{s:s, s:{}}", "compressor", sync->compressor,
                                 "compressor_options");
        if (json_object_update(made, more) != 0) {
            json_decref(made);
            made = NULL;
        }
        json_decref(more);
    }
    if (made == NULL)
        return refuse_memory(why);
    json_decref(manifest->sync);
    manifest->sync = made;
    return PEN_OK;
}

pen_status pen_manifest_set_sync_option(struct pen_manifest *manifest,
                                        bool is_of_compressor, const char *name,
                                        double value, struct pen_text *why)
{
    json_t *options =
        json_object_get(manifest->sync, options_keys[is_of_compressor]);
    PEN_BUG_UNLESS(options != NULL && pen__is_setting_name(name));
    PEN_BUG_UNLESS(isfinite(value));
    if (json_object_set_new(options, name, json_real(value)) == 0)
        return PEN_OK;
    return refuse_memory(why);
}

bool pen_manifest_get_sync(const struct pen_manifest *manifest,
                           struct pen_manifest_sync *out)
{
    const json_t *sync = manifest->sync;
    if (sync == NULL)
        return false;
    *out = (struct pen_manifest_sync){
        .method = json_string_value(json_object_get(sync, "method")),
        .interval =
            (uint32_t)json_integer_value(json_object_get(sync, "interval")),
        .num_replicas =
            (uint32_t)json_integer_value(json_object_get(sync, "replicas")),
        .compressor = json_string_value(json_object_get(sync, "compressor"))};
    return true;
}

/* ---- comparing ---- */

/* Compares each pair of values once, with `before` in front of their names. */
static pen_status compare_objects(const char *before, json_t *saved,
                                  json_t *wanted, struct pen_text *why);

static pen_status compare_values(const char *before, const char *key,
                                 json_t *saved, json_t *wanted,
                                 struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_status status = PEN_OK;
    pen_text_add(&name, "%s%s", before, key);
    if (json_is_object(saved) || json_is_object(wanted)) {
        pen_text_add_string(&name, ".");
        status = compare_objects(pen_text_string(&name), saved, wanted, why);
    } else if (!json_equal(saved, wanted)) {
        pen__tell_difference(pen_text_string(&name), saved, wanted, why);
        status = PEN_INVALID;
    }
    pen_text_release(&name);
    return status;
}

static pen_status compare_objects(const char *before, json_t *saved,
                                  json_t *wanted, struct pen_text *why)
{
    const char *key;
    json_t *value;
    pen_status status = PEN_OK;
    json_object_foreach(saved, key, value)
    {
        if (compare_values(before, key, value, json_object_get(wanted, key),
                           why) != PEN_OK)
            status = PEN_INVALID;
    }
    json_object_foreach(wanted, key, value)
    {
        if (json_object_get(saved, key) == NULL &&
            compare_values(before, key, NULL, value, why) != PEN_OK)
            status = PEN_INVALID;
    }
    return status;
}

pen_status pen_manifest_compare_sync(const struct pen_manifest *saved,
                                     const struct pen_manifest *wanted,
                                     struct pen_text *why)
{
    return compare_objects("sync.", saved->sync, wanted->sync, why);
}

/* ---- reading ---- */

static pen_status check_name(const struct pen_json *json, const char *key,
                             struct pen_text *why)
{
    const char *name = json_string_value(json_object_get(json->object, key));
    if (name != NULL && pen__is_setting_name(name))
        return PEN_OK;
    pen_why(why,
            "%s%s must be at most 63 lower-case letters, digits, '.', '_' and "
            "'-'",
            json->path, key);
    return PEN_INVALID;
}

static pen_status check_options(const struct pen_json *json, const char *key,
                                struct pen_text *why)
{
    struct pen_json options;
    pen_status status = pen_json_open(json, key, &options, why);
    if (status != PEN_OK)
        return status;
    const char *name;
    json_t *value;
    bool fits = json_object_size(options.object) <= PEN__MAX_SETTINGS;
    json_object_foreach(options.object, name, value)
    {
        fits = fits && pen__is_setting_name(name) && json_is_real(value);
    }
    if (fits)
        return PEN_OK;
    pen_why(why,
            "%s%s must have at most %u names, each with a number that has "
            "a decimal point",
            json->path, key, PEN__MAX_SETTINGS);
    return PEN_INVALID;
}

static pen_status check_compressor(const struct pen_json *json,
                                   struct pen_text *why)
{
    if (!pen_json_has(json, "compressor") &&
        !pen_json_has(json, "compressor_options"))
        return PEN_OK;
    pen_status status = check_name(json, "compressor", why);
    return status == PEN_OK ? check_options(json, "compressor_options", why)
                            : status;
}

pen_status pen__manifest_read_sync(const struct pen_json *json, json_t **out,
                                   struct pen_text *why)
{
    struct pen_json sync;
    uint32_t number = 0;
    pen_status status = pen_json_open(json, "sync", &sync, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(
            &sync,
            "method interval replicas options compressor compressor_options",
            why);
    if (status == PEN_OK)
        status = check_name(&sync, "method", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&sync, "interval", 1, UINT32_MAX,
                                       &number, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&sync, "replicas", 1,
                                       PEN_MANIFEST_MAX_REPLICAS, &number, why);
    if (status == PEN_OK)
        status = check_options(&sync, "options", why);
    if (status == PEN_OK)
        status = check_compressor(&sync, why);
    if (status == PEN_OK)
        *out = json_incref(sync.object);
    return status;
}
