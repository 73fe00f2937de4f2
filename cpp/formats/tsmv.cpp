#include "formats/tsmv.hpp"

#include <algorithm>
#include <numeric>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "formats/row_products.hpp"
#include "formats/symmetry.hpp"
#include "formats/tsmv_entries.hpp"

namespace spmvgpu {

namespace {

// The plan of a matrix, and how long the arrays get.
struct Layout {
    TsmvLimits limits;
    RowGroups groups;
    std::vector<TsmvTilePlan> tiles;
    std::vector<index_t> contributions;  // for each row, how many tiles have it in their halo; empty without halos
    std::size_t halo = 0, slices = 0, steps = 0, slots = 0, entries = 0, merge_rows = 0, remainder = 0;
    std::size_t shared_bytes = 0;
};

// Chooses what the tuning leaves open. All figures measured on an H200.
void complete(TsmvTuning& tuning, index_t groups, const Target& target) {
    const bool poster = tuning.variant == TsmvVariant::kPoster;
    if (tuning.threads == 0) tuning.threads = poster || tuning.row_group == 1 ? 256 : 128;
    if (tuning.slices != 0) return;
    // The larger a tile, the smaller its halo; but every multiprocessor should get some tiles to overlap.
    constexpr index_t kTilesPerProcessor = 4, kLikelyProcessors = 128;
    const index_t processors = target.device.is_cuda() ? target.processors : kLikelyProcessors;
    tuning.slices = poster ? 8 : tuning.row_group == 1 ? 4 : 1;
    while (tuning.slices > 1 && groups / (tuning.slices * tuning.threads) < kTilesPerProcessor * processors) {
        tuning.slices /= 2;
    }
}

template <class T>
std::size_t array_bytes(const Layout& layout, index_t rows) {
    const bool halo = layout.limits.variant == TsmvVariant::kHalo;
    std::size_t bytes = (layout.tiles.size() + 1) * sizeof(TsmvTile) +
                        (layout.slices + 1 + layout.steps + 1 + 2 * layout.halo) * sizeof(index_t) +
                        layout.slots * layout.limits.slot_bytes();
    if (halo) {
        bytes += layout.slices * layout.limits.threads * layout.limits.row_group * sizeof(std::uint16_t);
    }
    if (layout.halo > 0) bytes += (2 * layout.merge_rows + 1) * sizeof(index_t);
    if (layout.remainder > 0) {
        bytes += layout.remainder * (sizeof(T) + sizeof(index_t)) + (rows + std::size_t(1)) * sizeof(index_t);
    }
    return bytes;
}

template <class T>
void check_memory(const Layout& layout, const Csr<T>& matrix, double max_memory) {
    constexpr std::size_t kAlwaysAllowed = 1 << 19;  // below this nothing is worth refusing
    const std::size_t bytes = array_bytes<T>(layout, matrix.rows) + layout.halo * sizeof(T);
    const std::size_t csr_bytes = Csr<T>::estimate(matrix, {}).bytes;
    const double ratio = static_cast<double>(bytes) / static_cast<double>(csr_bytes);
    std::string why;
    if (layout.slots > std::numeric_limits<index_t>::max()) {
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
Layout lay_out(const Csr<T>& matrix, TsmvTuning& tuning, const Target& target) {
    check_symmetric(Tsmv<T>::kName, matrix);
    Layout layout;
    const Pattern pattern{matrix.rows, matrix.row_offsets.data(), matrix.col_indices.data()};
    if (tuning.variant == TsmvVariant::kPoster) tuning.row_group = 1;
    layout.groups = group_rows(pattern, tuning.row_group, sizeof(T), sizeof(std::uint16_t));
    tuning.row_group = layout.groups.size;
    complete(tuning, layout.groups.count(), target);
    layout.limits = {tuning.variant, tuning.threads, tuning.threads * tuning.slices, tuning.row_group, int(sizeof(T))};
    layout.tiles = plan_tiles(pattern, layout.groups, layout.limits);
    for (const TsmvTilePlan& tile : layout.tiles) {
        layout.halo += tile.halo_columns.size();
        layout.slices += tile.slice_steps.size();
        layout.steps += tile.steps.size();
        layout.slots += tile.count_slots();
        layout.entries += tile.kept;
        layout.remainder += tile.remainder;
        layout.shared_bytes = std::max(layout.shared_bytes, tile.shared_bytes(sizeof(T)));
    }
    if (layout.halo > 0) {
        layout.contributions.assign(matrix.rows, 0);
        for (const TsmvTilePlan& tile : layout.tiles) {
            for (const index_t column : tile.halo_columns) layout.merge_rows += layout.contributions[column]++ == 0;
        }
    }
    check_memory(layout, matrix, tuning.max_memory);
    return layout;
}

// Where tiles, slices and steps begin.
template <class T>
void number_tiles(const Layout& layout, Tsmv<T>& tsmv) {
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
        at.row += tile.rows;
        at.halo += static_cast<index_t>(tile.halo_columns.size());
    }
    tsmv.tiles[layout.tiles.size()] = at;
    tsmv.slice_steps[layout.slices] = static_cast<index_t>(step);
    tsmv.step_offsets[layout.steps] = slot;
}

// Puts the entries of a tile into their slots, and fake ones into the others.
template <class T>
void fill_tile(const TsmvTilePlan& plan, const TsmvTile& at, const RowGroups& groups, const Csr<T>& matrix,
               Tsmv<T>& tsmv) {
    const bool poster = tsmv.tuning.variant == TsmvVariant::kPoster;
    const int threads = tsmv.tuning.threads, group_rows = tsmv.tuning.row_group;
    const auto fill = [](auto& array, std::size_t begin, std::size_t end, auto value) {
        std::fill(array.begin() + begin, array.begin() + end, value);
    };
    const index_t slice_end = at.slice + static_cast<index_t>(plan.slice_steps.size());
    const std::size_t begin = tsmv.step_offsets[tsmv.slice_steps[at.slice]];
    const std::size_t end = tsmv.step_offsets[tsmv.slice_steps[slice_end]];
    fill(tsmv.values, begin * group_rows, end * group_rows, T(0));
    if (poster) {
        fill(tsmv.coordinates, begin, end, TsmvCoordinate::kFake);
    } else {
        fill(tsmv.columns, begin, end, Tsmv<T>::kFake);
        const std::size_t per_slice = std::size_t(threads) * group_rows;
        fill(tsmv.thread_rows, at.slice * per_slice, slice_end * per_slice, Tsmv<T>::kNoRow);
    }
    std::copy(plan.halo_columns.begin(), plan.halo_columns.end(), tsmv.halo_columns.begin() + at.halo);
    const auto halo = static_cast<index_t>(plan.halo_columns.size());

    for (index_t g = 0; g < plan.groups; ++g) {
        if (plan.positions[g] == GroupTask::kNone) continue;
        const index_t slice = at.slice + plan.positions[g] / threads, thread = plan.positions[g] % threads;
        const index_t row_begin = groups.begins[plan.group_begin + g];
        const index_t row_end = groups.begins[plan.group_begin + g + 1];
        index_t last_slot = -1;
        for (auto i = plan.entry_offsets[g]; i < plan.entry_offsets[g + 1]; ++i) {
            const Placement entry = plan.entries[i];
            if (entry.step == Placement::kDropped) continue;
            const index_t step = tsmv.slice_steps[slice] + entry.step;
            const index_t slot = tsmv.step_offsets[step] + thread;
            for (index_t row = row_begin; row < row_end; ++row) {
                const std::size_t place = tsmv.value_place(step, thread, row - row_begin);
                tsmv.values[place] = matrix.values[matrix.row_offsets[row] + i - plan.entry_offsets[g]];
            }
            if (poster) {
                tsmv.coordinates[slot] = TsmvCoordinate::pack(row_begin - plan.row_begin, entry.column);
            } else {
                tsmv.columns[slot] = entry.column;
            }
            last_slot = std::max(last_slot, slot);
        }
        if (poster) {
            if (last_slot >= 0) tsmv.coordinates[last_slot] |= TsmvCoordinate::kLast;
        } else {
            for (index_t row = row_begin; row < row_end; ++row) {
                tsmv.thread_rows[tsmv.row_place(slice, thread, row - row_begin)] =
                    static_cast<std::uint16_t>(halo + row - plan.row_begin);
            }
        }
    }
}

// For every row that lies in halos, the places of its sums there, in order.
template <class T>
void list_merges(const Layout& layout, Tsmv<T>& tsmv) {
    if (layout.halo == 0) return;
    tsmv.merge_rows = Array<index_t>(layout.merge_rows);
    tsmv.merge_offsets = Array<index_t>(layout.merge_rows + 1);
    tsmv.merge_sources = Array<index_t>(layout.halo);
    std::vector<index_t> next(layout.contributions.size());
    index_t count = 0, offset = 0;
    for (std::size_t row = 0; row < next.size(); ++row) {
        if (layout.contributions[row] == 0) continue;
        tsmv.merge_rows[count] = static_cast<index_t>(row);
        tsmv.merge_offsets[count++] = next[row] = offset;
        offset += layout.contributions[row];
    }
    tsmv.merge_offsets[count] = offset;
    for (std::size_t source = 0; source < layout.halo; ++source) {
        tsmv.merge_sources[next[tsmv.halo_columns[source]]++] = static_cast<index_t>(source);
    }
}

// The dropped entries, both halves of them. Row by row, an entry (i, j) goes to row i and its mirror image to row j: so
// every row gets its columns in ascending order, first the lower ones, then, from later rows, the upper ones. Entries
// in a group's own columns are their own mirror images.
template <class T>
Csr<T> take_remainder(const Layout& layout, const Csr<T>& matrix) {
    Csr<T> csr;
    csr.rows = csr.cols = matrix.rows;
    csr.nnz = static_cast<index_t>(layout.remainder);
    csr.row_offsets = Array<index_t>(matrix.rows + std::size_t(1));
    csr.col_indices = Array<index_t>(csr.nnz);
    csr.values = Array<T>(csr.nnz);
    const auto for_each_dropped = [&](auto visit) {
        for (const TsmvTilePlan& tile : layout.tiles) {
            if (tile.remainder == 0) continue;
            for (index_t g = 0; g < tile.groups; ++g) {
                const index_t* const begin = &layout.groups.begins[tile.group_begin + g];
                for (index_t row = begin[0]; row < begin[1]; ++row) {
                    index_t k = matrix.row_offsets[row];
                    for (auto i = tile.entry_offsets[g]; i < tile.entry_offsets[g + 1]; ++i, ++k) {
                        if (tile.entries[i].step != Placement::kDropped) continue;
                        visit(row, matrix.col_indices[k], matrix.values[k], matrix.col_indices[k] < begin[0]);
                    }
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
    std::vector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto put = [&](index_t row, index_t col, T value) {
        csr.col_indices[next[row]] = col;
        csr.values[next[row]++] = value;
    };
    for_each_dropped([&](index_t row, index_t col, T value, bool mirrored) {
        put(row, col, value);
        if (mirrored) put(col, row, value);
    });
    return csr;
}

}  // namespace

std::vector<Options> TsmvTuning::candidates() {
    std::vector<Options> list;
    for (std::int64_t threads : {128, 256, 64}) {
        for (std::int64_t slices : {1, 2, 4}) list.push_back({{"threads", threads}, {"slices", slices}});
    }
    return list;
}

template <class T>
Estimate Tsmv<T>::estimate(const Csr<T>& matrix, const Tuning& given) {
    Tuning tuning = given;
    const Layout layout = lay_out(matrix, tuning, {});
    const auto stored = static_cast<double>(layout.entries + layout.remainder);
    const auto slots = static_cast<double>(layout.slots * tuning.row_group + layout.remainder);
    return {array_bytes<T>(layout, matrix.rows), slots / std::max(stored, 1.0)};
}

template <class T>
Tsmv<T> Tsmv<T>::from_csr(const Csr<T>& matrix, const Tuning& tuning, const Target& target) {
    Tsmv tsmv;
    tsmv.rows = matrix.rows;
    tsmv.cols = matrix.cols;
    tsmv.nnz = matrix.nnz;
    tsmv.tuning = tuning;
    const Layout layout = lay_out(matrix, tsmv.tuning, target);
    tsmv.shared_bytes = layout.shared_bytes;
    number_tiles(layout, tsmv);
    const bool halo = tuning.variant == TsmvVariant::kHalo;
    tsmv.halo_columns = Array<index_t>(layout.halo);
    tsmv.thread_rows = Array<std::uint16_t>(halo ? layout.slices * layout.limits.threads * layout.limits.row_group : 0);
    tsmv.columns = Array<std::uint16_t>(halo ? layout.slots : 0);
    tsmv.coordinates = Array<std::uint32_t>(halo ? 0 : layout.slots);
    tsmv.values = Array<T>(layout.slots * layout.limits.row_group);
#pragma omp parallel for num_threads(threads_for(layout.slots)) schedule(dynamic, 4)
    for (std::size_t t = 0; t < layout.tiles.size(); ++t) {
        fill_tile(layout.tiles[t], tsmv.tiles[t], layout.groups, matrix, tsmv);
    }
    list_merges(layout, tsmv);
    if (layout.remainder > 0) tsmv.remainder = Csr<T>::from_csr(take_remainder(layout, matrix), {}, target);
    return tsmv;
}

template <class T>
Csr<T> Tsmv<T>::to_csr() const {
    Csr<T> csr;
    csr.rows = rows;
    csr.cols = cols;
    csr.nnz = nnz;
    csr.row_offsets = Array<index_t>(rows + std::size_t(1));
    std::fill(csr.row_offsets.begin(), csr.row_offsets.end(), 0);
    const auto count = [&](index_t row, index_t, T) { ++csr.row_offsets[row + 1]; };
    for (index_t t = 0; t < tile_count(); ++t) for_each_entry(*this, t, count);
    for (index_t row = 0; row < remainder.rows; ++row) {
        csr.row_offsets[row + 1] += remainder.row_offsets[row + 1] - remainder.row_offsets[row];
    }
    std::partial_sum(csr.row_offsets.begin(), csr.row_offsets.end(), csr.row_offsets.begin());

    struct Entry {
        index_t col;
        T value;
    };
    std::vector<Entry> entries(nnz);
    std::vector<index_t> next(csr.row_offsets.begin(), csr.row_offsets.end() - 1);
    const auto put = [&](index_t row, index_t col, T value) { entries[next[row]++] = {col, value}; };
    for (index_t t = 0; t < tile_count(); ++t) for_each_entry(*this, t, put);
    csr.col_indices = Array<index_t>(nnz);
    csr.values = Array<T>(nnz);
#pragma omp parallel for num_threads(threads_for(nnz)) schedule(dynamic, 1024)
    for (index_t row = 0; row < rows; ++row) {
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
    }
    return csr;
}

template <class T>
void Tsmv<T>::spmv(const Product<T>& product) const {
    auto* const halo_sums = static_cast<T*>(product.scratch);
    const index_t slots = step_offsets.size() ? step_offsets[step_offsets.size() - 1] : 0;
#pragma omp parallel num_threads(threads_for(slots + std::int64_t(rows)))
    {
        std::vector<T> x, y;  // of a tile, in its numbering
#pragma omp for schedule(dynamic)
        for (index_t t = 0; t < tile_count(); ++t) {
            const TsmvTile &at = tiles[t], &end = tiles[t + 1];
            const index_t own = end.row - at.row, halo = end.halo - at.halo;
            x.resize(own + halo);
            for (index_t h = 0; h < halo; ++h) x[h] = product.x[halo_columns[at.halo + h]];
            std::copy_n(product.x + at.row, own, x.begin() + halo);
            y.assign(own + halo, T(0));
            multiply_tile(*this, t, x.data(), y.data());
            for (index_t r = 0; r < own; ++r) product.y[at.row + r] = scaled(y[halo + r], product, at.row + r);
            std::copy_n(y.begin(), halo, halo_sums + at.halo);
        }
    }
    const auto merges = static_cast<index_t>(merge_rows.size());
#pragma omp parallel for num_threads(threads_for(merges)) schedule(static)
    for (index_t i = 0; i < merges; ++i) {
        T sum = 0;
        for (index_t k = merge_offsets[i]; k < merge_offsets[i + 1]; ++k) sum += halo_sums[merge_sources[k]];
        product.y[merge_rows[i]] += product.alpha * sum;
    }
    if (remainder.nnz > 0) remainder.spmv(remainder_product(product));
}

template struct Tsmv<float>;
template struct Tsmv<double>;

}  // namespace spmvgpu
