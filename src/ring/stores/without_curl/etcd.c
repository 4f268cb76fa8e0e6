/* Refuses stores in etcd, in builds without libcurl. */
#include "ring/stores/stores.h"

pen_status pen_ring_etcd_open(const char *endpoints, const char *name,
                              const struct pen_ring_etcd_tls *tls,
                              struct pen_ring_store *out, struct pen_text *why)
{
    (void)name;
    (void)tls;
    (void)out;
    pen_why(why,
            "etcd://%s: this penstock was built without libcurl; install "
            "libcurl4-openssl-dev and build it again",
            endpoints);
    return PEN_INVALID;
}
