/* Every function that NVML exports and the other files do not write: not supported, unless the scenario says else. */
#include "fake_nvml.h"

/* Weak, so that a function of the same name in another file replaces it. */
#define SYMBOL(name)                                                                  \
    __attribute__((weak)) int name(void *first) {                                     \
        int code = is_gpu(first) ? enter(first, #name) : enter_system(#name);         \
        return code == SUCCESS ? NOT_SUPPORTED : code;                                \
    }
#include "symbols.inc"
