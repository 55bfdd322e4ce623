// What the arrays of the bandwidth tests hold, as a function of the place alone.

typedef unsigned long long u64;
typedef unsigned int u32;
#define THREADS 256

// Word i of a whole-bits array: one multiplication and one addition, so that making it never limits a write.
#define STEP 2654435761u

__device__ __forceinline__ u32 bits_at(u64 word, u32 seed) { return (u32)word * STEP + seed; }

// Word i of an array of floats: 1 to 65536, whole numbers, so that scale and triad are exact and can be checked exactly.
__device__ __forceinline__ float float_at(u64 word, u32 seed) { return (float)(1u + (bits_at(word, seed) >> 16)); }

__device__ __forceinline__ uint4 bits_vector(u64 vector, u32 seed) {
    u32 first = bits_at(4 * vector, seed);
    return make_uint4(first, first + STEP, first + 2 * STEP, first + 3 * STEP);
}

__device__ __forceinline__ float4 floats_vector(u64 vector, u32 seed) {
    u64 word = 4 * vector;
    return make_float4(float_at(word, seed), float_at(word + 1, seed), float_at(word + 2, seed), float_at(word + 3, seed));
}

__device__ __forceinline__ float4 times(float factor, float4 v) {
    return make_float4(factor * v.x, factor * v.y, factor * v.z, factor * v.w);
}

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
