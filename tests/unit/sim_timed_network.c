/*
 * A timed network spends the seconds of its part, once and in the order of its
 * layers; whoever looks behind a layer sees them pass where that is asked for.
 */
#include "sim/timed_network.h"
#include "support/support.h"

#include "core/any_model.h"

#define LAYERS 4u
#define FIRST_LAYER 3u

/* Powers of two, whose quarters and sums are exact. */
static const struct pen_timed_part part = {.forward_sec = 8,
                                           .input_sec = 16,
                                           .weight_sec = 32,
                                           .step_sec = 4,
                                           .first_layer = FIRST_LAYER,
                                           .num_layers = LAYERS,
                                           .num_parameters = 1003};

struct clock {
    double now_sec;
    uint32_t num_spent;
    double behind[64]; /* a layer, in the order of the calls */
    uint32_t layers[64];
    uint32_t num_behind;
    double sent_at[8]; /* messages inside layers */
    double sent_bytes;
    uint32_t num_sent;
};

struct setting {
    struct pen_any_model model;
    struct pen_timed_engine *timed;
    struct pen_network *network;
    struct pen_microbatch microbatch;
    struct clock clock;
};

static void spend(void *context, double seconds)
{
    struct clock *clock = context;
    assert_true(seconds > 0);
    clock->now_sec += seconds;
    clock->num_spent++;
}

static void exchange(void *context, const struct pen_message_round *round)
{
    struct clock *clock = context;
    assert_true(clock->num_sent < 8);
    clock->sent_at[clock->num_sent++] = clock->now_sec;
    clock->sent_bytes += (double)(round->num_parts * round->part_bytes[0]);
}

static void look(void *context, uint32_t layer)
{
    struct clock *clock = context;
    assert_true(clock->num_behind < 64);
    clock->layers[clock->num_behind] = layer;
    clock->behind[clock->num_behind++] = clock->now_sec;
}

static void begin_part(struct setting *setting,
                       const struct pen_timed_part *made)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *setting = (struct setting){.network = NULL};
    assert_int_equal(PEN_OK, pen_timed_engine_create(&setting->timed));
    pen_timed_engine_set_spend(setting->timed, spend, &setting->clock);
    pen_timed_engine_set_exchange(setting->timed, exchange);
    if (pen_any_model_load(&setting->model, "preset:gpt2", &why) != PEN_OK ||
        pen_timed_network_create(setting->timed, setting->model.decoder, made,
                                 &setting->network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_network_set_progress(setting->network, look, &setting->clock);
    pen_text_release(&why);
}

static void begin(struct setting *setting)
{
    begin_part(setting, &part);
}

static void end(struct setting *setting)
{
    pen_network_free(setting->network);
    pen_engine_free(pen_timed_engine(setting->timed));
    pen_any_model_release(&setting->model);
}

/* What the clock showed behind each layer of the pass that ran last. */
static void expect_behind(struct setting *setting, const double *seconds,
                          bool is_forward)
{
    const struct clock *clock = &setting->clock;
    assert_int_equal(LAYERS, clock->num_behind);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_int_equal(FIRST_LAYER + (is_forward ? i : LAYERS - 1 - i),
                         clock->layers[i]);
        expect_close(seconds[i], clock->behind[i], "behind a layer");
    }
    setting->clock = (struct clock){.now_sec = 0};
}

static void passes_spend_the_seconds_of_their_part(void **state)
{
    (void)state;
    struct setting setting;
    begin(&setting);
    static const double forward[LAYERS] = {0, 0, 0, 8};
    static const double input[LAYERS] = {0, 0, 0, 16};
    static const double weight[LAYERS] = {0, 0, 0, 32};
    static const double both[LAYERS] = {0, 0, 0, 48};
    pen_network_forward(setting.network, &setting.microbatch, NULL, NULL, NULL);
    assert_int_equal(1, setting.clock.num_spent);
    expect_behind(&setting, forward, true);
    pen_network_backward_input(setting.network, &setting.microbatch, NULL, NULL,
                               NULL, NULL);
    assert_int_equal(1, setting.clock.num_spent);
    expect_behind(&setting, input, false);
    pen_network_backward_weight(setting.network, &setting.microbatch, NULL,
                                NULL);
    assert_int_equal(1, setting.clock.num_spent);
    expect_behind(&setting, weight, false);
    pen_network_backward(setting.network, &setting.microbatch, NULL, NULL,
                         NULL);
    expect_behind(&setting, both, false);
    end(&setting);
}

static void where_it_is_fine_each_layer_spends_its_own(void **state)
{
    (void)state;
    struct setting setting;
    begin(&setting);
    static const double forward[LAYERS] = {2, 4, 6, 8};
    static const double both[LAYERS] = {12, 24, 36, 48};
    pen_timed_engine_begin(setting.timed, 1, true);
    pen_network_forward(setting.network, &setting.microbatch, NULL, NULL, NULL);
    assert_int_equal(LAYERS, setting.clock.num_spent);
    expect_behind(&setting, forward, true);
    pen_network_backward(setting.network, &setting.microbatch, NULL, NULL,
                         NULL);
    expect_behind(&setting, both, false);
    end(&setting);
}

/* The second layer sends twice forward, the third once backward. */
static void messages_stand_behind_equal_shares(void **state)
{
    (void)state;
    static const struct pen_layer_messages messages[LAYERS] = {
        [1] = {.forward = {2,
                           {{PEN_WAY_DISTANCES, 1, {100}, 0, 0.5},
                            {PEN_WAY_THERE, 20, {5}, 0, 0.5}}}},
        [2] = {.input = {1, {{PEN_WAY_BACK, 7, {1}, 0, 0.25}}},
               .weight = {1, {{PEN_WAY_BACK, 4, {2}, 0, 0.5}}},
               .copies = {1, {{PEN_WAY_DISTANCES, 1, {3}, 2, 0.25}}}}};
    struct pen_timed_part sending = part;
    struct setting setting;
    sending.messages = messages;
    begin_part(&setting, &sending);
    pen_network_forward(setting.network, &setting.microbatch, NULL, NULL, NULL);
    assert_int_equal(2, setting.clock.num_sent);
    expect_close(200, setting.clock.sent_bytes, "bytes");
    expect_close(3, setting.clock.sent_at[0], "the first layer and a half");
    expect_close(4.5, setting.clock.sent_at[1], "an addition later");
    expect_close(9, setting.clock.now_sec, "forward and two additions");
    setting.clock = (struct clock){.now_sec = 0};
    pen_network_backward_input(setting.network, &setting.microbatch, NULL, NULL,
                               NULL, NULL);
    assert_int_equal(1, setting.clock.num_sent);
    expect_close(8, setting.clock.sent_at[0], "two layers");
    expect_close(16.25, setting.clock.now_sec, "input and an addition");
    setting.clock = (struct clock){.now_sec = 0};
    pen_network_backward_weight(setting.network, &setting.microbatch, NULL,
                                NULL);
    assert_int_equal(1, setting.clock.num_sent);
    expect_close(16, setting.clock.sent_at[0], "two layers' weights");
    expect_close(32.5, setting.clock.now_sec, "weights and a copy");
    setting.clock = (struct clock){.now_sec = 0};
    pen_network_finish_gradients(setting.network);
    assert_int_equal(1, setting.clock.num_sent);
    expect_close(0.25, setting.clock.now_sec, "an addition");
    end(&setting);
}

static void a_factor_is_of_the_operation_that_begins(void **state)
{
    (void)state;
    struct setting setting;
    begin(&setting);
    static const double slow[LAYERS] = {0, 0, 0, 20};
    static const double plain[LAYERS] = {0, 0, 0, 8};
    pen_timed_engine_begin(setting.timed, 2.5, false);
    pen_network_forward(setting.network, &setting.microbatch, NULL, NULL, NULL);
    expect_behind(&setting, slow, true);
    pen_timed_engine_begin(setting.timed, 1, false);
    pen_network_forward(setting.network, &setting.microbatch, NULL, NULL, NULL);
    expect_behind(&setting, plain, true);
    end(&setting);
}

static void what_is_owed_is_paid_once(void **state)
{
    (void)state;
    struct setting setting;
    begin(&setting);
    pen_timed_engine_owe(setting.timed, 3);
    pen_timed_engine_pay(setting.timed, false);
    assert_int_equal(0, setting.clock.num_spent);
    pen_timed_engine_owe(setting.timed, 4);
    pen_timed_engine_pay(setting.timed, true);
    pen_timed_engine_pay(setting.timed, true);
    assert_int_equal(1, setting.clock.num_spent);
    expect_close(7, setting.clock.now_sec, "paid");
    pen_timed_engine_begin(setting.timed, 1, true);
    pen_timed_engine_owe(setting.timed, 5);
    pen_timed_engine_pay(setting.timed, false);
    assert_int_equal(2, setting.clock.num_spent);
    expect_close(12, setting.clock.now_sec, "paid behind a layer");
    end(&setting);
}

static void the_optimizer_spends_its_seconds(void **state)
{
    (void)state;
    struct setting setting;
    const struct pen_adamw adamw = {.learning_rate = 1};
    begin(&setting);
    struct pen_engine *engine = pen_timed_engine(setting.timed);
    for (size_t i = 0; i < pen_network_num_parameters(setting.network); i++)
        engine->ops->adamw_step(
            engine, pen_network_parameter(setting.network, i)->parameter,
            &adamw);
    expect_close(4, setting.clock.now_sec, "steps of all parameters");
    end(&setting);
}

/* One per layer; every element is in one of them. */
static void parameters_have_elements_and_no_memory(void **state)
{
    (void)state;
    struct setting setting;
    struct pen_network_sizes sizes;
    begin(&setting);
    size_t elements = 0;
    assert_int_equal(LAYERS, pen_network_num_parameters(setting.network));
    for (uint32_t i = 0; i < LAYERS; i++) {
        const struct pen_network_parameter *parameter =
            pen_network_parameter(setting.network, i);
        assert_int_equal(FIRST_LAYER + i, parameter->layer);
        assert_in_range(parameter->columns, 250, 251);
        elements += parameter->rows * parameter->columns;
    }
    assert_int_equal(1003, elements);
    pen_network_sizes(setting.network, &sizes);
    assert_int_equal(0, sizes.stash);
    assert_int_equal(0, sizes.hold);
    end(&setting);
}

static void experts_are_parameters_of_their_own(void **state)
{
    (void)state;
    struct pen_timed_part dealt = part;
    const struct pen_adamw adamw = {.learning_rate = 1};
    struct setting setting;
    dealt.num_experts = 402;
    dealt.expert_ranks = 2;
    begin_part(&setting, &dealt);
    struct pen_engine *engine = pen_timed_engine(setting.timed);
    size_t elements[3] = {0};
    assert_int_equal(2 * LAYERS, pen_network_num_parameters(setting.network));
    for (size_t i = 0; i < 2 * LAYERS; i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(setting.network, i);
        assert_int_equal(FIRST_LAYER + i / 2, it->layer);
        assert_int_equal(1 + i % 2, it->num_dealt);
        elements[it->num_dealt] += pen_network_count(it);
        engine->ops->adamw_step(engine, it->parameter, &adamw);
    }
    assert_int_equal(1003, elements[1]);
    assert_int_equal(402, elements[2]);
    assert_int_equal(402 * sizeof(float),
                     pen_network_dealt_bytes(setting.network));
    expect_close(4, setting.clock.now_sec, "steps of all parameters");
    end(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_spend_the_seconds_of_their_part),
        cmocka_unit_test(where_it_is_fine_each_layer_spends_its_own),
        cmocka_unit_test(messages_stand_behind_equal_shares),
        cmocka_unit_test(a_factor_is_of_the_operation_that_begins),
        cmocka_unit_test(what_is_owed_is_paid_once),
        cmocka_unit_test(the_optimizer_spends_its_seconds),
        cmocka_unit_test(parameters_have_elements_and_no_memory),
        cmocka_unit_test(experts_are_parameters_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
