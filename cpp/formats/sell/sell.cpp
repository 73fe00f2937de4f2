#include <algorithm>
#include <numeric>

#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"
#include "formats/sell/build.hpp"
#include "formats/sell/layout.hpp"
#include "formats/sell/model.hpp"
#include "formats/shared/slice_products.hpp"
#include "formats/shared/slices.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kSliceRows = Sell<float>::kSliceRows;
static_assert(kSliceRows == kSliceLanes);

}  // namespace

namespace sell_choice {

// In csr the CPU mispredicts the end of a row if the next row has another length. Rows of one length side by side have
// one end, so they are faster if rows are short. With much padding they end where it is not expected, too.
std::optional<Promise> promise(const RowSample& sample) {
    constexpr double kOfSlot = 1.25, kOfRow = 2, kMostPadding = 1.3;  // times in units of an entry's in csr
    if (sample.has_long_slice(1) || sample.mispredicted() == 0) return {};
    const double all_rows = kOfRow * sample.rows;
    return Promise{
        (kOfSlot * sample.nnz + all_rows) / sample.csr_time(),
        "rows are short and seldom as long as the next row, so the CPU multiplies rows of one length side by "
        "side",
        std::min((Promise::kWorthwhile * sample.csr_time() - all_rows) / kOfSlot, kMostPadding * sample.nnz)};
}

}  // namespace sell_choice

std::vector<Options> SellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t sigma : {0, 1}) {  // where the cache holds the matrix, the order of rows may outweigh padding
        for (std::int64_t warps : {1, 2, 4, 8, 16, 32}) list.push_back({{"sigma", sigma}, {"warps_per_slice", warps}});
    }
    return list;
}

SPMVGPU_BUILD_ON_HOST(Sell)

template <class T>
CsrMatrix<T> Sell<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    const auto slots_end = [this](index_t i) { return slice_offsets[i / kSliceRows + 1]; };
    const auto first_slot = [this](index_t i) { return slice_offsets[i / kSliceRows] + i % kSliceRows; };

    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    InterruptTimer timer;
    for (index_t i = 0; i < rows; ++i) {
        index_t length = 0;
        for (index_t slot = first_slot(i); slot < slots_end(i) && col_indices[slot] >= 0; slot += kSliceRows) ++length;
        csr.row_offsets[row_at(i) + 1] = length;
        timer.work(length + 1);
    }
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    parallel_for(rows, nnz, [&](index_t i) {
        const index_t row = row_at(i);
        index_t slot = first_slot(i);
        for (index_t k = csr.row_offsets[row]; k < csr.row_offsets[row + 1]; ++k, slot += kSliceRows) {
            csr.col_indices[k] = col_indices[slot];
            csr.values[k] = values[slot];
        }
    });
    return csr;
}

namespace {

template <class T, class Visit>
void for_each_slice(const Sell<T>& sell, const Visit& visit) {
    const index_t slots = sell.slices ? sell.slice_offsets[sell.slices] : 0;
    const std::int64_t pieces = piece_count(slots + std::int64_t(sell.rows));
    for_each_piece(pieces, [&](std::int64_t p) {
        // Slices are divided by their slots; the last piece takes the empty ones at the end as well.
        const auto slice_at = [&](std::int64_t piece) {
            if (piece == pieces) return sell.slices;
            const auto slot = static_cast<index_t>(part_begin(slots, pieces, piece));
            const auto* const first = sell.slice_offsets.begin();
            return static_cast<index_t>(std::lower_bound(first, first + sell.slices, slot) - first);
        };
        const index_t last = slice_at(p + 1);
        for (index_t s = slice_at(p); s < last; ++s) visit(s);
    });
}

}  // namespace

template <class T>
void Sell<T>::spmv(const Product<T>& product) const {
    for_each_slice(*this, [&](index_t s) {
        T sums[kSliceRows];
        const index_t begin = slice_offsets[s], columns = (slice_offsets[s + 1] - begin) / kSliceRows;
        sum_slice(values.data() + begin, col_indices.data() + begin, columns, kSliceRows, product.x, sums);
        for (index_t i = s * kSliceRows; i < slice_end(s, rows); ++i) {
            store_row(product, row_at(i), sums[i % kSliceRows]);
        }
    });
}

template <class T>
void Sell<T>::multiply_panel(const Product<T>& product) const {
    for_each_slice(*this, [&](index_t s) {
        const index_t begin = slice_offsets[s], columns = (slice_offsets[s + 1] - begin) / kSliceRows;
        const auto store = [&]<int kColumns>(index_t c, const T(&sums)[kSliceLanes][kColumns]) {
            for (index_t i = s * kSliceRows; i < slice_end(s, rows); ++i) {
                std::copy_n(sums[i % kSliceRows], kColumns, product.y + row_at(i) * product.y_strides.row + c);
            }
        };
        sum_slice_panel(values.data() + begin, col_indices.data() + begin, columns, kSliceRows, product, store);
    });
}

#define INSTANTIATE(T)       \
    template struct Sell<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Sell, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
