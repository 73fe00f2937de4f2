#include "matrix/csr_source.hpp"

#include <stdexcept>
#include <string>

#include "core/errors.hpp"
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
bool CsrSource<T>::is_canonical() const {
    return gpu::run(IsCanonical{csr_.pattern()}, device_);
}

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
CsrMatrix<T> CsrSource<T>::transposed() const {
    return gpu::run(Transpose<T>{csr_}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::rows(index_t begin, index_t end) const {
    if (begin < 0 || end < begin || end > csr_.rows) throw std::out_of_range("rows that the matrix does not have");
    return gpu::run(RowWindow<T>{csr_, begin, end}, device_);
}

template <class T>
CsrMatrix<T> CsrSource<T>::columns(index_t begin, index_t end) const {
    if (begin < 0 || end < begin || end > csr_.cols) throw std::out_of_range("columns that the matrix does not have");
    return gpu::run(ColumnWindow<T>{csr_, begin, end}, device_);
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
Signs CsrSource<T>::invert_diagonal(bool of_sizes, T* to) const {
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

#define INSTANTIATE(T)                                          \
    template CsrMatrix<T> copy_to(const CsrMatrix<T>&, Device); \
    template class CsrSource<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE
#define INSTANTIATE(From, To) template CsrMatrix<To> CsrSource<From>::as() const;
SPMVGPU_FOR_CONVERSIONS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
