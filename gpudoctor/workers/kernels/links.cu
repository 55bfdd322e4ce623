// Patterns that are written on one GPU and looked at on another: words for copies, whole-number floats for reductions.
// A result is three counters: wrong elements, index of the first one (start with all bits set), wrong ones that are zero.

typedef unsigned long long u64;

__device__ unsigned int mixed(u64 index, u64 seed) {
    unsigned int x = (unsigned int)index * 2654435761u + (unsigned int)(index >> 32) * 0x85ebca6bu;
    x ^= (unsigned int)seed * 0x9e3779b9u + 0x5bd1e995u;
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    return x;
}

// Sums of up to 16384 ranks stay below 2^24, so that fp32 adds them without rounding in any order. Never zero.
__device__ float value_of(u64 index, u64 rank) { return (float)((mixed(index, rank) & 1023u) + 1u); }

__device__ void report(u64* result, u64 wrong, u64 first, u64 zeros) {
    if (wrong == 0) return;
    atomicAdd(result, wrong);
    atomicMin(result + 1, first);
    atomicAdd(result + 2, zeros);
}

#define EACH(i, count)                                                 \
    u64 stride_ = (u64)gridDim.x * blockDim.x;                         \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < (count); i += stride_)

extern "C" __global__ void fill_words(unsigned int* words, u64 count, u64 seed) {
    EACH(i, count) words[i] = mixed(i, seed);
}

extern "C" __global__ void check_words(const unsigned int* words, u64 count, u64 seed, u64* result) {
    u64 wrong = 0, first = ~0ull, zeros = 0;
    EACH(i, count) {
        unsigned int got = words[i];
        if (got == mixed(i, seed)) continue;
        if (wrong++ == 0) first = i;
        zeros += got == 0u;
    }
    report(result, wrong, first, zeros);
}

extern "C" __global__ void fill_values(float* values, u64 count, u64 rank) {
    EACH(i, count) values[i] = value_of(i, rank);
}

// values[i] must be what `rank` has at start + i.
extern "C" __global__ void check_values(const float* values, u64 count, u64 rank, u64 start, u64* result) {
    u64 wrong = 0, first = ~0ull, zeros = 0;
    EACH(i, count) {
        float got = values[i];
        if (got == value_of(start + i, rank)) continue;
        if (wrong++ == 0) first = i;
        zeros += got == 0.0f;
    }
    report(result, wrong, first, zeros);
}

// values[i] must be the sum of what all ranks have at start + i.
extern "C" __global__ void check_sums(const float* values, u64 count, u64 ranks, u64 start, u64* result) {
    u64 wrong = 0, first = ~0ull, zeros = 0;
    EACH(i, count) {
        float got = values[i], sum = 0.0f;
        for (u64 rank = 0; rank < ranks; rank++) sum += value_of(start + i, rank);
        if (got == sum) continue;
        if (wrong++ == 0) first = i;
        zeros += got == 0.0f;
    }
    report(result, wrong, first, zeros);
}
