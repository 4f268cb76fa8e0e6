#include "schedule/op.h"

const struct pen_op_info pen__op_infos[PEN_OP_KINDS] = {
#define PEN_OP_INFO(name, text, class, direction, words)                       \
    [PEN_OP_##name] = {text, words, PEN_OP_CLASS_##class,                      \
                       PEN_DIRECTION_##direction},
    PEN_OP_TABLE(PEN_OP_INFO)
#undef PEN_OP_INFO
};
