/*
 * penstock doctor: what this machine offers, what is installed, what is
 * measured, and what to change.
 */
#include "cli/measure/doctor.h"

#include "cli/program/answer.h"
#include "cli/program/cli.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "cli/train/engine_word.h"
#include "host/peak.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(struct pen__doctor_args, member)

static const struct pen__field fields[] = {
    TEXT("engine", "NAME", engine,
         "examine an engine (with --model), not the machine: onednn, "
         "reference, opencl[:DEVICE] or cuda[:DEVICE]"),
    TEXT("model", "MODEL", model,
         "config.json, a folder with one, or preset:NAME, whose operations "
         "the engine computes"),
    SIZE("seq-length", seq_length, 1, 1u << 24,
         "tokens per sequence in these operations; at most 64 when not given"),
    COUNT("micro-batch-size", micro_batch_size, 1, 1u << 20,
          "sequences in each of these operations; 1 when not given"),
    FLAG("bf16", is_bf16, "examine products and activations in bf16"),
    JSON("print JSON"),
    TEXT("output", "FILE", output,
         "write the findings on the engine to FILE, as JSON")};

static void check(void *context, const struct argp_state *state)
{
    const struct pen__doctor_args *args = context;
    const char *device;
    bool has_more = args->model != NULL || args->output != NULL ||
                    args->seq_length > 0 || args->micro_batch_size > 0 ||
                    args->is_bf16;
    if (args->engine == NULL && has_more)
        argp_error(state, "--model and its shapes need --engine NAME");
    if (args->engine == NULL)
        return;
    pen__line_require(state, args->model != NULL, "model");
    const struct pen_engine_kind *kind =
        pen__engine_word(args->engine, &device, state);
    if (args->is_bf16 && !pen_engine_has(kind, PEN_PRECISION_BF16))
        argp_error(state, "--bf16 needs --engine onednn, opencl or cuda");
}

static const struct pen__line command_line = {
    .name = "penstock doctor",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Lists the machine's hardware and software, measures its peak, "
           "and recommends changes.\vExits with 1 if training cannot work "
           "on this machine. The measurements take about a second and are "
           "valid only if nothing else runs meanwhile. With --engine it "
           "compares every operation of a model with plain loops in double, "
           "twice for equal bits, and measures its rate; exits with 1 if one "
           "is wrong.",
    .check = check};

const struct pen__software pen__software[PEN__NUM_SOFTWARE] = {
    {"MPI", {"mpirun", "mpiexec"}},
    {"Slurm", {"srun", "sbatch"}},
    {"SimGrid", {"smpirun", "smpicc"}}};

/*
 * Finds the file that a shell would run, with links resolved. Leaves out empty
 * if there is none.
 */
static void find_program(const char *name, struct pen_text *out)
{
    const char *folder = getenv("PATH");
    struct pen_text path = PEN_TEXT_EMPTY;
    while (folder != NULL && out->length == 0) {
        size_t length = strcspn(folder, ":");
        pen_text_clear(&path);
        pen_text_add(&path, "%.*s/%s", (int)length, folder, name);
        char *real = NULL;
        if (access(pen_text_string(&path), X_OK) == 0)
            real = realpath(pen_text_string(&path), NULL);
        if (real != NULL)
            pen_text_add_string(out, real);
        free(real);
        folder = folder[length] == ':' ? folder + length + 1 : NULL;
    }
    pen_text_release(&path);
}

static void find_software(struct pen__findings *findings)
{
    pen_engine_onednn_describe(&findings->onednn);
    for (size_t i = 0; i < PEN__NUM_SOFTWARE; i++)
        for (size_t j = 0; pen__software[i].programs[j] != NULL; j++)
            if (findings->software[i].length == 0)
                find_program(pen__software[i].programs[j],
                             &findings->software[i]);
}

static pen_status measure(struct pen__findings *findings, int threads,
                          struct pen__speed *out, struct pen_text *why)
{
    pen_status status =
        pen_peak_flops(PEN_PRECISION_F32, threads, why, &out->f32_flops);
    if (status != PEN_OK)
        return status;
    /* Many machines have no bf16, and train all the same. */
    pen_text_clear(&findings->no_bf16);
    (void)pen_peak_flops(PEN_PRECISION_BF16, threads, &findings->no_bf16,
                         &out->bf16_flops);
    return pen_peak_bandwidth(&findings->topology, threads, why,
                              &out->memory_bytes);
}

static void examine(struct pen__findings *findings)
{
    struct pen_text *why = &findings->missing;
    struct pen_threads_options threads = {.count = 0};
    if (getloadavg(&findings->load, 1) != 1)
        findings->load = 0;
    pen_status status = pen_threads_start(&threads, &findings->threads, why);
    if (status == PEN_OK)
        status = pen_topology_read(&findings->topology, why);
    find_software(findings);
    if (status == PEN_OK)
        status = measure(findings, 1, &findings->one, why);
    findings->all = findings->one;
    if (status == PEN_OK && findings->threads.count > 1)
        status =
            measure(findings, findings->threads.count, &findings->all, why);
    if (status != PEN_OK && why->length == 0)
        pen_why(why, "%s", pen_status_text(status));
}

static void release(struct pen__findings *findings,
                    struct pen__advices *advices)
{
    pen_text_release(&findings->onednn);
    pen_text_release(&findings->missing);
    pen_text_release(&findings->no_bf16);
    for (size_t i = 0; i < PEN__NUM_SOFTWARE; i++)
        pen_text_release(&findings->software[i]);
    for (size_t i = 0; i < advices->count; i++) {
        pen_text_release(&advices->list[i].text);
        pen_text_release(&advices->list[i].command);
    }
}

static int print(const struct pen__findings *findings,
                 const struct pen__advices *advices)
{
    if (pen__answer_is_json())
        return pen__print_json("doctor", pen__doctor_json(findings, advices));
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__doctor_print(findings, advices, &text);
    return pen__print(&text);
}

static int run(int argc, char **argv)
{
    struct pen__findings findings = {.load = 0};
    struct pen__advices advices = {.count = 0};
    struct pen__doctor_args args = {.engine = NULL};
    if (!pen__line_read(&command_line, argc, argv, &args))
        return PEN__EXIT_USAGE;
    if (args.engine != NULL)
        return pen__doctor_engine(&args);
    examine(&findings);
    pen__doctor_advise(&findings, &advices);
    int code = print(&findings, &advices);
    if (findings.missing.length > 0)
        code = pen__refuse(&findings.missing);
    release(&findings, &advices);
    return code;
}

const struct pen__command pen__doctor = {
    "doctor", "checks this machine and recommends changes", run, NULL};
