/*
 * penstock sync compare: what every method costs over a link, which of them
 * pay, and which to take.
 */
#include "cli/sync/sync.h"

#include "base/units.h"
#include "cli/program/answer.h"

#include <stdint.h>
#include <string.h>

static void print_head(const struct pen__sync_args *args,
                       const struct pen_replica_setting *setting,
                       struct pen_text *out)
{
    pen_text_add_printable(out, args->model, strlen(args->model));
    pen_text_add(out, ", %.4g parameters, %u replicas on links of ",
                 setting->num_weights, setting->num_replicas);
    pen_unit_print(PEN_UNIT_BYTES_PER_SEC, setting->bytes_per_sec, out);
    pen_text_add(out, " and %.4g ms; a step computes %.4g ms\n",
                 1e3 * setting->latency_sec, 1e3 * setting->compute_sec);
    const char *who = args->encode_rate != NULL ? "as --encode-rate says"
                      : args->cluster != NULL   ? "on the devices of a replica"
                                                : "on one core";
    pen_text_add(out, "compressors encode %.4g GB/s, %s\n\n",
                 1e-9 * setting->encode_bytes_per_sec, who);
}

static int print(const struct pen__sync_args *args,
                 const struct pen_replica_comparison *comparison)
{
    if (pen__answer_is_json()) {
        json_t *object = pen__sync_json(comparison);
        json_object_set_new(object, "model", json_string(args->model));
        return pen__print_json("sync-compare", object);
    }
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_table table;
    print_head(args, &comparison->setting, &text);
    pen__sync_table(comparison, SIZE_MAX, &table);
    pen_table_print(&table, pen__page_width(), &text);
    pen_table_release(&table);
    pen_text_add(&text,
                 "\n"
                 "sent/step: bytes of a replica; stale: steps by which it may "
                 "lag the others\n"
                 "\n");
    pen_replica_advise(comparison, &text);
    return pen__print(&text);
}

static pen_status read_failures(const struct pen__sync_args *args,
                                const struct pen_replica_setting *setting,
                                struct pen_replica_failures *out,
                                struct pen_text *why)
{
    uint32_t islands = (uint32_t)args->islands;
    double seconds = 0;
    if (!pen_unit_parse(PEN_UNIT_SECONDS, args->mtbf, &seconds) ||
        seconds <= 0) {
        pen_why(why, "--mtbf %s: expected a number with a unit, as %s",
                args->mtbf, pen_unit_example(PEN_UNIT_SECONDS));
        return PEN_INVALID;
    }
    if (islands == 0)
        islands = pen_replica_most_islands(setting->num_replicas);
    if (setting->num_replicas % islands != 0) {
        pen_why(why,
                "--islands %u does not divide --replicas %u; give as many "
                "replicas to each island",
                islands, setting->num_replicas);
        return PEN_INVALID;
    }
    pen_replica_failures_init(setting, seconds, islands, out);
    if (args->restart_sec >= 0)
        out->job.restart_sec = args->restart_sec;
    return PEN_OK;
}

static pen_status compare(const struct pen__sync_args *args,
                          const struct pen__sync_setting *setting,
                          struct pen_replica_factors *factors,
                          struct pen_replica_comparison **out,
                          struct pen_text *why)
{
    struct pen_replica_wish wish = {
        .methods = (const char *const *)args->methods.words,
        .num_methods = args->methods.count,
        .interval = args->interval,
        .compress = args->compress};
    if (args->factors != NULL) {
        pen_status status =
            pen_replica_factors_load(args->factors, factors, why);
        if (status != PEN_OK)
            return status;
        wish.factors = factors;
    }
    struct pen_replica_failures failures;
    if (args->mtbf != NULL) {
        pen_status status =
            read_failures(args, &setting->setting, &failures, why);
        if (status != PEN_OK)
            return status;
        wish.failures = &failures;
    }
    return pen_replica_compare(&setting->setting, &wish, out, why);
}

int pen__sync_compare(const struct pen__sync_args *args)
{
    struct pen__sync_setting setting;
    struct pen_replica_factors factors;
    struct pen_replica_comparison *comparison = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen__sync_setting_init(args, &setting, &why);
    if (status == PEN_OK)
        status = compare(args, &setting, &factors, &comparison, &why);
    int code = status == PEN_OK ? print(args, comparison)
                                : pen__refuse_as(status, &why);
    pen_replica_comparison_free(comparison);
    pen__sync_setting_release(&setting);
    pen_text_release(&why);
    return code;
}
