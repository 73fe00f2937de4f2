#include "planning/source.hpp"

#include <algorithm>
#include <mutex>

#include "core/errors.hpp"
#include "formats/times.hpp"

namespace spmvgpu {

namespace {

// Thresholds for format "auto", measured on an H200. A GPU's L2 delivers kSectorsPerUs sectors of x, 32 bytes each, in
// a microsecond; permuting an entry of x, and one of y back, takes as long as kSectorsOfOrder more; and kMeshClustering
// is the share of the columns of neighbouring rows that repeat in a mesh.
constexpr double kSectorsPerUs = 150e3, kSectorsOfOrder = 4.5, kMeshClustering = 0.4;

Features features_of(const AnyCsr& csr, Device device) {
    if constexpr (kHasCuda) {
        if (device.is_gpu()) return extract_features_on_gpu(csr, device.ordinal);
    }
    return extract_features(csr);
}

}  // namespace

const Features& AnySource::features() {
    const std::lock_guard lock(features_mutex_);
    if (!features_) features_ = features_of(any(), device());
    return *features_;
}

const Features* AnySource::known_features() {
    const std::lock_guard lock(features_mutex_);
    return features_ ? &*features_ : nullptr;
}

template <class T>
std::shared_ptr<const MatrixPlan> PlannedSource<T>::plan(const std::string& format, const Options& options,
                                                         const Target& target) {
    if (target.device != device()) return made_plan(format, options, target);
    const Key key{format, options, target.processors};
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    auto made = made_plan(format, options, target);
    const std::lock_guard lock(mutex_);
    plans_[key] = made;
    return made;
}

template <class T>
std::shared_ptr<const MatrixPlan> PlannedSource<T>::made_plan(const std::string& format, const Options& options,
                                                              Target target) {
    target.features = known_features();
    return std::make_shared<const MatrixPlan>(plan_matrix(this->csr(), format, options, target));
}

template <class T>
std::shared_ptr<Matrix<T>> PlannedSource<T>::build(const std::string& format, const Options& options, Device device,
                                                   Builders builders) {
    std::shared_ptr<const MatrixPlan> planned;
    const auto build_by = [&](Builders chosen) {
        return std::make_shared<Matrix<T>>(this->csr(), format, options, device, chosen, planned.get());
    };
    if (builders == Builders::kOfHost) return build_by(builders);
    if (device == this->device()) {
        const std::lock_guard lock(mutex_);
        const auto found = plans_.extract({format, options, target_of(device).processors});
        if (found) planned = found.mapped();
    }
    try {
        if (!planned && device == this->device()) planned = made_plan(format, options, target_of(device));
        return build_by(builders);
    } catch (const OutOfMemory&) {
        const std::lock_guard lock(mutex_);
        if (plans_.empty() && !device.is_gpu()) throw;
        plans_.clear();
    }
    try {
        return build_by(builders);
    } catch (const OutOfMemory&) {
        if (!device.is_gpu()) throw;
    }
    planned = nullptr;
    return build_by(Builders::kOfHost);
}

template <class T>
std::optional<typename CsrSource<T>::Reordered> PlannedSource<T>::nearer_order(const Budget& budget, Steps& steps) {
    const CsrMatrix<T>& csr = this->csr();
    if (csr.rows != csr.cols || csr.nnz < kSmallEntries) return {};
    const times::Machine machine{.processors = target_of(device()).processors, .is_gpu = device().is_gpu()};
    const auto sectors_of = [&](const Features& features) {
        return csr.nnz * times::Work(features, sizeof(T), machine).run_sectors();
    };
    const double sectors = sectors_of(timed(steps, "features", "", [&]() -> const Features& { return features(); }));
    const double of_order = kSectorsOfOrder * csr.rows;
    if (sectors < of_order || !budget.affords_order(sectors / kSectorsPerUs, csr.rows)) return {};
    auto found = timed(steps, "order", "", [&]() -> std::optional<typename CsrSource<T>::Reordered> {
        if (this->clustering() < kMeshClustering) return {};
        try {
            return this->by_clusters();
        } catch (const std::invalid_argument&) {  // a row is too long
            return {};
        } catch (const OutOfMemory&) {  // both do not fit
            return {};
        }
    });
    if (!found) return {};
    const double ordered =
        sectors_of(timed(steps, "features", "", [&] { return features_of(any_csr(found->csr), device()); }));
    return sectors - ordered > of_order ? std::move(found) : std::nullopt;
}

#define INSTANTIATE(T) template class PlannedSource<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
