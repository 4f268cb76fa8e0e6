/* Whatever is accepted of a disturbed simulation's words is within bounds. */
#include "base/bug.h"
#include "sim/disturbance.h"
#include "sim/platform.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name, const char *text)
{
    PEN_BUG_UNLESS(name[0] != '\0');
    PEN_BUG_UNLESS(strncmp(name, text, strlen(name)) == 0);
}

static void check_disturbances(const char *text)
{
    struct pen_disturbances *all = calloc(1, sizeof *all);
    PEN_BUG_UNLESS(all != NULL);
    if (pen_disturbances_add_slow_rank(all, text, NULL) == PEN_OK)
        PEN_BUG_UNLESS(all->slow_ranks[0].factor > 0 &&
                       all->slow_ranks[0].factor <= 1e6);
    if (pen_disturbances_add_slow_link(all, text, NULL) == PEN_OK) {
        PEN_BUG_UNLESS(all->slow_links[0].factor > 0 &&
                       all->slow_links[0].factor <= 1e6);
        check_name(all->slow_links[0].name, text);
    }
    if (pen_disturbances_add_failure(all, text, NULL) == PEN_OK) {
        PEN_BUG_UNLESS(all->failures[0].at_sec >= 0 &&
                       all->failures[0].at_sec <= 1e9);
        check_name(all->failures[0].name, text);
    }
    if (pen_disturbances_add_background(all, text, NULL) == PEN_OK)
        PEN_BUG_UNLESS(all->background[0].from != all->background[0].to &&
                       all->background[0].bytes >= 1);
    free(all);
}

static void check_topology(const char *text)
{
    struct pen_sim_topology topology = {.num_numbers = 0};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_sim_topology_read(text, &topology, &why) == PEN_OK) {
        PEN_BUG_UNLESS(topology.num_numbers <= PEN_SIM_TOPOLOGY_MAX_NUMBERS);
        PEN_BUG_UNLESS(pen_sim_topology_num_leaves(&topology) >= 1);
        PEN_BUG_UNLESS(pen_sim_topology_num_leaves(&topology) <=
                       PEN_SIM_TOPOLOGY_MAX_LEAVES);
    } else {
        PEN_BUG_UNLESS(why.length > 0);
    }
    pen_text_release(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    PEN_BUG_UNLESS(text != NULL);
    memcpy(text, data, size);
    check_disturbances(text);
    check_topology(text);
    free(text);
    return 0;
}
