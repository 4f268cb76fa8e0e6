#include "sim/zones.h"

#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u/Actor.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/Link.hpp>
#include <simgrid/s4u/NetZone.hpp>
#include <simgrid/version.h>

#include <string>
#include <vector>

using simgrid::kernel::routing::NetPoint;
using simgrid::s4u::Engine;
using simgrid::s4u::Link;
using simgrid::s4u::LinkInRoute;
using simgrid::s4u::NetZone;

using Links = std::vector<LinkInRoute>;
using Coordinates = std::vector<unsigned long>;

static constexpr auto up = LinkInRoute::Direction::UP;
static constexpr auto down = LinkInRoute::Direction::DOWN;
static constexpr auto both_ways = Link::SharingPolicy::SPLITDUPLEX;

static std::string router_name(const NetZone *zone)
{
    return zone->get_name() + ".router";
}

static NetPoint *router_of(const NetZone *zone)
{
    return Engine::get_instance()->netpoint_by_name_or_null(router_name(zone));
}

static NetZone *outermost()
{
    return Engine::get_instance()->get_netzone_root();
}

/* ---- what has other names in SimGrid 4 ---- */

#if SIMGRID_VERSION_MAJOR >= 4

static NetZone *make_zone(const std::string &name, NetZone *parent)
{
    if (parent == nullptr)
        parent = outermost();
    return parent->add_netzone_star(name);
}

static NetPoint *make_router(NetZone *zone, const std::string &name)
{
    return zone->add_router(name);
}

static void set_router(NetZone *zone, NetPoint *router)
{
    zone->set_gateway(router);
}

/* Not as zones do it: theirs would look into a `to` that is not there. */
static void add_route(NetZone *zone, NetPoint *from, NetPoint *to,
                      const Links &links, bool is_symmetrical)
{
    zone->get_impl()->add_route(from, to, nullptr, nullptr, links,
                                is_symmetrical);
}

static void add_zone_route(NetZone *zone, NetZone *inside, NetPoint *,
                           const Links &links)
{
    zone->add_route(inside, nullptr, links, true);
}

static simgrid::s4u::Host *make_host(NetZone *zone, const char *name)
{
    return zone->add_host(name, 1.0);
}

static Link *make_link(const std::string &name, double rate)
{
    return outermost()->add_link(name, rate);
}

static Link *make_split_link(const char *name, double rate)
{
    return outermost()->add_split_duplex_link(name, rate);
}

static void fill(NetZone *zone, const pen_zone_network &network)
{
    zone->set_netzone_cb(
        [network](NetZone *inside, const Coordinates &, unsigned long number) {
            return network.leaf(network.context, inside, number);
        });
    zone->seal();
}

static void make_fat_tree(const pen_zone_network &network, unsigned levels,
                          const std::vector<unsigned> &lower,
                          const std::vector<unsigned> &upper,
                          const std::vector<unsigned> &counts)
{
    fill(outermost()->add_netzone_fatTree("network", levels, lower, upper,
                                          counts, network.bytes_per_sec,
                                          network.latency_sec, both_ways),
         network);
}

static void make_dragonfly(const pen_zone_network &network)
{
    const uint32_t *n = network.numbers;
    fill(outermost()->add_netzone_dragonfly(
             "network", {n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]}, n[6],
             network.bytes_per_sec, network.latency_sec, both_ways),
         network);
}

static void make_torus(const pen_zone_network &network,
                       const Coordinates &lengths)
{
    fill(outermost()->add_netzone_torus("network", lengths,
                                        network.bytes_per_sec,
                                        network.latency_sec, both_ways),
         network);
}

#else

static NetZone *make_zone(const std::string &name, NetZone *parent)
{
    NetZone *zone = simgrid::s4u::create_star_zone(name);
    return parent == nullptr ? zone : zone->set_parent(parent);
}

static NetPoint *make_router(NetZone *zone, const std::string &name)
{
    return zone->create_router(name);
}

/* Routes name it. */
static void set_router(NetZone *, NetPoint *)
{
}

static void add_route(NetZone *zone, NetPoint *from, NetPoint *to,
                      const Links &links, bool is_symmetrical)
{
    zone->add_route(from, to, nullptr, nullptr, links, is_symmetrical);
}

static void add_zone_route(NetZone *zone, NetZone *inside, NetPoint *router,
                           const Links &links)
{
    zone->add_route(inside->get_netpoint(), nullptr, router, nullptr, links,
                    true);
}

static simgrid::s4u::Host *make_host(NetZone *zone, const char *name)
{
    return zone->create_host(name, 1.0);
}

static Link *make_link(const std::string &name, double rate)
{
    return outermost()->create_link(name, rate);
}

static Link *make_split_link(const char *name, double rate)
{
    return outermost()->create_split_duplex_link(name, rate);
}

static simgrid::s4u::ClusterCallbacks leaves_of(const pen_zone_network &network)
{
    auto make = [network](NetZone *zone, const Coordinates &,
                          unsigned long number) {
        NetZone *leaf = network.leaf(network.context, zone, number);
        return std::make_pair(leaf->get_netpoint(), router_of(leaf));
    };
    return simgrid::s4u::ClusterCallbacks(make);
}

static void make_fat_tree(const pen_zone_network &network, unsigned levels,
                          const std::vector<unsigned> &lower,
                          const std::vector<unsigned> &upper,
                          const std::vector<unsigned> &counts)
{
    simgrid::s4u::create_fatTree_zone(
        "network", outermost(),
        simgrid::s4u::FatTreeParams(levels, lower, upper, counts),
        leaves_of(network), network.bytes_per_sec, network.latency_sec,
        both_ways)
        ->seal();
}

static void make_dragonfly(const pen_zone_network &network)
{
    const uint32_t *n = network.numbers;
    simgrid::s4u::create_dragonfly_zone(
        "network", outermost(),
        simgrid::s4u::DragonflyParams({n[0], n[1]}, {n[2], n[3]}, {n[4], n[5]},
                                      n[6]),
        leaves_of(network), network.bytes_per_sec, network.latency_sec,
        both_ways)
        ->seal();
}

static void make_torus(const pen_zone_network &network,
                       const Coordinates &lengths)
{
    simgrid::s4u::create_torus_zone("network", outermost(), lengths,
                                    leaves_of(network), network.bytes_per_sec,
                                    network.latency_sec, both_ways)
        ->seal();
}

#endif

/* ---- the interface ---- */

/*
 * SimGrid finds ways between what is equally deep: where hosts are in zones of
 * their own the router is in one, too.
 */
static void add_router(pen_zone_kind kind, NetZone *zone)
{
    NetZone *around = zone;
    if (kind == PEN_ZONE_OF_ZONES)
        around = make_zone(zone->get_name() + ".gate", zone);
    NetPoint *router = make_router(around, router_name(zone));
    add_route(around, router, nullptr, {}, true);
    set_router(around, router);
    if (around == zone)
        return;
    around->seal();
    add_zone_route(zone, around, router, {});
    set_router(zone, router);
}

sg_netzone_t pen_zone_make(pen_zone_kind kind, const char *name,
                           sg_netzone_t parent)
{
    NetZone *zone = make_zone(name, parent);
    if (parent != nullptr)
        add_router(kind, zone);
    return zone;
}

void pen_zone_seal(sg_netzone_t zone)
{
    zone->seal();
}

sg_host_t pen_zone_host(sg_netzone_t zone, const char *name,
                        double loopback_bytes_per_sec)
{
    sg_host_t host = make_host(zone, name);
    Link *loopback =
        make_link(std::string(name) + ".loopback", loopback_bytes_per_sec);
    loopback->set_sharing_policy(Link::SharingPolicy::FATPIPE);
    loopback->set_latency(0.0);
    loopback->seal();
    host->seal();
    add_route(zone, host->get_netpoint(), host->get_netpoint(),
              {LinkInRoute(loopback)}, false);
    return host;
}

sg_link_t pen_link_make(const char *name, double bytes_per_sec,
                        double latency_sec)
{
    Link *link = make_split_link(name, bytes_per_sec);
    link->set_latency(latency_sec);
    link->seal();
    return link;
}

void pen_zone_lead_out(sg_netzone_t zone, sg_host_t host, sg_link_t link)
{
    add_route(zone, host->get_netpoint(), nullptr, {LinkInRoute(link, up)},
              true);
}

void pen_zone_join(sg_netzone_t zone, sg_host_t host, sg_link_t link,
                   sg_host_t other, sg_link_t other_link)
{
    NetPoint *from = host->get_netpoint();
    NetPoint *to = other->get_netpoint();
    zone->add_bypass_route(
        from, to, nullptr, nullptr,
        {LinkInRoute(link, up), LinkInRoute(other_link, down)});
    zone->add_bypass_route(
        to, from, nullptr, nullptr,
        {LinkInRoute(other_link, up), LinkInRoute(link, down)});
}

void pen_zone_attach(sg_netzone_t zone, sg_netzone_t inside, sg_link_t link)
{
    Links links;
    if (link != nullptr)
        links.emplace_back(link, up);
    add_zone_route(zone, inside, router_of(inside), links);
}

void pen_zone_fat_tree(const pen_zone_network *network)
{
    size_t levels = network->numbers[0];
    const uint32_t *first = network->numbers + 1;
    std::vector<unsigned> lower(first, first + levels);
    std::vector<unsigned> upper(first + levels, first + 2 * levels);
    std::vector<unsigned> counts(first + 2 * levels, first + 3 * levels);
    make_fat_tree(*network, network->numbers[0], lower, upper, counts);
}

void pen_zone_dragonfly(const pen_zone_network *network)
{
    make_dragonfly(*network);
}

void pen_zone_torus(const pen_zone_network *network)
{
    make_torus(*network, Coordinates(network->numbers,
                                     network->numbers + network->num_numbers));
}

sg_link_t pen_link_find(const char *name)
{
    return Link::by_name_or_null(name);
}

void pen_link_unshare(sg_link_t link)
{
    link->set_sharing_policy(Link::SharingPolicy::FATPIPE);
}

void pen_host_way(sg_host_t from, sg_host_t to,
                  void (*visit)(void *context, sg_link_t link), void *context)
{
    std::vector<Link *> links;
    from->route_to(to, links, nullptr);
    for (Link *link : links)
        visit(context, link);
}

void pen_host_stop(sg_host_t host)
{
    for (const auto &actor : host->get_all_actors())
        actor->suspend();
}

namespace
{
struct Deadlock {
};
} // namespace

void pen_actors_run()
{
    Engine::on_deadlock_cb([] { throw Deadlock(); });
    try {
        Engine::get_instance()->run();
    } catch (const Deadlock &) {
        /* callers see which actors have not ended */
    }
}
