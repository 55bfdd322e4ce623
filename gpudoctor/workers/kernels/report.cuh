// What checking kernels leave behind when data came back wrong: a few totals, and the first records found.
// The layout is read by workers/wrong_data.py. Needs u64 (patterns.cuh).

struct Record {
    u64 index;     // of the wrong word
    u64 expected;
    u64 got;
};

struct Report {
    u64 count;     // wrong words
    u64 first;     // lowest index of a wrong word; starts as all ones
    u64 bits;      // bits that differed in any wrong word
    u64 records;   // how many records were asked for, which may be more than fit
    u64 capacity;  // how many records fit
    u64 unused;
    Record record[1];
};

// A thread's own totals: device-wide counters are touched once per thread, however much is wrong.
struct Wrong {
    u64 count = 0;
    u64 first = ~0ull;
    u64 bits = 0;
};

__device__ __forceinline__ void note_wrong(Wrong& wrong, Report* report, u64 index, u64 expected, u64 got) {
    wrong.count += 1;
    wrong.first = index < wrong.first ? index : wrong.first;
    wrong.bits |= expected ^ got;
    if (*(volatile u64*)&report->records < report->capacity) {
        u64 slot = atomicAdd(&report->records, 1ull);
        if (slot < report->capacity) {
            report->record[slot].index = index;
            report->record[slot].expected = expected;
            report->record[slot].got = got;
        }
    }
}

__device__ __forceinline__ void hand_in(const Wrong& wrong, Report* report) {
    if (wrong.count == 0) return;
    atomicAdd(&report->count, wrong.count);
    atomicMin(&report->first, wrong.first);
    atomicOr(&report->bits, wrong.bits);
}
