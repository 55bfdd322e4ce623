/* Lets g++ compile a .cu file of this project as C++20 and run its kernels on the CPU. A kernel with barriers gets one
 * std::thread per CUDA thread of a block and goes through the blocks one after another; others are shared among four
 * threads. What the kernels use is here, and no more. */
#pragma once
#include <barrier>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
/* Blocks of a kernel with barriers run one after another, so one copy serves them all. */
#define __shared__ static

struct Index {
    unsigned x = 0, y = 0, z = 0;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;
inline std::barrier<> *block_barrier;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }

template <typename V>
V __ldcs(const V *from) { return *from; }
template <typename V>
void __stcs(V *to, V value) { *to = value; }

template <typename To, typename From>
To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline unsigned __float_as_uint(float value) { return same_bits<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return same_bits<float>(bits); }
inline long long __double_as_longlong(double value) { return same_bits<long long>(value); }
inline double __longlong_as_double(long long bits) { return same_bits<double>(bits); }

template <typename T>
T atomicAdd(T *at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
template <typename T>
T atomicOr(T *at, T value) { return __atomic_fetch_or(at, value, __ATOMIC_RELAXED); }
template <typename T>
T atomicMin(T *at, T value) {
    T seen = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < seen && !__atomic_compare_exchange_n(at, &seen, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return seen;
}

/* Every argument of this project's kernels is 64 bits wide, a pointer or a number; surplus ones do no harm. */
using Kernel = void (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* `together`: the kernel has barriers, so each CUDA thread needs a thread of its own; else a few run them all. */
extern "C" __attribute__((visibility("default"))) void shim_launch(Kernel kernel, unsigned blocks, unsigned threads, unsigned together, const uint64_t *a) {
    const unsigned workers = together || threads < 4 ? threads : 4;
    std::barrier<> barrier(workers);
    block_barrier = &barrier;
    auto run = [=, &barrier](unsigned worker) {
        blockDim = {threads, 1, 1};
        gridDim = {blocks, 1, 1};
        for (unsigned block = 0; block < blocks; block++) {
            blockIdx = {block, 0, 0};
            for (unsigned thread = worker; thread < threads; thread += workers) {
                threadIdx = {thread, 0, 0};
                kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
            }
            if (together) barrier.arrive_and_wait(); /* shared memory is the next block's from here on */
        }
    };
    std::vector<std::thread> all;
    for (unsigned worker = 0; worker < workers; worker++) all.emplace_back(run, worker);
    for (auto &one : all) one.join();
}
