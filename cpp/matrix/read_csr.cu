#include "core/passes/lanes.hpp"
#include "gpu/cuda/passes.cuh"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace gpu {

// Calls body(lanes, i) for every i below n, with one lane or with the lanes of a warp.
template <class Body>
struct WithOneLane {
    Body body;
    __device__ void operator()(std::int64_t i) const { body(OneLane{}, i); }
};
template <class Body>
void each_by_lanes(const CudaPasses& passes, bool has_warps, std::int64_t n, const Body& body) {
    if (has_warps) return passes.each_in_step(n, body);
    passes.each(n, WithOneLane<Body>{body});
}

// Lists the entries of rows, see formats/rows.hpp, which have them by ascending column. A warp shares a long row, so
// that neighbours are written at once.
template <class T, class Rows>
void list_entries(const CudaPasses& passes, const Rows& rows, CsrMatrix<T>& csr) {
    constexpr index_t kLong = 24;
    const bool are_long = csr.nnz / kLong >= csr.rows;
    index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    T* const values = csr.values.data();
    each_by_lanes(passes, are_long, csr.rows, [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
        const auto place = static_cast<index_t>(i);
        const Row row = rows.row(place);
        const auto is_entry = [&](index_t k) {
            index_t col = -1;
            T value(0);
            rows.load(row, k, col, value);
            return index_t(col >= 0);
        };
        const index_t count = lanes.add_up(static_cast<index_t>(row.count), is_entry, [](index_t, index_t) {});
        lanes.once([&] { offsets[rows.number(place)] = count; });
    });
    passes.scan(offsets, csr.rows);
    each_by_lanes(passes, are_long, csr.rows, [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
        const auto place = static_cast<index_t>(i);
        const Row row = rows.row(place);
        const index_t begin = offsets[rows.number(place)];
        index_t col = -1;
        T value(0);
        const auto load = [&](index_t k) {
            col = -1;
            rows.load(row, k, col, value);
            return index_t(col >= 0);
        };
        lanes.add_up(static_cast<index_t>(row.count), load, [&](index_t, index_t before) {
            if (col < 0) return;
            cols[begin + before] = col;
            values[begin + before] = value;
        });
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
