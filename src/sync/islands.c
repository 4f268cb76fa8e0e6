#include "sync/islands.h"

#include "base/bug.h"
#include "sync/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FRAGMENTS = 32, MOST_MOMENTS = 2 };

struct fragment {
    size_t first_tensor;
    size_t num_tensors;
    size_t first;
    size_t count;
    void *code; /* of the compressor; NULL: none */
    size_t most_coded;
};

struct pen_islands {
    struct pen_islands_model model;
    struct pen_sync_tensor *tensors;
    struct pen_group nobody; /* for a compressor, which wants a number */
    const struct pen_compressor *compressor;
    struct fragment fragments[MOST_FRAGMENTS];
    uint32_t num_fragments;
    float *merged;
};

/* ---- questions to the method ---- */

static const struct pen_sync_islands *
rules_of(const struct pen_sync_choice *choice)
{
    return choice->method->islands;
}

static uint32_t fragments_of(const struct pen_sync_choice *choice)
{
    const struct pen_sync_islands *rules = rules_of(choice);
    return rules->num_fragments == NULL
               ? 1
               : rules->num_fragments(&choice->options);
}

static const struct pen_compressor *
compressor_of(const struct pen_sync_choice *choice)
{
    const struct pen_compressor *own = rules_of(choice)->compressor;
    return own != NULL ? own : choice->compressor;
}

static uint32_t moment_rounds(const struct pen_sync_choice *choice, int which)
{
    const struct pen_sync_islands *rules = rules_of(choice);
    return rules->moment_rounds == NULL
               ? 0
               : rules->moment_rounds(&choice->options, choice->interval,
                                      which);
}

uint32_t pen_islands_steps(const struct pen_sync_choice *choice)
{
    return choice->interval / fragments_of(choice);
}

uint32_t pen_islands_delay(const struct pen_sync_choice *choice)
{
    const struct pen_sync_islands *rules = rules_of(choice);
    return rules->delay == NULL ? 0 : rules->delay(&choice->options);
}

bool pen_islands_shares_moment(const struct pen_sync_choice *choice, int which,
                               uint64_t round)
{
    uint32_t rounds = moment_rounds(choice, which);
    return rounds > 0 && round > 0 && round % rounds == 0;
}

uint32_t pen_islands_fragment(const struct pen_sync_choice *choice,
                              uint64_t round)
{
    return (uint32_t)(round % fragments_of(choice));
}

/* A tensor is in the fragment that has its middle, as in sync/outer.c. */
uint32_t pen_islands_fragment_of(const struct pen_islands_model *model,
                                 const struct pen_sync_tensor *tensor)
{
    size_t middle = tensor->first + tensor->count / 2;
    return (uint32_t)(middle * fragments_of(model->choice) / model->count);
}

static void add_methods(struct pen_text *out)
{
    for (size_t i = 0, told = 0; i < pen_sync_num_methods(); i++)
        if (pen_sync_method_at(i)->islands != NULL)
            pen_text_add(out, "%s%s", told++ > 0 ? ", " : "",
                         pen_sync_method_at(i)->name);
}

static void add_compressors(struct pen_text *out)
{
    for (size_t i = 0, told = 0; i < pen_sync_num_compressors(); i++)
        if (pen_sync_compressor_at(i)->add != NULL)
            pen_text_add(out, "%s%s", told++ > 0 ? ", " : "",
                         pen_sync_compressor_at(i)->name);
}

/*
 * Refuses to fold late contributions of fragments or compressors: late changes
 * are added up as they are, so they must be whole.
 */
static const char *refuse_to_fold(const struct pen_sync_choice *choice)
{
    if (compressor_of(choice) != NULL)
        return "--late fold needs changes that are sent whole: drop the "
               "compressor, or use --late discard";
    return rules_of(choice)->delay != NULL
               ? "--late fold needs rounds of all weights: use --late discard"
               : NULL;
}

bool pen_islands_gives_changes(const struct pen_sync_choice *choice,
                               bool is_folding)
{
    return is_folding || compressor_of(choice) != NULL;
}

pen_status pen_islands_check(const struct pen_sync_choice *choice,
                             bool is_folding, struct pen_text *why)
{
    const struct pen_sync_islands *rules = rules_of(choice);
    const char *refused =
        rules == NULL || rules->refuse == NULL
            ? NULL
            : rules->refuse(&choice->options, choice->interval);
    struct pen_text names = PEN_TEXT_EMPTY;
    if (rules != NULL && refused == NULL && is_folding)
        refused = refuse_to_fold(choice);
    if (rules != NULL && refused == NULL &&
        (choice->compressor == NULL || choice->compressor->add != NULL))
        return PEN_OK;
    if (rules == NULL) {
        add_methods(&names);
        pen_why(why,
                "--sync %s does not run between islands; of --ring there "
                "are: %s",
                choice->method->name, pen_text_string(&names));
    } else if (refused != NULL) {
        pen_why(why, "--sync %s with --ring: %s", choice->method->name,
                refused);
    } else {
        add_compressors(&names);
        pen_why(why,
                "--compress %s does not run between islands; of --ring there "
                "are: %s",
                choice->compressor->name, pen_text_string(&names));
    }
    pen_text_release(&names);
    return PEN_INVALID;
}

/* ---- making ---- */

static void cut(struct pen_islands *islands)
{
    islands->num_fragments = fragments_of(islands->model.choice);
    for (size_t i = 0; i < islands->model.num_tensors; i++) {
        const struct pen_sync_tensor *tensor = &islands->tensors[i];
        struct fragment *it =
            &islands
                 ->fragments[pen_islands_fragment_of(&islands->model, tensor)];
        if (it->num_tensors == 0) {
            it->first_tensor = i;
            it->first = tensor->first;
        }
        it->num_tensors++;
        it->count += tensor->count;
    }
}

/* Compressors of a fragment know of its tensors alone. */
static pen_status make_code(struct pen_islands *islands, struct fragment *it,
                            struct pen_text *why)
{
    const struct pen_sync_choice *choice = islands->model.choice;
    struct pen_compression of = {.peers = &islands->nobody,
                                 .tensors = islands->tensors + it->first_tensor,
                                 .num_tensors = it->num_tensors,
                                 .first_tensor = it->first_tensor,
                                 .base = it->first,
                                 .count = it->count,
                                 .seed = islands->model.seed,
                                 .epoch_steps = islands->model.epoch_steps,
                                 .options = rules_of(choice)->compressor != NULL
                                                ? choice->options
                                                : choice->compressor_options};
    size_t sum;
    if (it->num_tensors == 0)
        return PEN_OK;
    islands->compressor->sizes(&of, &sum, &it->most_coded);
    return islands->compressor->create(&of, &it->code, why);
}

pen_status pen_islands_create(const struct pen_islands_model *model,
                              struct pen_islands **out, struct pen_text *why)
{
    struct pen_islands *islands = calloc(1, sizeof *islands);
    if (islands == NULL)
        return PEN_NOMEM;
    islands->model = *model;
    islands->nobody = (struct pen_group){.size = 1};
    islands->compressor = compressor_of(model->choice);
    islands->tensors = calloc(model->num_tensors + 1, sizeof *islands->tensors);
    islands->merged = calloc(model->count + 1, sizeof *islands->merged);
    pen_status status = PEN_NOMEM;
    if (islands->tensors != NULL && islands->merged != NULL) {
        memcpy(islands->tensors, model->tensors,
               model->num_tensors * sizeof *islands->tensors);
        islands->model.tensors = islands->tensors;
        cut(islands);
        status = PEN_OK;
    }
    for (uint32_t i = 0; i < islands->num_fragments && status == PEN_OK &&
                         islands->compressor != NULL;
         i++)
        status = make_code(islands, &islands->fragments[i], why);
    if (status == PEN_OK)
        *out = islands;
    else
        pen_islands_free(islands);
    return status;
}

void pen_islands_free(struct pen_islands *islands)
{
    if (islands == NULL)
        return;
    for (uint32_t i = 0; i < islands->num_fragments; i++)
        if (islands->fragments[i].code != NULL)
            islands->compressor->free(islands->fragments[i].code);
    free(islands->tensors);
    free(islands->merged);
    free(islands);
}

size_t pen_islands_bytes(const struct pen_islands *islands)
{
    size_t bytes = islands->model.count * sizeof(float);
    for (uint32_t i = 0; i < islands->num_fragments; i++)
        if (islands->fragments[i].code != NULL)
            bytes += islands->compressor->bytes(islands->fragments[i].code);
    return bytes;
}

/* ---- sizes ---- */

static uint32_t shared_moments(const struct pen_islands *islands)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < islands->model.num_moments; i++)
        count += moment_rounds(islands->model.choice, (int)i) > 0;
    return count;
}

size_t pen_islands_state(const struct pen_islands *islands)
{
    return islands->model.count *
           (rules_of(islands->model.choice)->num_vectors +
            shared_moments(islands));
}

size_t pen_islands_shared(const struct pen_islands *islands)
{
    return islands->model.count * (1 + shared_moments(islands));
}

size_t pen_islands_moment(const struct pen_islands *islands, int which)
{
    const struct pen_sync_choice *choice = islands->model.choice;
    uint32_t before = which > 0 && moment_rounds(choice, 0) > 0;
    return which < (int)islands->model.num_moments &&
                   moment_rounds(choice, which) > 0
               ? islands->model.count * (1 + before)
               : 0;
}

/* Returns whether a round has the moment whose mean a state keeps. */
static bool has_moment(const struct pen_islands *islands, int which,
                       uint64_t round)
{
    return pen_islands_moment(islands, which) > 0 &&
           pen_islands_shares_moment(islands->model.choice, which, round);
}

/*
 * Returns the step of a round's contribution, for an island that takes part in
 * all rounds.
 */
static uint64_t step_of(const struct pen_islands *islands, uint64_t round)
{
    const struct pen_sync_choice *choice = islands->model.choice;
    return round * pen_islands_steps(choice) - pen_islands_delay(choice);
}

static const struct fragment *fragment_of(const struct pen_islands *islands,
                                          uint64_t round)
{
    return &islands
                ->fragments[pen_islands_fragment(islands->model.choice, round)];
}

/*
 * Returns the bytes of a code in front of a contribution, up to a multiple of a
 * float.
 */
static size_t coded_bytes(const struct pen_islands *islands, uint64_t round)
{
    const struct fragment *it = fragment_of(islands, round);
    size_t length = it->count * sizeof(float);
    if (it->code != NULL)
        length = islands->compressor->sent(it->code, step_of(islands, round));
    return (length + 3) / 4 * 4;
}

size_t pen_islands_length(const struct pen_islands *islands, uint64_t round)
{
    size_t length = coded_bytes(islands, round);
    for (int which = 0; which < MOST_MOMENTS; which++)
        if (has_moment(islands, which, round))
            length += islands->model.count * sizeof(float);
    return length;
}

size_t pen_islands_most(const struct pen_islands *islands)
{
    size_t most = 0;
    for (uint32_t i = 0; i < islands->num_fragments; i++) {
        const struct fragment *it = &islands->fragments[i];
        size_t length =
            it->code != NULL ? it->most_coded : it->count * sizeof(float);
        most = length > most ? length : most;
    }
    return (most + 3) / 4 * 4 +
           shared_moments(islands) * islands->model.count * sizeof(float);
}

/* ---- a contribution ---- */

void pen_islands_write(struct pen_islands *islands, uint64_t round,
                       float *given, void *out)
{
    const struct fragment *it = fragment_of(islands, round);
    size_t count = islands->model.count, length = it->count * sizeof(float);
    const void *from = given + it->first;
    struct pen_round code;
    char *at = out;
    if (it->code != NULL) {
        islands->compressor->encode(it->code, 0, step_of(islands, round),
                                    given + it->first, &code);
        from = code.bytes;
        length = code.length;
    }
    size_t room = coded_bytes(islands, round);
    PEN_BUG_UNLESS(length <= room);
    memset(at, 0, room);
    memcpy(at, from, length);
    at += room;
    for (int which = 0; which < MOST_MOMENTS; which++)
        if (has_moment(islands, which, round)) {
            memcpy(at, given + pen_islands_moment(islands, which),
                   count * sizeof *given);
            at += count * sizeof *given;
        }
}

void pen_islands_states(struct pen_islands *islands,
                        struct pen_sync_states *out)
{
    for (uint32_t i = 0; i < islands->num_fragments; i++)
        if (islands->fragments[i].code != NULL &&
            islands->compressor->states != NULL)
            islands->compressor->states(islands->fragments[i].code, out);
}

/* ---- the next state ---- */

static void merge_floats(const struct pen_islands_contribution *given,
                         uint32_t num_given, size_t offset, size_t count,
                         float *out)
{
    struct pen_contribution list[64];
    PEN_BUG_UNLESS(num_given <= sizeof list / sizeof *list);
    for (uint32_t i = 0; i < num_given; i++)
        list[i] = (struct pen_contribution){
            .replica = given[i].island,
            .weight = given[i].tokens,
            .values =
                (const float *)(const void *)((const char *)given[i].bytes +
                                              offset)};
    pen_merge(list, num_given, count, out);
}

/* Adds codes in the order of islands, as a compressor adds those of members. */
static bool merge_codes(struct pen_islands *islands, uint64_t round,
                        const struct pen_islands_contribution *given,
                        uint32_t num_given, float *out)
{
    const struct fragment *it = fragment_of(islands, round);
    double most = 0, sum = 0;
    for (uint32_t i = 0; i < num_given; i++)
        most = fmax(most, given[i].tokens);
    for (uint32_t i = 0; i < num_given; i++)
        sum += given[i].tokens / most;
    float share = 1.0f / (float)sum;
    memset(out, 0, it->count * sizeof *out);
    for (uint32_t i = 0; i < num_given; i++)
        if (!islands->compressor->add(
                it->code, step_of(islands, round), given[i].bytes,
                share * (float)(given[i].tokens / most), out))
            return false;
    return true;
}

static int by_island(const void *a, const void *b)
{
    const struct pen_islands_contribution *x = a, *y = b;
    return (x->island > y->island) - (x->island < y->island);
}

pen_status pen_islands_take(struct pen_islands *islands, uint64_t round,
                            struct pen_islands_contribution *given,
                            uint32_t num_given, float *state)
{
    const struct pen_sync_choice *choice = islands->model.choice;
    const struct pen_sync_islands *rules = rules_of(choice);
    const struct fragment *it = fragment_of(islands, round);
    size_t all = islands->model.count, at = coded_bytes(islands, round);
    float *vectors[8] = {state + it->first};
    for (uint32_t i = 0; i < num_given; i++)
        if (given[i].length != pen_islands_length(islands, round) ||
            given[i].tokens <= 0)
            return PEN_INVALID;
    qsort(given, num_given, sizeof *given, by_island);
    if (it->code == NULL)
        merge_floats(given, num_given, 0, it->count, islands->merged);
    else if (!merge_codes(islands, round, given, num_given, islands->merged))
        return PEN_INVALID;
    for (uint32_t i = 1; i < rules->num_vectors; i++)
        vectors[i] = state + (shared_moments(islands) + i) * all + it->first;
    rules->take(&choice->options,
                pen_islands_gives_changes(choice, islands->model.is_folding),
                islands->merged, it->count, vectors);
    for (int which = 0; which < MOST_MOMENTS; which++)
        if (has_moment(islands, which, round)) {
            merge_floats(given, num_given, at, all,
                         state + pen_islands_moment(islands, which));
            at += all * sizeof *state;
        }
    return PEN_OK;
}
