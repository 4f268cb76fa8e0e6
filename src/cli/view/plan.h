#ifndef PEN_CLI_VIEW_PLAN_H
#define PEN_CLI_VIEW_PLAN_H

#include <stdbool.h>

/*
 * penstock view PLAN: shows the prediction of the plan and one step of its
 * pipeline, drawn to `output` or, where that is NULL, to the terminal. Returns
 * the exit code.
 */
int pen__view_plan(const char *path, const char *output, bool is_json);

#endif
