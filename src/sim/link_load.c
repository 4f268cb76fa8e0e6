#include "sim/link_load.h"

#include "base/bug.h"
#include "sim/zones.h"

#include <simgrid/host.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pen__link_load {
    sg_link_t *links;
    double *bytes; /* each link has the address of its own */
    size_t num_links;
    sg_host_t *hosts; /* of ranks: SimGrid looks long for a name */
    uint64_t num_messages;
};

static sg_host_t host_of(uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%u", rank);
    return sg_host_by_name(name);
}

pen_status pen__link_load_create(uint32_t num_ranks,
                                 struct pen__link_load **out)
{
    struct pen__link_load *load = calloc(1, sizeof *load);
    if (load == NULL)
        return PEN_NOMEM;
    load->num_links = sg_link_count();
    load->links = sg_link_list();
    load->bytes = calloc(load->num_links + 1, sizeof *load->bytes);
    load->hosts = calloc(num_ranks, sizeof *load->hosts);
    if (load->bytes == NULL || load->hosts == NULL) {
        pen__link_load_free(load);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < load->num_links; i++)
        sg_link_set_data(load->links[i], &load->bytes[i]);
    for (uint32_t i = 0; i < num_ranks; i++)
        load->hosts[i] = host_of(i);
    *out = load;
    return PEN_OK;
}

void pen__link_load_free(struct pen__link_load *load)
{
    if (load == NULL)
        return;
    free(load->hosts);
    free(load->bytes);
    free(load->links);
    free(load);
}

static void add_bytes(void *context, sg_link_t link)
{
    double *sum = sg_link_get_data(link);
    PEN_BUG_UNLESS(sum != NULL);
    *sum += *(const double *)context;
}

void pen__link_load_add(struct pen__link_load *load, uint32_t from, uint32_t to,
                        double bytes)
{
    load->num_messages++;
    pen_host_way(load->hosts[from], load->hosts[to], add_bytes, &bytes);
}

uint64_t pen__link_load_messages(const struct pen__link_load *load)
{
    return load->num_messages;
}

/*
 * Names decide between links that are equally full, so that each run reports
 * the same.
 */
static int by_fullness_down(const void *a, const void *b)
{
    const struct pen_sim_link *x = a;
    const struct pen_sim_link *y = b;
    if (x->utilisation != y->utilisation)
        return x->utilisation > y->utilisation ? -1 : 1;
    return strcmp(x->name, y->name);
}

pen_status pen__link_load_read(const struct pen__link_load *load,
                               double seconds, struct pen_sim_link *links,
                               uint32_t room, uint32_t *num)
{
    struct pen_sim_link *loads = malloc((load->num_links + 1) * sizeof *loads);
    size_t used = 0;
    if (loads == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < load->num_links; i++) {
        if (load->bytes[i] <= 0)
            continue;
        sg_link_t link = load->links[i];
        double most = seconds * sg_link_get_bandwidth(link);
        struct pen_sim_link *out = &loads[used++];
        *out = (struct pen_sim_link){.bytes = load->bytes[i]};
        snprintf(out->name, sizeof out->name, "%s", sg_link_get_name(link));
        out->utilisation = most > 0 ? out->bytes / most : 0;
    }
    qsort(loads, used, sizeof *loads, by_fullness_down);
    *num = used < room ? (uint32_t)used : room;
    memcpy(links, loads, *num * sizeof *links);
    free(loads);
    return PEN_OK;
}
