/* Links carried the bytes of the messages that passed them, and no others. */
#include "sim/link_load.h"
#include "support/simgrid.h"
#include "support/support.h"

#include <string.h>

/* Two nodes of two ranks. */
static const char cluster_text[] =
    "name: test\ndevices:\n  - kind: card\n    count: 4\n"
    "    flops: {f32: 1 TFLOP/s}\n    memory: 1 GB\n    bandwidth: 1 TB/s\n"
    "    constants: {link_share: 1, link_half: 0, link_sec: 1e-5, "
    "message_share: 0.5, network_share: 0.8, network_sec: 1e-4}\n"
    "links:\n"
    "  - {level: node, size: 2, bandwidth: 100 GB/s, latency: 1 us}\n"
    "  - {level: cluster, bandwidth: 10 GB/s, latency: 2 us}\n";

static void make_nodes(void)
{
    static const uint64_t devices[] = {0, 1, 2, 3};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_platform_options options = {
        .devices = devices, .num_ranks = 4, .lockstep = 1};
    struct pen_cluster *cluster = NULL;
    require(pen_cluster_parse(cluster_text, strlen(cluster_text), &cluster,
                              &why) == PEN_OK,
            "%s", pen_text_string(&why));
    options.cluster = cluster;
    make_platform(&options);
    pen_cluster_free(cluster);
}

static void require_bytes(const struct pen_sim_link *links, uint32_t num,
                          const char *name, double bytes)
{
    for (uint32_t i = 0; i < num; i++)
        if (strcmp(links[i].name, name) == 0) {
            require(links[i].bytes == bytes, "%s: %g bytes, not %g", name,
                    links[i].bytes, bytes);
            return;
        }
    require(false, "no link %s", name);
}

static void count_messages(const void *context)
{
    struct pen_sim_link links[PEN_SIM_MAX_LINKS];
    struct pen__link_load *load = NULL;
    uint32_t num = 0;
    (void)context;
    make_nodes();
    require(pen__link_load_create(4, &load) == PEN_OK, "no memory");
    pen__link_load_add(load, 0, 1, 1e9); /* inside a node */
    pen__link_load_add(load, 0, 1, 1e9);
    pen__link_load_add(load, 1, 2, 3e9); /* to the other */
    pen__link_load_add(load, 3, 2, 5e8);
    require(pen__link_load_messages(load) == 4, "messages");
    require(pen__link_load_read(load, 2, links, PEN_SIM_MAX_LINKS, &num) ==
                PEN_OK,
            "no memory");
    require(num == 6, "%u links, not 6", num);
    require_bytes(links, num, "rank-0.node_UP", 2e9);
    require_bytes(links, num, "rank-1.node_DOWN", 2e9);
    require_bytes(links, num, "rank-1.network_UP", 3e9);
    require_bytes(links, num, "rank-2.network_DOWN", 3e9);
    require_bytes(links, num, "rank-2.node_DOWN", 5e8);
    /* 8 GB/s for 2 s; the two that are alike come by their names. */
    require(strcmp(links[0].name, "rank-1.network_UP") == 0 &&
                strcmp(links[1].name, "rank-2.network_DOWN") == 0,
            "the order of links");
    require(links[0].utilisation == 3.0 / 16, "%g of the bandwidth",
            links[0].utilisation);
    require(pen__link_load_read(load, 2, links, 1, &num) == PEN_OK && num == 1,
            "room for one");
    pen__link_load_free(load);
}

static void bytes_are_those_of_messages(void **state)
{
    (void)state;
    in_simgrid(count_messages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
