/*
 * How long does a step of a pipeline take, as a profile says?
 *
 *   build/release/bench/predict_step PROFILE MODEL SCHEDULE RANKS MICROBATCHES
 *       [CHUNKS [LAYERS,LAYERS,...]]
 *
 * One line, tab separated: schedule, ranks, micro-batches, layers of each
 * stage, seconds of the step, bubble. The stages are cut by the profile unless
 * their layers are given.
 */
#include "measure.h"

#include "planner/compute.h"
#include "schedule/generators.h"
#include "schedule/time.h"

#include <stdio.h>
#include <stdlib.h>

static void require(pen_status status, const struct pen_text *why)
{
    if (status == PEN_OK)
        return;
    fprintf(stderr, "predict_step: %s\n",
            why->length > 0 ? pen_text_string(why) : pen_status_text(status));
    exit(1);
}

/* "9,5": the layers of each stage. */
static void read_stages(const char *text, struct pen_layer_range *stages,
                        uint32_t num_stages)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < num_stages; i++) {
        char *end;
        stages[i] = (struct pen_layer_range){
            .first = first, .count = (uint32_t)strtoul(text, &end, 10)};
        stop_unless(stages[i].count > 0,
                    "predict_step: a stage without layers");
        first += stages[i].count;
        text = *end == ',' ? end + 1 : end;
    }
}

static void report(const struct pen_schedule *schedule,
                   const struct pen_layer_range *stages, uint32_t num_stages,
                   const struct pen_timing *timing)
{
    printf("%s\t%u\t%u\t", schedule->name, schedule->shape.num_ranks,
           schedule->shape.num_microbatches);
    for (uint32_t i = 0; i < num_stages; i++)
        printf("%s%u", i == 0 ? "" : ",", stages[i].count);
    printf("\t%.4f\t%.4f\n", timing->makespan_sec, timing->bubble);
}

int main(int argc, char **argv)
{
    stop_unless(argc >= 6, "usage: predict_step PROFILE MODEL SCHEDULE RANKS "
                           "MICROBATCHES [CHUNKS [LAYERS,...]]");
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_profile *profile;
    struct pen_model *model;
    struct pen_schedule *schedule;
    struct pen_timing *timing;
    struct pen_costs costs;
    const struct pen_generator *generator = pen_generator_find(argv[3]);
    stop_unless(generator != NULL, "predict_step: no such schedule");
    require(pen_profile_load(argv[1], &profile, &why), &why);
    require(pen_model_load(argv[2], &model, &why), &why);
    pen_costs_init(&costs);
    struct pen_generator_args args = {
        .ranks = (uint32_t)strtoul(argv[4], NULL, 10),
        .microbatches = (uint32_t)strtoul(argv[5], NULL, 10),
        .chunks = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 10) : 0,
        .costs = &costs};
    require(pen_generator_make(generator, &args, &schedule, &why), &why);
    uint32_t num_stages = pen_shape_parts(&schedule->shape);
    struct pen_layer_range *stages = calloc(num_stages, sizeof *stages);
    stop_unless(stages != NULL, "predict_step: out of memory");
    const struct pen_compute compute = {.model = model,
                                        .profile = profile,
                                        .micro_batch = profile->micro_batch,
                                        .sequence = profile->sequence,
                                        .is_bf16 = profile->is_bf16,
                                        .optimizer = PEN_UPDATE_ADAM};
    if (argc > 7)
        read_stages(argv[7], stages, num_stages);
    else
        require(pen_compute_cut(&compute, PEN_RECOMPUTE_NONE, args.microbatches,
                                stages, num_stages, &why),
                &why);
    require(pen_compute_costs(&compute, stages, num_stages, args.ranks,
                              pen_compute_has_whole_backward(schedule), &costs,
                              &why),
            &why);
    require(pen_schedule_time(schedule, &costs, NULL, &timing, &why), &why);
    report(schedule, stages, num_stages, timing);
    pen_timing_free(timing);
    pen_costs_release(&costs);
    free(stages);
    pen_schedule_free(schedule);
    pen_model_free(model);
    pen_profile_free(profile);
    pen_text_release(&why);
    return 0;
}
