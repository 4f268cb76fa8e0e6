#include "base/status.h"

#include "base/bug.h"

const char *pen_status_text(pen_status status)
{
    static const char *const texts[] = {
#define PEN_STATUS_STRING(name, text) [PEN_##name] = text,
        PEN_STATUS_TABLE(PEN_STATUS_STRING)
#undef PEN_STATUS_STRING
    };
    PEN_BUG_UNLESS((unsigned)status < sizeof texts / sizeof *texts);
    return texts[status];
}
