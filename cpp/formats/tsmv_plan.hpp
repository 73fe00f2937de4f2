// The layout of a symmetric matrix as `tsmv` stores it, decided from its pattern before any value is moved.
#pragma once

#include <cstddef>
#include <vector>

#include "core/types.hpp"
#include "formats/row_groups.hpp"
#include "formats/tsmv_schedule.hpp"

namespace spmvgpu {

enum class TsmvVariant { kHalo, kPoster };

// What the layout is to keep to.
struct TsmvLimits {
    TsmvVariant variant;
    int threads;      // of a block
    int tile_groups;  // groups of rows in a tile, at most
    int row_group;    // rows in a group, at most
    int value_bytes;

    int slot_bytes() const { return row_group * value_bytes + (variant == TsmvVariant::kHalo ? 2 : 4); }
};

// One tile, with everything but its values. Its numbering has the columns of its halo first, then its own rows.
struct TsmvTilePlan {
    index_t row_begin = 0, rows = 0;
    index_t group_begin = 0, groups = 0;
    std::vector<index_t> halo_columns;         // ascending
    std::vector<std::uint32_t> entry_offsets;  // length groups + 1: where the entries of each group begin
    std::vector<Placement> entries;            // of the last row of each group, up to the diagonal
    std::vector<std::uint16_t> positions;      // of each group: slice times threads plus thread, or GroupTask::kNone
    std::vector<StepUse> steps;                // of all slices, one after the other
    std::vector<index_t> slice_steps;          // how many of them each slice has
    std::vector<index_t> slice_groups;         // groups in each slice
    std::size_t kept = 0;                      // entries of the matrix that have a slot
    std::size_t remainder = 0;                 // entries of the matrix that are left to the remainder

    int local_columns() const { return static_cast<int>(halo_columns.size()) + rows; }
    // Slots of a step: whole warps up to the last thread with an entry, but no more than the slice has groups.
    index_t slots(std::size_t slice, const StepUse& use) const;
    std::size_t count_slots() const;
    // What a block needs: x and y in the tile's numbering, and where its steps begin.
    std::size_t shared_bytes(int value_bytes) const {
        return 2 * std::size_t(local_columns()) * value_bytes + (steps.size() + 1) * sizeof(index_t);
    }
};

// Tiles of at most limits.tile_groups groups each, fewer where a block's shared memory would not hold them. Entries
// that would cost much more in the tiles than in a general format are dropped from them: those of hubs, whose row or
// column takes a step for each. The same plan whatever the number of CPU threads.
std::vector<TsmvTilePlan> plan_tiles(const Pattern& pattern, const RowGroups& groups, const TsmvLimits& limits);

}  // namespace spmvgpu
