#ifndef PEN_CLI_TRAIN_OPTIONS_H
#define PEN_CLI_TRAIN_OPTIONS_H

#include "base/status.h"
#include "base/text.h"
#include "cli/program/fields.h"
#include "cli/train/recall.h"
#include "runtime/trainer.h"

enum pen__train_late { PEN__LATE_DISCARD, PEN__LATE_FOLD };

/* The command line of penstock train; texts are NULL where not given. */
enum { PEN__MOST_ENGINES = 64, PEN__MOST_ENGINE_LETTERS = 512 };

struct pen__train_engine {
    const struct pen_engine_kind *kind;
    const char *device; /* NULL: its choice */
};

struct pen__train_args {
    const char *model;
    const char *load;
    bool has_random_weights;

    struct pen__list texts; /* words of the line that follow no list */
    struct pen__list data_path;
    const char *token_ids;
    const char *split;
    uint64_t seq_length; /* 0: the positions of the model, or the file's */
    uint64_t micro_batch_size;
    uint64_t global_batch_size; /* 0: one micro-batch */
    bool has_global_batch;      /* it was given */
    uint64_t replica_batch; /* of one that synchronises by --sync, else all */
    uint64_t train_iters;
    uint64_t seed;

    unsigned optimizer;   /* enum pen_step_rule */
    unsigned muon_adjust; /* enum pen_muon_adjust */
    double muon_rate;     /* NaN: the learning rate of the others */
    unsigned decay_groups;
    struct pen_optimizer numbers; /* of the optimizer */
    struct pen_router_settings router;
    unsigned lr_style;
    unsigned wsd_style;
    struct pen_lr_schedule schedule;

    uint64_t pipeline_size; /* ranks of a pipeline */
    uint64_t context_size;  /* ranks that share every sequence */
    uint64_t expert_size;   /* replicas that experts are dealt out over */
    uint64_t tensor_size;   /* ranks that share the pieces of each layer */
    uint64_t chunks;        /* stages of a rank; 0: as the schedule likes */
    uint64_t slices;        /* of a micro-batch; 0: not given */
    const char *replicas_text;
    uint32_t replicas[PEN_MAX_REPLICATED]; /* ranks of each stage */
    uint32_t num_replicated;               /* 0: not given */
    const char *stage_layers;              /* NULL: as even as they can be */
    const char *replica_shares;            /* NULL: all alike */
    uint32_t rank;                         /* of this process in the job */
    const char *pipeline;                  /* name or file of the schedule */
    struct pen_cures cures;                /* of its delays */
    bool is_sharded;                       /* the same as ZeRO-1 */
    unsigned sharding;                     /* enum pen_sharding */
    uint64_t sharding_group;               /* replicas; 0: all */
    bool has_fast_sums;
    const char *sync;       /* how replicas keep together */
    uint64_t sync_interval; /* 0: the default of the method */
    struct pen__list sync_options;
    uint64_t sync_replicas; /* 0: every pipeline is one */
    const char *compress;
    const char *ring;   /* HOST:PORT of a coordinator; NULL: no island */
    const char *island; /* its name, and the file of its key */
    const char *key;
    const char *keys; /* folder; NULL: `keys`, next to the key */
    const char *patience;
    int64_t patience_ns;
    unsigned late; /* of an island: enum pen__train_late */
    bool has_sparse_sums;
    const char *compress_stages;
    struct pen_block_code stage_code; /* that it names; 0 bits: none */
    uint32_t subspace;                /* likewise; 0: none */
    double sparsity;                  /* of matrices of the blocks; 0: none */
    uint64_t local_updates;           /* sections with losses of their own */
    uint64_t logical_replicas; /* 0: those of the checkpoint, or of the start */
    uint64_t logical_tensor;   /* 0: those of the checkpoint, or 1 */
    bool is_sequence_parallel;
    const char *plan;
    struct pen__list moves; /* to other plans, as STEP=PLAN */
    bool is_check;          /* up to the first step, and nothing is written */
    const char *profile;
    const char *trace;
    uint64_t verify_interval; /* steps; 0: replicas are not compared */
    bool has_checksums;       /* on messages between ranks */
    unsigned on_nan;          /* enum pen_on_nan */
    double hang_timeout;      /* seconds; NaN: from the steps */
    double exit_minutes;      /* NaN: no limit */
    double peak_tflops;       /* of a rank; NaN: measured */

    bool is_bf16;
    const char *engine_name; /* of --engine: one, or one per row of ranks */
    char engine_words[PEN__MOST_ENGINE_LETTERS]; /* the same, cut apart */
    struct pen__train_engine engines[PEN__MOST_ENGINES]; /* in words */
    uint32_t num_engines;
    /* The engine of this rank. With several engines, one that takes threads
     * until the layout is known; with engines that only wait, one that takes no
     * threads. */
    const struct pen_engine_kind *engine;
    const char *engine_device; /* of it; NULL: its choice */
    bool is_sleeping;          /* operations only wait */
    int64_t sleep_ns; /* each operation waits; 0: as long as the profile says */
    uint64_t threads;
    unsigned recompute; /* enum pen_recompute */
    const char *recompute_modules;
    unsigned modules;               /* that it names, as bits */
    const char *recompute_stages;   /* a granularity for each */
    unsigned recompute_method;      /* of full: 0 uniform, 1 block */
    uint64_t recompute_num_layers;  /* 0: not given */
    struct pen_recompute_span span; /* that the two name */
    unsigned mapping;               /* enum pen_mesh_order */

    const char *save;
    uint64_t save_interval;  /* 0: at the end only */
    uint64_t save_keep;      /* 0: all */
    const char *run;         /* a folder for log, trace and ranks.json */
    struct pen_text run_log; /* paths in it, which log and trace are then */
    struct pen_text run_trace;
    const char *log;
    uint64_t log_interval;
    const char *probe;
    const char *probe_steps; /* NULL: the first step of the run */
    const char *tensorboard_dir;
    const char *metrics_port;
    uint16_t metrics_port_number; /* where that is given; 0: any */
    uint64_t eval_interval;       /* 0: never */
    uint64_t eval_iters;

    /* By option that was given, remembered or chosen: its last word. */
    const char *given[PEN__FIELDS_MAX];
    uint32_t num_ranks;        /* as the launcher says; 0: unknown */
    struct pen_text chosen;    /* options for the texts, for people */
    json_t *chosen_words;      /* theirs */
    struct pen__recall recall; /* of --load */
    struct pen_text recalled;  /* what it gave, for people */
    pen_status recall_status;
    struct pen_text recall_why;
};

/*
 * Ends the program when the line is wrong. Release in any case. num_ranks is 0
 * where the launcher does not say it.
 */
int pen__train_args_parse(struct pen__train_args *args, uint32_t num_ranks,
                          int argc, char **argv);
void pen__train_args_release(struct pen__train_args *args);

void pen__train_help(void);

/* The path in a word of --move, and its step; NULL for a word without them. */
const char *pen__train_move_plan(const char *word, uint64_t *step);

/* All settings by the names of their options; drop it with json_decref(). */
json_t *pen__train_args_print(const struct pen__train_args *args);

/*
 * The options that were given, remembered or chosen, as a checkpoint keeps
 * them: a list of words by name. Drop it with json_decref().
 */
json_t *pen__train_args_given(const struct pen__train_args *args);

#endif
