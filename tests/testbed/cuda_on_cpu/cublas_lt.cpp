/* Stands in for cuBLASLt where device memory is the arena: descriptions are kept as given, and a product is worked out when
 * they are those of a left-transposed E4M3 product with a bf16 result; anything else is an invalid value (7). */
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

enum { SUCCESS = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
struct Description {
    int compute = 0, scale = 0;
    std::map<int, int64_t> attributes;
};
struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
};
struct Heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
#define API extern "C" __attribute__((visibility("default")))

static int set(Description *of, int attribute, const void *value, size_t size) {
    int64_t number = 0;
    if (size > sizeof number) return INVALID_VALUE;
    std::memcpy(&number, value, size);
    of->attributes[attribute] = number;
    return SUCCESS;
}

API int cublasLtCreate(void **handle) { *handle = new int; return SUCCESS; }
API int cublasLtDestroy(void *handle) { delete (int *)handle; return SUCCESS; }
API const char *cublasLtGetStatusName(int status) { return status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_NOT_SUPPORTED"; }
API int cublasLtMatmulDescCreate(Description **made, int compute, int scale) { *made = new Description{compute, scale, {}}; return SUCCESS; }
API int cublasLtMatmulDescSetAttribute(Description *of, int attribute, const void *value, size_t size) { return set(of, attribute, value, size); }
API int cublasLtMatmulDescDestroy(Description *made) { delete made; return SUCCESS; }
API int cublasLtMatmulPreferenceCreate(Description **made) { *made = new Description; return SUCCESS; }
API int cublasLtMatmulPreferenceSetAttribute(Description *of, int attribute, const void *value, size_t size) { return set(of, attribute, value, size); }
API int cublasLtMatmulPreferenceDestroy(Description *made) { delete made; return SUCCESS; }
API int cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t leading) { *made = new Layout{type, rows, columns, leading}; return SUCCESS; }
API int cublasLtMatrixLayoutDestroy(Layout *made) { delete made; return SUCCESS; }

static int check(Description *operation, Layout *a, Layout *b, Layout *c, Layout *d) {
    const bool right = operation->compute == 68 && operation->scale == 0 && operation->attributes[3] == 1 && operation->attributes[25] == 1 &&
                       a->type == 28 && b->type == 28 && c->type == 14 && d->type == 14 && a->rows == b->rows && a->leading == (int64_t)a->rows;
    return right ? SUCCESS : INVALID_VALUE;
}

API int cublasLtMatmulAlgoGetHeuristic(void *, Description *operation, Layout *a, Layout *b, Layout *c, Layout *d, Description *preference,
                                       int wanted, Heuristic *found, int *count) {
    if (wanted != 1 || preference->attributes[1] < (1 << 20)) return INVALID_VALUE;
    *found = {{42, 1, 2, 3, 4, 5, 6, 7}, 1 << 20, 0, 1.0f, {}};
    *count = 1;
    return check(operation, a, b, c, d);
}

static float e4m3(uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const float size = exponent ? std::ldexp(8 + (bits & 7), exponent - 10) : std::ldexp(bits & 7, -9);
    return bits & 0x80 ? -size : size;
}

API int cublasLtMatmul(void *, Description *operation, const float *alpha, const uint8_t *a, Layout *la, const uint8_t *b, Layout *lb, const float *beta,
                       const uint16_t *c, Layout *lc, uint16_t *d, Layout *ld, const uint64_t *algorithm, void *workspace, size_t room, void *stream) {
    if (*alpha != 1 || *beta != 0 || c != d || algorithm[0] != 42 || !workspace || room < (1 << 20) || stream) return INVALID_VALUE;
    const uint64_t n = la->rows;
    for (uint64_t column = 0; column < n; column++) {
        for (uint64_t row = 0; row < n; row++) {
            float sum = 0;
            for (uint64_t k = 0; k < n; k++) sum += e4m3(a[row * n + k]) * e4m3(b[column * n + k]);
            uint32_t bits;
            std::memcpy(&bits, &sum, 4);
            d[column * n + row] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
    }
    return check(operation, la, lb, lc, ld);
}
