// Device memory bandwidth: read, write, copy, scale, triad, each with 16-byte accesses.
//
// An array is `vectors` times 16 bytes. Blocks work on tiles of UNROLL * blockDim.x vectors. Each thread issues its UNROLL
// loads before it uses any of them, so that enough bytes are on their way to cover the memory's latency, and neighbouring
// threads touch neighbouring vectors. A grid of as many blocks as tiles passes once; a smaller one strides.
//
// STREAMING=1 marks the accesses as used once, which keeps them from pushing each other out of the L2 cache.
#include "patterns.cuh"

#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef STREAMING
#define STREAMING 0
#endif

template <typename V>
__device__ __forceinline__ V load(const V* from) {
#if STREAMING
    return __ldcs(from);
#else
    return *from;
#endif
}

template <typename V>
__device__ __forceinline__ void store(V* to, V value) {
#if STREAMING
    __stcs(to, value);
#else
    *to = value;
#endif
}

// The measured kernels. The last tile may be cut short; all others go without a test.
#define FOR_EACH_TILE(vectors)                                                              \
    const u64 tile_size = (u64)UNROLL * blockDim.x;                                         \
    for (u64 tile = blockIdx.x * tile_size; tile < (vectors); tile += gridDim.x * tile_size)
#define FULL(tile, vectors) ((tile) + tile_size <= (vectors))
#define AT(k) (tile + (u64)(k) * blockDim.x + threadIdx.x)

extern "C" __global__ void __launch_bounds__(THREADS) memory_read(const uint4* from, u64 vectors, u64* sum) {
    __shared__ u64 partial[THREADS];
    u32 x = 0, y = 0, z = 0, w = 0;
    FOR_EACH_TILE(vectors) {
        uint4 value[UNROLL];
        if (FULL(tile, vectors)) {
#pragma unroll
            for (int k = 0; k < UNROLL; k++) value[k] = load(from + AT(k));
        } else {
#pragma unroll
            for (int k = 0; k < UNROLL; k++) value[k] = AT(k) < vectors ? load(from + AT(k)) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            x += value[k].x;
            y += value[k].y;
            z += value[k].z;
            w += value[k].w;
        }
    }
    // The sum is used, so nothing of the above can be left out. Words are summed modulo 2^32.
    partial[threadIdx.x] = (u64)(x + y + z + w);
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, partial[0]);
}

extern "C" __global__ void __launch_bounds__(THREADS) memory_write(uint4* to, u64 vectors, u64 seed) {
    FOR_EACH_TILE(vectors) {
        if (FULL(tile, vectors)) {
#pragma unroll
            for (int k = 0; k < UNROLL; k++) store(to + AT(k), bits_vector(AT(k), (u32)seed));
        } else {
            for (int k = 0; k < UNROLL; k++)
                if (AT(k) < vectors) store(to + AT(k), bits_vector(AT(k), (u32)seed));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) memory_copy(const uint4* __restrict__ from, uint4* __restrict__ to, u64 vectors) {
    FOR_EACH_TILE(vectors) {
        if (FULL(tile, vectors)) {
            uint4 value[UNROLL];
#pragma unroll
            for (int k = 0; k < UNROLL; k++) value[k] = load(from + AT(k));
#pragma unroll
            for (int k = 0; k < UNROLL; k++) store(to + AT(k), value[k]);
        } else {
            for (int k = 0; k < UNROLL; k++)
                if (AT(k) < vectors) store(to + AT(k), load(from + AT(k)));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
memory_scale(const float4* __restrict__ from, float4* __restrict__ to, u64 vectors, u64 factor) {
    const float f = (float)factor;
    FOR_EACH_TILE(vectors) {
        if (FULL(tile, vectors)) {
            float4 value[UNROLL];
#pragma unroll
            for (int k = 0; k < UNROLL; k++) value[k] = load(from + AT(k));
#pragma unroll
            for (int k = 0; k < UNROLL; k++) store(to + AT(k), times(f, value[k]));
        } else {
            for (int k = 0; k < UNROLL; k++)
                if (AT(k) < vectors) store(to + AT(k), times(f, load(from + AT(k))));
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
memory_triad(const float4* __restrict__ first, const float4* __restrict__ second, float4* __restrict__ to, u64 vectors, u64 factor) {
    const float f = (float)factor;
    FOR_EACH_TILE(vectors) {
        if (FULL(tile, vectors)) {
            float4 a[UNROLL], b[UNROLL];
#pragma unroll
            for (int k = 0; k < UNROLL; k++) a[k] = load(first + AT(k));
#pragma unroll
            for (int k = 0; k < UNROLL; k++) b[k] = load(second + AT(k));
#pragma unroll
            for (int k = 0; k < UNROLL; k++) store(to + AT(k), plus(a[k], times(f, b[k])));
        } else {
            for (int k = 0; k < UNROLL; k++)
                if (AT(k) < vectors) store(to + AT(k), plus(load(first + AT(k)), times(f, load(second + AT(k)))));
        }
    }
}
