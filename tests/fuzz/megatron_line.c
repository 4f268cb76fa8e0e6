/* Whatever is accepted as a Megatron line is a right plan of a right model. */
#include "export/megatron_line.h"
#include "base/bug.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_model *model = NULL;
    struct pen_plan *plan = NULL;
    struct pen_text notes = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_megatron_overlaps overlaps;
    pen_megatron_line_overlaps((const char *)data, size, &overlaps);
    uint64_t world = size % 3 * 8; /* also as the line says */
    if (pen_megatron_line_parse((const char *)data, size, world, &model, &plan,
                                &notes, &why) == PEN_OK) {
        PEN_BUG_UNLESS(pen_plan_check(plan, NULL) == PEN_OK);
        PEN_BUG_UNLESS(pen_plan_fits(plan, model, NULL) == PEN_OK);
        PEN_BUG_UNLESS(world == 0 || pen_plan_num_ranks(plan) == world);
    } else {
        PEN_BUG_UNLESS(model == NULL && plan == NULL && why.length > 0);
    }
    pen_model_free(model);
    pen_plan_free(plan);
    pen_text_release(&notes);
    pen_text_release(&why);
    return 0;
}
