/*
 * penstock plan --why tp=8,pp=4: compares the fastest plan with these settings
 * with the best plan, part by part of the step; or the rule that it breaks, or
 * the memory that it lacks.
 */
#include "cli/plan/modes.h"

#include "cli/plan/cells.h"
#include "cli/plan/print.h"
#include "cli/program/answer.h"
#include "planner/target_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the settings ---- */

static const char *const degree_keys[PEN_DEGREES] = {
#define DEGREE_KEY(name, key) key,
    PEN_DEGREE_TABLE(DEGREE_KEY)
#undef DEGREE_KEY
};

#define WORD_SIZE 32u

static pen_status refuse_word(const char *word, size_t length,
                              const char *expected, struct pen_text *why)
{
    pen_why(why, "--why: '");
    if (why != NULL)
        pen_text_add_printable(why, word, length < 60 ? length : 60);
    pen_why(why, "' is not %s", expected);
    return PEN_INVALID;
}

static bool read_count(const char *value, uint32_t most, uint32_t *out)
{
    char *end = NULL;
    if (value[0] < '0' || value[0] > '9')
        return false;
    unsigned long number = strtoul(value, &end, 10);
    if (*end != '\0' || number < 1 || number > most)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* Reads a word as a bit: its place in a list whose last entry is NULL. */
static bool read_bit(const char *value, const char *const *words, unsigned *out)
{
    for (unsigned i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], value) == 0) {
            *out = 1u << i;
            return true;
        }
    return false;
}

static bool read_setting(const char *key, const char *value,
                         struct pen_candidate_filter *out)
{
    for (int i = 0; i < PEN_DEGREES; i++)
        if (strcmp(key, degree_keys[i]) == 0)
            return read_count(value, PEN_PLAN_MAX_STAGES, &out->degrees[i]);
    if (strcmp(key, "micro-batch") == 0)
        return read_count(value, PEN_PLAN_MAX_COUNT, &out->micro_batch);
    if (strcmp(key, "recompute") == 0)
        return read_bit(value, pen_recompute_names, &out->recomputes);
    if (strcmp(key, "sharding") == 0)
        return read_bit(value, pen_sharding_names, &out->shardings);
    if (strcmp(key, "schedule") != 0)
        return false;
    out->generator = pen_generator_find(value);
    return out->generator != NULL;
}

pen_status pen__plan_why_parse(const char *text,
                               struct pen_candidate_filter *out,
                               struct pen_text *why)
{
    struct pen_candidate_filter filter = {.micro_batch = 0};
    for (const char *at = text;; at++) {
        char word[WORD_SIZE];
        size_t length = strcspn(at, ",");
        if (length >= WORD_SIZE)
            return refuse_word(at, length, "a setting", why);
        memcpy(word, at, length);
        word[length] = '\0';
        char *value = strchr(word, '=');
        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || !read_setting(word, value, &filter))
            return refuse_word(at, length,
                               "a setting of a plan; expected a list as "
                               "tp=8,pp=4,micro-batch=2,schedule=1f1b,"
                               "recompute=full,sharding=zero1",
                               why);
        at += length;
        if (*at == '\0')
            break;
    }
    *out = filter;
    return PEN_OK;
}

/* ---- the answer ---- */

struct answer {
    const char *text; /* of --why */
    struct pen__planning planning;
    struct pen_candidate_filter filter;
    struct pen_plan_ranking *best;
    struct pen_plan_ranking *other; /* NULL: there is none that runs */
    struct pen_plan_ranking *large; /* with any memory, then; or NULL */
    struct pen_text reason;
};

/* Applies these settings to the best plan, to find the rule that it breaks. */
static struct pen_candidate change_best(const struct answer *answer)
{
    const struct pen_candidate_filter *filter = &answer->filter;
    struct pen_candidate candidate = answer->best->found[0].candidate;
    uint64_t devices = pen_candidate_num_devices(&candidate);
    uint32_t *degrees = candidate.degrees;
    for (int i = 0; i < PEN_DEGREES; i++)
        if (filter->degrees[i] != 0)
            degrees[i] = filter->degrees[i];
    if (filter->micro_batch != 0)
        candidate.micro_batch = filter->micro_batch;
    if (filter->generator != NULL)
        candidate.generator = filter->generator;
    for (int i = 0; i < PEN_SHARDINGS; i++)
        if (filter->shardings == 1u << i)
            candidate.sharding = (enum pen_sharding)i;
    if (candidate.sharding != PEN_SHARDING_ZERO3)
        candidate.sharding_group = 0;
    if (filter->degrees[PEN_DEGREE_VPP] == 0 && filter->generator == NULL &&
        degrees[PEN_DEGREE_PP] == 1) {
        degrees[PEN_DEGREE_VPP] = 1;
        candidate.generator = pen_generator_find("1f1b");
    }
    uint64_t share = (uint64_t)degrees[PEN_DEGREE_TP] * degrees[PEN_DEGREE_CP] *
                     degrees[PEN_DEGREE_PP];
    uint64_t dp = devices / share > 1 ? devices / share : 1;
    if (filter->degrees[PEN_DEGREE_DP] == 0)
        degrees[PEN_DEGREE_DP] = (uint32_t)dp;
    candidate.num_microbatches =
        (uint32_t)(answer->planning.setting.global_batch /
                   ((uint64_t)degrees[PEN_DEGREE_DP] * candidate.micro_batch));
    return candidate;
}

#define MUCH_MEMORY ((uint64_t)1 << 50) /* bytes */

/* Runs the same search on devices that have room for everything. */
static void find_large(const struct pen__plan_args *args, struct answer *answer)
{
    struct pen__planning roomy = answer->planning;
    struct pen_cluster cluster = *answer->planning.cluster;
    size_t size = cluster.num_groups * sizeof *cluster.groups;
    cluster.groups = malloc(size);
    if (cluster.groups == NULL)
        return;
    memcpy(cluster.groups, answer->planning.cluster->groups, size);
    for (uint32_t i = 0; i < cluster.num_groups; i++)
        cluster.groups[i].device.memory_bytes = MUCH_MEMORY;
    roomy.cluster = &cluster;
    roomy.setting.cluster = &cluster;
    roomy.setting.memory_limit = 0;
    if (pen__plan_find_best(args, &roomy, &answer->filter, &answer->large,
                            NULL) != PEN_OK)
        answer->large = NULL;
    free(cluster.groups);
}

/* Finds the reason why there is no plan: lack of memory, or a rule. */
static void find_reason(const struct pen__plan_args *args,
                        struct answer *answer, const struct pen_text *refusal)
{
    find_large(args, answer);
    if (answer->large != NULL) {
        pen_text_add(&answer->reason, "%s", pen_text_string(refusal));
        return;
    }
    struct pen_candidate candidate = change_best(answer);
    if (pen_target_check(&answer->planning.setting, &candidate,
                         &answer->reason) == PEN_OK)
        pen_text_add(&answer->reason, "%s", pen_text_string(refusal));
}

static pen_status find(const struct pen__plan_args *args, struct answer *answer,
                       struct pen_text *why)
{
    struct pen_text refusal = PEN_TEXT_EMPTY;
    pen_status status = pen__plan_why_parse(args->why, &answer->filter, why);
    if (status == PEN_OK)
        status = pen__planning_open(args, NULL, &answer->planning, why);
    if (status == PEN_OK)
        status = pen__plan_find_best(args, &answer->planning, NULL,
                                     &answer->best, why);
    if (status != PEN_OK)
        return status;
    status = pen__plan_find_best(args, &answer->planning, &answer->filter,
                                 &answer->other, &refusal);
    if (status == PEN_INFEASIBLE) {
        find_reason(args, answer, &refusal);
        status = PEN_OK;
    } else if (status != PEN_OK) {
        pen_why(why, "%s", pen_text_string(&refusal));
    }
    pen_text_release(&refusal);
    if (status == PEN_OK)
        status = pen__plan_write(args, &answer->planning,
                                 &answer->best->found[0], why);
    return status;
}

/* ---- words ---- */

static void print_layout(const char *name, const struct pen_plan_found *found,
                         struct pen_text *out)
{
    pen_text_add(out, "%s: %.4g s a step, %.1f GiB, with ", name,
                 found->prediction.step_sec,
                 pen__gib(found->prediction.peak_bytes));
    pen_candidate_print(&found->candidate, out);
    pen_text_add_string(out, "\n");
}

static void add_part(struct pen_table *table, const char *name, double best,
                     double other)
{
    pen_table_add(table, "%s", name);
    pen_table_add(table, "%.4g", best);
    pen_table_add(table, "%.4g", other);
    pen_table_add(table, "%+.3g", other - best);
}

/* Parts that neither of them has are left out. */
static void print_parts(const struct answer *answer, struct pen_text *out)
{
    const struct pen_prediction *a = &answer->best->found[0].prediction;
    const struct pen_prediction *b = &answer->other->found[0].prediction;
    const struct pen_column columns[] = {{"part of the step, s", false, false},
                                         {"best", true, false},
                                         {answer->text, true, false},
                                         {"longer by", true, false}};
    struct pen_table table;
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < PEN_SPENDINGS; i++)
        if (a->spent[i] > 0.0005 * a->step_sec ||
            b->spent[i] > 0.0005 * a->step_sec)
            add_part(&table, pen_spending_names[i], a->spent[i], b->spent[i]);
    add_part(&table, "all", a->step_sec, b->step_sec);
    pen_text_add_string(out, "\n");
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

static enum pen_spending largest(const struct answer *answer)
{
    const double *a = answer->best->found[0].prediction.spent;
    const double *b = answer->other->found[0].prediction.spent;
    int most = 0;
    for (int i = 1; i < PEN_SPENDINGS; i++)
        if (b[i] - a[i] > b[most] - a[most])
            most = i;
    return (enum pen_spending)most;
}

static void print_verdict(const struct answer *answer, struct pen_text *out)
{
    const struct pen_prediction *a = &answer->best->found[0].prediction;
    const struct pen_prediction *b = &answer->other->found[0].prediction;
    enum pen_spending part = largest(answer);
    pen_text_add(out,
                 "%s is not the best: its fastest plan takes %.1f %% longer; "
                 "the largest difference is %s, %+.3g s",
                 answer->text, 100 * (b->step_sec / a->step_sec - 1),
                 pen_spending_names[part], b->spent[part] - a->spent[part]);
}

static void print_difference(const struct answer *answer, struct pen_text *out)
{
    print_layout(answer->text, &answer->other->found[0], out);
    print_parts(answer, out);
    pen_text_add_string(out, "\n");
    print_verdict(answer, out);
    pen_text_add_string(out, "\n");
    if (!answer->other->is_complete)
        pen_text_add_string(out, "the search for it was cut short; a larger "
                                 "--seconds may find a faster one\n");
}

static void print_refusal(const struct answer *answer, struct pen_text *out)
{
    if (answer->large == NULL) {
        pen_text_add(out, "\n%s is refused: %s\n", answer->text,
                     pen_text_string(&answer->reason));
        return;
    }
    const struct pen_plan_found *large = &answer->large->found[0];
    pen_text_add(out, "\n%s: %s\n", answer->text,
                 pen_text_string(&answer->reason));
    print_layout("with enough memory its fastest plan", large, out);
}

static int print_text(const struct answer *answer)
{
    const struct pen_plan_found *best = &answer->best->found[0];
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__plan_print_head(&answer->planning, &text);
    print_layout("the best plan", best, &text);
    if (answer->other == NULL)
        print_refusal(answer, &text);
    else if (pen_candidate_is_same(&best->candidate,
                                   &answer->other->found[0].candidate))
        pen_text_add(&text, "\n%s: this is the best plan\n", answer->text);
    else
        print_difference(answer, &text);
    return pen__print(&text);
}

static json_t *plan_json(const struct pen_plan_ranking *ranking)
{
    if (ranking == NULL)
        return json_null();
    return pen__plan_json(ranking->found[0].plan,
                          &ranking->found[0].prediction);
}

static const char *verdict_of(const struct answer *answer)
{
    if (answer->other == NULL)
        return answer->large != NULL ? "too-large" : "refused";
    return pen_candidate_is_same(&answer->best->found[0].candidate,
                                 &answer->other->found[0].candidate)
               ? "best"
               : "slower";
}

static json_t *parts_json(const struct answer *answer)
{
    const struct pen_prediction *a = &answer->best->found[0].prediction;
    const struct pen_prediction *b = &answer->other->found[0].prediction;
    json_t *parts = json_array();
    for (int i = 0; i < PEN_SPENDINGS; i++)
        pen__json_append(&parts,
                         json_pack("{s:s, s:f, s:f, s:f}", "part",
                                   pen_spending_names[i], "best_sec",
                                   a->spent[i], "other_sec", b->spent[i],
                                   "longer_sec", b->spent[i] - a->spent[i]));
    return parts;
}

/* Adds the other plan, where there is one with these settings. */
static void add_other(const struct answer *answer, json_t *object)
{
    const struct pen_prediction *a = &answer->best->found[0].prediction;
    const struct pen_prediction *b = &answer->other->found[0].prediction;
    struct pen_text text = PEN_TEXT_EMPTY;
    if (strcmp(verdict_of(answer), "best") == 0)
        pen_text_add(&text, "%s: this is the best plan", answer->text);
    else
        print_verdict(answer, &text);
    json_object_set_new(object, "text", json_string(pen_text_string(&text)));
    json_object_set_new(object, "longer",
                        json_real(b->step_sec / a->step_sec - 1));
    json_object_set_new(object, "largest_part",
                        json_string(pen_spending_names[largest(answer)]));
    json_object_set_new(object, "parts", parts_json(answer));
    json_object_set_new(object, "complete",
                        json_boolean(answer->other->is_complete));
    pen_text_release(&text);
}

static json_t *answer_json(const struct answer *answer)
{
    json_t *object = pen__plan_question_json(&answer->planning);
    if (object == NULL)
        return NULL;
    json_object_set_new(object, "why", json_string(answer->text));
    json_object_set_new(object, "verdict", json_string(verdict_of(answer)));
    json_object_set_new(object, "best", plan_json(answer->best));
    json_object_set_new(object, "other", plan_json(answer->other));
    if (answer->other != NULL)
        add_other(answer, object);
    else
        json_object_set_new(object, "reason",
                            json_string(pen_text_string(&answer->reason)));
    if (answer->large != NULL)
        json_object_set_new(object, "with_enough_memory",
                            plan_json(answer->large));
    return object;
}

int pen__plan_why(const struct pen__plan_args *args)
{
    struct answer answer = {.text = args->why, .reason = PEN_TEXT_EMPTY};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = find(args, &answer, &why);
    int code = PEN__EXIT_NO;
    if (status != PEN_OK)
        code = pen__refuse_as(status, &why);
    else if (pen__answer_is_json())
        code = pen__print_json("plan-why", answer_json(&answer));
    else
        code = print_text(&answer);
    pen_plan_ranking_free(answer.best);
    pen_plan_ranking_free(answer.other);
    pen_plan_ranking_free(answer.large);
    pen_text_release(&answer.reason);
    pen__planning_close(&answer.planning);
    pen_text_release(&why);
    return code;
}
