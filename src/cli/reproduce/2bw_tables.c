/* Tables of penstock reproduce 2bw, and the same as JSON. */
#include "cli/program/cli.h"
#include "cli/reproduce/2bw.h"

/*
 * Returns whether the final loss is that of synchronous steps, within
 * PEN__2BW_SAME_SHARE.
 */
const char *pen__2bw_verdict(const struct pen__2bw_results *results,
                             uint32_t contender)
{
    const struct pen_interval *it = &results->higher[contender];
    double margin = PEN__2BW_SAME_SHARE * results->synchronous;
    return it->high < margin  ? "shown"
           : it->low > margin ? "refuted"
                              : "not decided";
}

double pen__2bw_ratio(const struct pen__2bw *it, uint32_t batch, uint32_t speed)
{
    double own = it->speed[batch][PEN__2BW_SPEED_2BW].step_sec;
    return own > 0 ? it->speed[batch][speed].step_sec / own : 0;
}

/* ---- tables ---- */

static const struct pen_column loss_columns[] = {
    {"contender", false, false},
    {"rate", true, false},
    {"final loss", true, false},
    {"higher than synchronous", true, false},
    {"the same loss?", false, false}};

void pen__2bw_table_losses(const struct pen__2bw_results *results,
                           struct pen_table *table)
{
    pen_table_init(table, loss_columns,
                   sizeof loss_columns / sizeof *loss_columns);
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS; i++) {
        pen_table_add(table, "%s", pen__2bw_contenders[i].name);
        pen_table_add(table, "%g", results->it->rate[i]);
        pen__interval_cell(&results->loss[i], 3, table);
        pen__interval_cell(&results->higher[i], 3, table);
        pen_table_add(table, "%s",
                      i == PEN__2BW_SYNCHRONOUS ? ""
                                                : pen__2bw_verdict(results, i));
    }
}

static const struct pen_column rate_columns[] = {
    {"contender", false, false}, {"rate", true, false}, {"loss", true, false}};

void pen__2bw_table_rates(const struct pen__2bw *it, struct pen_table *table)
{
    pen_table_init(table, rate_columns,
                   sizeof rate_columns / sizeof *rate_columns);
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS; i++)
        for (uint32_t k = 0; k < it->scale.num_rates; k++) {
            pen_table_add(table, "%s", pen__2bw_contenders[i].name);
            pen_table_add(table, "%g", pen__2bw_rates[k]);
            pen_table_add(table, "%.3f", it->held_loss[i][k]);
        }
}

static const struct pen_column speed_columns[] = {
    {"batch", true, false},        {"schedule", false, false},
    {"stages", true, false},       {"replicas", true, false},
    {"micro-batch", true, false},  {"recomputes", false, false},
    {"step, s", true, false},      {"samples/s", true, false},
    {"2BW is faster", true, false}};

void pen__2bw_table_speeds(const struct pen__2bw *it, struct pen_table *table)
{
    pen_table_init(table, speed_columns,
                   sizeof speed_columns / sizeof *speed_columns);
    for (uint32_t b = 0; b < it->scale.num_layouts; b++)
        for (uint32_t k = 0; k < PEN__2BW_SPEEDS; k++) {
            const struct pen__2bw_layout *layout = &it->speed[b][k];
            bool has = layout->step_sec > 0;
            pen_table_add(table, "%u", pen__2bw_batches[b]);
            pen_table_add(table, "%s", pen__2bw_speed_names[k]);
            pen_table_add(table, "%u", layout->depth);
            pen_table_add(table, "%u", layout->replicas);
            pen_table_add(table, "%u", layout->micro_batch);
            pen_table_add(table, "%s", layout->recomputes ? "yes" : "no");
            pen_table_add(table, "%.2f", layout->step_sec);
            pen_table_add(table, "%.0f",
                          has ? pen__2bw_batches[b] / layout->step_sec : 0);
            pen_table_add(table, "%.2f", pen__2bw_ratio(it, b, k));
        }
}

static const struct pen_column memory_columns[] = {
    {"schedule", false, false},
    {"weights, gradients, moments: formula, MB", true, false},
    {"counted", true, false},
    {"activations: formula, MB", true, false},
    {"counted", true, false}};

void pen__2bw_table_memory(const struct pen__2bw *it, struct pen_table *table)
{
    pen_table_init(table, memory_columns,
                   sizeof memory_columns / sizeof *memory_columns);
    for (uint32_t i = 0; i < it->scale.num_memories; i++) {
        const struct pen__2bw_memory *row = &it->memory[i];
        pen_table_add(table, "%s", row->name);
        pen_table_add(table, "%.1f", 1e-6 * row->state_bytes);
        pen_table_add(table, "%.1f", 1e-6 * row->state_counted);
        pen_table_add(table, "%.1f", 1e-6 * row->activation_bytes);
        pen_table_add(table, "%.1f", 1e-6 * row->activation_counted);
    }
}

/* ---- results.json ---- */

static json_t *losses_json(const struct pen__2bw_results *results)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < PEN__2BW_CONTENDERS; i++)
        pen__json_append(
            &rows,
            json_pack("{s:s, s:f, s:o, s:o, s:s}", "contender",
                      pen__2bw_contenders[i].key, "rate", results->it->rate[i],
                      "loss", pen__interval_json(&results->loss[i]), "higher",
                      pen__interval_json(&results->higher[i]), "same_loss",
                      pen__2bw_verdict(results, i)));
    return rows;
}

static json_t *speeds_json(const struct pen__2bw *it)
{
    json_t *rows = json_array();
    for (uint32_t b = 0; b < it->scale.num_layouts; b++)
        for (uint32_t k = 0; k < PEN__2BW_SPEEDS; k++) {
            const struct pen__2bw_layout *layout = &it->speed[b][k];
            pen__json_append(
                &rows,
                json_pack("{s:i, s:s, s:i, s:i, s:i, s:b, s:f, s:f}", "batch",
                          (int)pen__2bw_batches[b], "schedule",
                          pen__2bw_speed_names[k], "stages", (int)layout->depth,
                          "replicas", (int)layout->replicas, "micro_batch",
                          (int)layout->micro_batch, "recomputes",
                          layout->recomputes, "step_sec", layout->step_sec,
                          "times_slower", pen__2bw_ratio(it, b, k)));
        }
    return rows;
}

static json_t *memory_json(const struct pen__2bw *it)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < it->scale.num_memories; i++) {
        const struct pen__2bw_memory *row = &it->memory[i];
        pen__json_append(
            &rows, json_pack("{s:s, s:f, s:f, s:f, s:f}", "schedule", row->name,
                             "state_bytes", row->state_bytes, "state_counted",
                             row->state_counted, "activation_bytes",
                             row->activation_bytes, "activation_counted",
                             row->activation_counted));
    }
    return rows;
}

json_t *pen__2bw_json(const struct pen__2bw_results *results,
                      const char *verdict)
{
    const struct pen__2bw *it = results->it;
    return json_pack("{s:s, s:s, s:b, s:i, s:o, s:o, s:o}", "experiment", "2bw",
                     "verdict", verdict, "is_short", it->args->is_short,
                     "seeds", (int)it->scale.num_seeds, "contenders",
                     losses_json(results), "speeds", speeds_json(it), "memory",
                     memory_json(it));
}
