/*
 * Whatever a power failure leaves of a save, a step that is whole is loaded,
 * never a mixture; and once the save has returned, it is the new one.
 *
 * The system calls of a save are recorded. A crash after any of them leaves all
 * that was synced, and of the rest anything: each name that was made, moved or
 * removed is there or not, each write is there, or half of it, or only its
 * length. All of these states are built where they are few, else as many as
 * there are draws; each is opened as a run.
 *
 * Each seed has two of four kinds of save; PEN_LONG=1 has all, and more draws.
 */
#include "support/folder.h"
#include "support/seed.h"
#include "support/support.h"

#include "checkpoint/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------ recording */

enum kind { MAKE, WRITE, SYNC, MOVE, EXCHANGE, REMOVE };

enum {
    ROOT, /* the directory of the run, the first node */
    MOST_NODES = 400,
    MOST_OPS = 4000,
    MOST_ENTRIES = 400,
    MOST_BYTES = 4096,
    MOST_HANDLES = 256,
    NAME_SIZE = 64
};

/* One system call that changes the disk. */
struct op {
    enum kind kind;
    int node; /* that is written, synced, or made */
    int folder;
    char name[NAME_SIZE];
    char to[NAME_SIZE]; /* in the same folder */
    size_t offset;
    size_t length;
    char *bytes;
};

static struct op ops[MOST_OPS];
static size_t num_ops;
static bool is_folder[MOST_NODES];
static int num_nodes;
static int node_of_handle[MOST_HANDLES]; /* 0: of no interest; else node + 1 */
static bool is_recording;
static char run[sizeof folder + 16];

/* A directory tree: names in folders, bytes in files. */
struct entry {
    int folder;
    int node;
    char name[NAME_SIZE];
};

struct disk {
    struct entry entries[MOST_ENTRIES];
    size_t num_entries;
    struct content {
        char bytes[MOST_BYTES];
        size_t length;
    } contents[MOST_NODES];
};

static struct disk live; /* as the process sees it */

static struct entry *find(struct disk *disk, int in, const char *name)
{
    for (size_t i = 0; i < disk->num_entries; i++) {
        struct entry *entry = &disk->entries[i];
        if (entry->folder == in && strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

static void drop(struct disk *disk, struct entry *entry)
{
    if (entry != NULL)
        *entry = disk->entries[--disk->num_entries];
}

static void apply(struct disk *disk, const struct op *op)
{
    struct entry *entry = find(disk, op->folder, op->name);
    struct entry *other = find(disk, op->folder, op->to);
    struct content *content = &disk->contents[op->node];
    if (op->kind == MAKE) {
        drop(disk, entry);
        assert_true(disk->num_entries < MOST_ENTRIES);
        entry = &disk->entries[disk->num_entries++];
        *entry = (struct entry){.folder = op->folder, .node = op->node};
        memcpy(entry->name, op->name, NAME_SIZE);
    } else if (op->kind == WRITE) {
        assert_true(op->offset + op->length <= MOST_BYTES);
        memcpy(content->bytes + op->offset, op->bytes, op->length);
        if (content->length < op->offset + op->length)
            content->length = op->offset + op->length;
    } else if (op->kind == REMOVE) {
        drop(disk, entry);
    } else if (op->kind == EXCHANGE && entry != NULL && other != NULL) {
        int node = entry->node;
        entry->node = other->node;
        other->node = node;
    } else if (op->kind == MOVE && entry != NULL) {
        int node = entry->node;
        drop(disk, entry);
        drop(disk, find(disk, op->folder, op->to));
        apply(disk,
              &(struct op){.kind = MAKE, .node = node, .folder = op->folder});
        memcpy(disk->entries[disk->num_entries - 1].name, op->to, NAME_SIZE);
    }
}

static void record(struct op op)
{
    assert_true(num_ops < MOST_OPS);
    ops[num_ops++] = op;
    apply(&live, &op);
}

/* The folder of a path in the run, and its name there; false outside. */
static bool resolve(const char *path, int *in, char name[NAME_SIZE])
{
    size_t length = strlen(run);
    if (!is_recording || strncmp(path, run, length) != 0 || path[length] != '/')
        return false;
    path += length + 1;
    *in = ROOT;
    const char *slash = strchr(path, '/');
    if (slash != NULL && slash[1] != '\0') {
        snprintf(name, NAME_SIZE, "%.*s", (int)(slash - path), path);
        struct entry *entry = find(&live, ROOT, name);
        assert_non_null(entry);
        *in = entry->node;
        path = slash + 1;
    }
    snprintf(name, NAME_SIZE, "%.*s", (int)strcspn(path, "/"), path);
    return true;
}

static int make_node(bool is_directory)
{
    assert_true(num_nodes < MOST_NODES);
    is_folder[num_nodes] = is_directory;
    return num_nodes++;
}

static void record_make(const char *path, bool is_directory)
{
    struct op op = {.kind = MAKE};
    if (!resolve(path, &op.folder, op.name))
        return;
    op.node = make_node(is_directory);
    record(op);
}

static void record_move(enum kind kind, const char *from, const char *to)
{
    struct op op = {.kind = kind};
    int in = 0;
    if (!resolve(from, &op.folder, op.name))
        return;
    assert_true(resolve(to, &in, op.to) && in == op.folder);
    record(op);
}

/* ---------------------------------------------------------- system calls */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int directory, const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
ssize_t __real_pwrite(int handle, const void *bytes, size_t count, off_t at);
ssize_t __wrap_pwrite(int handle, const void *bytes, size_t count, off_t at);
int __wrap_fsync(int handle);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_unlinkat(int directory, const char *path, int flags);
int __wrap_unlinkat(int directory, const char *path, int flags);

int __wrap_open(const char *path, int flags, ...)
{
    int in = 0;
    char name[NAME_SIZE];
    bool is_new = access(path, F_OK) != 0;
    int handle = __real_open(path, flags, 0666);
    if (handle < 0 || !is_recording)
        return handle;
    if (is_new)
        record_make(path, false);
    assert_true(handle < MOST_HANDLES);
    node_of_handle[handle] = strcmp(path, run) == 0 ? ROOT + 1 : 0;
    if (resolve(path, &in, name))
        node_of_handle[handle] = find(&live, in, name)->node + 1;
    return handle;
}

int __wrap_openat(int directory, const char *path, int flags, ...)
{
    int handle = __real_openat(directory, path, flags);
    if (handle < 0 || !is_recording)
        return handle;
    node_of_handle[handle] = 0;
    int in = directory >= 0 ? node_of_handle[directory] - 1 : -1;
    struct entry *entry = in < 0 ? NULL : find(&live, in, path);
    if (entry != NULL)
        node_of_handle[handle] = entry->node + 1;
    int absolute = 0;
    char name[NAME_SIZE];
    if (directory == AT_FDCWD && resolve(path, &absolute, name))
        node_of_handle[handle] = find(&live, absolute, name)->node + 1;
    return handle;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    if (__real_mkdir(path, mode) != 0)
        return -1;
    record_make(path, true);
    return 0;
}

ssize_t __wrap_pwrite(int handle, const void *bytes, size_t count, off_t at)
{
    ssize_t written = __real_pwrite(handle, bytes, count, at);
    if (written <= 0 || !is_recording || node_of_handle[handle] == 0)
        return written;
    char *copy = malloc((size_t)written);
    assert_non_null(copy);
    memcpy(copy, bytes, (size_t)written);
    record((struct op){.kind = WRITE,
                       .node = node_of_handle[handle] - 1,
                       .offset = (size_t)at,
                       .length = (size_t)written,
                       .bytes = copy});
    return written;
}

/* Nobody pulls the plug here, so nothing is really synced. */
int __wrap_fsync(int handle)
{
    if (is_recording && node_of_handle[handle] != 0)
        record((struct op){.kind = SYNC, .node = node_of_handle[handle] - 1});
    return 0;
}

int __wrap_rename(const char *from, const char *to)
{
    if (__real_rename(from, to) != 0)
        return -1;
    record_move(MOVE, from, to);
    return 0;
}

/* The only one that is called this way is renameat2. */
long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    int from_folder = va_arg(args, int);
    const char *from = va_arg(args, const char *);
    int to_folder = va_arg(args, int);
    const char *to = va_arg(args, const char *);
    unsigned flags = va_arg(args, unsigned);
    va_end(args);
    if (__real_syscall(number, from_folder, from, to_folder, to, flags) != 0)
        return -1;
    record_move(EXCHANGE, from, to);
    return 0;
}

int __wrap_unlink(const char *path)
{
    struct op op = {.kind = REMOVE};
    if (__real_unlink(path) != 0)
        return -1;
    if (resolve(path, &op.folder, op.name))
        record(op);
    return 0;
}

int __wrap_unlinkat(int directory, const char *path, int flags)
{
    struct op op = {.kind = REMOVE};
    if (__real_unlinkat(directory, path, flags) != 0)
        return -1;
    if (!is_recording)
        return 0;
    if (directory == AT_FDCWD) {
        if (resolve(path, &op.folder, op.name))
            record(op);
    } else if (node_of_handle[directory] != 0) {
        op.folder = node_of_handle[directory] - 1;
        snprintf(op.name, sizeof op.name, "%s", path);
        record(op);
    }
    return 0;
}

/* ---------------------------------------------------------------- saves */

enum { TENSORS = 4, FLOATS = 8, SHARES = 2, MOMENTS = 1 };

static const uint64_t shape[] = {FLOATS};
static const struct pen_checkpoint_tensor tensors[TENSORS] = {
    {{"a", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"b", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"c", PEN_DTYPE_F32, 1, shape}, true, 0},
    {{"d", PEN_DTYPE_F32, 1, shape}, true, 0}};

/* One of each share. */
static const struct pen_tensor_spec extras[SHARES] = {
    {"a.replica0.weight", PEN_DTYPE_F32, 1, shape},
    {"a.replica1.weight", PEN_DTYPE_F32, 1, shape}};

/* One after the other in each share, the shares in turn. */
static pen_status put_in_turn(struct pen_checkpoint_share **shares, float value,
                              struct pen_text *why)
{
    float values[FLOATS];
    pen_status status = PEN_OK;
    for (size_t i = 0; i < FLOATS; i++)
        values[i] = value;
    for (size_t i = 0; i < TENSORS / SHARES; i++) {
        for (uint32_t part = 0; part <= MOMENTS; part++) {
            for (size_t s = 0; s < SHARES && status == PEN_OK; s++)
                status = pen_checkpoint_share_put(shares[s], part, i, values,
                                                  sizeof values, why);
        }
    }
    for (size_t s = 0; s < SHARES && status == PEN_OK; s++)
        status = pen_checkpoint_share_put_extra(shares[s], 0, values,
                                                sizeof values, why);
    return status;
}

static void save(uint64_t step, float value, uint32_t keep)
{
    struct pen_checkpoint_writer *writer = NULL;
    struct pen_checkpoint_share *shares[SHARES] = {NULL};
    struct pen_checkpoint_keep newest = {.count = keep};
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_checkpoint_begin(run, step, tensors, TENSORS,
                                             MOMENTS, &writer, &why);
    for (uint32_t i = 0; i < SHARES && status == PEN_OK; i++) {
        const struct pen_checkpoint_share_args args = {
            .run = run,
            .step = step,
            .number = i,
            .tensors = tensors + i * (TENSORS / SHARES),
            .count = TENSORS / SHARES,
            .num_moments = MOMENTS,
            .extras = extras + i,
            .num_extras = 1};
        status = pen_checkpoint_share_create(&args, &shares[i], &why);
    }
    if (status == PEN_OK)
        status = pen_checkpoint_add_file(writer, "config.json", "{}", 2, &why);
    if (status == PEN_OK)
        status = put_in_turn(shares, value, &why);
    for (uint32_t i = 0; i < SHARES && status == PEN_OK; i++) {
        struct pen_text text = PEN_TEXT_EMPTY;
        status = pen_checkpoint_share_finish(shares[i], &text, &why);
        if (status == PEN_OK)
            status = pen_checkpoint_add_record(writer, text.bytes, text.length,
                                               &why);
        pen_text_release(&text);
    }
    if (status == PEN_OK)
        status = pen_checkpoint_finish(writer, &newest, &why);
    pen_checkpoint_keep_release(&newest);
    if (status != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
}

/* ------------------------------------------------------------ the states */

/* What is left of an operation that was not synced. */
enum fate { ALL, NONE, FIRST_HALF, SECOND_HALF, LENGTH_ONLY, FATES };

static void apply_fate(struct disk *disk, const struct op *op, enum fate fate)
{
    static char zeros[MOST_BYTES];
    struct op part = *op;
    if (fate == FIRST_HALF)
        part.length /= 2;
    if (fate == SECOND_HALF) {
        part.offset += op->length / 2;
        part.bytes += op->length / 2;
        part.length -= op->length / 2;
    }
    if (fate == LENGTH_ONLY)
        part.bytes = zeros;
    if (fate != NONE)
        apply(disk, &part);
}

/* Whether what comes before `end` makes this operation safe. */
static bool is_synced(size_t op, size_t end)
{
    int node = ops[op].kind == WRITE ? ops[op].node : ops[op].folder;
    for (size_t i = op + 1; i < end; i++) {
        if (ops[i].kind == SYNC && ops[i].node == node)
            return true;
    }
    return false;
}

/* Operations that a crash at `end` may lose. */
static size_t find_pending(size_t end, size_t *out)
{
    size_t count = 0;
    for (size_t i = 0; i < end; i++) {
        if (ops[i].kind != SYNC && !is_synced(i, end))
            out[count++] = i;
    }
    return count;
}

static unsigned num_fates(size_t op)
{
    return ops[op].kind == WRITE ? FATES : 2;
}

/* Bytes behind a length are zeros at all times. */
static void clear(struct disk *disk)
{
    disk->num_entries = 0;
    for (int i = 0; i < MOST_NODES; i++) {
        struct content *content = &disk->contents[i];
        memset(content->bytes, 0, content->length);
        content->length = 0;
    }
}

static void build(size_t end, const size_t *pending, const enum fate *fates,
                  struct disk *out)
{
    size_t next = 0;
    clear(out);
    for (size_t i = 0; i < end; i++) {
        if (ops[i].kind == SYNC)
            continue;
        bool is_pending = pending[next] == i;
        apply_fate(out, &ops[i], is_pending ? fates[next] : ALL);
        next += is_pending;
    }
}

/* Two disks that look the same have the same number. */
static uint64_t fingerprint(const struct disk *disk)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < disk->num_entries; i++) {
        const struct entry *entry = &disk->entries[i];
        const struct content *content = &disk->contents[entry->node];
        uint64_t hash = 14695981039346656037u + (uint64_t)entry->folder;
        for (const char *at = entry->name; *at != '\0'; at++)
            hash = (hash ^ (unsigned char)*at) * 1099511628211u;
        hash = (hash ^ (uint64_t)entry->node) * 1099511628211u;
        for (size_t j = 0; j < content->length; j++)
            hash = (hash ^ (unsigned char)content->bytes[j]) * 1099511628211u;
        sum += hash * (hash >> 32 | 1);
    }
    return sum;
}

static void write_folder(const struct disk *disk, int node, const char *path)
{
    assert_int_equal(0, __real_mkdir(path, 0700));
    for (size_t i = 0; i < disk->num_entries; i++) {
        const struct entry *entry = &disk->entries[i];
        const struct content *content = &disk->contents[entry->node];
        char name[sizeof run + 3 * NAME_SIZE];
        if (entry->folder != node)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->name);
        if (is_folder[entry->node]) {
            write_folder(disk, entry->node, name);
            continue;
        }
        int handle = __real_open(name, O_WRONLY | O_CREAT, 0600);
        assert_true(handle >= 0);
        assert_int_equal(content->length,
                         write(handle, content->bytes, content->length));
        close(handle);
    }
}

static void remove_folders(const struct disk *disk, int node, const char *path)
{
    for (size_t i = 0; i < disk->num_entries; i++) {
        const struct entry *entry = &disk->entries[i];
        char name[sizeof run + 3 * NAME_SIZE];
        if (entry->folder != node)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->name);
        if (is_folder[entry->node])
            remove_folders(disk, entry->node, name);
        else
            assert_int_equal(0, __real_unlink(name));
    }
    assert_int_equal(0, rmdir(path));
}

/* ------------------------------------------------------------- the check */

/* Step 1 was there, step 2 is saved; it was there, too, if `old` is not 0. */
struct scene {
    bool has_first;
    float old;
    uint32_t keep;
};

static struct {
    size_t num_drawn;
    size_t num_states; /* that differ */
    size_t num_new;    /* in which the new step was loaded */
    size_t num_old;
    size_t num_none;
} counts;

static void expect_all(const struct pen_weights *weights, size_t count,
                       float value)
{
    assert_int_equal(count, pen_weights_count(weights));
    for (size_t i = 0; i < count * FLOATS; i++)
        assert_memory_equal(&value,
                            pen_weights_at(weights, i / FLOATS)->bytes +
                                i % FLOATS * sizeof value,
                            sizeof value);
}

/* The run as it lies there: what may be loaded, and all of it is of one. */
static void check_run(const char *path, const struct scene *scene, bool is_done)
{
    struct pen_checkpoint *checkpoint = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_checkpoint_open(path, NULL, &checkpoint, &why) != PEN_OK) {
        counts.num_none++;
        if (scene->has_first || is_done)
            fail_msg("nothing is whole: %s", pen_text_string(&why));
        pen_text_release(&why);
        return;
    }
    float value = 0;
    uint64_t step = checkpoint->manifest.step;
    memcpy(&value, pen_weights_at(checkpoint->model, 0)->bytes, sizeof value);
    bool is_new = step == 2 && value == 3;
    bool is_old = step == 2 && value == scene->old && value != 0;
    bool is_first = step == 1 && value == 1 && scene->old == 0;
    if (!is_new && (is_done || (!is_old && !is_first)))
        fail_msg("step %d has the value %g", (int)step, (double)value);
    expect_all(checkpoint->model, TENSORS, value);
    expect_all(checkpoint->optimizer, TENSORS, value);
    expect_all(checkpoint->sync, SHARES, value);
    counts.num_new += is_new;
    counts.num_old += !is_new;
    pen_checkpoint_close(checkpoint);
}

enum { SEEN_BITS = 22 };
static uint64_t *seen; /* fingerprints; open addressing, 0 is free */

static bool is_first_time(uint64_t print)
{
    size_t mask = ((size_t)1 << SEEN_BITS) - 1;
    size_t at = (size_t)(print >> 7) & mask;
    print |= 1;
    while (seen[at] != 0 && seen[at] != print)
        at = (at + 1) & mask;
    bool is_new = seen[at] == 0;
    seen[at] = print;
    return is_new;
}

static void check_state(const struct scene *scene, size_t end,
                        const size_t *pending, const enum fate *fates,
                        bool is_done)
{
    static struct disk disk;
    char path[sizeof folder + 16];
    counts.num_drawn++;
    build(end, pending, fates, &disk);
    if (!is_first_time(fingerprint(&disk) * 2 + is_done))
        return;
    counts.num_states++;
    snprintf(path, sizeof path, "%s/crash", folder);
    write_folder(&disk, ROOT, path);
    check_run(path, scene, is_done);
    remove_folders(&disk, ROOT, path);
}

static uint64_t random_state = 88172645463325252u;

static unsigned draw(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % below;
}

/* Counts through all fates; false behind the last. */
static bool next_fates(const size_t *pending, size_t count, enum fate *fates)
{
    for (size_t i = 0; i < count; i++) {
        fates[i]++;
        if ((unsigned)fates[i] < num_fates(pending[i]))
            return true;
        fates[i] = ALL;
    }
    return false;
}

/* Each of `count` alone gone, each alone there, then by chance. */
static enum fate choose(const size_t *pending, size_t count, size_t round,
                        size_t op)
{
    if (round >= 2 * count)
        return draw(num_fates(pending[op]));
    bool is_alone = round % count == op;
    return is_alone == (round < count) ? NONE : ALL;
}

static void check_crash(const struct scene *scene, size_t end, bool is_done,
                        size_t num_draws)
{
    static size_t pending[MOST_OPS + 1];
    static enum fate fates[MOST_OPS];
    size_t count = find_pending(end, pending);
    size_t num_combinations = 1;
    pending[count] = MOST_OPS;
    for (size_t i = 0; i < count && num_combinations <= num_draws; i++)
        num_combinations *= num_fates(pending[i]);
    memset(fates, 0, sizeof fates);
    if (num_combinations <= num_draws) {
        do
            check_state(scene, end, pending, fates, is_done);
        while (next_fates(pending, count, fates));
        return;
    }
    for (size_t i = 0; i < 2 * count + num_draws; i++) {
        for (size_t j = 0; j < count; j++)
            fates[j] = choose(pending, count, i, j);
        check_state(scene, end, pending, fates, is_done);
    }
}

/* ----------------------------------------------------------------- scenes */

static void begin_record(void)
{
    static int number;
    for (size_t i = 0; i < num_ops; i++)
        free(ops[i].bytes);
    num_ops = 0;
    num_nodes = ROOT + 1;
    is_folder[ROOT] = true;
    clear(&live);
    memset(node_of_handle, 0, sizeof node_of_handle);
    snprintf(run, sizeof run, "%s/%d", folder, number++);
    is_recording = true;
}

/* The first sync of the run behind the one that gave the step its name. */
static size_t find_commit(size_t first)
{
    for (size_t i = first; i < num_ops; i++) {
        bool is_name = (ops[i].kind == MOVE || ops[i].kind == EXCHANGE) &&
                       ops[i].folder == ROOT &&
                       strncmp(ops[i].to, "step-", 5) == 0;
        for (size_t j = i; is_name && j < num_ops; j++) {
            if (ops[j].kind == SYNC && ops[j].node == ROOT)
                return j;
        }
    }
    fail_msg("the step was never on disk");
    return 0;
}

/* Whether a seed has the scenes of this number, modulo two. */
static bool is_drawn(uint64_t number)
{
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of("property/checkpoint_crash", seeds);
    for (size_t i = 0; i < count; i++) {
        if (seeds[i] % 2 == number)
            return true;
    }
    return is_long_run();
}

static void crash_everywhere(const struct scene *scene)
{
    size_t num_draws = is_long_run() ? 400 : 60;
    begin_record();
    if (scene->has_first)
        save(1, 1, 0);
    if (scene->old != 0)
        save(2, scene->old, 0);
    size_t first = num_ops;
    save(2, 3, scene->keep);
    is_recording = false;
    size_t commit = find_commit(first);
    memset(&counts, 0, sizeof counts);
    for (size_t end = first; end <= num_ops; end++)
        check_crash(scene, end, end > commit, num_draws);
    print_message("%zu calls, %zu crashes, %zu states: %zu new, %zu old, %zu "
                  "none\n",
                  num_ops - first, counts.num_drawn, counts.num_states,
                  counts.num_new, counts.num_old, counts.num_none);
    assert_true(counts.num_states > 1000);
    assert_true(counts.num_new > 0);
    assert_true(scene->has_first ? counts.num_old > 0 : counts.num_none > 0);
}

static void a_crash_in_the_first_save_leaves_all_or_nothing(void **state)
{
    (void)state;
    if (is_drawn(0))
        crash_everywhere(&(struct scene){.has_first = false});
}

static void a_crash_in_a_further_save_leaves_a_whole_step(void **state)
{
    (void)state;
    if (is_drawn(1))
        crash_everywhere(&(struct scene){.has_first = true});
}

static void a_crash_while_replacing_leaves_a_whole_step(void **state)
{
    (void)state;
    if (is_drawn(0))
        crash_everywhere(&(struct scene){.has_first = true, .old = 2});
}

static void a_crash_while_removing_leaves_a_whole_step(void **state)
{
    (void)state;
    if (is_drawn(1))
        crash_everywhere(&(struct scene){.has_first = true, .keep = 1});
}

static int make_all(void **state)
{
    seen = calloc((size_t)1 << SEEN_BITS, sizeof *seen);
    return seen == NULL || make_folder(state) != 0;
}

static int remove_all(void **state)
{
    free(seen);
    for (size_t i = 0; i < num_ops; i++)
        free(ops[i].bytes);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_in_the_first_save_leaves_all_or_nothing),
        cmocka_unit_test(a_crash_in_a_further_save_leaves_a_whole_step),
        cmocka_unit_test(a_crash_while_replacing_leaves_a_whole_step),
        cmocka_unit_test(a_crash_while_removing_leaves_a_whole_step)};
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
