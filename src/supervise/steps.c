#include "supervise/steps.h"

#include "supervise/policy.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int64_t read_newest(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    int64_t newest = PEN_UNKNOWN;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        int64_t step;
        int end = 0;
        if (sscanf(entry->d_name, "step-%" SCNd64 "%n", &step, &end) == 1 &&
            entry->d_name[end] == '\0' && step > newest)
            newest = step;
    }
    if (folder != NULL)
        closedir(folder);
    return newest;
}

int64_t pen_steps_newest(struct pen_steps *steps)
{
    struct stat facts;
    if (steps->folder == NULL || stat(steps->folder, &facts) != 0)
        return PEN_UNKNOWN;
    /* Two changes within a tick of the file system's clock look like one. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (facts.st_mtim.tv_sec == steps->changed.tv_sec &&
        facts.st_mtim.tv_nsec == steps->changed.tv_nsec &&
        now.tv_sec - facts.st_mtim.tv_sec > 2)
        return steps->newest;
    steps->changed = facts.st_mtim;
    steps->newest = read_newest(steps->folder);
    return steps->newest;
}

const char *pen_steps_find_folder(char *const *words)
{
    static const char option[] = "--save";
    const char *folder = NULL;
    for (; *words != NULL; words++) {
        size_t length = sizeof option - 1;
        if (strcmp(*words, option) == 0 && words[1] != NULL)
            folder = words[1];
        else if (strncmp(*words, option, length) == 0 &&
                 (*words)[length] == '=')
            folder = *words + length + 1;
    }
    return folder;
}
