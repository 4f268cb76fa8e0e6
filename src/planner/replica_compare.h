#ifndef PEN_PLANNER_REPLICA_COMPARE_H
#define PEN_PLANNER_REPLICA_COMPARE_H

#include "planner/replica_goodput.h"

/*
 * All methods side by side over one link, whether each pays, and which to take.
 * Where replicas fail, seconds of a step are those of steps that stay.
 *
 * Seconds of a step say nothing of the steps that a loss takes. Only a user's
 * table of factors does: steps of a method to a loss, in those of the
 * reference, an all-reduce at every step.
 */

/*
 * Whether a choice pays, and why not: key, words. A choice with a compressor is
 * compared with the same method without, the others with the reference.
 */
#define PEN_REPLICA_VERDICTS(X)                                                \
    X(REFERENCE, "reference", "the reference of the comparison")               \
    X(PAYS, "pays", "pays")                                                    \
    X(APART, "apart", "sends nothing: each replica trains alone")              \
    X(HIDDEN, "hidden",                                                        \
      "no gain: messages overlap with computing or are short")                 \
    X(MORE_BYTES, "more-bytes", "sends as many bytes")                         \
    X(ENCODE, "encode", "encoding takes more time than the link saves")        \
    X(LATENCY, "latency", "bound by latency: fewer bytes do not help")         \
    X(INTERVAL, "interval", "synchronises too often for this link")            \
    X(LITTLE, "little", "gains less than a tenth")                             \
    X(LOSS, "loss", "needs more steps, so that reaching a loss takes longer")

enum pen_replica_verdict {
#define PEN_REPLICA_ENUM(name, key, words) PEN_REPLICA_##name,
    PEN_REPLICA_VERDICTS(PEN_REPLICA_ENUM)
#undef PEN_REPLICA_ENUM
        PEN_REPLICA_NUM_VERDICTS
};

extern const char *const pen_replica_verdict_keys[PEN_REPLICA_NUM_VERDICTS + 1];
extern const char
    *const pen_replica_verdict_words[PEN_REPLICA_NUM_VERDICTS + 1];

struct pen_replica_row {
    struct pen_replica_time time;
    enum pen_replica_verdict verdict;
};

struct pen_replica_factor {
    char name[64]; /* as pen_replica_name() prints it */
    double factor;
};

#define PEN_REPLICA_MAX_FACTORS 256u

struct pen_replica_factors {
    struct pen_replica_factor items[PEN_REPLICA_MAX_FACTORS];
    size_t count;
};

/*
 * Reads lines "method factor", as "diloco 1.3" or "allreduce+int8 1.02"; text
 * after a # is ignored. On failure *out is untouched and why has the line.
 */
pen_status pen_replica_factors_load(const char *path,
                                    struct pen_replica_factors *out,
                                    struct pen_text *why);
pen_status pen_replica_factors_parse(const char *text, size_t length,
                                     struct pen_replica_factors *out,
                                     struct pen_text *why);

/* The methods and conditions to compare. */
struct pen_replica_wish {
    const char *const *methods; /* by name; none: all */
    size_t num_methods;
    uint64_t interval; /* of those that have one; 0: its default */
    /*
     * "none", "all", or one as --compress takes it, under every method that
     * takes compressors; NULL: all of them under the reference alone.
     */
    const char *compress;
    const struct pen_replica_factors *factors;   /* NULL: none */
    const struct pen_replica_failures *failures; /* NULL: nothing fails */
};

struct pen_replica_comparison {
    struct pen_replica_setting setting; /* its shapes are borrowed */
    struct pen_replica_row *rows;       /* the quickest first */
    size_t count;
    size_t reference;
    size_t advice; /* the row to take */
    bool has_factors;
    double mtbf_sec; /* of all replicas together; 0: nothing fails */
};

/*
 * On success *out is owned by the caller; free it with
 * pen_replica_comparison_free(). INVALID when there is no such method or
 * compressor.
 */
pen_status pen_replica_compare(const struct pen_replica_setting *setting,
                               const struct pen_replica_wish *wish,
                               struct pen_replica_comparison **out,
                               struct pen_text *why);
void pen_replica_comparison_free(struct pen_replica_comparison *comparison);

/* "diloco", "allreduce+powersgd". */
void pen_replica_name(const struct pen_replica_time *time,
                      struct pen_text *out);

/*
 * The advice in words, a line each: what to take, why not compression, why not
 * more rarely, and that a step is not a loss.
 */
void pen_replica_advise(const struct pen_replica_comparison *comparison,
                        struct pen_text *out);

#endif
