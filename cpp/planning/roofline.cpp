#include "planning/roofline.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/parallel.hpp"

namespace spmvgpu::roofline {

namespace {

constexpr double kMillion = 1e6;

// What fraction of a product's data the next one finds in a cache; the size is in caches.
double kept(double size, double all_up_to, double none_from) {
    return std::clamp((none_from - size) / (none_from - all_up_to), 0.0, 1.0);
}

// The place of so many lanes among those that features are for.
int place_of(int lanes) {
    return std::clamp(static_cast<int>(std::bit_width(static_cast<unsigned>(lanes))) - 1, 0, Features::kLaneCounts - 1);
}

// A matrix in a format.
class Work {
public:
    Work(const Subject& subject, const Stored& stored)
        : features(subject.features), stored(stored), subject_(subject), nnz_(features.nnz / kMillion) {}

    double rows() const { return std::max<index_t>(features.rows, 1); }

    // What every kernel pays for.
    Terms streams() const {
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
    Terms base() const {
        const double x_kept =
            kept(features.cols * double(subject_.item_bytes) / subject_.machine.cache_bytes, 0.8, 1.6);
        Terms terms = streams();
        terms[kXMemory] = features.long_run_sectors * nnz_ * (1 - x_kept);
        terms[kXCache] = features.run_sectors * nnz_;
        return terms;
    }

    // A kernel with so many lanes a row, neighbouring rows side by side.
    Terms by_rows(int lanes) const {
        const int i = place_of(lanes);
        Terms terms = base();
        terms[kXBlock] = features.block_sectors[i] * nnz_;
        terms[kXLoads] = features.warp_sectors[i] * nnz_;
        terms[kSteps] = features.warp_steps[i] / kMillion;
        terms[kChain] = double(features.longest) / lanes;
        terms[kThreads] = double(features.rows) * lanes / kMillion;
        return terms;
    }
    Terms by_rows_of_slots(int lanes) const {
        Terms terms = by_rows(lanes);
        terms[kSlots] = stored.slots / kMillion;
        return terms;
    }

    // A kernel that walks the entries one after the other, whatever rows they lie in.
    Terms by_entries() const {
        Terms terms = base();
        terms[kXLoads] = features.warp_sectors[5] * nnz_;
        terms[kEntries] = nnz_;
        terms[kRows] = features.rows / kMillion;
        return terms;
    }

    Terms csr_balanced() const {
        Terms terms = by_entries();
        terms[kDepth] = std::log1p(features.longest / 32.0);
        return terms;
    }

    Terms csr_b() const {
        Terms terms = by_entries();
        terms[kRounds] = stored.rounds / kMillion;
        terms[kChain] = stored.longest_rounds;
        terms[kCut] = features.longest > 32;
        return terms;
    }

    Terms coo() const {
        Terms terms = by_entries();
        terms[kEmpty] = features.empty_rows > 0;
        terms[kCut] = features.longest > 512;
        return terms;
    }

    Terms ellpack() const {
        Terms terms = by_rows_of_slots(1);
        terms[kSteps] = 0;  // it walks the padding too
        return terms;
    }

    Terms diagonals() const {
        Terms terms = streams();
        terms[kSlots] = stored.slots / kMillion;
        terms[kRows] = features.rows / kMillion;
        terms[kChain] = stored.slots / rows();
        return terms;
    }

    // Of neighbours that are the same stencil a warp reads each slot once, and of others once for each.
    Terms stencil() const {
        Terms terms = diagonals();
        terms[kChanges] = stored.changes * (features.nnz / rows()) / kMillion;
        return terms;
    }

    Terms hyb() const {
        const double in_coo = std::max(stored.coo_entries, 0.0), in_ell = stored.slots - in_coo;
        Terms terms = by_rows(1);
        terms[kSteps] = terms[kThreads] = 0;
        terms[kChain] = in_ell / rows();
        terms[kRows] = features.rows / kMillion;
        terms[kSlots] = in_ell / kMillion;
        terms[kEntries] = in_coo / kMillion;
        terms[kLaunches] = in_coo > 0;
        return terms;
    }

    Terms sell() const {
        constexpr int kLanes = 32;
        const int warps = stored.warps_per_slice, i = place_of(warps);
        const std::int64_t slices = (std::int64_t(features.rows) + kLanes - 1) / kLanes;
        const bool is_sorted = stored.sigma > 1;  // then neighbours in a slice are far apart in x
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

    // A row of blocks for each lane, which reads x once for all rows of a block.
    Terms bsell() const {
        const double block = std::max(stored.block, 1.0);
        Terms terms = sell();
        for (const Term shared : {kXBlock, kXLoads, kXChain, kChain, kThreads}) terms[shared] /= block;
        terms[kSlots] = stored.slots / (block * block) / kMillion;
        terms[kEntries] = nnz_;
        return terms;
    }

    // Half of the matrix is stored; what is not a value says where the values belong, and how the tiles meet.
    Terms tsmv() const {
        Terms terms = streams();
        terms[kIndices] = std::max(0.0, stored.bytes - stored.slots * subject_.item_bytes) / kMillion;
        terms[kSlots] = stored.slots / kMillion;
        terms[kRows] = features.rows / kMillion;
        terms[kChain] = features.longest;
        return terms;
    }

    Terms of_entries_and_slots() const {
        Terms terms = by_entries();
        terms[kSlots] = stored.slots / kMillion;
        return terms;
    }

    // Any format on the CPU: threads walk slots and entries row by row, each its part, or one thread does.
    Terms on_cpu(const std::string& format) const {
        const Machine& machine = subject_.machine;
        // A slot that stands for an entry and its mirror image is multiplied twice.
        const double multiplied = stored.padding * features.nnz;
        const bool has_coo = stored.coo_entries >= 0;
        const double entries = has_coo ? stored.coo_entries : features.nnz;
        const double slots = has_coo ? multiplied - entries : multiplied;
        const bool serial = piece_count(static_cast<std::int64_t>(multiplied + features.rows)) == 1;
        // Of what the busiest thread does; so costs hold for any number of them.
        const double even = serial ? 1.0 : 1.0 / machine.processors;
        // A thread reads from memory at a rate of its own; of more threads than were measured no more is known.
        const double from_memory = serial ? 1.0 : 1.0 / std::min(machine.processors, machine.measured_processors);
        const double by_rows = serial ? 1.0 : part_by_rows(format, even);
        const Terms whole = base();
        Terms terms{};
        terms[kLaunch] = 1;
        terms[kWake] = !serial;
        terms[kMemory] = whole[kMemory] * from_memory;
        terms[kSharedCache] = serial ? 0.0 : whole[kCache];
        terms[kCache] = whole[kCache] * by_rows;
        terms[kXMemory] = whole[kXMemory] * from_memory;
        terms[kXCache] = whole[kXCache] * by_rows;
        terms[kEntries] = entries * (format == "hyb" ? even : by_rows) / kMillion;
        terms[kSlots] = slots * by_rows / kMillion;
        terms[kRows] = features.rows * by_rows / kMillion;
        return terms;
    }

    const Features& features;
    const Stored& stored;

private:
    // Rows that a thread of the CPU gets at least, as the costs of the shipped profile were fitted; the other formats
    // give a part of a row if need be.
    double part_by_rows(const std::string& format, double even) const {
        static const std::map<std::string, int> rows_of_a_thread = {
            {"ellpack", 2048}, {"ellpack_r", 2048}, {"ellr_t", 2048}, {"hyb", 2048}, {"dia", 512},
            {"sdia", 512},     {"stencil", 512},    {"sell", 32},     {"bsell", 32}, {"packed_sell", 32}};
        const auto least = rows_of_a_thread.find(format);
        if (least == rows_of_a_thread.end()) return even;
        const std::int64_t lanes = format == "ellr_t" ? stored.threads_per_row : 1;
        const std::int64_t parts = (features.rows * lanes + least->second - 1) / least->second;
        return 1.0 / std::clamp<double>(static_cast<double>(parts), 1, subject_.machine.processors);
    }

    const Subject& subject_;
    double nnz_;  // in millions
};

using TermsOf = Terms (*)(const Work&);

const std::map<std::string, TermsOf, std::less<>> kTermsOnGpu = {
    {"coo", [](const Work& work) { return work.coo(); }},
    {"csr", [](const Work& work) { return work.csr_balanced(); }},
    {"csr kernel=balanced", [](const Work& work) { return work.csr_balanced(); }},
    {"csr kernel=shuffle", [](const Work& work) { return work.by_rows(work.stored.lanes_per_row); }},
    {"csr kernel=shared", [](const Work& work) { return work.by_rows(32); }},
    {"csr kernel=half_warp", [](const Work& work) { return work.by_rows(16); }},
    {"csr_m", [](const Work& work) { return work.by_rows(32); }},
    {"csr_b", [](const Work& work) { return work.csr_b(); }},
    {"ellpack", [](const Work& work) { return work.ellpack(); }},
    {"ellpack_r", [](const Work& work) { return work.by_rows_of_slots(1); }},
    {"ellr_t", [](const Work& work) { return work.by_rows_of_slots(work.stored.threads_per_row); }},
    {"hyb", [](const Work& work) { return work.hyb(); }},
    {"dia", [](const Work& work) { return work.diagonals(); }},
    {"sell", [](const Work& work) { return work.sell(); }},
    {"bsell", [](const Work& work) { return work.bsell(); }},
    {"packed_sell", [](const Work& work) { return work.sell(); }},  // with its own bytes; unpacking is in a slot's cost
    {"sdia", [](const Work& work) { return work.diagonals(); }},
    {"stencil", [](const Work& work) { return work.stencil(); }},
    {"tsmv", [](const Work& work) { return work.tsmv(); }},
};

}  // namespace

void Stored::set_option(std::string_view name, std::int64_t value) {
    for (const auto& [known, field] : {std::pair{"lanes_per_row", &lanes_per_row},
                                       {"threads_per_row", &threads_per_row},
                                       {"warps_per_slice", &warps_per_slice},
                                       {"sigma", &sigma}}) {
        if (name == known) *field = static_cast<int>(value);
    }
}

void Stored::set_count(std::string_view name, double value) {
    for (const auto& [known, field] : {std::pair{"rounds", &rounds},
                                       {"longest_rounds", &longest_rounds},
                                       {"changes", &changes},
                                       {"block", &block},
                                       {"coo_entries", &coo_entries}}) {
        if (name == known) *field = value;
    }
}

Stored stored_by(const Cost& cost, const std::vector<OptionInfo>& options) {
    Stored stored;
    stored.bytes = static_cast<double>(cost.bytes);
    stored.slots = static_cast<double>(cost.slots);
    stored.padding = cost.padding();
    for (const auto& [name, value] : cost.counts) stored.set_count(name, value);
    for (const OptionInfo& option : options) {
        if (const auto* number = std::get_if<std::int64_t>(&option.value)) stored.set_option(option.name, *number);
    }
    return stored;
}

Terms terms_of(const std::string& name, const Subject& subject, const Stored& stored) {
    const Work work(subject, stored);
    if (!subject.machine.is_gpu) return work.on_cpu(name);
    const auto found = kTermsOnGpu.find(name);
    return found == kTermsOnGpu.end() ? work.of_entries_and_slots() : found->second(work);
}

Point point_of(const Features& features) {
    const double mean = std::max(features.mean, 0.1), lengths = std::max(features.mean, 1.0);
    return {std::log(std::max<double>(features.nnz, 1)),
            0.7 * std::log(std::max<double>(features.cols, 1)),
            std::log(mean),
            std::log(1 + features.longest / lengths),
            2 * std::log1p(features.deviation / lengths),
            2 * std::log(std::max(features.run_sectors, 0.01)),
            2 * std::log(std::max(features.warp_sectors[0], 0.01)),
            2 * std::log(std::max(features.warp_sectors[5], 0.01))};
}

double Variant::time_us(const Terms& terms) const {
    double total = 0;
    for (int term = 0; term < kTermCount; ++term) {
        const double cost = costs[term] * terms[term];
        if (cost > 0) total += norm == 1 ? cost : std::pow(cost, norm);
    }
    return norm == 1 ? total : std::pow(total, 1 / norm);
}

std::vector<double> weights_at(const Point& point, const std::vector<Point>& places) {
    constexpr double kReach = 1.0;
    std::vector<double> weights;
    weights.reserve(places.size());
    for (const Point& place : places) {
        double away = 0;
        for (std::size_t i = 0; i < point.size(); ++i) away += (place[i] - point[i]) * (place[i] - point[i]);
        weights.push_back(std::exp(away / (-2 * kReach * kReach)));
    }
    return weights;
}

double correction(const std::vector<double>& weights, const std::vector<double>& residuals) {
    constexpr double kPriorWeight = 0.5;  // how much a residual is mistrusted
    double residual = 0, weight = kPriorWeight;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (std::isnan(residuals[i])) continue;
        residual += weights[i] * residuals[i];
        weight += weights[i];
    }
    return std::exp(residual / weight);
}

Model::Model(const Machine& machine, int item_bytes, PlanBand plan_band, std::vector<Variant> variants,
             std::vector<Point> places)
    : machine_(machine),
      item_bytes_(item_bytes),
      plan_band_(plan_band),
      variants_(std::move(variants)),
      places_(std::move(places)) {}

Stored Model::of_band(const std::string& format, index_t block, const Target& target) const {
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = bands_.try_emplace({format, block, target.processors});
    if (is_new) {
        auto [stored, entries] = plan_band_(format, block, target);
        stored.slots /= entries;
        stored.bytes /= entries;
        found->second = std::move(stored);
    }
    return found->second;
}

Case::Case(std::shared_ptr<const Model> model, const Features& features, int processors)
    : model_(std::move(model)), subject_{features, model_->item_bytes(), model_->machine()} {
    subject_.machine.processors = processors;
    const std::vector<double> weights = weights_at(point_of(features), model_->places());
    for (const Variant& variant : model_->variants()) corrections_.push_back(correction(weights, variant.residuals));
}

double Case::time_us(std::size_t variant, const Stored& stored) const {
    const Variant& asked = model_->variants().at(variant);
    return asked.time_us(terms_of(asked.name, subject_, stored)) * corrections_[variant];
}

}  // namespace spmvgpu::roofline
