/*
 * profile.json.
 *
 *   {"format": "penstock-profile", "version": 1,
 *    "machine": {...}, "engine": {...}, "model": {...},
 *    "micro_batch": 4, "sequence": 128, "rounds": 7,
 *    "layers": {"embedding": {...}, "block": {...}, "head": {...}},
 *    "update": {"adam": 1.1e-09, "adam_spread": 2e-11, ...},
 *    "link": {"latency": 3e-06, "bandwidth": 4e+09},
 *    "program_bytes": 45000000,
 *    "more": [{"micro_batch": 8, "layers": {...}}]}
 *
 * Every measured number has its spread next to it, under a key of its own, so
 * that the file stays flat and easy to read from a script.
 */
#include "core/profile.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT "penstock-profile"
#define VERSION 1
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const char *const precisions[] = {"f32", "bf16", NULL};

static const char *const pass_keys[] = {
#define PASS_KEY(name, key) key,
    PEN_PASS_TABLE(PASS_KEY)};

static const char *const update_keys[] = {
#define UPDATE_KEY(name, key) key,
    PEN_UPDATE_TABLE(UPDATE_KEY)};

/* ---- printing ---- */

static void add_measured(struct pen_text *out, const char *key,
                         const struct pen_measured *measured)
{
    pen_text_add(out, "\"%s\": ", key);
    pen_text_add_real(out, measured->median_sec);
    pen_text_add(out, ", \"%s_spread\": ", key);
    pen_text_add_real(out, measured->spread_sec);
}

static void add_mode(struct pen_text *out, const char *name,
                     const struct pen_profile_mode *mode)
{
    pen_text_add(out, ",\n      \"%s\": {", name);
    for (int pass = 0; pass < PEN_PASSES; pass++) {
        pen_text_add_string(out, "\n        ");
        add_measured(out, pass_keys[pass], &mode->passes[pass]);
        pen_text_add_string(out, ",");
    }
    pen_text_add(out,
                 "\n        \"stash_bytes\": %" PRIu64
                 ", \"hold_bytes\": %" PRIu64 ", \"scratch_bytes\": %" PRIu64
                 "\n      }",
                 mode->stash_bytes, mode->hold_bytes, mode->scratch_bytes);
}

static void add_layer(struct pen_text *out, const char *name,
                      const struct pen_profile_layer *layer)
{
    pen_text_add(out,
                 "    \"%s\": {\n      \"parameters\": %" PRIu64
                 ", \"parameter_bytes\": %" PRIu64
                 ", \"output_bytes\": %" PRIu64,
                 name, layer->num_parameters, layer->parameter_bytes,
                 layer->output_bytes);
    pen_text_add(out,
                 ",\n      \"engine_bytes\": %" PRIu64
                 ", \"passing_bytes\": %" PRIu64 ", \"largest\": %" PRIu64,
                 layer->engine_bytes, layer->passing_bytes, layer->largest);
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        if (layer->modes[mode].is_there)
            add_mode(out, pen_recompute_names[mode], &layer->modes[mode]);
    pen_text_add_string(out, "\n    }");
}

static void add_layers(struct pen_text *out,
                       const struct pen_profile_layer *layers)
{
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        add_layer(out, pen_layer_kind_name((enum pen_layer_kind)kind),
                  &layers[kind]);
        pen_text_add_string(out, kind + 1 < PEN_LAYER_KINDS ? ",\n" : "\n");
    }
}

static void add_more(struct pen_text *out, const struct pen_profile *profile)
{
    for (uint32_t i = 0; i < profile->num_more; i++) {
        pen_text_add(out, "%s{\"micro_batch\": %u, \"layers\": {\n",
                     i == 0 ? ",\n  \"more\": [" : "}}, ",
                     profile->more[i].micro_batch);
        add_layers(out, profile->more[i].layers);
    }
    if (profile->num_more > 0)
        pen_text_add_string(out, "  }}]");
}

void pen_profile_print(const struct pen_profile *profile, struct pen_text *out)
{
    pen_text_add(out,
                 "{\n  \"format\": \"%s\",\n  \"version\": %d,\n"
                 "  \"machine\": {\"cpu\": \"%s\", \"cores\": %u, "
                 "\"memory_bytes\": %" PRIu64 "},\n",
                 FORMAT, VERSION, profile->cpu, profile->num_cores,
                 profile->memory_bytes);
    pen_text_add(out,
                 "  \"engine\": {\"name\": \"%s\", \"library\": \"%s\", "
                 "\"dtype\": \"%s\", \"threads\": %u, \"ranks\": %u},\n",
                 profile->engine, profile->library,
                 precisions[profile->is_bf16 ? 1 : 0], profile->num_threads,
                 profile->num_ranks);
    pen_text_add(out,
                 "  \"model\": {\"family\": \"%s\", \"sha256\": \"%s\"},\n"
                 "  \"micro_batch\": %u,\n  \"sequence\": %u,\n"
                 "  \"rounds\": %u,\n  \"layers\": {\n",
                 profile->family, profile->model_hash, profile->micro_batch,
                 profile->sequence, profile->num_rounds);
    add_layers(out, profile->layers);
    pen_text_add_string(out, "  },\n  \"update\": {");
    for (int update = 0; update < PEN_UPDATES; update++) {
        pen_text_add_string(out, update == 0 ? "\n    " : ",\n    ");
        add_measured(out, update_keys[update], &profile->updates[update]);
    }
    pen_text_add_string(out, "\n  }");
    if (profile->link.is_there) {
        pen_text_add_string(out, ",\n  \"link\": {\"latency\": ");
        pen_text_add_real(out, profile->link.latency_sec);
        pen_text_add_string(out, ", \"bandwidth\": ");
        pen_text_add_real(out, profile->link.bytes_per_sec);
        pen_text_add_string(out, "}");
    }
    pen_text_add(out, ",\n  \"program_bytes\": %" PRIu64,
                 profile->program_bytes);
    add_more(out, profile);
    pen_text_add_string(out, "\n}\n");
}

/* ---- reading ---- */

/* The key must exist, and so must the key with "_spread" added. */
static pen_status read_measured(const struct pen_json *json, const char *key,
                                struct pen_measured *out, struct pen_text *why)
{
    char keys[64];
    char spread[32];
    snprintf(spread, sizeof spread, "%s_spread", key);
    snprintf(keys, sizeof keys, "%s %s", key, spread);
    const struct pen_json_number numbers[] = {
        {key, &out->median_sec, 0, PEN_PROFILE_MAX_SECONDS},
        {spread, &out->spread_sec, 0, PEN_PROFILE_MAX_SECONDS}};
    pen_status status = pen_json_require_keys(json, keys, why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(json, numbers, COUNT_OF(numbers), why);
    return status;
}

static pen_status read_bytes(const struct pen_json *json, const char *key,
                             uint64_t *out, struct pen_text *why)
{
    return pen_json_read_count(json, key, 0, PEN_PROFILE_MAX_BYTES, out, why);
}

/* Files of older versions do not have it: 0. */
static pen_status read_later(const struct pen_json *json, const char *key,
                             uint64_t *out, struct pen_text *why)
{
    return pen_json_has(json, key) ? read_bytes(json, key, out, why) : PEN_OK;
}

static pen_status read_mode(const struct pen_json *layer, const char *name,
                            struct pen_profile_mode *out, struct pen_text *why)
{
    struct pen_json json;
    if (!pen_json_has(layer, name))
        return PEN_OK;
    pen_status status = pen_json_open(layer, name, &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json,
                                     "f f_spread i i_spread w w_spread b "
                                     "b_spread stash_bytes hold_bytes "
                                     "scratch_bytes",
                                     why);
    for (int pass = 0; status == PEN_OK && pass < PEN_PASSES; pass++)
        status = read_measured(&json, pass_keys[pass], &out->passes[pass], why);
    if (status == PEN_OK)
        status = read_bytes(&json, "stash_bytes", &out->stash_bytes, why);
    if (status == PEN_OK)
        status = read_bytes(&json, "hold_bytes", &out->hold_bytes, why);
    if (status == PEN_OK)
        status = read_later(&json, "scratch_bytes", &out->scratch_bytes, why);
    out->is_there = true;
    return status;
}

static pen_status read_layer(const struct pen_json *layers, const char *name,
                             struct pen_profile_layer *out,
                             struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(layers, name, &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json,
                                     "parameters parameter_bytes output_bytes "
                                     "engine_bytes passing_bytes largest none "
                                     "selective full",
                                     why);
    if (status == PEN_OK)
        status = read_bytes(&json, "parameters", &out->num_parameters, why);
    if (status == PEN_OK)
        status =
            read_bytes(&json, "parameter_bytes", &out->parameter_bytes, why);
    if (status == PEN_OK)
        status = read_bytes(&json, "output_bytes", &out->output_bytes, why);
    if (status == PEN_OK)
        status = read_later(&json, "engine_bytes", &out->engine_bytes, why);
    if (status == PEN_OK)
        status = read_later(&json, "passing_bytes", &out->passing_bytes, why);
    if (status == PEN_OK)
        status = read_later(&json, "largest", &out->largest, why);
    for (int mode = 0; status == PEN_OK && mode < PEN_RECOMPUTES; mode++)
        status =
            read_mode(&json, pen_recompute_names[mode], &out->modes[mode], why);
    return status;
}

static pen_status read_layers(const struct pen_json *parent,
                              struct pen_profile_layer *out,
                              struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(parent, "layers", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "embedding block head", why);
    for (int kind = 0; status == PEN_OK && kind < PEN_LAYER_KINDS; kind++)
        status =
            read_layer(&json, pen_layer_kind_name((enum pen_layer_kind)kind),
                       &out[kind], why);
    return status;
}

static pen_status read_size(const json_t *list, uint32_t index,
                            struct pen_profile_size *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open_entry(list, "more", index, &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "micro_batch layers", why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&json, "micro_batch", 1,
                                       PEN_PROFILE_MAX_COUNT, &out->micro_batch,
                                       why);
    return status == PEN_OK ? read_layers(&json, out->layers, why) : status;
}

static pen_status read_more(const struct pen_json *file,
                            struct pen_profile *out, struct pen_text *why)
{
    const json_t *list = json_object_get(file->object, "more");
    if (list == NULL)
        return PEN_OK;
    if (!json_is_array(list) || json_array_size(list) > PEN_PROFILE_MORE) {
        pen_why(why, "more must be a list of at most %u sizes",
                PEN_PROFILE_MORE);
        return PEN_INVALID;
    }
    pen_status status = PEN_OK;
    out->num_more = (uint32_t)json_array_size(list);
    for (uint32_t i = 0; status == PEN_OK && i < out->num_more; i++)
        status = read_size(list, i, &out->more[i], why);
    return status;
}

static pen_status read_machine(const struct pen_json *file,
                               struct pen_profile *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "machine", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "cpu cores memory_bytes", why);
    if (status == PEN_OK)
        status =
            pen_json_read_word(&json, "cpu", out->cpu, sizeof out->cpu, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&json, "cores", 1, PEN_PROFILE_MAX_COUNT,
                                       &out->num_cores, why);
    if (status == PEN_OK)
        status = read_bytes(&json, "memory_bytes", &out->memory_bytes, why);
    return status;
}

static pen_status read_engine(const struct pen_json *file,
                              struct pen_profile *out, struct pen_text *why)
{
    struct pen_json json;
    unsigned precision = 0;
    pen_status status = pen_json_open(file, "engine", &json, why);
    if (status == PEN_OK)
        status =
            pen_json_check_keys(&json, "name library dtype threads ranks", why);
    if (status == PEN_OK)
        status = pen_json_read_word(&json, "name", out->engine,
                                    sizeof out->engine, why);
    if (status == PEN_OK)
        status = pen_json_read_word(&json, "library", out->library,
                                    sizeof out->library, why);
    if (status == PEN_OK)
        status =
            pen_json_read_choice(&json, "dtype", precisions, &precision, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(
            &json, "threads", 1, PEN_PROFILE_MAX_COUNT, &out->num_threads, why);
    if (status == PEN_OK)
        status = pen_json_read_integer(&json, "ranks", 1, PEN_PROFILE_MAX_COUNT,
                                       &out->num_ranks, why);
    out->is_bf16 = precision == 1;
    return status;
}

static pen_status read_model(const struct pen_json *file,
                             struct pen_profile *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "model", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "family sha256", why);
    if (status == PEN_OK)
        status = pen_json_read_word(&json, "family", out->family,
                                    sizeof out->family, why);
    if (status == PEN_OK)
        status = pen_json_read_hash(&json, "sha256", out->model_hash, why);
    return status;
}

static pen_status read_updates(const struct pen_json *file,
                               struct pen_profile *out, struct pen_text *why)
{
    struct pen_json json;
    pen_status status = pen_json_open(file, "update", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json,
                                     "clear clear_spread norm norm_spread adam "
                                     "adam_spread sgd sgd_spread add "
                                     "add_spread",
                                     why);
    for (int update = 0; status == PEN_OK && update < PEN_UPDATES; update++)
        if (update != PEN_UPDATE_ADD || pen_json_has(&json, "add"))
            status = read_measured(&json, update_keys[update],
                                   &out->updates[update], why);
    return status;
}

static pen_status read_link(const struct pen_json *file,
                            struct pen_profile_link *out, struct pen_text *why)
{
    struct pen_json json;
    const struct pen_json_number numbers[] = {
        {"latency", &out->latency_sec, 0, PEN_PROFILE_MAX_SECONDS},
        {"bandwidth", &out->bytes_per_sec, 1, (double)PEN_PROFILE_MAX_BYTES}};
    if (!pen_json_has(file, "link"))
        return PEN_OK;
    pen_status status = pen_json_open(file, "link", &json, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(&json, "latency bandwidth", why);
    if (status == PEN_OK)
        status = pen_json_require_keys(&json, "latency bandwidth", why);
    if (status == PEN_OK)
        status = pen_json_read_numbers(&json, numbers, COUNT_OF(numbers), why);
    out->is_there = true;
    return status;
}

static pen_status read_counts(const struct pen_json *file,
                              struct pen_profile *out, struct pen_text *why)
{
    const struct {
        const char *key;
        uint32_t *count;
    } counts[] = {{"micro_batch", &out->micro_batch},
                  {"sequence", &out->sequence},
                  {"rounds", &out->num_rounds}};
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < COUNT_OF(counts); i++)
        status =
            pen_json_read_integer(file, counts[i].key, 1, PEN_PROFILE_MAX_COUNT,
                                  counts[i].count, why);
    return status;
}

static pen_status read_file(const struct pen_json *file,
                            struct pen_profile *out, struct pen_text *why)
{
    pen_status status = pen_json_check_format(file, FORMAT, VERSION, why);
    if (status == PEN_OK)
        status = pen_json_check_keys(
            file,
            "format version machine engine model micro_batch sequence rounds "
            "layers update link program_bytes more",
            why);
    if (status == PEN_OK)
        status = read_machine(file, out, why);
    if (status == PEN_OK)
        status = read_engine(file, out, why);
    if (status == PEN_OK)
        status = read_model(file, out, why);
    if (status == PEN_OK)
        status = read_counts(file, out, why);
    if (status == PEN_OK)
        status = read_layers(file, out->layers, why);
    if (status == PEN_OK)
        status = read_updates(file, out, why);
    if (status == PEN_OK)
        status = read_link(file, &out->link, why);
    if (status == PEN_OK)
        status = read_later(file, "program_bytes", &out->program_bytes, why);
    if (status == PEN_OK)
        status = read_more(file, out, why);
    if (status == PEN_OK)
        status = pen_profile_check(out, why);
    return status;
}

pen_status pen_profile_parse(const char *text, size_t length,
                             struct pen_profile **out, struct pen_text *why)
{
    struct pen_json file;
    pen_status status = pen_json_load(text, length, &file, why);
    if (status != PEN_OK)
        return status;
    struct pen_profile *profile = calloc(1, sizeof *profile);
    if (profile == NULL) {
        pen_why(why, "no memory for a profile");
        status = PEN_NOMEM;
    } else {
        status = read_file(&file, profile, why);
    }
    json_decref(file.object);
    if (status == PEN_OK)
        *out = profile;
    else
        pen_profile_free(profile);
    return status;
}
