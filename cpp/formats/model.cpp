#include "formats/model.hpp"

#include <bit>

#include "core/parallel.hpp"

namespace spmvgpu::roofline {

namespace {

// What fraction of a product's data the next one finds in a cache; the size is in caches.
double kept(double size, double all_up_to, double none_from) {
    return std::clamp((none_from - size) / (none_from - all_up_to), 0.0, 1.0);
}

// The place of so many lanes among those that features are for.
int place_of(int lanes) {
    return std::clamp(static_cast<int>(std::bit_width(static_cast<unsigned>(lanes))) - 1, 0, Features::kLaneCounts - 1);
}

}  // namespace

Terms Work::streams() const {
    const double item = subject_.item_bytes, cache_bytes = subject_.machine.cache_bytes;
    const double vectors = features.rows * item + std::min(features.cols * item, 32.0 * features.nnz);
    const double stream = stored.bytes + vectors;
    // The matrix of the product before is still in the cache, all of it or, around the cache's size, some.
    const double in_cache = kept(stream / cache_bytes, 0.65, 1.35);
    Terms terms{};
    terms[kLaunch] = 1;
    terms[kMemory] = stream * (1 - in_cache) / kMillion;
    terms[kCache] = stream * in_cache / kMillion;
    return terms;
}

Terms Work::base() const {
    const double x_kept = kept(features.cols * double(subject_.item_bytes) / subject_.machine.cache_bytes, 0.8, 1.6);
    Terms terms = streams();
    terms[kXMemory] = features.long_run_sectors * nnz_ * (1 - x_kept);
    terms[kXCache] = features.run_sectors * nnz_;
    return terms;
}

Terms Work::by_rows(int lanes) const {
    const int i = place_of(lanes);
    Terms terms = base();
    terms[kXBlock] = features.block_sectors[i] * nnz_;
    terms[kXLoads] = features.warp_sectors[i] * nnz_;
    terms[kSteps] = features.warp_steps[i] / kMillion;
    terms[kChain] = double(features.longest) / lanes;
    terms[kThreads] = double(features.rows) * lanes / kMillion;
    return terms;
}

Terms Work::by_rows_of_slots(int lanes) const {
    Terms terms = by_rows(lanes);
    terms[kSlots] = stored.slots / kMillion;
    return terms;
}

Terms Work::by_slices(int warps, bool is_sorted) const {
    constexpr int kLanes = 32;
    const int i = place_of(warps);
    const std::int64_t slices = (std::int64_t(features.rows) + kLanes - 1) / kLanes;
    // Sorted rows that are neighbours in a slice are far apart in x.
    Terms terms = base();
    terms[kXBlock] = is_sorted ? nnz_ : features.block_sectors[i] * nnz_;
    terms[kXLoads] = is_sorted ? nnz_ : features.warp_sectors[0] * nnz_;
    terms[kChain] = double(features.longest) / warps;
    terms[kXChain] = features.longest * features.run_sectors;
    terms[kThreads] = double(kLanes * warps * slices) / kMillion;
    terms[kSlots] = stored.slots / kMillion;
    terms[kPermuted] = is_sorted ? features.rows / kMillion : 0.0;
    return terms;
}

Terms Work::by_entries() const {
    Terms terms = base();
    terms[kXLoads] = features.warp_sectors[5] * nnz_;
    terms[kEntries] = nnz_;
    terms[kRows] = features.rows / kMillion;
    return terms;
}

Terms Work::by_diagonals() const {
    Terms terms = streams();
    terms[kSlots] = stored.slots / kMillion;
    terms[kRows] = features.rows / kMillion;
    terms[kChain] = stored.slots / rows();
    return terms;
}

bool Work::is_serial() const { return piece_count(static_cast<std::int64_t>(multiplied() + features.rows)) == 1; }

std::int64_t Work::parts_of(int rows_of_a_part, int lanes) const {
    return (features.rows * std::int64_t(lanes) + rows_of_a_part - 1) / rows_of_a_part;
}

double Work::busiest(std::int64_t parts) const {
    if (is_serial()) return 1;
    return 1.0 / std::clamp<double>(static_cast<double>(parts), 1, subject_.machine.processors);
}

Terms Work::on_cpu(std::int64_t parts) const {
    const Machine& machine = subject_.machine;
    const bool serial = is_serial();
    // A thread reads from memory at a rate of its own; of more threads than were measured no more is known.
    const double from_memory = serial ? 1.0 : 1.0 / std::min(machine.processors, machine.measured_processors);
    // Costs are of what the busiest thread does, so that they hold for any number of threads.
    const double by_rows = busiest(parts);
    const Terms whole = base();
    Terms terms{};
    terms[kLaunch] = 1;
    terms[kWake] = !serial;
    terms[kMemory] = whole[kMemory] * from_memory;
    terms[kSharedCache] = serial ? 0.0 : whole[kCache];
    terms[kCache] = whole[kCache] * by_rows;
    terms[kXMemory] = whole[kXMemory] * from_memory;
    terms[kXCache] = whole[kXCache] * by_rows;
    terms[kEntries] = features.nnz * by_rows / kMillion;
    terms[kSlots] = multiplied() * by_rows / kMillion;
    terms[kRows] = features.rows * by_rows / kMillion;
    return terms;
}

}  // namespace spmvgpu::roofline
