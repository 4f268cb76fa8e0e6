/*
 * Slurm: settings.sh and job.sbatch alone, which start the program that the
 * plan is for with the files that the other exporters write.
 */
#include "export/job.h"

#define USUAL_NODE 8u

static pen_status fit(struct pen_plan *plan, const struct pen_model *model,
                      struct pen_text *notes, struct pen_text *why)
{
    (void)model;
    (void)why;
    if (plan->node_size == 0) {
        plan->node_size = USUAL_NODE;
        pen__note(
            notes,
            "the plan does not have the number of devices per node: %u are "
            "assumed",
            USUAL_NODE);
    }
    return PEN_OK;
}

static pen_status write(const struct pen_export_job *job,
                        struct pen_export_files *out, struct pen_text *why)
{
    (void)why;
    pen__export_add_job(&pen__export_sbatch, job, pen__launch_of(job->plan),
                        out);
    return PEN_OK;
}

const struct pen_export pen__export_sbatch = {"sbatch", NULL,  "a job of Slurm",
                                              fit,      write, false};
