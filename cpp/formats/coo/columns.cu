#include "formats/columns.cuh"
#include "formats/coo/layout.hpp"

namespace spmvgpu {

namespace {

using namespace gpu;

template <class T>
__global__ void scale_thread_per_element(index_t rows, Product<T> product) {
    const std::int64_t element = std::int64_t(blockIdx.x) * kColumnsBlockSize + threadIdx.x;
    const std::int64_t row = element / product.columns, column = element % product.columns;
    if (row >= rows) return;
    const std::int64_t place = product.row_of_y(static_cast<index_t>(row));
    T* const y = product.y + place * product.y_strides.row + column * product.y_strides.column;
    store(y, product.beta == T(0) ? T(0) : scaled(product.beta, gpu::load(y)));
}

// A group of lanes takes a strip of non-zeros, in order. As in the product with one vector, a row that began in an
// earlier strip leaves its sums in `entering`, one that goes on in the next strip in `leaving`, both with kColumns
// places a strip; all others are stored.
template <class Shape, class T>
__global__ void __launch_bounds__(kColumnsBlockSize)
    coo_columns_group_per_strip(index_t nnz, index_t strip_length, const index_t* __restrict__ row_indices,
                                const index_t* __restrict__ col_indices, const T* __restrict__ values,
                                Product<T> product, T* entering, T* leaving) {
    constexpr int kInFlight = 4;
    static_assert(Shape::kColumns <= Coo<T>::kColumns);
    const std::int64_t strip = (std::int64_t(blockIdx.x) * kColumnsBlockSize + threadIdx.x) / Shape::kGroup;
    if (strip * strip_length >= nnz) return;
    const auto begin = static_cast<index_t>(strip * strip_length);
    const index_t end = nnz - begin > strip_length ? begin + strip_length : nnz;
    const index_t row_before = begin > 0 ? row_indices[begin - 1] : -1;
    const index_t row_after = end < nnz ? row_indices[end] : -1;
    const ColumnReader<Shape, T> x(product);
    index_t row = row_indices[begin];
    T sums[Shape::kPerLane] = {};
    const auto leave = [&](T* partial_sums) {
#pragma unroll
        for (int c = 0; c < Shape::kPerLane; ++c) {
            store(partial_sums + strip * Coo<T>::kColumns + Shape::column(c), sums[c]);
        }
    };
    for (index_t done = 0; done < end - begin; done += kInFlight) {
        index_t rows[kInFlight], cols[kInFlight];
        T factors[kInFlight], gathered[kInFlight][Shape::kPerLane];
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            const bool valid = done + i < end - begin;
            const index_t k = valid ? begin + done + i : begin;
            rows[i] = valid ? row_indices[k] : -1;
            cols[i] = col_indices[k];
            factors[i] = gpu::load(values + k);
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (rows[i] >= 0) x.load(cols[i], gathered[i]);
        }
#pragma unroll
        for (int i = 0; i < kInFlight; ++i) {
            if (rows[i] < 0) continue;
            if (rows[i] != row) {
                if (row == row_before) {
                    leave(entering);
                } else {
                    store_columns<Shape>(product, row, 0, sums);
                }
                row = rows[i];
#pragma unroll
                for (int c = 0; c < Shape::kPerLane; ++c) sums[c] = T(0);
            }
#pragma unroll
            for (int c = 0; c < Shape::kPerLane; ++c) sums[c] += factors[i] * gathered[i][c];
        }
    }
    if (row == row_before) {
        leave(entering);
    } else if (row == row_after) {
        leave(leaving);
    } else {
        store_columns<Shape>(product, row, 0, sums);
    }
}

// A warp per row that crosses strips: its lanes are kWarp / kColumns partial sums times kColumns columns.
template <class T>
__global__ void coo_columns_merge_warp_per_row(const RowSpan* spans, index_t count, Product<T> product,
                                               const T* entering, const T* leaving) {
    constexpr int kColumns = Coo<T>::kColumns, kSums = kWarp / kColumns;
    const std::int64_t i = (std::int64_t(blockIdx.x) * kColumnsBlockSize + threadIdx.x) / kWarp;
    if (i >= count) return;  // the whole warp
    const RowSpan span = spans[i];
    const int column = threadIdx.x % kColumns;
    T sum = 0;
    if (column < product.columns) {
        for (std::int64_t part = span.first + threadIdx.x % kWarp / kColumns; part <= span.last; part += kSums) {
            sum += gpu::load((part == span.first ? leaving : entering) + part * kColumns + column);
        }
    }
    for (int lanes = kWarp / 2; lanes >= kColumns; lanes /= 2) sum += shuffle_xor(sum, lanes);
    if (threadIdx.x % kWarp >= kColumns || column >= product.columns) return;
    T* const y = product.y + product.row_of_y(span.row) * product.y_strides.row + column * product.y_strides.column;
    const T added = scaled(product.alpha, sum);
    store(y, product.beta == T(0) ? added : added + scaled(product.beta, gpu::load(y)));
}

}  // namespace

template <class T>
void Coo<T>::multiply_columns_cuda(const Product<T>& given, Stream stream) const {
    Product<T> product = given;
    if (has_empty_rows) {
        // No non-zero stands for an empty row, so y is scaled first and the products are added to it.
        scale_thread_per_element<<<blocks_for(std::int64_t(rows) * product.columns, kColumnsBlockSize),
                                   kColumnsBlockSize, 0, native(stream)>>>(rows, product);
        check_launch("scale_thread_per_element");
        product.beta = T(1);
    }
    if (nnz == 0) return;
    auto* const entering = static_cast<T*>(product.scratch);
    auto* const leaving = entering + std::size_t(strips()) * kColumns;
    for_column_blocks<1, kColumns>(product, [&]<class Shape>(const Product<T>& part) {
        coo_columns_group_per_strip<Shape><<<blocks_for(std::int64_t(strips()) * Shape::kGroup, kColumnsBlockSize),
                                             kColumnsBlockSize, 0, native(stream)>>>(
            nnz, tuning.strip, row_indices.data(), col_indices.data(), values.data(), part, entering, leaving);
        check_launch("coo_columns_group_per_strip");
        const auto count = static_cast<index_t>(spans.size());
        if (count == 0) return;
        coo_columns_merge_warp_per_row<<<blocks_for(count, kColumnsBlockSize / kWarp), kColumnsBlockSize, 0,
                                         native(stream)>>>(spans.data(), count, part, entering, leaving);
        check_launch("coo_columns_merge_warp_per_row");
    });
}

#define INSTANTIATE(T) template void Coo<T>::multiply_columns_cuda(const Product<T>&, Stream) const;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
