/*
 * The stack machine of pickles, without the opcodes that do anything.
 *
 * Values lie on a stack; MARK remembers a height, and the opcodes that end a
 * list or a dict take everything above it. The memo keeps values by number.
 *
 * Invariants, so that no container ever holds itself:
 *   1. Only the slot in which a container was made (is_open) may grow it.
 *   2. A container that the memo gives out, or that goes into another, grows
 *      no more: its slot is closed.
 *   3. Containers are at most MOST_DEPTH deep, since freeing them recurses.
 */
#include "calls/pickle.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 1000u

#define NO_MEMO SIZE_MAX

struct slot {
    json_t *value; /* NULL: a mark */
    size_t depth;  /* of containers in it, and itself */
    size_t memo;   /* its number there, of a container that is open */
    bool is_open;
};

struct memo_entry {
    json_t *value; /* NULL: not set */
    size_t depth;
    size_t home; /* its slot on the stack, while that is open */
    bool is_open;
};

struct machine {
    const uint8_t *bytes;
    size_t length;
    size_t at;
    struct slot *stack;
    size_t height;
    size_t stack_room;
    struct memo_entry *memo;
    size_t memo_count; /* of MEMOIZE: the next number */
    size_t memo_room;
    size_t num_values;
    size_t num_containers;
    struct pen_text *why;
};

static pen_status refuse(struct machine *machine, const char *reason)
{
    pen_why(machine->why, "byte %zu: %s", machine->at, reason);
    return PEN_INVALID;
}

static pen_status refuse_memory(struct machine *machine)
{
    pen_why(machine->why, "out of memory for a pickle of %zu bytes",
            machine->length);
    return PEN_NOMEM;
}

/* ---- the stack */

static pen_status push_slot(struct machine *machine, struct slot slot)
{
    if (machine->height == machine->stack_room) {
        size_t room = machine->stack_room == 0 ? 64 : 2 * machine->stack_room;
        struct slot *again = realloc(machine->stack, room * sizeof *again);
        if (again == NULL) {
            json_decref(slot.value);
            return refuse_memory(machine);
        }
        machine->stack = again;
        machine->stack_room = room;
    }
    machine->stack[machine->height++] = slot;
    return PEN_OK;
}

/* Takes the value. */
static pen_status push(struct machine *machine, json_t *value)
{
    if (value == NULL)
        return refuse_memory(machine);
    if (++machine->num_values > PEN__PICKLE_MOST_VALUES) {
        json_decref(value);
        return refuse(machine, "the pickle has too many values");
    }
    return push_slot(machine, (struct slot){.value = value, .memo = NO_MEMO});
}

static pen_status push_container(struct machine *machine, json_t *value)
{
    if (++machine->num_containers > PEN__PICKLE_MOST_CONTAINERS) {
        json_decref(value);
        return refuse(machine, "the pickle has too many lists and dicts");
    }
    pen_status status = push(machine, value);
    if (status == PEN_OK) {
        machine->stack[machine->height - 1].is_open = true;
        machine->stack[machine->height - 1].depth = 1;
    }
    return status;
}

/* Closes a slot: nothing can be added to its container any more. */
static void close_slot(struct machine *machine, struct slot *slot)
{
    if (slot->is_open && slot->memo != NO_MEMO) {
        machine->memo[slot->memo].is_open = false;
        machine->memo[slot->memo].depth = slot->depth;
    }
    slot->is_open = false;
}

static void drop_to(struct machine *machine, size_t height)
{
    while (machine->height > height) {
        struct slot *slot = &machine->stack[--machine->height];
        close_slot(machine, slot);
        json_decref(slot->value);
    }
}

/* Returns the height of the last mark; marks count as their own slot. */
static bool find_mark(const struct machine *machine, size_t *out)
{
    for (size_t i = machine->height; i-- > 0;) {
        if (machine->stack[i].value == NULL) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* Returns the top value, if there is one above the last mark. */
static struct slot *top(const struct machine *machine)
{
    return machine->height > 0 &&
                   machine->stack[machine->height - 1].value != NULL
               ? &machine->stack[machine->height - 1]
               : NULL;
}

/* ---- bytes of arguments */

static bool take(struct machine *machine, size_t count, const uint8_t **out)
{
    if (machine->length - machine->at < count)
        return false;
    *out = machine->bytes + machine->at;
    machine->at += count;
    return true;
}

static uint64_t number_of(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

static bool take_number(struct machine *machine, size_t count, uint64_t *out)
{
    const uint8_t *bytes;
    if (!take(machine, count, &bytes))
        return false;
    *out = number_of(bytes, count);
    return true;
}

/* ---- scalars */

static pen_status cut_short(struct machine *machine)
{
    return refuse(machine, "the pickle is cut short");
}

static pen_status push_integer(struct machine *machine, size_t count,
                               bool is_signed)
{
    uint64_t number;
    if (!take_number(machine, count, &number))
        return cut_short(machine);
    if (is_signed && count < 8 && number >> (8 * count - 1) != 0)
        number |= UINT64_MAX << (8 * count);
    return push(machine, json_integer((json_int_t)(int64_t)number));
}

/* Pushes a LONG1 or LONG4: up to 8 bytes, since Penstock needs no more. */
static pen_status push_long(struct machine *machine, size_t size_bytes)
{
    uint64_t count;
    const uint8_t *bytes;
    if (!take_number(machine, size_bytes, &count) || count > machine->length ||
        !take(machine, (size_t)count, &bytes))
        return cut_short(machine);
    if (count > 8)
        return push(machine, json_null());
    uint64_t number = number_of(bytes, (size_t)count);
    if (count > 0 && count < 8 && bytes[count - 1] >= 0x80)
        number |= UINT64_MAX << (8 * count);
    return push(machine, json_integer((json_int_t)(int64_t)number));
}

/* Pushes a big-endian float. A number that JSON cannot hold becomes null. */
static pen_status push_float(struct machine *machine)
{
    const uint8_t *bytes;
    uint64_t bits = 0;
    double value;
    if (!take(machine, 8, &bytes))
        return cut_short(machine);
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value, &bits, sizeof value);
    json_t *number = json_real(value);
    return push(machine, number == NULL ? json_null() : number);
}

static pen_status push_text(struct machine *machine, size_t size_bytes,
                            bool is_text)
{
    uint64_t count;
    const uint8_t *bytes;
    if (!take_number(machine, size_bytes, &count) || count > machine->length ||
        !take(machine, (size_t)count, &bytes))
        return cut_short(machine);
    json_t *text = json_stringn((const char *)bytes, (size_t)count);
    if (text == NULL && is_text)
        return refuse(machine, "a text is not UTF-8");
    return push(machine, text == NULL ? json_null() : text);
}

/* ---- containers */

/*
 * Notes the depth where the value of a slot goes into the container of another.
 */
static pen_status note_depth(struct machine *machine, struct slot *container,
                             const struct slot *value)
{
    if (value->depth + 1 > container->depth)
        container->depth = value->depth + 1;
    return container->depth <= MOST_DEPTH
               ? PEN_OK
               : refuse(machine, "lists and dicts are nested too deep");
}

/* Adds the values from this height on to the list under `base`. */
static pen_status append(struct machine *machine, size_t base, size_t from)
{
    struct slot *list = base == 0 ? NULL : &machine->stack[base - 1];
    if (list == NULL || !list->is_open || !json_is_array(list->value))
        return refuse(machine,
                      "values are added to something else than a new list");
    for (size_t i = from; i < machine->height; i++) {
        const struct slot *slot = &machine->stack[i];
        pen_status status = note_depth(machine, list, slot);
        if (status != PEN_OK)
            return status;
        if (json_array_append(list->value, slot->value) != 0)
            return refuse_memory(machine);
    }
    drop_to(machine, base);
    return PEN_OK;
}

/* Text, or a whole number as text: pickles have both as keys. */
static const char *key_of(const json_t *value, char number[24])
{
    if (!json_is_integer(value))
        return json_string_value(value);
    snprintf(number, 24, "%" PRId64, (int64_t)json_integer_value(value));
    return number;
}

/* Adds keys and values from this height on to the dict under `base`. */
static pen_status set_items(struct machine *machine, size_t base, size_t from)
{
    struct slot *dict = base == 0 ? NULL : &machine->stack[base - 1];
    if (dict == NULL || !dict->is_open || !json_is_object(dict->value) ||
        (machine->height - from) % 2 != 0)
        return refuse(machine,
                      "values are added to something else than a new dict");
    for (size_t i = from; i < machine->height; i += 2) {
        char number[24];
        const char *key = key_of(machine->stack[i].value, number);
        const struct slot *slot = &machine->stack[i + 1];
        if (key == NULL)
            return refuse(machine, "a key is neither a text nor a number");
        pen_status status = note_depth(machine, dict, slot);
        if (status != PEN_OK)
            return status;
        if (json_object_set_nocheck(dict->value, key, slot->value) != 0)
            return refuse_memory(machine);
    }
    drop_to(machine, base);
    return PEN_OK;
}

/* Takes everything above the last mark, and the mark. */
static pen_status take_marked(struct machine *machine, bool is_dict)
{
    size_t mark;
    if (!find_mark(machine, &mark))
        return refuse(machine, "a mark is missing");
    return is_dict ? set_items(machine, mark, mark + 1)
                   : append(machine, mark, mark + 1);
}

/* Makes a tuple of the values from this height on; `base` is where it goes. */
static pen_status make_tuple(struct machine *machine, size_t base, size_t from)
{
    pen_status status = push_container(machine, json_array());
    if (status != PEN_OK)
        return status;
    struct slot tuple = machine->stack[--machine->height];
    for (size_t i = from; i < machine->height && status == PEN_OK; i++) {
        status = note_depth(machine, &tuple, &machine->stack[i]);
        if (status == PEN_OK &&
            json_array_append(tuple.value, machine->stack[i].value) != 0)
            status = refuse_memory(machine);
    }
    if (status != PEN_OK) {
        json_decref(tuple.value);
        return status;
    }
    drop_to(machine, base);
    tuple.is_open = false;
    return push_slot(machine, tuple);
}

static pen_status make_small_tuple(struct machine *machine, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (machine->height < count ||
            machine->stack[machine->height - 1 - i].value == NULL)
            return refuse(machine, "a tuple lacks values");
    }
    return make_tuple(machine, machine->height - count,
                      machine->height - count);
}

static pen_status make_marked_tuple(struct machine *machine)
{
    size_t mark;
    if (!find_mark(machine, &mark))
        return refuse(machine, "a mark is missing");
    return make_tuple(machine, mark, mark + 1);
}

/* ---- the memo */

static pen_status put(struct machine *machine, uint64_t number)
{
    struct slot *slot = top(machine);
    if (slot == NULL || (slot->is_open && slot->memo != NO_MEMO))
        return refuse(machine, "a value cannot be remembered here");
    if (number > machine->length || number > PEN__PICKLE_MOST_VALUES)
        return refuse(machine, "a value is remembered by a number too large");
    if (number >= machine->memo_room) {
        size_t room = machine->memo_room * 2;
        room = room > number ? room : (size_t)number + 64;
        struct memo_entry *again = realloc(machine->memo, room * sizeof *again);
        if (again == NULL)
            return refuse_memory(machine);
        memset(again + machine->memo_room, 0,
               (room - machine->memo_room) * sizeof *again);
        machine->memo = again;
        machine->memo_room = room;
    }
    struct memo_entry *entry = &machine->memo[number];
    if (entry->value != NULL)
        return refuse(machine, "two values are remembered by one number");
    *entry = (struct memo_entry){.value = json_incref(slot->value),
                                 .depth = slot->depth,
                                 .home = machine->height - 1,
                                 .is_open = slot->is_open};
    slot->memo = slot->is_open ? (size_t)number : NO_MEMO;
    machine->memo_count++;
    return PEN_OK;
}

static pen_status get(struct machine *machine, uint64_t number)
{
    if (number >= machine->memo_room || machine->memo[number].value == NULL)
        return refuse(machine, "a value is used that was not remembered");
    const struct memo_entry *entry = &machine->memo[number];
    if (entry->is_open)
        close_slot(machine, &machine->stack[entry->home]);
    pen_status status = push(machine, json_incref(entry->value));
    if (status == PEN_OK)
        machine->stack[machine->height - 1].depth = entry->depth;
    return status;
}

static pen_status use_memo(struct machine *machine, size_t size_bytes,
                           bool is_put)
{
    uint64_t number;
    if (!take_number(machine, size_bytes, &number))
        return cut_short(machine);
    return is_put ? put(machine, number) : get(machine, number);
}

/* ---- opcodes */

static pen_status skip(struct machine *machine, size_t count)
{
    const uint8_t *unused;
    return take(machine, count, &unused) ? PEN_OK : cut_short(machine);
}

/* Opcodes that import, call or make objects, and those of protocol 0. */
static pen_status refuse_opcode(struct machine *machine, uint8_t code)
{
    static const struct {
        uint8_t code;
        const char *name;
    } doing[] = {
        {'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
        {'b', "BUILD"},     {'i', "INST"},          {'o', "OBJ"},
        {0x81, "NEWOBJ"},   {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
        {0x83, "EXT2"},     {0x84, "EXT4"},         {'P', "PERSID"},
        {'Q', "BINPERSID"}, {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"}};
    for (size_t i = 0; i < sizeof doing / sizeof *doing; i++) {
        if (doing[i].code != code)
            continue;
        pen_why(machine->why,
                "byte %zu: the pickle wants to import or call something "
                "(opcode %s). Penstock reads data only and never executes a "
                "pickle; write the record as JSON",
                machine->at - 1, doing[i].name);
        return PEN_INVALID;
    }
    pen_why(machine->why,
            "byte %zu: opcode 0x%02x is not one that records of PyTorch have",
            machine->at - 1, code);
    return PEN_INVALID;
}

static pen_status step_scalar(struct machine *machine, uint8_t code)
{
    switch (code) {
    case 'N':
        return push(machine, json_null());
    case 0x88:
        return push(machine, json_true());
    case 0x89:
        return push(machine, json_false());
    case 'K':
        return push_integer(machine, 1, false);
    case 'M':
        return push_integer(machine, 2, false);
    case 'J':
        return push_integer(machine, 4, true);
    case 0x8a:
        return push_long(machine, 1);
    case 0x8b:
        return push_long(machine, 4);
    case 'G':
        return push_float(machine);
    case 'X':
        return push_text(machine, 4, true);
    case 0x8c:
        return push_text(machine, 1, true);
    case 0x8d:
        return push_text(machine, 8, true);
    case 'U':
    case 'C':
        return push_text(machine, 1, false);
    case 'T':
    case 'B':
        return push_text(machine, 4, false);
    case 0x8e:
        return push_text(machine, 8, false);
    default:
        return refuse_opcode(machine, code);
    }
}

static pen_status step(struct machine *machine, uint8_t code)
{
    switch (code) {
    case 0x80: /* PROTO */
        return skip(machine, 1);
    case 0x95: /* FRAME */
        return skip(machine, 8);
    case '(':
        return push_slot(machine, (struct slot){.value = NULL});
    case '0':
        if (top(machine) == NULL)
            return refuse(machine, "a value is dropped that is not there");
        drop_to(machine, machine->height - 1);
        return PEN_OK;
    case '}':
        return push_container(machine, json_object());
    case ']':
        return push_container(machine, json_array());
    case ')':
        return make_small_tuple(machine, 0);
    case 0x85:
    case 0x86:
    case 0x87:
        return make_small_tuple(machine, code - 0x84u);
    case 't':
        return make_marked_tuple(machine);
    case 'a':
        return top(machine) == NULL
                   ? refuse(machine, "a list lacks its value")
                   : append(machine, machine->height - 1, machine->height - 1);
    case 'e':
        return take_marked(machine, false);
    case 's':
        return machine->height < 2 || top(machine) == NULL ||
                       machine->stack[machine->height - 2].value == NULL
                   ? refuse(machine, "a dict lacks its value")
                   : set_items(machine, machine->height - 2,
                               machine->height - 2);
    case 'u':
        return take_marked(machine, true);
    case 'q':
        return use_memo(machine, 1, true);
    case 'r':
        return use_memo(machine, 4, true);
    case 0x94: /* MEMOIZE */
        return put(machine, machine->memo_count);
    case 'h':
        return use_memo(machine, 1, false);
    case 'j':
        return use_memo(machine, 4, false);
    default:
        return step_scalar(machine, code);
    }
}

static pen_status execute(struct machine *machine, json_t **out)
{
    while (machine->at < machine->length) {
        uint8_t code = machine->bytes[machine->at++];
        if (code == '.') {
            if (machine->height != 1 || top(machine) == NULL)
                return refuse(machine, "the pickle is not one value");
            *out = json_incref(machine->stack[0].value);
            return PEN_OK;
        }
        pen_status status = step(machine, code);
        if (status != PEN_OK)
            return status;
    }
    return cut_short(machine);
}

bool pen__pickle_is(const char *bytes, size_t length)
{
    return length >= 2 && (uint8_t)bytes[0] == 0x80 && bytes[1] >= 2 &&
           bytes[1] <= 5;
}

pen_status pen__pickle_read(const char *bytes, size_t length, json_t **out,
                            struct pen_text *why)
{
    struct machine machine = {
        .bytes = (const uint8_t *)bytes, .length = length, .why = why};
    pen_status status = execute(&machine, out);
    drop_to(&machine, 0);
    for (size_t i = 0; i < machine.memo_room; i++)
        json_decref(machine.memo[i].value);
    free(machine.memo);
    free(machine.stack);
    return status;
}
