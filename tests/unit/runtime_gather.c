/*
 * Layers that members gather from their owners: whatever a drawn course of
 * visits, forward and backward, a layer has the values of a network that keeps
 * all of them, and the bytes sent are those of a plain count.
 */
#include "support/engine.h"

#include "base/random.h"
#include "runtime/gather.h"
#include "support/seed.h"
#include "support/span.h"
#include "support/thread_group.h"

#include <pthread.h>
#include <string.h>

enum { BATCH = 1, SEQUENCE = 8, MOST_MEMBERS = 4, VISITS = 60, COURSES = 6 };

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":27,\"n_positions\":8,"
    "\"n_embd\":64,\"n_layer\":4,\"n_head\":4}",
    "{\"model_type\":\"llama\",\"vocab_size\":27,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5}"};

/* Layers in the order in which all members visit them. */
struct course {
    const struct pen_model *model;
    uint32_t num_members;
    uint32_t size; /* of the groups that have all values together */
    uint32_t layers[VISITS];
    bool forgets[VISITS]; /* values change ahead of the visit */
};

struct member {
    const struct course *course;
    struct pen_group *group;
    struct pen_engine *engine;
    struct pen_network *network;
    struct pen_reduction *reduction;
    struct pen_gather *gather;
    uint64_t num_sent; /* elements, by a plain count */
    const struct member *whole;
    size_t num_wrong;
    pthread_t thread;
};

static void make_network(struct member *it, bool has_values)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    it->engine = reference_engine(PEN_PRECISION_F32);
    const struct pen_network_options options = {
        .engine = it->engine,
        .model = it->course->model,
        .num_layers = it->course->model->num_layers,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .step_rows = (size_t)BATCH * SEQUENCE,
        .has_no_values = !has_values};
    if (pen_network_create(&options, &it->network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

/* What this member keeps for its owner, who will send it. */
static void forget_others(struct member *it)
{
    for (size_t i = 0; i < pen_network_num_parameters(it->network); i++) {
        size_t count;
        float *values = span_of_part(
            it->engine, pen_network_parameter(it->network, i)->parameter,
            PEN_PART_VALUE, &count);
        if (!pen_reduction_owns(it->reduction, i) &&
            pen_network_is_of_one_layer(it->network,
                                        pen_network_parameter(it->network, i)))
            memset(values, 0, count * sizeof *values);
    }
}

static void make_member(struct member *it)
{
    make_network(it, false);
    const struct pen_reduction_options sums = {.group = it->group,
                                               .network = it->network,
                                               .num_dealt = 1,
                                               .is_sharded = true,
                                               .gathered_by = it->course->size};
    assert_int_equal(pen_reduction_create(&sums, &it->reduction), PEN_OK);
    const struct pen_gather_options options = {.group = it->group,
                                               .network = it->network,
                                               .reduction = it->reduction,
                                               .size = it->course->size};
    assert_int_equal(pen_gather_create(&options, &it->gather, NULL), PEN_OK);
    assert_int_equal(pen_network_initialize(it->network, 7), PEN_OK);
    forget_others(it);
}

static void free_member(struct member *it)
{
    pen_gather_free(it->gather);
    pen_reduction_free(it->reduction);
    pen_network_free(it->network);
    pen_engine_free(it->engine);
}

/* One that two layers share is whole everywhere. */
static void count_values(struct member *it, uint32_t layer)
{
    for (size_t i = 0; i < pen_network_num_parameters(it->network); i++) {
        const struct pen_network_parameter *here =
            pen_network_parameter(it->network, i);
        const struct pen_network_parameter *there =
            pen_network_parameter(it->whole->network, i);
        size_t count, other;
        if (here->layer != layer)
            continue;
        const void *found =
            span_of_part(it->engine, here->parameter, PEN_PART_VALUE, &count);
        const void *expected = span_of_part(it->whole->engine, there->parameter,
                                            PEN_PART_VALUE, &other);
        it->num_wrong += count != other ||
                         memcmp(found, expected, count * sizeof(float)) != 0;
    }
}

struct coming {
    struct pen_gather *gather;
    uint32_t layer;
};

static bool has_come(void *context)
{
    struct coming *coming = context;
    pen_gather_poll(coming->gather);
    return pen_gather_has(coming->gather, coming->layer);
}

static bool is_done(void *context)
{
    struct coming *coming = context;
    pen_gather_poll(coming->gather);
    return pen_gather_is_done(coming->gather);
}

static void *run_member(void *context)
{
    struct member *it = context;
    const struct course *course = it->course;
    struct coming coming = {.gather = it->gather};
    pen_gather_spread(it->gather);
    pen_group_wait(it->group, is_done, &coming);
    for (int i = 0; i < VISITS; i++) {
        coming.layer = course->layers[i];
        if (course->forgets[i])
            pen_gather_forget(it->gather);
        pen_gather_want(it->gather, coming.layer);
        pen_group_wait(it->group, has_come, &coming);
        pen_gather_use(it->gather, coming.layer);
        uint32_t next = i + 1 < VISITS && !course->forgets[i + 1]
                            ? course->layers[i + 1]
                            : coming.layer;
        if (next + 1 == coming.layer || next == coming.layer + 1)
            pen_gather_want(it->gather, next);
        count_values(it, coming.layer);
    }
    pen_group_wait(it->group, is_done, &coming);
    return NULL;
}

/* Up or down by one mostly, as passes go; now and then anywhere. */
static void draw_course(struct pen_random *random, struct course *out)
{
    uint32_t num = out->model->num_layers;
    uint32_t at = 0;
    bool is_up = true;
    for (int i = 0; i < VISITS; i++) {
        out->layers[i] = at;
        out->forgets[i] = pen_random_below(random, 8) == 0;
        if (pen_random_below(random, 6) == 0)
            is_up = !is_up;
        if (pen_random_below(random, 10) == 0)
            at = (uint32_t)pen_random_below(random, num);
        else if (is_up ? at + 1 < num : at > 0)
            at = is_up ? at + 1 : at - 1;
        else
            is_up = !is_up;
    }
}

static bool is_near(uint32_t here, uint32_t layer)
{
    return here != PEN_NO_LAYER && (here + 1 == layer || layer + 1 == here);
}

/* Elements of a layer that a member keeps; NO_LAYER: of all that it owns. */
static uint64_t count_of(const struct member *it, uint32_t layer)
{
    uint64_t count = 0;
    for (size_t k = 0; k < pen_network_num_parameters(it->network); k++) {
        const struct pen_network_parameter *one =
            pen_network_parameter(it->network, k);
        bool is_wanted =
            layer == PEN_NO_LAYER
                ? pen_reduction_owns(it->reduction, k)
                : one->layer == layer && pen_reduction_keeps(it->reduction, k);
        if (is_wanted && !one->is_of_both_ends)
            count += (uint64_t)one->rows * one->columns;
    }
    return count;
}

/* Elements that a member sends: two neighbours stay. */
static void count_sent(struct member *it)
{
    const struct course *course = it->course;
    uint32_t here[2] = {PEN_NO_LAYER, PEN_NO_LAYER}; /* the last first */
    uint32_t num_groups = course->num_members / course->size;
    it->num_sent = (num_groups - 1) * count_of(it, PEN_NO_LAYER);
    for (int i = 0; i < VISITS; i++) {
        uint32_t layer = course->layers[i];
        if (course->forgets[i])
            here[0] = here[1] = PEN_NO_LAYER;
        if (here[0] == layer)
            continue;
        bool is_here = here[1] == layer;
        here[1] = is_near(here[0], layer)   ? here[0]
                  : is_near(here[1], layer) ? here[1]
                                            : PEN_NO_LAYER;
        here[0] = layer;
        if (!is_here)
            it->num_sent += (course->size - 1) * count_of(it, layer);
    }
}

static void run_course(const struct course *course)
{
    struct thread_world *world = thread_world_create(course->num_members);
    struct member members[MOST_MEMBERS];
    struct member whole = {.course = course};
    make_network(&whole, true);
    assert_int_equal(pen_network_initialize(whole.network, 7), PEN_OK);
    for (uint32_t i = 0; i < course->num_members; i++) {
        members[i] = (struct member){.course = course,
                                     .group = thread_world_group(world, i),
                                     .whole = &whole};
        make_member(&members[i]);
    }
    for (uint32_t i = 0; i < course->num_members; i++)
        assert_int_equal(0, pthread_create(&members[i].thread, NULL, run_member,
                                           &members[i]));
    for (uint32_t i = 0; i < course->num_members; i++)
        pthread_join(members[i].thread, NULL);
    for (uint32_t i = 0; i < course->num_members; i++) {
        count_sent(&members[i]);
        assert_int_equal(members[i].num_wrong, 0);
        assert_int_equal(members[i].group->num_bytes,
                         sizeof(float) * members[i].num_sent);
        free_member(&members[i]);
    }
    pen_network_free(whole.network);
    pen_engine_free(whole.engine);
    thread_world_free(world);
}

static void run_courses(uint64_t seed)
{
    struct pen_random random = {seed};
    for (uint32_t i = 0; i < COURSES; i++) {
        const char *config = configs[i % 2];
        uint32_t num_members = 2 + i / 2;
        bool has_groups = i % 2 == 1 && num_members % 2 == 0;
        struct course course = {.num_members = num_members,
                                .size = num_members / (has_groups ? 2 : 1)};
        struct pen_model *model = NULL;
        assert_int_equal(pen_model_parse(config, strlen(config), &model, NULL),
                         PEN_OK);
        course.model = model;
        draw_course(&random, &course);
        run_course(&course);
        pen_model_free(model);
    }
}

static void layers_come_from_their_owners(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t num_seeds = seeds_of("unit/runtime_gather", seeds);
    for (size_t i = 0; i < num_seeds; i++)
        run_courses(seeds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_come_from_their_owners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
