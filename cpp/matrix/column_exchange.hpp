// Products of a matrix on a GPU with several vectors in host memory: the columns cross the bus together, once in each
// direction, and are arranged on the way as the matrix wants them.
#pragma once

#include "core/array.hpp"
#include "core/columns.hpp"
#include "core/mutex.hpp"
#include "gpu/transfer.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

template <class T>
class ColumnExchange {
public:
    // Complete when it returns. Threads take turns.
    void run(const AnyMatrix<T>& matrix, const Product<T>& product);

    std::size_t nbytes() const;

private:
    // Some columns of x or y in device memory: row by row, or column by column.
    struct Block {
        T* data;
        index_t length, count;
        bool by_rows;

        std::size_t bytes() const { return std::size_t(length) * count * sizeof(T); }
        Strides strides() const { return by_rows ? Strides{count, 1} : Strides{1, length}; }
        template <class Element>
        bool lies_like(const Columns<Element>& host) const {
            return host.row_stride == strides().row && host.column_stride == strides().column;
        }
    };
    index_t reserve(const AnyMatrix<T>& matrix, index_t columns);
    void send(const Block& block, const Columns<const T>& host, Stream stream);
    void fetch(const Block& block, const Columns<T>& host, Stream stream);

    mutable Mutex mutex_;
    Array<T> x_, y_;
    cuda::Staging staging_;
};

}  // namespace spmvgpu
