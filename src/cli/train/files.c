#include "cli/train/files.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    bool is_folder;
    bool makes_parents; /* and not only the last word of its path */
} kinds[] = {[PEN__FILE_LOG] = {"--log", false, false},
             [PEN__FILE_TENSORBOARD] = {"--tensorboard-dir", true, true},
             [PEN__FILE_TRACE] = {"--trace", true, false},
             [PEN__FILE_PROBE] = {"--probe", false, false}};

static bool is_writable_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) &&
           access(path, W_OK | X_OK) == 0;
}

/* Cuts the last word off; "." or "/" where it was the only one. */
static void cut_last(struct pen_text *path)
{
    size_t length = path->length;
    while (length > 1 && path->bytes[length - 1] == '/')
        length--;
    while (length > 0 && path->bytes[length - 1] != '/')
        length--;
    while (length > 1 && path->bytes[length - 1] == '/')
        length--;
    if (length == 0) {
        pen_text_clear(path);
        pen_text_add(path, ".");
        return;
    }
    path->length = length;
    path->bytes[length] = '\0';
}

static bool may_be_made(struct pen_text *path, bool makes_parents)
{
    struct stat facts;
    do
        cut_last(path);
    while (makes_parents && path->length > 1 &&
           stat(pen_text_string(path), &facts) != 0);
    return is_writable_folder(pen_text_string(path));
}

/* Whether a file could be written if the disk had room and worked. */
static bool is_path_right(enum pen__train_file kind, const char *path)
{
    bool is_folder = kinds[kind].is_folder;
    struct stat facts;
    struct pen_text above = PEN_TEXT_EMPTY;
    if (stat(path, &facts) == 0)
        return is_folder ? is_writable_folder(path)
                         : !S_ISDIR(facts.st_mode) && access(path, W_OK) == 0;
    pen_text_add(&above, "%s", path);
    bool is_right =
        above.length > 0 && may_be_made(&above, kinds[kind].makes_parents);
    pen_text_release(&above);
    return is_right;
}

static void warn(enum pen__train_file kind, const char *loss, pen_status status,
                 const struct pen_text *why)
{
    pen_log(PEN_LOG_WARN, "%s %s: %s; the training continues", kinds[kind].name,
            loss,
            why->length > 0 ? pen_text_string(why) : pen_status_text(status));
}

pen_status pen__train_file_opened(enum pen__train_file kind, const char *path,
                                  pen_status status, struct pen_text *why)
{
    bool is_disk = status == PEN_NOMEM || status == PEN_IO;
    if (!is_disk || !is_path_right(kind, path))
        return status;
    warn(kind, "is not written", status, why);
    pen_text_clear(why);
    return PEN_OK;
}

void pen__train_file_written(enum pen__train_file kind, pen_status status,
                             bool *is_told, struct pen_text *why)
{
    if (status != PEN_OK && !*is_told)
        warn(kind, "loses what cannot be written", status, why);
    *is_told = *is_told || status != PEN_OK;
    pen_text_clear(why);
}
