// PlannedSource<T>: a CsrSource that keeps the plans that were made of it, for the matrix that is built by one of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "core/mutex.hpp"
#include "matrix/csr_source.hpp"
#include "matrix/matrix.hpp"

namespace spmvgpu {

template <class T>
class PlannedSource : public CsrSource<T> {
public:
    using CsrSource<T>::CsrSource;

    // As plan_matrix() says, for a device of this kind with so many processors.
    std::shared_ptr<const MatrixPlan> plan(const std::string& format, const Options& options, int processors);

    // The matrix in a format, as planned if it was planned for just this device; a plan serves once. Plans take memory
    // of the device until then, or until it is needed.
    std::shared_ptr<Matrix<T>> build(const std::string& format, const Options& options);

private:
    using Request = std::tuple<std::string, Options, int>;

    Mutex mutex_;
    std::map<Request, std::shared_ptr<const MatrixPlan>> plans_;
};

}  // namespace spmvgpu
