/*
 * The doctor's advice: one function per question, each of which adds a sentence
 * and a command, or nothing.
 */
#include "cli/measure/doctor.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The caller fills it in. */
static struct pen__advice *add_advice(struct pen__advices *out)
{
    PEN_BUG_UNLESS(out->count < PEN__MAX_ADVICE);
    return &out->list[out->count++];
}

static void advise_load(const struct pen__findings *findings,
                        struct pen__advices *out)
{
    uint32_t cores = findings->topology.machine.cores;
    if (findings->load < 0.5 * cores)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "Other programs are running (load %.1f on %u cores): the "
                 "measured speeds are too low.",
                 findings->load, cores);
    pen_text_add(&advice->command, "top");
}

static void advise_runtime(const struct pen__findings *findings,
                           struct pen__advices *out)
{
    if (findings->onednn.length == 0 ||
        strstr(findings->onednn.bytes, "OpenMP") != NULL)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "This oneDNN (%s) does not use OpenMP, so settings of threads "
                 "and binding have no effect.",
                 findings->onednn.bytes);
    pen_text_add(&advice->command, "apt install libdnnl-dev");
}

static void advise_instructions(struct pen__advices *out)
{
    static const char *const names[] = {"ONEDNN_MAX_CPU_ISA",
                                        "DNNL_MAX_CPU_ISA"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value == NULL || strcmp(value, "ALL") == 0 ||
            strcmp(value, "DEFAULT") == 0)
            continue;
        struct pen__advice *advice = add_advice(out);
        pen_text_add(&advice->text,
                     "%s=%s prevents oneDNN from using newer instructions.",
                     names[i], value);
        pen_text_add(&advice->command, "unset %s", names[i]);
    }
}

static void advise_quota(const struct pen__findings *findings,
                         struct pen__advices *out)
{
    const struct pen_topology *topology = &findings->topology;
    if (topology->cpu_quota == 0 ||
        topology->cpu_quota >= topology->usable.cores)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "The control group limits this process to the time of %.2f "
                 "processors on %u cores. Raise the limit where it was set:",
                 topology->cpu_quota, topology->usable.cores);
    pen_text_add(&advice->command, "docker update --cpus %u CONTAINER",
                 topology->usable.cores);
}

static void advise_mask(const struct pen__findings *findings,
                        struct pen__advices *out)
{
    const struct pen_topology *topology = &findings->topology;
    if (topology->usable.cores == topology->allowed.cores)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(
        &advice->text,
        "This process may use %u of %u cores. If that is not intended:",
        topology->usable.cores, topology->allowed.cores);
    if (findings->threads.binding == PEN_BINDING_USER)
        pen_text_add(&advice->command,
                     "unset OMP_PLACES OMP_PROC_BIND GOMP_CPU_AFFINITY");
    else if (getenv("SLURM_JOB_ID") != NULL)
        pen_text_add(&advice->command, "srun --cpus-per-task=%u penstock ...",
                     topology->allowed.cores);
    else
        pen_text_add(&advice->command, "taskset -a -p -c 0-%u $$",
                     topology->machine.hardware_threads - 1);
}

static void advise_threads(const struct pen__findings *findings,
                           struct pen__advices *out)
{
    int count = findings->threads.count;
    int right = pen_threads_default(&findings->topology);
    if (count == right || getenv("OMP_NUM_THREADS") == NULL)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(
        &advice->text,
        count > right
            ? "OMP_NUM_THREADS is %d, but only %d threads can run at once: "
              "they wait for each other."
            : "OMP_NUM_THREADS is %d, but %d threads can run at once. If "
              "that is not intended:",
        count, right);
    pen_text_add(&advice->command, "export OMP_NUM_THREADS=%d", right);
}

static void advise_binding(const struct pen__findings *findings,
                           struct pen__advices *out)
{
    const char *bind = getenv("OMP_PROC_BIND");
    if (findings->threads.binding != PEN_BINDING_USER || bind == NULL ||
        (strcmp(bind, "false") != 0 && strcmp(bind, "FALSE") != 0))
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "OMP_PROC_BIND=false lets threads move between cores.");
    pen_text_add(&advice->command, "unset OMP_PROC_BIND");
}

static void advise_waiting(struct pen__advices *out)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    if (policy == NULL ||
        (strcmp(policy, "passive") != 0 && strcmp(policy, "PASSIVE") != 0))
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "OMP_WAIT_POLICY=passive lets threads sleep between "
                 "operations; waking them costs time.");
    pen_text_add(&advice->command, "unset OMP_WAIT_POLICY");
}

static void advise_nodes(const struct pen__findings *findings,
                         struct pen__advices *out)
{
    uint32_t nodes = findings->topology.usable.numa_nodes;
    if (nodes < 2)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "Memory is divided into %u NUMA nodes. Interleave it so that "
                 "one process uses all nodes evenly.",
                 nodes);
    pen_text_add(&advice->command, "numactl --interleave=all penstock train "
                                   "...");
}

static void advise_huge_pages(const struct pen__findings *findings,
                              struct pen__advices *out)
{
    const char *pages = findings->topology.huge_pages;
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (strcmp(pages, "never") == 0) {
        struct pen__advice *advice = add_advice(out);
        pen_text_add(&advice->text,
                     "Huge pages are off; weights are in pages of 4 KiB.");
        pen_text_add(&advice->command,
                     "echo always | sudo tee "
                     "/sys/kernel/mm/transparent_hugepage/enabled");
    } else if (strcmp(pages, "madvise") == 0 &&
               (tunables == NULL ||
                strstr(tunables, "glibc.malloc.hugetlb=") == NULL)) {
        struct pen__advice *advice = add_advice(out);
        pen_text_add(&advice->text,
                     "Huge pages are available on request only; set malloc to "
                     "request them.");
        pen_text_add(&advice->command,
                     "export GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
    }
}

static void advise_governor(const struct pen__findings *findings,
                            struct pen__advices *out)
{
    const char *governor = findings->topology.governor;
    if (governor[0] == '\0' || strcmp(governor, "performance") == 0)
        return;
    struct pen__advice *advice = add_advice(out);
    pen_text_add(&advice->text,
                 "The CPU frequency governor \"%s\" may keep the clock low.",
                 governor);
    pen_text_add(&advice->command,
                 "sudo cpupower frequency-set -g performance");
}

static void advise_bf16(const struct pen__findings *findings,
                        struct pen__advices *out)
{
    const struct pen__speed *one = &findings->one;
    const struct pen__speed *all = &findings->all;
    if (one->f32_flops == 0)
        return;
    /* The better measurement of each, in case something came between. */
    double threads = findings->threads.count;
    double ratio = fmax(one->bf16_flops, all->bf16_flops / threads) /
                   fmax(one->f32_flops, all->f32_flops / threads);
    struct pen__advice *advice = add_advice(out);
    if (ratio > 1.2) {
        pen_text_add(&advice->text,
                     "Products in bf16 run at %.1f times the speed of f32.",
                     ratio);
        pen_text_add(&advice->command, "penstock train --bf16 ...");
        return;
    }
    if (ratio == 0)
        pen_text_add(&advice->text,
                     "This processor has no bf16 (%s). Train in f32:",
                     pen_text_string(&findings->no_bf16));
    else
        pen_text_add(&advice->text,
                     "Products in bf16 run at %.2f of the speed of f32%s. "
                     "Train in f32:",
                     ratio,
                     findings->topology.has_amx_bf16 ? "" : ", without AMX");
    pen_text_add(&advice->command, "penstock train ...");
}

void pen__doctor_advise(const struct pen__findings *findings,
                        struct pen__advices *out)
{
    advise_load(findings, out);
    advise_runtime(findings, out);
    advise_instructions(out);
    advise_quota(findings, out);
    advise_mask(findings, out);
    advise_threads(findings, out);
    advise_binding(findings, out);
    advise_waiting(out);
    advise_nodes(findings, out);
    advise_huge_pages(findings, out);
    advise_governor(findings, out);
    advise_bf16(findings, out);
}
