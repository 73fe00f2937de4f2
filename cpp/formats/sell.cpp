#include "formats/sell.hpp"

#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/node_pattern.hpp"
#include "formats/padding.hpp"
#include "formats/row_products.hpp"
#include "formats/slice_products.hpp"
#include "formats/slices.hpp"

namespace spmvgpu {

namespace {

constexpr index_t kSliceRows = Sell<float>::kSliceRows;
static_assert(kSliceRows == kSliceLanes);

constexpr double kWorthSorting = 1.05;  // sort only if that saves more than this factor of the slots

}  // namespace

std::vector<Options> SellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t warps : {1, 2, 4, 8, 16, 32}) list.push_back({{"warps_per_slice", warps}});
    return list;
}

template <class T>
SellPlan Sell<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    Slices slices = cut_into_slices(csr.rows, csr.nnz, csr.row_offsets, tuning.sigma, kWorthSorting);
    SellPlan plan{tuning, {}, std::move(slices.permutation), std::move(slices.offsets)};
    plan.tuning.sigma = slices.sigma;
    plan.cost.bytes = plan.slots() * (sizeof(T) + sizeof(index_t)) + plan.slice_offsets.size() * sizeof(index_t) +
                      plan.permutation.bytes();
    plan.cost.slots = plan.slots();
    plan.cost.entries = plan.cost.gathers = csr.nnz;
    plan.cost.stores_in_order = plan.permutation.size() == 0;
    if (target.device.is_cuda()) plan.cost.launches = csr.rows > 0;
    check_padding(kName, plan.cost, tuning.max_padding, csr.bytes());
    if (tuning.warps_per_slice == 0) {
        plan.tuning.warps_per_slice = choose_warps_per_slice(plan.slice_offsets, target.processors);
    }
    return plan;
}

template <class T>
Sell<T> Sell<T>::from_csr(const CsrMatrix<T>& matrix, const Plan& plan) {
    Sell sell;
    sell.rows = matrix.rows;
    sell.cols = matrix.cols;
    sell.nnz = matrix.nnz;
    sell.slices = static_cast<index_t>(plan.slice_offsets.size()) - 1;
    sell.slice_offsets = Array<index_t>(plan.slice_offsets.size());
    std::copy(plan.slice_offsets.begin(), plan.slice_offsets.end(), sell.slice_offsets.begin());
    sell.col_indices = Array<index_t>(plan.slots());
    sell.values = Array<T>(plan.slots());
    sell.permutation = plan.permutation;
    sell.tuning = plan.tuning;
    if (sell.permutation.size() == 0) {
        sell.node_rows = find_node_rows(matrix.rows, matrix.row_offsets.data(), matrix.col_indices.data());
    }
    parallel_for(sell.slices, plan.slots(), [&](index_t s) {
        const index_t begin = sell.slice_offsets[s], end = sell.slice_offsets[s + 1];
        std::fill(sell.col_indices.begin() + begin, sell.col_indices.begin() + end, -1);
        std::fill(sell.values.begin() + begin, sell.values.begin() + end, T(0));
        for (index_t i = s * kSliceRows; i < slice_end(s, sell.rows); ++i) {
            const index_t row = plan.row_at(i);
            index_t slot = begin + i % kSliceRows;
            for (index_t k = matrix.row_offsets[row]; k < matrix.row_offsets[row + 1]; ++k, slot += kSliceRows) {
                sell.col_indices[slot] = matrix.col_indices[k];
                sell.values[slot] = matrix.values[k];
            }
        }
    });
    return sell;
}

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

// Calls visit(s) for every slice.
template <class T, class Visit>
void for_each_slice(const Sell<T>& sell, const Visit& visit) {
    const index_t slots = sell.slices ? sell.slice_offsets[sell.slices] : 0;
    const std::int64_t pieces = piece_count(slots + std::int64_t(sell.rows));
    for_each_piece(pieces, [&](std::int64_t p) {
        // Slices are dealt out by their slots; the last piece takes the empty ones at the end as well.
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

#define INSTANTIATE(T) template struct Sell<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
