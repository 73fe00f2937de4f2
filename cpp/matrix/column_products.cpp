#include "matrix/column_products.hpp"

#include <algorithm>

#include "core/array.hpp"
#include "core/columns.hpp"
#include "core/errors.hpp"
#include "gpu/transfer.hpp"

namespace spmvgpu {

namespace {

// Memory for a few vectors, page-locked where a GPU reads or writes it.
template <class T>
class PanelMemory {
public:
    PanelMemory(std::size_t size, Device device) {
        if (size == 0) return;
        memory_ = device.is_cuda() ? cuda::allocate_pinned(size * sizeof(T)) : allocate(size * sizeof(T), {});
    }
    T* data() const { return static_cast<T*>(memory_.get()); }

private:
    std::shared_ptr<void> memory_;
};

template <class T>
Columns<const T> read_only(const Columns<T>& columns) {
    return {columns.data, columns.count, columns.row_stride, columns.column_stride};
}

// How a matrix wants several vectors to lie.
struct Wanted {
    bool rows;      // contiguous rows, or contiguous vectors
    bool copies_y;  // whatever the layout: a product that only makes y = A * x
    bool fits(const auto& columns) const {
        return rows ? columns.rows_are_contiguous() : columns.vectors_are_contiguous();
    }
    template <class T>
    Columns<T> lay_out(T* memory, index_t length, index_t count) const {
        return rows ? Columns<T>{memory, count, count, 1} : Columns<T>{memory, count, 1, length};
    }
};

// Calls multiply(product) for a few columns at a time, which lie as wanted: in place, or in copies.
template <class T, class Multiply>
void by_panels(const AnyMatrix<T>& matrix, const Product<T>& product, const Wanted& wanted, Multiply multiply) {
    constexpr std::size_t kMaxPinnedBytes = 256 << 20;  // more would be taken from the rest of the system
    const Columns<const T> x = columns_of_x(product);
    const Columns<T> y = columns_of_y(product);
    const bool copy_x = !wanted.fits(x), copy_y = wanted.copies_y || !wanted.fits(y);
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
        Product<T> own = product.part(first, count);
        if (copy_x) {
            const Columns<T> copy = wanted.lay_out(x_memory.data(), matrix.cols(), count);
            copy_columns(x.part(first, count), copy, matrix.cols());
            own.x = copy.data;
            own.x_strides = {copy.row_stride, copy.column_stride};
        }
        if (copy_y) {
            const Columns<T> result = wanted.lay_out(y_memory.data(), matrix.rows(), count);
            own.y = result.data;
            own.y_strides = {result.row_stride, result.column_stride};
            own.alpha = T(1);
            own.beta = T(0);
            multiply(own);
            copy_columns(read_only(result), y.part(first, count), matrix.rows(), product.alpha, product.beta);
        } else {
            multiply(own);
        }
    }
}

}  // namespace

template <class T>
void multiply_in_host_memory(const AnyMatrix<T>& matrix, const Product<T>& product) {
    if (product.columns == 0 || matrix.rows() == 0) return;
    const bool in_place = product.vectors_are_contiguous();
    if (!matrix.device().is_cuda() && product.columns > 1 &&
        (in_place ? matrix.panels_are_worth_copies(product.columns) : matrix.takes_rows())) {
        const bool is_plain = product.alpha == T(1) && product.beta == T(0);
        by_panels(matrix, product, {.rows = true, .copies_y = !is_plain},
                  [&](const Product<T>& panel) { matrix.spmv(panel, nullptr); });
        return;
    }
    by_panels(matrix, product, {.rows = false, .copies_y = false}, [&](const Product<T>& vectors) {
        for_each_vector(vectors, [&](const Product<T>& vector) { matrix.spmv_host(vector); });
    });
}

#define INSTANTIATE(T) template void multiply_in_host_memory(const AnyMatrix<T>&, const Product<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
