#include "formats/hyb.hpp"

#include <algorithm>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/padding.hpp"

namespace spmvgpu {

namespace {

index_t row_length(const Array<index_t>& row_offsets, index_t row) { return row_offsets[row + 1] - row_offsets[row]; }

// The widest ELL part of which every column is worth its padding. Bell and Garland: ELL moves its slots about three
// times as fast as COO its entries, given rows enough to fill the device.
index_t widest_worth(index_t rows, const HostVector<index_t>& longer) {
    constexpr index_t kSpeedOfEll = 3, kRowsToFillDevice = 4096;
    const index_t enough = std::max(rows / kSpeedOfEll + (rows % kSpeedOfEll != 0), kRowsToFillDevice);
    const auto longest = static_cast<index_t>(longer.size()) - 1;
    index_t width = 0;
    while (width < longest && longer[width] >= enough) ++width;
    return width;
}

// Everything that is decided before a slot is stored.
struct Split {
    index_t width = 0;       // of the ELL part
    std::int64_t slots = 0;  // of the ELL part
    index_t nnz = 0;         // in the ELL part
};

// longer[k]: rows with more than k entries, from the histogram of the row lengths.
HostVector<index_t> count_longer_rows(index_t rows, const Array<index_t>& row_offsets) {
    index_t longest = 0;
    for (index_t row = 0; row < rows; ++row) longest = std::max(longest, row_length(row_offsets, row));
    HostVector<index_t> longer(longest + std::size_t(1), 0);
    for (index_t row = 0; row < rows; ++row) ++longer[row_length(row_offsets, row)];
    index_t below = 0;
    for (index_t& count : longer) {
        below += count;
        count = rows - below;
    }
    return longer;
}

Split choose_split(index_t rows, const Array<index_t>& row_offsets, int width) {
    const auto longer = count_longer_rows(rows, row_offsets);
    const auto longest = static_cast<index_t>(longer.size()) - 1;
    Split split;
    split.width = width == 0 ? widest_worth(rows, longer) : std::min<index_t>(width, longest);
    for (index_t column = 0; column < split.width; ++column) split.nnz += longer[column];
    split.slots = split.width * aligned_pitch(rows);
    return split;
}

// Where the rows begin if each has its entries from number first(length) to number last(length), exclusive, only.
template <class First, class Last>
Array<index_t> offsets_of_part(index_t rows, const Array<index_t>& row_offsets, First first, Last last) {
    Array<index_t> offsets(rows + std::size_t(1));
    offsets[0] = 0;
    for (index_t row = 0; row < rows; ++row) {
        const index_t length = row_length(row_offsets, row);
        offsets[row + 1] = offsets[row] + last(length) - first(length);
    }
    return offsets;
}

// The entries of every row from number first(length) to number last(length), exclusive, as a matrix of its own.
template <class T, class First, class Last>
CsrMatrix<T> take_entries(const CsrMatrix<T>& matrix, First first, Last last) {
    CsrMatrix<T> part;
    part.rows = matrix.rows;
    part.cols = matrix.cols;
    part.row_offsets = offsets_of_part(matrix.rows, matrix.row_offsets, first, last);
    part.nnz = part.row_offsets[part.rows];
    part.col_indices = Array<index_t>(part.nnz);
    part.values = Array<T>(part.nnz);
    parallel_for(part.rows, part.nnz, [&](index_t row) {
        const index_t from = matrix.row_offsets[row] + first(row_length(matrix.row_offsets, row));
        const index_t to = part.row_offsets[row], count = row_length(part.row_offsets, row);
        std::copy_n(matrix.col_indices.begin() + from, count, part.col_indices.begin() + to);
        std::copy_n(matrix.values.begin() + from, count, part.values.begin() + to);
    });
    return part;
}

// Copies the rows of `part` to where `used` of each row's entries are there already.
template <class T>
void append_rows(const CsrMatrix<T>& part, HostVector<index_t>& used, CsrMatrix<T>& whole) {
    InterruptTimer timer;
    for (index_t row = 0; row < part.rows; ++row) {
        const index_t from = part.row_offsets[row], count = row_length(part.row_offsets, row);
        const index_t to = whole.row_offsets[row] + used[row];
        std::copy_n(part.col_indices.begin() + from, count, whole.col_indices.begin() + to);
        std::copy_n(part.values.begin() + from, count, whole.values.begin() + to);
        used[row] += count;
        timer.work(count + 1);
    }
}

}  // namespace

index_t choose_ell_width(index_t rows, const Array<index_t>& row_offsets) {
    return widest_worth(rows, count_longer_rows(rows, row_offsets));
}

std::vector<Options> HybTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t strip : {0, 256, 128}) list.push_back({{"width", std::int64_t(0)}, {"strip", strip}});
    list.push_back({{"width", "max"s}});
    return list;
}

template <class T>
HybPlan Hyb<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    const Split split = choose_split(csr.rows, csr.row_offsets, tuning.width);
    HybPlan plan{tuning, {}, split.width, {tuning.ell, {}, {csr.rows, 1, split.width, aligned_pitch(csr.rows)}}, {}};
    CsrMatrix<T> rest;  // without its entries, which do not matter
    rest.rows = csr.rows;
    rest.nnz = csr.nnz - split.nnz;
    rest.row_offsets = offsets_of_part(
        csr.rows, csr.row_offsets, [&](index_t length) { return std::min(length, split.width); },
        [](index_t length) { return length; });
    plan.coo = Coo<T>::plan(rest, tuning.coo, target);
    plan.tuning.coo = plan.coo.tuning;
    if (tuning.width == 0) plan.tuning.width = split.width;
    plan.cost.bytes = split.slots * (sizeof(T) + sizeof(index_t)) + plan.coo.cost.bytes;
    plan.cost.slots = split.slots + rest.nnz;
    plan.cost.entries = plan.cost.gathers = csr.nnz;
    plan.cost.counts["coo_entries"] = rest.nnz;
    check_padding(kName, plan.cost, tuning.ell.max_padding, csr.bytes());
    // Rows that have nothing in the COO part stay as the ELL part leaves them.
    plan.coo.cost.launches -= target.device.is_cuda() && plan.coo.has_empty_rows;
    plan.coo.has_empty_rows = false;
    if (target.device.is_cuda()) plan.cost.launches = (csr.rows > 0) + plan.coo.cost.launches;
    return plan;
}

template <class T>
Hyb<T> Hyb<T>::from_csr(const CsrMatrix<T>& csr, const Plan& plan) {
    const auto none = [](index_t) { return index_t(0); };
    const auto in_ell = [&](index_t length) { return std::min(length, plan.width); };
    const auto all = [](index_t length) { return length; };
    return {csr.rows,
            csr.cols,
            csr.nnz,
            Ellpack<T>::from_csr(take_entries(csr, none, in_ell), plan.ell),
            Coo<T>::from_csr(take_entries(csr, in_ell, all), plan.coo),
            plan.tuning};
}

template <class T>
CsrMatrix<T> Hyb<T>::to_csr() const {
    const CsrMatrix<T> first = ell.to_csr(), rest = coo.to_csr();
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    for (index_t row = 0; row <= rows; ++row) csr.row_offsets[row] = first.row_offsets[row] + rest.row_offsets[row];
    HostVector<index_t> used(rows, 0);
    append_rows(first, used, csr);
    append_rows(rest, used, csr);
    return csr;
}

template <class T>
void Hyb<T>::spmv(const Product<T>& product) const {
    ell.spmv(product);
    Product<T> rest = product;
    rest.beta = T(1);
    coo.spmv(rest);
}

template <class T>
void Hyb<T>::multiply_panel(const Product<T>& product) const {
    ell.multiply_panel(product);
    coo.add_panel(product);
}

#define INSTANTIATE(T) template struct Hyb<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
