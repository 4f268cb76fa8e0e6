#include "ring/stores/stores.h"

#include <string.h>

#define JOURNAL "journal:"
#define ETCD "etcd://"
#define ETCD_TLS "etcds://"
#define LONGEST_NAME 64u

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789-_.";

static bool is_plain(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= LONGEST_NAME &&
           strspn(name, letters) == length;
}

/* Parses "ca=FILE&cert=FILE&key=FILE", in any order. */
static pen_status parse_tls(const char *words, struct pen_ring_etcd_tls *out,
                            struct pen_text *why)
{
    const struct {
        const char *name;
        struct pen_text *file;
    } keys[] = {{"ca=", &out->ca}, {"cert=", &out->cert}, {"key=", &out->key}};
    while (*words != '\0') {
        size_t length = strcspn(words, "&");
        size_t i = 0;
        while (i < 3 && strncmp(words, keys[i].name, strlen(keys[i].name)) != 0)
            i++;
        if (i == 3) {
            pen_why(why,
                    "%s: after the question mark come ca=FILE, cert=FILE "
                    "and key=FILE with & between them",
                    words);
            return PEN_INVALID;
        }
        size_t begin = strlen(keys[i].name);
        pen_text_clear(keys[i].file);
        pen_text_add_bytes(keys[i].file, words + begin, length - begin);
        words += length + (words[length] == '&');
    }
    return PEN_OK;
}

static pen_status open_etcd(const char *words, bool has_tls,
                            struct pen_ring_store *out, struct pen_text *why)
{
    struct pen_ring_etcd_tls tls = {.ca = PEN_TEXT_EMPTY};
    struct pen_text endpoints = PEN_TEXT_EMPTY;
    struct pen_text name = PEN_TEXT_EMPTY;
    size_t slash = strcspn(words, "/?");
    const char *after = words + slash + (words[slash] == '/');
    size_t length = has_tls ? strcspn(after, "?") : strlen(after);
    pen_status status = PEN_OK;
    pen_text_add_bytes(&endpoints, words, slash);
    pen_text_add_bytes(&name, after, length);
    if (slash == 0 || words[slash] != '/' ||
        !is_plain(pen_text_string(&name))) {
        pen_why(why,
                "etcd://%s: after the endpoints comes the name of the ring, of "
                "at most %u letters, digits, dots and dashes: "
                "etcd://10.0.0.1:2379,10.0.0.2:2379/run",
                words, LONGEST_NAME);
        status = PEN_INVALID;
    }
    if (status == PEN_OK && after[length] == '?')
        status = parse_tls(after + length + 1, &tls, why);
    if (status == PEN_OK)
        status = pen_ring_etcd_open(pen_text_string(&endpoints),
                                    pen_text_string(&name),
                                    has_tls ? &tls : NULL, out, why);
    pen_text_release(&endpoints);
    pen_text_release(&name);
    pen_text_release(&tls.ca);
    pen_text_release(&tls.cert);
    pen_text_release(&tls.key);
    return status;
}

pen_status pen_ring_store_open(const char *name, bool is_read_only,
                               struct pen_ring_store *out, struct pen_text *why)
{
    if (strncmp(name, JOURNAL, strlen(JOURNAL)) == 0)
        return pen_ring_journal_open(name + strlen(JOURNAL), is_read_only, out,
                                     why);
    if (strncmp(name, ETCD, strlen(ETCD)) == 0)
        return open_etcd(name + strlen(ETCD), false, out, why);
    if (strncmp(name, ETCD_TLS, strlen(ETCD_TLS)) == 0)
        return open_etcd(name + strlen(ETCD_TLS), true, out, why);
    pen_why(why,
            "%s is not a store; give journal:FILE or "
            "etcd://HOST:PORT[,HOST:PORT...]/NAME",
            name);
    return PEN_INVALID;
}
