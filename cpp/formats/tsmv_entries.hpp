// Walking the slots of one tile of `tsmv` on the CPU: as a list of entries, and as a product.
#pragma once

#include <algorithm>
#include <vector>

#include "formats/tsmv.hpp"

namespace spmvgpu {

// Calls visit(slot, thread) for every slot of a slice, step by step.
template <class T, class Visit>
void for_each_slot(const Tsmv<T>& tsmv, index_t slice, Visit visit) {
    for (index_t step = tsmv.slice_steps[slice]; step < tsmv.slice_steps[slice + 1]; ++step) {
        const index_t begin = tsmv.step_offsets[step], end = tsmv.step_offsets[step + 1];
        for (index_t slot = begin; slot < end; ++slot) visit(slot, slot - begin);
    }
}

// y += A * x for the entries of a tile and their mirror images, with x and y in the tile's numbering.
template <class T>
void multiply_tile(const Tsmv<T>& tsmv, index_t tile, const T* x, T* y) {
    std::vector<T> sums(tsmv.tuning.threads);
    for (index_t slice = tsmv.tiles[tile].slice; slice < tsmv.tiles[tile + 1].slice; ++slice) {
        std::fill(sums.begin(), sums.end(), T(0));
        if (tsmv.tuning.variant == TsmvVariant::kHalo) {
            const std::uint16_t* const rows = tsmv.thread_rows.data() + std::size_t(slice) * tsmv.tuning.threads;
            for_each_slot(tsmv, slice, [&](index_t slot, index_t thread) {
                const std::uint16_t column = tsmv.columns[slot], row = rows[thread];
                if (column == Tsmv<T>::kFake) return;
                sums[thread] += tsmv.values[slot] * x[column];
                if (column != row) y[column] += tsmv.values[slot] * x[row];
            });
            for (int t = 0; t < tsmv.tuning.threads; ++t) {
                if (rows[t] != Tsmv<T>::kNoRow) y[rows[t]] += sums[t];
            }
        } else {
            for_each_slot(tsmv, slice, [&](index_t slot, index_t thread) {
                const std::uint32_t packed = tsmv.coordinates[slot];
                if (packed == TsmvCoordinate::kFake) return;
                const auto row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
                sums[thread] += tsmv.values[slot] * x[column];
                if (column != row) y[column] += tsmv.values[slot] * x[row];
                if ((packed & TsmvCoordinate::kLast) == 0) return;
                y[row] += sums[thread];
                sums[thread] = 0;
            });
        }
    }
}

// Calls visit(row, column, value) for every entry of a tile, all of which lie in the lower triangle.
template <class T, class Visit>
void for_each_entry(const Tsmv<T>& tsmv, index_t tile, Visit visit) {
    const TsmvTile &at = tsmv.tiles[tile], &end = tsmv.tiles[tile + 1];
    const auto global = [&](index_t local) {
        const index_t own = end.row - at.row;
        return local < own ? at.row + local : tsmv.halo_columns[at.halo + local - own];
    };
    for (index_t slice = at.slice; slice < end.slice; ++slice) {
        for_each_slot(tsmv, slice, [&](index_t slot, index_t thread) {
            if (tsmv.tuning.variant == TsmvVariant::kHalo) {
                if (tsmv.columns[slot] == Tsmv<T>::kFake) return;
                const index_t row = tsmv.thread_rows[std::size_t(slice) * tsmv.tuning.threads + thread];
                visit(global(row), global(tsmv.columns[slot]), tsmv.values[slot]);
            } else {
                const std::uint32_t packed = tsmv.coordinates[slot];
                if (packed == TsmvCoordinate::kFake) return;
                visit(global(TsmvCoordinate::row(packed)), global(TsmvCoordinate::column(packed)), tsmv.values[slot]);
            }
        });
    }
}

}  // namespace spmvgpu
