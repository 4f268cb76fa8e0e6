/* Profiles as a noun: names, checks, files. The text is profile_text.c. */
#include "core/profile.h"

#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)1 << 20)

const char *pen_layer_kind_name(enum pen_layer_kind kind)
{
    static const char *const names[] = {[PEN_LAYER_EMBEDDING] = "embedding",
                                        [PEN_LAYER_BLOCK] = "block",
                                        [PEN_LAYER_HEAD] = "head"};
    return names[kind];
}

void pen_profile_free(struct pen_profile *profile)
{
    free(profile);
}

static pen_status parse_file(void *out, const char *bytes, size_t length,
                             struct pen_text *why)
{
    return pen_profile_parse(bytes, length, out, why);
}

pen_status pen_profile_load(const char *path, struct pen_profile **out,
                            struct pen_text *why)
{
    return pen_file_parse(path, MAX_FILE_BYTES, parse_file, out, why);
}

pen_status pen_profile_save(const struct pen_profile *profile, const char *path,
                            struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_status status = pen_profile_check(profile, why);
    if (status != PEN_OK)
        return status;
    pen_profile_print(profile, &text);
    status = pen_file_write_text(path, &text, why);
    pen_text_release(&text);
    return status;
}

/* ---- the check ---- */

static bool is_measured(const struct pen_measured *measured)
{
    return measured->median_sec >= 0 &&
           measured->median_sec <= PEN_PROFILE_MAX_SECONDS &&
           measured->spread_sec >= 0 &&
           measured->spread_sec <= PEN_PROFILE_MAX_SECONDS;
}

static bool is_mode(const struct pen_profile_mode *mode)
{
    bool is_right = mode->stash_bytes <= PEN_PROFILE_MAX_BYTES &&
                    mode->hold_bytes <= PEN_PROFILE_MAX_BYTES &&
                    mode->scratch_bytes <= PEN_PROFILE_MAX_BYTES;
    for (int pass = 0; pass < PEN_PASSES; pass++)
        is_right = is_right && is_measured(&mode->passes[pass]);
    return is_right;
}

/* Checks that all layers have the same modes, at least one. */
static bool has_modes_of(const struct pen_profile_layer *layer,
                         const struct pen_profile_layer *first)
{
    bool has_any = false;
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        if (layer->modes[mode].is_there != first->modes[mode].is_there)
            return false;
        has_any = has_any || layer->modes[mode].is_there;
    }
    return has_any;
}

static bool has_sizes(const struct pen_profile_layer *layer)
{
    return layer->num_parameters <= PEN_PROFILE_MAX_BYTES &&
           layer->parameter_bytes <= PEN_PROFILE_MAX_BYTES &&
           layer->engine_bytes <= layer->parameter_bytes &&
           layer->passing_bytes <= PEN_PROFILE_MAX_BYTES &&
           layer->largest <= layer->num_parameters &&
           layer->output_bytes <= PEN_PROFILE_MAX_BYTES;
}

static pen_status check_layer(const struct pen_profile *profile,
                              const struct pen_profile_layer *layers,
                              enum pen_layer_kind kind, struct pen_text *why)
{
    const struct pen_profile_layer *layer = &layers[kind];
    const char *name = pen_layer_kind_name(kind);
    if (!has_modes_of(layer, &profile->layers[0])) {
        pen_why(why,
                "layers.%s must have \"none\", \"selective\" or \"full\", the "
                "same as the other layers",
                name);
        return PEN_INVALID;
    }
    bool is_right = has_sizes(layer);
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        is_right = is_right && is_mode(&layer->modes[mode]);
    if (is_right)
        return PEN_OK;
    pen_why(why, "layers.%s has a number out of range", name);
    return PEN_INVALID;
}

static bool is_count(uint32_t count)
{
    return count >= 1 && count <= PEN_PROFILE_MAX_COUNT;
}

static pen_status check_head(const struct pen_profile *profile,
                             struct pen_text *why)
{
    bool has_words = pen_json_is_word(profile->cpu, sizeof profile->cpu) &&
                     pen_json_is_word(profile->engine, sizeof profile->engine);
    has_words = has_words &&
                pen_json_is_word(profile->library, sizeof profile->library) &&
                pen_json_is_word(profile->family, sizeof profile->family);
    if (!has_words || !pen_hash_is_valid(profile->model_hash)) {
        pen_why(why, "the profile must name machine, engine, library and model "
                     "in plain ASCII");
        return PEN_INVALID;
    }
    if (is_count(profile->num_cores) && is_count(profile->num_threads) &&
        is_count(profile->num_ranks) && is_count(profile->micro_batch) &&
        is_count(profile->sequence) && is_count(profile->num_rounds) &&
        profile->memory_bytes <= PEN_PROFILE_MAX_BYTES)
        return PEN_OK;
    pen_why(why,
            "cores, threads, ranks, micro_batch, sequence and rounds must be "
            "from 1 to %u",
            PEN_PROFILE_MAX_COUNT);
    return PEN_INVALID;
}

static pen_status check_layers(const struct pen_profile *profile,
                               const struct pen_profile_layer *layers,
                               struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (int kind = 0; status == PEN_OK && kind < PEN_LAYER_KINDS; kind++)
        status = check_layer(profile, layers, (enum pen_layer_kind)kind, why);
    return status;
}

static pen_status check_more(const struct pen_profile *profile,
                             struct pen_text *why)
{
    uint32_t before = profile->micro_batch;
    pen_status status = PEN_OK;
    if (profile->num_more > PEN_PROFILE_MORE) {
        pen_why(why, "more has %u micro-batch sizes; the limit is %u",
                profile->num_more, PEN_PROFILE_MORE);
        return PEN_INVALID;
    }
    for (uint32_t i = 0; status == PEN_OK && i < profile->num_more; i++) {
        const struct pen_profile_size *size = &profile->more[i];
        if (!is_count(size->micro_batch) || size->micro_batch <= before) {
            pen_why(why, "more[%u].micro_batch must be larger than %u", i,
                    before);
            return PEN_INVALID;
        }
        before = size->micro_batch;
        status = check_layers(profile, size->layers, why);
    }
    return status;
}

pen_status pen_profile_check(const struct pen_profile *profile,
                             struct pen_text *why)
{
    pen_status status = check_head(profile, why);
    if (status == PEN_OK)
        status = check_layers(profile, profile->layers, why);
    if (status == PEN_OK)
        status = check_more(profile, why);
    if (status != PEN_OK)
        return status;
    bool is_right = profile->program_bytes <= PEN_PROFILE_MAX_BYTES;
    for (int update = 0; update < PEN_UPDATES; update++)
        is_right = is_right && is_measured(&profile->updates[update]);
    const struct pen_profile_link *link = &profile->link;
    if (link->is_there)
        is_right = is_right && link->latency_sec >= 0 &&
                   link->latency_sec <= PEN_PROFILE_MAX_SECONDS &&
                   link->bytes_per_sec >= 1 &&
                   link->bytes_per_sec <= (double)PEN_PROFILE_MAX_BYTES;
    if (is_right)
        return PEN_OK;
    pen_why(why, "update, link or program has a number out of range");
    return PEN_INVALID;
}

/* ---- what it is for ---- */

pen_status pen_profile_hash_model(const struct pen_model *model,
                                  char out[PEN_HASH_SIZE], struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_model_print(model, &text);
    pen_status status = PEN_NOMEM;
    if (text.has_failed)
        pen_why(why, "no memory for the text of a model");
    else
        status = pen_hash_bytes(text.bytes, text.length, out, why);
    pen_text_release(&text);
    return status;
}

static uint32_t largest_size(const struct pen_profile *profile)
{
    return profile->num_more == 0
               ? profile->micro_batch
               : profile->more[profile->num_more - 1].micro_batch;
}

static bool reaches(const struct pen_profile *profile, uint32_t micro_batch)
{
    return micro_batch >= profile->micro_batch &&
           micro_batch <= largest_size(profile);
}

static pen_status refuse_size(const struct pen_profile *profile,
                              uint32_t micro_batch, uint32_t sequence,
                              struct pen_text *why)
{
    if (profile->num_more == 0)
        pen_why(why,
                "the profile is for micro-batches of %u sequences of %u "
                "tokens, not for %u of %u; measure it again",
                profile->micro_batch, profile->sequence, micro_batch, sequence);
    else
        pen_why(why,
                "the profile is for micro-batches of %u to %u sequences of %u "
                "tokens, not for %u of %u; measure it again",
                profile->micro_batch, largest_size(profile), profile->sequence,
                micro_batch, sequence);
    return PEN_INVALID;
}

static double blend(double low, double high, double at)
{
    double found = low + (high - low) * at;
    return found > 0 ? found : 0;
}

static uint64_t blend_bytes(uint64_t low, uint64_t high, double at)
{
    return (uint64_t)(blend((double)low, (double)high, at) + 0.5);
}

static void blend_mode(const struct pen_profile_mode *low,
                       const struct pen_profile_mode *high, double at,
                       struct pen_profile_mode *out)
{
    out->is_there = low->is_there;
    for (int pass = 0; pass < PEN_PASSES; pass++)
        out->passes[pass] =
            (struct pen_measured){blend(low->passes[pass].median_sec,
                                        high->passes[pass].median_sec, at),
                                  blend(low->passes[pass].spread_sec,
                                        high->passes[pass].spread_sec, at)};
    out->stash_bytes = blend_bytes(low->stash_bytes, high->stash_bytes, at);
    out->hold_bytes = blend_bytes(low->hold_bytes, high->hold_bytes, at);
    out->scratch_bytes =
        blend_bytes(low->scratch_bytes, high->scratch_bytes, at);
}

static void blend_layer(const struct pen_profile_layer *low,
                        const struct pen_profile_layer *high, double at,
                        struct pen_profile_layer *out)
{
    *out = *low;
    out->parameter_bytes =
        blend_bytes(low->parameter_bytes, high->parameter_bytes, at);
    out->engine_bytes = blend_bytes(low->engine_bytes, high->engine_bytes, at);
    out->passing_bytes = high->passing_bytes; /* it goes up in steps */
    out->output_bytes = blend_bytes(low->output_bytes, high->output_bytes, at);
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        blend_mode(&low->modes[mode], &high->modes[mode], at,
                   &out->modes[mode]);
}

pen_status pen_profile_at(const struct pen_profile *profile,
                          uint32_t micro_batch, struct pen_profile *out,
                          struct pen_text *why)
{
    if (!reaches(profile, micro_batch))
        return refuse_size(profile, micro_batch, profile->sequence, why);
    uint32_t upper = 0; /* of more; the size below it is the lower one */
    while (upper + 1 < profile->num_more &&
           profile->more[upper].micro_batch < micro_batch)
        upper++;
    struct pen_profile found = *profile;
    found.micro_batch = micro_batch;
    found.num_more = 0;
    if (micro_batch > profile->micro_batch) {
        const struct pen_profile_size *high = &profile->more[upper];
        const struct pen_profile_layer *low =
            upper == 0 ? profile->layers : profile->more[upper - 1].layers;
        uint32_t from = upper == 0 ? profile->micro_batch
                                   : profile->more[upper - 1].micro_batch;
        double at =
            (double)(micro_batch - from) / (double)(high->micro_batch - from);
        for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
            blend_layer(&low[kind], &high->layers[kind], at,
                        &found.layers[kind]);
    }
    *out = found;
    return PEN_OK;
}

pen_status pen_profile_fits(const struct pen_profile *profile,
                            const struct pen_profile_use *use,
                            struct pen_text *why)
{
    char hash[PEN_HASH_SIZE];
    pen_status status = pen_profile_hash_model(use->model, hash, why);
    if (status != PEN_OK)
        return status;
    if (strcmp(hash, profile->model_hash) != 0) {
        pen_why(why,
                "the profile is for another model (a %s); measure it again",
                profile->family);
        return PEN_INVALID;
    }
    if (!reaches(profile, use->micro_batch) ||
        profile->sequence != use->sequence)
        return refuse_size(profile, use->micro_batch, use->sequence, why);
    if (profile->is_bf16 != use->is_bf16) {
        pen_why(why,
                "the profile was measured in %s; measure it again in the "
                "number format of the training",
                profile->is_bf16 ? "bf16" : "f32");
        return PEN_INVALID;
    }
    return PEN_OK;
}
