// Fills and checks the arrays of the bandwidth tests. Not measured.
#include "patterns.cuh"
#include "report.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) fill_floats(float4* to, u64 vectors, u64 seed) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) to[i] = floats_vector(i, (u32)seed);
}

// The sum that memory_read should find in an array that memory_write made: only the part modulo 2^32 has a meaning.
extern "C" __global__ void __launch_bounds__(THREADS) expected_sum(u64 vectors, u64 seed, u64* sum) {
    u32 total = 0;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        uint4 v = bits_vector(i, (u32)seed);
        total += v.x + v.y + v.z + v.w;
    }
    atomicAdd(sum, (u64)total);
}

__device__ __forceinline__ void compare(Wrong& wrong, Report* report, u64 word, u32 expected, u32 got) {
    if (expected != got) note_wrong(wrong, report, word, expected, got);
}

extern "C" __global__ void __launch_bounds__(THREADS) check_bits(const uint4* data, u64 vectors, u64 seed, Report* report) {
    Wrong wrong;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        uint4 got = data[i], expected = bits_vector(i, (u32)seed);
        compare(wrong, report, 4 * i, expected.x, got.x);
        compare(wrong, report, 4 * i + 1, expected.y, got.y);
        compare(wrong, report, 4 * i + 2, expected.z, got.z);
        compare(wrong, report, 4 * i + 3, expected.w, got.w);
    }
    hand_in(wrong, report);
}

// Checks first + factor * second for arrays that fill_floats made of these seeds; with_first = 0 leaves the first one out.
extern "C" __global__ void __launch_bounds__(THREADS)
check_floats(const uint4* data, u64 vectors, u64 with_first, u64 first_seed, u64 factor, u64 second_seed, Report* report) {
    Wrong wrong;
    const float f = (float)factor;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        uint4 got = data[i];
        float4 sum = times(f, floats_vector(i, (u32)second_seed));
        if (with_first) sum = plus(floats_vector(i, (u32)first_seed), sum);
        compare(wrong, report, 4 * i, __float_as_uint(sum.x), got.x);
        compare(wrong, report, 4 * i + 1, __float_as_uint(sum.y), got.y);
        compare(wrong, report, 4 * i + 2, __float_as_uint(sum.z), got.z);
        compare(wrong, report, 4 * i + 3, __float_as_uint(sum.w), got.w);
    }
    hand_in(wrong, report);
}
