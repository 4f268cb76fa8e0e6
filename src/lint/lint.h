#ifndef PEN_LINT_LINT_H
#define PEN_LINT_LINT_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads the files that start a training with another program and finds what
 * will not start, what contradicts itself and what is not read at all. Nothing
 * is executed. A value that only a shell or a scheduler knows counts as
 * unknown, and no rule judges it.
 */

/* Whose words a file has. */
enum pen_lint_dialect {
    PEN_LINT_MEGATRON, /* options of a command line, or a YAML file of them */
    PEN_LINT_BRIDGE,   /* Megatron-Bridge: model.num_layers=48, or YAML */
    PEN_LINT_TORCHTITAN,
    PEN_LINT_DEEPSPEED,
    PEN_LINT_ACCELERATE,
    PEN_LINT_NANOTRON,
    PEN_LINT_DIALECTS
};

extern const char *const pen_lint_dialect_names[PEN_LINT_DIALECTS];

enum pen_lint_severity { PEN_LINT_ERROR, PEN_LINT_WARNING, PEN_LINT_NOTE };

/* "error", "warning", "note": also the levels of SARIF. */
extern const char *const pen_lint_severity_names[3];

/* One thing that is looked for. */
struct pen_lint_rule {
    const char *name; /* "virtual-stages" */
    enum pen_lint_severity severity;
    const char *summary; /* what a file that breaks it does, one sentence */
};

#define PEN_LINT_RULE_TABLE(X)                                                 \
    X(UNREADABLE, "unreadable", ERROR,                                         \
      "The file breaks the syntax of its format.")                             \
    X(DUPLICATE_KEY, "duplicate-key", ERROR, "A key is given twice.")          \
    X(UNKNOWN_OPTION, "unknown-option", ERROR,                                 \
      "The program has no such option and refuses or ignores it.")             \
    X(OTHER_OPTION, "other-option", WARNING,                                   \
      "The option belongs to another release or to a script of its own.")      \
    X(REMOVED_OPTION, "removed-option", ERROR,                                 \
      "The option was removed; the program stops at it.")                      \
    X(BAD_VALUE, "bad-value", ERROR,                                           \
      "The value has the wrong kind or is not among those allowed.")           \
    X(MISSING_VALUE, "missing-value", ERROR, "The option has no value.")       \
    X(REPEATED_OPTION, "repeated-option", WARNING,                             \
      "The option is given twice with different values; the last counts.")     \
    X(CONTRADICTION, "contradiction", ERROR,                                   \
      "Two options exclude each other.")                                       \
    X(NEEDS_OPTION, "needs-option", ERROR,                                     \
      "An option works only together with another one, which is missing.")     \
    X(NO_EFFECT, "no-effect", WARNING,                                         \
      "The option has no effect in this configuration.")                       \
    X(WORLD_SIZE, "world-size", ERROR,                                         \
      "The number of ranks does not divide by the parallel sizes.")            \
    X(GLOBAL_BATCH, "global-batch", ERROR,                                     \
      "The global batch does not divide by micro-batch and replicas.")         \
    X(HEADS, "heads", ERROR,                                                   \
      "Attention heads do not divide by the sizes that share them.")           \
    X(TENSOR_SIZE, "tensor-size", ERROR,                                       \
      "There are more tensor-parallel ranks than attention heads.")            \
    X(PIPELINE_LAYERS, "pipeline-layers", ERROR,                               \
      "The layers do not divide into the pipeline stages.")                    \
    X(VIRTUAL_STAGES, "virtual-stages", ERROR,                                 \
      "The layers of a pipeline rank do not divide into virtual stages.")      \
    X(PIPELINE_LAYOUT, "pipeline-layout", ERROR,                               \
      "The pipeline layout does not match the layers or the ranks.")           \
    X(MICROBATCHES, "microbatches", ERROR,                                     \
      "The pipeline schedule cannot run this number of micro-batches.")        \
    X(SEQUENCE, "sequence", ERROR,                                             \
      "The sequence length does not divide, or exceeds the positions.")        \
    X(EXPERTS, "experts", ERROR,                                               \
      "Experts do not divide by the expert-parallel ranks.")                   \
    X(SEQUENCE_PARALLEL, "sequence-parallel", ERROR,                           \
      "Sequence parallelism is on without tensor parallelism.")                \
    X(DOES_NOT_FIT, "does-not-fit", ERROR,                                     \
      "The predicted memory exceeds what a device has.")                       \
    X(SLOWER, "slower-than-best", NOTE,                                        \
      "Another layout of the same training is predicted to be faster.")

enum pen_lint_rule_id {
#define PEN_LINT_RULE_ENUM(id, name, severity, summary) PEN_LINT_RULE_##id,
    PEN_LINT_RULE_TABLE(PEN_LINT_RULE_ENUM)
#undef PEN_LINT_RULE_ENUM
        PEN_LINT_RULES
};

extern const struct pen_lint_rule pen_lint_rules[PEN_LINT_RULES];

struct pen_lint_finding {
    const struct pen_lint_rule *rule;
    enum pen_lint_severity severity;
    size_t begin; /* bytes of the file that it is about */
    size_t end;
    char *what; /* each is a sentence; owned */
    char *why;
    char *todo;
    char *fix; /* replaces these bytes for sure; NULL: there is no sure fix */
};

/* A training that a file describes; owned by the report. */
struct pen_lint_job {
    enum pen_lint_dialect dialect;
    size_t begin;
    char *line;     /* of Megatron, all of whose values are known; or NULL */
    uint64_t world; /* ranks; 0: unknown */
};

struct pen_lint_report {
    struct pen_lint_finding *findings; /* by place */
    uint32_t num_findings;
    uint32_t capacity;
    struct pen_lint_job *jobs;
    uint32_t num_jobs;
    uint32_t job_capacity;
    bool has_failed; /* memory ran out */
};

#define PEN_LINT_MAX_BYTES ((size_t)4 << 20)

struct pen_lint_question {
    const char *path; /* its ending says what the file is */
    const char *text;
    size_t length;
    uint64_t world; /* ranks, where the file does not say; 0: unknown */
};

/*
 * Checks a file. INVALID: the file is not text, or too large; why says so. A
 * file without a training that is known gives a report without jobs and
 * findings. Release the report in either case.
 */
pen_status pen_lint_file(const struct pen_lint_question *question,
                         struct pen_lint_report *out, struct pen_text *why);
void pen_lint_report_release(struct pen_lint_report *report);

/*
 * Adds a finding of the caller; takes its texts, of which NULL means a lack of
 * memory.
 */
void pen_lint_add(struct pen_lint_report *report,
                  const struct pen_lint_finding *finding);

/* Line and column of a byte, both from 1; the column counts bytes. */
struct pen_lint_place {
    uint32_t line;
    uint32_t column;
};
struct pen_lint_place pen_lint_place(const char *text, size_t length,
                                     size_t at);

/* Makes the text with all sure fixes; false when there are none. */
bool pen_lint_fix(const struct pen_lint_question *question,
                  const struct pen_lint_report *report, struct pen_text *out);

/* Adds the lines that differ, as `diff -u` writes them. */
void pen_lint_diff(const char *path, const struct pen_text *before,
                   const struct pen_text *after, struct pen_text *out);

#endif
