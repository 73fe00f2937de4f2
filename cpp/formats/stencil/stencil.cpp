#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "formats/host_build.hpp"
#include "formats/panel_products.hpp"
#include "formats/row_products.hpp"
#include "formats/stencil/build.hpp"
#include "formats/stencil/layout.hpp"
#include "formats/stencil/model.hpp"

namespace spmvgpu {

namespace stencil_choice {

void refuse(const std::string& why, std::size_t csr_bytes) {
    throw FormatError("format 'stencil' does not fit this matrix: it " + why + "; format 'csr' fits in " +
                      std::to_string(csr_bytes) + " bytes");
}

void refuse_new_values() {
    throw FormatError(
        "format 'stencil' cannot hold the new values: they differ between rows that had the same ones; make a new "
        "operator, or one in another format");
}

// The CPU multiplies rows of a run side by side, and takes longer the more often a run ends.
std::optional<Promise> promise(const RowSample& sample) {
    constexpr double kLeastAlike = 7.0 / 8, kShare = 0.3, kShareOfEnds = 6;
    if (sample.alike < kLeastAlike) return {};
    return Promise{kShare + kShareOfEnds * (1 - sample.alike),
                   "most sampled rows have the same values as the next row, so the CPU multiplies runs of rows without "
                   "reading the matrix"};
}

}  // namespace stencil_choice

std::vector<Options> StencilTuning::candidates() { return {{{"rows_per_thread", 0}}}; }

void learn_from(std::vector<KnownRow> sample, std::vector<KnownRow>& known, KnownRows& table) {
    const auto by_key = [](const KnownRow& a, const KnownRow& b) { return a.key < b.key; };
    std::stable_sort(sample.begin(), sample.end(), by_key);
    std::vector<std::pair<std::ptrdiff_t, KnownRow>> counted;  // number of sampled rows with a key
    for (auto begin = sample.begin(); begin != sample.end();) {
        const auto end = std::upper_bound(begin, sample.end(), *begin, by_key);
        if (!std::binary_search(known.begin(), known.end(), *begin, by_key)) {
            begin->kind = static_cast<std::uint16_t>(known.size() + counted.size());
            counted.push_back({end - begin, *begin});
        }
        begin = end;
    }
    const bool is_first = known.empty();
    for (const auto& [count, row] : counted) known.push_back(row);
    std::sort(known.begin(), known.end(), by_key);
    if (!is_first) return;
    constexpr std::ptrdiff_t kMany = 16;  // a sixteenth of the rows
    std::stable_sort(counted.begin(), counted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [count, row] : counted) {
        if (table.frequent_count == KnownRows::kMostFrequent || kMany * count < std::ssize(sample)) break;
        table.frequent[table.frequent_count++] = row;
    }
}

SPMVGPU_BUILD_ON_HOST(Stencil)

namespace {

template <class T>
RowKind kind_of(const Stencil<T>& stencil, index_t row) {
    return Builder<Stencil<T>, HostPasses>::kinds_of(stencil.stencils)[stencil.kinds[row]];
}

}  // namespace

template <class T>
CsrMatrix<T> Stencil<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    index_t k = csr.row_offsets[0] = 0;
    for (index_t row = 0; row < rows; ++row) {
        const RowKind kind = kind_of(*this, row);
        for (index_t i = 0; i < kind.length; ++i) {
            if (!kind.has_slot(masks.data(), i)) continue;
            csr.col_indices[k] = row + offsets[kind.begin + i];
            csr.values[k++] = values[kind.begin + i];
        }
        csr.row_offsets[row + 1] = k;
    }
    return csr;
}

namespace {

template <class T>
SPMVGPU_SIMD_CLONES static void sum_run(const Stencil<T>& stencil, RowKind kind, index_t first, index_t last,
                                        const T* x, T* sums) {
    std::fill(sums, sums + (last - first), T(0));
    for (index_t i = 0; i < kind.length; ++i) {
        if (!kind.has_slot(stencil.masks.data(), i)) continue;
        const T value = stencil.values[kind.begin + i];
        const T* const from = x + (std::int64_t(first) + stencil.offsets[kind.begin + i]);
#pragma omp simd
        for (index_t j = 0; j < last - first; ++j) sums[j] += value * from[j];
    }
}

constexpr index_t kShortRun = 8;

// The sums of a few rows, all of one kind, one after the other.
template <class T>
void sum_rows(const Stencil<T>& stencil, RowKind kind, index_t first, index_t last, const T* x, T* sums) {
    const Word* const masks = stencil.masks.data();
    const bool has_all = kind.entries(masks) == kind.length;
    for (index_t row = first; row < last; ++row) {
        const auto factor = [&](index_t i) { return x[row + stencil.offsets[i]]; };
        T& sum = sums[row - first];
        if (has_all) {
            sum = sum_products(stencil.values.data(), kind.begin, kind.begin + kind.length, factor);
            continue;
        }
        sum = 0;
        for (index_t i = 0; i < kind.length; ++i) {
            if (kind.has_slot(masks, i)) sum += stencil.values[kind.begin + i] * factor(kind.begin + i);
        }
    }
}

template <class T>
SPMVGPU_SIMD_CLONES static void multiply_run(const Stencil<T>& stencil, RowKind kind, index_t first, index_t last,
                                             Product<T> product) {
    const Word* const masks = stencil.masks.data();
    const std::ptrdiff_t ldx = product.x_strides.row;
    const bool as_products = last - first < kShortRun && kind.entries(masks) == kind.length;  // see sum_rows()
    for_column_groups<kPanelColumns<T>>(0, product.columns, [&]<int kColumns>(index_t c) {
        for (index_t row = first; row < last; ++row) {
            const T* const x = product.x + row * ldx + c;
            T sums[kColumns] = {};
            if (as_products) {
                sum_panel<kColumns>(stencil.values.data(), stencil.offsets.data(), x, ldx, kind.begin,
                                    kind.begin + kind.length, sums);
            } else {
                for (index_t i = 0; i < kind.length; ++i) {
                    if (!kind.has_slot(masks, i)) continue;
                    const T value = stencil.values[kind.begin + i];
                    const T* const from = x + stencil.offsets[kind.begin + i] * ldx;
#pragma omp simd
                    for (int j = 0; j < kColumns; ++j) sums[j] += value * from[j];
                }
            }
            std::copy_n(sums, kColumns, product.y + row * product.y_strides.row + c);
        }
    });
}

template <class T, class Visit>
void for_each_block(const Stencil<T>& stencil, const Visit& visit) {
    const index_t rows = stencil.rows, blocks = rows / kRowsTogether + (rows % kRowsTogether != 0);
    parallel_for(blocks, std::int64_t(stencil.nnz) + rows, [&](index_t block) {
        const index_t first = block * kRowsTogether;
        visit(first, first + std::min(rows - first, kRowsTogether));
    });
}

// Calls visit(kind, begin, end) for the runs of rows of one kind in [first, last).
template <class T, class Visit>
void for_each_run(const Stencil<T>& stencil, index_t first, index_t last, const Visit& visit) {
    const std::uint16_t* const kinds = stencil.kinds.data();
    for (index_t row = first; row < last;) {
        index_t end = row + 1;
        while (end < last && kinds[end] == kinds[row]) ++end;
        visit(kind_of(stencil, row), row, end);
        row = end;
    }
}

}  // namespace

template <class T>
void Stencil<T>::spmv(const Product<T>& product) const {
    for_each_block(*this, [&](index_t first, index_t last) {
        T sums[kRowsTogether];
        for_each_run(*this, first, last, [&](RowKind kind, index_t begin, index_t end) {
            const auto sum_all = end - begin < kShortRun ? sum_rows<T> : sum_run<T>;
            sum_all(*this, kind, begin, end, product.x, sums + (begin - first));
        });
        for (index_t row = first; row < last; ++row) store_row(product, row, sums[row - first]);
    });
}

template <class T>
void Stencil<T>::multiply_panel(const Product<T>& product) const {
    for_each_block(*this, [&](index_t first, index_t last) {
        for_each_run(*this, first, last,
                     [&](RowKind kind, index_t begin, index_t end) { multiply_run(*this, kind, begin, end, product); });
    });
}

#define INSTANTIATE(T)          \
    template struct Stencil<T>; \
    SPMVGPU_NEW_VALUES_ON_HOST(Stencil, T)
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
