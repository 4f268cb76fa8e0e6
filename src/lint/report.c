/* Findings of a file in the order of their places. */
#include "lint/lint.h"

#include <stdlib.h>
#include <string.h>

const char *const pen_lint_dialect_names[PEN_LINT_DIALECTS] = {
    "Megatron-LM", "Megatron-Bridge", "torchtitan",
    "DeepSpeed",   "accelerate",      "nanotron"};

const char *const pen_lint_severity_names[3] = {"error", "warning", "note"};

const struct pen_lint_rule pen_lint_rules[PEN_LINT_RULES] = {
#define RULE_ROW(id, name, severity, summary)                                  \
    {name, PEN_LINT_##severity, summary},
    PEN_LINT_RULE_TABLE(RULE_ROW)};

static void release_finding(struct pen_lint_finding *finding)
{
    free(finding->what);
    free(finding->why);
    free(finding->todo);
    free(finding->fix);
}

void pen_lint_report_release(struct pen_lint_report *report)
{
    for (uint32_t i = 0; i < report->num_findings; i++)
        release_finding(&report->findings[i]);
    for (uint32_t i = 0; i < report->num_jobs; i++)
        free(report->jobs[i].line);
    free(report->findings);
    free(report->jobs);
    *report = (struct pen_lint_report){.findings = NULL};
}

/*
 * Returns whether the rule has a finding at this place already, however often a
 * script uses it.
 */
static bool is_reported(const struct pen_lint_report *report,
                        const struct pen_lint_finding *finding)
{
    for (uint32_t i = 0; i < report->num_findings; i++)
        if (report->findings[i].rule == finding->rule &&
            report->findings[i].begin == finding->begin &&
            strcmp(report->findings[i].what, finding->what) == 0)
            return true;
    return false;
}

static bool make_room(struct pen_lint_report *report)
{
    if (report->num_findings < report->capacity)
        return true;
    uint32_t capacity = report->capacity == 0 ? 8 : 2 * report->capacity;
    struct pen_lint_finding *grown =
        realloc(report->findings, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    report->findings = grown;
    report->capacity = capacity;
    return true;
}

#define MOST_FINDINGS 1000u

void pen_lint_add(struct pen_lint_report *report,
                  const struct pen_lint_finding *finding)
{
    struct pen_lint_finding copy = *finding;
    bool is_whole = copy.what != NULL && copy.why != NULL && copy.todo != NULL;
    if (!is_whole || report->num_findings == MOST_FINDINGS ||
        is_reported(report, &copy) || !make_room(report)) {
        report->has_failed = report->has_failed || !is_whole;
        release_finding(&copy);
        return;
    }
    uint32_t at = report->num_findings++;
    while (at > 0 && report->findings[at - 1].begin > copy.begin) {
        report->findings[at] = report->findings[at - 1];
        at--;
    }
    report->findings[at] = copy;
}

struct pen_lint_place pen_lint_place(const char *text, size_t length, size_t at)
{
    struct pen_lint_place place = {1, 1};
    for (size_t i = 0; i < at && i < length; i++) {
        place.column++;
        if (text[i] == '\n') {
            place.line++;
            place.column = 1;
        }
    }
    return place;
}
