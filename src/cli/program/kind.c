/*
 * Recognises files and folders of Penstock, for commands that are given one
 * made for another command.
 */
#include "cli/program/kind.h"

#include "base/file.h"
#include "checkpoint/checkpoint.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 1024u

static const struct {
    const char *words;
    const char *use;
} kinds[] = {
#define KIND_ROW(name, words, use) [PEN__KIND_##name] = {words, use},
    PEN__KIND_TABLE(KIND_ROW)
#undef KIND_ROW
};

bool pen__find_in(const char *folder, const char *name, struct pen_text *out)
{
    struct stat facts;
    pen_text_clear(out);
    pen_text_add(out, "%s/%s", folder, name);
    return stat(pen_text_string(out), &facts) == 0;
}

static enum pen__kind kind_of_folder(const char *path)
{
    static const struct {
        const char *name;
        enum pen__kind kind;
    } names[] = {{"schedule.pen", PEN__KIND_TRACE},
                 {"log.jsonl", PEN__KIND_RUN},
                 {"ranks.json", PEN__KIND_RUN},
                 {"trace/schedule.pen", PEN__KIND_RUN}};
    struct pen_text file = PEN_TEXT_EMPTY;
    enum pen__kind kind = PEN__KIND_UNKNOWN;
    for (size_t i = 0; i < sizeof names / sizeof *names && kind == 0; i++)
        if (pen__find_in(path, names[i].name, &file))
            kind = names[i].kind;
    enum pen_checkpoint_kind saved = pen_checkpoint_kind_of(path);
    if (kind == PEN__KIND_UNKNOWN && saved == PEN_CHECKPOINT_RUN)
        kind = PEN__KIND_SAVES;
    if (kind == PEN__KIND_UNKNOWN && saved == PEN_CHECKPOINT_STEP)
        kind = PEN__KIND_STEP;
    if (kind == PEN__KIND_UNKNOWN && pen__find_in(path, "config.json", &file))
        kind = PEN__KIND_MODEL;
    pen_text_release(&file);
    return kind;
}

/* Finds the kind by the text after "format": in the first object of JSON. */
static enum pen__kind kind_of_format(const char *head)
{
    static const struct {
        const char *name;
        enum pen__kind kind;
    } formats[] = {{"\"penstock-run\"", PEN__KIND_LOG},
                   {"\"penstock-plan\"", PEN__KIND_PLAN},
                   {"\"penstock-profile\"", PEN__KIND_PROFILE}};
    const char *at = strstr(head, "\"format\"");
    if (head[strspn(head, " \t\r\n")] != '{' || at == NULL)
        return PEN__KIND_UNKNOWN;
    at += strlen("\"format\"");
    at += strspn(at, " \t\r\n:");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strncmp(at, formats[i].name, strlen(formats[i].name)) == 0)
            return formats[i].kind;
    return PEN__KIND_UNKNOWN;
}

/*
 * Returns whether it has calls: Flight Recorder as JSON or pickle,
 * torch.profiler, Chrome's events.
 */
static bool is_calls(const char *head, size_t length)
{
    static const char *const keys[] = {
        "\"traceEvents\"",    "\"distributedInfo\"",  "\"collective_seq_id\"",
        "\"profiling_name\"", "\"comm_lib_version\"", "\"nccl_version\"",
        "\"pg_config\"",      "\"schemaVersion\"",    "\"ph\""};
    char first = head[strspn(head, " \t\r\n")];
    bool is_gzip = length >= 2 && memcmp(head, "\x1f\x8b", 2) == 0;
    if (is_gzip || (length >= 2 && memcmp(head, "\x80", 1) == 0 &&
                    head[1] >= 2 && head[1] <= 5))
        return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if ((first == '{' || first == '[') && strstr(head, keys[i]) != NULL)
            return true;
    }
    return false;
}

static enum pen__kind kind_of_file(const char *path)
{
    char head[HEAD_BYTES + 1];
    struct pen_text unused = PEN_TEXT_EMPTY;
    uint64_t num_bytes;
    int handle;
    pen_status status = pen_file_open(path, &handle, &num_bytes, &unused);
    pen_text_release(&unused);
    if (status != PEN_OK)
        return PEN__KIND_UNKNOWN;
    ssize_t length = read(handle, head, HEAD_BYTES);
    close(handle);
    head[length < 0 ? 0 : length] = '\0';
    if (strncmp(head, "# penstock-schedule", 19) == 0)
        return PEN__KIND_SCHEDULE;
    enum pen__kind kind = kind_of_format(head);
    if (kind == PEN__KIND_UNKNOWN && strstr(head, "\"model_type\"") != NULL)
        kind = PEN__KIND_MODEL;
    if (kind == PEN__KIND_UNKNOWN &&
        is_calls(head, length < 0 ? 0 : (size_t)length))
        kind = PEN__KIND_CALLS;
    return kind;
}

enum pen__kind pen__kind_of(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return PEN__KIND_UNKNOWN;
    if (S_ISDIR(facts.st_mode))
        return kind_of_folder(path);
    return S_ISREG(facts.st_mode) ? kind_of_file(path) : PEN__KIND_UNKNOWN;
}

bool pen__kind_tell(const char *path, enum pen__kind kind, struct pen_text *why)
{
    const char *use = kinds[kind].use;
    if (kind == PEN__KIND_UNKNOWN)
        return false;
    size_t before = strcspn(use, "*");
    pen_why(why, "%s is %s; %.*s%s%s", path, kinds[kind].words, (int)before,
            use, path, use + before + 1);
    return true;
}
