#include "supervise/last_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pen_last_words_init(struct pen_last_words *words)
{
    memset(words, 0, sizeof *words);
    words->fault = (struct pen_fault)PEN_FAULT_UNKNOWN;
}

/*
 * Returns the number after a word, such as 12 of "at step 12 in"; or unknown.
 */
static int64_t number_after(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    int64_t number;
    if (at == NULL || sscanf(at + strlen(word), "%" SCNd64, &number) != 1)
        return PEN_UNKNOWN;
    return number;
}

/* "5F3" of "in 5F3 (forward ...)" or of "has been in 5F3 of step 20". */
static void read_op(const char *line, const char *word, char op[32])
{
    const char *at = strstr(line, word);
    char first[32] = "";
    if (at == NULL || sscanf(at + strlen(word), "%31[0-9A-Za-z]", first) != 1)
        return;
    if (first[0] >= '0' && first[0] <= '9')
        memcpy(op, first, sizeof first);
}

/* "rank 5 on node1 died (signal 9) at step 12 in 5F3 (...); the job ends" */
static bool read_death(const char *line, struct pen_fault *fault)
{
    if (strncmp(line, "penstock: rank ", 15) != 0 ||
        strstr(line, " died (") == NULL)
        return false;
    fault->cause = PEN_CAUSE_RANK_DIED;
    fault->rank = number_after(line, "penstock: rank ");
    fault->signal = number_after(line, " died (signal ");
    fault->exit_code = number_after(line, " died (exit code ");
    fault->step = number_after(line, " at step ");
    read_op(line, " in ", fault->op);
    return true;
}

/* "...; root of the wait: rank 4 on node1 has been in 4F2 of step 20 for" */
static bool read_hang(const char *line, struct pen_fault *fault)
{
    const char *root = strstr(line, "root of the wait: ");
    if (root == NULL || strncmp(line, "penstock: rank ", 15) != 0)
        return false;
    fault->cause = PEN_CAUSE_HANG;
    fault->rank = number_after(root, "root of the wait: rank ");
    fault->step = number_after(root, " of step ");
    if (fault->step == PEN_UNKNOWN)
        fault->step = number_after(root, " at step ");
    read_op(root, " has been in ", fault->op);
    return true;
}

static void end_line(struct pen_last_words *words)
{
    static const char error[] = "penstock: error: ";
    char *line = words->lines[words->num_lines % PEN_LAST_LINES];
    line[words->length] = '\0';
    words->length = 0;
    words->num_lines++;
    if (words->error[0] == '\0' && strncmp(line, error, sizeof error - 1) == 0)
        memcpy(words->error, line, PEN_LAST_LINE_BYTES);
    if (!words->is_told)
        words->is_told =
            read_death(line, &words->fault) || read_hang(line, &words->fault);
}

void pen_last_words_add(struct pen_last_words *words, const char *bytes,
                        size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char *line = words->lines[words->num_lines % PEN_LAST_LINES];
        if (bytes[i] == '\n')
            end_line(words);
        else if (words->length < PEN_LAST_LINE_BYTES - 1)
            line[words->length++] = bytes[i];
    }
}

/* The line that is being read has taken the oldest one's place. */
size_t pen_last_words_count(const struct pen_last_words *words)
{
    return words->num_lines < PEN_LAST_LINES ? words->num_lines
                                             : PEN_LAST_LINES - 1;
}

const char *pen_last_words_line(const struct pen_last_words *words, size_t i)
{
    size_t first = words->num_lines - pen_last_words_count(words);
    return words->lines[(first + i) % PEN_LAST_LINES];
}
