/* Whatever bytes are a script: every finding is inside of them, and fixes end.
 */
#include "base/bug.h"
#include "lint/lint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_lint_report report;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text fixed = PEN_TEXT_EMPTY;
    struct pen_lint_question question = {"run.sh", (const char *)data, size,
                                         size % 3 * 8};
    if (pen_lint_file(&question, &report, &why) == PEN_OK) {
        for (uint32_t i = 0; i < report.num_findings; i++) {
            PEN_BUG_UNLESS(report.findings[i].end <= size);
            PEN_BUG_UNLESS(report.findings[i].begin <= report.findings[i].end);
        }
        pen_lint_fix(&question, &report, &fixed);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_lint_report_release(&report);
    pen_text_release(&fixed);
    pen_text_release(&why);
    return 0;
}
