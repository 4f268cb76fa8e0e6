#include "planner/route.h"

#include "base/bug.h"

static uint32_t least(const struct pen_route *route)
{
    uint32_t found = PEN_ROUTE_NONE;
    for (uint32_t i = 0; i < route->num_peers; i++)
        if (route->peers[i].is_there &&
            (found == PEN_ROUTE_NONE ||
             route->peers[i].key < route->peers[found].key))
            found = i;
    return found;
}

void pen_route_add(struct pen_route *route, uint32_t peer, double speed)
{
    uint32_t first = least(route);
    PEN_BUG_UNLESS(peer < route->num_peers && speed > 0);
    route->peers[peer] = (struct pen_route_peer){
        first == PEN_ROUTE_NONE ? 0 : route->peers[first].key, speed, true};
}

void pen_route_ban(struct pen_route *route, uint32_t peer)
{
    route->peers[peer].is_there = false;
}

uint32_t pen_route_take(struct pen_route *route, double work)
{
    uint32_t peer = least(route);
    if (peer != PEN_ROUTE_NONE)
        route->peers[peer].key += work / route->peers[peer].speed;
    return peer;
}

void pen_route_learn(struct pen_route *route, uint32_t peer, double work,
                     double seconds)
{
    struct pen_route_peer *it = &route->peers[peer];
    it->speed += PEN_ROUTE_GAIN * (work / seconds - it->speed);
}
