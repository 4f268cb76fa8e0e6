/* Refuses the commands that need connections, in builds without OpenSSL 3. */
#include "ring/net/commands.h"
#include "ring/net/member.h"

static pen_status refuse(struct pen_text *why)
{
    pen_why(why, "this penstock was built without OpenSSL 3, which rings need; "
                 "install libssl-dev and build it again");
    return PEN_INVALID;
}

pen_status pen_ring_make_key(const char *path, const char *address,
                             struct pen_text *line, struct pen_text *why)
{
    (void)path;
    (void)address;
    (void)line;
    return refuse(why);
}

pen_status
pen_ring_coordinate(const struct pen_ring_coordinate_options *options,
                    struct pen_text *why)
{
    (void)options;
    return refuse(why);
}

pen_status pen_ring_ask(const char *address, const char *key, const char *keys,
                        const struct pen__ask *ask,
                        struct pen__ring_status *out, struct pen_text *why)
{
    (void)address;
    (void)key;
    (void)keys;
    (void)ask;
    (void)out;
    return refuse(why);
}

/* ---- no member is ever made */

pen_status pen_ring_identify(const char *key, const char *keys,
                             const char *name, struct pen_ring_identity *out,
                             struct pen_text *why)
{
    (void)key;
    (void)keys;
    (void)name;
    (void)out;
    return refuse(why);
}

pen_status pen_ring_member_create(const struct pen_ring_member_options *options,
                                  struct pen_ring_member **out,
                                  struct pen_text *why)
{
    (void)options;
    (void)out;
    return refuse(why);
}

void pen_ring_member_free(struct pen_ring_member *member)
{
    (void)member;
}

pen_status pen_ring_member_offer(struct pen_ring_member *member, uint64_t round,
                                 const struct pen_ring_offer *offer,
                                 const void *bytes, size_t length)
{
    (void)member;
    (void)round;
    (void)offer;
    (void)bytes;
    (void)length;
    return PEN_INVALID;
}

pen_status pen_ring_member_turn(struct pen_ring_member *member, int64_t until,
                                struct pen_text *why)
{
    (void)member;
    (void)until;
    return refuse(why);
}

void pen_ring_member_leave(struct pen_ring_member *member)
{
    (void)member;
}

bool pen_ring_member_has_ended(const struct pen_ring_member *member)
{
    (void)member;
    return true;
}

const struct pen_ring_record *
pen_ring_member_record(const struct pen_ring_member *member)
{
    (void)member;
    return NULL;
}

bool pen_ring_member_is_last(const struct pen_ring_member *member)
{
    (void)member;
    return true;
}
