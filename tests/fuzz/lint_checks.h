/* What every reader of penstock lint has to keep, for its fuzz target. */
#ifndef PEN_FUZZ_LINT_CHECKS_H
#define PEN_FUZZ_LINT_CHECKS_H

#include "base/bug.h"
#include "lint/lint.h"

/* Findings are inside of the file and in order, and fixes can be written. */
static inline void check_lint(const char *path, const uint8_t *data,
                              size_t size)
{
    struct pen_lint_report report;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text fixed = PEN_TEXT_EMPTY;
    struct pen_lint_question question = {path, (const char *)data, size,
                                         size % 3 * 8};
    size_t last = 0;
    if (pen_lint_file(&question, &report, &why) != PEN_OK)
        PEN_BUG_UNLESS(why.length > 0);
    for (uint32_t i = 0; i < report.num_findings; i++) {
        const struct pen_lint_finding *finding = &report.findings[i];
        PEN_BUG_UNLESS(finding->end <= size && finding->begin <= finding->end);
        PEN_BUG_UNLESS(finding->begin >= last);
        last = finding->begin;
    }
    pen_lint_fix(&question, &report, &fixed);
    pen_lint_report_release(&report);
    pen_text_release(&fixed);
    pen_text_release(&why);
}

#endif
