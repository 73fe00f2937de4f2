#include "formats/host_build.hpp"
#include "formats/papers/ell/build.hpp"
#include "formats/papers/ellr_t/layout.hpp"

namespace spmvgpu {

namespace {

// Threads are added to a row until about this many run in all, which keeps the largest GPUs busy, or until a further
// doubling would leave a thread fewer than kEntriesPerThread entries to overlap. Not the number of processors at hand,
// so that the cost of the format is known without a device.
constexpr std::int64_t kThreadsWanted = 1 << 17;
constexpr std::int64_t kEntriesPerThread = 8;

}  // namespace

int choose_threads(index_t rows, index_t nnz) {
    int threads = 1;
    while (threads < 32 && std::int64_t(rows) * threads < kThreadsWanted &&
           nnz >= std::int64_t(rows) * 2 * threads * kEntriesPerThread) {
        threads *= 2;
    }
    return threads;
}

std::vector<Options> EllrTTuning::candidates() {
    std::vector<Options> list;
    // From the least padding to the most, so that whatever follows a refused one is refused as well.
    for (std::int64_t threads : {1, 2, 4, 8, 16, 32}) list.push_back({{"threads_per_row", threads}});
    return list;
}

SPMVGPU_BUILD_ON_HOST(EllrT)

template <class T>
void EllrT<T>::spmv(const Product<T>& product) const {
    slots.spmv(row_lengths.data(), product);
}

template <class T>
void EllrT<T>::multiply_panel(const Product<T>& product) const {
    slots.multiply_panel(row_lengths.data(), product);
}

#define INSTANTIATE(T)        \
    template struct EllrT<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(EllrT, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
