#ifndef PEN_SIM_ZONES_H
#define PEN_SIM_ZONES_H

#include <simgrid/forward.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Functions that SimGrid offers in C++ only, and by other names since its
 * version 4: zones, which are networks inside networks. A name that exists
 * already is a bug. (These names have single underscores, for C++ keeps double
 * ones to itself.)
 *
 * All zones are stars: there is a way from each host, or from each zone inside,
 * to the middle, where a router leads out. Links belong to the outermost zone
 * all of them, for SimGrid looks for names in every zone.
 */
#ifdef __cplusplus
extern "C" {
#endif

enum pen_zone_kind { PEN_ZONE_OF_HOSTS, PEN_ZONE_OF_ZONES };

/* Makes a zone. The outermost one comes first: it has no parent. */
sg_netzone_t pen_zone_make(enum pen_zone_kind kind, const char *name,
                           sg_netzone_t parent);

/* Seals a zone: nothing can be added to it any more. */
void pen_zone_seal(sg_netzone_t zone);

/* Makes a host that reaches itself over a link that messages do not share. */
sg_host_t pen_zone_host(sg_netzone_t zone, const char *name,
                        double loopback_bytes_per_sec);

/* Makes a link for each direction, name_UP and name_DOWN. */
sg_link_t pen_link_make(const char *name, double bytes_per_sec,
                        double latency_sec);

/* Connects a host by its link to the middle. */
void pen_zone_lead_out(sg_netzone_t zone, sg_host_t host, sg_link_t link);

/*
 * Connects two hosts directly: up the link of one and down that of the other.
 */
void pen_zone_join(sg_netzone_t zone, sg_host_t host, sg_link_t link,
                   sg_host_t other, sg_link_t other_link);

/* Connects a zone inside to the middle; a link or NULL: none between. */
void pen_zone_attach(sg_netzone_t zone, sg_netzone_t inside, sg_link_t link);

/*
 * A network of SimGrid's in the outermost zone: `leaf` makes the zone that is
 * the leaf of a number, in its zone.
 */
struct pen_zone_network {
    const uint32_t *numbers; /* of a topology (platform.h) */
    uint32_t num_numbers;
    double bytes_per_sec; /* of each link, each direction */
    double latency_sec;
    sg_netzone_t (*leaf)(void *context, sg_netzone_t zone, uint64_t number);
    void *context;
};

void pen_zone_fat_tree(const struct pen_zone_network *network);
void pen_zone_dragonfly(const struct pen_zone_network *network);
void pen_zone_torus(const struct pen_zone_network *network);

/* Returns the link of this name, or NULL. */
sg_link_t pen_link_find(const char *name);

/* Calls `visit` with each link on the way of a message, in its order. */
void pen_host_way(sg_host_t from, sg_host_t to,
                  void (*visit)(void *context, sg_link_t link), void *context);

/* Stops a host: programs on it do nothing from now on. */
void pen_host_stop(sg_host_t host);

/*
 * Runs every actor until all have ended or the rest waits for ever. These stay
 * as they are, and the process must end without SimGrid's own end: 4.0 crashes
 * when it kills an actor that was stopped.
 */
void pen_actors_run(void);

/* Gives each message all of the bandwidth, whatever else is under way. */
void pen_link_unshare(sg_link_t link);

#ifdef __cplusplus
}
#endif

#endif
