#include "formats/tsmv/build.hpp"

#include <algorithm>
#include <limits>

#include "core/errors.hpp"
#include "core/options.hpp"
#include "core/parallel.hpp"
#include "formats/tsmv/entries.hpp"

namespace spmvgpu {

namespace tsmv_choice {

void complete(TsmvTuning& tuning, index_t nodes, const Target& target, int value_bytes) {
    constexpr index_t kLikelyProcessors = 128;
    const bool poster = tuning.variant == TsmvVariant::kPoster;
    const index_t processors = target.device.is_gpu() ? target.processors : kLikelyProcessors;
    const auto tiles_per_processor = [&](int tile_nodes) { return nodes / tile_nodes / processors; };
    // Floats leave room for twice the rows in a tile, where there are tiles enough.
    const bool wide = value_bytes == 4 && tuning.block > 1 && tiles_per_processor(256) >= 3;
    if (tuning.threads == 0) tuning.threads = poster || tuning.block == 1 || wide ? 256 : 128;
    if (tuning.slices == 0) {
        // The larger a tile, the smaller its halo, and the more of the matrix lies in a square block. But every
        // multiprocessor should get some tiles to overlap, or one in the poster's variant.
        tuning.slices = poster ? 8 : tuning.block == 1 ? 4 : wide ? 2 : 1;
        const index_t enough = poster || wide ? 1 : 4;
        while (tuning.slices > 1 && tiles_per_processor(tuning.slices * tuning.threads) < enough) tuning.slices /= 2;
    }
    if (tuning.depth == 0) {
        // Blocks of several rows gain from a second batch of loads even where it costs resident threads, single rows do
        // not; all that registers allow, if few threads could be resident anyway.
        const index_t resident = (tiles_per_processor(tuning.slices * tuning.threads) + 1) * tuning.threads;
        tuning.depth = resident <= TsmvTuning::threads_to_hold(4) ? 4 : tuning.block > 1 ? 2 : 1;
    }
}

std::size_t array_bytes(const TsmvLayout& layout, index_t merge_nodes) {
    const NodePattern& pattern = layout.pattern;
    std::size_t indices = layout.slices + std::size_t(1) + layout.steps + 1 + 2 * std::size_t(layout.halo);
    if (!pattern.uniform()) indices += pattern.nodes + std::size_t(1);
    if (layout.halo > 0) indices += 2 * std::size_t(merge_nodes) + 1;
    std::size_t bytes = (layout.tile_count + std::size_t(1)) * sizeof(TsmvTile) + indices * sizeof(index_t) +
                        static_cast<std::size_t>(layout.slots) * layout.limits.slot_bytes();
    if (!layout.limits.is_poster()) {
        bytes += std::size_t(layout.slices) * layout.limits.threads * sizeof(std::uint16_t);
    }
    if (layout.remainder > 0) {
        bytes += static_cast<std::size_t>(layout.remainder) * (layout.limits.value_bytes + sizeof(index_t)) +
                 (pattern.matrix_rows + std::size_t(1)) * sizeof(index_t);
    }
    return bytes;
}

void check_memory(const TsmvLayout& layout, index_t merge_nodes, std::size_t csr_bytes, double max_memory) {
    constexpr std::size_t kAlwaysAllowed = 1 << 19;  // smaller layouts are never refused
    constexpr std::int64_t kMaxSlots = std::numeric_limits<index_t>::max();
    const std::size_t sums = std::size_t(layout.halo) * layout.limits.block * layout.limits.value_bytes;
    const std::size_t bytes = array_bytes(layout, merge_nodes) + sums;
    const double ratio = static_cast<double>(bytes) / static_cast<double>(csr_bytes);
    std::string why;
    if (layout.slots > kMaxSlots) {
        why = "has " + std::to_string(layout.slots) + " slots, more than 32-bit positions can count (" +
              std::to_string(bytes) + " bytes)";
    } else if (bytes > kAlwaysAllowed && ratio > max_memory) {
        why = "takes " + std::to_string(bytes) + " bytes, " + format_number(ratio) +
              " times those of csr, above max_memory=" + format_number(max_memory);
    } else {
        return;
    }
    throw FormatError("format 'tsmv' does not fit this matrix: it " + why + "; format 'csr' fits in " +
                      std::to_string(csr_bytes) + " bytes");
}

}  // namespace tsmv_choice

namespace tsmv_sources {

template <class T>
Array<index_t> find(const Tsmv<T>& tsmv) {
    const CsrMatrix<T> csr = tsmv.to_csr();
    const index_t* const cols = csr.col_indices.data();
    const auto position = [&](index_t row, index_t col) {
        return static_cast<index_t>(first_not_below(cols, csr.row_offsets[row], csr.row_offsets[row + 1], col));
    };
    const std::size_t places = tsmv.values.size(), all_places = places + tsmv.remainder.nnz;
    Array<index_t> map(2 * all_places);
    index_t *const sources = map.data(), *const mirrors = sources + all_places;
    std::fill(map.begin(), map.end(), kPadding);

    constexpr std::int64_t kNanosecondsPerEntry = 50;
    parallel_for(tsmv.tile_count(), kNanosecondsPerEntry * tsmv.nnz, [&](index_t t) {
        for_each_stored_entry(tsmv, t, [&](index_t row, index_t col, std::size_t index, bool) {
            sources[index] = position(row, col);
            mirrors[index] = position(col, row);
        });
    });

    const Csr<T>& rest = tsmv.remainder;
    // In the remainder too, entries above the diagonal of blocks are the mirror images of the ones below.
    const auto node_of = [&](index_t row) {
        const auto nodes = static_cast<std::int64_t>(tsmv.node_rows.size());
        return nodes == 0 ? row / tsmv.tuning.block
                          : static_cast<index_t>(first_above(tsmv.node_rows.data(), 0, nodes, row)) - 1;
    };
    parallel_for(rest.rows, kNanosecondsPerEntry * rest.nnz, [&](index_t row) {
        for (index_t k = rest.row_offsets[row]; k < rest.row_offsets[row + 1]; ++k) {
            const index_t col = rest.col_indices[k], here = position(row, col), there = position(col, row);
            const bool is_mirrored = node_of(col) > node_of(row);
            sources[places + k] = is_mirrored ? mirror_of(there) : here;
            mirrors[places + k] = is_mirrored ? here : there;
        }
    });
    return map;
}

#define INSTANTIATE(T) template Array<index_t> find(const Tsmv<T>&);
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace tsmv_sources

}  // namespace spmvgpu
