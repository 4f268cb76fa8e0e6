#include "support/setting.h"

#include "planner/timings.h"
#include "support/support.h"

#include <string.h>

static struct pen_model *open_model(const char *model)
{
    struct pen_model *opened = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status =
        model[0] == '{' ? pen_model_parse(model, strlen(model), &opened, &why)
                        : pen_model_load(model, &opened, &why);
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return opened;
}

static struct pen_setting fill(const char *model, struct pen_cluster *cluster,
                               enum pen_target target, uint64_t batch,
                               uint32_t sequence)
{
    struct pen_setting setting = {.model = open_model(model),
                                  .cluster = cluster,
                                  .global_batch = batch,
                                  .sequence = sequence,
                                  .number = PEN_NUMBER_BF16,
                                  .target = target,
                                  .timings = pen_timings_create()};
    pen_practice_init(&setting.practice, target, setting.number);
    return setting;
}

struct pen_setting make_setting(const char *model, const char *cluster,
                                enum pen_target target, uint64_t batch,
                                uint32_t sequence)
{
    struct pen_cluster *opened = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_load(cluster, &opened, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return fill(model, opened, target, batch, sequence);
}

struct pen_setting make_setting_of(const char *model, const char *cluster_text,
                                   enum pen_target target, uint64_t batch,
                                   uint32_t sequence)
{
    struct pen_cluster *opened = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_parse(cluster_text, strlen(cluster_text), &opened, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return fill(model, opened, target, batch, sequence);
}

void release_setting(struct pen_setting *setting)
{
    pen_timings_free(setting->timings);
    pen_cluster_free((struct pen_cluster *)setting->cluster);
    pen_model_free((struct pen_model *)setting->model);
}
