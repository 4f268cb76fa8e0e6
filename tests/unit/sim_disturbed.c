/*
 * Disturbances of links and hosts do to messages what they say; names that are
 * not there are refused.
 */
#include "support/simgrid.h"
#include "support/support.h"

#include "sim/disturbance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_RANKS 32u
#define MESSAGE 8e9 /* bytes; a second at a network link's rate */

/* Nodes of 8 at 80 GB/s, 8 GB/s between them; no latencies. */
static const char text[] =
    "name: test\n"
    "devices:\n"
    "  - kind: card\n"
    "    count: 32\n"
    "    flops: {f32: 1 TFLOP/s}\n"
    "    memory: 1 GB\n"
    "    bandwidth: 1 TB/s\n"
    "    constants: {link_sec: 0, message_share: 1, network_share: 1, "
    "network_sec: 0}\n"
    "links:\n"
    "  - {level: node, size: 8, bandwidth: 80 GB/s, latency: 0}\n"
    "  - {level: cluster, bandwidth: 8 GB/s, latency: 0}\n";

struct scene {
    struct pen_cluster *cluster;
    uint64_t devices[NUM_RANKS];
    struct pen_disturbances disturbances;
    struct flow flows[4];
    double seconds[4]; /* when they arrive; -1: never */
    uint32_t count;
    const char *refusal; /* what start() says; NULL: nothing */
};

static struct scene *begin(void)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_non_null(scene);
    if (pen_cluster_parse(text, sizeof text - 1, &scene->cluster, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    for (uint32_t i = 0; i < NUM_RANKS; i++)
        scene->devices[i] = i;
    return scene;
}

static void expect_flow(struct scene *scene, uint32_t from, uint32_t to,
                        double bytes, double seconds)
{
    scene->flows[scene->count] = (struct flow){from, to, bytes, 0};
    scene->seconds[scene->count++] = seconds;
}

static void play(const void *context)
{
    struct scene scene = *(const struct scene *)context;
    struct pen_platform_options options = {.cluster = scene.cluster,
                                           .devices = scene.devices,
                                           .num_ranks = NUM_RANKS};
    struct pen_text why = PEN_TEXT_EMPTY;
    make_platform(&options);
    pen_status status = pen_disturbances_start(&scene.disturbances, &why);
    const char *words = pen_text_string(&why);
    if (scene.refusal != NULL) {
        require(status == PEN_INVALID, "it is not refused");
        require(strstr(words, scene.refusal) != NULL, "'%s' has no '%s'", words,
                scene.refusal);
        return;
    }
    require(status == PEN_OK, "refused: %s", words);
    run_flows(scene.flows, scene.count);
    for (uint32_t i = 0; i < scene.count; i++)
        require(fabs(scene.flows[i].end_sec - scene.seconds[i]) < 1e-3,
                "message %u arrives at %g, expected %g", i,
                scene.flows[i].end_sec, scene.seconds[i]);
}

/* Plays it and frees it. */
static void finish(struct scene *scene)
{
    in_simgrid(play, scene);
    pen_cluster_free(scene->cluster);
    free(scene);
}

static void nothing_changes_nothing(void **state)
{
    (void)state;
    struct scene *scene = begin();
    expect_flow(scene, 0, 8, MESSAGE, 1);
    expect_flow(scene, 1, 2, 80e9, 1);
    finish(scene);
}

static void a_slow_link_is_slow_both_ways(void **state)
{
    (void)state;
    struct scene *scene = begin();
    assert_int_equal(PEN_OK,
                     pen_disturbances_add_slow_link(&scene->disturbances,
                                                    "rank-9.network=4", NULL));
    expect_flow(scene, 9, 0, MESSAGE, 4);
    expect_flow(scene, 1, 9, MESSAGE, 4);
    expect_flow(scene, 8, 2, MESSAGE, 1);
    expect_flow(scene, 9, 10, 80e9, 1);
    finish(scene);
}

static void one_direction_has_a_name(void **state)
{
    (void)state;
    struct scene *scene = begin();
    assert_int_equal(
        PEN_OK, pen_disturbances_add_slow_link(&scene->disturbances,
                                               "rank-9.network_UP=4", NULL));
    expect_flow(scene, 9, 0, MESSAGE, 4);
    expect_flow(scene, 1, 9, MESSAGE, 1);
    finish(scene);
}

static void a_rank_has_all_its_links(void **state)
{
    (void)state;
    struct scene *scene = begin();
    assert_int_equal(PEN_OK, pen_disturbances_add_slow_link(
                                 &scene->disturbances, "rank-9=2", NULL));
    expect_flow(scene, 9, 0, MESSAGE, 2);
    expect_flow(scene, 9, 10, 80e9, 2);
    expect_flow(scene, 11, 12, 80e9, 1);
    finish(scene);
}

static void what_fails_fails_at_its_time(void **state)
{
    (void)state;
    struct scene *scene = begin();
    assert_int_equal(PEN_OK, pen_disturbances_add_failure(&scene->disturbances,
                                                          "rank-0@0.5", NULL));
    expect_flow(scene, 9, 0, MESSAGE, -1);
    expect_flow(scene, 10, 1, MESSAGE, 1);
    /* Before it fails. */
    expect_flow(scene, 0, 3, 8e9, 0.1);
    finish(scene);
}

/* Half of the link while it lasts; messages end when the others do. */
static void others_take_their_share(void **state)
{
    (void)state;
    struct scene *scene = begin();
    assert_int_equal(PEN_OK, pen_disturbances_add_background(
                                 &scene->disturbances, "9-1:1GB", NULL));
    expect_flow(scene, 9, 0, MESSAGE, 2);
    expect_flow(scene, 10, 2, MESSAGE, 1);
    finish(scene);
}

static void the_last_host_must_stay(void **state)
{
    (void)state;
    struct scene *scene = begin();
    for (uint32_t i = 0; i < NUM_RANKS; i++) {
        char words[32];
        snprintf(words, sizeof words, "rank-%u@1", i);
        assert_int_equal(PEN_OK, pen_disturbances_add_failure(
                                     &scene->disturbances, words, NULL));
    }
    scene->refusal = "must not fail";
    finish(scene);
}

static void names_must_be_there(void **state)
{
    (void)state;
    static const struct {
        pen_status (*add)(struct pen_disturbances *to, const char *words,
                          struct pen_text *why);
        const char *words;
        const char *refusal;
    } cases[] = {
        {pen_disturbances_add_slow_rank, "32=2", "no rank 32"},
        {pen_disturbances_add_slow_link, "rank-32=2", "no link rank-32"},
        {pen_disturbances_add_slow_link, "rank-1.rack=2",
         "no link rank-1.rack"},
        {pen_disturbances_add_failure, "rank-32@1", "no host or link rank-32"},
        {pen_disturbances_add_failure, "node-1@1", "no host or link node-1"},
        {pen_disturbances_add_background, "1-32:1", "no rank 32"},
        {pen_disturbances_add_background, "32-1:1", "no rank 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = begin();
        assert_int_equal(
            PEN_OK, cases[i].add(&scene->disturbances, cases[i].words, NULL));
        scene->refusal = cases[i].refusal;
        finish(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes_nothing),
        cmocka_unit_test(a_slow_link_is_slow_both_ways),
        cmocka_unit_test(one_direction_has_a_name),
        cmocka_unit_test(a_rank_has_all_its_links),
        cmocka_unit_test(what_fails_fails_at_its_time),
        cmocka_unit_test(others_take_their_share),
        cmocka_unit_test(the_last_host_must_stay),
        cmocka_unit_test(names_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
