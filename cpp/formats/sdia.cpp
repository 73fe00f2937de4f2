#include "formats/sdia.hpp"

#include <algorithm>
#include <numeric>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "formats/dia_build.hpp"
#include "formats/row_products.hpp"
#include "passes/host_passes.hpp"

namespace spmvgpu {

namespace {

template <class T>
using UpperBuilder = Builder<Dia<T>, HostPasses>;

// The entries on and above the main diagonal.
template <class T>
CsrMatrix<T> upper_triangle(HostPasses& passes, const CsrMatrix<T>& csr) {
    const index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    const auto first_of = [=](std::int64_t row) { return first_not_below(cols, offsets[row], offsets[row + 1], row); };
    Array<index_t> counts = passes.make<index_t>(std::size_t(csr.rows) + 1);
    index_t* const count = counts.data();
    passes.each(csr.rows,
                [=](std::int64_t row) { count[row] = static_cast<index_t>(offsets[row + 1] - first_of(row)); });
    const index_t nnz = passes.scan(count, csr.rows);
    CsrMatrix<T> upper{csr.rows, csr.cols, nnz, counts, passes.make<index_t>(nnz), passes.make<T>(nnz)};
    index_t* const to_cols = upper.col_indices.data();
    T* const to_values = upper.values.data();
    const T* const values = csr.values.data();
    passes.each(csr.rows, [=](std::int64_t row) {
        const std::int64_t first = first_of(row);
        std::copy(cols + first, cols + offsets[row + 1], to_cols + count[row]);
        std::copy(values + first, values + offsets[row + 1], to_values + count[row]);
    });
    return upper;
}

}  // namespace

template <class T>
SdiaPlan<T> Sdia<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    HostPasses passes;
    // Before anything is looked at twice: whether there are too many diagonals.
    const auto diagonals = static_cast<std::int64_t>(UpperBuilder<T>::find_diagonals(passes, csr).size());
    SdiaPlan<T> plan{tuning, {}, {}, {}};
    plan.cost.slots = diagonals * aligned_pitch(csr.rows);
    plan.cost.entries = csr.nnz;
    check_padding(kName, plan.cost, tuning.max_padding, csr.bytes());
    plan.tuning.symmetry = check_symmetric(kName, csr, tuning.symmetry);
    plan.upper = upper_triangle(passes, csr);
    PaddedTuning of_upper;
    of_upper.block_size = tuning.block_size;
    of_upper.max_padding = 1e6;  // it was looked at
    plan.upper_plan = UpperBuilder<T>::plan_for(passes, plan.upper, of_upper, target);
    plan.cost = plan.upper_plan.cost;
    plan.cost.gathers *= 2;
    return plan;
}

template <class T>
Sdia<T> Sdia<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    HostPasses passes;
    Sdia sdia;
    sdia.rows = csr.rows;
    sdia.cols = csr.cols;
    sdia.nnz = csr.nnz;
    sdia.upper = UpperBuilder<T>::from_csr(passes, plan.upper, plan.upper_plan);
    sdia.has_main = sdia.upper.diagonals() > 0 && sdia.upper.offsets[0] == 0;
    sdia.tuning = plan.tuning;
    return sdia;
}

template <class T>
CsrMatrix<T> Sdia<T>::to_csr() const {
    const CsrMatrix<T> half = upper.to_csr();
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    const auto for_each_entry = [&](const auto& visit) {
        for (index_t row = 0; row < rows; ++row) {
            for (index_t k = half.row_offsets[row]; k < half.row_offsets[row + 1]; ++k) {
                visit(row, half.col_indices[k], half.values[k]);
            }
        }
    };
    for_each_entry([&](index_t row, index_t col, T) {
        ++csr.row_offsets[row + 1];
        if (col != row) ++csr.row_offsets[col + 1];
    });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto add = [&](index_t row, index_t col, T value) {
        csr.col_indices[next[row]] = col;
        csr.values[next[row]++] = value;
    };
    // What lies left of the diagonal comes first, in the order of the rows that it is the mirror image of.
    for_each_entry([&](index_t row, index_t col, T value) {
        if (col != row) add(col, row, mirror()(value));
    });
    for_each_entry(add);
    return csr;
}

namespace {

constexpr index_t kBlockRows = 512;  // as in dia

// The sums of rows [first, last), in the order of the columns.
template <class T>
SPMVGPU_SIMD_CLONES static void sum_block(const Sdia<T>& sdia, std::int64_t first, std::int64_t last, const T* x,
                                          T* sums) {
    const Dia<T>& upper = sdia.upper;
    const auto padding = upper.padding;
    const Mirror<T> mirror = sdia.mirror();
    const index_t diagonals = upper.diagonals();
    for (index_t d = diagonals; d-- > diagonals - sdia.mirrored();) {
        const std::int64_t offset = upper.offsets[d];
        const T* const values = upper.values.data() + d * upper.pitch - offset;
#pragma omp simd
        for (std::int64_t i = std::max(first, offset); i < last; ++i) {
            const T product = mirror(values[i]) * x[i - offset];  // of padding too, but it goes nowhere
            sums[i - first] += Dia<T>::bits(values[i]) != padding ? product : T(0);
        }
    }
    for (index_t d = 0; d < diagonals; ++d) {
        const std::int64_t offset = upper.offsets[d], end = std::min<std::int64_t>(last, sdia.cols - offset);
        const T* const values = upper.values.data() + d * upper.pitch;
#pragma omp simd
        for (std::int64_t i = first; i < end; ++i) {
            const T product = values[i] * x[i + offset];
            sums[i - first] += Dia<T>::bits(values[i]) != padding ? product : T(0);
        }
    }
}

}  // namespace

template <class T>
void Sdia<T>::spmv(const Product<T>& product) const {
    const index_t blocks = rows / kBlockRows + (rows % kBlockRows != 0);
    parallel_for(blocks, 2 * static_cast<std::int64_t>(upper.values.size()) + rows, [&](index_t block) {
        const std::int64_t first = std::int64_t(block) * kBlockRows;
        const std::int64_t last = std::min<std::int64_t>(rows, first + kBlockRows);
        T sums[kBlockRows] = {};
        sum_block(*this, first, last, product.x, sums);
        for (std::int64_t row = first; row < last; ++row) {
            store_row(product, static_cast<index_t>(row), sums[row - first]);
        }
    });
}

#define INSTANTIATE(T) template struct Sdia<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
