/*
 * Ranks that die or stop are named, with the op, by the others; ranks that are
 * slow are not. The ranks are processes that play a schedule over pipes instead
 * of MPI. Deadlines are ten times what is expected: on a loaded machine a core
 * may be away for tenths of seconds.
 */
#include "support/folder.h"
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "watch/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    STAGES = 4,
    REPLICAS = 2,
    RANKS = STAGES * REPLICAS,
    MICROBATCHES = 8,
    STEPS = 6,
    STOPS = 6,
    MANY_STOPS = 40, /* with PEN_LONG */
    OP_USEC = 100
};

/* --hang-timeout of most plays: far longer than any op takes. */
#define TIMEOUT_SEC 1.0

static int num_stops(void)
{
    return getenv("PEN_LONG") != NULL ? MANY_STOPS : STOPS;
}

#define HOST "test-host"

/* What happens to one rank, at one op of its row. */
struct accident {
    uint32_t rank; /* RANKS: none */
    uint64_t step;
    uint32_t position;
    int signal; /* or one of the two below */
};

/*
 * The rank saves at that op for some time, computes slowly in that step, is on
 * a core for a long time in that op, or sleeps in it.
 */
enum { SAVES = 0, IS_SLOW = -1, IS_BUSY = -2, SLEEPS = -3 };

/* How long it does the last two. */
#define LONG_SEC 3

static const struct accident no_accident = {.rank = RANKS};

/* One run: pipes, processes and what they said. */
struct play {
    const struct pen_schedule *schedule;
    struct accident accident;
    double hang_timeout_sec;
    uint64_t num_steps;
    char job[64];
    int links[RANKS][RANKS][3][2]; /* from, to, direction or collective */
    int sockets[RANKS]; /* read ends: closed when all files of a rank are */
    int own_socket;     /* of the rank that is being started */
    pid_t pids[RANKS];
    int codes[RANKS]; /* exit code, or minus the signal */
};

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_usec(long usec)
{
    struct timespec pause = {.tv_sec = usec / 1000000,
                             .tv_nsec = usec % 1000000 * 1000};
    while (nanosleep(&pause, &pause) != 0)
        continue;
}

static void spin_sec(double sec)
{
    double end = now_sec() + sec;
    while (now_sec() < end)
        continue;
}

static void path_of(uint32_t rank, char *path, size_t size)
{
    snprintf(path, size, "%s/err-%u", folder, rank);
}

static bool has_words(void)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        struct stat about;
        char path[64];
        path_of(i, path, sizeof path);
        if (stat(path, &about) == 0 && about.st_size > 0)
            return true;
    }
    return false;
}

/* Until a rank warns of it: late where steps were slow, on a busy machine. */
static void sleep_long(void)
{
    pause_usec(1000000L * LONG_SEC);
    for (int i = 0; i < 5 * LONG_SEC && !has_words(); i++)
        pause_usec(1000000);
}

/* ---- a rank ---- */

struct player {
    struct play *play;
    uint32_t rank;
    struct pen_board *board;
    struct pen_watchdog *watchdog;
    uint64_t step;
    uint32_t position;
};

/* Says what the rank does, and suffers the accident if it is its turn. */
static void note(struct player *player, enum pen_board_state state,
                 uint32_t waits_for)
{
    const struct accident *accident = &player->play->accident;
    bool is_now = accident->rank == player->rank &&
                  accident->step == player->step &&
                  accident->position == player->position;
    bool is_saving = is_now && accident->signal == SAVES;
    pen_board_note(player->board, player->step, player->position,
                   is_saving ? PEN_BOARD_SAVING : state, waits_for);
    if (is_saving)
        pause_usec((long)(3e6 * player->play->hang_timeout_sec));
    else if (is_now && accident->signal == IS_BUSY)
        spin_sec(LONG_SEC);
    else if (is_now && accident->signal == SLEEPS)
        sleep_long();
    else if (is_now && accident->signal > 0)
        raise(accident->signal);
}

static void put(struct player *player, uint32_t to, int kind)
{
    char byte = 'x';
    if (write(player->play->links[player->rank][to][kind][1], &byte, 1) != 1)
        _exit(1);
}

static void take(struct player *player, uint32_t from, int kind)
{
    char byte;
    int handle = player->play->links[from][player->rank][kind][0];
    struct pollfd come = {.fd = handle, .events = POLLIN};
    while (poll(&come, 1, 5) != 1)
        if (pen_board_has_lost(player->board))
            pen_watchdog_leave(player->watchdog);
    if (read(handle, &byte, 1) != 1)
        _exit(1);
}

/* All ranks meet. */
static void meet(struct player *player)
{
    note(player, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != player->rank)
            put(player, i, PEN_DIRECTION_NONE);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != player->rank)
            take(player, i, PEN_DIRECTION_NONE);
}

/* The rank of the same pipeline at the other end of a message. */
static uint32_t peer_of(const struct player *player, const struct pen_op *op)
{
    const struct pen_shape *shape = &player->play->schedule->shape;
    const struct pen_op_info *info = pen_op_info(op->kind);
    bool is_forth = (info->direction == PEN_DIRECTION_ACT) ==
                    (info->op_class == PEN_OP_CLASS_SEND);
    uint32_t stage = is_forth ? pen_shape_next_stage(shape, op->stage)
                              : pen_shape_previous_stage(shape, op->stage);
    return player->rank / STAGES * STAGES + pen_shape_rank_of(shape, stage);
}

static void compute(const struct player *player)
{
    const struct play *play = player->play;
    bool is_slow = play->accident.signal == IS_SLOW &&
                   play->accident.rank == player->rank &&
                   play->accident.step == player->step;
    pause_usec(is_slow ? (long)(0.5e6 * play->hang_timeout_sec) : OP_USEC);
}

static void execute(struct player *player, const struct pen_op *op)
{
    const struct pen_op_info *info = pen_op_info(op->kind);
    uint32_t peer;
    switch (info->op_class) {
    case PEN_OP_CLASS_SEND:
        note(player, PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
        put(player, peer_of(player, op), info->direction);
        break;
    case PEN_OP_CLASS_RECV:
        peer = peer_of(player, op);
        note(player, PEN_BOARD_WAITING, peer);
        take(player, peer, info->direction);
        break;
    case PEN_OP_CLASS_SYNC:
        peer = (player->rank + STAGES) % RANKS;
        note(player, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY);
        put(player, peer, PEN_DIRECTION_ACT);
        take(player, peer, PEN_DIRECTION_ACT);
        break;
    case PEN_OP_CLASS_STEP:
        meet(player);
        break;
    default:
        note(player, PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY);
        compute(player);
    }
}

static void take_steps(struct player *player)
{
    const struct pen_row *row =
        &player->play->schedule->rows[player->rank % STAGES];
    for (player->step = 0; player->step < player->play->num_steps;
         player->step++) {
        double begin = now_sec();
        for (player->position = 0; player->position < row->count;
             player->position++)
            execute(player, &row->ops[player->position]);
        pen_watchdog_add_step(player->watchdog, now_sec() - begin);
    }
}

static _Noreturn void be_rank(struct play *play, uint32_t rank)
{
    char path[64];
    struct pen_text why = PEN_TEXT_EMPTY;
    struct player player = {.play = play, .rank = rank};
    path_of(rank, path, sizeof path);
    int handle = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (handle < 0 || dup2(handle, STDERR_FILENO) < 0)
        _exit(1);
    const struct pen_board_options options = {.job = play->job,
                                              .host = HOST,
                                              .rank = rank,
                                              .local_rank = rank,
                                              .num_local = RANKS,
                                              .deadline_sec = 20,
                                              .socket = play->own_socket};
    pen_status status = pen_board_create(&options, &player.board, &why);
    pen_board_set_row(player.board, rank % STAGES);
    const struct pen_watchdog_options dog = {.board = player.board,
                                             .schedule = play->schedule,
                                             .num_ranks = RANKS,
                                             .hang_timeout_sec =
                                                 play->hang_timeout_sec};
    if (status == PEN_OK)
        status = pen_watchdog_create(&dog, &player.watchdog, &why);
    if (status != PEN_OK) {
        fprintf(stderr, "%s\n", pen_text_string(&why));
        _exit(1);
    }
    take_steps(&player);
    pen_board_note(player.board, player.step, PEN_BOARD_NO_OP,
                   PEN_BOARD_FINISHED, PEN_BOARD_NOBODY);
    pen_watchdog_free(player.watchdog);
    pen_board_free(player.board);
    _exit(0);
}

/* ---- all of them ---- */

static void for_all_links(struct play *play, void (*act)(int link[2]))
{
    for (uint32_t i = 0; i < RANKS; i++)
        for (uint32_t j = 0; j < RANKS; j++)
            for (int kind = 0; kind < 3; kind++)
                act(play->links[i][j][kind]);
}

static void open_link(int link[2])
{
    assert_int_equal(pipe(link), 0);
}

static void close_link(int link[2])
{
    close(link[0]);
    close(link[1]);
}

static void begin(struct play *play)
{
    snprintf(play->job, sizeof play->job, "watchdog-%d", (int)getpid());
    for_all_links(play, open_link);
    for (uint32_t i = 0; i < RANKS; i++) {
        char path[64];
        int link[2];
        path_of(i, path, sizeof path);
        remove(path);
        open_link(link);
        play->own_socket = link[1];
        play->pids[i] = fork();
        assert_true(play->pids[i] >= 0);
        if (play->pids[i] == 0)
            be_rank(play, i);
        close(link[1]);
        play->sockets[i] = link[0];
    }
}

static void collect(struct play *play, uint32_t rank)
{
    int status;
    assert_int_equal(waitpid(play->pids[rank], &status, 0), play->pids[rank]);
    play->codes[rank] =
        WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void end(struct play *play)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        collect(play, i);
        close(play->sockets[i]);
    }
    for_all_links(play, close_link);
}

static void read_words(uint32_t rank, struct pen_text *out)
{
    char path[64];
    path_of(rank, path, sizeof path);
    pen_text_release(out);
    pen_file_read(path, 1 << 16, out, NULL);
}

static uint32_t count_lines(const struct pen_text *text)
{
    uint32_t count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += text->bytes[i] == '\n';
    return count;
}

static void expect_has(const struct pen_text *text, const char *part)
{
    if (strstr(pen_text_string(text), part) == NULL)
        fail_msg("found '%s', expected '%s' in it", pen_text_string(text),
                 part);
}

static void print_place(const struct play *play, struct pen_text *out)
{
    const struct accident *accident = &play->accident;
    pen_op_print(
        &play->schedule->rows[accident->rank % STAGES].ops[accident->position],
        out);
}

/*
 * Each of the others has one line that names the rank and the op; the one that
 * was stopped says nothing, and all end with the same exit code.
 */
static void expect_root(const struct play *play)
{
    const struct accident *accident = &play->accident;
    struct pen_text root = PEN_TEXT_EMPTY;
    struct pen_text words = PEN_TEXT_EMPTY;
    pen_text_add(&root, "root of the wait: rank %u on " HOST " has been in ",
                 accident->rank);
    print_place(play, &root);
    pen_text_add(&root, " of step %u for ", (unsigned)accident->step);
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(play->codes[i], PEN_EXIT_HANG);
        read_words(i, &words);
        if (i == accident->rank) {
            assert_string_equal(pen_text_string(&words), "");
            continue;
        }
        expect_has(&words, pen_text_string(&root));
        expect_has(&words, ", state stopped");
        assert_int_equal(count_lines(&words), 1);
    }
    read_words((accident->rank + 1) % RANKS, &words);
    print_message("%s", pen_text_string(&words));
    pen_text_release(&words);
    pen_text_release(&root);
}

static struct accident any_accident(struct pen_random *random,
                                    const struct pen_schedule *schedule,
                                    int signal)
{
    uint32_t rank = pen_random_below(random, RANKS);
    return (struct accident){.rank = rank,
                             .step = pen_random_below(random, STEPS),
                             .position = pen_random_below(
                                 random, schedule->rows[rank % STAGES].count),
                             .signal = signal};
}

static void the_stopped_rank_is_named_by_all_others(void **state)
{
    (void)state;
    struct pen_random random = {.state = 7};
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    for (int i = 0; i < num_stops(); i++) {
        struct play play = {.schedule = schedule,
                            .accident =
                                any_accident(&random, schedule, SIGSTOP),
                            .hang_timeout_sec = TIMEOUT_SEC,
                            .num_steps = STEPS};
        begin(&play);
        end(&play);
        expect_root(&play);
    }
    print_message("%d stops told by the %d others\n", num_stops(), RANKS - 1);
    pen_schedule_free(schedule);
}

static void await_closed_socket(const struct play *play)
{
    struct pollfd polls[RANKS];
    for (uint32_t i = 0; i < RANKS; i++)
        polls[i] = (struct pollfd){.fd = play->sockets[i], .events = POLLIN};
    assert_true(poll(polls, RANKS, 60000) > 0);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    assert_int_equal(
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == pid;
}

/*
 * MPICH's launcher kills all when the first socket closes. The sanitizer of
 * threads does not work in a process that shares the memory of another.
 */
static void no_file_closes_before_all_ranks_have_an_exit_code(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    struct pen_random random = {.state = 5};
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    setenv("MPI_LOCALNRANKS", "8", 1);
    for (int i = 0; i < num_stops() / 4; i++) {
        struct play play = {.schedule = schedule,
                            .accident =
                                any_accident(&random, schedule, SIGSTOP),
                            .hang_timeout_sec = TIMEOUT_SEC,
                            .num_steps = STEPS};
        begin(&play);
        await_closed_socket(&play);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_true(has_ended(play.pids[rank]));
        end(&play);
        expect_root(&play);
    }
    unsetenv("MPI_LOCALNRANKS");
    pen_schedule_free(schedule);
}

static uint32_t count_all_lines(void)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        read_words(i, &words);
        count += count_lines(&words);
    }
    pen_text_release(&words);
    return count;
}

/* Without --hang-timeout: within 5 s on a machine that is not ten times slow.
 */
static void a_stopped_rank_is_named_in_time(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("zb-h1", STAGES, MICROBATCHES, 1);
    struct play play = {
        .schedule = schedule,
        .accident = {.rank = 6, .step = 4, .position = 11, .signal = SIGSTOP},
        .hang_timeout_sec = PEN_HANG_TIMEOUT_DEFAULT,
        .num_steps = STEPS};
    int status;
    begin(&play);
    assert_int_equal(waitpid(play.pids[6], &status, WUNTRACED), play.pids[6]);
    double stopped = now_sec();
    while (count_all_lines() < RANKS - 1 && now_sec() - stopped < 50)
        pause_usec(5000);
    double told = now_sec();
    end(&play);
    expect_root(&play);
    print_message("told after %.2f s\n", told - stopped);
    assert_true(told - stopped < 50);
    pen_schedule_free(schedule);
}

static void the_killed_rank_is_named_once(void **state)
{
    (void)state;
    struct pen_random random = {.state = 3};
    struct pen_schedule *schedule =
        make("interleaved", STAGES, MICROBATCHES, 2);
    for (int i = 0; i < num_stops(); i++) {
        struct play play = {.schedule = schedule,
                            .accident =
                                any_accident(&random, schedule, SIGKILL),
                            .hang_timeout_sec = PEN_HANG_TIMEOUT_NEVER,
                            .num_steps = STEPS};
        struct pen_text all = PEN_TEXT_EMPTY;
        struct pen_text part = PEN_TEXT_EMPTY;
        struct pen_text words = PEN_TEXT_EMPTY;
        double start = now_sec();
        begin(&play);
        end(&play);
        double taken = now_sec() - start;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            read_words(rank, &words);
            pen_text_add_string(&all, pen_text_string(&words));
            assert_int_equal(play.codes[rank], rank == play.accident.rank
                                                   ? -SIGKILL
                                                   : PEN_EXIT_PEER_DIED);
        }
        pen_text_add(&part, "penstock: rank %u on " HOST " died (",
                     play.accident.rank);
        expect_has(&all, pen_text_string(&part));
        pen_text_clear(&part);
        pen_text_add(&part, ") at step %u in ", (unsigned)play.accident.step);
        print_place(&play, &part);
        pen_text_add_string(&part, " (");
        expect_has(&all, pen_text_string(&part));
        expect_has(&all, "; the job ends\n");
        assert_int_equal(count_lines(&all), 1);
        assert_true(taken < 30);
        print_message("%.2f s: %s", taken, pen_text_string(&all));
        pen_text_release(&words);
        pen_text_release(&part);
        pen_text_release(&all);
    }
    pen_schedule_free(schedule);
}

/* The same launcher: once it has noticed, nobody can tell any more. */
static void a_death_is_told_before_a_socket_closes(void **state)
{
    (void)state;
    struct pen_random random = {.state = 9};
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    for (int i = 0; i < num_stops(); i++) {
        struct play play = {.schedule = schedule,
                            .accident =
                                any_accident(&random, schedule, SIGKILL),
                            .hang_timeout_sec = PEN_HANG_TIMEOUT_NEVER,
                            .num_steps = STEPS};
        if (play.accident.step == 0)
            continue; /* its neighbour may not watch yet */
        begin(&play);
        await_closed_socket(&play);
        assert_int_equal(count_all_lines(), 1);
        end(&play);
    }
    pen_schedule_free(schedule);
}

static void expect_calm(const struct play *play)
{
    struct pen_text words = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < RANKS; i++) {
        read_words(i, &words);
        assert_string_equal(pen_text_string(&words), "");
        assert_int_equal(play->codes[i], 0);
    }
    pen_text_release(&words);
}

static void ranks_that_finish_are_not_missed(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("gpipe", STAGES, MICROBATCHES, 1);
    struct play play = {.schedule = schedule,
                        .accident = no_accident,
                        .hang_timeout_sec = TIMEOUT_SEC,
                        .num_steps = STEPS};
    begin(&play);
    end(&play);
    expect_calm(&play);
    pen_schedule_free(schedule);
}

static void a_rank_that_saves_is_given_time(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct play play = {
        .schedule = schedule,
        .accident = {.rank = 2, .step = 3, .position = 9, .signal = SAVES},
        .hang_timeout_sec = TIMEOUT_SEC,
        .num_steps = STEPS};
    begin(&play);
    end(&play);
    expect_calm(&play);
    pen_schedule_free(schedule);
}

/* The replica of its stages waits for all of its ops together. */
static void a_slow_rank_that_goes_on_does_not_hang(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct play play = {.schedule = schedule,
                        .accident = {.rank = 2, .step = 3, .signal = IS_SLOW},
                        .hang_timeout_sec = TIMEOUT_SEC,
                        .num_steps = STEPS};
    begin(&play);
    end(&play);
    expect_calm(&play);
    pen_schedule_free(schedule);
}

/* Rank 2 in the middle of step 3, in an op that computes. */
static struct accident middle(const struct pen_schedule *schedule, int kind)
{
    uint32_t position = 9;
    while (pen_op_info(schedule->rows[2].ops[position].kind)->op_class !=
           PEN_OP_CLASS_COMPUTE)
        position++;
    return (struct accident){
        .rank = 2, .step = 3, .position = position, .signal = kind};
}

static void expect_calm_without_timeout(int accident)
{
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct play play = {.schedule = schedule,
                        .accident = middle(schedule, accident),
                        .hang_timeout_sec = PEN_HANG_TIMEOUT_DEFAULT,
                        .num_steps = STEPS};
    begin(&play);
    end(&play);
    expect_calm(&play);
    pen_schedule_free(schedule);
}

/* The others are idle longer than a stopped rank is given. */
static void a_rank_on_a_core_is_slow(void **state)
{
    (void)state;
    expect_calm_without_timeout(IS_BUSY);
}

/* One line that names the rank, and then it goes on. */
static void a_rank_that_sleeps_is_warned_of_and_not_ended(void **state)
{
    (void)state;
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_text all = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct play play = {.schedule = schedule,
                        .accident = middle(schedule, SLEEPS),
                        .hang_timeout_sec = PEN_HANG_TIMEOUT_DEFAULT,
                        .num_steps = STEPS};
    begin(&play);
    end(&play);
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_int_equal(play.codes[i], 0);
        read_words(i, &words);
        pen_text_add_string(&all, pen_text_string(&words));
    }
    print_message("%s", pen_text_string(&all));
    assert_int_equal(count_lines(&all), 1);
    expect_has(&all, "penstock: warning: rank ");
    expect_has(&all, "root of the wait: rank 2 on " HOST " has been in ");
    expect_has(&all, ", state sleeping (");
    expect_has(&all, "; it sleeps and waits for no core; the job ends if ");
    pen_text_release(&words);
    pen_text_release(&all);
    pen_schedule_free(schedule);
}

/*
 * As Slurm does when it suspends a job. Rank 0 is the first to be stopped and
 * the last to go on, so that the others wait for it all the time.
 */
static void a_job_stopped_as_a_whole_goes_on(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct play play = {.schedule = schedule,
                        .accident = no_accident,
                        .hang_timeout_sec = 3,
                        .num_steps = 40 * STEPS};
    begin(&play);
    pause_usec(200000);
    kill(play.pids[0], SIGSTOP);
    pause_usec(200000);
    for (uint32_t i = 1; i < RANKS; i++)
        kill(play.pids[i], SIGSTOP);
    pause_usec(4000000);
    for (uint32_t i = 1; i < RANKS; i++)
        kill(play.pids[i], SIGCONT);
    pause_usec(100000);
    kill(play.pids[0], SIGCONT);
    end(&play);
    expect_calm(&play);
    pen_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stopped_rank_is_named_by_all_others),
        cmocka_unit_test(no_file_closes_before_all_ranks_have_an_exit_code),
        cmocka_unit_test(a_stopped_rank_is_named_in_time),
        cmocka_unit_test(the_killed_rank_is_named_once),
        cmocka_unit_test(a_death_is_told_before_a_socket_closes),
        cmocka_unit_test(ranks_that_finish_are_not_missed),
        cmocka_unit_test(a_rank_that_saves_is_given_time),
        cmocka_unit_test(a_slow_rank_that_goes_on_does_not_hang),
        cmocka_unit_test(a_rank_on_a_core_is_slow),
        cmocka_unit_test(a_rank_that_sleeps_is_warned_of_and_not_ended),
        cmocka_unit_test(a_job_stopped_as_a_whole_goes_on),
    };
    alarm(getenv("PEN_LONG") != NULL
              ? 3000
              : 500); /* nobody may wait for ever, not even here */
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
