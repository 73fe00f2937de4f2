#include "multi/gathered_matrix.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gpu/stream.hpp"

namespace spmvgpu {

template <class T>
GatheredMatrix<T>::GatheredMatrix(std::shared_ptr<const gpu::NcclCommunicator> ranks,
                                  std::shared_ptr<const AnyMatrix<T>> own, std::vector<index_t> counts)
    : ranks_(std::move(ranks)), own_(std::move(own)), counts_(std::move(counts)) {
    const bool fits = counts_.size() == static_cast<std::size_t>(ranks_->ranks());
    for (const index_t count : counts_) rows_ += count, longest_ = std::max(longest_, count);
    if (!fits || std::find(counts_.begin(), counts_.end(), own_->rows()) == counts_.end()) {
        throw std::invalid_argument("numbers of rows that do not fit the ranks, or the rows of this one");
    }
    part_ = Array<T>(longest_, device());
    parts_ = Array<T>(std::size_t(longest_) * counts_.size(), device());
}

template <class T>
void GatheredMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    if (!product.is_of_vectors() || product.alpha != T(1) || product.beta != T(0)) {
        throw std::invalid_argument("a product that all ranks get is y = A x");
    }
    own_->spmv({product.x, part_.data()}, stream);
    ranks_->all_gather(part_.data(), parts_.data(), part_.bytes(), stream);
    T* to = product.y;
    for (std::size_t rank = 0; rank < counts_.size(); ++rank) {
        if (counts_[rank] > 0) gpu::copy_async(to, parts_.data() + rank * longest_, counts_[rank] * sizeof(T), stream);
        to += counts_[rank];
    }
}

template <class T>
void GatheredMatrix<T>::refuse() {
    throw std::logic_error("products that all ranks get are for vectors on their GPUs");
}

#define INSTANTIATE(T) template class GatheredMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
