#include "ring/net/keys.h"
#include "ring/net/member.h"
#include "ring/net/tls.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static bool has_name(const char *keys, uint32_t number, const char *name)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%" PRIu32, number);
    bool is_number = strcmp(pen_text_string(&path), name) == 0;
    pen_text_clear(&path);
    pen_text_add(&path, "%s/island-%" PRIu32 "-%s.pub", keys, number, name);
    bool is_there = access(pen_text_string(&path), F_OK) == 0;
    pen_text_release(&path);
    return is_number || is_there;
}

pen_status pen_ring_identify(const char *key, const char *keys,
                             const char *name, struct pen_ring_identity *out,
                             struct pen_text *why)
{
    struct pen__ring_keys all;
    struct pen__tls *tls;
    pen_status status = pen__ring_keys_read(keys, &all, why);
    if (status == PEN_OK)
        status = pen__tls_create(key, &tls, why);
    if (status != PEN_OK)
        return status;
    int node = pen__ring_keys_find(&all, pen__tls_key(tls));
    pen__tls_free(tls);
    if (node < 0 || node >= (int)PEN_RING_ISLANDS) {
        pen_why(why, "%s is not the key of an island of %s", key, keys);
        return PEN_INVALID;
    }
    if (name != NULL && !has_name(keys, (uint32_t)node, name)) {
        pen_why(why,
                "%s is the key of island %d of %s, whose name is not '%s'; its "
                "file would be island-%d-%s.pub",
                key, node, keys, name, node, name);
        return PEN_INVALID;
    }
    *out = (struct pen_ring_identity){(uint32_t)node,
                                      pen__ring_keys_islands(&all)};
    return PEN_OK;
}
