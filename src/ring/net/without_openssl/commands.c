/* In place of the connections where OpenSSL 3 is not there. */
#include "ring/net/commands.h"

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
