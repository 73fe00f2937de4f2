#include "matrix/csr_source.hpp"

#include <stdexcept>
#include <string>

#include "core/errors.hpp"
#include "core/passes/clusters.hpp"
#include "core/passes/csr_passes.hpp"
#include "core/passes/host_passes.hpp"
#include "gpu/csr_passes.hpp"
#include "gpu/runtime.hpp"
#include "matrix/transpose.hpp"

namespace spmvgpu {

template <class T>
CsrMatrix<T> copy_to(const CsrMatrix<T>& csr, Device device) {
    if (device.is_cuda() && csr.row_offsets.device() != device) cuda::require_memory(csr.bytes(), device.ordinal);
    return {csr.rows, csr.cols, csr.nnz, csr.row_offsets.to(device), csr.col_indices.to(device), csr.values.to(device)};
}

template <class T>
CsrSource<T>::CsrSource(const CsrMatrix<T>& csr, Device device) : device_(device), csr_(copy_to(csr, device)) {}

template <class T>
bool CsrSource<T>::is_canonical() const {
    const index_t *const offsets = csr_.row_offsets.data(), *const cols = csr_.col_indices.data();
    if (device_.is_cuda()) {
        return cuda::is_canonical(csr_.rows, csr_.cols, csr_.nnz, offsets, cols, device_.ordinal);
    }
    HostPasses passes;
    return spmvgpu::is_canonical(passes, csr_.rows, csr_.cols, csr_.nnz, offsets, cols);
}

template <class T>
CsrMatrix<T> CsrSource<T>::to_host() const {
    return copy_to(csr_, Device{});
}

template <class T>
CsrMatrix<T> CsrSource<T>::transposed() const {
    return device_.is_cuda() ? cuda::transpose(csr_) : transpose(csr_);
}

template <class T>
typename CsrSource<T>::Reordered CsrSource<T>::by_clusters() const {
    if (csr_.rows != csr_.cols) {
        throw std::invalid_argument("clusters order rows and columns alike and need a square matrix, not " +
                                    std::to_string(csr_.rows) + " x " + std::to_string(csr_.cols));
    }
    HostPasses passes;
    const index_t longest = device_.is_cuda() ? cuda::longest_row(csr_.rows, csr_.row_offsets.data(), device_.ordinal)
                                              : longest_row(passes, csr_.rows, csr_.row_offsets.data());
    if (longest > kLongestInClusters) {
        throw std::invalid_argument("clusters are for matrices whose rows have at most " +
                                    std::to_string(kLongestInClusters) + " stored entries, and a row of this one has " +
                                    std::to_string(longest));
    }
    Reordered found;
    if (device_.is_cuda()) {
        found.permutation.rows = cuda::order_by_clusters(csr_);
        found.csr = cuda::reordered(csr_, found.permutation.rows);
    } else {
        found.permutation.rows = order_by_clusters(passes, csr_);
        found.csr = reordered(passes, csr_, found.permutation.rows.data());
    }
    return found;
}

template <class T>
double CsrSource<T>::clustering() const {
    if (csr_.rows != csr_.cols) throw std::logic_error("the columns of a row name rows of a square matrix only");
    const index_t *const offsets = csr_.row_offsets.data(), *const cols = csr_.col_indices.data();
    if (device_.is_cuda()) return cuda::clustering(csr_.rows, offsets, cols, device_.ordinal);
    HostPasses passes;
    return spmvgpu::clustering(passes, csr_.rows, offsets, cols);
}

// Every step-th number of an array, in host memory.
template <class Number>
static Array<Number> sample_of(const Array<Number>& array, std::int64_t step) {
    const auto length = static_cast<std::int64_t>(array.size());
    const Device device = array.device();
    if (device.is_cuda()) return cuda::take_every(array.data(), length, step, device.ordinal).to({});
    HostPasses passes;
    return take_every(passes, array.data(), length, step);
}

template <class T>
typename CsrSource<T>::Sample CsrSource<T>::sample(std::int64_t row_step, std::int64_t entry_step) const {
    return {sample_of(csr_.row_offsets, row_step), sample_of(csr_.col_indices, entry_step)};
}

#define INSTANTIATE(T)                                          \
    template CsrMatrix<T> copy_to(const CsrMatrix<T>&, Device); \
    template class CsrSource<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
