#include <algorithm>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/host_build.hpp"
#include "formats/papers/ell/build.hpp"
#include "formats/row_products.hpp"
#include "formats/shared/slice_products.hpp"

namespace spmvgpu {

template <class T>
Cost EllSlots<T>::cost(const char* name, const EllShape& shape, const CsrMatrix<T>& csr, double max_padding,
                       std::size_t extra_bytes, const Target& target) {
    Cost cost;
    cost.bytes = shape.slots() * (sizeof(T) + sizeof(index_t)) + extra_bytes;
    cost.slots = shape.slots();
    cost.entries = cost.gathers = csr.nnz;
    if (target.device.is_gpu()) cost.launches = csr.rows > 0;
    check_padding(name, cost, max_padding, csr.bytes());
    return cost;
}

template <class T>
CsrMatrix<T> EllSlots<T>::to_csr(index_t cols, index_t nnz) const {
    auto csr = CsrMatrix<T>::allocate(shape.rows, cols, nnz);
    const std::int64_t longest = std::int64_t(shape.width) * shape.threads_per_row;
    csr.row_offsets[0] = 0;
    InterruptTimer timer;
    for (index_t row = 0; row < shape.rows; ++row) {
        index_t end = csr.row_offsets[row];
        for (index_t k = 0; k < longest; ++k, ++end) {
            const std::int64_t slot = shape.slot(row, k);
            if (col_indices[slot] < 0) break;
            csr.col_indices[end] = col_indices[slot];
            csr.values[end] = values[slot];
        }
        csr.row_offsets[row + 1] = end;
        timer.work(end - csr.row_offsets[row] + 1);
    }
    return csr;
}

namespace {

// Threads are added to a row of ellr_t until about this many run in all, which keeps the largest GPUs busy, or until a
// further doubling would leave a thread fewer than kEntriesPerThread entries to overlap. The number of processors at
// hand does not count, so that the cost of the format is known without a device.
constexpr std::int64_t kThreadsWanted = 1 << 17;
constexpr std::int64_t kEntriesPerThread = 8;

// Calls visit(begin, end, columns) for groups of neighbouring rows that take kSliceLanes threads together, with the
// number of columns of slots that they reach.
template <class T, class Visit>
void for_each_slice(const EllSlots<T>& ell, const index_t* row_lengths, const Visit& visit) {
    const EllShape& shape = ell.shape;
    const int lanes = shape.threads_per_row;
    const index_t slice_rows = kSliceLanes / lanes;
    const index_t slices = shape.rows / slice_rows + (shape.rows % slice_rows != 0);
    parallel_for(slices, shape.slots() + shape.rows, [&](index_t s) {
        const index_t begin = s * slice_rows;
        const index_t end = begin + std::min(slice_rows, shape.rows - begin);
        index_t columns = shape.width;
        if (row_lengths != nullptr) {
            const index_t longest = *std::max_element(row_lengths + begin, row_lengths + end);
            columns = longest / lanes + (longest % lanes != 0);
        }
        visit(begin, end, columns);
    });
}

}  // namespace

template <class T>
void EllSlots<T>::spmv(const index_t* row_lengths, const Product<T>& product) const {
    const int lanes = shape.threads_per_row;
    for_each_slice(*this, row_lengths, [&](index_t begin, index_t end, index_t columns) {
        const std::int64_t first = shape.slot(begin, 0);
        T sums[kSliceLanes];
        sum_slice(values.data() + first, col_indices.data() + first, columns, shape.pitch, product.x, sums);
        for (index_t row = begin; row < end; ++row) {
            const T* const parts = sums + (row - begin) * lanes;
            T sum = parts[0];
            for (int lane = 1; lane < lanes; ++lane) sum += parts[lane];
            store_row(product, row, sum);
        }
    });
}

template <class T>
void EllSlots<T>::multiply_panel(const index_t* row_lengths, const Product<T>& product) const {
    const int lanes = shape.threads_per_row;
    for_each_slice(*this, row_lengths, [&](index_t begin, index_t end, index_t columns) {
        const std::int64_t first = shape.slot(begin, 0);
        const auto store = [&]<int kColumns>(index_t c, const T(&sums)[kSliceLanes][kColumns]) {
            for (index_t row = begin; row < end; ++row) {
                const auto* const parts = sums + (row - begin) * lanes;
                T* const y = product.y + row * product.y_strides.row + c;
                std::copy_n(parts[0], kColumns, y);
                for (int lane = 1; lane < lanes; ++lane) {
                    for (int i = 0; i < kColumns; ++i) y[i] += parts[lane][i];
                }
            }
        };
        sum_slice_panel(values.data() + first, col_indices.data() + first, columns, shape.pitch, product, store);
    });
}

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
    // Padding ascends, so every choice after a refused one is refused as well.
    for (std::int64_t threads : {1, 2, 4, 8, 16, 32}) list.push_back({{"threads_per_row", threads}});
    return list;
}

template <class T, class Kind>
typename Ell<T, Kind>::Plan Ell<T, Kind>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    HostPasses passes;
    return Builder<Ell, HostPasses>::plan_for(passes, csr, tuning, target);
}

template <class T, class Kind>
Ell<T, Kind> Ell<T, Kind>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    HostPasses passes;
    return Builder<Ell, HostPasses>::from_csr(passes, csr, plan);
}

#define INSTANTIATE(T)                      \
    template struct EllSlots<T>;            \
    template struct Ell<T, EllpackKind>;    \
    template struct Ell<T, EllpackRKind>;   \
    template struct Ell<T, EllrTKind>;      \
    SPMVGPU_NEW_VALUES_ON_HOST(Ellpack, T)  \
    SPMVGPU_NEW_VALUES_ON_HOST(EllpackR, T) \
    SPMVGPU_NEW_VALUES_ON_HOST(EllrT, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
