// Makes the matrices for the matrix product test, and checks the product.
//
// Elements are odd sixteenths from -15/16 to 15/16: exact in every format tested. A product of rows is then a whole number of
// 256ths, which 32-bit integers hold exactly, so the true result is known without rounding, whatever the order of summing.
// workers/bench_gemm.py names the types and computes the tolerances.
typedef unsigned long long u64;
typedef unsigned int u32;
#include "report.cuh"

#define THREADS 256

#define FP32 0
#define FP16 1
#define BF16 2
#define FP8 3  // E4M3; only for the matrices multiplied

// Sixteenths of element k of a row (of the left matrix) or column (of the right one).
__device__ __forceinline__ int sixteenths(u32 line, u32 k, u32 seed) {
    u32 h = (line * 0x9e3779b1u ^ k * 0x85ebca77u) + seed;
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    h = (h ^ (h >> 12)) * 0x297a2d39u;
    return 2 * (int)((h >> 16) & 15u) - 15;
}

// Both matrices have k running fastest: the left one is stored transposed.
extern "C" __global__ void __launch_bounds__(THREADS) gemm_fill(void* to, u64 n, u64 type, u64 seed) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n * n; i += stride) {
        const float value = (float)sixteenths((u32)(i / n), (u32)(i % n), (u32)seed) * 0.0625f;
        const u32 bits = __float_as_uint(value);
        if (type == FP32) {
            ((u32*)to)[i] = bits;
        } else if (type == BF16) {
            ((unsigned short*)to)[i] = (unsigned short)(bits >> 16);
        } else if (type == FP8) {  // from an exponent's bias of 127 to one of 7
            const u32 exponent = ((bits >> 23) & 255u) - 120u;
            ((unsigned char*)to)[i] = (unsigned char)((bits >> 24 & 0x80u) | exponent << 3 | (bits >> 20 & 7u));
        } else {  // to one of 15
            const u32 exponent = ((bits >> 23) & 255u) - 112u;
            ((unsigned short*)to)[i] = (unsigned short)((bits >> 16 & 0x8000u) | exponent << 10 | (bits >> 13 & 0x3ffu));
        }
    }
}

__device__ __forceinline__ double element(const void* from, u64 i, u64 type) {
    if (type == FP32) return (double)((const float*)from)[i];
    const u32 bits = ((const unsigned short*)from)[i];
    if (type == BF16) return (double)__uint_as_float(bits << 16);
    const u32 sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
    if (exponent == 0) return (double)(sign ? -1 : 1) * mantissa / 16777216.0;  // 2^-24 each
    if (exponent == 31) return (double)__uint_as_float(sign | 0x7f800000u | mantissa << 13);
    return (double)__uint_as_float(sign | (exponent + 112u) << 23 | mantissa << 13);
}

// Checks `count` rows, or columns when `columns` is not 0: the first one and every `step`th after it. An element may be off by
// relative * |true value| + absolute; both come as the bits of a double. A wrong element is recorded with its place in memory
// and the bits of the true and the found value as doubles.
extern "C" __global__ void __launch_bounds__(THREADS)
gemm_check(const void* product, u64 type, u64 n, u64 columns, u64 first, u64 step, u64 count, u64 relative, u64 absolute,
           u64 seed_left, u64 seed_right, Report* report) {
    Wrong wrong;
    const double rel = __longlong_as_double((long long)relative), abs = __longlong_as_double((long long)absolute);
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count * n; i += stride) {
        const u64 line = first + i / n * step, other = i % n;
        const u64 row = columns ? other : line, column = columns ? line : other;
        int sum = 0;
        for (u32 k = 0; k < (u32)n; k++)
            sum += sixteenths((u32)row, k, (u32)seed_left) * sixteenths((u32)column, k, (u32)seed_right);
        const double expected = sum / 256.0;
        const double got = element(product, column * n + row, type);
        const double off = got > expected ? got - expected : expected - got;
        const double size = expected < 0 ? -expected : expected;
        if (!(off <= rel * size + abs))  // also true of NaN
            note_wrong(wrong, report, column * n + row, __double_as_longlong(expected), __double_as_longlong(got));
    }
    hand_in(wrong, report);
}

// Counts 32-bit words that differ between two results of the same product.
extern "C" __global__ void __launch_bounds__(THREADS)
gemm_compare(const uint4* first, const uint4* second, u64 vectors, Report* report) {
    Wrong wrong;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        const uint4 a = first[i], b = second[i];
        if (a.x != b.x) note_wrong(wrong, report, 4 * i, a.x, b.x);
        if (a.y != b.y) note_wrong(wrong, report, 4 * i + 1, a.y, b.y);
        if (a.z != b.z) note_wrong(wrong, report, 4 * i + 2, a.z, b.z);
        if (a.w != b.w) note_wrong(wrong, report, 4 * i + 3, a.w, b.w);
    }
    hand_in(wrong, report);
}
