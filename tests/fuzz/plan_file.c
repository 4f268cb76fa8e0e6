/* Whatever is accepted as a plan is right, and prints as the same plan. */
#include "base/bug.h"
#include "core/plan.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stages(const struct pen_plan *plan)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        PEN_BUG_UNLESS(plan->stages[i].first == next);
        PEN_BUG_UNLESS(plan->stages[i].count >= 1);
        PEN_BUG_UNLESS(plan->stages[i].recompute < PEN_RECOMPUTES);
        next += plan->stages[i].count;
    }
}

static void check_again(const struct pen_plan *plan)
{
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    struct pen_plan *again = NULL;
    pen_plan_print(plan, &first);
    PEN_BUG_UNLESS(pen_plan_parse(first.bytes, first.length, &again, NULL) ==
                   PEN_OK);
    pen_plan_print(again, &second);
    PEN_BUG_UNLESS(strcmp(first.bytes, second.bytes) == 0);
    pen_plan_free(again);
    pen_text_release(&first);
    pen_text_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_plan_parse((const char *)data, size, &plan, &why) == PEN_OK) {
        PEN_BUG_UNLESS(pen_plan_check(plan, NULL) == PEN_OK);
        PEN_BUG_UNLESS(pen_plan_num_ranks(plan) >= 1);
        PEN_BUG_UNLESS(pen_plan_global_batch(plan) >= 1);
        check_stages(plan);
        check_again(plan);
        pen_plan_free(plan);
    } else {
        PEN_BUG_UNLESS(plan == NULL && why.length > 0);
    }
    pen_text_release(&why);
    return 0;
}
