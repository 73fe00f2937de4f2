#include "core/column_products.hpp"

#include <algorithm>

#include "core/array.hpp"
#include "cuda/transfer.hpp"

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

// Calls multiply(x, y) for a few columns at a time, which lie as `fits` wants them: in place, or in copies made by
// `lay_out(memory, length, count)`.
template <class T, class Fits, class LayOut, class Multiply>
void by_panels(const AnyMatrix<T>& matrix, const Columns<const T>& x, const Columns<T>& y, Fits fits, LayOut lay_out,
               Multiply multiply) {
    const bool copy_x = !fits(x), copy_y = !fits(y);
    const index_t most = copy_x || copy_y ? std::min(x.count, kPanelColumns<T>) : x.count;
    const std::size_t cols = matrix.cols(), rows = matrix.rows();
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
    // Vectors that need no copies to be multiplied one by one are worth copies only if the matrix is much the larger.
    const bool in_place = x.vectors_are_contiguous() && y.vectors_are_contiguous();
    const std::int64_t vector_entries = std::int64_t(matrix.rows()) + matrix.cols();
    if (matrix.multiplies_panels() && x.count > 1 && !(in_place && matrix.nnz() < 4 * vector_entries)) {
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

template void multiply_columns(const AnyMatrix<float>&, const Columns<const float>&, const Columns<float>&);
template void multiply_columns(const AnyMatrix<double>&, const Columns<const double>&, const Columns<double>&);

}  // namespace spmvgpu
