/*
 * Not a test: what tests/mpi/run_proposed asks. Rolls questions from a seed,
 * and writes of each its files and all plans of its ranking to a folder:
 *
 *   mpi_questions SEED FIRST COUNT MOST_RANKS DIR
 *
 * A line per plan, separated by tabs: folder of the question, plan, ranks,
 * words of the plan, whether steps overlap, clipping, seconds of a step.
 */
#include "planner/relax.h"
#include "support/question.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void require(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "mpi_questions: %s\n", what);
    exit(1);
}

static void tell(const struct question *question, const char *folder,
                 uint32_t place, struct pen_plan_found *found)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text name = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/plan-%u.json", folder, place);
    pen_candidate_print(&found->candidate, &name);
    question_name_plan(question, found->plan);
    require(pen_plan_save(found->plan, pen_text_string(&path), &why) == PEN_OK,
            pen_text_string(&why));
    printf("%s\t%s\t%llu\t%s\t%d\t%g\t%.9f\n", folder, pen_text_string(&path),
           (unsigned long long)pen_plan_num_ranks(found->plan),
           pen_text_string(&name), !found->candidate.generator->is_synchronous,
           question->setting.clip_norm, found->prediction.step_sec);
    pen_text_release(&name);
    pen_text_release(&path);
}

static void answer(const struct question *question, const char *folder)
{
    struct pen_plan_ranking *ranking = NULL;
    if (pen_plan_search(&question->setting, &question->options, &ranking,
                        NULL) != PEN_OK)
        return;
    pen_plan_ranking_relax(&question->setting, &question->options, ranking);
    require(mkdir(folder, 0777) == 0 || errno == EEXIST, folder);
    question_save(question, folder);
    for (uint32_t i = 0; i < ranking->num_found; i++)
        tell(question, folder, i, &ranking->found[i]);
    pen_plan_ranking_free(ranking);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr,
                "usage: mpi_questions SEED FIRST COUNT MOST_RANKS DIR\n");
        return 2;
    }
    struct pen_random random = {.state = strtoull(argv[1], NULL, 10)};
    unsigned long first = strtoul(argv[2], NULL, 10);
    unsigned long count = strtoul(argv[3], NULL, 10);
    uint32_t most = (uint32_t)strtoul(argv[4], NULL, 10);
    for (unsigned long i = 0; i < first + count; i++) {
        struct question question;
        struct pen_text folder = PEN_TEXT_EMPTY;
        question_make(&random, most, &question);
        pen_text_add(&folder, "%s/question-%lu", argv[5], i);
        if (i >= first)
            answer(&question, pen_text_string(&folder));
        pen_text_release(&folder);
        question_release(&question);
    }
    return 0;
}
