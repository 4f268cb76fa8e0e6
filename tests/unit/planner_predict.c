/*
 * A prediction is the sum of its parts, of seconds and of bytes; every schedule
 * is predicted or refused in one line; slow and small devices count.
 */
#include "support/layout.h"
#include "support/support.h"

#include "planner/timings.h"

#include <math.h>
#include <string.h>

static const char eight_blocks[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 2048, \"n_layer\": 8, "
    "\"n_head\": 16, \"vocab_size\": 50304, \"n_positions\": 2048}";

static double sum_of(const struct pen_prediction *found)
{
    double sum = 0;
    for (int i = 0; i < PEN_SPENDINGS; i++) {
        if (!(found->spent[i] >= 0))
            fail_msg("%s takes %g s", pen_spending_names[i], found->spent[i]);
        sum += found->spent[i];
    }
    return sum;
}

static void expect_parts(const struct layout *layout, const char *what)
{
    struct pen_prediction found;
    layout_predict(layout, &found);
    expect_close(found.step_sec, sum_of(&found), what);
    expect_close(found.spent[PEN_SPENDING_BUBBLE] / found.step_sec,
                 found.bubble, "bubble");
    uint64_t most = 0;
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < found.num_memory; i++) {
        uint64_t bytes = 0;
        for (int part = 0; part < PEN_MEMORY_PARTS; part++)
            bytes += found.memory[i].bytes[part];
        assert_int_equal(bytes, pen_plan_memory_bytes(&found.memory[i]));
        most = bytes > most ? bytes : most;
        ranks += found.memory[i].count;
    }
    assert_int_equal(most, found.peak_bytes);
    assert_int_equal(most, pen_plan_memory_bytes(&found.memory[found.fullest]));
    assert_int_equal(pen_plan_num_ranks(layout->plan), ranks);
    pen_prediction_release(&found);
}

static void parts_sum_up(void **state)
{
    (void)state;
    static const char *const models[] = {
        "preset:gpt3-175b", "preset:llama-3.1-70b", "preset:mixtral-8x22b",
        "preset:deepseek-v3", "preset:gpt-oss-120b"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int sharding = 0; sharding < PEN_SHARDINGS; sharding++)
            for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
                struct layout layout;
                layout_init(&layout, models[i], "preset:dgx-h100*128", 4, 1);
                layout.plan->degrees[PEN_DEGREE_TP] = 8;
                layout.plan->degrees[PEN_DEGREE_CP] = 2;
                layout.plan->degrees[PEN_DEGREE_DP] = 8;
                if (layout.model->num_experts > 0)
                    layout.plan->degrees[PEN_DEGREE_EP] = 4;
                layout.plan->sharding = (enum pen_sharding)sharding;
                layout.plan->has_sequence_parallel = mode == 1;
                layout_recompute(&layout, (enum pen_recompute)mode);
                expect_parts(&layout, models[i]);
                layout_release(&layout);
            }
}

/* Reductions of several stages of a rank run side by side. */
static void parts_of_many_stages_sum_up(void **state)
{
    (void)state;
    for (uint32_t vpp = 1; vpp <= 4; vpp++) {
        struct layout layout;
        layout_init(&layout, "preset:gpt3-175b", "preset:dgx-h100*128", 4, vpp);
        layout.plan->degrees[PEN_DEGREE_DP] = 64;
        layout.plan->degrees[PEN_DEGREE_TP] = 4;
        layout.plan->num_microbatches = 4;
        layout.setting.practice.overlaps_gradients = false;
        expect_parts(&layout, "all reductions exposed");
        layout_release(&layout);
    }
}

/* Memory of a part, over all ranks of the pipeline. */
static double bytes_of_part(const struct layout *layout,
                            enum pen_memory_part part)
{
    struct pen_prediction found;
    double bytes = 0;
    layout_predict(layout, &found);
    for (uint32_t i = 0; i < found.num_memory; i++)
        bytes += (double)found.memory[i].bytes[part];
    pen_prediction_release(&found);
    return bytes;
}

/* Weights in 16 bits, sums and masters in 32, two moments: 18 bytes. */
static void weights_of_all_ranks_are_the_models(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*8", 4, 2);
    double count = (double)layout.model->num_parameters;
    expect_close(2 * count, bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "w");
    expect_close(4 * count, bytes_of_part(&layout, PEN_MEMORY_GRADIENTS), "g");
    expect_close(12 * count, bytes_of_part(&layout, PEN_MEMORY_OPTIMIZER), "m");
    layout.plan->degrees[PEN_DEGREE_DP] = 4;
    layout.plan->sharding = PEN_SHARDING_ZERO1;
    expect_close(4 * count, bytes_of_part(&layout, PEN_MEMORY_GRADIENTS), "g");
    expect_close(3 * count, bytes_of_part(&layout, PEN_MEMORY_OPTIMIZER), "m");
    layout.plan->sharding = PEN_SHARDING_ZERO2;
    expect_close(2 * count, bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "w");
    expect_close(1 * count, bytes_of_part(&layout, PEN_MEMORY_GRADIENTS), "g");
    layout.plan->sharding = PEN_SHARDING_ZERO3;
    expect_close(count / 2, bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "w");
    layout_release(&layout);
}

/* This program's trainer has a gradient of each rank of an expert group, and
 * room for all of their tokens: eight copies of a token in place of two. */
static void dealt_out_experts_have_room_for_all(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:mixtral-8x22b", "preset:dgx-h100*8", 1, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 4;
    double gradients = bytes_of_part(&layout, PEN_MEMORY_GRADIENTS);
    double kept = bytes_of_part(&layout, PEN_MEMORY_ACTIVATIONS);
    layout.plan->degrees[PEN_DEGREE_EP] = 4;
    expect_close(kept, bytes_of_part(&layout, PEN_MEMORY_ACTIVATIONS), "even");
    assert_true(bytes_of_part(&layout, PEN_MEMORY_GRADIENTS) < gradients / 2);
    layout.setting.practice.has_worst_routing = true;
    expect_close(gradients, bytes_of_part(&layout, PEN_MEMORY_GRADIENTS), "g");
    double all = bytes_of_part(&layout, PEN_MEMORY_ACTIVATIONS);
    assert_true(all > 2 * kept && all < 4 * kept);
    layout_release(&layout);
}

/* The first and the last rank have the matrix that they share, each. */
static void a_tied_matrix_is_there_once_for_each_holder(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 1, 1);
    double count = (double)layout.model->num_parameters;
    double matrix = 50304.0 * 2048;
    assert_true(layout.model->has_tied_embeddings);
    expect_close(2 * count, bytes_of_part(&layout, PEN_MEMORY_WEIGHTS),
                 "one rank");
    layout_release(&layout);
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    expect_close(2 * (count + matrix),
                 bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "two holders");
    layout_release(&layout);
    /* The last stage of a V lies with the first. */
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 2);
    assert_true(pen_plan_set(&layout.plan->schedule.name, "zb-v"));
    expect_close(2 * count, bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "a V");
    layout_release(&layout);
}

/*
 * Uneven stages, 1 2 2 3 blocks, against what an even split would say of them:
 * a last rank with half as many blocks again has half as many weights again.
 */
static void uneven_stages_have_their_own_memory(void **state)
{
    (void)state;
    static const uint32_t uneven[] = {1 + 1, 2, 2, 3 + 1};
    struct layout layout;
    struct pen_prediction even;
    struct pen_prediction own;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    layout_recompute(&layout, PEN_RECOMPUTE_FULL);
    layout_predict(&layout, &even);
    layout_cut(&layout, uneven);
    layout_predict(&layout, &own);
    static const int64_t more_blocks[] = {-1, 0, 0, 1};
    int64_t block = (int64_t)pen_model_layer_parameters(layout.model, 1);
    for (uint32_t i = 0; i < 4; i++) {
        int64_t more = (int64_t)own.memory[i].bytes[PEN_MEMORY_OPTIMIZER] -
                       (int64_t)even.memory[i].bytes[PEN_MEMORY_OPTIMIZER];
        assert_int_equal(12 * more_blocks[i] * block, more);
    }
    /* Blocks alone: two of three are what an even split counts. */
    double head = (double)even.memory[3].bytes[PEN_MEMORY_OPTIMIZER] -
                  24.0 * (double)block;
    double of_blocks = (double)own.memory[3].bytes[PEN_MEMORY_OPTIMIZER] - head;
    expect_close(24.0 * (double)block / of_blocks, 2.0 / 3, "a third missing");
    assert_true(pen_plan_memory_bytes(&own.memory[3]) >
                pen_plan_memory_bytes(&even.memory[3]));
    assert_true(own.step_sec > even.step_sec);
    pen_prediction_release(&even);
    pen_prediction_release(&own);
    layout_release(&layout);
}

/* The first rank of 1F1B holds p micro-batches, of GPipe all of them. */
static void activations_follow_the_schedule(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction early;
    struct pen_prediction late;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    layout.plan->num_microbatches = 16;
    layout_predict(&layout, &early);
    assert_true(pen_plan_set(&layout.plan->schedule.name, "gpipe"));
    layout_predict(&layout, &late);
    for (uint32_t i = 0; i < 4; i++) {
        double held = (double)early.memory[i].bytes[PEN_MEMORY_ACTIVATIONS];
        double all = (double)late.memory[i].bytes[PEN_MEMORY_ACTIVATIONS];
        if (fabs(all / held * (4 - i) / 16 - 1) > 1e-6)
            fail_msg("rank %u holds %g of %g bytes", i, held, all);
    }
    pen_prediction_release(&early);
    pen_prediction_release(&late);
    layout_release(&layout);
}

/* ---- devices of several kinds ---- */

static void open_mixed(struct layout *out, const char *second)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text,
                 "name: two kinds\n"
                 "devices:\n"
                 "  - {kind: a100-80, count: 2}\n"
                 "  - {kind: %s, count: 2}\n"
                 "links:\n"
                 "  - {level: all, bandwidth: 25 GB/s, latency: 5 us}\n",
                 second);
    layout_init(out, eight_blocks, pen_text_string(&text), 4, 1);
    pen_text_release(&text);
}

static void a_slower_device_lengthens_the_step(void **state)
{
    (void)state;
    struct layout same;
    struct layout mixed;
    open_mixed(&same, "a100-80");
    open_mixed(&mixed, "v100-32");
    double fast = layout_step(&same);
    double slow = layout_step(&mixed);
    assert_true(slow > 1.5 * fast);
    /* Fewer blocks for the slow ones: most of it comes back. */
    static const uint32_t counts[] = {1 + 3, 3, 1, 1 + 1};
    layout_cut(&mixed, counts);
    double balanced = layout_step(&mixed);
    assert_true(balanced < 0.9 * slow);
    assert_true(balanced > fast);
    layout_release(&same);
    layout_release(&mixed);
}

static void the_memory_of_the_smaller_device_is_the_limit(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    open_mixed(&layout, "v100-32");
    layout_recompute(&layout, PEN_RECOMPUTE_FULL);
    /* The first rank, on 80 GiB, has the most. */
    static const uint32_t counts[] = {1 + 5, 1, 1, 1 + 1};
    layout_cut(&layout, counts);
    layout.plan->micro_batch = 64;
    layout_recompute(&layout, PEN_RECOMPUTE_NONE);
    layout_predict(&layout, &found);
    assert_int_equal(0, found.fullest);
    pen_prediction_release(&found);
    for (uint32_t micro = 1; micro <= 128; micro *= 2) {
        layout.plan->micro_batch = micro;
        layout_predict(&layout, &found);
        bool fits = true;
        for (uint32_t i = 0; i < 4; i++)
            fits =
                fits &&
                1.1 * (double)pen_plan_memory_bytes(&found.memory[i]) <=
                    (double)layout.cluster->groups[i / 2].device.memory_bytes;
        assert_int_equal(fits, found.fits);
        pen_prediction_release(&found);
    }
    layout_release(&layout);
}

/* A rank of the pipeline on two kinds: slow and large, fast and small. */
static void the_smallest_of_a_rank_is_its_limit(void **state)
{
    (void)state;
    static const char cluster[] =
        "name: slow and small\n"
        "devices:\n"
        "  - {kind: v100-32, count: 1}\n"
        "  - {kind: a100-40, count: 1, memory: 8 GB}\n"
        "links:\n"
        "  - {level: all, bandwidth: 25 GB/s, latency: 5 us}\n";
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, eight_blocks, cluster, 1, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 2;
    layout_predict(&layout, &found);
    assert_true(found.peak_bytes > 8000000000u);
    assert_true(1.1 * (double)found.peak_bytes < 32e9);
    assert_false(found.fits);
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* FSDP reduces gradients after the last micro-batch of a pipeline only. */
static void gradients_stay_whole_in_a_pipeline_of_fsdp(void **state)
{
    (void)state;
    double gradients[2];
    for (int i = 0; i < 2; i++) {
        struct layout layout;
        layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 2, 1);
        layout.setting.target = PEN_TARGET_TORCHTITAN;
        pen_practice_init(&layout.setting.practice, PEN_TARGET_TORCHTITAN,
                          PEN_NUMBER_BF16);
        layout.plan->degrees[PEN_DEGREE_DP] = 4;
        layout.plan->sharding =
            i == 0 ? PEN_SHARDING_ZERO2 : PEN_SHARDING_ZERO3;
        gradients[i] = bytes_of_part(&layout, PEN_MEMORY_GRADIENTS);
        expect_close(4 * (double)layout.model->num_parameters, gradients[i],
                     "gradients");
        struct pen_prediction found;
        layout_predict(&layout, &found);
        expect_close(0.3, found.memory_error, "stated error");
        expect_close(0.1, found.memory_margin, "margin");
        pen_prediction_release(&found);
        layout_release(&layout);
    }
    expect_close(gradients[0], gradients[1], "zero2 and zero3");
}

/* Pipelines of torchtitan keep weights and gradients whole in a step. */
static void gathered_weights_stay_in_a_pipeline(void **state)
{
    (void)state;
    for (uint32_t pp = 1; pp <= 2; pp++) {
        struct layout layout;
        layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", pp, 1);
        layout.setting.target = PEN_TARGET_TORCHTITAN;
        pen_practice_init(&layout.setting.practice, PEN_TARGET_TORCHTITAN,
                          PEN_NUMBER_BF16);
        layout.plan->sharding = PEN_SHARDING_ZERO3;
        layout.plan->degrees[PEN_DEGREE_DP] = 4;
        double count = (double)layout.model->num_parameters;
        double share = pp == 1 ? 0.25 : 1;
        expect_close(2 * share * count,
                     bytes_of_part(&layout, PEN_MEMORY_WEIGHTS), "weights");
        expect_close(4 * share * count,
                     bytes_of_part(&layout, PEN_MEMORY_GRADIENTS), "gradients");
        expect_close(3 * count, bytes_of_part(&layout, PEN_MEMORY_OPTIMIZER),
                     "moments");
        layout_release(&layout);
    }
}

static void a_limit_of_the_user_counts_when_it_is_lower(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    uint64_t peak = layout_peak(&layout);
    layout.setting.memory_limit = peak;
    layout_predict(&layout, &found);
    assert_false(found.fits); /* what may be off has to fit, too */
    pen_prediction_release(&found);
    layout.setting.memory_limit = 2 * peak;
    layout_predict(&layout, &found);
    assert_true(found.fits);
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* V100 has no bf16: its products are as fast as in fp16. */
static void utilisation_is_of_the_peak_that_is_used(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, "preset:gpt3-175b", "preset:dgx-1*8", 8, 1);
    layout.plan->degrees[PEN_DEGREE_TP] = 8;
    layout_predict(&layout, &found);
    double flops = pen_model_step_flops(layout.model, 16, 2048);
    expect_close(flops / (found.step_sec * 64 * 125e12), found.utilisation,
                 "of 125 TFLOP/s");
    expect_close(16 * 2048 / found.step_sec, found.tokens_per_sec, "tokens");
    pen_prediction_release(&found);
    layout_release(&layout);
}

/* ---- schedules ---- */

/* Equal stages and no messages: nothing is left to chance in 1F1B. */
static void the_bound_of_1f1b_is_what_it_takes(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    struct pen_prediction bound;
    static const uint32_t counts[] = {4, 4, 4, 4};
    layout_init(&layout, "preset:gpt2-medium", "preset:dgx-a100*1", 4, 1);
    layout.model->num_blocks = 14; /* the first and the last stage have less */
    layout.model->num_layers = 16;
    layout_cut(&layout, counts);
    layout_predict(&layout, &found);
    layout_bound(&layout, &bound);
    assert_true(bound.step_sec <= found.step_sec);
    if (bound.step_sec < 0.95 * found.step_sec)
        fail_msg("%.6g s, bound %.6g s", found.step_sec, bound.step_sec);
    pen_prediction_release(&found);
    pen_prediction_release(&bound);
    layout_release(&layout);
}

static bool has_split_backward(const struct pen_schedule *schedule,
                               uint32_t ranks)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    for (uint32_t rank = 0; rank < ranks; rank++)
        compute_row(schedule, rank, &text);
    bool is_split = strchr(pen_text_string(&text), 'W') != NULL;
    pen_text_release(&text);
    return is_split;
}

static bool has_moves(const struct pen_schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++)
        for (uint32_t i = 0; i < schedule->rows[rank].count; i++)
            if (schedule->rows[rank].ops[i].kind == PEN_OP_EVICT)
                return true;
    return false;
}

/* Whether I and W come apart, activations move and all micro-batches are held
 * is known before a schedule is made. */
static void generators_tell_what_they_make(void **state)
{
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_costs costs = unit_costs();
        struct pen_generator_args args = {
            .ranks = 4, .microbatches = 16, .costs = &costs};
        if (!generator->is_synchronous)
            continue;
        struct pen_schedule *schedule = make_with(generator->name, &args);
        if (generator->splits_backward != has_split_backward(schedule, 4))
            fail_msg("%s: splits_backward %d", generator->name,
                     generator->splits_backward);
        if (generator->moves_activations != has_moves(schedule))
            fail_msg("%s: moves_activations %d", generator->name,
                     generator->moves_activations);
        struct pen_timing *timing = time_of(schedule, &costs);
        bool is_full = timing->ranks[3].peak == 16;
        if (generator->stashes_all != is_full)
            fail_msg("%s: stashes_all %d", generator->name,
                     generator->stashes_all);
        pen_timing_free(timing);
        pen_schedule_free(schedule);
        pen_costs_release(&costs);
    }
}

/* Predicted, or refused with one line; returns whether predicted. */
static bool try_schedule(const struct pen_generator *generator, uint32_t vpp)
{
    struct layout layout;
    struct pen_prediction found;
    struct pen_text why = PEN_TEXT_EMPTY;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 4, vpp);
    assert_true(pen_plan_set(&layout.plan->schedule.name, generator->name));
    layout.plan->num_microbatches = 16;
    pen_status status = pen_predict(&layout.setting, layout.plan, &found, &why);
    if (status == PEN_OK) {
        expect_close(found.step_sec, sum_of(&found), generator->name);
        assert_true(found.peak_bytes > 0);
        pen_prediction_release(&found);
    } else {
        assert_int_equal(PEN_INVALID, status);
        assert_true(why.length > 0);
        assert_null(strchr(pen_text_string(&why), '\n'));
    }
    pen_text_release(&why);
    layout_release(&layout);
    return status == PEN_OK;
}

static void every_schedule_is_predicted_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        bool is_predicted = false;
        for (uint32_t vpp = 1; vpp <= 4; vpp++)
            is_predicted = try_schedule(generator, vpp) || is_predicted;
        if (!is_predicted)
            fail_msg("%s is refused", generator->name);
    }
}

/* A step is what each batch adds; versions of the weights are held. */
static void batches_that_do_not_wait_take_no_bubble(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction flushed;
    struct pen_prediction found;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 4, 1);
    layout_predict(&layout, &flushed);
    assert_true(pen_plan_set(&layout.plan->schedule.name, "pipedream-2bw"));
    layout_predict(&layout, &found);
    assert_true(flushed.bubble > 0.1);
    assert_true(found.bubble < 0.05);
    assert_true(found.step_sec < flushed.step_sec);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(2 * flushed.memory[i].bytes[PEN_MEMORY_WEIGHTS],
                         found.memory[i].bytes[PEN_MEMORY_WEIGHTS]);
    pen_prediction_release(&found);
    /* As many versions as micro-batches in flight. */
    assert_true(pen_plan_set(&layout.plan->schedule.name, "pipedream"));
    layout_predict(&layout, &found);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal((4 - i) * flushed.memory[i].bytes[PEN_MEMORY_WEIGHTS],
                         found.memory[i].bytes[PEN_MEMORY_WEIGHTS]);
    pen_prediction_release(&found);
    pen_prediction_release(&flushed);
    layout_release(&layout);
}

/* Every rank of a cyclic schedule has the whole model. */
static void cyclic_ranks_have_the_whole_model(void **state)
{
    (void)state;
    struct layout layout;
    layout_init(&layout, "preset:llama-3.1-8b", "preset:dgx-h100*1", 4, 1);
    assert_true(pen_plan_set(&layout.plan->schedule.name, "cyclic"));
    expect_close(4 * 12.0 * (double)layout.model->num_parameters,
                 bytes_of_part(&layout, PEN_MEMORY_OPTIMIZER), "four times");
    layout_release(&layout);
}

static void bad_plans_are_refused_by_the_rule(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    struct pen_text why = PEN_TEXT_EMPTY;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    layout.plan->degrees[PEN_DEGREE_DP] = 3;
    assert_int_equal(PEN_INVALID,
                     pen_predict(&layout.setting, layout.plan, &found, &why));
    assert_string_equal("the plan has 12 ranks, but the cluster has 8 devices",
                        pen_text_string(&why));
    pen_text_clear(&why);
    layout.plan->degrees[PEN_DEGREE_DP] = 1;
    layout.plan->stages[3].count--;
    assert_int_equal(PEN_INVALID, pen_predict_bound(&layout.setting,
                                                    layout.plan, &found, &why));
    assert_string_equal("the stages have 9 layers, but the model has 10",
                        pen_text_string(&why));
    pen_text_clear(&why);
    layout.plan->stages[3].count++;
    assert_true(pen_plan_set(&layout.plan->schedule.name, "2f3b"));
    assert_int_equal(PEN_INVALID,
                     pen_predict(&layout.setting, layout.plan, &found, &why));
    assert_string_equal(
        "there is no schedule 2f3b; `penstock schedule list` prints "
        "all names",
        pen_text_string(&why));
    pen_text_release(&why);
    layout_release(&layout);
}

/* Orders that are kept from other plans change nothing, to the last bit. */
static void kept_schedules_change_nothing(void **state)
{
    (void)state;
    struct pen_timings *timings = pen_timings_create();
    assert_non_null(timings);
    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint32_t m = 4; m <= 32; m += 4) {
            struct layout layout;
            layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4,
                        1 + turn % 2);
            layout.plan->micro_batch = 1 + turn;
            layout.plan->num_microbatches = m;
            double fresh = layout_step(&layout);
            uint64_t peak = layout_peak(&layout);
            layout.setting.timings = timings;
            double kept = layout_step(&layout);
            assert_memory_equal(&fresh, &kept, sizeof fresh);
            assert_int_equal(peak, layout_peak(&layout));
            layout_release(&layout);
        }
    pen_timings_free(timings);
}

static void what_was_predicted_is_stored_in_the_plan(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    layout_init(&layout, eight_blocks, "preset:dgx-a100*1", 4, 1);
    layout_predict(&layout, &found);
    assert_true(pen_prediction_store(&found, layout.plan));
    assert_true(pen_prediction_store(&found, layout.plan));
    assert_true(layout.plan->predicted.is_there);
    expect_close(found.step_sec, layout.plan->predicted.step_sec, "step");
    assert_int_equal(4, layout.plan->predicted.num_memory);
    assert_memory_equal(found.memory, layout.plan->predicted.memory,
                        4 * sizeof *found.memory);
    pen_prediction_release(&found);
    layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_sum_up),
        cmocka_unit_test(parts_of_many_stages_sum_up),
        cmocka_unit_test(weights_of_all_ranks_are_the_models),
        cmocka_unit_test(dealt_out_experts_have_room_for_all),
        cmocka_unit_test(a_tied_matrix_is_there_once_for_each_holder),
        cmocka_unit_test(uneven_stages_have_their_own_memory),
        cmocka_unit_test(activations_follow_the_schedule),
        cmocka_unit_test(a_slower_device_lengthens_the_step),
        cmocka_unit_test(the_memory_of_the_smaller_device_is_the_limit),
        cmocka_unit_test(the_smallest_of_a_rank_is_its_limit),
        cmocka_unit_test(gathered_weights_stay_in_a_pipeline),
        cmocka_unit_test(gradients_stay_whole_in_a_pipeline_of_fsdp),
        cmocka_unit_test(a_limit_of_the_user_counts_when_it_is_lower),
        cmocka_unit_test(utilisation_is_of_the_peak_that_is_used),
        cmocka_unit_test(the_bound_of_1f1b_is_what_it_takes),
        cmocka_unit_test(generators_tell_what_they_make),
        cmocka_unit_test(every_schedule_is_predicted_or_refused),
        cmocka_unit_test(batches_that_do_not_wait_take_no_bubble),
        cmocka_unit_test(cyclic_ranks_have_the_whole_model),
        cmocka_unit_test(bad_plans_are_refused_by_the_rule),
        cmocka_unit_test(kept_schedules_change_nothing),
        cmocka_unit_test(what_was_predicted_is_stored_in_the_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
