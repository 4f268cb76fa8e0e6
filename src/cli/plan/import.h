#ifndef PEN_CLI_PLAN_IMPORT_H
#define PEN_CLI_PLAN_IMPORT_H

#include "cli/plan/options.h"
#include "planner/changes.h"

/*
 * Reads the line of --from-megatron, "@FILE" or the words themselves, and opens
 * the setting with its model (unless --model names another), batch,
 * sequence and recipe, which are stored in args, too. A warning names options
 * that were not read.
 *
 * End with pen__planning_close() in either case. On success *out is owned by
 * the caller.
 */
pen_status pen__plan_import(struct pen__plan_args *args,
                            struct pen__planning *planning,
                            struct pen_plan **out,
                            struct pen_overlaps *overlaps,
                            struct pen_text *why);

#endif
