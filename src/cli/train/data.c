#include "cli/train/data.h"

#include <math.h>
#include <stdlib.h>

/* ---- text ---- */

static bool is_weight(const char *word, double *out)
{
    char *end;
    *out = strtod(word, &end);
    return end != word && *end == '\0' && *out > 0 && isfinite(*out);
}

/*
 * Reads the words of --data-path: one prefix, several, or weights and prefixes
 * in turn. On success free *out.
 */
static pen_status parse_paths(const struct pen__list *words,
                              struct pen_data_path **out, size_t *count,
                              struct pen_text *why)
{
    double weight;
    bool has_weights = words->count > 1 && is_weight(words->words[0], &weight);
    size_t step = has_weights ? 2 : 1;
    struct pen_data_path *paths = calloc(words->count, sizeof *paths);
    if (paths == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i + step <= words->count; i += step) {
        struct pen_data_path *path = &paths[i / step];
        path->path = words->words[i + step - 1];
        if (has_weights && !is_weight(words->words[i], &path->weight)) {
            pen_why(
                why,
                "--data-path begins with a weight, so '%s' must be a weight, "
                "too: give weights and prefixes in turn",
                words->words[i]);
            free(paths);
            return PEN_INVALID;
        }
    }
    if (words->count % step != 0) {
        pen_why(why,
                "--data-path ends with the weight %s; expected a prefix after "
                "it",
                words->words[words->count - 1]);
        free(paths);
        return PEN_INVALID;
    }
    *count = words->count / step;
    *out = paths;
    return PEN_OK;
}

static pen_status open_tokens(const struct pen_model *model,
                              const struct pen__data_wish *wish,
                              struct pen_batches **out, struct pen_text *why)
{
    bool is_validation = wish->is_evaluation && wish->split != NULL;
    struct pen_batches_options options = {
        .sequence = wish->seq_length == 0 ? model->max_positions
                                          : (uint32_t)wish->seq_length,
        .vocab = model->vocab,
        .seed = wish->seed,
        .is_ordered = wish->is_evaluation,
        .part = is_validation ? PEN_SPLIT_VALIDATION : PEN_SPLIT_TRAIN};
    struct pen_data_path *paths = NULL;
    size_t num_paths = 0;
    pen_status status = PEN_OK;
    if (wish->split != NULL)
        status = pen_split_parse(wish->split, options.split, why);
    if (status == PEN_OK)
        status = parse_paths(wish->data_path, &paths, &num_paths, why);
    if (status == PEN_OK)
        status = pen_batches_open(paths, num_paths, &options, out, why);
    free(paths);
    return status;
}

static pen_status open_text(const struct pen_model *model,
                            const struct pen__data_wish *wish,
                            struct pen_batches **out, struct pen_text *why)
{
    return wish->token_ids != NULL
               ? pen_batches_load(wish->token_ids, (uint32_t)wish->seq_length,
                                  model->vocab, out, why)
               : open_tokens(model, wish, out, why);
}

/* ---- images ---- */

static pen_status open_images(const struct pen_image_model *model,
                              const struct pen__data_wish *wish,
                              struct pen_batches **out, struct pen_text *why)
{
    const char *wrong = wish->token_ids != NULL ? "--token-ids"
                        : wish->seq_length > 0  ? "--seq-length"
                                                : NULL;
    if (wrong != NULL) {
        pen_why(why, "%s is for text, but the model is for images", wrong);
        return PEN_INVALID;
    }
    if (wish->data_path->count > 1) {
        pen_why(why, "--data-path takes one folder of images, not %zu",
                wish->data_path->count);
        return PEN_INVALID;
    }
    struct pen_image_batches_options options = {.num_labels = model->num_labels,
                                                .seed = wish->seed,
                                                .is_ordered =
                                                    wish->is_evaluation,
                                                .is_test = wish->is_evaluation};
    return pen_batches_open_images(wish->data_path->words[0], &options, out,
                                   why);
}

pen_status pen__data_open(const struct pen_any_model *model,
                          const struct pen__data_wish *wish,
                          struct pen_batches **out, struct pen_text *why)
{
    return model->images != NULL ? open_images(model->images, wish, out, why)
                                 : open_text(model->decoder, wish, out, why);
}
