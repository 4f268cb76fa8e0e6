#include "supervise/fleet.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_NS INT64_C(10000000000)

void pen_fleet_init(struct pen_fleet *fleet,
                    const struct pen_fleet_options *options)
{
    *fleet = (struct pen_fleet){.options = options};
    pen_asker_init(&fleet->asker, options->command, LIMIT_NS);
}

/* ---- the list ---- */

static const struct pen_sized_plan *largest_plan(const struct pen_fleet *fleet,
                                                 uint32_t num_slots)
{
    const struct pen_sized_plan *best = NULL;
    for (size_t i = 0; i < fleet->options->num_plans; i++) {
        const struct pen_sized_plan *plan = &fleet->options->plans[i];
        if (plan->num_ranks <= num_slots &&
            (best == NULL || plan->num_ranks > best->num_ranks))
            best = plan;
    }
    return best;
}

uint32_t pen_fleet_size(const struct pen_fleet *fleet)
{
    uint32_t num_slots = pen_nodes_slots(&fleet->nodes);
    if (fleet->options->num_plans == 0)
        return num_slots;
    const struct pen_sized_plan *plan = largest_plan(fleet, num_slots);
    return plan == NULL ? 0 : plan->num_ranks;
}

static enum pen_fleet_verdict judge(const struct pen_fleet *fleet)
{
    if (pen_nodes_missing(&fleet->nodes, &fleet->used) != NULL)
        return PEN_FLEET_GONE;
    return pen_fleet_size(fleet) > fleet->num_ranks ? PEN_FLEET_MORE
                                                    : PEN_FLEET_SAME;
}

static void warn(struct pen_fleet *fleet, const char *why)
{
    if (!fleet->is_warned)
        pen_log(PEN_LOG_WARN, "--nodes-from %s: %s; the last list stays",
                fleet->options->command, why);
    fleet->is_warned = true;
}

static pen_status take_answer(struct pen_fleet *fleet, struct pen_text *why)
{
    struct pen_nodes nodes;
    const struct pen_text *answer = &fleet->asker.answer;
    pen_status status =
        pen_nodes_parse(pen_text_string(answer), answer->length, &nodes, why);
    if (status == PEN_OK && nodes.count == 0) {
        pen_why(why, "it listed no node");
        pen_nodes_release(&nodes);
        status = PEN_INVALID;
    }
    if (status != PEN_OK)
        return status;
    pen_nodes_release(&fleet->nodes);
    fleet->nodes = nodes;
    fleet->is_warned = false;
    fleet->verdict = judge(fleet);
    return PEN_OK;
}

void pen_fleet_ask(struct pen_fleet *fleet)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    fleet->asked_ns = pen_clock_ns();
    if (pen_asker_start(&fleet->asker, &why) != PEN_OK) {
        fleet->num_answers++;
        warn(fleet, pen_text_string(&why));
    }
    pen_text_release(&why);
}

bool pen_fleet_is_asking(const struct pen_fleet *fleet)
{
    return fleet->asker.pid > 0;
}

void pen_fleet_tend(struct pen_fleet *fleet)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (fleet->options->command == NULL)
        return;
    pen_status status = pen_asker_tend(&fleet->asker, &why);
    fleet->num_answers += status != PEN_BUSY;
    if (status == PEN_OK)
        status = take_answer(fleet, &why);
    if (status != PEN_OK && status != PEN_BUSY)
        warn(fleet,
             why.length > 0 ? pen_text_string(&why) : pen_status_text(status));
    pen_text_release(&why);
    if (!pen_fleet_is_asking(fleet) &&
        1e-9 * (double)(pen_clock_ns() - fleet->asked_ns) >=
            fleet->options->interval_sec)
        pen_fleet_ask(fleet);
}

/* ---- placeholders ---- */

const char *const pen_placeholders[PEN_NUM_PLACEHOLDERS] = {
    "{ranks}", "{hosts}", "{plan}"};

bool pen_words_have(char *const *words, const char *placeholder)
{
    for (; *words != NULL; words++)
        if (strstr(*words, placeholder) != NULL)
            return true;
    return false;
}

/* Returns the word with its placeholders filled; NULL when memory runs out. */
static char *fill_word(const char *word,
                       const char *const values[PEN_NUM_PLACEHOLDERS])
{
    struct pen_text text = PEN_TEXT_EMPTY;
    while (*word != '\0') {
        size_t which = 0, length = 1;
        while (which < PEN_NUM_PLACEHOLDERS &&
               strncmp(word, pen_placeholders[which],
                       strlen(pen_placeholders[which])) != 0)
            which++;
        if (which < PEN_NUM_PLACEHOLDERS) {
            pen_text_add_string(&text, values[which]);
            length = strlen(pen_placeholders[which]);
        } else {
            pen_text_add_bytes(&text, word, 1);
        }
        word += length;
    }
    char *filled = text.has_failed ? NULL : strdup(pen_text_string(&text));
    pen_text_release(&text);
    return filled;
}

static void free_words(char **words)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

static char **fill_words(char *const *words,
                         const char *const values[PEN_NUM_PLACEHOLDERS])
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    char **filled = calloc(count + 1, sizeof *filled);
    for (size_t i = 0; filled != NULL && i < count; i++) {
        filled[i] = fill_word(words[i], values);
        if (filled[i] == NULL) {
            free_words(filled);
            return NULL;
        }
    }
    return filled;
}

/* ---- a launch ---- */

pen_status pen_fleet_place(struct pen_fleet *fleet, char *const *words)
{
    struct pen_text ranks = PEN_TEXT_EMPTY, hosts = PEN_TEXT_EMPTY;
    struct pen_nodes used;
    uint32_t num_ranks = pen_fleet_size(fleet);
    pen_status status = pen_nodes_take(&fleet->nodes, num_ranks, &used);
    if (status != PEN_OK)
        return status;
    pen_nodes_release(&fleet->used);
    fleet->used = used;
    fleet->num_ranks = num_ranks;
    fleet->verdict = PEN_FLEET_SAME;
    const struct pen_sized_plan *plan = largest_plan(fleet, num_ranks);
    pen_text_add(&ranks, "%" PRIu32, num_ranks);
    pen_nodes_print(&fleet->used, &hosts);
    const char *const values[PEN_NUM_PLACEHOLDERS] = {
        pen_text_string(&ranks), pen_text_string(&hosts),
        plan == NULL ? "" : plan->path};
    free_words(fleet->words);
    fleet->words = fill_words(words, values);
    if (fleet->words == NULL || ranks.has_failed || hosts.has_failed)
        status = PEN_NOMEM;
    pen_text_release(&ranks);
    pen_text_release(&hosts);
    return status;
}

void pen_fleet_release(struct pen_fleet *fleet)
{
    pen_asker_release(&fleet->asker);
    pen_nodes_release(&fleet->nodes);
    pen_nodes_release(&fleet->used);
    free_words(fleet->words);
    fleet->words = NULL;
}
