// Walking the slots of one tile of `tsmv` on the CPU: as a product, and as a list of entries.
#pragma once

#include <algorithm>
#include <vector>

#include "formats/tsmv.hpp"

namespace spmvgpu {

// Calls visit(step, slot, thread) for every slot of a slice, step by step.
template <class T, class Visit>
void for_each_slot(const Tsmv<T>& tsmv, index_t slice, Visit visit) {
    for (index_t step = tsmv.slice_steps[slice]; step < tsmv.slice_steps[slice + 1]; ++step) {
        const index_t begin = tsmv.step_offsets[step], end = tsmv.step_offsets[step + 1];
        for (index_t slot = begin; slot < end; ++slot) visit(step, slot, slot - begin);
    }
}

// y += A * x for a slice, whose threads have a group of rows each. `sums` has room for threads * row_group.
template <class T>
void multiply_slice(const Tsmv<T>& tsmv, index_t slice, const T* x, T* y, T* sums) {
    const int threads = tsmv.tuning.threads, group = tsmv.tuning.row_group;
    const std::uint16_t* const rows = tsmv.thread_rows.data() + tsmv.row_place(slice, 0, 0);
    std::fill_n(sums, threads * group, T(0));
    for_each_slot(tsmv, slice, [&](index_t step, index_t slot, index_t thread) {
        const std::uint16_t column = tsmv.columns[slot];
        if (column == Tsmv<T>::kFake) return;
        T mirrored = 0;
        for (int i = 0; i < group && rows[i * threads + thread] != Tsmv<T>::kNoRow; ++i) {
            const T value = tsmv.values[tsmv.value_place(step, thread, i)];
            sums[i * threads + thread] += value * x[column];
            mirrored += value * x[rows[i * threads + thread]];
        }
        if (column < rows[thread]) y[column] += mirrored;
    });
    for (int i = 0; i < threads * group; ++i) {
        if (rows[i] != Tsmv<T>::kNoRow) y[rows[i]] += sums[i];
    }
}

// y += A * x for a block of the poster's variant, whose threads go from row to row. `sums` has room for its threads.
template <class T>
void multiply_block(const Tsmv<T>& tsmv, index_t slice, const T* x, T* y, T* sums) {
    std::fill_n(sums, tsmv.tuning.threads, T(0));
    for_each_slot(tsmv, slice, [&](index_t, index_t slot, index_t thread) {
        const std::uint32_t packed = tsmv.coordinates[slot];
        if (packed == TsmvCoordinate::kFake) return;
        const auto row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
        sums[thread] += tsmv.values[slot] * x[column];
        if (column < row) y[column] += tsmv.values[slot] * x[row];
        if ((packed & TsmvCoordinate::kLast) == 0) return;
        y[row] += sums[thread];
        sums[thread] = 0;
    });
}

// y += A * x for the entries of a tile and their mirror images, with x and y in the tile's numbering.
template <class T>
void multiply_tile(const Tsmv<T>& tsmv, index_t tile, const T* x, T* y) {
    std::vector<T> sums(tsmv.tuning.threads * tsmv.tuning.row_group);
    for (index_t slice = tsmv.tiles[tile].slice; slice < tsmv.tiles[tile + 1].slice; ++slice) {
        if (tsmv.tuning.variant == TsmvVariant::kHalo) {
            multiply_slice(tsmv, slice, x, y, sums.data());
        } else {
            multiply_block(tsmv, slice, x, y, sums.data());
        }
    }
}

// Calls visit(row, column, value) for every entry of a tile and its mirror image.
template <class T, class Visit>
void for_each_entry(const Tsmv<T>& tsmv, index_t tile, Visit visit) {
    const TsmvTile &at = tsmv.tiles[tile], &end = tsmv.tiles[tile + 1];
    const auto global = [&](index_t local) {
        const index_t halo = end.halo - at.halo;
        return local < halo ? tsmv.halo_columns[at.halo + local] : at.row + local - halo;
    };
    const auto visit_both = [&](index_t row, index_t column, T value, bool mirrored) {
        visit(global(row), global(column), value);
        if (mirrored) visit(global(column), global(row), value);
    };
    for (index_t slice = at.slice; slice < end.slice; ++slice) {
        for_each_slot(tsmv, slice, [&](index_t step, index_t slot, index_t thread) {
            if (tsmv.tuning.variant == TsmvVariant::kPoster) {
                const std::uint32_t packed = tsmv.coordinates[slot];
                if (packed == TsmvCoordinate::kFake) return;
                const index_t row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
                return visit_both(row, column, tsmv.values[slot], column < row);
            }
            const index_t column = tsmv.columns[slot], first = tsmv.thread_rows[tsmv.row_place(slice, thread, 0)];
            if (column == Tsmv<T>::kFake) return;
            for (int i = 0; i < tsmv.tuning.row_group; ++i) {
                const index_t row = tsmv.thread_rows[tsmv.row_place(slice, thread, i)];
                if (row == Tsmv<T>::kNoRow) break;
                visit_both(row, column, tsmv.values[tsmv.value_place(step, thread, i)], column < first);
            }
        });
    }
}

}  // namespace spmvgpu
