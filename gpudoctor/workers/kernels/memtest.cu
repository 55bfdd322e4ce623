// Memory test: writes a value that depends on a word's place, and checks it. Words are 64 bits, accesses 16 bytes.
//
// The tested memory is in chunks; `base` is the index, over all chunks, of a chunk's first word. `invert` is 0 or all ones.
// workers/bench_memtest.py has the same patterns, and the inverse of `mix`.
typedef unsigned long long u64;
#include "report.cuh"

#define THREADS 256
#define UNROLL 4

#define CONSTANT 0  // the same value everywhere: `seed`
#define WALKING 1   // one bit of every 32, elsewhere in each neighbouring word and in each pass
#define ADDRESS 2   // a word's own index, scrambled so that a wrong address is told from a flipped bit
#define RANDOM 3    // pseudo-random numbers of `seed`

// A one-to-one function (the last steps of SplitMix64).
__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

__device__ __forceinline__ u64 value_at(u64 index, u64 pattern, u64 seed) {
    switch (pattern) {
        case CONSTANT: return seed;
        case WALKING: return 0x0000000100000001ull << ((index + seed) & 31);
        case ADDRESS: return mix(index);
        default: return mix(index + seed);
    }
}

__device__ __forceinline__ ulonglong2 vector_at(u64 vector, u64 base, u64 pattern, u64 seed, u64 invert) {
    const u64 index = base + 2 * vector;
    return make_ulonglong2(value_at(index, pattern, seed) ^ invert, value_at(index + 1, pattern, seed) ^ invert);
}

__device__ __forceinline__ void compare(Wrong& wrong, Report* report, u64 index, ulonglong2 expected, ulonglong2 got) {
    if (expected.x != got.x) note_wrong(wrong, report, index, expected.x, got.x);
    if (expected.y != got.y) note_wrong(wrong, report, index + 1, expected.y, got.y);
}

#define FOR_EACH_TILE                                                                     \
    const u64 tile_size = (u64)UNROLL * blockDim.x;                                       \
    for (u64 tile = blockIdx.x * tile_size; tile < vectors; tile += gridDim.x * tile_size)
#define AT(k) (tile + (u64)(k) * blockDim.x + threadIdx.x)

extern "C" __global__ void __launch_bounds__(THREADS)
memtest_fill(ulonglong2* data, u64 vectors, u64 base, u64 pattern, u64 seed, u64 invert) {
    FOR_EACH_TILE {
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            if (AT(k) < vectors) __stcs(data + AT(k), vector_at(AT(k), base, pattern, seed, invert));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
memtest_check(const ulonglong2* data, u64 vectors, u64 base, u64 pattern, u64 seed, u64 invert, Report* report) {
    Wrong wrong;
    FOR_EACH_TILE {
        ulonglong2 got[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            if (AT(k) < vectors) got[k] = __ldcs(data + AT(k));
#pragma unroll
        for (int k = 0; k < UNROLL; k++)
            if (AT(k) < vectors) compare(wrong, report, base + 2 * AT(k), vector_at(AT(k), base, pattern, seed, invert), got[k]);
    }
    hand_in(wrong, report);
}

// Moving inversions: checks a word and writes its inverse at once. `backward` goes from the end to the start.
extern "C" __global__ void __launch_bounds__(THREADS)
memtest_invert(ulonglong2* data, u64 vectors, u64 base, u64 pattern, u64 seed, u64 invert, Report* report, u64 backward) {
    Wrong wrong;
    FOR_EACH_TILE {
        ulonglong2 got[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const u64 at = backward ? vectors - 1 - AT(k) : AT(k);
            if (AT(k) < vectors) got[k] = __ldcs(data + at);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            const u64 at = backward ? vectors - 1 - AT(k) : AT(k);
            if (AT(k) < vectors) {
                ulonglong2 expected = vector_at(at, base, pattern, seed, invert);
                __stcs(data + at, make_ulonglong2(~expected.x, ~expected.y));
                compare(wrong, report, base + 2 * at, expected, got[k]);
            }
        }
    }
    hand_in(wrong, report);
}
