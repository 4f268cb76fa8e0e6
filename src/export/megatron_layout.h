#ifndef PEN_EXPORT_MEGATRON_LAYOUT_H
#define PEN_EXPORT_MEGATRON_LAYOUT_H

#include "export/export.h"

/*
 * The value of --pipeline-model-parallel-layout: E embedding, t block, m
 * block that predicts further tokens, L head, stages parted by |, commas for
 * the eye; x*3 and (xy)*3 repeat what is before them. "Et*2|(t*2|)*3tL" has
 * five stages. A | at the end would begin a stage more.
 */

void pen_megatron_layout_print(const struct pen_plan *plan,
                               const struct pen_model *model,
                               struct pen_text *out);

struct pen_megatron_layout {
    uint32_t *num_blocks; /* of each stage; owned */
    uint32_t num_stages;
    uint32_t num_all_blocks;
    uint32_t num_further; /* that predict further tokens */
};

/* Parses a layout. On success release it; on failure *out is untouched. */
pen_status pen_megatron_layout_parse(const char *text,
                                     struct pen_megatron_layout *out,
                                     struct pen_text *why);
void pen_megatron_layout_release(struct pen_megatron_layout *layout);

#endif
