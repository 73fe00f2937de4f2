#include "matrix/planned_source.hpp"

#include <mutex>

#include "core/errors.hpp"

namespace spmvgpu {

template <class T>
std::shared_ptr<const MatrixPlan> PlannedSource<T>::plan(const std::string& format, const Options& options,
                                                         int processors) {
    auto made = std::make_shared<const MatrixPlan>(
        plan_matrix(this->csr(), format, options, Target{this->device(), processors}));
    const std::lock_guard lock(mutex_);
    plans_[{format, options, processors}] = made;
    return made;
}

template <class T>
std::shared_ptr<Matrix<T>> PlannedSource<T>::build(const std::string& format, const Options& options) {
    const auto build_with = [&](const MatrixPlan* planned) {
        return std::make_shared<Matrix<T>>(this->csr(), format, options, this->device(), Builders::kOfDevice, planned);
    };
    std::shared_ptr<const MatrixPlan> planned;
    {
        const std::lock_guard lock(mutex_);
        const auto found = plans_.extract({format, options, target_of(this->device()).processors});
        if (found) planned = found.mapped();
    }
    try {
        return build_with(planned.get());
    } catch (const OutOfMemory&) {
        const std::lock_guard lock(mutex_);
        if (plans_.empty()) throw;
        plans_.clear();
    }
    return build_with(planned.get());
}

#define INSTANTIATE(T) template class PlannedSource<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
