/*
 * V-Half and V-Min: Qi et al., NeurIPS 2024, arXiv 2405.15362: the V of ZB-V
 * with a half or a third of the activations of 1F1B.
 *
 *   slots of micro-batch 0, rank s; micro-batch n follows 6n slots later
 *
 *            F0    F1       I1           I0
 *   V-Half   2s    3p-2-s   3p+c+2s-1    6p+c-s-2    c = 3 if p is even
 *   V-Min    s     2p-1-s   2p+c+s       4p+c-1-s    c = 2 if 3 divides p
 *
 * A micro-batch stays on a rank from F to W; the closer the four passes, the
 * less is held. c keeps two ops out of one slot. The patterns assume that F, I
 * and W take the same time: with other times they wait a lot.
 */
#include "schedule/generators/v_pattern.h"

static void half_slots(uint32_t p, uint32_t rank, uint32_t slots[PEN__V_PASSES])
{
    uint32_t c = p % 2 == 0 ? 3 : 0;
    slots[PEN__V_F0] = 2 * rank;
    slots[PEN__V_F1] = 3 * p - 2 - rank;
    slots[PEN__V_I1] = 3 * p + c + 2 * rank - 1;
    slots[PEN__V_I0] = 6 * p + c - rank - 2;
}

static void min_slots(uint32_t p, uint32_t rank, uint32_t slots[PEN__V_PASSES])
{
    uint32_t c = p % 3 == 0 ? 2 : 0;
    slots[PEN__V_F0] = rank;
    slots[PEN__V_F1] = 2 * p - 1 - rank;
    slots[PEN__V_I1] = 2 * p + c + rank;
    slots[PEN__V_I0] = 4 * p + c - 1 - rank;
}

static pen_status generate_half(const struct pen_generator_args *args,
                                struct pen_schedule **out, struct pen_text *why)
{
    return pen__v_generate(args, "v-half", half_slots, out, why);
}

static pen_status generate_min(const struct pen_generator_args *args,
                               struct pen_schedule **out, struct pen_text *why)
{
    return pen__v_generate(args, "v-min", min_slots, out, why);
}

const struct pen_generator pen__v_half = {
    .name = "v-half",
    .title = "V-Half: half the activations of 1F1B",
    .paper = "Qi et al., NeurIPS 2024, arXiv 2405.15362",
    .placement = PEN_PLACEMENT_V,
    .constraints = "none; made for tF = tB = tW",
    .versions = "1",
    .bubble = "half the rate of 1F1B",
    .peak = "floor(p/2)+1",
    .is_synchronous = true,
    .splits_backward = true,
    .generate = generate_half,
};

const struct pen_generator pen__v_min = {
    .name = "v-min",
    .title = "V-Min: a third of the activations of 1F1B",
    .paper = "Qi et al., NeurIPS 2024, arXiv 2405.15362",
    .placement = PEN_PLACEMENT_V,
    .constraints = "none; made for tF = tB = tW",
    .versions = "1",
    .bubble = "2/3 of the rate of 1F1B, more with unequal times",
    .peak = "floor((p+4)/3)",
    .is_synchronous = true,
    .splits_backward = true,
    .generate = generate_min,
};
