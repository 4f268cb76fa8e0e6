/*
 * How near are the planner's predictions to published measurements?
 *
 *   build/release/bench/validate FOLDER [--dump FILE] [--rows SET]
 *
 * FOLDER has the files of published runs. One line per set: rows, fitted or
 * held out, mean and largest error, bias. --dump writes every prediction as
 * SET, ROW, SECONDS or oom, BYTES; --rows prints one set row by row.
 */
#include "validation_rows.h"

struct score {
    char set[32];
    bool is_held_out;
    uint32_t count;
    double sum;
    double most;
    double bias;
    uint32_t worst;
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

static void add_score(struct score *scores, uint32_t *count,
                      const struct row *row, double predicted)
{
    uint32_t i = 0;
    while (i < *count && (strcmp(scores[i].set, row->set) != 0 ||
                          scores[i].is_held_out != row->is_held_out))
        i++;
    struct score *score = &scores[i];
    if (i == *count) {
        *score = (struct score){.is_held_out = row->is_held_out};
        memcpy(score->set, row->set, sizeof score->set);
        (*count)++;
    }
    double error = predicted / row->measured_sec - 1;
    score->count++;
    score->sum += fabs(error);
    score->bias += error;
    if (fabs(error) > score->most) {
        score->most = fabs(error);
        score->worst = row->index;
    }
}

static void print_row(const struct row *row,
                      const struct pen_prediction *prediction)
{
    char *facts = json_dumps(row->facts, JSON_COMPACT);
    printf("%s\t%u\t%s\tmeasured %.3f\tpredicted %.3f\t%+.1f %%\t%.1f GiB%s",
           row->set, row->index, row->is_held_out ? "held out" : "fitted",
           row->measured_sec, prediction->step_sec,
           row->measured_sec > 0
               ? 100 * (prediction->step_sec / row->measured_sec - 1)
               : 0,
           (double)prediction->peak_bytes / 1073741824.0,
           prediction->fits ? "" : " oom");
    for (int i = 0; i < PEN_SPENDINGS; i++)
        printf("\t%s %.3f", pen_spending_names[i], prediction->spent[i]);
    printf("\t%.300s\n", facts);
    free(facts);
}

int main(int argc, char **argv)
{
    struct rows rows;
    struct score scores[64];
    uint32_t num_scores = 0;
    FILE *dump = NULL;
    const char *shown = "";
    for (int i = 2; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--dump") == 0)
            dump = fopen(argv[i + 1], "w");
        else if (strcmp(argv[i], "--rows") == 0)
            shown = argv[i + 1];
    if (argc < 2 || argc % 2 == 1) {
        fprintf(stderr, "usage: validate FOLDER [--dump FILE] [--rows SET]\n");
        return 2;
    }
    load_rows(&rows, argv[1]);
    for (uint32_t i = 0; i < rows.count; i++) {
        const struct row *row = &rows.items[i];
        struct pen_prediction prediction;
        if (predict_row(row, &prediction) != PEN_OK)
            continue;
        if (strcmp(shown, row->set) == 0)
            print_row(row, &prediction);
        if (row->measured_sec > 0)
            add_score(scores, &num_scores, row, prediction.step_sec);
        if (dump != NULL) {
            if (prediction.fits || row->is_judged)
                fprintf(dump, "%s\t%u\t%.9g", row->set, row->index,
                        prediction.step_sec);
            else
                fprintf(dump, "%s\t%u\toom", row->set, row->index);
            fprintf(dump, "\t%llu\n",
                    (unsigned long long)prediction.peak_bytes);
        }
        pen_prediction_release(&prediction);
    }
    for (uint32_t i = 0; i < num_scores; i++) {
        const struct score *score = &scores[i];
        printf("%-28s %5u rows %-9s mean %6.2f %%  max %6.1f %% (row %u)  bias "
               "%+.2f %%\n",
               score->set, score->count,
               score->is_held_out ? "held out" : "fitted",
               100 * score->sum / score->count, 100 * score->most, score->worst,
               100 * score->bias / score->count);
    }
    return dump != NULL && fclose(dump) != 0;
}
