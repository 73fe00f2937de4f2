#include <algorithm>
#include <numeric>

#include "core/columns.hpp"
#include "core/dispatch.hpp"
#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "formats/bsell/build.hpp"
#include "formats/bsell/layout.hpp"
#include "formats/bsell/model.hpp"
#include "formats/host_build.hpp"
#include "formats/row_products.hpp"

namespace spmvgpu {

namespace bsell_choice {

void refuse_size(std::size_t csr_bytes) {
    throw FormatError(
        "format 'bsell' does not fit this matrix: it has more places than 32-bit positions can count; format "
        "'csr' fits in " +
        std::to_string(csr_bytes) + " bytes");
}

// Larger blocks mean fewer columns, and fewer reads of x. Blocks of 2 save a sixth of the time, for which the
// conversion takes too long. Padding takes as long as entries.
std::optional<Promise> promise(const RowSample& sample) {
    constexpr double kShare = 0.4, kShareOfColumns = 0.8;
    constexpr index_t kLeastBlock = 3;
    if (sample.block < kLeastBlock || sample.has_long_slice(sample.block)) return {};
    const std::string size = std::to_string(sample.block);
    const double share = kShare + kShareOfColumns / sample.block;
    return Promise{
        share,
        "the sampled rows consist of dense blocks of " + size + " x " + size + ", which have one column index each",
        Promise::kWorthwhile / share * sample.nnz, double(sample.nnz) / sample.block};
}

}  // namespace bsell_choice

std::vector<Options> BsellTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t sigma : {0, 1}) {  // where the cache holds the matrix, the order of rows may outweigh padding
        for (std::int64_t warps : {1, 2, 4, kMostWarps}) list.push_back({{"sigma", sigma}, {"warps_per_slice", warps}});
    }
    return list;
}

SPMVGPU_BUILD_ON_HOST(Bsell)

template <class T>
CsrMatrix<T> Bsell<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    HostPasses passes;
    const Array<index_t> offsets = Builder<Bsell<T>, HostPasses>::find_value_map(passes, *this);
    std::copy_n(offsets.begin(), csr.row_offsets.size(), csr.row_offsets.begin());
    const BlockColumns columns = columns_of(*this);
    parallel_for(block_rows(), nnz, [&](index_t i) {
        const index_t row = block_row_at(i) * block, lane = i % kSliceLanes;
        for (int r = 0; r < block; ++r) {
            index_t slot = slice_offsets[i / kSliceLanes] / kSliceLanes;
            for (index_t k = csr.row_offsets[row + r]; k < csr.row_offsets[row + r + 1]; ++slot) {
                for (int c = 0; c < block; ++c, ++k) {
                    csr.col_indices[k] = columns.at(slot, lane) * block + c;
                    csr.values[k] = values[entry_offset(slot, block, r, c) + lane];
                }
            }
        }
    });
    return csr;
}

namespace {

template <int kBlock, class T>
SPMVGPU_SIMD_CLONES static void sum_slots(const Bsell<T>& bsell, index_t begin, index_t end, const T* x,
                                          T (&sums)[kBlock][kSliceLanes]) {
    const BlockColumns columns = columns_of(bsell);
    for (index_t slot = begin; slot < end; ++slot) {
        T factors[kBlock][kSliceLanes];
        for (index_t lane = 0; lane < kSliceLanes; ++lane) {
            const std::int64_t col = columns.at(slot, lane);
            for (int c = 0; c < kBlock; ++c) factors[c][lane] = col < 0 ? T(0) : x[col * kBlock + c];
        }
        for (int r = 0; r < kBlock; ++r) {
            for (int c = 0; c < kBlock; ++c) {
                const T* const own = bsell.values.data() + entry_offset(slot, kBlock, r, c);
#pragma omp simd
                for (index_t lane = 0; lane < kSliceLanes; ++lane) sums[r][lane] += own[lane] * factors[c][lane];
            }
        }
    }
}

// y = A * x in the rows of a slice. A few slots, which the L1 holds, go through all places before the next ones, and
// the sums of a place stay in registers meanwhile.
template <int kBlock, class T>
SPMVGPU_SIMD_CLONES static void multiply_slice(const Bsell<T>& bsell, index_t s, Product<T> product) {
    constexpr index_t kSlots = 64 / (kBlock * kBlock) + 1;
    const BlockColumns columns = columns_of(bsell);
    const std::ptrdiff_t ldx = product.x_strides.row, ldy = product.y_strides.row;
    const index_t end = bsell.slice_offsets[s + 1] / kSliceLanes, first = s * kSliceLanes;
    const index_t lanes = slice_end(s, bsell.block_rows()) - first;
    for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
        T all_sums[kSliceLanes][kBlock][kColumns] = {};
        for (index_t begin = bsell.slice_offsets[s] / kSliceLanes; begin < end; begin += kSlots) {
            for (index_t lane = 0; lane < lanes; ++lane) {
                T sums[kBlock][kColumns];
                std::copy_n(all_sums[lane][0], kBlock * kColumns, sums[0]);
                for (index_t slot = begin; slot < std::min(begin + kSlots, end); ++slot) {
                    const index_t col = columns.at(slot, lane);
                    if (col < 0) break;  // padding follows the blocks
                    const T* const x = product.x + std::ptrdiff_t(col) * kBlock * ldx + c;
                    for (int k = 0; k < kBlock; ++k) {
                        for (int r = 0; r < kBlock; ++r) {
                            const T value = bsell.values[entry_offset(slot, kBlock, r, k) + lane];
#pragma omp simd
                            for (int j = 0; j < kColumns; ++j) sums[r][j] += value * x[k * ldx + j];
                        }
                    }
                }
                std::copy_n(sums[0], kBlock * kColumns, all_sums[lane][0]);
            }
        }
        for (index_t lane = 0; lane < lanes; ++lane) {
            T* const y = product.y + std::ptrdiff_t(bsell.block_row_at(first + lane)) * kBlock * ldy + c;
            for (int r = 0; r < kBlock; ++r) std::copy_n(all_sums[lane][r], kColumns, y + r * ldy);
        }
    });
}

template <class T, class Visit>
void for_each_slice(const Bsell<T>& bsell, const Visit& visit) {
    dispatch<1, 2, 3, 4, 6>("block", bsell.block, [&]<int kBlock>() {
        parallel_for(bsell.slices, std::int64_t(bsell.values.size()) + bsell.rows,
                     [&](index_t s) { visit.template operator()<kBlock>(s); });
    });
}

}  // namespace

template <class T>
void Bsell<T>::spmv(const Product<T>& product) const {
    for_each_slice(*this, [&]<int kBlock>(index_t s) {
        T sums[kBlock][kSliceLanes] = {};
        sum_slots<kBlock>(*this, slice_offsets[s] / kSliceLanes, slice_offsets[s + 1] / kSliceLanes, product.x, sums);
        for (index_t i = s * kSliceLanes; i < slice_end(s, block_rows()); ++i) {
            for (int r = 0; r < kBlock; ++r) {
                store_row(product, block_row_at(i) * kBlock + r, sums[r][i % kSliceLanes]);
            }
        }
    });
}

template <class T>
void Bsell<T>::multiply_panel(const Product<T>& product) const {
    for_each_slice(*this, [&]<int kBlock>(index_t s) { multiply_slice<kBlock>(*this, s, product); });
}

#define INSTANTIATE(T)        \
    template struct Bsell<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Bsell, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
