#include "matrix/csr_source.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "core/passes/csr_algebra.hpp"
#include "core/passes/csr_operations.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

template <class T>
CsrMatrix<T> copy_to(const CsrMatrix<T>& csr, Device device) {
    if (csr.device() != device) gpu::require_memory(csr.bytes(), device);
    return {csr.rows, csr.cols, csr.nnz, csr.row_offsets.to(device), csr.col_indices.to(device), csr.values.to(device)};
}

template <class T>
CsrSource<T>::CsrSource(const CsrMatrix<T>& csr, Device device) : device_(device), csr_(copy_to(csr, device)) {}

template <class T>
CsrMatrix<T> CsrSource<T>::to_host() const {
    return copy_to(csr_, Device{});
}

template <class T>
CsrMatrix<T> CsrSource<T>::with_values(const Array<T>& values) const {
    if (values.size() != std::size_t(csr_.nnz)) {
        throw std::invalid_argument(std::to_string(values.size()) + " values for a matrix of " +
                                    std::to_string(csr_.nnz) + " stored entries");
    }
    gpu::synchronize_device(device_);  // queued work on the values is done
    CsrMatrix<T> csr = csr_;
    csr.values = Array<T>(values.size(), device_);
    copy_bytes(csr.values.data(), device_, values.data(), values.device(), values.bytes());
    return csr;
}

template <class T>
std::optional<CsrMatrix<T>> CsrSource<T>::with_values_of(const CsrMatrix<T>& other) const {
    if (other.rows != csr_.rows || other.cols != csr_.cols) return {};
    gpu::synchronize_device(device_);  // queued work on the values is done
    const CsrMatrix<T> there = other.device() == device_ ? other : copy_to(other, device_);
    auto placed = gpu::run(PlaceValues<T>{csr_.pattern(), there}, device_);
    if (!placed.fit) return {};
    return CsrMatrix<T>{csr_.rows, csr_.cols, csr_.nnz, csr_.row_offsets, csr_.col_indices, std::move(placed.values)};
}

template <class T>
template <class To>
CsrMatrix<To> CsrSource<T>::as() const {
    Array<To> values = gpu::run(ConvertValues<T, To>{csr_.values}, device_);
    return {csr_.rows, csr_.cols, csr_.nnz, csr_.row_offsets, csr_.col_indices, std::move(values)};
}

template <class T>
CsrMatrix<T> CsrSource<T>::scaled(Scaling how, T number) const {
    const auto with = [&](Array<T> values) {
        return CsrMatrix<T>{csr_.rows, csr_.cols, csr_.nnz, csr_.row_offsets, csr_.col_indices, std::move(values)};
    };
    if constexpr (kIsComplex<T>) {
        if (how != Scaling::kConjugate && number.imag == 0) {
            const auto parts = Array<Real<T>>::share(csr_.values.memory(), 2 * csr_.values.size(), device_);
            const auto scaled = gpu::run(ScaleValues<Real<T>>{parts, how, number.real}, device_);
            return with(Array<T>::share(scaled.memory(), csr_.values.size(), device_));
        }
    }
    return with(gpu::run(ScaleValues<T>{csr_.values, how, number}, device_));
}

template <class T>
CsrMatrix<T> CsrSource<T>::transposed() const {
    return gpu::run(Transpose<T>{csr_}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::rows(index_t begin, index_t end) const {
    if (begin < 0 || end < begin || end > csr_.rows) throw std::out_of_range("rows that the matrix does not have");
    const auto [offsets, first, nnz] = gpu::run(RowWindow{csr_.row_offsets, begin, end}, device_);
    return {end - begin, csr_.cols, nnz, offsets, csr_.col_indices.part(first, nnz), csr_.values.part(first, nnz)};
}

template <class T>
CsrMatrix<T> stacked(const std::vector<CsrMatrix<T>>& parts) {
    std::int64_t entries = 0, rows = 0;
    for (const CsrMatrix<T>& part : parts) {
        entries += part.nnz, rows += part.rows;
        const bool fits = std::max(entries, rows) <= std::numeric_limits<index_t>::max();
        if (part.cols != parts[0].cols || part.device() != parts[0].device() || !fits) entries = -1;
        if (entries < 0) break;
    }
    if (parts.empty() || entries < 0) {
        throw std::invalid_argument("no matrices, or of different widths or devices, or with too many entries");
    }
    return gpu::run(StackedRows<T>{parts}, parts[0].device());
}

template <class T>
CsrMatrix<T> CsrSource<T>::rows(const Array<index_t>& listed) const {
    for (const index_t row : listed) {
        if (row < 0 || row >= csr_.rows) throw std::out_of_range("rows that the matrix does not have");
    }
    const Array<index_t> there = listed.to(device_);
    return gpu::run(ListedRows<T>{csr_, there}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::shared_rows(const Array<index_t>& listed, index_t first, index_t cols, Device device) const {
    return copy_to(CsrSource(rows(listed)).columns(-first, cols - first), device);
}

template <class T>
CsrMatrix<T> sum_of_rows(const std::vector<CsrMatrix<T>>& parts, index_t begin, index_t end, Device device) {
    CsrMatrix<T> sum = copy_to(CsrSource<T>(parts.at(0)).rows(begin, end), device);
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const CsrMatrix<T> more = CsrSource<T>(parts[i]).rows(begin, end);
        if (more.nnz > 0) sum = CsrSource<T>(sum).plus(copy_to(more, device));
    }
    return sum;
}

template <class T>
CsrMatrix<T> CsrSource<T>::columns(index_t begin, index_t end) const {
    if (end < begin) throw std::out_of_range("columns that end before they begin");
    return gpu::run(SelectedEntries<T>{csr_, begin, end}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::outside(index_t begin, index_t end) const {
    return gpu::run(SelectedEntries<T>{csr_, begin, end, true}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::without_zeros() const {
    return gpu::run(NonzeroEntries<T>{csr_}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::plus(const CsrMatrix<T>& other, index_t first) const {
    const bool has_room = std::int64_t(csr_.nnz) + other.nnz <= std::numeric_limits<index_t>::max();
    const bool is_inside = first >= 0 && std::int64_t(first) + csr_.cols <= other.cols;
    if (csr_.rows != other.rows || !is_inside || other.device() != device_ || !has_room) {
        throw std::invalid_argument("matrices of different shapes or devices, or with too many entries, have no sum");
    }
    return gpu::run(Sum<T>{csr_, other, first}, device_);
}

template <class T>
Array<T> CsrSource<T>::positive_inverses(index_t shift) const {
    return gpu::run(PositiveInverses<T>{csr_, shift}, device_);
}

template <class T>
ColumnReach CsrSource<T>::column_reach() const {
    return gpu::run(ReachOfColumns{csr_.pattern()}, device_);
}

template <class T>
Array<T> CsrSource<T>::diagonal(std::int64_t shift) const {
    return gpu::run(Diagonal<T>{csr_, shift}, device_).to({});
}

template <class T>
DiagonalFacts CsrSource<T>::invert_diagonal(bool of_sizes, T* to) const {
    return gpu::run(InvertDiagonal<T>{csr_, of_sizes, to}, device_);
}

template <class T>
typename CsrSource<T>::Reordered CsrSource<T>::by_clusters() const {
    if (csr_.rows != csr_.cols) {
        throw std::invalid_argument("clusters order rows and columns alike and need a square matrix, not " +
                                    std::to_string(csr_.rows) + " x " + std::to_string(csr_.cols));
    }
    const index_t longest = gpu::run(LongestRow{csr_.pattern()}, device_);
    if (longest > kLongestInClusters) {
        throw std::invalid_argument("clusters are for matrices whose rows have at most " +
                                    std::to_string(kLongestInClusters) + " stored entries, and a row of this one has " +
                                    std::to_string(longest));
    }
    auto found = gpu::run(ReorderByClusters<T>{csr_}, device_);
    return {{std::move(found.order)}, std::move(found.csr)};
}

template <class T>
double CsrSource<T>::clustering() const {
    if (csr_.rows != csr_.cols) throw std::logic_error("the columns of a row name rows of a square matrix only");
    return gpu::run(Clustering{csr_.pattern()}, device_);
}

template <class T>
typename CsrSource<T>::Sample CsrSource<T>::sample(std::int64_t row_step, std::int64_t entry_step) const {
    const auto sample_of = [&](const Array<index_t>& array, std::int64_t step) {
        return gpu::run(TakeEvery{array, step}, device_).to({});
    };
    return {sample_of(csr_.row_offsets, row_step), sample_of(csr_.col_indices, entry_step)};
}

#define INSTANTIATE(T)                                                                             \
    template CsrMatrix<T> copy_to(const CsrMatrix<T>&, Device);                                    \
    template CsrMatrix<T> stacked(const std::vector<CsrMatrix<T>>&);                               \
    template CsrMatrix<T> sum_of_rows(const std::vector<CsrMatrix<T>>&, index_t, index_t, Device); \
    template class CsrSource<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE
#define INSTANTIATE(From, To) template CsrMatrix<To> CsrSource<From>::as() const;
SPMVGPU_FOR_CONVERSIONS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
