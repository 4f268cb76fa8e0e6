/* How runtimes do what a plan leaves open. */
#include "planner/predict.h"

void pen_practice_init(struct pen_practice *practice, enum pen_target target,
                       enum pen_number number)
{
    bool is_mixed = number != PEN_NUMBER_F32;
    *practice = (struct pen_practice){
        .has_fused_attention = target != PEN_TARGET_PENSTOCK,
        .has_fused_gate = target != PEN_TARGET_DEEPSPEED,
        .has_fused_norm = true,
        .fuses_accumulation = target != PEN_TARGET_DEEPSPEED,
        .overlaps_gradients = true,
        .overlaps_parameters = true,
        .blocks_on_messages =
            target == PEN_TARGET_MEGATRON || target == PEN_TARGET_DEEPSPEED,
        .gradient_bytes = 4,
        .reduction_bytes = target == PEN_TARGET_DEEPSPEED && is_mixed ? 2 : 4,
        .optimizer_bytes = is_mixed ? 12 : 8,
        .overhead_bytes = 2.5e9,
        .memory_holes = 0.2};
    if (target == PEN_TARGET_PENSTOCK) {
        practice->overlaps_gradients = false; /* the same cores do both */
        practice->overlaps_parameters = false;
        practice->overhead_bytes = 30e6; /* a process with its libraries */
        practice->memory_holes = 0;      /* all room is made once */
        practice->has_worst_routing = true;
    }
    if (target == PEN_TARGET_MEGATRON) {
        practice->keeps_narrow = true;
        practice->fuses_casts = true;
        practice->has_fused_loss = true; /* exports say so, as of segments */
        practice->memory_holes = 0;
        practice->is_tight = true;
    }
    if (target == PEN_TARGET_TORCHTITAN) {
        practice->recomputes_twice = true;
        practice->selects_products = true;
        practice->gathers_once = true;
        practice->memory_holes = 0; /* its segments grow where they are */
    }
}
