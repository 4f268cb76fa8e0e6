#include "cli/reproduce/jobs.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/program/program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* When a job fails, the end of its output is shown. */
enum { TAIL_BYTES = 2000, MOST_OUTPUT = 1 << 26 };

/* ---- words ---- */

static void append(struct pen__words *words, char *word)
{
    char **more = words->is_lost || word == NULL
                      ? NULL
                      : realloc(words->at, (words->count + 2) * sizeof *more);
    if (more == NULL) {
        free(word);
        words->is_lost = true;
        return;
    }
    words->at = more;
    words->at[words->count++] = word;
    words->at[words->count] = NULL;
}

void pen__words_add(struct pen__words *words, const char *format, ...)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    va_list args;
    va_start(args, format);
    pen_text_add_list(&text, format, args);
    va_end(args);
    append(words, text.has_failed ? NULL : strdup(pen_text_string(&text)));
    pen_text_release(&text);
}

void pen__words_split(struct pen__words *words, const char *text)
{
    while (*(text += strspn(text, " ")) != '\0') {
        size_t length = strcspn(text, " ");
        append(words, strndup(text, length));
        text += length;
    }
}

void pen__words_release(struct pen__words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->at[i]);
    free(words->at);
    *words = (struct pen__words){0};
}

/* Prints a word, in quotes where a shell would take it for something else. */
static void print_word(const char *word, struct pen_text *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+:,./%@";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0')
        pen_text_add_string(out, word);
    else
        pen_text_add(out, "'%s'", word); /* no name of ours has quotes */
}

static void print_words(const struct pen__words *words, uint32_t num_ranks,
                        struct pen_text *out)
{
    if (num_ranks > 0)
        pen_text_add(out, "mpirun -n %u ", num_ranks);
    pen_text_add_string(out, "penstock");
    for (size_t i = 0; i < words->count; i++) {
        pen_text_add_string(out, " ");
        print_word(words->at[i], out);
    }
    pen_text_add_string(out, "\n");
}

/* ---- jobs ---- */

void pen__jobs_init(struct pen__jobs *jobs, const char *folder,
                    const char *launcher, uint32_t num_jobs,
                    double total_weight)
{
    *jobs = (struct pen__jobs){.folder = folder,
                               .launcher = launcher,
                               .num_jobs = num_jobs,
                               .total_weight = total_weight};
    pen_text_init(&jobs->commands);
    jobs->begin_ns = pen_clock_ns();
}

void pen__jobs_release(struct pen__jobs *jobs)
{
    pen_text_release(&jobs->commands);
}

static double elapsed_sec(const struct pen__jobs *jobs)
{
    return 1e-9 * (double)(pen_clock_ns() - jobs->begin_ns);
}

static void report(const struct pen__jobs *jobs, const char *name)
{
    double left = jobs->total_weight - jobs->weight_done - jobs->weight_kept;
    double sec = jobs->weight_done == 0
                     ? 0
                     : elapsed_sec(jobs) * left / jobs->weight_done;
    long whole = (long)sec;
    pen_log(PEN_LOG_INFO, "%s: %u of %u done, %02ld:%02ld left", name,
            jobs->num_done, jobs->num_jobs, whole / 60, whole % 60);
}

void pen__jobs_keep(struct pen__jobs *jobs, uint32_t num_ranks, double weight,
                    struct pen__words *words)
{
    print_words(words, num_ranks, &jobs->commands);
    jobs->num_done++;
    jobs->weight_kept += weight;
    pen__words_release(words);
}

/* Launchers of Open MPI: more ranks than cores, and root, are meant here. */
static void prepare_launcher(void)
{
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    if (geteuid() != 0)
        return;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* Joins the whole line: launcher, program, words. */
static void join(const struct pen__jobs *jobs, const struct pen__words *words,
                 uint32_t num_ranks, struct pen__words *out)
{
    struct pen_text program = PEN_TEXT_EMPTY;
    if (num_ranks > 0) {
        pen__words_split(out, jobs->launcher);
        pen__words_add(out, "-n");
        pen__words_add(out, "%u", num_ranks);
    }
    pen__program_find(&program);
    pen__words_add(out, "%s", pen_text_string(&program));
    for (size_t i = 0; i < words->count; i++)
        pen__words_add(out, "%s", words->at[i]);
    pen_text_release(&program);
}

/*
 * Runs the line; returns its exit code, 128 and the signal that ended it, or -1
 * with errno.
 */
static int run(const struct pen__words *line, const char *output)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    pid_t child;
    int state = 0;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output,
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    errno = posix_spawnp(&child, line->at[0], &files, NULL, line->at, environ);
    posix_spawn_file_actions_destroy(&files);
    if (errno != 0)
        return -1;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

static void explain(const char *output, int code, struct pen_text *command,
                    struct pen_text *why)
{
    struct pen_text printed = PEN_TEXT_EMPTY;
    pen_why(why, "this command ended with exit code %d:\n  %s", code,
            pen_text_string(command));
    if (pen_file_read(output, MOST_OUTPUT, &printed, NULL) == PEN_OK) {
        size_t skipped =
            printed.length > TAIL_BYTES ? printed.length - TAIL_BYTES : 0;
        pen_why(why, "and printed at the end (all of it is in %s):\n%s", output,
                pen_text_string(&printed) + skipped);
    }
    pen_text_release(&printed);
}

pen_status pen__jobs_run(struct pen__jobs *jobs, const char *name,
                         uint32_t num_ranks, double weight,
                         struct pen__words *words, struct pen_text *why)
{
    struct pen_text output = PEN_TEXT_EMPTY, command = PEN_TEXT_EMPTY;
    struct pen__words line = {0};
    pen_status status = PEN_OK;
    pen_text_add(&output, "%s/%s.txt", jobs->folder, name);
    print_words(words, num_ranks, &command);
    pen_text_add_string(&jobs->commands, pen_text_string(&command));
    join(jobs, words, num_ranks, &line);
    if (line.is_lost || words->is_lost) {
        status = PEN_NOMEM;
    } else {
        prepare_launcher();
        int code = run(&line, pen_text_string(&output));
        if (code < 0)
            status = pen_file_refuse("run", line.at[0], why);
        else if (code != 0)
            explain(pen_text_string(&output), code, &command, why);
        if (code > 0)
            status = PEN_IO;
    }
    jobs->num_done++;
    jobs->weight_done += weight;
    if (status == PEN_OK)
        report(jobs, name);
    pen__words_release(&line);
    pen__words_release(words);
    pen_text_release(&command);
    pen_text_release(&output);
    return status;
}
