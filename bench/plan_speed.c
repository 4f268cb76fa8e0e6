/*
 * How long planning takes: for every model given and every number of devices,
 * seconds to the first plan (counted) and to the ten best with the table of
 * fewer devices (of the clock), and the memory of the process.
 *
 *   bench/plan_speed [-d 8,64,1024] [-t TARGET] [-b BATCH] [-s SECONDS]
 *                    CONFIG...
 *
 * Fails when all of them take more than 1 GiB; instructions are counted by
 * tests/speed/run.
 */
#include "base/clock.h"
#include "planner/search.h"
#include "planner/timings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct args {
    const char *devices;
    enum pen_target target;
    uint64_t batch;
    double seconds;
};

static double peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static void print_row(const char *name, unsigned long devices,
                      const struct pen_plan_ranking *ranking,
                      const struct pen_text *why, double seconds)
{
    struct pen_text plan = PEN_TEXT_EMPTY;
    if (ranking == NULL) {
        printf("%s\t%lu\t-\t-\t-\t-\t%.3f\t%.0f\t-\t%s\n", name, devices,
               seconds, peak_mib(), pen_text_string(why));
        return;
    }
    const struct pen_plan_search_counts *counts = &ranking->counts;
    pen_candidate_print(&ranking->found[0].candidate, &plan);
    printf("%s\t%lu\t%llu\t%llu\t%llu\t%.3f\t%.3f\t%.0f\t%.4f\t%s%s\n", name,
           devices, (unsigned long long)counts->listed,
           (unsigned long long)counts->bounded,
           (unsigned long long)counts->timed, counts->first_sec, seconds,
           peak_mib(), ranking->found[0].prediction.step_sec,
           pen_text_string(&plan), ranking->is_complete ? "" : " (cut short)");
    pen_text_release(&plan);
}

static int run(const struct args *args, const char *path, unsigned long devices)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_model *model = NULL;
    struct pen_cluster *cluster = NULL;
    struct pen_plan_ranking *ranking = NULL;
    char source[64];
    snprintf(source, sizeof source, "preset:h100-sxm*%lu", devices);
    int64_t start = pen_clock_ns();
    if (pen_model_load(path, &model, &why) != PEN_OK ||
        pen_cluster_load(source, &cluster, &why) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        pen_text_release(&why);
        pen_model_free(model);
        return 1;
    }
    struct pen_setting setting = {.model = model,
                                  .cluster = cluster,
                                  .global_batch = args->batch,
                                  .sequence = 4096,
                                  .number = PEN_NUMBER_BF16,
                                  .target = args->target,
                                  .timings = pen_timings_create()};
    if (args->batch == 0)
        setting.global_batch = devices < 256 ? 1024 : 4 * (uint64_t)devices;
    if (model->max_positions != 0 && model->max_positions < setting.sequence)
        setting.sequence = model->max_positions;
    const struct pen_plan_search_options options = {.top = 10,
                                                    .num_fewer = 8,
                                                    .has_near_only = true,
                                                    .seconds = args->seconds};
    pen_practice_init(&setting.practice, setting.target, setting.number);
    pen_plan_search(&setting, &options, &ranking, &why);
    print_row(path, devices, ranking, &why,
              (double)(pen_clock_ns() - start) * 1e-9);
    pen_plan_ranking_free(ranking);
    pen_timings_free(setting.timings);
    pen_cluster_free(cluster);
    pen_model_free(model);
    pen_text_release(&why);
    return peak_mib() > 1024;
}

static int run_all(const struct args *args, const char *path)
{
    int failures = 0;
    for (const char *at = args->devices; *at != '\0';) {
        char *end;
        unsigned long devices = strtoul(at, &end, 10);
        failures += run(args, path, devices);
        at = *end == ',' ? end + 1 : "";
    }
    return failures;
}

int main(int argc, char **argv)
{
    struct args args = {.devices = "16384,100000",
                        .target = PEN_TARGET_MEGATRON,
                        .seconds = 0.5};
    int letter;
    while ((letter = getopt(argc, argv, "d:t:b:s:")) != -1) {
        if (letter == 'd')
            args.devices = optarg;
        else if (letter == 'b')
            args.batch = strtoull(optarg, NULL, 10);
        else if (letter == 's')
            args.seconds = strtod(optarg, NULL);
        else
            for (int i = 0; i < PEN_TARGETS; i++)
                if (strcmp(optarg, pen_target_names[i]) == 0)
                    args.target = (enum pen_target)i;
    }
    int failures = 0;
    puts("model\tdevices\tlisted\tbounded\ttimed\tfirst_s\tall_s\tMiB\tstep_s\t"
         "plan");
    for (int i = optind; i < argc; i++)
        failures += run_all(&args, argv[i]);
    return failures != 0;
}
