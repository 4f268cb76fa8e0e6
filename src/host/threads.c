/*
 * Threads are bound by OpenMP itself, through OMP_PLACES. Binding them by hand
 * in a parallel region does not last: when a region takes fewer threads (and
 * oneDNN does that where work is small), libgomp ends the others, and those it
 * makes later inherit the one core of the main thread.
 */
#include "host/threads.h"

#include "base/file.h"
#include "host/machine.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Holds the id of the process that has set OMP_PLACES for itself. */
#define MARK "PENSTOCK_BOUND"

/*
 * LLVM's OpenMP takes its places by another name: the usual one would be read
 * by the libgomp inside oneDNN, too, which binds the main thread first.
 */
#ifdef KMP_VERSION_MAJOR
#define PLACES "KMP_AFFINITY"
#define PLACES_FORMAT "explicit,proclist=[%s]"
#else
#define PLACES "OMP_PLACES"
#define PLACES_FORMAT "%s"
#endif

#define WORDS_LIMIT ((size_t)4 << 20)

const char *pen_binding_word(enum pen_binding binding)
{
    static const char *const words[] = {
#define PEN_BINDING_WORD(name, word, sentence) word,
        PEN_BINDING_TABLE(PEN_BINDING_WORD)
#undef PEN_BINDING_WORD
    };
    return words[binding];
}

const char *pen_binding_sentence(enum pen_binding binding)
{
    static const char *const sentences[] = {
#define PEN_BINDING_SENTENCE(name, word, sentence) sentence,
        PEN_BINDING_TABLE(PEN_BINDING_SENTENCE)
#undef PEN_BINDING_SENTENCE
    };
    return sentences[binding];
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

static bool is_placed_by_user(void)
{
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES",
                                        "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_set(names[i]))
            return true;
    return false;
}

static bool is_placed_by_us(void)
{
    const char *mark = getenv(MARK);
    return mark != NULL && strtol(mark, NULL, 10) == (long)getpid();
}

int pen_threads_default(const struct pen_topology *topology)
{
    double count = topology->usable.cores;
    if (topology->cpu_quota > 0)
        count = fmin(count, ceil(topology->cpu_quota));
    return count < 1 ? 1 : (int)count;
}

static int choose_count(const struct pen_threads_options *options,
                        const struct pen_topology *topology)
{
    int count = options->count > 0          ? options->count
                : is_set("OMP_NUM_THREADS") ? omp_get_max_threads()
                                            : pen_threads_default(topology);
    int most = omp_get_thread_limit();
    return count < most ? count : most;
}

/* Chooses the binding; PEN_BINDING_CORES means that it is still to be done. */
static enum pen_binding
choose_binding(const struct pen_threads_options *options,
               const struct pen_topology *topology, int count)
{
    if (is_placed_by_user())
        return PEN_BINDING_USER;
    if (options->is_unbound)
        return PEN_BINDING_OFF;
    if (topology->usable.hardware_threads < topology->allowed.hardware_threads)
        return PEN_BINDING_MASK;
    if ((uint32_t)count < topology->usable.cores)
        return PEN_BINDING_SHARED;
    return PEN_BINDING_CORES;
}

/* Names one place per core, "{0,32},{1,33}", in the order of hwloc. */
static pen_status name_places(struct pen_text *out, struct pen_text *why)
{
    struct pen__machine machine;
    pen_status status = pen__machine_init(&machine, why);
    if (status != PEN_OK)
        return status;
    hwloc_obj_t core = NULL;
    while ((core = pen__machine_next_core(&machine, machine.usable, core)) !=
           NULL) {
        const char *before = out->length == 0 ? "{" : ",{";
        int processor = -1;
        while ((processor = hwloc_bitmap_next(core->cpuset, processor)) >= 0) {
            if (!hwloc_bitmap_isset(machine.usable, (unsigned)processor))
                continue;
            pen_text_add(out, "%s%d", before, processor);
            before = ",";
        }
        pen_text_add(out, "}");
    }
    pen__machine_release(&machine);
    return out->has_failed ? PEN_NOMEM : PEN_OK;
}

/* Returns only when it fails. `words` are ended by a NUL each. */
static void execute(const struct pen_text *words)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    char **argv = calloc(words->length + 1, sizeof *argv);
    size_t count = 0;
    if (argv == NULL || length < 0)
        goto done;
    path[length] = '\0';
    for (size_t at = 0; at < words->length; at += strlen(words->bytes + at) + 1)
        argv[count++] = words->bytes + at;
    fflush(NULL);
    execv(path, argv);
done:
    free(argv);
}

/* Places alone bind: OMP_PROC_BIND is then true unless it is set. */
static void start_again(const char *places)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_text setting = PEN_TEXT_EMPTY;
    char id[24];
    snprintf(id, sizeof id, "%ld", (long)getpid());
    pen_text_add(&setting, PLACES_FORMAT, places);
    if (!setting.has_failed &&
        pen_file_read("/proc/self/cmdline", WORDS_LIMIT, &words, NULL) ==
            PEN_OK &&
        setenv(PLACES, setting.bytes, 1) == 0 && setenv(MARK, id, 1) == 0)
        execute(&words);
    unsetenv(MARK);
    unsetenv(PLACES);
    pen_text_release(&setting);
    pen_text_release(&words);
}

pen_status pen_threads_start(const struct pen_threads_options *options,
                             struct pen_threads *out, struct pen_text *why)
{
    struct pen_topology topology;
    struct pen_text places = PEN_TEXT_EMPTY;
    pen_status status = pen_topology_read(&topology, why);
    if (status != PEN_OK)
        return status;
    int count = choose_count(options, &topology);
    enum pen_binding binding = PEN_BINDING_CORES;
    if (!is_placed_by_us()) {
        binding = choose_binding(options, &topology, count);
        if (binding == PEN_BINDING_CORES) {
            status = name_places(&places, why);
            if (status == PEN_OK)
                start_again(pen_text_string(&places));
            binding = PEN_BINDING_REFUSED;
        }
    }
    pen_text_release(&places);
    if (status != PEN_OK)
        return status;
    omp_set_num_threads(count);
    *out = (struct pen_threads){count, binding};
    return PEN_OK;
}
