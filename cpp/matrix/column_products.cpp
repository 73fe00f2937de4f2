#include "matrix/column_products.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/array.hpp"
#include "core/errors.hpp"
#include "cuda/transfer.hpp"

namespace spmvgpu {

namespace {

// Ordinary memory that is used once: in large pages where it is large, for the first touch of a page costs more than
// the copy that makes it.
std::shared_ptr<void> allocate_once(std::size_t bytes) {
    constexpr std::size_t kLargePage = 2 << 20;
    if (bytes < 2 * kLargePage) return allocate(bytes, {});
    void* const memory = std::aligned_alloc(kLargePage, (bytes + kLargePage - 1) / kLargePage * kLargePage);
    if (memory == nullptr) throw OutOfMemory("cpu", bytes, free_host_memory());
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);  // where that is refused, the pages are ordinary ones
#endif
    return {memory, std::free};
}

// Memory for a few vectors, page-locked where a GPU reads or writes it.
template <class T>
class PanelMemory {
public:
    PanelMemory(std::size_t size, Device device) {
        if (size == 0) return;
        memory_ = device.is_cuda() ? cuda::allocate_pinned(size * sizeof(T)) : allocate_once(size * sizeof(T));
    }
    T* data() const { return static_cast<T*>(memory_.get()); }

private:
    std::shared_ptr<void> memory_;
};

template <class T>
Columns<const T> read_only(const Columns<T>& columns) {
    return {columns.data, columns.count, columns.row_stride, columns.column_stride};
}

// Calls multiply(x, y) for a few columns at a time, which lie as `fits` wants them: in place, or in copies made by
// `lay_out(memory, length, count)`.
template <class T, class Fits, class LayOut, class Multiply>
void by_panels(const AnyMatrix<T>& matrix, const Columns<const T>& x, const Columns<T>& y, Fits fits, LayOut lay_out,
               Multiply multiply) {
    constexpr std::size_t kMaxPinnedBytes = 256 << 20;  // more would be taken from the rest of the system
    const bool copy_x = !fits(x), copy_y = !fits(y);
    const std::size_t cols = matrix.cols(), rows = matrix.rows();
    index_t most = x.count;
    if (copy_x || copy_y) most = std::min(most, kPanelColumns<T>);
    if ((copy_x || copy_y) && matrix.device().is_cuda()) {
        const std::size_t allowed = kMaxPinnedBytes / (std::max({rows, cols, std::size_t(1)}) * sizeof(T));
        most = static_cast<index_t>(std::clamp<std::size_t>(allowed, 1, most));
    }
    const PanelMemory<T> x_memory(copy_x ? cols * most : 0, matrix.device());
    const PanelMemory<T> y_memory(copy_y ? rows * most : 0, matrix.device());
    for (index_t first = 0; first < x.count; first += most) {
        const index_t count = std::min(most, x.count - first);
        Columns<const T> own_x = x.part(first, count);
        Columns<T> own_y = y.part(first, count);
        if (copy_x) {
            const Columns<T> copy = lay_out(x_memory.data(), matrix.cols(), count);
            copy_columns(own_x, copy, matrix.cols());
            own_x = read_only(copy);
        }
        if (copy_y) own_y = lay_out(y_memory.data(), matrix.rows(), count);
        multiply(own_x, own_y);
        if (copy_y) copy_columns(read_only(own_y), y.part(first, count), matrix.rows());
    }
}

}  // namespace

template <class T>
void multiply_columns(const AnyMatrix<T>& matrix, const Columns<const T>& x, const Columns<T>& y) {
    if (x.count == 0 || matrix.rows() == 0) return;
    const bool in_place = x.vectors_are_contiguous() && y.vectors_are_contiguous();
    if (x.count > 1 && (in_place ? matrix.panels_are_worth_copies(x.count) : matrix.multiplies_panels())) {
        by_panels(
            matrix, x, y, [](const auto& columns) { return columns.rows_are_contiguous(); },
            [](T* memory, index_t, index_t count) {
                return Columns<T>{memory, count, count, 1};
            },
            [&](const Columns<const T>& own_x, const Columns<T>& own_y) {
                matrix.multiply_panel({own_x.data, own_y.data, own_x.count, own_x.row_stride, own_y.row_stride});
            });
        return;
    }
    by_panels(
        matrix, x, y, [](const auto& columns) { return columns.vectors_are_contiguous(); },
        [](T* memory, index_t length, index_t count) {
            return Columns<T>{memory, count, 1, length};
        },
        [&](const Columns<const T>& own_x, const Columns<T>& own_y) {
            for (index_t j = 0; j < own_x.count; ++j) matrix.spmv_host({own_x.column(j), own_y.column(j)});
        });
}

#define INSTANTIATE(T) template void multiply_columns(const AnyMatrix<T>&, const Columns<const T>&, const Columns<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
