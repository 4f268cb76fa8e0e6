/* Disturbances in SimGrid: its links, and actors that no rank waits for. */
#include "base/bug.h"
#include "sim/disturbance.h"
#include "sim/zones.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <simgrid/mailbox.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 96u

static sg_host_t find_rank(uint32_t rank, struct pen_text *why)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "rank-%u", rank);
    sg_host_t host = sg_host_by_name(name);
    if (host == NULL)
        pen_why(why, "there is no rank %u to disturb", rank);
    return host;
}

/* ---- links ---- */

/* Both directions of a link, or one by its own name; at least one if found. */
struct directions {
    sg_link_t links[2];
    uint32_t count;
};

static void add_link(struct directions *found, const char *name,
                     const char *direction)
{
    char whole[NAME_SIZE + sizeof "_DOWN"];
    snprintf(whole, sizeof whole, "%s%s", name, direction);
    sg_link_t link = pen_link_find(whole);
    if (link != NULL)
        found->links[found->count++] = link;
}

static struct directions find_link(const char *name)
{
    struct directions found = {.count = 0};
    add_link(&found, name, "_UP");
    add_link(&found, name, "_DOWN");
    if (found.count == 0)
        add_link(&found, name, "");
    return found;
}

static uint32_t slow_down(const char *name, double factor)
{
    struct directions found = find_link(name);
    for (uint32_t i = 0; i < found.count; i++)
        sg_link_set_bandwidth(found.links[i],
                              sg_link_get_bandwidth(found.links[i]) / factor);
    return found.count;
}

static pen_status start_slow_link(const struct pen_slow_link *slow,
                                  struct pen_text *why)
{
    static const char *const kinds[] = {"node", "network"};
    uint32_t count = slow_down(slow->name, slow->factor);
    for (uint32_t i = 0; i < 2 && sg_host_by_name(slow->name) != NULL; i++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "%s.%s", slow->name, kinds[i]);
        count += slow_down(name, slow->factor);
    }
    if (count > 0)
        return PEN_OK;
    pen_why(why, "there is no link %s to slow down", slow->name);
    return PEN_INVALID;
}

/* ---- failures ---- */

/* Stops a host; arguments: the second, the name of the host. */
static void run_failure(int argc, char **argv)
{
    PEN_BUG_UNLESS(argc == 2);
    sg_actor_sleep_until(strtod(argv[0], NULL));
    pen_host_stop(sg_host_by_name(argv[1]));
}

/* Returns whether a link is of this name: its two directions have a suffix. */
static bool is_link_named(const char *link, const char *name)
{
    size_t length = strlen(name);
    const char *rest = link + length;
    return strncmp(link, name, length) == 0 &&
           (strcmp(rest, "") == 0 || strcmp(rest, "_UP") == 0 ||
            strcmp(rest, "_DOWN") == 0);
}

static bool is_gone(const struct pen_disturbances *all, const char *link)
{
    for (uint32_t i = 0; i < all->num_failures; i++)
        if (is_link_named(link, all->failures[i].name) &&
            all->failures[i].at_sec <= simgrid_get_clock())
            return true;
    return false;
}

/* The search for a failed link on a way. */
struct gap {
    const struct pen_disturbances *all;
    bool is_found;
};

static void note_failed_link(void *context, sg_link_t link)
{
    struct gap *gap = context;
    if (is_gone(gap->all, sg_link_get_name(link)))
        gap->is_found = true;
}

bool pen_disturbances_cut(const struct pen_disturbances *all, uint32_t from,
                          uint32_t to)
{
    struct gap gap = {all, false};
    if (all->num_failures > 0)
        pen_host_way(find_rank(from, NULL), find_rank(to, NULL),
                     note_failed_link, &gap);
    return gap.is_found;
}

static bool is_failing(const struct pen_disturbances *all, const char *name)
{
    for (uint32_t i = 0; i < all->num_failures; i++) {
        if (strcmp(all->failures[i].name, name) == 0)
            return true;
    }
    return false;
}

/*
 * Returns a host that outlives the others, for actors that must, too; NULL:
 * none.
 */
static sg_host_t find_lasting(const struct pen_disturbances *all)
{
    for (uint32_t rank = 0; rank <= all->num_failures; rank++) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "rank-%u", rank);
        sg_host_t host = sg_host_by_name(name);
        if (host != NULL && !is_failing(all, name))
            return host;
    }
    return NULL;
}

static void start_actor(const char *name, sg_host_t host, xbt_main_func_t code,
                        int argc, const char *const *argv)
{
    sg_actor_daemonize(sg_actor_create_(name, host, code, argc, argv));
}

static pen_status start_failure(const struct pen_failure *failure,
                                sg_host_t lasting, struct pen_text *why)
{
    sg_host_t host = sg_host_by_name(failure->name);
    if (host == NULL && find_link(failure->name).count == 0) {
        pen_why(why, "there is no host or link %s to fail", failure->name);
        return PEN_INVALID;
    }
    if (host == NULL) /* ranks ask: pen_disturbances_cut() */
        return PEN_OK;
    if (lasting == NULL) {
        pen_why(why, "at least one rank must not fail");
        return PEN_INVALID;
    }
    char second[32];
    snprintf(second, sizeof second, "%.17g", failure->at_sec);
    const char *argv[] = {second, failure->name};
    start_actor("failure", lasting, run_failure, 2, argv);
    return PEN_OK;
}

/* ---- messages ---- */

/*
 * Sends background messages; arguments: the mailbox, the bytes, the second at
 * which it ends.
 */
static void run_sender(int argc, char **argv)
{
    PEN_BUG_UNLESS(argc == 3);
    sg_mailbox_t mailbox = sg_mailbox_by_name(argv[0]);
    long bytes = strtol(argv[1], NULL, 10);
    double end_sec = strtod(argv[2], NULL);
    while (simgrid_get_clock() < end_sec &&
           sg_comm_wait(sg_mailbox_put_async(mailbox, mailbox, bytes)) == SG_OK)
        continue;
}

static void run_receiver(int argc, char **argv)
{
    PEN_BUG_UNLESS(argc == 1);
    sg_mailbox_t mailbox = sg_mailbox_by_name(argv[0]);
    void *contents = NULL;
    while (sg_comm_wait(sg_mailbox_get_async(mailbox, &contents)) == SG_OK)
        continue;
}

/*
 * Returns when background messages end: with the first failure, since ranks
 * that wait for a failed link would wait as long as any messages continue.
 */
static double end_of_background(const struct pen_disturbances *all)
{
    double end_sec = HUGE_VAL;
    for (uint32_t i = 0; i < all->num_failures; i++)
        end_sec = fmin(end_sec, all->failures[i].at_sec);
    return end_sec;
}

static pen_status start_background(const struct pen_disturbances *all,
                                   uint32_t number, struct pen_text *why)
{
    const struct pen_background *traffic = &all->background[number];
    sg_host_t from = find_rank(traffic->from, why);
    sg_host_t to = from == NULL ? NULL : find_rank(traffic->to, why);
    if (to == NULL)
        return PEN_INVALID;
    char mailbox[32];
    char bytes[32];
    char end[32];
    snprintf(mailbox, sizeof mailbox, "background-%u", number);
    snprintf(bytes, sizeof bytes, "%.0f", traffic->bytes);
    snprintf(end, sizeof end, "%.17g", end_of_background(all));
    const char *argv[] = {mailbox, bytes, end};
    start_actor("sender", from, run_sender, 3, argv);
    start_actor("receiver", to, run_receiver, 1, argv);
    return PEN_OK;
}

pen_status pen_disturbances_start(const struct pen_disturbances *all,
                                  struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < all->num_slow_ranks; i++) {
        if (find_rank(all->slow_ranks[i].rank, why) == NULL)
            status = PEN_INVALID;
    }
    for (uint32_t i = 0; status == PEN_OK && i < all->num_slow_links; i++)
        status = start_slow_link(&all->slow_links[i], why);
    sg_host_t lasting = find_lasting(all);
    for (uint32_t i = 0; status == PEN_OK && i < all->num_failures; i++)
        status = start_failure(&all->failures[i], lasting, why);
    for (uint32_t i = 0; status == PEN_OK && i < all->num_background; i++)
        status = start_background(all, i, why);
    return status;
}
