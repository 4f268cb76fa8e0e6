/*
 * Links of a simulated cluster have the figures that the planner reckons with,
 * are shared by what passes them, and by nothing else.
 */
#include "support/simgrid.h"
#include "support/support.h"

#include "base/random.h"
#include "planner/collective.h"
#include "sim/mapping.h"
#include "sim/platform.h"

#include <simgrid/host.h>
#include <simgrid/link.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 512u

#define CARD                                                                   \
    "    flops: {f32: 1 TFLOP/s}\n"                                            \
    "    memory: 1 GB\n"                                                       \
    "    bandwidth: 1 TB/s\n"
#define CONSTANTS                                                              \
    "    constants: {link_share: 1, link_half: 0, link_sec: 1e-5, "            \
    "message_share: 0.5, network_share: 0.8, network_sec: 1e-4}\n"
#define HEAD(count)                                                            \
    "name: test\ndevices:\n  - kind: card\n    count: " count                  \
    "\n" CARD CONSTANTS "links:\n"
#define NODE "  - {level: node, size: 8, bandwidth: 100 GB/s, latency: 1 us}\n"

static const char one_level[] =
    HEAD("64") "  - {level: all, bandwidth: 10 GB/s, latency: 3 us}\n";
static const char two_levels[] = HEAD("512") NODE
    "  - {level: cluster, bandwidth: 10 GB/s, latency: 2 us}\n";
static const char three_levels[] = HEAD("512") NODE
    "  - {level: rack, size: 64, bandwidth: 10 GB/s, latency: 2 us}\n"
    "  - {level: cluster, bandwidth: 2 GB/s, latency: 7 us}\n";
static const char four_levels[] = HEAD("512") NODE
    "  - {level: rack, size: 32, bandwidth: 10 GB/s, latency: 2 us}\n"
    "  - {level: pod, size: 128, bandwidth: 5 GB/s, latency: 4 us}\n"
    "  - {level: cluster, bandwidth: 10 MB/s, latency: 3 us}\n";
/* Devices 0 to 19 of one kind, the others of a slower one. */
static const char two_kinds[] =
    "name: test\ndevices:\n  - kind: card\n    count: 20\n" CARD CONSTANTS
    "  - kind: old card\n    count: 44\n" CARD
    "    constants: {link_share: 1, link_half: 0, link_sec: 3e-5, "
    "message_share: 0.25, network_share: 0.4, network_sec: 5e-4}\n"
    "links:\n" NODE "  - {level: cluster, bandwidth: 10 GB/s, latency: 2 us}\n";
static const char matrix[] =
    HEAD("8") "  - {level: all, bandwidth: 10 GB/s, latency: 3 us}\n"
              "between:\n  bandwidth: [[1 GB/s]]\n  latency: [[1 us]]\n";

/* One pipeline of so many ranks, each a device. */
static struct pen_mapping pipeline_of(uint32_t num_ranks)
{
    return (struct pen_mapping){.kind = PEN_MAPPING_PIPELINE_FIRST,
                                .num_replicas = 1,
                                .num_rows = num_ranks,
                                .lockstep = 1};
}

struct setting {
    struct pen_cluster *cluster;
    uint64_t devices[MAX_RANKS];
    struct pen_platform_options options;
};

static void begin(struct setting *setting, const char *text,
                  const struct pen_mapping *mapping)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_parse(text, strlen(text), &setting->cluster, &why) !=
            PEN_OK ||
        pen_mapping_devices(mapping, setting->devices, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    setting->options = (struct pen_platform_options){
        .cluster = setting->cluster,
        .devices = setting->devices,
        .num_ranks = mapping->num_replicas * mapping->num_rows,
        .lockstep = mapping->lockstep};
}

static void end(struct setting *setting)
{
    pen_cluster_free(setting->cluster);
}

/* ---- ways ---- */

static sg_host_t host_of(uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%u", rank);
    sg_host_t host = sg_host_by_name(name);
    require(host != NULL, "there is no %s", name);
    return host;
}

static void require_close(double expected, double found, const char *what,
                          uint32_t from, uint32_t to)
{
    require(fabs(expected - found) <= 1e-9 * fabs(expected),
            "%s from rank %u to %u is %.12g, expected %.12g", what, from, to,
            found, expected);
}

static void compare_ways(const void *context)
{
    const struct pen_platform_options *options = context;
    make_platform(options);
    require(sg_host_count() == options->num_ranks, "%zu hosts",
            sg_host_count());
    struct pen_random random = {options->num_ranks};
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t from = pen_random_below(&random, options->num_ranks);
        uint32_t to =
            i % 10 == 0 ? from : pen_random_below(&random, options->num_ranks);
        struct pen_platform_way way = pen_platform_way(options, from, to);
        require_close(way.latency_sec,
                      sg_host_get_route_latency(host_of(from), host_of(to)),
                      "latency", from, to);
        require_close(way.bytes_per_sec,
                      sg_host_get_route_bandwidth(host_of(from), host_of(to)),
                      "bandwidth", from, to);
    }
}

static void expect_ways(const char *text, const struct pen_mapping *mapping)
{
    struct setting setting;
    begin(&setting, text, mapping);
    in_simgrid(compare_ways, &setting.options);
    end(&setting);
}

static void ways_are_what_is_said_of_them(void **state)
{
    (void)state;
    struct pen_mapping mapping = {.kind = PEN_MAPPING_REPLICAS_FIRST,
                                  .num_replicas = 8,
                                  .num_rows = 8,
                                  .lockstep = 1,
                                  .node_size = 8,
                                  .seed = 3};
    expect_ways(one_level, &mapping);
    expect_ways(two_kinds, &mapping);
    for (mapping.kind = 0; mapping.kind < PEN_MAPPINGS; mapping.kind++) {
        for (mapping.lockstep = 1; mapping.lockstep <= 8;
             mapping.lockstep *= 2) {
            expect_ways(two_levels, &mapping);
            expect_ways(three_levels, &mapping);
            expect_ways(four_levels, &mapping);
        }
    }
}

static void a_rank_may_be_alone(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(1);
    expect_ways(one_level, &mapping);
    expect_ways(four_levels, &mapping);
}

static struct pen_platform_way way_between(struct setting *setting,
                                           uint64_t one, uint64_t other)
{
    setting->devices[0] = one;
    setting->devices[1] = other;
    return pen_platform_way(&setting->options, 0, 1);
}

/* In a node, and between neighbours of nodes, as a planner has it. */
static void ways_are_those_of_the_planner(void **state)
{
    (void)state;
    struct pen_mapping pair = pipeline_of(2);
    static const char *const texts[] = {one_level, two_levels, two_levels};
    static const uint64_t distances[] = {1, 1, 8};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct setting setting;
        begin(&setting, texts[i], &pair);
        struct pen_platform_way way = way_between(&setting, 0, distances[i]);
        const struct pen_device *device = &setting.cluster->groups[0].device;
        expect_close(pen_message_latency(setting.cluster, device, distances[i]),
                     way.latency_sec, "latency");
        expect_close(
            pen_message_bandwidth(setting.cluster, device, distances[i]),
            way.bytes_per_sec, "bandwidth");
        end(&setting);
    }
}

static void expect_way(const char *text, uint64_t one, uint64_t other,
                       struct pen_platform_way expected)
{
    struct pen_mapping pair = pipeline_of(2);
    struct setting setting;
    begin(&setting, text, &pair);
    struct pen_platform_way way = way_between(&setting, one, other);
    expect_close(expected.latency_sec, way.latency_sec, "latency");
    expect_close(expected.bytes_per_sec, way.bytes_per_sec, "bandwidth");
    end(&setting);
}

/* By hand: begins of 1e-5 and 1e-4, shares of 0.5 and 0.8. */
static void ways_by_hand(void **state)
{
    (void)state;
    expect_way(three_levels, 0, 7, (struct pen_platform_way){6e-6, 50e9});
    expect_way(three_levels, 0, 8, (struct pen_platform_way){52e-6, 8e9});
    expect_way(three_levels, 0, 64, (struct pen_platform_way){57e-6, 8e9});
    /* 128 devices at 8 MB/s are less than one at 8 GB/s. */
    expect_way(four_levels, 0, 128,
               (struct pen_platform_way){54e-6, 128 * 8e6});
    /* Ends of different kinds: the slower rate, the mean latency. */
    expect_way(two_kinds, 16, 20, (struct pen_platform_way){11e-6, 25e9});
    expect_way(two_kinds, 0, 63, (struct pen_platform_way){152e-6, 4e9});
}

/* ---- sharing ---- */

#define MESSAGE 8e9 /* bytes; a second at a network link's rate */

struct race {
    const struct pen_platform_options *options;
    struct flow flows[80];
    uint32_t count;
    double seconds; /* that all of them take, but for latencies */
};

static void run_race(const void *context)
{
    struct race race = *(const struct race *)context;
    make_platform(race.options);
    run_flows(race.flows, race.count);
    for (uint32_t i = 0; i < race.count; i++)
        require(fabs(race.flows[i].end_sec - race.seconds) < 1e-3,
                "message %u from %u to %u takes %g s, expected %g", i,
                race.flows[i].from, race.flows[i].to, race.flows[i].end_sec,
                race.seconds);
}

static void expect_race(struct race *race, double seconds)
{
    race->seconds = seconds;
    in_simgrid(run_race, race);
    race->count = 0;
}

static void add_flow(struct race *race, uint32_t from, uint32_t to,
                     double bytes)
{
    race->flows[race->count++] = (struct flow){from, to, bytes, 0};
}

static void links_are_shared_by_what_passes_them(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(512);
    struct setting setting;
    begin(&setting, three_levels, &mapping);
    struct race race = {.options = &setting.options};
    /* Alone. */
    add_flow(&race, 0, 8, MESSAGE);
    expect_race(&race, 1);
    /* Two out of one rank, two into one rank. */
    add_flow(&race, 0, 8, MESSAGE);
    add_flow(&race, 0, 16, MESSAGE);
    expect_race(&race, 2);
    add_flow(&race, 8, 0, MESSAGE);
    add_flow(&race, 16, 0, MESSAGE);
    expect_race(&race, 2);
    /* In a node likewise: 50 GB/s. */
    add_flow(&race, 0, 1, 50e9);
    add_flow(&race, 0, 2, 50e9);
    expect_race(&race, 2);
    end(&setting);
}

static void other_links_are_not_shared(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(512);
    struct setting setting;
    begin(&setting, three_levels, &mapping);
    struct race race = {.options = &setting.options};
    /* Both directions. */
    add_flow(&race, 0, 8, MESSAGE);
    add_flow(&race, 8, 0, MESSAGE);
    expect_race(&race, 1);
    /* All ranks of a node to another node. */
    for (uint32_t i = 0; i < 8; i++)
        add_flow(&race, i, 8 + i, MESSAGE);
    expect_race(&race, 1);
    /* Inside the node and out of it. */
    add_flow(&race, 0, 8, MESSAGE);
    add_flow(&race, 0, 1, 50e9);
    expect_race(&race, 1);
    /* Pairs in a node. */
    for (uint32_t i = 0; i < 8; i += 2)
        add_flow(&race, i, i + 1, 50e9);
    expect_race(&race, 1);
    end(&setting);
}

/* 64 devices of a rack at 1.6 GB/s are 12.8 links of 8 GB/s. */
static void a_rack_shares_what_leads_out_of_it(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(512);
    struct setting setting;
    begin(&setting, three_levels, &mapping);
    struct race race = {.options = &setting.options};
    for (uint32_t i = 0; i < 12; i++)
        add_flow(&race, i, 64 + i, MESSAGE);
    expect_race(&race, 1);
    for (uint32_t i = 0; i < 64; i++)
        add_flow(&race, i, 64 + i, MESSAGE);
    expect_race(&race, 5);
    end(&setting);
    /* The same with ranks of four devices: 16 of them fill the rack. */
    mapping.num_rows = 128;
    mapping.lockstep = 4;
    begin(&setting, three_levels, &mapping);
    for (uint32_t i = 0; i < 16; i++)
        add_flow(&race, i, 16 + i, MESSAGE);
    expect_race(&race, 5);
    end(&setting);
}

/* ---- networks of SimGrid's ---- */

struct network_case {
    struct pen_platform_options options;
    uint32_t near[2]; /* ranks on leaves that are as near as can be */
};

static void walk_network(const void *context)
{
    const struct network_case *all = context;
    const struct pen_cluster *cluster = all->options.cluster;
    make_platform(&all->options);
    uint32_t count = all->options.num_ranks;
    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            double rate =
                sg_host_get_route_bandwidth(host_of(from), host_of(to));
            require(rate > 0 && isfinite(rate), "from %u to %u goes %g", from,
                    to, rate);
        }
    }
    double begin_sec = cluster->num_levels == 1 ? 5e-6 : 5e-5;
    const struct pen_link_level *last =
        &cluster->levels[cluster->num_levels - 1];
    require_close(
        last->latency_sec + begin_sec,
        sg_host_get_route_latency(host_of(all->near[0]), host_of(all->near[1])),
        "latency", all->near[0], all->near[1]);
}

static void expect_network(const char *text, const char *network,
                           struct pen_mapping mapping, uint32_t near)
{
    struct setting setting;
    struct pen_text why = PEN_TEXT_EMPTY;
    begin(&setting, text, &mapping);
    struct network_case all = {.options = setting.options, .near = {0, near}};
    if (pen_sim_topology_read(network, &all.options.topology, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    in_simgrid(walk_network, &all);
    end(&setting);
}

static void networks_reach_from_everywhere_to_everywhere(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(64);
    /* Eight nodes of eight. */
    expect_network(two_levels, "torus:4x2", mapping, 8);
    expect_network(two_levels, "torus:3x3", mapping, 8);
    expect_network(three_levels, "fat-tree:2;4,2;1,2;1,1", mapping, 8);
    expect_network(two_levels, "dragonfly:2,1;2,1;2,1;2", mapping, 8);
    /* 64 leaves; one rank on each node; nodes in two. */
    expect_network(one_level, "torus:4x4x4", mapping, 1);
    mapping.lockstep = 8;
    expect_network(two_levels, "torus:4x4x4", mapping, 1);
    mapping.lockstep = 4;
    expect_network(two_levels, "fat-tree:2;4,8;1,2;1,1", mapping, 2);
}

/* A node's ranks together have its link to themselves. */
static void a_leaf_has_the_bandwidth_of_its_ranks(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(64);
    struct setting setting;
    struct pen_text why = PEN_TEXT_EMPTY;
    begin(&setting, two_levels, &mapping);
    assert_int_equal(PEN_OK, pen_sim_topology_read(
                                 "torus:8", &setting.options.topology, &why));
    struct race race = {.options = &setting.options};
    for (uint32_t i = 0; i < 8; i++)
        add_flow(&race, i, 8 + i, MESSAGE);
    expect_race(&race, 1);
    /* Two nodes whose messages pass the same link. */
    for (uint32_t i = 0; i < 16; i++)
        add_flow(&race, i, 16 + i, MESSAGE);
    expect_race(&race, 2);
    end(&setting);
}

/* ---- refusals ---- */

struct refusal {
    struct pen_platform_options options;
    const char *part;
};

static void require_refusal(const void *context)
{
    const struct refusal *refusal = context;
    struct pen_text why = PEN_TEXT_EMPTY;
    require(pen_platform_make(&refusal->options, &why) == PEN_INVALID,
            "it is made");
    require(strstr(pen_text_string(&why), refusal->part) != NULL,
            "'%s' does not have '%s'", pen_text_string(&why), refusal->part);
    pen_text_release(&why);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct pen_mapping mapping = pipeline_of(64);
    struct setting setting;
    struct pen_text why = PEN_TEXT_EMPTY;
    begin(&setting, two_levels, &mapping);
    struct refusal refusal = {setting.options, "7 leaves"};
    assert_int_equal(PEN_OK, pen_sim_topology_read(
                                 "torus:7", &refusal.options.topology, &why));
    in_simgrid(require_refusal, &refusal);
    refusal =
        (struct refusal){setting.options, "device 512, but there are only 512"};
    setting.devices[5] = 512;
    in_simgrid(require_refusal, &refusal);
    refusal.part = "both on device 3";
    setting.devices[5] = 3;
    in_simgrid(require_refusal, &refusal);
    end(&setting);
    mapping.num_rows = 8;
    begin(&setting, matrix, &mapping);
    refusal = (struct refusal){setting.options, "matrix"};
    in_simgrid(require_refusal, &refusal);
    end(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_by_hand),
        cmocka_unit_test(ways_are_those_of_the_planner),
        cmocka_unit_test(ways_are_what_is_said_of_them),
        cmocka_unit_test(a_rank_may_be_alone),
        cmocka_unit_test(links_are_shared_by_what_passes_them),
        cmocka_unit_test(other_links_are_not_shared),
        cmocka_unit_test(a_rack_shares_what_leads_out_of_it),
        cmocka_unit_test(networks_reach_from_everywhere_to_everywhere),
        cmocka_unit_test(a_leaf_has_the_bandwidth_of_its_ranks),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
