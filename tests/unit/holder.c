/*
 * A holder keeps the memory of ranks that are gone, listens to the current
 * epoch alone, reports a death, and refuses what is wrong without ending.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): memfd_create */
#include "support/folder.h"
#include "support/support.h"

#include "holder/client.h"
#include "holder/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOT_BYTES = 600000, LIMIT_MSEC = 20000 };

static char path[sizeof folder + 16];

static void start_holder(struct pen_holder *holder)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(chmod(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/holder", folder);
    if (pen_holder_start(path, 1, holder, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* Waits for the next event and compares it. */
static struct pen_holder_message expect_event(struct pen_holder *holder,
                                              enum pen_holder_kind kind,
                                              uint32_t rank)
{
    struct pen_holder_message event;
    struct pollfd wait = {.fd = holder->events, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, LIMIT_MSEC), 1);
    assert_int_equal(pen_holder_next_event(holder, &event), PEN_OK);
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.rank, rank);
    return event;
}

static struct pen_holder_client connect_rank(uint64_t epoch, uint32_t rank)
{
    struct pen_holder_client client = PEN_HOLDER_CLIENT_NONE;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_holder_connect(path, epoch, rank, 4, &client, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return client;
}

static struct pen_shard make_shard(uint64_t epoch, uint32_t rank)
{
    struct pen_shard shard = PEN_SHARD_NONE;
    struct pen_shard_about about = {.epoch = epoch,
                                    .rank = rank,
                                    .num_ranks = 4,
                                    .run = "0123456789abcdef",
                                    .slot_bytes = SLOT_BYTES};
    assert_int_equal(pen_shard_create(&about, &shard, NULL), PEN_OK);
    return shard;
}

static void commit(struct pen_shard *shard, uint64_t step)
{
    uint32_t checks[SLOT_BYTES / PEN_SHARD_BLOCK_BYTES + 1];
    uint32_t slot = pen_shard_begin(shard);
    void *bytes = pen_shard_slot(shard, slot);
    memset(bytes, (int)step, SLOT_BYTES);
    assert_int_equal(pen_shard_num_blocks(SLOT_BYTES),
                     sizeof checks / sizeof *checks);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        checks[i] = pen_shard_check_block(bytes, SLOT_BYTES, i);
    pen_shard_commit(shard, slot, step, checks);
}

static struct pen_holder_message entry(struct pen_holder *holder,
                                       uint32_t index)
{
    struct pen_holder_message it;
    assert_int_equal(pen_holder_entry(holder, index, &it, NULL), PEN_OK);
    return it;
}

/* A process that is a rank, commits two steps and waits to be killed. */
static pid_t start_rank(uint64_t epoch, uint32_t rank)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pen_holder_client client = connect_rank(epoch, rank);
        struct pen_shard shard = make_shard(epoch, rank);
        bool is_fine = pen_holder_offer(&client, &shard, NULL) == PEN_OK;
        for (uint64_t step = 6; step <= 7; step++) {
            commit(&shard, step);
            pen_holder_tell_commit(&client, step, false);
        }
        if (is_fine && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void memory_outlives_a_killed_rank(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_shard shard = PEN_SHARD_NONE;
    struct pen_holder_message event;
    start_holder(&holder);
    pid_t rank = start_rank(1, 2);
    expect_event(&holder, PEN_HOLDER_CONNECTED, 2);
    kill(rank, SIGKILL);
    do
        event = expect_event(&holder, PEN_HOLDER_COMMITTED, 2);
    while (event.step != 7);
    expect_event(&holder, PEN_HOLDER_GONE, 2);
    waitpid(rank, NULL, 0);

    struct pen_holder_message it = entry(&holder, 0);
    assert_int_equal(it.count, 1);
    assert_int_equal(it.epoch, 1);
    assert_int_equal(it.rank, 2);
    assert_int_equal(it.num_ranks, 4);
    assert_int_equal(it.is_connected, 0);
    assert_int_equal(it.steps[0] + it.steps[1], 13);
    assert_string_equal(it.run, "0123456789abcdef");

    assert_int_equal(pen_holder_set_epoch(&holder, 2, NULL), PEN_OK);
    struct pen_holder_client client = connect_rank(2, 0);
    assert_int_equal(pen_holder_fetch(&client, 1, 2, 0, &shard, NULL), PEN_OK);
    for (uint64_t step = 6; step <= 7; step++) {
        uint32_t slot;
        assert_true(pen_shard_find(&shard, step, &slot));
        assert_true(pen_shard_verify(&shard, slot));
        assert_int_equal(((char *)pen_shard_slot(&shard, slot))[SLOT_BYTES - 1],
                         step);
    }
    /* What others wrote is theirs: no mapping of it may write. */
    assert_true(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, shard.descriptor, 0) ==
                MAP_FAILED);
    pen_shard_close(&shard);
    pen_holder_leave(&client, false);
    pen_holder_stop(&holder);
    assert_int_equal(access(path, F_OK), -1);
}

static void other_epochs_are_refused(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_holder_client client = PEN_HOLDER_CLIENT_NONE;
    struct pen_text why = PEN_TEXT_EMPTY;
    start_holder(&holder);
    struct pen_holder_client old = connect_rank(1, 0);
    struct pen_shard shard = make_shard(1, 0);
    assert_int_equal(pen_holder_offer(&old, &shard, NULL), PEN_OK);
    commit(&shard, 3);
    assert_int_equal(pen_holder_set_epoch(&holder, 1, NULL), PEN_INVALID);
    assert_int_equal(pen_holder_set_epoch(&holder, 2, NULL), PEN_OK);

    /* The old one is cut off; what it committed stays. */
    assert_int_equal(pen_holder_offer(&old, &shard, &why), PEN_LOST);
    assert_int_equal(entry(&holder, 0).steps[0], 3);
    for (uint64_t epoch = 1; epoch <= 3; epoch += 2) {
        pen_text_clear(&why);
        assert_int_equal(pen_holder_connect(path, epoch, 1, 4, &client, &why),
                         PEN_INVALID);
        assert_non_null(strstr(pen_text_string(&why), "epoch 2"));
    }

    /* Memory of another epoch, and a rank that is there already. */
    struct pen_holder_client next = connect_rank(2, 0);
    assert_int_equal(pen_holder_offer(&next, &shard, &why), PEN_INVALID);
    assert_int_equal(pen_holder_connect(path, 2, 0, 4, &client, &why),
                     PEN_INVALID);

    /* Shards of older epochs go when they are not needed any more. */
    struct pen_shard now = make_shard(2, 0);
    assert_int_equal(pen_holder_offer(&next, &now, NULL), PEN_OK);
    assert_int_equal(entry(&holder, 0).count, 2);
    assert_int_equal(pen_holder_tell_commit(&next, 4, true), PEN_OK);
    struct pen_holder_message first;
    assert_int_equal(pen_holder_list(&next, 0, &first, NULL), PEN_OK);
    assert_int_equal(first.count, 1);
    assert_int_equal(first.epoch, 2);
    pen_holder_leave(&next, false);
    pen_holder_leave(&old, false);
    pen_shard_close(&shard);
    pen_shard_close(&now);
    pen_holder_stop(&holder);
    pen_text_release(&why);
}

/* Sends bytes to the holder and returns whether it closed the socket. */
static bool is_closed_by(const void *bytes, size_t length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[1024];
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int it = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(connect(it, (struct sockaddr *)&address, sizeof address),
                     0);
    assert_int_equal(send(it, bytes, length, 0), length);
    bool is_closed = recv(it, answer, sizeof answer, 0) <= 0;
    close(it);
    return is_closed;
}

static void wrong_messages_do_not_end_it(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_text why = PEN_TEXT_EMPTY;
    start_holder(&holder);
    struct pen_holder_message good = pen_holder_message_of(PEN_HOLDER_LIST);
    char long_one[sizeof good + 8] = {0};
    assert_false(is_closed_by(&good, sizeof good));
    for (size_t i = 0; i < sizeof good; i++) {
        struct pen_holder_message bad = good;
        ((unsigned char *)&bad)[i] = 0xff;
        pen_text_clear(&why);
        bool is_valid =
            pen_holder_message_parse(&bad, sizeof bad, &bad, &why) == PEN_OK;
        assert_int_equal(is_closed_by(&bad, sizeof bad), !is_valid);
    }
    memcpy(long_one, &good, sizeof good);
    assert_true(is_closed_by(long_one, sizeof long_one));
    assert_true(is_closed_by(&good, sizeof good - 1));
    assert_int_equal(entry(&holder, 0).count, 0);
    pen_holder_stop(&holder);
    pen_text_release(&why);
}

/* Memory that could get shorter would end whoever reads it. */
static void memory_without_seals_is_refused(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_shard bad = PEN_SHARD_NONE;
    start_holder(&holder);
    struct pen_holder_client client = connect_rank(1, 0);
    bad.descriptor = memfd_create("bad", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    assert_int_equal(ftruncate(bad.descriptor, 1 << 20), 0);
    assert_int_equal(pen_holder_offer(&client, &bad, NULL), PEN_INVALID);
    assert_int_equal(fcntl(bad.descriptor, F_ADD_SEALS,
                           F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     0);
    assert_int_equal(pen_holder_offer(&client, &bad, NULL), PEN_INVALID);
    close(bad.descriptor);
    bad.descriptor = -1;
    assert_int_equal(pen_holder_offer(&client, &bad, NULL), PEN_INVALID);
    assert_int_equal(entry(&holder, 0).count, 0);
    pen_holder_leave(&client, false);
    expect_event(&holder, PEN_HOLDER_CONNECTED, 0);
    expect_event(&holder, PEN_HOLDER_LEFT, 0);
    pen_holder_stop(&holder);
}

static void only_a_private_folder_will_do(void **state)
{
    (void)state;
    struct pen_holder holder;
    struct pen_text why = PEN_TEXT_EMPTY;
    snprintf(path, sizeof path, "%s/holder", folder);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(pen_holder_start(path, 1, &holder, &why), PEN_INVALID);
    assert_non_null(strstr(pen_text_string(&why), "0700"));
    start_holder(&holder);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777u, 0600);
    pen_holder_stop(&holder);
    pen_text_release(&why);
}

/* A changed byte is found, and only in its slot. */
static void a_wrong_byte_is_found(void **state)
{
    (void)state;
    struct pen_shard shard = make_shard(1, 0);
    uint32_t slot;
    assert_int_equal(pen_shard_step(&shard, 0), 0);
    commit(&shard, 1);
    commit(&shard, 2);
    commit(&shard, 3);
    assert_false(pen_shard_find(&shard, 1, &slot));
    assert_true(pen_shard_find(&shard, 2, &slot));
    ((char *)pen_shard_slot(&shard, slot))[SLOT_BYTES - 1] ^= 1;
    assert_false(pen_shard_verify(&shard, slot));
    assert_true(pen_shard_verify(&shard, 1 - slot));
    assert_int_equal(pen_shard_begin(&shard), slot);
    assert_int_equal(pen_shard_step(&shard, slot), 0);
    assert_int_equal(pen_shard_step(&shard, 1 - slot), 3);
    pen_shard_close(&shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_outlives_a_killed_rank),
        cmocka_unit_test(other_epochs_are_refused),
        cmocka_unit_test(wrong_messages_do_not_end_it),
        cmocka_unit_test(memory_without_seals_is_refused),
        cmocka_unit_test(only_a_private_folder_will_do),
        cmocka_unit_test(a_wrong_byte_is_found)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
