/*
 * Makes one set of files from the shares of all processes. Files are numbered
 * by share, so that their names do not depend on which process was first:
 *
 *   model.000000.safetensors  ->  model-00001-of-00002.safetensors
 *   model.000001.safetensors  ->  model-00002-of-00002.safetensors
 */
#include "checkpoint/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory for the records of a checkpoint");
    return PEN_NOMEM;
}

static pen_status check_record(const struct pen_checkpoint_writer *writer,
                               const struct pen_record *record,
                               struct pen_text *why)
{
    if (record->step != writer->manifest.step) {
        pen_why(why, "share %" PRIu32 " is of step %" PRIu64 ", not %" PRIu64,
                record->share, record->step, writer->manifest.step);
        return PEN_INVALID;
    }
    for (size_t i = 0; i < writer->num_records; i++) {
        if (writer->records[i].share != record->share)
            continue;
        pen_why(why, "share %" PRIu32 " was sent twice", record->share);
        return PEN_INVALID;
    }
    return PEN_OK;
}

pen_status pen_checkpoint_add_record(struct pen_checkpoint_writer *writer,
                                     const char *record, size_t length,
                                     struct pen_text *why)
{
    struct pen_record parsed;
    pen_status status = pen_record_parse(record, length, &parsed, why);
    if (status != PEN_OK)
        return status;
    status = check_record(writer, &parsed, why);
    struct pen_record *more =
        status == PEN_OK
            ? realloc(writer->records, (writer->num_records + 1) * sizeof *more)
            : NULL;
    if (status == PEN_OK && more == NULL)
        status = refuse_memory(why);
    if (status != PEN_OK) {
        pen_record_release(&parsed);
        return status;
    }
    writer->records = more;
    more[writer->num_records++] = parsed;
    return PEN_OK;
}

/* The files of one kind, as they are put together. */
struct set {
    enum pen_record_kind kind;
    size_t num_files;
    size_t num_named;
    uint64_t tensor_bytes;
    json_t *map; /* of tensors to files */
};

static pen_status rename_file(const struct pen_checkpoint_writer *writer,
                              const char *from, const char *to,
                              struct pen_text *why)
{
    const char *directory = pen_text_string(&writer->temporary);
    struct pen_text old = PEN_TEXT_EMPTY;
    struct pen_text new = PEN_TEXT_EMPTY;
    pen_text_add(&old, "%s/%s", directory, from);
    pen_text_add(&new, "%s/%s", directory, to);
    int failed = rename(pen_text_string(&old), pen_text_string(&new));
    if (failed != 0)
        pen_why(why, "cannot write %s: %s", pen_text_string(&new),
                strerror(errno));
    pen_text_release(&old);
    pen_text_release(&new);
    return failed == 0 ? PEN_OK : PEN_IO;
}

/* Checks that versions, and no extras, have names of versions. */
static pen_status check_sync_name(const char *name, bool is_extra,
                                  struct pen_text *why)
{
    if (pen__is_version_name(name) != is_extra)
        return PEN_OK;
    pen_why(
        why,
        is_extra
            ? "the extra tensor %s of a share has the name of a version"
            : "a share has the version %s of a tensor that it does not have",
        name);
    return PEN_INVALID;
}

static pen_status map_tensor(struct pen_checkpoint_writer *writer,
                             struct set *set, const char *tensor,
                             const char *file, struct pen_text *why)
{
    if (json_object_get(set->map, tensor) != NULL) {
        pen_why(why, "two shares have the tensor %s", tensor);
        return PEN_INVALID;
    }
    if (set->kind != PEN_RECORD_SYNC &&
        json_object_del(writer->missing[set->kind], tensor) != 0) {
        pen_why(why,
                "a share has the tensor %s, which the checkpoint does not have",
                tensor);
        return PEN_INVALID;
    }
    return json_object_set_new(set->map, tensor, json_string(file)) == 0
               ? PEN_OK
               : refuse_memory(why);
}

static pen_status take_file(struct pen_checkpoint_writer *writer,
                            struct set *set, const struct pen_record_file *file,
                            struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_weights_add_name(pen_record_kind_name(set->kind), set->num_named++,
                         set->num_files, &name);
    const char *text = pen_text_string(&name);
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < file->num_tensors; i++) {
        if (set->kind == PEN_RECORD_SYNC)
            status =
                check_sync_name(file->tensors[i],
                                i >= file->num_tensors - file->num_extras, why);
        if (status == PEN_OK)
            status = map_tensor(writer, set, file->tensors[i], text, why);
    }
    if (status == PEN_OK)
        status = rename_file(writer, file->name, text, why);
    if (status == PEN_OK)
        status =
            pen_manifest_add_file(&writer->manifest, text,
                                  file->facts.num_bytes, file->facts.hash, why);
    set->tensor_bytes += file->tensor_bytes;
    pen_text_release(&name);
    return status;
}

/* Takes the map. */
static pen_status add_index(struct pen_checkpoint_writer *writer,
                            const struct set *set, struct pen_text *why)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    char *text = pen_weight_index_print(set->map, set->tensor_bytes);
    pen_text_add(&name, "%s.safetensors.index.json",
                 pen_record_kind_name(set->kind));
    pen_status status =
        text == NULL || name.has_failed
            ? refuse_memory(why)
            : pen_checkpoint_add_file(writer, pen_text_string(&name), text,
                                      strlen(text), why);
    free(text);
    pen_text_release(&name);
    return status;
}

/* Splits "NAME.version7" into NAME and 7; false for any other name. */
static bool parse_version(const char *name, struct pen_text *tensor,
                          uint32_t *version)
{
    static const char word[] = ".version";
    const char *end = name + strlen(name);
    while (end > name && end[-1] >= '0' && end[-1] <= '9')
        end--;
    unsigned long number = strtoul(end, NULL, 10);
    ptrdiff_t length = end - name - (ptrdiff_t)strlen(word);
    if (length <= 0 || strncmp(name + length, word, strlen(word)) != 0 ||
        number == 0 || number > PEN_CHECKPOINT_MAX_VERSIONS || *end == '0')
        return false;
    pen_text_add_bytes(tensor, name, (size_t)length);
    *version = (uint32_t)number;
    return true;
}

/*
 * Checks that each version is of an existing tensor that has all newer
 * versions, too.
 */
static pen_status check_version(const json_t *weights, const json_t *versions,
                                const char *name, struct pen_text *why)
{
    struct pen_text tensor = PEN_TEXT_EMPTY;
    struct pen_text newer = PEN_TEXT_EMPTY;
    uint32_t version = 0;
    bool is_right = parse_version(name, &tensor, &version);
    const char *text = pen_text_string(&tensor);
    if (is_right && version > 1)
        pen__part_name(text, PEN_CHECKPOINT_VERSION1 + version - 2, &newer);
    is_right = is_right && json_object_get(weights, text) != NULL &&
               (version == 1 ||
                json_object_get(versions, pen_text_string(&newer)) != NULL);
    if (!is_right)
        pen_why(why,
                "a share has the version %s of a tensor that it does not have",
                name);
    pen_text_release(&tensor);
    pen_text_release(&newer);
    return is_right ? PEN_OK : PEN_INVALID;
}

static pen_status check_versions(const json_t *weights, json_t *versions,
                                 struct pen_text *why)
{
    const char *name;
    json_t *file;
    pen_status status = PEN_OK;
    json_object_foreach(versions, name, file)
    {
        if (status == PEN_OK && pen__is_version_name(name))
            status = check_version(weights, versions, name, why);
    }
    return status;
}

static pen_status check_missing(const struct pen_checkpoint_writer *writer,
                                struct pen_text *why)
{
    for (int i = 0; i < PEN_RECORD_SYNC; i++) {
        size_t count = json_object_size(writer->missing[i]);
        if (count == 0)
            continue;
        pen_why(why, "%zu tensors are missing from all shares, among them %s",
                count,
                json_object_iter_key(json_object_iter(writer->missing[i])));
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status take_files(struct pen_checkpoint_writer *writer,
                             struct set *set, struct pen_text *why)
{
    pen_status status = set->map == NULL ? refuse_memory(why) : PEN_OK;
    for (size_t i = 0; i < writer->num_records; i++) {
        const struct pen_record *record = &writer->records[i];
        for (size_t j = 0; status == PEN_OK && j < record->num_files; j++) {
            if (record->files[j].kind == set->kind)
                status = take_file(writer, set, &record->files[j], why);
        }
    }
    return status;
}

static int compare_shares(const void *a, const void *b)
{
    const struct pen_record *x = a;
    const struct pen_record *y = b;
    return (x->share > y->share) - (x->share < y->share);
}

/* Counts the files of each kind. */
static pen_status begin_sets(const struct pen_checkpoint_writer *writer,
                             struct set sets[PEN_RECORD_KINDS],
                             struct pen_text *why)
{
    size_t total = writer->manifest.num_files + PEN_RECORD_KINDS;
    for (enum pen_record_kind i = 0; i < PEN_RECORD_KINDS; i++)
        sets[i] = (struct set){.kind = i, .map = json_object()};
    for (size_t i = 0; i < writer->num_records; i++) {
        const struct pen_record *record = &writer->records[i];
        total += record->num_files;
        for (size_t j = 0; j < record->num_files; j++)
            sets[record->files[j].kind].num_files++;
    }
    if (total <= PEN_MANIFEST_MAX_FILES)
        return PEN_OK;
    pen_why(why, "the checkpoint has %zu files, more than %u", total,
            PEN_MANIFEST_MAX_FILES);
    return PEN_INVALID;
}

pen_status pen__checkpoint_collect(struct pen_checkpoint_writer *writer,
                                   struct pen_text *why)
{
    struct set sets[PEN_RECORD_KINDS];
    if (writer->num_records > 0)
        qsort(writer->records, writer->num_records, sizeof *writer->records,
              compare_shares);
    pen_status status = begin_sets(writer, sets, why);
    for (int i = 0; status == PEN_OK && i < PEN_RECORD_KINDS; i++)
        status = take_files(writer, &sets[i], why);
    if (status == PEN_OK)
        status = check_missing(writer, why);
    if (status == PEN_OK)
        status = check_versions(sets[PEN_RECORD_MODEL].map,
                                sets[PEN_RECORD_SYNC].map, why);
    for (int i = 0; i < PEN_RECORD_KINDS; i++) {
        if (status == PEN_OK && sets[i].num_files > 1)
            status = add_index(writer, &sets[i], why);
        else
            json_decref(sets[i].map);
    }
    return status;
}
