#include "formats/tsmv.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/errors.hpp"
#include "core/host_vector.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"
#include "formats/row_products.hpp"
#include "formats/symmetry.hpp"
#include "formats/tsmv_entries.hpp"

namespace spmvgpu {

namespace {

// Chooses what the tuning leaves open; what suits an H200. tune="full" tries the other values.
template <class T>
void complete(TsmvTuning& tuning, index_t nodes, const Target& target) {
    constexpr index_t kLikelyProcessors = 128;
    const bool poster = tuning.variant == TsmvVariant::kPoster;
    const index_t processors = target.device.is_cuda() ? target.processors : kLikelyProcessors;
    const auto tiles_per_processor = [&](int tile_nodes) { return nodes / tile_nodes / processors; };
    // Floats leave room for twice the rows in a tile, where there are tiles enough.
    const bool wide = sizeof(T) == 4 && tuning.block > 1 && tiles_per_processor(256) >= 3;
    if (tuning.threads == 0) tuning.threads = poster || tuning.block == 1 || wide ? 256 : 128;
    if (tuning.slices == 0) {
        // The larger a tile, the smaller its halo, and the more of the matrix lies in a square block; but every
        // multiprocessor should get some tiles to overlap, or, of the poster's, one.
        tuning.slices = poster ? 8 : tuning.block == 1 ? 4 : wide ? 2 : 1;
        const index_t enough = poster || wide ? 1 : 4;
        while (tuning.slices > 1 && tiles_per_processor(tuning.slices * tuning.threads) < enough) tuning.slices /= 2;
    }
    if (tuning.depth == 0) {
        // Blocks of several rows gain from a second batch under way even where it costs resident threads, single rows
        // do not; all that registers allow where few threads could be resident anyway.
        const index_t resident = (tiles_per_processor(tuning.slices * tuning.threads) + 1) * tuning.threads;
        tuning.depth = resident <= TsmvTuning::threads_to_hold(4) ? 4 : tuning.block > 1 ? 2 : 1;
    }
}

template <class T>
std::size_t array_bytes(const TsmvLayout& layout, index_t rows) {
    std::size_t indices = layout.slices + 1 + layout.steps + 1 + 2 * layout.halo;
    if (!layout.pattern.uniform()) indices += layout.pattern.rows.size();
    if (layout.halo > 0) indices += 2 * layout.merge_nodes + 1;
    std::size_t bytes = (layout.tiles.size() + 1) * sizeof(TsmvTile) + indices * sizeof(index_t) +
                        layout.slots * layout.limits.slot_bytes();
    if (layout.limits.variant == TsmvVariant::kHalo) {
        bytes += layout.slices * layout.limits.threads * sizeof(std::uint16_t);
    }
    if (layout.remainder > 0) {
        bytes += layout.remainder * (sizeof(T) + sizeof(index_t)) + (rows + std::size_t(1)) * sizeof(index_t);
    }
    return bytes;
}

template <class T>
void check_memory(const TsmvLayout& layout, const CsrMatrix<T>& matrix, double max_memory) {
    constexpr std::size_t kAlwaysAllowed = 1 << 19;  // below this nothing is worth refusing
    constexpr std::size_t kMaxSlots = std::numeric_limits<index_t>::max();
    const std::size_t bytes = array_bytes<T>(layout, matrix.rows) + layout.halo * layout.limits.block * sizeof(T);
    const std::size_t csr_bytes = matrix.bytes();
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

template <class T>
TsmvLayout lay_out(const CsrMatrix<T>& matrix, TsmvTuning& tuning, const Target& target) {
    tuning.symmetry = check_symmetric(Tsmv<T>::kName, matrix, tuning.symmetry);
    TsmvLayout layout;
    if (tuning.variant == TsmvVariant::kPoster) tuning.block = 1;
    layout.pattern = find_nodes(matrix.rows, matrix.row_offsets.data(), matrix.col_indices.data(), tuning.block,
                                sizeof(T), sizeof(std::uint16_t));
    tuning.block = layout.pattern.block;
    complete<T>(tuning, layout.pattern.nodes(), target);
    layout.limits = {tuning.variant, tuning.threads, tuning.threads * tuning.slices, tuning.block, int(sizeof(T))};
    layout.tiles = plan_tiles(layout.pattern, layout.limits);
    for (const TsmvTilePlan& tile : layout.tiles) {
        layout.halo += tile.halo_nodes.size();
        layout.slices += tile.slice_steps.size();
        layout.steps += tile.steps.size();
        layout.slots += tile.count_slots();
        layout.entries += tile.kept;
        layout.remainder += tile.remainder;
        layout.shared_bytes = std::max(layout.shared_bytes, tile.shared_bytes(layout.limits));
    }
    if (layout.halo > 0) {
        layout.contributions.assign(layout.pattern.nodes(), 0);
        for (const TsmvTilePlan& tile : layout.tiles) {
            for (const index_t node : tile.halo_nodes) layout.merge_nodes += layout.contributions[node]++ == 0;
        }
    }
    check_memory(layout, matrix, tuning.max_memory);
    return layout;
}

// Where tiles, slices and steps begin.
template <class T>
void number_tiles(const TsmvLayout& layout, Tsmv<T>& tsmv) {
    tsmv.tiles = Array<TsmvTile>(layout.tiles.size() + 1);
    tsmv.slice_steps = Array<index_t>(layout.slices + 1);
    tsmv.step_offsets = Array<index_t>(layout.steps + 1);
    TsmvTile at{0, 0, 0};
    index_t slot = 0;
    std::size_t step = 0;
    for (std::size_t t = 0; t < layout.tiles.size(); ++t) {
        const TsmvTilePlan& tile = layout.tiles[t];
        tsmv.tiles[t] = at;
        std::size_t first = 0;
        for (std::size_t s = 0; s < tile.slice_steps.size(); ++s) {
            tsmv.slice_steps[at.slice++] = static_cast<index_t>(step);
            for (index_t k = 0; k < tile.slice_steps[s]; ++k, ++step) {
                tsmv.step_offsets[step] = slot;
                slot += tile.slots(s, tile.steps[first++]);
            }
        }
        at.node += tile.nodes;
        at.halo += static_cast<index_t>(tile.halo_nodes.size());
    }
    tsmv.tiles[layout.tiles.size()] = at;
    tsmv.slice_steps[layout.slices] = static_cast<index_t>(step);
    tsmv.step_offsets[layout.steps] = slot;
}

// Puts the blocks of a tile into their slots, and fake ones into the others.
template <class T>
void fill_tile(const TsmvTilePlan& plan, const TsmvTile& at, const NodePattern& pattern, const CsrMatrix<T>& matrix,
               Tsmv<T>& tsmv) {
    const bool poster = tsmv.tuning.variant == TsmvVariant::kPoster;
    const int threads = tsmv.tuning.threads, width = tsmv.tuning.block;
    const auto fill = [](auto& array, std::size_t begin, std::size_t end, auto value) {
        std::fill(array.begin() + begin, array.begin() + end, value);
    };
    const index_t slice_end = at.slice + static_cast<index_t>(plan.slice_steps.size());
    const std::size_t begin = tsmv.step_offsets[tsmv.slice_steps[at.slice]];
    const std::size_t end = tsmv.step_offsets[tsmv.slice_steps[slice_end]];
    fill(tsmv.values, begin * width * width, end * width * width, T(0));
    if (poster) {
        fill(tsmv.coordinates, begin, end, TsmvCoordinate::kFake);
    } else {
        fill(tsmv.columns, begin, end, Tsmv<T>::kFake);
        fill(tsmv.thread_nodes, std::size_t(at.slice) * threads, std::size_t(slice_end) * threads, Tsmv<T>::kNoNode);
    }
    std::copy(plan.halo_nodes.begin(), plan.halo_nodes.end(), tsmv.halo_nodes.begin() + at.halo);

    const Placement* block = plan.blocks.data();
    const index_t* column = pattern.columns.data() + pattern.offsets[at.node];
    for (index_t n = 0; n < plan.nodes; ++n) {
        const index_t node = at.node + n, blocks = pattern.offsets[node + 1] - pattern.offsets[node];
        const index_t slice = at.slice + plan.positions[n] / threads, thread = plan.positions[n] % threads;
        const index_t* const offsets = matrix.row_offsets.data() + pattern.rows[node];
        index_t last_slot = -1;
        // `at_column`: of a block in each of the node's rows.
        for (index_t i = 0, at_column = 0; i < blocks; at_column += pattern.rows_of(*column), ++i, ++block, ++column) {
            if (block->step == Placement::kDropped) continue;
            const index_t step = tsmv.slice_steps[slice] + block->step;
            const index_t slot = tsmv.step_offsets[step] + thread;
            for (int r = 0; r < pattern.rows_of(node); ++r) {
                for (int c = 0; c < pattern.rows_of(*column); ++c) {
                    tsmv.values[tsmv.value_index(step, thread, r * width + c)] =
                        matrix.values[offsets[r] + at_column + c];
                }
            }
            if (poster) {
                tsmv.coordinates[slot] = TsmvCoordinate::pack(n, block->column);
                last_slot = std::max(last_slot, slot);
            } else {
                tsmv.columns[slot] = block->column;
            }
        }
        if (poster && last_slot >= 0) tsmv.coordinates[last_slot] |= TsmvCoordinate::kLast;
        if (!poster && plan.positions[n] != NodeTask::kNone) {
            tsmv.thread_nodes[std::size_t(slice) * threads + thread] =
                static_cast<std::uint16_t>(plan.halo_nodes.size() + n);
        }
    }
}

// For every node that lies in halos, where its sums lie there, in order.
template <class T>
void list_merges(const TsmvLayout& layout, Tsmv<T>& tsmv) {
    if (layout.halo == 0) return;
    tsmv.merge_nodes = Array<index_t>(layout.merge_nodes);
    tsmv.merge_offsets = Array<index_t>(layout.merge_nodes + 1);
    tsmv.merge_sources = Array<index_t>(layout.halo);
    HostVector<index_t> next(layout.contributions.size());
    index_t count = 0, offset = 0;
    for (std::size_t node = 0; node < next.size(); ++node) {
        if (layout.contributions[node] == 0) continue;
        tsmv.merge_nodes[count] = static_cast<index_t>(node);
        tsmv.merge_offsets[count++] = next[node] = offset;
        offset += layout.contributions[node];
    }
    tsmv.merge_offsets[count] = offset;
    for (std::size_t source = 0; source < layout.halo; ++source) {
        tsmv.merge_sources[next[tsmv.halo_nodes[source]]++] = static_cast<index_t>(source);
    }
}

// The dropped blocks and their mirror images. Row by row, an entry (i, j) goes to row i and its mirror image to row j:
// so every row gets its columns in ascending order, first the lower ones, then, from later rows, the upper ones. The
// blocks on the diagonal are their own mirror images.
template <class T>
CsrMatrix<T> take_remainder(const TsmvLayout& layout, const CsrMatrix<T>& matrix, Mirror<T> mirror) {
    auto csr = CsrMatrix<T>::allocate(matrix.rows, matrix.rows, static_cast<index_t>(layout.remainder));
    const NodePattern& pattern = layout.pattern;
    const auto visit_dropped_in_row = [&](const TsmvTilePlan& tile, index_t node, index_t row, auto visit) {
        index_t k = matrix.row_offsets[row];
        for (index_t i = pattern.offsets[node]; i < pattern.offsets[node + 1]; ++i) {
            const index_t column = pattern.columns[i], end = k + pattern.rows_of(column);
            if (tile.blocks[i - pattern.offsets[tile.node_begin]].step != Placement::kDropped) k = end;
            for (; k < end; ++k) visit(row, matrix.col_indices[k], matrix.values[k], column < node);
        }
    };
    const auto for_each_dropped = [&](auto visit) {
        InterruptTimer timer;
        for (const TsmvTilePlan& tile : layout.tiles) {
            if (tile.remainder == 0) continue;
            timer.work(static_cast<long>(tile.blocks.size()));
            for (index_t node = tile.node_begin; node < tile.node_begin + tile.nodes; ++node) {
                for (index_t row = pattern.rows[node]; row < pattern.rows[node + 1]; ++row) {
                    visit_dropped_in_row(tile, node, row, visit);
                }
            }
        }
    };
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    for_each_dropped([&](index_t row, index_t col, T, bool mirrored) {
        ++csr.row_offsets[row + 1];
        if (mirrored) ++csr.row_offsets[col + 1];
    });
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto put = [&](index_t row, index_t col, T value) {
        csr.col_indices[next[row]] = col;
        csr.values[next[row]++] = value;
    };
    for_each_dropped([&](index_t row, index_t col, T value, bool mirrored) {
        put(row, col, value);
        if (mirrored) put(col, row, mirror(value));
    });
    return csr;
}

}  // namespace

std::vector<Options> TsmvTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t threads : {128, 256}) {
        for (std::int64_t slices : {1, 2, 4}) {
            for (std::int64_t depth : {1, 2, 4}) {
                list.push_back({{"threads", threads}, {"slices", slices}, {"depth", depth}});
            }
        }
    }
    return list;
}

template <class T>
TsmvPlan<T> Tsmv<T>::plan(const CsrMatrix<T>& csr, const Tuning& tuning, const Target& target) {
    TsmvPlan<T> plan;
    plan.tuning = tuning;
    plan.layout = lay_out(csr, plan.tuning, target);
    const TsmvLayout& layout = plan.layout;
    const int block = plan.tuning.block;
    plan.cost.bytes = array_bytes<T>(layout, csr.rows) + Tsmv::halo_bytes(layout.halo, block);
    plan.cost.slots = static_cast<std::int64_t>(layout.slots * block * block + layout.remainder);
    plan.cost.entries = static_cast<std::int64_t>(layout.entries + layout.remainder);
    plan.cost.gathers = static_cast<std::int64_t>(layout.halo * block + csr.rows + layout.remainder);
    if (target.device.is_cuda()) plan.cost.launches = (csr.rows > 0) + (layout.merge_nodes > 0);
    if (layout.remainder > 0) {
        plan.remainder = take_remainder(layout, csr, Mirror<T>(plan.tuning.symmetry == Symmetry::kHermitian));
        plan.remainder_plan = Csr<T>::plan(plan.remainder, {}, target);
        plan.cost.bytes += plan.remainder_plan.cost.bytes - plan.remainder.bytes();
        plan.cost.launches += plan.remainder_plan.cost.launches;
    }
    return plan;
}

template <class T>
Tsmv<T> Tsmv<T>::from_csr(const CsrMatrix<T>& matrix, const Plan& plan) {
    const TsmvLayout& layout = plan.layout;
    Tsmv tsmv;
    tsmv.rows = matrix.rows;
    tsmv.cols = matrix.cols;
    tsmv.nnz = matrix.nnz;
    tsmv.tuning = plan.tuning;
    tsmv.shared_bytes = layout.shared_bytes;
    number_tiles(layout, tsmv);
    const bool halo = tsmv.tuning.variant == TsmvVariant::kHalo;
    if (!layout.pattern.uniform()) tsmv.node_rows = Array<index_t>::from(layout.pattern.rows);
    tsmv.halo_nodes = Array<index_t>(layout.halo);
    tsmv.thread_nodes = Array<std::uint16_t>(halo ? layout.slices * layout.limits.threads : 0);
    tsmv.columns = Array<std::uint16_t>(halo ? layout.slots : 0);
    tsmv.coordinates = Array<std::uint32_t>(halo ? 0 : layout.slots);
    tsmv.values = Array<T>(layout.slots * layout.limits.block * layout.limits.block);
    parallel_for(layout.tiles.size(), static_cast<std::int64_t>(layout.slots),
                 [&](std::size_t t) { fill_tile(layout.tiles[t], tsmv.tiles[t], layout.pattern, matrix, tsmv); });
    list_merges(layout, tsmv);
    if (layout.remainder > 0) tsmv.remainder = Csr<T>::from_csr(plan.remainder, plan.remainder_plan);
    return tsmv;
}

template <class T>
CsrMatrix<T> Tsmv<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows, cols, nnz);
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    const auto count = [&](index_t row, index_t, T) { ++csr.row_offsets[row + 1]; };
    const auto visit_tiles = [this](const auto& visit) {
        for (index_t t = 0; t < tile_count(); ++t) {
            for_each_entry(*this, t, visit);
            check_interrupt();
        }
    };
    visit_tiles(count);
    for (index_t row = 0; row < remainder.rows; ++row) {
        csr.row_offsets[row + 1] += remainder.row_offsets[row + 1] - remainder.row_offsets[row];
    }
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());

    struct Entry {
        index_t col;
        T value;
    };
    HostVector<Entry> entries(nnz);
    HostVector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto put = [&](index_t row, index_t col, T value) { entries[next[row]++] = {col, value}; };
    visit_tiles(put);
    parallel_for(rows, nnz, [&](index_t row) {
        for (index_t k = remainder.rows ? remainder.row_offsets[row] : 0;
             remainder.rows && k < remainder.row_offsets[row + 1]; ++k) {
            entries[next[row]++] = {remainder.col_indices[k], remainder.values[k]};
        }
        const index_t begin = csr.row_offsets[row], end = csr.row_offsets[row + 1];
        std::sort(entries.begin() + begin, entries.begin() + end,
                  [](const Entry& a, const Entry& b) { return a.col < b.col; });
        for (index_t k = begin; k < end; ++k) {
            csr.col_indices[k] = entries[k].col;
            csr.values[k] = entries[k].value;
        }
    });
    return csr;
}

template <class T>
void Tsmv<T>::spmv(const Product<T>& product) const {
    auto* const halo_sums = static_cast<T*>(product.scratch);
    const int width = tuning.block;
    const index_t slots = step_offsets.size() ? step_offsets[step_offsets.size() - 1] : 0;
    // A node's part of a vector, `width` values of which it may use fewer.
    const auto rows_of = [this](index_t node) { return first_row(node + 1) - first_row(node); };
    parallel_ranges(tile_count(), std::int64_t(slots) * width + rows, [&](std::int64_t first, std::int64_t last) {
        std::vector<T> x, y;  // of a tile, in its numbering
        for (auto t = static_cast<index_t>(first); t < last; ++t) {
            const TsmvTile &at = tiles[t], &end = tiles[t + 1];
            const index_t halo = end.halo - at.halo, nodes = halo + end.node - at.node;
            x.assign(nodes * width, T(0));
            y.assign(nodes * width, T(0));
            for (index_t n = 0; n < nodes; ++n) {
                const index_t node = n < halo ? halo_nodes[at.halo + n] : at.node + n - halo;
                std::copy_n(product.x + first_row(node), rows_of(node), x.begin() + n * width);
            }
            multiply_tile(*this, t, x.data(), y.data());
            std::copy_n(y.begin(), halo * width, halo_sums + std::size_t(at.halo) * width);
            for (index_t node = at.node; node < end.node; ++node) {
                const T* const sums = y.data() + (halo + node - at.node) * width;
                const index_t row = first_row(node);
                for (int i = 0; i < rows_of(node); ++i) store_row(product, row + i, sums[i]);
            }
        }
    });
    const auto merges = static_cast<index_t>(merge_nodes.size());
    parallel_for(merges, merges * std::int64_t(width), [&](index_t m) {
        const index_t row = first_row(merge_nodes[m]);
        for (int i = 0; i < rows_of(merge_nodes[m]); ++i) {
            T sum = 0;
            for (index_t k = merge_offsets[m]; k < merge_offsets[m + 1]; ++k) {
                sum += halo_sums[std::size_t(merge_sources[k]) * width + i];
            }
            add_to_row(product, row + i, sum);
        }
    });
    if (remainder.nnz > 0) remainder.spmv(remainder_product(product));
}

#define INSTANTIATE(T) template struct Tsmv<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)

}  // namespace spmvgpu
