#include "matrix/conversion.hpp"

#include <chrono>
#include <limits>
#include <optional>

#include "core/parallel.hpp"
#include "core/passes/csr_operations.hpp"
#include "formats/builder.hpp"
#include "gpu/run.hpp"
#include "gpu/runtime.hpp"
#include "matrix/csr_source.hpp"

namespace spmvgpu {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Brings every array of a format to its own memory on the device. All of it is asked for at once beforehand, so that a
// matrix that is too large fails before anything is allocated.
template <FormatContract Format>
void bring_to(Device device, Format& format) {
    std::size_t bytes = 0;
    Format::each_array(format, [&](const char*, auto& array) { bytes += array.bytes(); });
    gpu::require_memory(bytes, device);
    Format::each_array(format, [&](const char*, auto& array) { array = array.to(device); });
}

// The plan of a matrix, and the format, made on the GPU that the matrix is on, or in host memory. A format that is not
// built on a GPU is planned for a copy; it can be built only from a matrix in host memory.
template <class Format, class T>
typename Format::Plan plan_where_it_is(const CsrMatrix<T>& csr, const typename Format::Tuning& tuning,
                                       const Target& target) {
    if constexpr (kBuildsOnGpu<Format>) {
        if (csr.device().is_gpu()) return plan_on_gpu<Format>(csr, tuning, target);
    }
    return Format::plan(csr.device().has_own_memory() ? copy_to(csr, Device{}) : csr, tuning, target);
}
template <class Format, class T>
Format build_where_it_is(const CsrMatrix<T>& csr, const typename Format::Plan& plan) {
    if constexpr (kBuildsOnGpu<Format>) {
        if (csr.device().is_gpu()) return build_on_gpu<Format>(csr, plan);
    }
    return Format::from_csr(csr, plan);
}

}  // namespace

std::vector<FormatInfo> list_formats() {
    std::vector<FormatInfo> list;
    for_each_format<double>([&]<class Format>() {
        using Tuning = typename Format::Tuning;
        list.push_back({Format::kName, list_options(Tuning{}), Tuning::candidates(), Format::kTraits});
    });
    return list;
}

Target target_of(Device device) {
    return {device, device.is_gpu() ? gpu::properties(device.ordinal).multiprocessors : max_threads()};
}

template <class T>
MatrixPlan plan_matrix(const CsrMatrix<T>& csr, const std::string& format, const Options& options,
                       const Target& target) {
    MatrixPlan result;
    with_format<T>(format, [&]<class Format>() {
        const auto tuning = read_options<typename Format::Tuning>(format, options);
        auto plan = plan_where_it_is<Format>(csr, tuning, target);
        result.cost = plan.cost;
        result.options = list_options(plan.tuning);
        result.counts = counts_of(plan);
        if constexpr (requires { plan.longest_row; }) result.longest_row = plan.longest_row;
        result.made = std::move(plan);
        result.time_of = [](const roofline::Subject& subject, const MatrixPlan& plan, const Options& changed) {
            const roofline::Amount stored{double(plan.cost.bytes), double(plan.cost.slots), plan.cost.padding()};
            const auto& made = std::any_cast<const typename Format::Plan&>(plan.made);
            if (changed.empty()) return roofline::time_of<Format>(subject, stored, made);
            auto other = made;
            Options options = changed;
            for (const OptionInfo& choice : plan.options) options.try_emplace(choice.name, choice.value);
            other.tuning = read_options<typename Format::Tuning>(Format::kName, options);
            if constexpr (requires { other.tuning.sigma; }) {  // the window of the sort of rows; 0: unsorted
                if (other.tuning.sigma == 0) other.tuning.sigma = made.tuning.sigma;
                if (other.tuning.sigma != made.tuning.sigma)
                    return times::Time{.us = std::numeric_limits<double>::infinity()};
            }
            return roofline::time_of<Format>(subject, stored, other);
        };
    });
    return result;
}

// The CSR crosses the bus, if that is not where it is built, or the format, if that is not where it stays. As little as
// possible depends on the format, because this is compiled for each of them.
template <class T>
FormatMatrix<T> convert(const CsrMatrix<T>& given, const std::string& format, const Options& options, Device device,
                        Builders builders, const MatrixPlan* planned) {
    Device builder;
    with_format<T>(format, [&]<class Format>() {
        read_options<typename Format::Tuning>(format, options);  // bad options end it before any copy
        if (kBuildsOnGpu<Format> && builders == Builders::kOfDevice) builder = device;
    });

    FormatMatrix<T> stored;
    auto start = std::chrono::steady_clock::now();
    const bool is_there = given.device().has_own_memory() == builder.has_own_memory();
    const CsrMatrix<T> csr = is_there ? given : copy_to(given, builder);
    stored.took.transfer = seconds_since(start);

    start = std::chrono::steady_clock::now();
    std::optional<MatrixPlan> own;
    const MatrixPlan& plan =
        planned != nullptr ? *planned : own.emplace(plan_matrix(csr, format, options, target_of(device)));
    with_format<T>(format, [&]<class Format>() {
        const auto& made = std::any_cast<const typename Format::Plan&>(plan.made);
        stored.format.template emplace<Format>(build_where_it_is<Format>(csr, made));
    });
    stored.stores_in_order = plan.cost.stores_in_order;
    stored.counts = plan.counts;
    stored.longest_row = plan.longest_row > 0 ? plan.longest_row : gpu::run(LongestRow{csr.pattern()}, csr.device());
    stored.took.convert = seconds_since(start);

    start = std::chrono::steady_clock::now();
    // A format that is built from arrays in host memory may share those arrays, which belong to the caller.
    if (!builder.has_own_memory()) {
        std::visit([&](auto& built) { bring_to(device, built); }, stored.format);
    }
    stored.took.transfer += seconds_since(start);
    return stored;
}

template <class T>
CsrMatrix<T> read_csr(const AnyFormat<T>& stored) {
    AnyFormat<T> copy = stored;
    return std::visit(
        [](auto& format) {
            bring_to(Device{}, format);
            return format.to_csr();
        },
        copy);
}

template <class T>
CsrMatrix<T> read_csr_there(const AnyFormat<T>& stored, Device device, bool may_lend) {
    const auto* const is_csr = std::get_if<Csr<T>>(&stored);
    if constexpr (kHasCuda) {
        if (device.is_gpu() && is_csr == nullptr) {
            if (auto listed = list_entries_on_gpu<T>(stored, device.ordinal)) return std::move(*listed);
        }
    }
    CsrMatrix<T> csr = is_csr != nullptr ? is_csr->to_csr() : copy_to(read_csr<T>(stored), device);
    if (may_lend || csr.values.is_sole_owner()) return csr;
    Array<T> values(csr.values.size(), device);
    copy_bytes(values.data(), device, csr.values.data(), device, values.bytes());
    csr.values = std::move(values);
    return csr;
}

template <class T>
std::size_t FormatMatrix<T>::bytes() const {
    std::size_t bytes = 0;
    std::visit([&](const auto& f) { f.each_array(f, [&](const char*, const auto& array) { bytes += array.bytes(); }); },
               format);
    return bytes;
}

#define INSTANTIATE(T)                                                                                          \
    template MatrixPlan plan_matrix(const CsrMatrix<T>&, const std::string&, const Options&, const Target&);    \
    template FormatMatrix<T> convert(const CsrMatrix<T>&, const std::string&, const Options&, Device, Builders, \
                                     const MatrixPlan*);                                                        \
    template CsrMatrix<T> read_csr(const AnyFormat<T>&);                                                        \
    template CsrMatrix<T> read_csr_there(const AnyFormat<T>&, Device, bool);                                    \
    template struct FormatMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
