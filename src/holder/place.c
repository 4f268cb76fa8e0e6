#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): HOST_NAME_MAX */
#include "holder/place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

void pen_holder_node_name(struct pen_text *out)
{
    char host[128] = "";
    char boot[64];
    gethostname(host, sizeof host - 1);
    pen_text_add(out, "%s", host);
    int file = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, boot, sizeof boot);
    if (file >= 0)
        close(file);
    if (length > 0)
        pen_text_add(out, ":%.*s", (int)strcspn(boot, "\n"), boot);
}

/* Hashes by FNV-1a; folds its upper bits into 48. */
static uint64_t number_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 48) & UINT64_C(0xffffffffffff);
}

static pen_status read_epoch(uint64_t *epoch, struct pen_text *why)
{
    const char *number = getenv(PEN_EPOCH_VARIABLE);
    char *end = NULL;
    *epoch = 1;
    if (number == NULL)
        return PEN_OK;
    errno = 0;
    unsigned long long value = strtoull(number, &end, 10);
    if (number[0] < '0' || number[0] > '9' || *end != '\0' || errno != 0 ||
        value == 0) {
        pen_why(why, PEN_EPOCH_VARIABLE " must be a number from 1: ");
        if (why != NULL)
            pen_text_add_printable(why, number, strnlen(number, 40));
        return PEN_INVALID;
    }
    *epoch = value;
    return PEN_OK;
}

static pen_status read_text(const char *name, char *out, size_t room,
                            struct pen_text *why)
{
    const char *value = getenv(name);
    if (value == NULL)
        return PEN_OK;
    if (strlen(value) >= room) {
        pen_why(why, "%s has more than %zu bytes", name, room - 1);
        return PEN_INVALID;
    }
    memcpy(out, value, strlen(value) + 1);
    return PEN_OK;
}

pen_status pen_holder_settings_read(struct pen_holder_settings *out,
                                    struct pen_text *why)
{
    memset(out, 0, sizeof *out);
    if (getenv(PEN_HOLDER_VARIABLE) == NULL)
        return PEN_OK;
    pen_status status =
        read_text(PEN_HOLDER_VARIABLE, out->path, sizeof out->path, why);
    if (status == PEN_OK)
        status = read_text(PEN_HOLDER_NODE_VARIABLE, out->node,
                           sizeof out->node, why);
    return status == PEN_OK ? read_epoch(&out->epoch, why) : status;
}

pen_status pen_holder_place_find(const struct pen_holder_settings *settings,
                                 struct pen_holder_place *out)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    *out = (struct pen_holder_place){.is_distant = false};
    pen_holder_node_name(&name);
    out->node = number_of(pen_text_string(&name));
    out->is_distant = settings->node[0] != '\0' &&
                      strcmp(settings->node, pen_text_string(&name)) != 0;
    pen_text_add(&out->path, "%s", settings->path);
    if (out->is_distant)
        pen_text_add(&out->path, ".%012" PRIx64, out->node);
    bool has_failed = name.has_failed || out->path.has_failed;
    pen_text_release(&name);
    return has_failed ? PEN_NOMEM : PEN_OK;
}

void pen_holder_place_release(struct pen_holder_place *place)
{
    pen_text_release(&place->path);
}
