#include "support/simgrid.h"

#include "support/support.h"

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void begin(void)
{
    static char words[][64] = {"test",
                               "--cfg=network/model:CM02",
                               "--cfg=network/bandwidth-factor:1",
                               "--cfg=network/latency-factor:1",
                               "--cfg=network/weight-S:0",
                               "--cfg=network/TCP-gamma:0",
                               "--cfg=network/crosstraffic:0",
                               PEN_SIM_CONTEXTS,
                               "--log=xbt_cfg.thres:error"};
    char *argv[sizeof words / sizeof *words + 1] = {NULL};
    int argc = (int)(sizeof words / sizeof *words);
    for (int i = 0; i < argc; i++)
        argv[i] = words[i];
    simgrid_init(&argc, argv);
}

void in_simgrid(void (*body)(const void *context), const void *context)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        begin();
        body(context);
        fflush(NULL);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the simulation ended with status 0x%x", (unsigned)status);
}

void require(bool holds, const char *format, ...)
{
    if (holds)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

void make_platform(const struct pen_platform_options *options)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_platform_make(options, &why);
    require(status == PEN_OK, "refused: %s", pen_text_string(&why));
    pen_text_release(&why);
}

/* Arguments: number of the flow, address of it. */
static struct flow *flow_of(int argc, char **argv, sg_mailbox_t *mailbox)
{
    require(argc == 2, "%d arguments", argc);
    *mailbox = sg_mailbox_by_name(argv[0]);
    return (struct flow *)strtoull(argv[1], NULL, 16);
}

static void send_flow(int argc, char **argv)
{
    sg_mailbox_t mailbox;
    const struct flow *flow = flow_of(argc, argv, &mailbox);
    sg_comm_wait(sg_mailbox_put_async(mailbox, mailbox, (long)flow->bytes));
}

static void receive_flow(int argc, char **argv)
{
    sg_mailbox_t mailbox;
    struct flow *flow = flow_of(argc, argv, &mailbox);
    void *contents = NULL;
    if (sg_comm_wait(sg_mailbox_get_async(mailbox, &contents)) == SG_OK)
        flow->end_sec = simgrid_get_clock();
}

static sg_host_t host_of(uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%u", rank);
    sg_host_t host = sg_host_by_name(name);
    require(host != NULL, "there is no host %s", name);
    return host;
}

void run_flows(struct flow *flows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char number[32];
        char address[32];
        snprintf(number, sizeof number, "flow-%u", i);
        snprintf(address, sizeof address, "%llx",
                 (unsigned long long)(uintptr_t)&flows[i]);
        const char *argv[] = {number, address};
        flows[i].end_sec = -1;
        sg_actor_create_("send", host_of(flows[i].from), send_flow, 2, argv);
        sg_actor_create_("receive", host_of(flows[i].to), receive_flow, 2,
                         argv);
    }
    simgrid_run();
}
