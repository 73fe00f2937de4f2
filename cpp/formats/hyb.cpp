#include "formats/hyb.hpp"

#include <algorithm>
#include <limits>

#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/padding.hpp"

namespace spmvgpu {

namespace {

index_t row_length(const Array<index_t>& row_offsets, index_t row) { return row_offsets[row + 1] - row_offsets[row]; }

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
    if (width == 0) {
        // Bell and Garland: ELL moves its slots about three times as fast as COO its entries, given rows enough to fill
        // the device.
        constexpr index_t kSpeedOfEll = 3, kRowsToFillDevice = 4096;
        const index_t enough = std::max(rows / kSpeedOfEll + (rows % kSpeedOfEll != 0), kRowsToFillDevice);
        while (split.width < longest && longer[split.width] >= enough) ++split.width;
    } else {
        split.width = std::min<index_t>(width, longest);
    }
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

template <class T>
Estimate estimate_split(const Csr<T>& matrix, const Split& split, const HybTuning& tuning, const Target& target) {
    const std::int64_t in_coo = matrix.nnz - split.nnz;
    Csr<T> rest;  // without its entries, which do not matter
    rest.rows = matrix.rows;
    rest.nnz = static_cast<index_t>(in_coo);
    rest.row_offsets = offsets_of_part(
        matrix.rows, matrix.row_offsets, [&](index_t length) { return std::min(length, split.width); },
        [](index_t length) { return length; });
    const std::size_t bytes =
        split.slots * (sizeof(T) + sizeof(index_t)) + Coo<T>::estimate(rest, tuning.coo, target).bytes;
    const double max_padding = tuning.ell.max_padding;
    check_padding(Hyb<T>::kName, split.slots + in_coo, matrix.nnz, max_padding, bytes, matrix.matrix_bytes());
    return {bytes, static_cast<double>(split.slots + in_coo) / std::max<index_t>(matrix.nnz, 1)};
}

// The entries of every row from number first(length) to number last(length), exclusive, as a matrix of its own.
template <class T, class First, class Last>
Csr<T> take_entries(const Csr<T>& matrix, First first, Last last) {
    Csr<T> part;
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
void append_rows(const Csr<T>& part, HostVector<index_t>& used, Csr<T>& whole) {
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

std::vector<Options> HybTuning::candidates() {
    using namespace std::string_literals;
    std::vector<Options> list;
    for (std::int64_t strip : {0, 256, 128}) list.push_back({{"width", std::int64_t(0)}, {"strip", strip}});
    list.push_back({{"width", "max"s}});
    return list;
}

template <class T>
Estimate Hyb<T>::estimate(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    return estimate_split(matrix, choose_split(matrix.rows, matrix.row_offsets, tuning.width), tuning, target);
}

template <class T>
Hyb<T> Hyb<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    const Split split = choose_split(matrix.rows, matrix.row_offsets, tuning.width);
    estimate_split(matrix, split, tuning, target);
    Hyb hyb;
    hyb.rows = matrix.rows;
    hyb.cols = matrix.cols;
    hyb.nnz = matrix.nnz;
    const auto none = [](index_t) { return index_t(0); };
    const auto in_ell = [&](index_t length) { return std::min(length, split.width); };
    const auto all = [](index_t length) { return length; };
    PaddedTuning ell = tuning.ell;
    ell.max_padding = std::numeric_limits<double>::infinity();  // checked for both parts together
    hyb.ell = Ellpack<T>::from_csr(take_entries(matrix, none, in_ell), ell, target);
    hyb.coo = Coo<T>::from_csr(take_entries(matrix, in_ell, all), tuning.coo, target);
    // Rows that have nothing there stay as the ELL part leaves them.
    hyb.coo.has_empty_rows = false;
    hyb.tuning = tuning;
    hyb.tuning.coo = hyb.coo.tuning;
    if (tuning.width == 0) hyb.tuning.width = split.width;
    return hyb;
}

template <class T>
Csr<T> Hyb<T>::to_csr() const {
    const Csr<T> first = ell.to_csr(), rest = coo.to_csr();
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.row_offsets = Array<index_t>(rows + std::size_t(1));
    csr.col_indices = Array<index_t>(nnz);
    csr.values = Array<T>(nnz);
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
void Hyb<T>::multiply_panel(const PanelProduct<T>& product) const {
    ell.multiply_panel(product);
    coo.add_panel(product);
}

template struct Hyb<float>;
template struct Hyb<double>;

}  // namespace spmvgpu
