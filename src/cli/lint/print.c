/* Findings as text, JSON and SARIF. */
#include "cli/lint/lint.h"

#include "cli/program/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

uint32_t pen__lint_answer_count(const struct pen__lint_answer *answer,
                                enum pen_lint_severity severity)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < answer->count; i++)
        for (uint32_t j = 0; j < answer->files[i].report.num_findings; j++)
            count += answer->files[i].report.findings[j].severity == severity;
    return count;
}

static struct pen_lint_place place_of(const struct pen__linted *file, size_t at)
{
    return pen_lint_place(pen_text_string(&file->text), file->text.length, at);
}

/* ---- text ---- */

static void print_finding(const struct pen__linted *file,
                          const struct pen_lint_finding *finding,
                          struct pen_text *out)
{
    struct pen_lint_place place = place_of(file, finding->begin);
    pen_text_add(out, "%s:%" PRIu32 ":%" PRIu32 ": %s: %s [%s]", file->path,
                 place.line, place.column,
                 pen_lint_severity_names[finding->severity], finding->what,
                 finding->rule->name);
    pen_text_add_excerpt(out, pen_text_string(&file->text), file->text.length,
                         finding->begin);
    pen_text_add(out, "\n  why: %s\n  do:  %s\n", finding->why, finding->todo);
}

static void add_count(struct pen_text *out, uint32_t count, const char *noun)
{
    pen_text_add(out, "%" PRIu32 " %s%s", count, noun, count == 1 ? "" : "s");
}

void pen__lint_print(const struct pen__lint_answer *answer,
                     struct pen_text *out)
{
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        jobs += answer->files[i].report.num_jobs;
        for (uint32_t j = 0; j < answer->files[i].report.num_findings; j++)
            print_finding(&answer->files[i],
                          &answer->files[i].report.findings[j], out);
    }
    add_count(out, answer->count, "file");
    pen_text_add_string(out, ", ");
    add_count(out, jobs, "training");
    for (unsigned i = 0; i < 3; i++) {
        pen_text_add_string(out, ", ");
        add_count(out,
                  pen__lint_answer_count(answer, (enum pen_lint_severity)i),
                  pen_lint_severity_names[i]);
    }
    pen_text_add_string(out, "\n");
}

/* ---- JSON ---- */

static json_t *finding_json(const struct pen__linted *file,
                            const struct pen_lint_finding *finding)
{
    struct pen_lint_place from = place_of(file, finding->begin);
    struct pen_lint_place to = place_of(file, finding->end);
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:s}", "rule",
                  finding->rule->name, "severity",
                  pen_lint_severity_names[finding->severity], "line",
                  (int)from.line, "column", (int)from.column, "end_line",
                  (int)to.line, "end_column", (int)to.column, "what",
                  finding->what, "why", finding->why, "todo", finding->todo);
    if (finding->fix != NULL)
        json_object_set_new(object, "fix", json_string(finding->fix));
    return object;
}

static json_t *file_json(const struct pen__linted *file)
{
    const struct pen_lint_report *report = &file->report;
    json_t *findings = json_array();
    json_t *jobs = json_array();
    for (uint32_t i = 0; i < report->num_findings; i++)
        pen__json_append(&findings, finding_json(file, &report->findings[i]));
    for (uint32_t i = 0; i < report->num_jobs; i++) {
        const struct pen_lint_job *job = &report->jobs[i];
        json_t *object = json_pack("{s:s, s:i}", "program",
                                   pen_lint_dialect_names[job->dialect], "line",
                                   (int)place_of(file, job->begin).line);
        if (job->world > 0)
            json_object_set_new(object, "ranks",
                                json_integer((json_int_t)job->world));
        pen__json_append(&jobs, object);
    }
    return json_pack("{s:s, s:o, s:o}", "path", file->path, "trainings", jobs,
                     "findings", findings);
}

json_t *pen__lint_json(const struct pen__lint_answer *answer)
{
    json_t *files = json_array();
    for (uint32_t i = 0; i < answer->count; i++)
        pen__json_append(&files, file_json(&answer->files[i]));
    return json_pack(
        "{s:o, s:i, s:i, s:i}", "files", files, "errors",
        (int)pen__lint_answer_count(answer, PEN_LINT_ERROR), "warnings",
        (int)pen__lint_answer_count(answer, PEN_LINT_WARNING), "hints",
        (int)pen__lint_answer_count(answer, PEN_LINT_NOTE));
}

/* ---- SARIF ---- */

static json_t *rule_sarif(const struct pen_lint_rule *rule)
{
    return json_pack("{s:s, s:{s:s}, s:{s:s}}", "id", rule->name,
                     "shortDescription", "text", rule->summary,
                     "defaultConfiguration", "level",
                     pen_lint_severity_names[rule->severity]);
}

/* Makes a place whose column counts letters of UTF-8, not bytes. */
static struct pen_lint_place letters_of(const struct pen__linted *file,
                                        size_t at)
{
    const char *text = pen_text_string(&file->text);
    struct pen_lint_place place = place_of(file, at);
    for (size_t i = at - (place.column - 1); i < at; i++)
        place.column -= ((unsigned char)text[i] & 0xc0) == 0x80;
    return place;
}

static json_t *region_sarif(const struct pen__linted *file, size_t begin,
                            size_t end)
{
    struct pen_lint_place from = letters_of(file, begin);
    struct pen_lint_place to = letters_of(file, end);
    return json_pack("{s:i, s:i, s:i, s:i}", "startLine", (int)from.line,
                     "startColumn", (int)from.column, "endLine", (int)to.line,
                     "endColumn", (int)to.column);
}

/* Encodes the path as a URI: letters with a special meaning are escaped. */
static json_t *uri_sarif(const char *path)
{
    struct pen_text uri = PEN_TEXT_EMPTY;
    for (const char *at = path; *at != '\0'; at++)
        if (isalnum((unsigned char)*at) || strchr("/-._~", *at) != NULL)
            pen_text_add_bytes(&uri, at, 1);
        else
            pen_text_add(&uri, "%%%02X", (unsigned)(unsigned char)*at);
    json_t *string = json_string(pen_text_string(&uri));
    pen_text_release(&uri);
    return string;
}

static json_t *fix_sarif(const struct pen__linted *file,
                         const struct pen_lint_finding *finding)
{
    return json_pack("[{s:{s:s}, s:[{s:{s:o}, s:[{s:o, s:{s:s}}]}]}]",
                     "description", "text", finding->todo, "artifactChanges",
                     "artifactLocation", "uri", uri_sarif(file->path),
                     "replacements", "deletedRegion",
                     region_sarif(file, finding->begin, finding->end),
                     "insertedContent", "text", finding->fix);
}

static json_t *result_sarif(const struct pen__linted *file,
                            const struct pen_lint_finding *finding)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    pen_text_add(&words, "%s. %s %s", finding->what, finding->why,
                 finding->todo);
    json_t *result = json_pack(
        "{s:s, s:i, s:s, s:{s:s}, s:[{s:{s:{s:o}, s:o}}]}", "ruleId",
        finding->rule->name, "ruleIndex", (int)(finding->rule - pen_lint_rules),
        "level", pen_lint_severity_names[finding->severity], "message", "text",
        pen_text_string(&words), "locations", "physicalLocation",
        "artifactLocation", "uri", uri_sarif(file->path), "region",
        region_sarif(file, finding->begin, finding->end));
    if (finding->fix != NULL)
        json_object_set_new(result, "fixes", fix_sarif(file, finding));
    pen_text_release(&words);
    return result;
}

json_t *pen__lint_sarif(const struct pen__lint_answer *answer)
{
    json_t *rules = json_array();
    json_t *results = json_array();
    for (int i = 0; i < PEN_LINT_RULES; i++)
        pen__json_append(&rules, rule_sarif(&pen_lint_rules[i]));
    for (uint32_t i = 0; i < answer->count; i++)
        for (uint32_t j = 0; j < answer->files[i].report.num_findings; j++)
            pen__json_append(
                &results, result_sarif(&answer->files[i],
                                       &answer->files[i].report.findings[j]));
    return json_pack("{s:s, s:s, s:[{s:{s:{s:s, s:o}}, s:s, s:o}]}", "$schema",
                     "https://json.schemastore.org/sarif-2.1.0.json", "version",
                     "2.1.0", "runs", "tool", "driver", "name", "penstock lint",
                     "rules", rules, "columnKind", "unicodeCodePoints",
                     "results", results);
}
