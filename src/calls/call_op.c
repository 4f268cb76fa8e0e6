#include "calls/call_op.h"

#include <ctype.h>
#include <string.h>

static const struct pen_call_op_info infos[PEN_CALL_OPS] = {
#define OP_INFO(name, words, waits, same)                                      \
    [PEN_CALL_##name] = {words, waits, same},
    PEN_CALL_OP_TABLE(OP_INFO)
#undef OP_INFO
};

const struct pen_call_op_info *pen_call_op_info(enum pen_call_op op)
{
    return &infos[op];
}

bool pen_call_op_is_message(enum pen_call_op op)
{
    return op == PEN_CALL_SEND || op == PEN_CALL_RECV;
}

/* Letters of the name without '_', '-' and capitals. */
static void simplify(const char *name, char *out, size_t size)
{
    size_t length = 0;
    for (; *name != '\0' && length + 1 < size; name++) {
        if (*name != '_' && *name != '-')
            out[length++] = (char)tolower((unsigned char)*name);
    }
    out[length] = '\0';
}

bool pen__call_op_find(const char *name, enum pen_call_op *out)
{
    /* Longer words before those that they contain. */
    static const struct {
        const char *word;
        enum pen_call_op op;
    } words[] = {{"allreduce", PEN_CALL_ALL_REDUCE},
                 {"reducescatter", PEN_CALL_REDUCE_SCATTER},
                 {"allgather", PEN_CALL_ALL_GATHER},
                 {"alltoall", PEN_CALL_ALL_TO_ALL},
                 {"barrier", PEN_CALL_BARRIER},
                 {"broadcast", PEN_CALL_BROADCAST},
                 {"scatter", PEN_CALL_SCATTER},
                 {"gather", PEN_CALL_GATHER},
                 {"reduce", PEN_CALL_REDUCE},
                 {"sendrecv", PEN_CALL_OTHER},
                 {"isend", PEN_CALL_SEND},
                 {"irecv", PEN_CALL_RECV},
                 {"send", PEN_CALL_SEND},
                 {"recv", PEN_CALL_RECV}};
    char simple[64];
    simplify(name, simple, sizeof simple);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strstr(simple, words[i].word) != NULL) {
            *out = words[i].op;
            return true;
        }
    }
    return false;
}
