/*
 * How near are the planner's predictions to published measurements?
 *
 *   build/release/bench/validate FOLDER [--dump FILE] [--rows SET]
 *
 * FOLDER has the files of published runs. One line per set: rows; whether they
 * were fitted, or in sight when terms were chosen, or held out; mean and
 * largest error, bias, and the share of rows within the error that `penstock
 * plan` prints; that share over all that are held out; regret where layouts
 * were compared, and how often it is right that one fits; memory, in sets whose
 * names begin with mem. --dump writes every prediction as SET, ROW, SECONDS or
 * oom, BYTES, LOW, HIGH;
 * --rows prints one set row by row. Exits 1 when a row cannot be predicted.
 */
#include "validation_memory.h"
#include "validation_nemo.h"
#include "validation_order.h"
#include "validation_regret.h"

enum role { FITTED, IN_SIGHT, HELD_OUT };

static const char *const role_names[] = {"fitted", "in sight", "held out"};

static enum role role_of(const struct row *row)
{
    if (row->is_in_sight)
        return IN_SIGHT;
    return row->is_held_out ? HELD_OUT : FITTED;
}

struct score {
    char set[32];
    enum role role;
    uint32_t count;
    double sum;
    double most;
    double bias;
    uint32_t worst;
    uint32_t num_within; /* of the error that a plan prints */
    bool is_memory;
};

#define MAX_SCORES 64u

struct report {
    struct score scores[MAX_SCORES];
    uint32_t num_scores;
    struct groups groups;
    struct fits fits; /* of the layout study */
    struct order order;
    uint32_t num_failed;
    FILE *dump;        /* NULL: none */
    const char *shown; /* a set, or "" */
};

static pen_status predict_row(const struct row *row, struct pen_prediction *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_predict(&row->setting, row->plan, out, &why);
    if (status != PEN_OK)
        fprintf(stderr, "validate: %s %u: %s\n", row->set, row->index,
                pen_text_string(&why));
    pen_text_release(&why);
    return status;
}

static struct score *find_score(struct report *report, const struct row *row)
{
    for (uint32_t i = 0; i < report->num_scores; i++)
        if (strcmp(report->scores[i].set, row->set) == 0 &&
            report->scores[i].role == role_of(row))
            return &report->scores[i];
    if (report->num_scores == MAX_SCORES)
        die("sets", "too many");
    struct score *score = &report->scores[report->num_scores++];
    *score = (struct score){.role = role_of(row)};
    memcpy(score->set, row->set, sizeof score->set);
    return score;
}

/* Whether it is within what `penstock plan` prints with this prediction. */
static void add_score(struct report *report, const struct row *row,
                      double error, bool is_within)
{
    struct score *score = find_score(report, row);
    score->count++;
    score->is_memory = row->measured_bytes > 0;
    score->num_within += is_within;
    score->sum += fabs(error);
    score->bias += error;
    if (fabs(error) > score->most) {
        score->most = fabs(error);
        score->worst = row->index;
    }
}

static void print_row(const struct row *row,
                      const struct pen_prediction *prediction, double error)
{
    char *facts = json_dumps(row->facts, JSON_COMPACT);
    printf("%s\t%u\t%s\tmeasured %.3f\tpredicted %.3f\t%+.1f %%\t%.1f GiB%s",
           row->set, row->index, role_names[role_of(row)],
           row->measured_bytes > 0 ? row->measured_bytes / GIB
                                   : row->measured_sec,
           row->measured_bytes > 0 ? predicted_bytes(row, prediction) / GIB
                                   : prediction->step_sec,
           100 * error, (double)prediction->peak_bytes / GIB,
           prediction->fits ? "" : " oom");
    for (int i = 0; i < PEN_SPENDINGS && row->measured_bytes == 0; i++)
        printf("\t%s %.3f", pen_spending_names[i], prediction->spent[i]);
    for (int i = 0; i < PEN_MEMORY_PARTS && row->measured_bytes > 0; i++)
        printf("\t%s %.1f", pen_memory_names[i],
               (double)prediction->memory[prediction->fullest].bytes[i] / GIB);
    printf("\t%.300s\n", facts);
    free(facts);
}

static void dump_row(FILE *dump, const struct row *row,
                     const struct pen_prediction *prediction)
{
    if (prediction->fits || row->is_judged)
        fprintf(dump, "%s\t%u\t%.9g", row->set, row->index,
                prediction->step_sec);
    else
        fprintf(dump, "%s\t%u\toom", row->set, row->index);
    fprintf(dump, "\t%llu\t%.9g\t%.9g\n",
            (unsigned long long)prediction->peak_bytes, prediction->low_sec,
            prediction->high_sec);
}

static void judge_row(struct report *report, const struct row *row)
{
    struct pen_prediction prediction;
    double error = 0;
    if (predict_row(row, &prediction) != PEN_OK) {
        report->num_failed++;
        return;
    }
    bool is_within = prediction.low_sec <= row->measured_sec &&
                     row->measured_sec <= prediction.high_sec;
    if (row->measured_bytes > 0)
        error = predicted_bytes(row, &prediction) / row->measured_bytes - 1;
    else if (row->measured_sec > 0)
        error = prediction.step_sec / row->measured_sec - 1;
    if (!row->is_left_out && (row->measured_bytes > 0 || row->measured_sec > 0))
        add_score(report, row, error,
                  row->measured_bytes > 0
                      ? fabs(error) <= prediction.memory_error
                      : is_within);
    if (strcmp(report->shown, row->set) == 0)
        print_row(row, &prediction, error);
    if (row->measured_bytes == 0) {
        add_choice(&report->groups, row, &prediction);
        add_ordered(&report->order, row, prediction.step_sec);
        if (strcmp(row->set, "aleph") == 0)
            add_fit(&report->fits, row, &prediction);
        if (report->dump != NULL)
            dump_row(report->dump, row, &prediction);
    }
    pen_prediction_release(&prediction);
}

/* Held-out rows whose error is larger than the error printed with them. */
static void print_outside(const struct report *report, bool is_memory)
{
    uint32_t count = 0;
    uint32_t outside = 0;
    for (uint32_t i = 0; i < report->num_scores; i++) {
        const struct score *score = &report->scores[i];
        if (score->role == FITTED || score->is_memory != is_memory)
            continue;
        count += score->count;
        outside += score->count - score->num_within;
    }
    printf("%-28s %5u rows held out  outside what plan prints %6.2f %%\n",
           is_memory ? "mem_all" : "all", count,
           count > 0 ? 100.0 * outside / count : 0.0);
}

static void print_report(const struct report *report)
{
    for (uint32_t i = 0; i < report->num_scores; i++) {
        const struct score *score = &report->scores[i];
        printf("%-28s %5u rows %-9s mean %6.2f %%  max %6.2f %% (row %u)  bias "
               "%+.2f %%  within %.0f %%\n",
               score->set, score->count, role_names[score->role],
               100 * score->sum / score->count, 100 * score->most, score->worst,
               100 * score->bias / score->count,
               100.0 * score->num_within / score->count);
    }
    print_outside(report, false);
    print_outside(report, true);
    print_regret(&report->groups, "bloom");
    print_regret(&report->groups, "aleph");
    print_fits(&report->fits, "aleph");
    print_order(&report->order);
}

int main(int argc, char **argv)
{
    static struct report report = {.shown = ""};
    struct rows rows;
    struct rows memory;
    if (argc < 2 || argc % 2 == 1) {
        fprintf(stderr, "usage: validate FOLDER [--dump FILE] [--rows SET]\n");
        return 2;
    }
    for (int i = 2; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--dump") == 0) {
            report.dump = fopen(argv[i + 1], "w");
            if (report.dump == NULL)
                die(argv[i + 1], "cannot be written");
        } else if (strcmp(argv[i], "--rows") == 0)
            report.shown = argv[i + 1];
    load_all_rows(&rows, argv[1]);
    load_memory_rows(&memory, argv[1]);
    for (uint32_t i = 0; i < rows.count; i++)
        judge_row(&report, &rows.items[i]);
    for (uint32_t i = 0; i < memory.count; i++)
        judge_row(&report, &memory.items[i]);
    print_report(&report);
    if (report.dump != NULL && fclose(report.dump) != 0)
        die("the dump", "cannot be written");
    return report.num_failed > 0;
}
