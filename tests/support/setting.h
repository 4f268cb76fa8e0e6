#ifndef PEN_TESTS_SETTING_H
#define PEN_TESTS_SETTING_H

#include "planner/predict.h"

/*
 * A setting for tests of the planner, in bf16, of a preset or of the text of a
 * config.json, or the test fails. Release it with release_setting().
 */
struct pen_setting make_setting(const char *model, const char *cluster,
                                enum pen_target target, uint64_t batch,
                                uint32_t sequence);
void release_setting(struct pen_setting *setting);

/* As make_setting(), with the text of a cluster file. */
struct pen_setting make_setting_of(const char *model, const char *cluster_text,
                                   enum pen_target target, uint64_t batch,
                                   uint32_t sequence);

#endif
