#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

/* CUresult, as far as used here. */
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, UNKNOWN = 999 };

/* What FUNCTION must return before it looks at anything: the scenario's code, or not initialised. */
int cuda_enter(const char *function);

#endif
