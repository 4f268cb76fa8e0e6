/*
 * Whatever is accepted as a run log has steps that increase and print as lines
 * which mean the same.
 */
#include "core/run_log.h"
#include "base/bug.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char head[] = "{\"format\":\"penstock-run\",\"version\":1,"
                           "\"model\":\"\",\"settings\":{}}\n";

static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_step(const struct pen_run_step *step)
{
    char text[sizeof head + PEN_RUN_LINE_SIZE];
    struct pen_run *again = NULL;
    memcpy(text, head, sizeof head);
    size_t length = sizeof head - 1;
    length += pen_run_step_print(step, text + length);
    PEN_BUG_UNLESS(pen_run_parse(text, length, &again, NULL) == PEN_OK);
    PEN_BUG_UNLESS(again->num_steps == 1 && !again->is_cut);
    const struct pen_run_step *other = again->steps;
    PEN_BUG_UNLESS(other->step == step->step);
    PEN_BUG_UNLESS(other->tokens == step->tokens);
    PEN_BUG_UNLESS(is_same(other->loss, step->loss));
    PEN_BUG_UNLESS(is_same(other->lr, step->lr));
    PEN_BUG_UNLESS(is_same(other->val_loss, step->val_loss));
    PEN_BUG_UNLESS(is_same(other->val_accuracy, step->val_accuracy));
    pen_run_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_run *run = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_run_parse((const char *)data, size, &run, &why) == PEN_OK) {
        uint64_t before = 0;
        for (size_t i = 0; i < run->num_steps; i++) {
            PEN_BUG_UNLESS(run->steps[i].step > before);
            before = run->steps[i].step;
            check_step(&run->steps[i]);
        }
        PEN_BUG_UNLESS(run->model != NULL && json_is_object(run->settings));
    } else {
        PEN_BUG_UNLESS(why.length > 0 && run == NULL);
    }
    pen_run_free(run);
    pen_text_release(&why);
    return 0;
}
