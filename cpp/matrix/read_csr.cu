#include "gpu/cuda/passes.cuh"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace gpu {

// Lists the entries of rows, see formats/rows.hpp, which have them by ascending column.
template <class T, class Rows>
void list_entries(const CudaPasses& passes, const Rows& rows, CsrMatrix<T>& csr) {
    index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    T* const values = csr.values.data();
    passes.each(csr.rows, [=] SPMVGPU_BODY(std::int64_t i) {
        const auto place = static_cast<index_t>(i);
        const Row row = rows.row(place);
        index_t count = 0;
        for (unsigned k = 0; k < row.count; ++k) {
            index_t col = -1;
            T value(0);
            rows.load(row, k, col, value);
            count += col >= 0;
        }
        offsets[rows.number(place)] = count;
    });
    passes.scan(offsets, csr.rows);
    passes.each(csr.rows, [=] SPMVGPU_BODY(std::int64_t i) {
        const auto place = static_cast<index_t>(i);
        const Row row = rows.row(place);
        index_t to = offsets[rows.number(place)];
        for (unsigned k = 0; k < row.count; ++k) {
            index_t col = -1;
            T value(0);
            rows.load(row, k, col, value);
            if (col < 0) continue;
            cols[to] = col;
            values[to++] = value;
        }
    });
}

}  // namespace gpu

template <class T>
std::optional<CsrMatrix<T>> list_entries_on_gpu(const AnyFormat<T>& stored, int ordinal) {
    return std::visit(
        [&]<class Format>(const Format& format) -> std::optional<CsrMatrix<T>> {
            if constexpr (requires { gpu::rows_of(format); }) {
                gpu::CudaPasses passes(ordinal);
                CsrMatrix<T> csr{format.rows,
                                 format.cols,
                                 format.nnz,
                                 passes.template make<index_t>(format.rows + std::size_t(1)),
                                 passes.template make<index_t>(format.nnz),
                                 passes.template make<T>(format.nnz)};
                gpu::list_entries(passes, gpu::rows_of(format), csr);
                passes.finish();
                return csr;
            } else {
                return std::nullopt;
            }
        },
        stored);
}

#define INSTANTIATE(T) template std::optional<CsrMatrix<T>> list_entries_on_gpu(const AnyFormat<T>&, int);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
