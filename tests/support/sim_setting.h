#ifndef PEN_TESTS_SIM_SETTING_H
#define PEN_TESTS_SIM_SETTING_H

#include "sim/simulation.h"

/*
 * Two pipelines of four ranks with 8 micro-batches, whose parts take 2 ms for
 * each thing that they do with one, joined by links of 10 GB/s.
 */
#define SIM_ROWS 4u
#define SIM_REPLICAS 2u
#define SIM_RANKS (SIM_ROWS * SIM_REPLICAS)

struct sim_setting {
    struct pen_any_model model;
    struct pen_cluster *cluster;
    struct pen_schedule *schedule;
    struct pen_sim_part *parts;
    uint64_t devices[SIM_RANKS];
    struct pen_simulation simulation; /* to be run with pen_simulate() */
};

/* Under a schedule of SIM_ROWS ranks. Fails the test when it cannot be made. */
void sim_setting_begin(struct sim_setting *setting, const char *schedule);

/* The same with a schedule that is taken over. */
void sim_setting_take(struct sim_setting *setting,
                      struct pen_schedule *schedule);
void sim_setting_end(struct sim_setting *setting);

#endif
