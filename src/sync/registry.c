#include "sync/registry.h"

#include <string.h>

#define PEN_METHODS(X)                                                         \
    X(allreduce)                                                               \
    X(zero1)                                                                   \
    X(diloco)                                                                  \
    X(local_sgd)                                                               \
    X(post_local_sgd)                                                          \
    X(des_loc)                                                                 \
    X(easgd)                                                                   \
    X(eamsgd)                                                                  \
    X(lsgd)                                                                    \
    X(entropy_sgd)                                                             \
    X(parle)                                                                   \
    X(parle_code)                                                              \
    X(palsgd)                                                                  \
    X(streaming_diloco)                                                        \
    X(sparse_loco)                                                             \
    X(decoupled_diloco)                                                        \
    X(dc_s3gd)                                                                 \
    X(cyclic_dp)                                                               \
    X(onebit_adam)                                                             \
    X(d_psgd)                                                                  \
    X(sgp)                                                                     \
    X(eventgrad)                                                               \
    X(asgd)                                                                    \
    X(dc_asgd)                                                                 \
    X(ssp)                                                                     \
    X(dssp)                                                                    \
    X(gossip_pull)

#define PEN_COMPRESSORS(X)                                                     \
    X(random_block)                                                            \
    X(sign)                                                                    \
    X(block_int8)                                                              \
    X(block_int4)                                                              \
    X(top_k)                                                                   \
    X(chunk_top_k)                                                             \
    X(dgc)                                                                     \
    X(power_sgd)                                                               \
    X(bf16)

#define DECLARE_METHOD(name)                                                   \
    extern const struct pen_sync_method pen_sync_##name;
PEN_METHODS(DECLARE_METHOD)
#undef DECLARE_METHOD

#define DECLARE_COMPRESSOR(name)                                               \
    extern const struct pen_compressor pen_compressor_##name;
PEN_COMPRESSORS(DECLARE_COMPRESSOR)
#undef DECLARE_COMPRESSOR

static const struct pen_sync_method *const methods[] = {
#define LIST_METHOD(name) &pen_sync_##name,
    PEN_METHODS(LIST_METHOD)
#undef LIST_METHOD
};

static const struct pen_compressor *const compressors[] = {
#define LIST_COMPRESSOR(name) &pen_compressor_##name,
    PEN_COMPRESSORS(LIST_COMPRESSOR)
#undef LIST_COMPRESSOR
};

size_t pen_sync_num_methods(void)
{
    return sizeof methods / sizeof *methods;
}

const struct pen_sync_method *pen_sync_method_at(size_t index)
{
    return methods[index];
}

size_t pen_sync_num_compressors(void)
{
    return sizeof compressors / sizeof *compressors;
}

const struct pen_compressor *pen_sync_compressor_at(size_t index)
{
    return compressors[index];
}

const struct pen_sync_method *pen_sync_find_method(const char *name)
{
    for (size_t i = 0; i < pen_sync_num_methods(); i++)
        if (strcmp(methods[i]->name, name) == 0)
            return methods[i];
    return NULL;
}

static const struct pen_compressor *find_compressor(const char *name,
                                                    size_t length)
{
    for (size_t i = 0; i < pen_sync_num_compressors(); i++)
        if (strlen(compressors[i]->name) == length &&
            memcmp(compressors[i]->name, name, length) == 0)
            return compressors[i];
    return NULL;
}

const struct pen_compressor *pen_sync_find_compressor(const char *name)
{
    return find_compressor(name, strlen(name));
}

/* ---- choosing ---- */

static pen_status refuse_method(const char *name, struct pen_text *why)
{
    pen_why(why, "there is no synchronisation '%s'; expected one of", name);
    for (size_t i = 0; i < pen_sync_num_methods(); i++)
        pen_why(why, "%s %s", i == 0 ? "" : ",", methods[i]->name);
    return PEN_INVALID;
}

static pen_status refuse_compressor(const char *name, struct pen_text *why)
{
    pen_why(why, "there is no compressor '%s'; expected one of", name);
    for (size_t i = 0; i < pen_sync_num_compressors(); i++)
        pen_why(why, "%s %s", i == 0 ? "" : ",", compressors[i]->name);
    return PEN_INVALID;
}

/* Sets an option from "VALUE" (the first alone) or "option=VALUE". */
static pen_status set_compressor_option(struct pen_sync_choice *choice,
                                        const char *text, size_t length,
                                        bool is_first, struct pen_text *why)
{
    const struct pen_compressor *compressor = choice->compressor;
    struct pen_text option = PEN_TEXT_EMPTY;
    if (is_first && memchr(text, '=', length) == NULL &&
        compressor->num_options > 0)
        pen_text_add(&option, "%s=", compressor->options[0].name);
    pen_text_add(&option, "%.*s", (int)length, text);
    pen_status status =
        pen_sync_values_set(&choice->compressor_options, compressor->options,
                            compressor->num_options, compressor->name,
                            pen_text_string(&option), why);
    pen_text_release(&option);
    return status;
}

static pen_status choose_compressor(struct pen_sync_choice *choice,
                                    const char *text, struct pen_text *why)
{
    size_t length = strcspn(text, ":");
    choice->compressor = find_compressor(text, length);
    if (choice->compressor == NULL)
        return refuse_compressor(text, why);
    if ((choice->method->is & PEN_SYNC_COMPRESSES) == 0) {
        pen_why(why, "%s cannot be compressed: leave out --compress %s",
                choice->method->name, text);
        return PEN_INVALID;
    }
    pen_sync_values_init(&choice->compressor_options,
                         choice->compressor->options,
                         choice->compressor->num_options);
    bool is_first = true;
    text += length;
    while (*text != '\0') {
        text++; /* the colon or a comma */
        length = strcspn(text, ",");
        pen_status status =
            set_compressor_option(choice, text, length, is_first, why);
        if (status != PEN_OK)
            return status;
        is_first = false;
        text += length;
    }
    return PEN_OK;
}

pen_status pen_sync_choose(const char *method, uint64_t interval,
                           const char *const *options, size_t num_options,
                           const char *compress, struct pen_sync_choice *out,
                           struct pen_text *why)
{
    struct pen_sync_choice choice = {.method = pen_sync_find_method(method)};
    if (choice.method == NULL)
        return refuse_method(method, why);
    if (interval > UINT32_MAX) {
        pen_why(why, "--sync-interval must be at most %u", UINT32_MAX);
        return PEN_INVALID;
    }
    if (interval > 1 && choice.method->interval == 1) {
        pen_why(why, "%s synchronises at every step: leave out --sync-interval",
                method);
        return PEN_INVALID;
    }
    choice.interval =
        interval == 0 ? choice.method->interval : (uint32_t)interval;
    pen_sync_values_init(&choice.options, choice.method->options,
                         choice.method->num_options);
    pen_status status = PEN_OK;
    for (size_t i = 0; i < num_options && status == PEN_OK; i++)
        status = pen_sync_values_set(&choice.options, choice.method->options,
                                     choice.method->num_options, method,
                                     options[i], why);
    if (status == PEN_OK && compress != NULL)
        status = choose_compressor(&choice, compress, why);
    if (status == PEN_OK)
        *out = choice;
    return status;
}

void pen_sync_choice_cost(const struct pen_sync_choice *choice,
                          const struct pen_sync_case *of,
                          struct pen_sync_cost *out)
{
    struct pen_sync_case with = *of;
    struct pen_mean_cost mean;
    with.interval = choice->interval;
    with.options = choice->compressor_options.at;
    pen_average_cost(choice->compressor, &with, &mean);
    with.options = choice->options.at;
    *out = (struct pen_sync_cost){.interval = choice->interval};
    choice->method->cost(&with, &mean, out);
}
