// The layout of a symmetric matrix in `tsmv`, decided from its pattern before any value is moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.hpp"
#include "core/types.hpp"
#include "formats/tsmv/node_pattern.hpp"

namespace spmvgpu {

enum class TsmvVariant { kHalo, kPoster };

// The begin of a tile; it ends where the next one begins.
struct TsmvTile {
    index_t node, halo, slice;
};

// The destination of a block of the stored triangle: its column in the numbering of its tile, and the step of its slice
// in which its thread multiplies it.
struct alignas(4) Placement {
    static constexpr std::uint16_t kDropped = 0xFFFF;  // as a step: the block is left to the remainder

    std::uint16_t column = 0, step = 0;
};

struct StepUse {
    std::uint16_t blocks = 0;   // blocks in the step
    std::uint16_t threads = 0;  // threads up to the last of these blocks
};

struct TsmvLimits {
    static constexpr index_t kWarp = 32;
    // Two thread blocks fit on a multiprocessor of an H200, and one on any other.
    static constexpr std::int64_t kMaxSharedBytes = 96 << 10;

    TsmvVariant variant;
    int threads;     // per thread block
    int tile_nodes;  // nodes of a tile, at most
    int block;       // rows of a node, at most
    int value_bytes;

    constexpr bool is_poster() const { return variant == TsmvVariant::kPoster; }
    constexpr int slot_bytes() const { return block * block * value_bytes + (is_poster() ? 4 : 2); }
    // Most blocks of a node; a longer one is a hub. With this bound a tile of one node always fits.
    constexpr index_t max_blocks() const { return value_bytes > 8 ? 768 : 1536; }
    // Bytes that a thread block needs for x and y in the tile's numbering, and for the begins of its steps.
    constexpr std::int64_t shared_bytes(std::int64_t local_nodes, std::int64_t steps) const {
        return 2 * local_nodes * block * value_bytes + (steps + 1) * static_cast<std::int64_t>(sizeof(index_t));
    }
    constexpr bool fits(std::int64_t local_nodes, std::int64_t steps) const {
        return shared_bytes(local_nodes, steps) <= kMaxSharedBytes;
    }
    // Slots of a step in a slice with this many nodes: whole warps up to the last thread with a block, but not more
    // than the slice has nodes.
    constexpr index_t slots(const StepUse& use, index_t slice_nodes) const {
        const index_t whole = (use.threads + kWarp - 1) / kWarp * kWarp;
        return whole < slice_nodes ? whole : slice_nodes;
    }
};

// A matrix cut into tiles of at most limits.tile_nodes nodes each, fewer if a thread block's shared memory would not
// hold them. All arrays are on the matrix's device.
struct TsmvLayout {
    static constexpr std::uint16_t kNone = 0xFFFF;

    TsmvLimits limits{};
    NodePattern pattern;
    Array<Placement> blocks;         // for each block of the pattern
    Array<std::uint16_t> positions;  // for each node: slice of its tile times threads, plus thread; or kNone
    Array<TsmvTile> tiles;           // length tile_count + 1
    Array<index_t> halo_nodes;       // tile by tile, ascending
    Array<index_t> slice_steps;      // length slices + 1: first step of each
    Array<index_t> step_offsets;     // length steps + 1: first slot of each
    index_t tile_count = 0, halo = 0, slices = 0, steps = 0;
    std::int64_t slots = 0;
    std::int64_t entries = 0, remainder = 0;  // of the matrix: in slots, and in the remainder
    std::int64_t shared_bytes = 0;            // for the most demanding thread block
    std::int64_t most_steps = 0;              // most steps of a tile
};

}  // namespace spmvgpu
