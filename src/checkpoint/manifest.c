/* The manifest in memory. Its text is in manifest_text.c. */
#include "checkpoint/manifest.h"

#include "base/bug.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory for the manifest of a checkpoint");
    return PEN_NOMEM;
}

pen_status pen_run_id_draw(char out[PEN_RUN_ID_SIZE], struct pen_text *why)
{
    uint64_t number = 0;
    while (number == 0) { /* which is that of PEN_RUN_ID_OLD */
        if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number)
            continue;
        pen_why(why,
                "the system gives no random numbers for the id of a run: "
                "%s",
                strerror(errno));
        return PEN_IO;
    }
    snprintf(out, PEN_RUN_ID_SIZE, "%016" PRIx64, number);
    return PEN_OK;
}

bool pen_run_id_is_valid(const char *text)
{
    return strspn(text, "0123456789abcdef") == PEN_RUN_ID_SIZE - 1 &&
           text[PEN_RUN_ID_SIZE - 1] == '\0';
}

pen_status pen_manifest_init(struct pen_manifest *manifest,
                             struct pen_text *why)
{
    *manifest = (struct pen_manifest){.run = PEN_RUN_ID_OLD,
                                      .dtype = PEN_DTYPE_F32,
                                      .optimizer = "none",
                                      .num_replicas = 1,
                                      .num_pieces = 1,
                                      .random = json_object(),
                                      .configuration = json_object()};
    if (manifest->random != NULL && manifest->configuration != NULL)
        return PEN_OK;
    return refuse_memory(why);
}

void pen_manifest_release(struct pen_manifest *manifest)
{
    for (size_t i = 0; i < manifest->num_files; i++)
        free(manifest->files[i].name);
    free(manifest->files);
    json_decref(manifest->random);
    json_decref(manifest->sync);
    json_decref(manifest->configuration);
    json_decref(manifest->command);
    *manifest = (struct pen_manifest){.files = NULL};
}

bool pen__is_setting_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");
    return length > 0 && length < 64 && name[length] == '\0';
}

static pen_status set(json_t *object, const char *name, json_t *value,
                      struct pen_text *why)
{
    PEN_BUG_UNLESS(pen__is_setting_name(name));
    if (json_object_set_new(object, name, value) == 0)
        return PEN_OK;
    return refuse_memory(why);
}

pen_status pen_manifest_set_random(struct pen_manifest *manifest,
                                   const char *name, uint64_t state,
                                   struct pen_text *why)
{
    json_t *digits = json_sprintf("%016" PRIx64, state);
    return set(manifest->random, name, digits, why);
}

bool pen_manifest_get_random(const struct pen_manifest *manifest,
                             const char *name, uint64_t *out)
{
    const char *digits =
        json_string_value(json_object_get(manifest->random, name));
    if (digits == NULL)
        return false;
    *out = strtoull(digits, NULL, 16);
    return true;
}

pen_status pen_manifest_set_text(struct pen_manifest *manifest,
                                 const char *name, const char *value,
                                 struct pen_text *why)
{
    json_t *text = json_string(value);
    if (text == NULL || strlen(value) > PEN__MAX_SETTING_BYTES) {
        json_decref(text);
        pen_why(why, "setting %s must be at most %u bytes of UTF-8", name,
                PEN__MAX_SETTING_BYTES);
        return PEN_INVALID;
    }
    return set(manifest->configuration, name, text, why);
}

pen_status pen_manifest_set_number(struct pen_manifest *manifest,
                                   const char *name, double value,
                                   struct pen_text *why)
{
    PEN_BUG_UNLESS(isfinite(value));
    return set(manifest->configuration, name, json_real(value), why);
}

pen_status pen_manifest_set_integer(struct pen_manifest *manifest,
                                    const char *name, int64_t value,
                                    struct pen_text *why)
{
    return set(manifest->configuration, name, json_integer(value), why);
}

pen_status pen_manifest_set_flag(struct pen_manifest *manifest,
                                 const char *name, bool value,
                                 struct pen_text *why)
{
    return set(manifest->configuration, name, json_boolean(value), why);
}

static void add_value(struct pen_text *why, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    pen_why(why, "%s", value == NULL ? "nothing" : text == NULL ? "?" : text);
    free(text);
}

void pen__tell_difference(const char *name, const json_t *saved,
                          const json_t *wanted, struct pen_text *why)
{
    pen_why(why, "%s%s is ", why != NULL && why->length > 0 ? ", " : "", name);
    add_value(why, saved);
    pen_why(why, " in the checkpoint and ");
    add_value(why, wanted);
    pen_why(why, " here");
}

pen_status pen_manifest_compare_settings(const struct pen_manifest *saved,
                                         const struct pen_manifest *wanted,
                                         struct pen_text *why)
{
    const char *name;
    json_t *value;
    pen_status status = PEN_OK;
    json_object_foreach(saved->configuration, name, value)
    {
        const json_t *other = json_object_get(wanted->configuration, name);
        if (json_equal(value, other))
            continue;
        pen__tell_difference(name, value, other, why);
        status = PEN_INVALID;
    }
    json_object_foreach(wanted->configuration, name, value)
    {
        if (json_object_get(saved->configuration, name) != NULL)
            continue;
        pen__tell_difference(name, NULL, value, why);
        status = PEN_INVALID;
    }
    return status;
}

bool pen__is_file_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return length > 0 && length < 256 && name[length] == '\0' &&
           name[0] != '.' && strcmp(name, PEN_MANIFEST_NAME) != 0;
}

/* Returns how many files have a name before this one. */
static size_t find_place(const struct pen_manifest *manifest, const char *name)
{
    size_t place = manifest->num_files;
    while (place > 0 && strcmp(manifest->files[place - 1].name, name) > 0)
        place--;
    return place;
}

pen_status pen_manifest_add_file(struct pen_manifest *manifest,
                                 const char *name, uint64_t num_bytes,
                                 const char hash[PEN_HASH_SIZE],
                                 struct pen_text *why)
{
    size_t count = manifest->num_files;
    size_t place = find_place(manifest, name);
    PEN_BUG_UNLESS(pen__is_file_name(name) && pen_hash_is_valid(hash));
    PEN_BUG_UNLESS(place == 0 ||
                   strcmp(manifest->files[place - 1].name, name) != 0);
    PEN_BUG_UNLESS(count < PEN_MANIFEST_MAX_FILES);
    struct pen_manifest_file *files =
        realloc(manifest->files, (count + 1) * sizeof *files);
    if (files == NULL)
        return refuse_memory(why);
    manifest->files = files;
    struct pen_manifest_file added = {.name = strdup(name),
                                      .num_bytes = num_bytes};
    memcpy(added.hash, hash, PEN_HASH_SIZE);
    if (added.name == NULL)
        return refuse_memory(why);
    memmove(files + place + 1, files + place, (count - place) * sizeof *files);
    files[place] = added;
    manifest->num_files++;
    return PEN_OK;
}

static int compare_files(const void *a, const void *b)
{
    const struct pen_manifest_file *x = a;
    const struct pen_manifest_file *y = b;
    return strcmp(x->name, y->name);
}

const struct pen_manifest_file *
pen_manifest_find_file(const struct pen_manifest *manifest, const char *name)
{
    if (manifest->num_files == 0)
        return NULL;
    const struct pen_manifest_file key = {.name = (char *)name};
    return bsearch(&key, manifest->files, manifest->num_files,
                   sizeof *manifest->files, compare_files);
}

uint64_t pen_manifest_total_bytes(const struct pen_manifest *manifest)
{
    uint64_t total = 0;
    for (size_t i = 0; i < manifest->num_files; i++)
        total += manifest->files[i].num_bytes;
    return total;
}
