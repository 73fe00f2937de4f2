#include "solvers/preconditioners/converted.hpp"

#include "core/parallel.hpp"
#include "core/passes/passes.hpp"
#include "solvers/preconditioners/single_steps.hpp"

namespace spmvgpu {

template <class T>
void ConvertedMap<T>::apply_columns(const T* x, T* y, index_t n, index_t columns, Stream stream) const {
#ifdef SPMVGPU_CUDA
    if (memory_->device().is_gpu()) {
        gpu::to_single(x, single_, n, columns, memory_->device().ordinal, stream);
        map_->apply_columns(single_.x, single_.y, n, columns, stream);
        return gpu::from_single(single_, y, n, columns, memory_->device().ordinal, stream);
    }
#endif
    for (std::ptrdiff_t j = 0; j < columns; ++j) {
        const T* const from = x + j * n;
        Single<T>* const to = single_.x + j * n;
        const auto found = parallel_sum<Largest<double>>(n, n, [=](std::int64_t begin, std::int64_t end) {
            Largest<double> largest;
            for (std::int64_t i = begin; i < end; ++i) largest += {largest_part(from[i])};
            return largest;
        });
        const int exponent = single_.exponents[j] = exponent_of(found.value);
        parallel_ranges(n, n, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] = single_of(from[i], exponent);
        });
    }
    map_->apply_columns(single_.x, single_.y, n, columns, stream);
    for (std::ptrdiff_t j = 0; j < columns; ++j) {
        const Single<T>* const from = single_.y + j * n;
        T* const to = y + j * n;
        const int exponent = single_.exponents[j];
        parallel_ranges(n, n, [=](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) to[i] = double_of(from[i], exponent);
        });
    }
}

template class ConvertedMap<double>;
template class ConvertedMap<Complex<double>>;

}  // namespace spmvgpu
