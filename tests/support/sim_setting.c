#include "support/sim_setting.h"

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define MICROBATCHES 8u
#define LAYERS 14u /* of preset:gpt2, the embedding and the head are two */

static const char cluster_text[] =
    "name: test\ndevices:\n  - kind: card\n    count: 8\n"
    "    flops: {f32: 1 TFLOP/s}\n    memory: 1 GB\n    bandwidth: 1 TB/s\n"
    "    constants: {link_share: 1, link_half: 0, link_sec: 1e-5, "
    "message_share: 1, network_share: 1, network_sec: 1e-5}\n"
    "links:\n  - {level: all, bandwidth: 10 GB/s, latency: 3 us}\n";

static void make_parts(struct sim_setting *setting)
{
    uint32_t count = pen_shape_parts(&setting->schedule->shape);
    setting->parts = calloc(count, sizeof *setting->parts);
    assert_non_null(setting->parts);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = LAYERS * i / count;
        uint32_t end = LAYERS * (i + 1) / count;
        setting->parts[i] = (struct pen_sim_part){.forward_sec = 0.002,
                                                  .input_sec = 0.002,
                                                  .weight_sec = 0.002,
                                                  .step_sec = 0.0005,
                                                  .num_layers = end - first,
                                                  .num_parameters = 1000000};
    }
    for (uint32_t i = 0; i < SIM_RANKS; i++)
        setting->devices[i] = i;
}

void sim_setting_take(struct sim_setting *setting,
                      struct pen_schedule *schedule)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *setting = (struct sim_setting){.schedule = schedule};
    if (pen_any_model_load(&setting->model, "preset:gpt2", &why) != PEN_OK ||
        pen_cluster_parse(cluster_text, strlen(cluster_text), &setting->cluster,
                          &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    make_parts(setting);
    setting->simulation = (struct pen_simulation){
        .model = &setting->model,
        .schedule = setting->schedule,
        .parts = setting->parts,
        .mesh = pen_mesh_of(PEN_MESH_PIPELINE_FIRST, SIM_RANKS / SIM_REPLICAS,
                            SIM_REPLICAS),
        .message_bytes = 1000000,
        .gradient_size = 4,
        .value_size = 4,
        .num_steps = 2,
        .platform = {.cluster = setting->cluster,
                     .devices = setting->devices,
                     .num_ranks = SIM_RANKS}};
}

void sim_setting_begin(struct sim_setting *setting, const char *schedule)
{
    sim_setting_take(setting, make(schedule, SIM_ROWS, MICROBATCHES, 0));
}

void sim_setting_end(struct sim_setting *setting)
{
    pen_any_model_release(&setting->model);
    pen_cluster_free(setting->cluster);
    pen_schedule_free(setting->schedule);
    free(setting->parts);
}
