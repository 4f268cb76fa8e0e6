/*
 * How one program of the family finds another. Places are relative to this
 * program itself, so that a build folder and an installation that was moved
 * work without any setting:
 *
 *   bin/penstock
 *   bin/penstock-train                 in the same folder, as in a build
 *   libexec/penstock/penstock-train    out of the user's way, once installed
 */
#include "cli/program/program.h"

#include "base/log.h"
#include "cli/program/answer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the folder of this program; "" is that folder. */
static const char *const places[] = {"", PEN_LIBEXEC "/"};

void pen__program_find(struct pen_text *out)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0)
        pen_text_add_bytes(out, path, (size_t)length);
}

/* Cuts the name off: what stays is the folder, with its slash. */
static void find_folder(struct pen_text *out)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen__program_find(&path);
    const char *slash = strrchr(pen_text_string(&path), '/');
    if (slash != NULL)
        pen_text_add_bytes(out, path.bytes,
                           (size_t)(slash + 1 - pen_text_string(&path)));
    pen_text_release(&path);
}

static void execute(const char *path, const char *first, char **argv)
{
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **words = malloc((count + 3) * sizeof *words);
    if (words == NULL) {
        errno = ENOMEM;
        return;
    }
    size_t next = 0;
    words[next++] = (char *)path;
    if (first != NULL)
        words[next++] = (char *)first;
    memcpy(words + next, argv, (count + 1) * sizeof *words);
    execv(path, words);
    int code = errno;
    free(words);
    errno = code;
}

json_t *pen__program_ask(const char *sibling)
{
    struct pen_text folder = PEN_TEXT_EMPTY;
    struct pen_text command = PEN_TEXT_EMPTY;
    json_t *answer = NULL;
    find_folder(&folder);
    for (size_t i = 0; answer == NULL && i < sizeof places / sizeof *places;
         i++) {
        pen_text_clear(&command);
        pen_text_add(&command, "%s%s%s", pen_text_string(&folder), places[i],
                     sibling);
        if (access(pen_text_string(&command), X_OK) != 0)
            continue;
        pen_text_clear(&folder);
        pen_text_add_quoted(&folder, pen_text_string(&command));
        pen_text_add_string(&folder, " help --json");
        FILE *pipe = popen(pen_text_string(&folder), "r");
        answer = pipe == NULL ? NULL : json_loadf(pipe, 0, NULL);
        if (pipe != NULL)
            pclose(pipe);
        break;
    }
    pen_text_release(&folder);
    pen_text_release(&command);
    return answer;
}

int pen__program_become(const char *sibling, const char *first, char **argv,
                        const char *hint)
{
    struct pen_text folder = PEN_TEXT_EMPTY;
    struct pen_text path = PEN_TEXT_EMPTY;
    find_folder(&folder);
    const char *start = pen_text_string(&folder);
    int code = ENOENT;
    for (size_t i = 0; code == ENOENT && i < sizeof places / sizeof *places;
         i++) {
        pen_text_clear(&path);
        pen_text_add(&path, "%s%s%s", start, places[i], sibling);
        execute(pen_text_string(&path), first, argv);
        code = errno;
    }
    pen__answer_set_code("not-installed");
    if (code == ENOENT)
        pen_log(PEN_LOG_ERROR,
                "%s is not installed: it is neither in %s nor in %s%s\n"
                "  %s",
                sibling, start, start, PEN_LIBEXEC, hint);
    else
        pen_log(PEN_LOG_ERROR, "cannot run %s: %s", pen_text_string(&path),
                strerror(code));
    pen_text_release(&path);
    pen_text_release(&folder);
    return PEN__EXIT_NO;
}
