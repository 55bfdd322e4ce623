/* Every function that libcuda exports and fake_cuda.c does not write: the code of init, or "no device". */
#include "fake_cuda.h"

/* Weak, so that a function of the same name in another file replaces it. */
#define SYMBOL(name)                                        \
    __attribute__((weak)) int name(void) {                  \
        int code = cuda_enter(#name);                       \
        return code == SUCCESS ? NO_DEVICE : code;          \
    }
#include "symbols.inc"
