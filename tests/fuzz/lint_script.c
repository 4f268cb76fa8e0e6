/* Whatever bytes are a script: findings have places, and fixes can be written.
 */
#include "lint_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_lint("run.sh", data, size);
    return 0;
}
