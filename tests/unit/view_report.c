/* Reports: well-formed, nothing from elsewhere, every text as it was meant. */
#include "base/file.h"
#include "view/report.h"
#include "view_item.h"

#include <math.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A report with one of everything; print() takes it from here. */
struct sample {
    struct pen_report report;
    struct pen_report_figure figures[2];
    struct pen_report_bar bars[3];
    struct pen_report_bars chart;
    struct pen_report_point points[3];
    struct pen_report_series series[2];
    struct pen_report_scatter scatter;
    struct pen_table table;
    struct pen_report_section sections[4];
};

static const char *const part_names[] = {"weights", "moments", "never"};
static const double parts[3][3] = {{10, 20, 0}, {10, 25.5, 0}, {0, 0, 0}};

static const struct pen_column columns[] = {
    {"", true, false}, {"schedule", false, false}, {"why not", false, true}};

static void init_table(struct pen_table *table)
{
    pen_table_init(table, columns, COUNT(columns));
    pen_table_add(table, "1");
    pen_table_add(table, "1f1b");
    pen_table_add(table, "%s", "");
    pen_table_add(table, "2");
    pen_table_add(table, "gpipe");
    pen_table_add(table, "needs 91 GiB <of 80>");
}

static void init_charts(struct sample *sample)
{
    for (size_t i = 0; i < COUNT(sample->bars); i++)
        sample->bars[i] = (struct pen_report_bar){
            .label = "rank", .parts = parts[i], .limit = 40};
    sample->bars[1].note = "35.5 GiB";
    sample->chart = (struct pen_report_bars){.unit = "GiB",
                                             .names = part_names,
                                             .num_parts = COUNT(part_names),
                                             .bars = sample->bars,
                                             .num_bars = COUNT(sample->bars),
                                             .limit_name = "40 GiB"};
    sample->points[0] = (struct pen_report_point){1, 35.5, "1", "a & b"};
    sample->points[1] = (struct pen_report_point){2, 30, "2", NULL};
    sample->points[2] = (struct pen_report_point){2.5, 36, NULL, NULL};
    sample->series[0] =
        (struct pen_report_series){"front", sample->points, 2, true};
    sample->series[1] =
        (struct pen_report_series){"others", sample->points + 2, 1, false};
    sample->scatter = (struct pen_report_scatter){"step, s", "memory, GiB",
                                                  sample->series, 2};
}

static void init_sample(struct sample *sample)
{
    *sample = (struct sample){.report = {.title = "gpt2 on 4 devices"}};
    init_table(&sample->table);
    init_charts(sample);
    sample->figures[0] = (struct pen_report_figure){"step", "1.00 s", "10 %"};
    sample->figures[1] = (struct pen_report_figure){"memory", "35.5", NULL};
    sample->sections[0] = (struct pen_report_section){
        .title = "Plans", .table = &sample->table, .marks_first = true};
    sample->sections[1] = (struct pen_report_section){
        .title = "Memory", .bars = &sample->chart, .note = "as predicted"};
    sample->sections[2] = (struct pen_report_section){
        .title = "Front", .scatter = &sample->scatter};
    sample->sections[3] = (struct pen_report_section){
        .title = "How to run it",
        .text = "As it is.",
        .commands = "penstock export plan.json --to megatron\nls <out>"};
    sample->report.subtitle = "as planned";
    sample->report.figures = sample->figures;
    sample->report.num_figures = COUNT(sample->figures);
    sample->report.sections = sample->sections;
    sample->report.num_sections = COUNT(sample->sections);
    sample->report.foot = "penstock";
}

/* Prints, or fails the test; the table is released. */
static void print(struct sample *sample, struct pen_text *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_report_print(&sample->report, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    pen_table_release(&sample->table);
}

static void expect_part(const char *html, const char *part)
{
    if (strstr(html, part) == NULL)
        fail_msg("there is no %s in\n%s", part, html);
}

static size_t count_of(const char *html, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(html, part); at != NULL;
         at = strstr(at + 1, part))
        count++;
    return count;
}

static void what_is_said_is_there(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    init_sample(&sample);
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    expect_part(text, "<title>gpt2 on 4 devices</title>");
    expect_part(text, "<dd class=\"value\">1.00 s</dd>");
    expect_part(text, "<dd class=\"also\">10 %</dd>");
    expect_part(text, "<tr class=\"marked\">\n<td class=\"number\">1</td>");
    expect_part(text, "<td class=\"wraps\">needs 91 GiB &lt;of 80&gt;</td>");
    expect_part(text, "<title>moments 25.5 GiB</title>");
    expect_part(text, "<title>a &amp; b</title>");
    expect_part(text, ">40 GiB</text>");
    expect_part(text, "megatron\nls &lt;out&gt;</pre>");
    expect_part(text, "<p class=\"note\">as predicted</p>");
    assert_int_equal(3, count_of(text, "class=\"limit\""));
    pen_text_release(&html);
}

/* A part that no bar has is not in the legend either. */
static void bars_have_a_legend_of_their_parts(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    init_sample(&sample);
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(1, count_of(text, ">weights</text>"));
    assert_int_equal(0, count_of(text, "never"));
    assert_int_equal(4, count_of(text, "<title>weights 10") +
                            count_of(text, "<title>moments"));
    pen_text_release(&html);
}

static void texts_are_escaped_everywhere(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    static const char strange[] = "<script>\"x\" & \x1b\xff</script>";
    static const char clean[] =
        "&lt;script&gt;&quot;x&quot; &amp; ??&lt;/script&gt;";
    init_sample(&sample);
    sample.report.title = strange;
    sample.report.subtitle = strange;
    sample.report.foot = strange;
    sample.figures[0] = (struct pen_report_figure){strange, strange, strange};
    sample.bars[0].label = strange;
    sample.bars[0].note = strange;
    sample.chart.unit = strange;
    sample.chart.limit_name = strange;
    sample.points[0].label = strange;
    sample.points[0].note = strange;
    sample.series[0].name = strange;
    sample.scatter.x_name = strange;
    sample.scatter.y_name = strange;
    for (size_t i = 0; i < COUNT(sample.sections); i++) {
        sample.sections[i].title = strange;
        sample.sections[i].text = strange;
        sample.sections[i].note = strange;
        sample.sections[i].commands = strange;
    }
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(0, count_of(text, "<script"));
    /* The title is there twice; the unit and the y axis in a label, too. */
    if (count_of(text, clean) < 16 + 15)
        fail_msg("only %zu texts in\n%s", count_of(text, clean), text);
    pen_text_release(&html);
}

static void nothing_comes_from_elsewhere(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    struct pen_picture_item item = make_item("1f1b", 4, 8, 0);
    init_sample(&sample);
    sample.sections[3].picture = &item;
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(0, count_of(text, "src="));
    assert_int_equal(0, count_of(text, "<link"));
    assert_int_equal(0, count_of(text, "url(http"));
    assert_int_equal(0, count_of(text, "@import"));
    assert_int_equal(0, count_of(text, "<?xml"));
    expect_part(text, "default-src 'none'");
    /* Addresses are names of XML's dialects only. */
    assert_int_equal(count_of(text, "http://"),
                     count_of(text, "\"http://www.w3.org/"));
    assert_int_equal(0, count_of(text, "https://"));
    /* Two charts and the picture of the schedule. */
    assert_int_equal(3, count_of(text, "<svg"));
    pen_text_release(&html);
    free_item(&item);
}

/* All numbers of a path, which has commands of one letter. */
static size_t count_points(const char *html)
{
    const char *at = strstr(html, "<path class=\"curve\"");
    assert_non_null(at);
    size_t count = 0;
    for (at = strstr(at, " d=\"") + 4; *at != '"'; at++)
        count += *at == 'M' || *at == 'L';
    return count;
}

/* Prints a section of one chart with one curve. */
static void print_curve(const struct pen_report_curve *curve,
                        struct pen_text *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_report_curves chart = {"step", "loss <x>", curve, 1, false};
    struct pen_report_section section = {
        .title = "Curves", .curves = &chart, .num_curves = 1};
    struct pen_report report = {
        .title = "curves", .sections = &section, .num_sections = 1};
    if (pen_report_print(&report, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void curves_have_gaps_and_a_legend(void **state)
{
    (void)state;
    static const double x[] = {1, 2, 3, 4, 5};
    static const double y[] = {3, 2, NAN, INFINITY, 1};
    struct pen_report_curve curve = {
        .name = "a <b>", .x = x, .y = y, .count = 5, .colour = 9};
    struct pen_text html = PEN_TEXT_EMPTY;
    print_curve(&curve, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(3, count_points(text));
    assert_int_equal(1, count_of(text, ">a &lt;b&gt;</text>"));
    expect_part(text, ">loss &lt;x&gt;</text>");
    expect_part(text, "var(--l1)");
    const char *body = strstr(text, "<body>");
    assert_int_equal(0, count_of(body, "nan"));
    assert_int_equal(0, count_of(body, "inf"));
    assert_int_equal(0, count_of(body, "are not drawn"));
    pen_text_clear(&html);
    curve.has_marks = true;
    print_curve(&curve, &html);
    text = pen_text_string(&html);
    assert_int_equal(3 + 1, count_of(text, "<circle class=\"mark\""));
    pen_text_clear(&html);
    curve.count = 0;
    print_curve(&curve, &html);
    assert_int_equal(0, count_of(pen_text_string(&html), "<svg"));
    pen_text_release(&html);
}

static void a_million_points_make_a_small_report(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    double *values = malloc((size_t)2 * MANY * sizeof *values);
    struct pen_text html = PEN_TEXT_EMPTY;
    assert_non_null(values);
    for (size_t i = 0; i < MANY; i++) {
        values[i] = (double)i + 1;
        values[MANY + i] = i == 345678 ? 99 : (double)(i * 7919 % 101) / 101;
    }
    struct pen_report_curve curve = {
        .name = "loss", .x = values, .y = values + MANY, .count = MANY};
    print_curve(&curve, &html);
    const char *text = pen_text_string(&html);
    assert_in_range(html.length, 10000, 100000);
    assert_in_range(count_points(text), 1000, 4 * 960);
    expect_part(text, "points are not drawn");
    expect_part(text, ">100</text>"); /* the one spike has its place */
    pen_text_release(&html);
    free(values);
}

static void drawings_are_part_of_the_page(void **state)
{
    (void)state;
    static const char svg[] =
        "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\">"
        "<text>words</text></svg>\n";
    struct pen_text html = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_report_section sections[] = {{.title = "one", .drawing = svg},
                                            {.title = "two", .drawing = svg}};
    struct pen_report report = {
        .title = "drawings", .sections = sections, .num_sections = 2};
    assert_int_equal(PEN_OK, pen_report_print(&report, &html, &why));
    const char *text = pen_text_string(&html);
    assert_int_equal(0, count_of(text, "<?xml"));
    assert_int_equal(2, count_of(text, strstr(svg, "<svg")));
    pen_text_release(&html);
    pen_text_release(&why);
}

static void options_in_remarks_are_not_broken(void **state)
{
    (void)state;
    static const struct pen_report_remark remarks[] = {
        {"a & b", "It is 5 % -- more", "Lower --lr, or (--min-lr); a--b."},
        {NULL, "head", "--load it"}};
    struct pen_text html = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_report_section section = {
        .title = "advice", .remarks = remarks, .num_remarks = 2};
    struct pen_report report = {
        .title = "remarks", .sections = &section, .num_sections = 1};
    assert_int_equal(PEN_OK, pen_report_print(&report, &html, &why));
    const char *text = pen_text_string(&html);
    expect_part(text, "<span class=\"label\">a &amp; b</span>");
    expect_part(text, "<strong>It is 5 % -- more</strong>");
    expect_part(text, "<p>Lower <code>--lr</code>, or "
                      "(<code>--min-lr</code>); a--b.</p>");
    expect_part(text, "<p><code>--load</code> it</p>");
    assert_int_equal(1, count_of(text, "<span"));
    pen_text_release(&html);
    pen_text_release(&why);
}

static void too_many_bars_are_counted(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    static struct pen_report_bar many[PEN_REPORT_MAX_BARS + 9];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = (struct pen_report_bar){.label = "x", .parts = parts[0]};
    init_sample(&sample);
    sample.chart.bars = many;
    sample.chart.num_bars = COUNT(many);
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(PEN_REPORT_MAX_BARS, count_of(text, ">x</text>"));
    expect_part(text, "9 more are not drawn");
    pen_text_release(&html);
}

/* A chart of nothing is none; one of zeros has no bar. */
static void empty_charts_do_no_harm(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    init_sample(&sample);
    sample.chart.bars = &sample.bars[2];
    sample.chart.num_bars = 1;
    sample.bars[2].limit = 0;
    sample.scatter.num_series = 0;
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(1, count_of(text, "<svg"));
    assert_int_equal(0, count_of(text, "nan"));
    assert_int_equal(0, count_of(text, "inf"));
    pen_text_release(&html);
}

static void labels_of_near_points_do_not_collide(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    init_sample(&sample);
    sample.points[0].label = "first";
    sample.points[1] = (struct pen_report_point){1.001, 35.49, "near", NULL};
    sample.points[2].label = "far";
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(1, count_of(text, ">first</text>"));
    assert_int_equal(0, count_of(text, ">near</text>"));
    assert_int_equal(1, count_of(text, ">far</text>"));
    pen_text_release(&html);
}

static void tables_of_facts_have_no_titles(void **state)
{
    (void)state;
    static const struct pen_column facts[] = {{"", false, false},
                                              {"", false, true}};
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    init_sample(&sample);
    pen_table_release(&sample.table);
    pen_table_init(&sample.table, facts, COUNT(facts));
    pen_table_add(&sample.table, "model");
    pen_table_add(&sample.table, "gpt2");
    sample.sections[0].is_folded = true;
    print(&sample, &html);
    const char *text = pen_text_string(&html);
    assert_int_equal(0, count_of(text, "<th"));
    assert_int_equal(1, count_of(text, "<details>"));
    expect_part(text, "<td>model</td>\n<td class=\"wraps\">gpt2</td>");
    pen_text_release(&html);
}

/* The whole page; the style sheet is left out, as it changes with taste. */
static void page_is_as_reviewed(void **state)
{
    (void)state;
    struct sample sample;
    struct pen_text html = PEN_TEXT_EMPTY;
    struct pen_text golden = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    init_sample(&sample);
    print(&sample, &html);
    const char *body = strstr(pen_text_string(&html), "<body>");
    assert_non_null(body);
    if (pen_file_read(PEN_SOURCE_DIR "/tests/golden/report.html", 1u << 20,
                      &golden, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_string_equal(pen_text_string(&golden), body);
    pen_text_release(&html);
    pen_text_release(&golden);
    pen_text_release(&why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_there),
        cmocka_unit_test(bars_have_a_legend_of_their_parts),
        cmocka_unit_test(texts_are_escaped_everywhere),
        cmocka_unit_test(nothing_comes_from_elsewhere),
        cmocka_unit_test(curves_have_gaps_and_a_legend),
        cmocka_unit_test(a_million_points_make_a_small_report),
        cmocka_unit_test(drawings_are_part_of_the_page),
        cmocka_unit_test(options_in_remarks_are_not_broken),
        cmocka_unit_test(too_many_bars_are_counted),
        cmocka_unit_test(empty_charts_do_no_harm),
        cmocka_unit_test(labels_of_near_points_do_not_collide),
        cmocka_unit_test(tables_of_facts_have_no_titles),
        cmocka_unit_test(page_is_as_reviewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
