// Traversal of the slots of a tile of `tsmv` on the CPU, as a product and as a list of entries.
#pragma once

#include <algorithm>
#include <vector>

#include "core/dispatch.hpp"
#include "formats/tsmv/layout.hpp"

namespace spmvgpu {

// Calls visit(step, slot, thread) for every slot of a slice, step by step.
template <class T, class Visit>
void for_each_slot(const Tsmv<T>& tsmv, index_t slice, Visit visit) {
    for (index_t step = tsmv.slice_steps[slice]; step < tsmv.slice_steps[slice + 1]; ++step) {
        const index_t begin = tsmv.step_offsets[step], end = tsmv.step_offsets[step + 1];
        for (index_t slot = begin; slot < end; ++slot) visit(step, slot, slot - begin);
    }
}

// y += A * x for the blocks of a slice and their mirror images.
template <class T, int kBlock>
void multiply_slice(const Tsmv<T>& tsmv, index_t slice, const T* x, T* y) {
    const Mirror<T> mirror = tsmv.mirror();
    const std::uint16_t* const nodes = tsmv.thread_nodes.data() + std::size_t(slice) * tsmv.tuning.threads;
    for_each_slot(tsmv, slice, [&](index_t step, index_t slot, index_t thread) {
        const std::uint16_t column = tsmv.columns[slot], node = nodes[thread];
        if (column == Tsmv<T>::kFake) return;
        const T* const values = tsmv.values.data() + tsmv.value_index(step, thread, 0);
        const index_t slots = tsmv.step_offsets[step + 1] - tsmv.step_offsets[step];
        for (int i = 0; i < kBlock; ++i) {
            for (int j = 0; j < kBlock; ++j) {
                const T value = values[(i * kBlock + j) * slots];
                y[node * kBlock + i] += value * x[column * kBlock + j];
                if (column != node) y[column * kBlock + j] += mirror(value) * x[node * kBlock + i];
            }
        }
    });
}

// y += A * x for a block of the poster's variant and its mirror image, without the flags: sums stay in registers.
template <class T>
void multiply_square(const Tsmv<T>& tsmv, index_t slice, const T* x, T* y) {
    const Mirror<T> mirror = tsmv.mirror();
    for_each_slot(tsmv, slice, [&](index_t, index_t slot, index_t) {
        const std::uint32_t packed = tsmv.coordinates[slot];
        if (packed == TsmvCoordinate::kFake) return;
        const auto row = TsmvCoordinate::row(packed), column = TsmvCoordinate::column(packed);
        y[row] += tsmv.values[slot] * x[column];
        if (column != row) y[column] += mirror(tsmv.values[slot]) * x[row];
    });
}

// y += A * x for the entries of a tile and their mirror images, with x and y in the tile's numbering.
template <class T>
void multiply_tile(const Tsmv<T>& tsmv, index_t tile, const T* x, T* y) {
    for (index_t slice = tsmv.tiles[tile].slice; slice < tsmv.tiles[tile + 1].slice; ++slice) {
        if (tsmv.tuning.variant == TsmvVariant::kPoster) {
            multiply_square(tsmv, slice, x, y);
        } else {
            dispatch<1, 2, 3>("block", tsmv.tuning.block,
                              [&]<int kBlock>() { multiply_slice<T, kBlock>(tsmv, slice, x, y); });
        }
    }
}

// Calls visit(row, column, index, is_mirrored) for every entry that a tile stores, with its index in `values` and
// whether it also stands for its mirror image.
template <class T, class Visit>
void for_each_stored_entry(const Tsmv<T>& tsmv, index_t tile, Visit visit) {
    const TsmvTile &at = tsmv.tiles[tile], &end = tsmv.tiles[tile + 1];
    const int width = tsmv.tuning.block, threads = tsmv.tuning.threads;
    const auto global = [&](index_t local) {
        const index_t halo = end.halo - at.halo;
        return local < halo ? tsmv.halo_nodes[at.halo + local] : at.node + local - halo;
    };
    const auto visit_block = [&](index_t step, index_t thread, index_t node, index_t column) {
        const index_t row = tsmv.first_row(node), rows = tsmv.first_row(node + 1) - row;
        const index_t col = tsmv.first_row(column), cols = tsmv.first_row(column + 1) - col;
        for (index_t i = 0; i < rows; ++i) {
            for (index_t j = 0; j < cols; ++j) {
                visit(row + i, col + j, tsmv.value_index(step, thread, i * width + j), node != column);
            }
        }
    };
    for (index_t slice = at.slice; slice < end.slice; ++slice) {
        for_each_slot(tsmv, slice, [&](index_t step, index_t slot, index_t thread) {
            if (tsmv.tuning.variant == TsmvVariant::kPoster) {
                const std::uint32_t packed = tsmv.coordinates[slot];
                if (packed == TsmvCoordinate::kFake) return;
                visit_block(step, thread, global(TsmvCoordinate::row(packed)), global(TsmvCoordinate::column(packed)));
            } else if (tsmv.columns[slot] != Tsmv<T>::kFake) {
                const index_t node = tsmv.thread_nodes[std::size_t(slice) * threads + thread];
                visit_block(step, thread, global(node), global(tsmv.columns[slot]));
            }
        });
    }
}

// Calls visit(row, column, value) for every entry of a tile and its mirror image.
template <class T, class Visit>
void for_each_entry(const Tsmv<T>& tsmv, index_t tile, Visit visit) {
    const Mirror<T> mirror = tsmv.mirror();
    for_each_stored_entry(tsmv, tile, [&](index_t row, index_t col, std::size_t index, bool is_mirrored) {
        visit(row, col, tsmv.values[index]);
        if (is_mirrored) visit(col, row, mirror(tsmv.values[index]));
    });
}

}  // namespace spmvgpu
