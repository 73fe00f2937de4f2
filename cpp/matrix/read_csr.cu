#include "core/passes/lanes.hpp"
#include "gpu/cuda/passes.cuh"
#include "matrix/conversion.hpp"

namespace spmvgpu {

namespace gpu {

// The entries of a row are `take(column, value)`, in their order.
template <class T, class Rows, class Take>
__device__ void each_entry_of(const Rows& rows, const Row& row, const Take& take) {
    for (unsigned k = 0; k < row.count; ++k) {
        index_t col = -1;
        T value(0);
        rows.load(row, k, col, value);
        if (col >= 0) take(col, value);
    }
}

template <class Rows>
constexpr bool are_in_order(const Rows& rows) {
    if constexpr (requires { rows.permutation; }) return rows.permutation == nullptr;
    return true;
}

// Lists the entries of rows, see formats/rows.hpp, of which each has few, by ascending column. A warp has neighbouring
// rows, each of its lanes one, and gathers their entries, so that neighbours are written at once.
template <class T, class Rows>
void list_short_rows(const CudaPasses& passes, const Rows& rows, CsrMatrix<T>& csr) {
    index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    T* const values = csr.values.data();
    passes.each(csr.rows, [=] SPMVGPU_BODY(std::int64_t i) {
        index_t count = 0;
        each_entry_of<T>(rows, rows.row(static_cast<index_t>(i)), [&](index_t, const T&) { ++count; });
        offsets[rows.number(static_cast<index_t>(i))] = count;
    });
    passes.scan(offsets, csr.rows);
    const bool is_ordered = are_in_order(rows);  // otherwise the rows of a warp are apart
    const index_t all = csr.rows, room = is_ordered ? kWarp * (csr.nnz / std::max(all, 1) + 1) : 0;
    const std::int64_t words = (room * (sizeof(T) + sizeof(index_t)) + sizeof(Word) - 1) / sizeof(Word);
    passes.each_in_step_with(
        (std::int64_t(all) + kWarp - 1) / kWarp, words,
        [=] SPMVGPU_BODY(const auto& lanes, std::int64_t warp, Word* memory) {
            const auto first = static_cast<index_t>(warp * kWarp), of_warp = min(all - first, index_t(kWarp));
            const index_t begin = offsets[first], count = offsets[first + of_warp] - begin;
            const bool is_staged = is_ordered && count <= room;
            T* const to_values = is_staged ? reinterpret_cast<T*>(memory) : values;
            index_t* const to_cols = is_staged ? reinterpret_cast<index_t*>(to_values + room) : cols;
            lanes.share(of_warp, [&](index_t i) {
                index_t to = offsets[rows.number(first + i)] - (is_staged ? begin : 0);
                each_entry_of<T>(rows, rows.row(first + i), [&](index_t col, const T& value) {
                    to_cols[to] = col;
                    to_values[to++] = value;
                });
            });
            if (!is_staged) return;
            lanes.share(count, [&](index_t i) {
                cols[begin + i] = to_cols[i];
                values[begin + i] = to_values[i];
            });
        });
}

// Lists the entries of long rows, of which a warp shares each.
template <class T, class Rows>
void list_long_rows(const CudaPasses& passes, const Rows& rows, CsrMatrix<T>& csr) {
    index_t *const offsets = csr.row_offsets.data(), *const cols = csr.col_indices.data();
    T* const values = csr.values.data();
    passes.each_in_step(csr.rows, [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
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
    passes.each_in_step(csr.rows, [=] SPMVGPU_BODY(const auto& lanes, std::int64_t i) {
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
                constexpr index_t kLong = 24;  // entries of a row
                if (csr.nnz / kLong >= csr.rows) {
                    gpu::list_long_rows(passes, gpu::rows_of(format), csr);
                } else {
                    gpu::list_short_rows(passes, gpu::rows_of(format), csr);
                }
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
