/* A cost file means what docs/formats.md says, and a wrong one names its place.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "{\"format\":\"penstock-costs\",\"version\":1,"
#define FIW "\"f\":1,\"i\":2,\"w\":3"

static struct pen_costs read_costs(const char *text)
{
    struct pen_costs costs = unit_costs();
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_costs_parse_json(text, strlen(text), &costs, &why) != PEN_OK)
        fail_msg("%s\nrefused: %s", text, pen_text_string(&why));
    pen_text_release(&why);
    return costs;
}

static void expect_refusal(const char *text, const char *expected)
{
    struct pen_costs costs = unit_costs();
    struct pen_text why = PEN_TEXT_EMPTY;
    costs.latency_sec = 42;
    if (pen_costs_parse_json(text, strlen(text), &costs, &why) != PEN_INVALID)
        fail_msg("accepted: %s", text);
    assert_string_equal(expected, pen_text_string(&why));
    expect_close(42, costs.latency_sec, "latency after a refusal");
    pen_text_release(&why);
}

static struct pen_cost_table table_of(const char *text,
                                      enum pen_placement_kind placement,
                                      uint32_t ranks, uint32_t stages)
{
    struct pen_costs costs = read_costs(text);
    struct pen_shape shape = {.placement = placement,
                              .num_ranks = ranks,
                              .num_stages = stages,
                              .num_copies = 1,
                              .num_microbatches = 4,
                              .num_slices = 1};
    struct pen_cost_table table;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_cost_table_init(&table, &costs, &shape, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_costs_release(&costs);
    return table;
}

static double sum_of_memory(const struct pen_cost_table *table)
{
    double sum = 0;
    for (uint32_t stage = 0; stage < table->num_stages; stage++)
        sum += table->stages[stage].memory;
    return sum;
}

static void uniform_costs_are_read(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"r\":4,\"pair\":5,\"sync\":6,\"step\":7,"
                            "\"move\":8,\"comm\":0.5}");
    assert_int_equal(PEN_COST_UNIFORM, costs.scope);
    expect_close(1, costs.uniform.forward_sec, "f");
    expect_close(2, costs.uniform.input_sec, "i");
    expect_close(3, costs.uniform.weight_sec, "w");
    expect_close(4, costs.uniform.recompute_sec, "r");
    expect_close(5, costs.uniform.pair_sec, "pair");
    expect_close(6, costs.uniform.sync_sec, "sync");
    expect_close(7, costs.uniform.step_sec, "step");
    expect_close(8, costs.uniform.move_sec, "move");
    expect_close(0.5, costs.latency_sec, "comm");
    assert_false(costs.is_blocking);
    pen_costs_release(&costs);
}

static void comm_has_latency_bandwidth_bytes_and_overlap(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"comm\":{\"latency\":0.25,\"bandwidth\":8,"
                            "\"bytes\":16,\"overlap\":false}}");
    expect_close(0.25, costs.latency_sec, "latency");
    expect_close(8, costs.bytes_per_sec, "bandwidth");
    expect_close(16, costs.bytes, "bytes");
    assert_true(costs.is_blocking);
    pen_costs_release(&costs);
}

static void a_bandwidth_may_have_a_unit(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"comm\":{\"bandwidth\":\"25 Gbit/s\","
                            "\"bytes\":16},\"links\":[{\"from\":0,\"to\":1,"
                            "\"bandwidth\":\"1Gb/s\"}]}");
    expect_close(3.125e9, costs.bytes_per_sec, "bandwidth");
    expect_close(125e6, costs.links[0].bytes_per_sec, "bandwidth of a link");
    pen_costs_release(&costs);
    expect_refusal(HEAD FIW
                   ",\"comm\":{\"bandwidth\":\"1Gb/s/s\",\"bytes\":1}}",
                   "comm.bandwidth must be a number from 1 to 1e+18, or a text "
                   "with a unit, such as \"450 GB/s\"");
    expect_refusal(HEAD FIW
                   ",\"comm\":{\"bandwidth\":\"1e9TB/s\",\"bytes\":1}}",
                   "comm.bandwidth must be a number from 1 to 1e+18, or a text "
                   "with a unit, such as \"450 GB/s\"");
}

static void counts_repeat_an_entry_and_the_top_is_its_default(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"step\":9,\"ranks\":[{\"count\":3},{\"f\":5,"
                            "\"memory\":0.5}]}");
    assert_int_equal(PEN_COST_PER_RANK, costs.scope);
    assert_int_equal(4, costs.num_items);
    expect_close(1, costs.items[2].forward_sec, "f of rank 2");
    expect_close(5, costs.items[3].forward_sec, "f of rank 3");
    expect_close(2, costs.items[3].input_sec, "i of rank 3");
    expect_close(9, costs.items[3].step_sec, "step of rank 3");
    expect_close(0.5, costs.items[3].memory, "memory of rank 3");
    pen_costs_release(&costs);
}

static void links_replace_the_general_one_in_their_direction(void **state)
{
    (void)state;
    struct pen_cost_table table = table_of(
        HEAD FIW ",\"comm\":{\"latency\":1,\"bandwidth\":10,\"bytes\":20},"
                 "\"links\":[{\"from\":2,\"to\":1,\"latency\":7},"
                 "{\"from\":0,\"to\":1,\"bandwidth\":5,\"both\":true}]}",
        PEN_PLACEMENT_LINEAR, 3, 3);
    expect_close(1, table.latency_sec[0], "latency 0 to 1");
    expect_close(4, table.transfer_sec[0], "transfer 0 to 1");
    expect_close(4, table.transfer_back_sec[1], "transfer 1 to 0");
    expect_close(1, table.latency_sec[1], "latency 1 to 2");
    expect_close(2, table.transfer_sec[1], "transfer 1 to 2");
    expect_close(7, table.latency_back_sec[2], "latency 2 to 1");
    expect_close(2, table.transfer_back_sec[2], "transfer 2 to 1");
    pen_cost_table_release(&table);
}

static void memory_of_the_ops_stays_unless_the_file_has_it(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"memory\":{\"f\":2,\"i\":-0.5,\"w\":-1.5}}");
    expect_close(2, costs.memory.forward, "memory of F");
    const char *text = HEAD FIW "}";
    assert_int_equal(PEN_OK,
                     pen_costs_parse_json(text, strlen(text), &costs, NULL));
    expect_close(2, costs.memory.forward, "memory of F, kept");
    expect_close(-0.5, costs.memory.input, "memory of I, kept");
    pen_costs_release(&costs);
}

/* Whatever describes the model, the mean rank holds 1 A by default. */
static void default_memory_sums_to_the_number_of_ranks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD FIW "}",
        HEAD FIW ",\"ranks\":[{\"count\":4}]}",
        HEAD FIW ",\"stages\":[{\"count\":12}]}",
        HEAD FIW ",\"layers\":[{\"count\":29}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct pen_cost_table table =
            table_of(texts[i], PEN_PLACEMENT_LOOP, 4, 12);
        expect_close(4, sum_of_memory(&table), texts[i]);
        pen_cost_table_release(&table);
    }
}

static void parts_with_more_layers_hold_and_take_more(void **state)
{
    (void)state;
    struct pen_cost_table table =
        table_of(HEAD FIW ",\"layers\":[{\"count\":4},{\"r\":3,\"f\":2,"
                          "\"memory\":1}]}",
                 PEN_PLACEMENT_LINEAR, 2, 2);
    expect_close(3, table.stages[0].forward_sec, "F of three layers");
    expect_close(3, table.stages[1].forward_sec, "F of two layers");
    expect_close(4, pen_cost_of(&table, PEN_OP_RECOMPUTE, 1), "R of 1 + 3");
    expect_close(3 * 0.4, table.stages[0].memory, "three fifths of 2 A");
    expect_close(0.4 + 1, table.stages[1].memory, "its own and a fifth");
    pen_cost_table_release(&table);
}

static void stated_memory_of_a_stage_is_taken_as_it_is(void **state)
{
    (void)state;
    struct pen_cost_table table =
        table_of(HEAD FIW ",\"stages\":[{\"memory\":0.75},{\"count\":3}]}",
                 PEN_PLACEMENT_V, 2, 4);
    expect_close(0.75, table.stages[0].memory, "stated");
    expect_close(0.5, table.stages[1].memory, "one of two chunks");
    pen_cost_table_release(&table);
}

static void a_description_of_another_size_is_refused(void **state)
{
    (void)state;
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"stages\":[{\"count\":7}]}");
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LINEAR,
                              .num_ranks = 8,
                              .num_stages = 8,
                              .num_copies = 1,
                              .num_microbatches = 1,
                              .num_slices = 1};
    struct pen_cost_table table;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID,
                     pen_cost_table_init(&table, &costs, &shape, &why));
    assert_string_equal("the costs describe 7 stages, but the schedule has 8",
                        pen_text_string(&why));
    pen_text_release(&why);
    pen_costs_release(&costs);
}

static void syntax_errors_name_line_and_column(void **state)
{
    (void)state;
    expect_refusal("",
                   "line 1, column 0: '[' or '{' expected near end of file");
    expect_refusal("{\n  \"f\": 1,\n  \"i\" 2\n}",
                   "line 3, column 7: ':' expected near '2'");
    expect_refusal("{\n\"f\": 1, \"f\": 2}",
                   "line 2, column 11: duplicate object key near '\"f\"'");
    expect_refusal("{\"f\": 1e999}",
                   "line 1, column 11: real number overflow near '1e999'");
    expect_refusal("{\"f\": \x1b[2J}",
                   "line 1, column 7: invalid token near '?'");
    expect_refusal("[]", "the file must be one JSON object");
}

static void wrong_values_name_their_path(void **state)
{
    (void)state;
    expect_refusal("{}", "format must be \"penstock-costs\"");
    expect_refusal("{\"format\":\"penstock-costs\",\"version\":2," FIW "}",
                   "version must be 1");
    expect_refusal(HEAD "\"f\":1,\"w\":1}", "i is missing");
    expect_refusal(HEAD "\"f\":-1,\"i\":1,\"w\":1}",
                   "f must be a number from 0 to 1e+09");
    expect_refusal(HEAD "\"f\":\"1\",\"i\":1,\"w\":1}",
                   "f must be a number from 0 to 1e+09");
    expect_refusal(HEAD FIW ",\"ranks\":[{},{},{},{\"f\":1e10}]}",
                   "ranks[3].f must be a number from 0 to 1e+09");
    expect_refusal(HEAD "\"f\":1,\"ranks\":[{\"i\":1,\"w\":1},{\"i\":1}]}",
                   "ranks[1].w is missing");
    expect_refusal(HEAD FIW ",\"stages\":[{\"memory\":-1}]}",
                   "stages[0].memory must be a number from 0 to 1e+06");
    expect_refusal(HEAD FIW ",\"layers\":[{},7]}",
                   "layers[1] must be an object");
    expect_refusal(HEAD FIW ",\"layers\":[{\"pair\":1},{}]}",
                   "pair must be given for all layers or for none");
    expect_refusal(HEAD FIW ",\"layers\":[]}",
                   "layers must be a list of at least one object");
    expect_refusal(HEAD FIW ",\"layers\":{\"count\":3}}",
                   "layers must be a list of at least one object");
    expect_refusal(HEAD FIW ",\"ranks\":[{}],\"layers\":[{}]}",
                   "ranks and layers are both given; give at most one of them");
}

static void unknown_keys_are_refused(void **state)
{
    (void)state;
    expect_refusal(HEAD FIW ",\"g\":1}",
                   "g is not a key of this format; expected one of format "
                   "version f i w r pair sync step move comm ranks stages "
                   "layers links memory");
    expect_refusal(HEAD FIW ",\"ranks\":[{\"mem\\u001bory\":1}]}",
                   "ranks[0].mem?ory is not a key of this format; expected "
                   "one of f i w r pair sync step move memory count");
    expect_refusal(HEAD FIW ",\"comm\":{\"Latency\":1}}",
                   "comm.Latency is not a key of this format; expected one "
                   "of latency bandwidth bytes overlap");
}

static void counts_are_bounded_in_total(void **state)
{
    (void)state;
    expect_refusal(HEAD FIW ",\"ranks\":[{\"count\":0}]}",
                   "ranks[0].count must be an integer from 1 to 65535");
    expect_refusal(HEAD FIW ",\"ranks\":[{\"count\":1.0}]}",
                   "ranks[0].count must be an integer from 1 to 65535");
    expect_refusal(HEAD FIW ",\"ranks\":[{\"count\":65535},{}]}",
                   "ranks[1] makes more than 65535 ranks");
    struct pen_costs costs =
        read_costs(HEAD FIW ",\"ranks\":[{\"count\":65535}]}");
    assert_int_equal(65535, costs.num_items);
    pen_costs_release(&costs);
}

static void wrong_communication_is_refused(void **state)
{
    (void)state;
    expect_refusal(HEAD FIW ",\"comm\":true}", "comm must be an object");
    expect_refusal(HEAD FIW ",\"comm\":-1}",
                   "comm must be a number from 0 to 1e+09");
    expect_refusal(HEAD FIW ",\"comm\":{\"overlap\":1}}",
                   "comm.overlap must be true or false");
    expect_refusal(HEAD FIW ",\"comm\":{\"bandwidth\":0}}",
                   "comm.bandwidth must be a number from 1 to 1e+18");
    expect_refusal(HEAD FIW ",\"comm\":{\"bandwidth\":9}}",
                   "comm.bytes is missing: a bandwidth needs the bytes that "
                   "one transfer moves");
    expect_refusal(HEAD FIW ",\"links\":3}",
                   "links must be a list of at most 1048576 objects");
    expect_refusal(HEAD FIW ",\"links\":[{\"from\":0,\"to\":65535}]}",
                   "links[0].to must be an integer from 0 to 65534");
    expect_refusal(HEAD FIW ",\"links\":[{\"from\":1,\"to\":1}]}",
                   "links[0].to must be a different rank than 'from'");
    expect_refusal(HEAD FIW ",\"links\":[{\"from\":1,\"to\":0},"
                            "{\"from\":0,\"to\":1,\"both\":true}]}",
                   "links: the link from rank 1 to rank 0 is given twice");
    expect_refusal(
        HEAD FIW ",\"memory\":{\"f\":1,\"w\":-0.5}}",
        "the memory of f, i, w and r sums to 0.5 for each micro-batch; "
        "it must sum to 0");
}

static void the_examples_are_right(void **state)
{
    (void)state;
    static const char *const names[] = {"uniform", "slow-rank", "stages",
                                        "layers-two-nodes"};
    struct pen_schedule *schedule = make("1f1b", 4, 8, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pen_text path = PEN_TEXT_EMPTY;
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_costs costs = unit_costs();
        pen_text_add(&path, PEN_SOURCE_DIR "/examples/costs/%s.json", names[i]);
        if (pen_costs_read(pen_text_string(&path), &costs, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        pen_timing_free(time_of(schedule, &costs));
        pen_costs_release(&costs);
        pen_text_release(&path);
    }
    pen_schedule_free(schedule);
}

/* Prints, reads and prints again: the texts and the times are the same. */
static void expect_print_reads_back(const char *text)
{
    struct pen_costs costs = read_costs(text);
    struct pen_text first = PEN_TEXT_EMPTY;
    struct pen_text second = PEN_TEXT_EMPTY;
    pen_costs_print(&costs, &first);
    struct pen_costs again = read_costs(pen_text_string(&first));
    pen_costs_print(&again, &second);
    assert_string_equal(pen_text_string(&first), pen_text_string(&second));
    assert_int_equal(costs.scope, again.scope);
    assert_int_equal(costs.num_items, again.num_items);
    assert_int_equal(costs.num_links, again.num_links);
    struct pen_schedule *schedule = make("zb-h1", 4, 8, 0);
    struct pen_timing *expected = time_of(schedule, &costs);
    struct pen_timing *found = time_of(schedule, &again);
    assert_true(expected->makespan_sec == found->makespan_sec);
    assert_true(expected->ranks[0].peak == found->ranks[0].peak);
    pen_timing_free(expected);
    pen_timing_free(found);
    pen_schedule_free(schedule);
    pen_costs_release(&costs);
    pen_costs_release(&again);
    pen_text_release(&first);
    pen_text_release(&second);
}

static void printed_costs_read_back_the_same(void **state)
{
    (void)state;
    expect_print_reads_back(HEAD FIW "}");
    expect_print_reads_back(HEAD "\"f\":0.1,\"i\":0.3,\"w\":0.7,\"r\":0.2,"
                                 "\"pair\":1,\"sync\":3,\"step\":5,"
                                 "\"comm\":{\"latency\":1e-3,\"bandwidth\":3e9,"
                                 "\"bytes\":1e7,\"overlap\":false},"
                                 "\"links\":[{\"from\":1,\"to\":2,"
                                 "\"bandwidth\":7e6,\"both\":true}]}");
    expect_print_reads_back(
        HEAD FIW ",\"comm\":0.25,\"ranks\":[{\"count\":2},{\"f\":1.5},"
                 "{\"memory\":2}],\"memory\":{\"f\":1,\"i\":-0.25,"
                 "\"w\":-0.75}}");
    expect_print_reads_back(HEAD FIW ",\"stages\":[{\"count\":3},{}]}");
    expect_print_reads_back(HEAD FIW ",\"layers\":[{\"count\":9}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_costs_are_read),
        cmocka_unit_test(comm_has_latency_bandwidth_bytes_and_overlap),
        cmocka_unit_test(a_bandwidth_may_have_a_unit),
        cmocka_unit_test(counts_repeat_an_entry_and_the_top_is_its_default),
        cmocka_unit_test(links_replace_the_general_one_in_their_direction),
        cmocka_unit_test(memory_of_the_ops_stays_unless_the_file_has_it),
        cmocka_unit_test(default_memory_sums_to_the_number_of_ranks),
        cmocka_unit_test(parts_with_more_layers_hold_and_take_more),
        cmocka_unit_test(stated_memory_of_a_stage_is_taken_as_it_is),
        cmocka_unit_test(a_description_of_another_size_is_refused),
        cmocka_unit_test(syntax_errors_name_line_and_column),
        cmocka_unit_test(wrong_values_name_their_path),
        cmocka_unit_test(unknown_keys_are_refused),
        cmocka_unit_test(counts_are_bounded_in_total),
        cmocka_unit_test(wrong_communication_is_refused),
        cmocka_unit_test(the_examples_are_right),
        cmocka_unit_test(printed_costs_read_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
