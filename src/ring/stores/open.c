#include "ring/stores/stores.h"

#include <string.h>

#define JOURNAL "journal:"
#define ETCD "etcd://"
#define LONGEST_NAME 64u

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789-_.";

static bool is_plain(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= LONGEST_NAME &&
           strspn(name, letters) == length;
}

static pen_status open_etcd(const char *words, struct pen_ring_store *out,
                            struct pen_text *why)
{
    const char *slash = strchr(words, '/');
    if (slash == NULL || slash == words || !is_plain(slash + 1)) {
        pen_why(why,
                "etcd://%s: after the endpoints comes the name of the ring, of "
                "at most %u letters, digits, dots and dashes: "
                "etcd://10.0.0.1:2379,10.0.0.2:2379/run",
                words, LONGEST_NAME);
        return PEN_INVALID;
    }
    struct pen_text endpoints = PEN_TEXT_EMPTY;
    pen_text_add_bytes(&endpoints, words, (size_t)(slash - words));
    pen_status status =
        pen_ring_etcd_open(pen_text_string(&endpoints), slash + 1, out, why);
    pen_text_release(&endpoints);
    return status;
}

pen_status pen_ring_store_open(const char *name, bool is_read_only,
                               struct pen_ring_store *out, struct pen_text *why)
{
    if (strncmp(name, JOURNAL, strlen(JOURNAL)) == 0)
        return pen_ring_journal_open(name + strlen(JOURNAL), is_read_only, out,
                                     why);
    if (strncmp(name, ETCD, strlen(ETCD)) == 0)
        return open_etcd(name + strlen(ETCD), out, why);
    pen_why(why,
            "%s is not a store; give journal:FILE or "
            "etcd://HOST:PORT[,HOST:PORT...]/NAME",
            name);
    return PEN_INVALID;
}
