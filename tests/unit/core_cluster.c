/*
 * A cluster prints as a file that reads back as the same cluster, presets are
 * right, and a file that is wrong is refused by line and column.
 */
#include "support/support.h"

#include "core/cluster.h"

#include <math.h>
#include <string.h>

static const char racks[] =
    "name: sixteen racks of DGX H100\n"
    "devices:\n"
    "  - {kind: h100-sxm, count: 1024}\n"
    "links: # from the inside out\n"
    "  - {level: node, size: 8, bandwidth: 450 GB/s, latency: 3 us}\n"
    "  - {level: rack, size: 64, bandwidth: 50 GB/s, latency: 6 us}\n"
    "  - {level: cluster, bandwidth: 25 GB/s, latency: 9 us}\n";

static const char mixed[] =
    "name: \"two sites\"\n"
    "devices:\n"
    "  - kind: rtx3080\n"
    "    count: 2\n"
    "    price_per_hour: 0.25\n"
    "    watts: 0\n"
    "  - kind: \"My card: the 2nd\"\n"
    "    count: 2\n"
    "    flops: {f32: 3.1 TFLOP/s, fp8: 1e3 GFLOP/s}\n"
    "    memory: 12345678 B\n"
    "    bandwidth: 333.3 GB/s\n"
    "    constants: {units: 64, launch_sec: 1.7e-5}\n"
    "links:\n"
    "- {level: all, bandwidth: 1.25e9, latency: 0}\n"
    "between:\n"
    "  bandwidth: [[10 GB/s, 1 Gbit/s], [2 Gbit/s, 20 GB/s]]\n"
    "  latency:\n"
    "  - [1 us, 30 ms]\n"
    "  - [31 ms, 2 us]\n";

static struct pen_cluster *parse_cluster(const char *text)
{
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_parse(text, strlen(text), &cluster, &why) != PEN_OK)
        fail_msg("%s\nrefused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
    return cluster;
}

static struct pen_cluster *load_cluster(const char *source)
{
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_load(source, &cluster, &why) != PEN_OK)
        fail_msg("%s: %s", source, pen_text_string(&why));
    pen_text_release(&why);
    return cluster;
}

static void expect_same(const struct pen_cluster *a,
                        const struct pen_cluster *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->num_groups, b->num_groups);
    for (uint32_t i = 0; i < a->num_groups; i++) {
        const struct pen_device *x = &a->groups[i].device;
        const struct pen_device *y = &b->groups[i].device;
        assert_int_equal(a->groups[i].count, b->groups[i].count);
        assert_string_equal(x->kind, y->kind);
        assert_memory_equal(x->flops, y->flops, sizeof x->flops);
        assert_int_equal(x->memory_bytes, y->memory_bytes);
        assert_true(x->memory_bytes_per_sec == y->memory_bytes_per_sec);
        assert_memory_equal(x->constants, y->constants, sizeof x->constants);
        assert_true(x->watts == y->watts);
        assert_true(x->idle_watts == y->idle_watts);
        assert_true(x->price_per_hour == y->price_per_hour);
    }
    assert_int_equal(a->num_levels, b->num_levels);
    for (uint32_t i = 0; i < a->num_levels; i++) {
        assert_string_equal(a->levels[i].name, b->levels[i].name);
        assert_int_equal(a->levels[i].size, b->levels[i].size);
        assert_true(a->levels[i].bytes_per_sec == b->levels[i].bytes_per_sec);
        assert_true(a->levels[i].latency_sec == b->levels[i].latency_sec);
    }
    assert_int_equal(a->group_latency_sec == NULL,
                     b->group_latency_sec == NULL);
    if (a->group_latency_sec == NULL)
        return;
    size_t size = sizeof(double) * a->num_groups * a->num_groups;
    assert_memory_equal(a->group_bytes_per_sec, b->group_bytes_per_sec, size);
    assert_memory_equal(a->group_latency_sec, b->group_latency_sec, size);
}

/* Takes the cluster. */
static void expect_round_trip(struct pen_cluster *cluster)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_OK, pen_cluster_check(cluster, NULL));
    pen_cluster_print(cluster, &text);
    struct pen_cluster *again = parse_cluster(pen_text_string(&text));
    expect_same(cluster, again);
    pen_cluster_free(again);
    pen_cluster_free(cluster);
    pen_text_release(&text);
}

static void expect_reason(const char *text, const char *expected)
{
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cluster_parse(text, strlen(text), &cluster, &why) != PEN_INVALID)
        fail_msg("accepted:\n%s", text);
    assert_null(cluster);
    assert_string_equal(expected, pen_text_string(&why));
    pen_text_release(&why);
}

/* Puts `with` in place of `what` in one of the files above. */
static void expect_refusal(const char *file, const char *what, const char *with,
                           const char *expected)
{
    struct pen_text changed = PEN_TEXT_EMPTY;
    const char *at = strstr(file, what);
    if (at == NULL)
        fail_msg("the file has no %s", what);
    pen_text_add_bytes(&changed, file, (size_t)(at - file));
    pen_text_add(&changed, "%s%s", with, at + strlen(what));
    expect_reason(pen_text_string(&changed), expected);
    pen_text_release(&changed);
}

static void a_file_says_what_a_cluster_has(void **state)
{
    (void)state;
    struct pen_cluster *cluster = parse_cluster(racks);
    const struct pen_device *device = &cluster->groups[0].device;
    assert_string_equal("sixteen racks of DGX H100", cluster->name);
    assert_int_equal(1024, pen_cluster_num_devices(cluster));
    assert_true(device->flops[PEN_NUMBER_BF16] == 989e12);
    assert_true(device->constants[PEN_CONSTANT_UNITS] > 0);
    assert_string_equal("node", pen_cluster_level(cluster, 8)->name);
    assert_string_equal("rack", pen_cluster_level(cluster, 9)->name);
    assert_string_equal("rack", pen_cluster_level(cluster, 64)->name);
    assert_string_equal("cluster", pen_cluster_level(cluster, 65)->name);
    assert_true(pen_cluster_level(cluster, 1024)->bytes_per_sec == 25e9);
    expect_round_trip(cluster);
}

static void figures_in_place_go_before_those_of_the_preset(void **state)
{
    (void)state;
    struct pen_cluster *cluster = parse_cluster(mixed);
    const struct pen_device *card = &cluster->groups[0].device;
    const struct pen_device *own = &cluster->groups[1].device;
    assert_int_equal(4, pen_cluster_num_devices(cluster));
    assert_true(card->watts == 0 && card->price_per_hour == 0.25);
    assert_int_equal(UINT64_C(10) << 30, card->memory_bytes);
    assert_string_equal("My card: the 2nd", own->kind);
    assert_true(own->flops[PEN_NUMBER_F32] == 3.1e12);
    assert_true(own->flops[PEN_NUMBER_BF16] == 0);
    assert_true(own->constants[PEN_CONSTANT_UNITS] == 64);
    assert_true(own->constants[PEN_CONSTANT_LAUNCH] == 1.7e-5);
    assert_true(cluster->group_bytes_per_sec[1] == 125e6);
    assert_true(cluster->group_latency_sec[2] == 31e-3);
    expect_round_trip(cluster);
}

static void a_speed_of_a_preset_can_be_taken_away(void **state)
{
    (void)state;
    struct pen_cluster *cluster = load_cluster("preset:h100-sxm*16");
    cluster->groups[0].device.flops[PEN_NUMBER_FP8] = 0;
    cluster->groups[0].device.watts = 0;
    expect_round_trip(cluster);
}

static void presets_are_right_and_print(void **state)
{
    (void)state;
    struct pen_text source = PEN_TEXT_EMPTY;
    size_t count = 0;
    for (; pen_device_at(count) != NULL; count++) {
        const struct pen_device *device = pen_device_at(count);
        assert_ptr_equal(device, pen_device_find(device->kind));
        assert_non_null(pen_system_of_device(device->kind));
        struct pen_device copy = *device;
        if (!pen_device_default_constants(&copy))
            fail_msg("say which kind %s is like in src/core/device_constants.c",
                     device->kind);
        pen_text_clear(&source);
        pen_text_add(&source, "preset:%s*1000", device->kind);
        struct pen_cluster *cluster = load_cluster(pen_text_string(&source));
        assert_int_equal(1000, pen_cluster_num_devices(cluster));
        assert_string_equal(device->kind, cluster->groups[0].device.kind);
        expect_round_trip(cluster);
    }
    assert_true(count >= 14);
    for (count = 0; pen_system_at(count) != NULL; count++) {
        const struct pen_system *system = pen_system_at(count);
        assert_ptr_equal(system, pen_system_find(system->name));
        assert_non_null(pen_device_find(system->device));
        assert_null(pen_device_find(system->name));
        pen_text_clear(&source);
        pen_text_add(&source, "preset:%s*3", system->name);
        struct pen_cluster *cluster = load_cluster(pen_text_string(&source));
        assert_int_equal(3 * system->size, pen_cluster_num_devices(cluster));
        assert_int_equal(system->num_levels, cluster->num_levels);
        expect_round_trip(cluster);
    }
    assert_null(pen_device_find("dgx-h100"));
    pen_text_release(&source);
}

static void levels_that_one_block_fills_are_left_out(void **state)
{
    (void)state;
    struct pen_cluster *cluster = load_cluster("preset:h100-sxm*8");
    assert_int_equal(1, cluster->num_levels);
    assert_int_equal(0, cluster->levels[0].size);
    assert_true(cluster->levels[0].bytes_per_sec == 450e9);
    pen_cluster_free(cluster);
    cluster = load_cluster("preset:h100-sxm*9");
    assert_int_equal(2, cluster->num_levels);
    assert_int_equal(8, cluster->levels[0].size);
    pen_cluster_free(cluster);
    cluster = load_cluster("preset:mi250x");
    assert_int_equal(1, pen_cluster_num_devices(cluster));
    pen_cluster_free(cluster);
}

/* Degrees are powers of two: 64 of a rack of 72 are one domain of NVLink. */
static void racks_of_72_are_planned_as_64(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        uint64_t block; /* 0: all devices are in one */
        uint64_t unit;
    } rows[] = {{"64xgb200", 0, 64},   {"72xgb200", 0, 72},
                {"128xgb200", 64, 64}, {"144xgb200", 72, 72},
                {"256xgb300", 64, 64}, {"gb300-nvl72*4", 72, 72},
                {"80xgb200", 64, 64},  {"64xb200", 8, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pen_cluster *cluster = load_cluster(rows[i].source);
        assert_int_equal(rows[i].block, cluster->levels[0].size);
        assert_int_equal(rows[i].unit, pen_cluster_system_size(cluster));
        assert_int_equal(rows[i].unit == 8 ? 8 : 4,
                         pen_cluster_host_size(cluster));
        struct pen_cluster *twice = NULL;
        assert_int_equal(PEN_OK, pen_cluster_resize(cluster, 2 * rows[i].unit,
                                                    &twice, NULL));
        assert_int_equal(rows[i].unit, twice->levels[0].size);
        pen_cluster_free(twice);
        expect_round_trip(cluster);
    }
}

static void expect_no_preset(const char *source, const char *reason)
{
    struct pen_cluster *cluster = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_cluster_load(source, &cluster, &why));
    if (strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("%s: %s", source, pen_text_string(&why));
    assert_null(cluster);
    pen_text_release(&why);
}

static void wrong_presets_are_refused(void **state)
{
    (void)state;
    expect_no_preset("preset:h101*8",
                     "there is no preset 'h101'; did you mean h100? Expected "
                     "one of v100-16 v100-32");
    expect_no_preset("64xh101", "did you mean h100? Expected one of");
    expect_no_preset("8xquantum", "there is no preset 'quantum'; expected ");
    expect_no_preset("preset:h100-sxm*0",
                     "must have 1 to 10000000 devices, not 0");
    expect_no_preset("preset:dgx-h100*1250001", "not 10000008");
    expect_no_preset("preset:h100-sxm*999999999", "must have the form");
    expect_no_preset("preset:h100-sxm*8x", "must have the form");
    expect_no_preset("preset:h100-sxm*", "must have the form");
    expect_no_preset("preset:h100-sxm*-1", "must have the form");
    expect_no_preset("preset:", "must have the form");
    expect_no_preset("preset:host", "penstock cluster detect");
    struct pen_cluster *most = load_cluster("preset:dgx-h100*1250000");
    assert_int_equal(PEN_CLUSTER_MAX_DEVICES, pen_cluster_num_devices(most));
    pen_cluster_free(most);
}

static void wrong_devices_are_refused_by_their_place(void **state)
{
    (void)state;
    expect_refusal(
        racks, "kind: h100-sxm", "kind: h101",
        "line 3, column 12: 'h101' is not a preset, so it needs 'flops'");
    expect_refusal(racks, "count: 1024", "cuont: 1024",
                   "line 3, column 22: a device has no key 'cuont'; expected "
                   "one of kind count flops memory bandwidth watts idle_watts "
                   "price_per_hour constants");
    expect_refusal(racks, "count: 1024", "count: 1, count: 2",
                   "line 3, column 32: a device has 'count' twice");
    expect_refusal(racks, ", count: 1024", "",
                   "line 3, column 5: a device needs 'count'");
    expect_refusal(racks, "1024", "0",
                   "line 3, column 29: count must be a whole number from 1 to "
                   "10000000");
    expect_refusal(racks, "1024", "1024.5",
                   "line 3, column 29: count must be a whole number from 1 to "
                   "10000000");
    expect_refusal(racks, "1024}", "9999999}\n  - {kind: h200, count: 2}",
                   "line 4, column 25: count must be a whole number from 1 to "
                   "1");
    expect_refusal(racks, "{kind: h100-sxm, count: 1024}", "h100-sxm",
                   "line 3, column 5: a device must be a map");
    expect_refusal(racks, "1024", "1, flops: {fp4: 1}",
                   "line 3, column 40: flops has no key 'fp4'; expected one of "
                   "f32 bf16 fp16 fp8 mxfp8 nvfp4");
    expect_refusal(racks, "1024", "1, memory: 80 GB/s",
                   "line 3, column 40: memory must be a number with its unit, "
                   "such as 80 GiB, from 1 to 9.0072e+15");
    expect_refusal(mixed, "f32: 3.1 TFLOP/s, fp8: 1e3 GFLOP/s", "f32: 0",
                   "line 7, column 5: a device must have its speed in 'flops'");
    expect_refusal(
        mixed, "units: 64", "units: 0",
        "line 12, column 24: units must be a number from 1 to 65536");
    expect_refusal(mixed, "0.25", "free",
                   "line 5, column 21: price_per_hour must be a number from 0 "
                   "to 1e+06");
    expect_refusal(
        mixed, "My card", "My \\\"card",
        "line 7, column 11: kind must be a string of 1 to 63 printable "
        "ASCII characters without quotes and backslashes");
}

static const char drawn[] =
    "version: 2\n"
    "name: drawn\n"
    "devices:\n"
    "  - {kind: h100-sxm, count: 1}\n"
    "  - {kind: h100-sxm, count: 1, watts: 500}\n"
    "  - {kind: h100-sxm, count: 1, watts: 500, idle_watts: 90}\n"
    "  - {kind: h100-sxm, count: 1, idle_watts: 90}\n"
    "links:\n"
    "  - {level: all, bandwidth: 1 GB/s, latency: 1 us}\n";

static void idle_watts_follow_the_watts(void **state)
{
    (void)state;
    static const double busy[] = {700, 500, 500, 700};
    static const double idle[] = {120, 100, 90, 90};
    struct pen_cluster *cluster = parse_cluster(drawn);
    for (uint32_t i = 0; i < 4; i++) {
        const struct pen_device *device = &cluster->groups[i].device;
        expect_close(busy[i], device->watts, "watts");
        expect_close(idle[i], pen_device_idle_watts(device), "idle watts");
    }
    expect_round_trip(cluster);
    for (size_t i = 0; pen_device_at(i) != NULL; i++) {
        const struct pen_device *device = pen_device_at(i);
        double share = pen_device_idle_watts(device) / device->watts;
        if (share < 0.1 || share > 0.3)
            fail_msg("%s waits with %.0f %% of its watts", device->kind,
                     100 * share);
    }
}

static void files_of_version_1_are_read(void **state)
{
    (void)state;
    expect_refusal(drawn, "version: 2", "version: 3",
                   "line 1, column 10: version must be a whole number from 1 "
                   "to 2");
    expect_refusal(drawn, "version: 2", "version: two",
                   "line 1, column 10: version must be a whole number from 1 "
                   "to 2");
    expect_refusal(drawn, "idle_watts: 90}\n  -", "idle_watts: 501}\n  -",
                   "line 6, column 56: idle_watts must be at most the watts, "
                   "500");
    expect_refusal(drawn, "idle_watts: 90}\n  -", "idle_watts: -1}\n  -",
                   "line 6, column 56: idle_watts must be a number from 0 to "
                   "1e+06");
    struct pen_text one = PEN_TEXT_EMPTY;
    pen_text_add(&one, "version: 1\n%s", racks);
    struct pen_cluster *cluster = parse_cluster(pen_text_string(&one));
    struct pen_cluster *same = parse_cluster(racks);
    expect_same(same, cluster);
    pen_cluster_free(same);
    pen_cluster_free(cluster);
    pen_text_release(&one);
}

static void wrong_links_are_refused_by_their_place(void **state)
{
    (void)state;
    expect_refusal(racks, "size: 64, ", "",
                   "line 6, column 5: a level needs 'size'");
    expect_refusal(racks, "size: 64", "size: 60",
                   "line 6, column 25: size must be a multiple of 8");
    expect_refusal(racks, "size: 64", "size: 8",
                   "line 6, column 25: size must be a whole number from 9 to "
                   "10000000");
    expect_refusal(
        racks, "level: cluster", "level: cluster, size: 1024",
        "line 7, column 28: the outermost level joins all devices and "
        "must not have a size");
    expect_refusal(racks, "450 GB/s", "450 GB",
                   "line 5, column 39: bandwidth must be a number with its "
                   "unit, such as 450 GB/s, from 1 to 1e+18");
    expect_refusal(racks, "9 us", "9 minutes",
                   "line 7, column 51: latency must be a number with its unit, "
                   "such as 3 us, from 0 to 1000");
    expect_refusal(mixed, "[1 us, 30 ms]", "[1 us]",
                   "line 18, column 5: a row must have 2 entries, not 1");
    expect_refusal(mixed, "  - [31 ms, 2 us]\n", "",
                   "line 18, column 3: latency must have 2 entries, not 1");
    expect_refusal(mixed, "2 Gbit/s", "0",
                   "line 16, column 37: bandwidth must be a number with its "
                   "unit, such as 450 GB/s, from 1 to 1e+18");
}

static void what_is_not_yaml_of_ours_is_refused(void **state)
{
    (void)state;
    expect_reason("", "line 1, column 1: the file is empty");
    expect_reason("# nothing\n", "line 1, column 1: the file is empty");
    expect_reason("- a\n", "line 1, column 1: a cluster must be a map");
    expect_reason("name: a\n", "line 1, column 1: a cluster needs 'devices'");
    expect_reason("name: &x a\n",
                  "line 1, column 7: anchors and tags are not supported");
    expect_reason("name: !!str a\n",
                  "line 1, column 7: anchors and tags are not supported");
    expect_reason("name: &x [a]\n",
                  "line 1, column 7: anchors and tags are not supported");
    expect_reason("name: !map {a: b}\n",
                  "line 1, column 7: anchors and tags are not supported");
    expect_reason("name: *x\n", "line 1, column 7: aliases are not supported");
    expect_reason("? [a]\n: b\n", "line 1, column 3: a key must be a string");
    expect_reason("name: a\n---\nname: b\n",
                  "line 2, column 1: the file must have only one document");
    expect_reason("name: [a\n", "line 2, column 1: did not find expected ',' "
                                "or ']'");
    expect_reason("name: \"\\0\"\n",
                  "line 1, column 7: a string contains a NUL");
    expect_reason("name: \x01\n",
                  "line 1, column 7: control characters are not allowed");
    expect_reason("[[[[[[[[[[[[[[[[[[[[",
                  "line 1, column 17: lists and maps are nested too deep");
}

/* Lists of more entries than are allowed, in files that are long. */
static void too_much_is_refused(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_string(&text, "name: a\ndevices:\n");
    for (int i = 0; i < 1001; i++)
        pen_text_add_string(&text, "- {kind: h200, count: 1}\n");
    pen_text_add_string(&text, "links: [{level: a, bandwidth: 1, latency: 0}]");
    expect_reason(pen_text_string(&text), "line 3, column 1: devices must have "
                                          "1 to 1000 entries, not 1001");
    pen_text_clear(&text);
    pen_text_add_string(&text, "name: a\ndevices: [{kind: h200, count: 1}]\n"
                               "links:\n");
    for (int i = 0; i < 17; i++)
        pen_text_add(&text,
                     "- {level: a, size: %d, bandwidth: 1, "
                     "latency: 0}\n",
                     2 << i);
    expect_reason(pen_text_string(&text), "line 4, column 1: links must have 1 "
                                          "to 16 entries, not 17");
    pen_text_release(&text);
}

/* As many kinds, devices and groups as are allowed. */
static void the_most_is_read(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add_string(&text, "name: a\ndevices:\n");
    for (int i = 0; i < 1000; i++)
        pen_text_add_string(&text, "- {kind: h200, count: 10000}\n");
    pen_text_add_string(&text, "links: [{level: a, bandwidth: 1, latency: 0}]");
    struct pen_cluster *cluster = parse_cluster(pen_text_string(&text));
    assert_int_equal(PEN_CLUSTER_MAX_DEVICES, pen_cluster_num_devices(cluster));
    expect_round_trip(cluster);
    pen_text_release(&text);
}

static void a_wrong_cluster_does_not_pass_the_check(void **state)
{
    (void)state;
    struct pen_cluster *cluster = parse_cluster(mixed);
    struct pen_device *device = &cluster->groups[1].device;
    struct pen_device right = *device;
    device->memory_bytes_per_sec = NAN;
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    *device = right;
    device->constants[PEN_CONSTANT_STEP_SEC] = -1;
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    *device = right;
    device->kind[0] = '\0';
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    *device = right;
    cluster->groups[0].count = PEN_CLUSTER_MAX_DEVICES;
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    cluster->groups[0].count = 2;
    cluster->levels[0].size = 4;
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    cluster->levels[0].size = 0;
    cluster->group_latency_sec[3] = -1;
    assert_int_equal(PEN_INVALID, pen_cluster_check(cluster, NULL));
    cluster->group_latency_sec[3] = 0;
    assert_int_equal(PEN_OK, pen_cluster_check(cluster, NULL));
    pen_cluster_free(cluster);
    pen_cluster_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_says_what_a_cluster_has),
        cmocka_unit_test(figures_in_place_go_before_those_of_the_preset),
        cmocka_unit_test(a_speed_of_a_preset_can_be_taken_away),
        cmocka_unit_test(presets_are_right_and_print),
        cmocka_unit_test(levels_that_one_block_fills_are_left_out),
        cmocka_unit_test(racks_of_72_are_planned_as_64),
        cmocka_unit_test(wrong_presets_are_refused),
        cmocka_unit_test(wrong_devices_are_refused_by_their_place),
        cmocka_unit_test(idle_watts_follow_the_watts),
        cmocka_unit_test(files_of_version_1_are_read),
        cmocka_unit_test(wrong_links_are_refused_by_their_place),
        cmocka_unit_test(what_is_not_yaml_of_ours_is_refused),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(the_most_is_read),
        cmocka_unit_test(a_wrong_cluster_does_not_pass_the_check)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
