#include "core/columns.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace spmvgpu {

template <class T>
void copy_columns(const Columns<const T>& from, const Columns<T>& to, index_t length, T alpha, T beta) {
    const bool is_copy = alpha == T(1) && beta == T(0);
    // A block of rows stays in the first-level cache while its columns are gone through one by one.
    constexpr index_t kRows = 64;
    const auto blocks = static_cast<index_t>((std::int64_t(length) + kRows - 1) / kRows);
    parallel_for(blocks, std::int64_t(length) * from.count, [&](index_t block) {
        const std::ptrdiff_t begin = std::ptrdiff_t(block) * kRows;
        const std::ptrdiff_t end = std::min<std::ptrdiff_t>(begin + kRows, length);
        for (index_t j = 0; j < from.count; ++j) {
            const T* const source = from.column(j);
            T* const target = to.column(j);
            if (is_copy) {
                for (std::ptrdiff_t i = begin; i < end; ++i) target[i * to.row_stride] = source[i * from.row_stride];
                continue;
            }
            for (std::ptrdiff_t i = begin; i < end; ++i) {
                T& element = target[i * to.row_stride];
                const T added = scaled(alpha, source[i * from.row_stride]);
                element = beta == T(0) ? added : added + scaled(beta, element);
            }
        }
    });
}

#define INSTANTIATE(T) template void copy_columns(const Columns<const T>&, const Columns<T>&, index_t, T, T);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
